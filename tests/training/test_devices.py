"""Which device a process takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.training.devices import local_rank


def group(rank: int, hosts: tuple[str, ...]) -> ProcessGroup:
    return cast(ProcessGroup, SimpleNamespace(rank=rank, hosts=hosts))


@pytest.mark.parametrize(("rank", "expected"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)])
def test_processes_are_counted_on_each_host(rank: int, expected: int) -> None:
    assert local_rank(group(rank, ("a", "b", "a", "b", "a"))) == expected


def test_torchrun_counts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    variables: dict[str, Any] = {"RANK": 3, "WORLD_SIZE": 4, "MASTER_ADDR": "a", "MASTER_PORT": 1, "LOCAL_RANK": 1}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    assert local_rank(group(3, ("a", "a", "a", "a"))) == 1
