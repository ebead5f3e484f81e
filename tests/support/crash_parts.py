"""Two processes that save checkpoints in parts, one of which dies at a call that changes files; one process goes on.

`python -m tests.support.crash_parts FOLDER COUNT` spreads COUNT crashes over all calls of both processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from tests.support.crash_points import CrashPoint, in_child, one_run

from peerdescent.distributed.launcher import workers
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.training import checkpoints, loop


def save_often() -> None:
    """A checkpoint after every second iteration."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    checkpoints.SECONDS_BETWEEN, checkpoints.SAVING_SHARE, loop.CHUNK = 0.0, 0, 2


def run_part(group: ProcessGroup, out: Path, rank: int, at: int, mode: str) -> list[int]:
    """The run of one process, which counts its calls and dies if it is the one to die; how many calls each made."""
    save_often()
    point = CrashPoint(at if group.rank == rank else 0, mode)
    point.install()
    one_run(out, group=group) if group.is_rank_zero else one_part(out, group)
    return group.gather_object(len(point.names))


def one_part(out: Path, group: ProcessGroup) -> None:
    """The same in a process that keeps no records: it cannot read them while rank 0 still writes."""
    from peerdescent import train
    from peerdescent.problems import quadratic

    chosen: dict[str, Any] = {"iterations": 6, "eval_every": 3, "batch_size": 1, "threads": 1}
    train(quadratic(agents=3, dimension=2, noise=1.0), "ring:3", "d2", out=out, group=group, **chosen)


def two(out: Path, rank: int = 0, at: int = 0, mode: str = "before") -> list[int]:
    """Two processes, this one and a worker."""
    with workers(2, run_part, out, rank, at, mode) as group:
        return run_part(group, out, rank, at, mode)


def check(out: Path, rank: int, at: int, mode: str, wanted: dict[str, Any]) -> None:
    """One crash: the other process ends with a sentence, and one process goes on to the same end."""
    code, said = in_child(lambda: two(out, rank, at, mode))
    where = f"rank {rank}, {mode} call {at}: {said}"
    assert code == (-signal.SIGKILL if rank == 0 else 1), where
    assert rank == 0 or "PeerLostError" in said, where
    for _ in range(100):  # a worker that has lost rank 0 ends on its own
        if not list(out.rglob("*.part")):
            break
        time.sleep(0.05)
    code, again = in_child(lambda: one_run(out, resume=True))
    assert code == 0, f"{where}, then {again}"
    assert again == wanted, where
    shutil.rmtree(out)


def main(folder: Path, count: int) -> None:
    save_often()
    os.makedirs(folder, exist_ok=True)
    wanted = one_run(folder / "undisturbed")
    code, calls = in_child(lambda: two(folder / "two"))
    assert code == 0, calls
    for number in range(count):
        rank, mode = number % 2, ("before", "after", "torn")[number % 3]
        at = 1 + (calls[rank] - 1) * number // count
        check(folder / f"{rank}-{at}-{mode}", rank, at, mode, wanted)
    print(f"{count} crashes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
