"""`compare` with several jobs: the same results as with one, and nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.commands import without_seconds

from peerdescent import Result, compare, problems
from peerdescent._util.numbers import jsonable
from peerdescent.algorithms import DSGD1
from peerdescent.errors import InputError

RUN: dict[str, Any] = {"iterations": 30, "kernel": "plain", "seeds": 2, "grid": {"eta": [0.1, 90.0]}, "eval_every": 10}


def rows(result: Result) -> Any:
    """What a run recorded, with nothing in place of NaN, which does not equal itself."""
    return jsonable(without_seconds(list(result.metrics)))


@pytest.mark.e2e
def test_jobs_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    problem = problems.make("quadratic", 4, noise=1.0)
    methods = {"mine": DSGD1(eta=0.2), "d2": "d2"}
    alone, together = (compare(problem, "ring:4", methods, jobs=jobs, **RUN) for jobs in (1, 2))
    assert list(alone) == list(together)
    for label in alone:
        for one, other in zip(alone.results[label], together.results[label], strict=True):
            assert torch.equal(one.x, other.x) or one.diverged
            assert one.diverged == other.diverged
            assert rows(one) == rows(other)
    with pytest.raises(InputError, match="jobs=1"):
        compare(problem, "ring:4", {"mine": DSGD1(eta=lambda k: 0.1)}, jobs=2, iterations=5)
