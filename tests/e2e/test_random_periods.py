"""Random exchanges in several processes: the trajectory and the bytes of one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.support.process_runs import in_processes, one_run

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.mark.parametrize("count", [2, 5])
def test_any_number_of_processes_has_the_same_trajectory(count: int) -> None:
    common: dict[str, Any] = {"gradients": "loop", "iterations": 30, "communication_period": "random:0.3"}
    runs = [{**common, "method": name} for name in ("proxskip", "led", "k-gt", "choco-sgd", "motef", "dsgpa-f")]
    for run, several in zip(runs, in_processes(count, runs), strict=True):
        one = one_run(None, **run)
        assert torch.equal(one.x, several.x), run["method"]
        assert one.metrics["bytes_sent"] == several.metrics["bytes_sent"]
