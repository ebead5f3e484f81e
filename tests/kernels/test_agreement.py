"""All processes of a run use the same kernel, also if the compiler of one of them is missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.process_runs import one_run

from peerdescent import InputError, Result
from peerdescent.distributed.launcher import workers
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.kernels import compiler


def without_compiler_in_rank_one(group: ProcessGroup, cache: Path, runs: list[dict[str, Any]]) -> list[Any]:
    """The results of the runs, or the sentences with which they end."""
    before, compiler._find = dict(os.environ), compiler._find.__wrapped__
    os.environ["PEERDESCENT_CACHE"] = str(cache)
    if group.rank == 1:
        os.environ.update(PATH=str(cache), CC="")
    results: list[Any] = []
    try:
        for run in runs:
            try:
                results.append(one_run(group, **run))
            except InputError as error:
                results.append(str(error))
        group.barrier()
        return group.gather_object([r.kernel if isinstance(r, Result) else r for r in results]) + results
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_if_one_process_cannot_compile_all_use_the_plain_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "_find", compiler._find)  # put back what the runs replace
    runs: list[dict[str, Any]] = [
        {"kernel": "auto"},
        {"kernel": "auto", "communication_period": 3},
        {"kernel": "compiled"},
        {"kernel": "plain"},
        {"kernel": "plain", "communication_period": 3},
    ]
    with workers(2, without_compiler_in_rank_one, tmp_path, runs) as group:
        *descriptions, auto, periodic, refused, plain, plain_periodic = without_compiler_in_rank_one(
            group, tmp_path, runs
        )
    for rank, here in enumerate(descriptions):
        assert all("plain" in text and "no C compiler found" in text for text in here[:3]), here
        assert ("process 1: " in here[0]) == (rank == 0)
    assert refused.startswith("kernel = 'compiled' is not available here: process 1: no C compiler found")
    assert torch.equal(auto.x, plain.x)
    assert torch.equal(periodic.x, plain_periodic.x)
