"""A process that dies just before, just after or in the middle of any call that changes files.

`python -m tests.support.crash_points FOLDER STRIDE OFFSET` runs every scenario in forked children, kills each of them
at one point, lets another child go on, and exits with an assertion if that one does not end as an undisturbed run.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import pickle
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from peerdescent import InputError, train
from peerdescent.problems import quadratic
from peerdescent.runs.contents import is_run_folder
from peerdescent.training import checkpoints, loop

CALLS = ("fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir", "ftruncate", "pwrite")


class CrashPoint:
    """Counts the calls that change files, and kills the process at one of them.

    Args:
        at: the number of the call, from 1; 0 only counts.
        mode: before or after the call, or before it with half of what was written since the last flush.
    """

    def __init__(self, at: int = 0, mode: str = "before") -> None:
        self.at, self.mode, self.names = at, mode, list[str]()

    def install(self) -> None:
        """Intercept the calls from now on."""
        for name in CALLS:
            setattr(os, name, self._wrapped(name, getattr(os, name), lambda *_: True))
        writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        os.open = self._wrapped("open", os.open, lambda path, flags, *_: flags & writing)
        io.open = builtins.open = self._wrapped("open", open, lambda file, mode="r", *_: set(mode) & set("wax+"))

    def _wrapped(self, name: str, call: Callable[..., Any], counts: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **named: Any) -> Any:
            if not counts(*given):
                return call(*given, **named)
            self.names.append(name)
            number = len(self.names)
            if number == self.at and self.mode == "torn":
                tear(given[0])
            if number == self.at and self.mode != "after":
                die()
            try:
                return call(*given, **named)
            finally:  # also after a call that fails, such as the removal of what is not there
                if number == self.at:
                    die()

        return wrapped


def tear(descriptor: object) -> None:
    """Lose half of what a file has got since it was last flushed: all of a temporary file, the last line of metrics."""
    if not isinstance(descriptor, int):
        return
    path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    if path.is_file() and path.suffix in (".part", ".jsonl"):
        content = path.read_bytes()
        begin = content.rstrip(b"\n").rfind(b"\n") + 1 if path.suffix == ".jsonl" else 0
        os.truncate(path, begin + (len(content) - begin) // 2)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(work: Callable[[], Any]) -> tuple[int, Any]:
    """What a forked child returns or raises; −9 and None if it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 0
        try:
            answer = work()
        except InputError as error:
            code, answer = 2, str(error)
        except BaseException:
            code, answer = 1, traceback.format_exc()
        with open(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, pickle.loads(said) if said else None


def one_run(out: Path, **more: Any) -> dict[str, Any]:
    """A short run with a checkpoint after every second iteration; what it ends with, but for the time it took."""
    chosen = {"iterations": 6, "eval_every": 3, "batch_size": 1, "threads": 1, **more}
    result = train(quadratic(agents=3, dimension=2, noise=1.0), "ring:3", "d2", out=out, **chosen)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    rows = [{key: value for key, value in line.items() if not key.endswith("seconds")} for line in lines]
    summary = json.loads((out / "summary.json").read_text())
    del summary["seconds"], summary["evaluation_seconds"]
    saved = sorted(path.name for path in (out / "checkpoints").iterdir())
    return {"x": result.x.numpy().tobytes(), "rows": rows, "summary": summary, "saved": saved[-1]}


def fresh(out: Path) -> None:
    """Nothing is there."""


def half(out: Path) -> None:
    """A run that was killed after its second checkpoint, at iteration 3."""
    one_run(out, iterations=3)
    (out / "summary.json").unlink()


def another(out: Path) -> None:
    """A run with another seed."""
    one_run(out, seed=9)


SCENARIOS: dict[str, tuple[Callable[[Path], None], dict[str, Any]]] = {
    "fresh": (fresh, {}),
    "resumed": (half, {"resume": True}),
    "overwritten": (another, {"overwrite": True}),
}
"""What is there, and how the run that is killed was started."""


def points(scenario: str, folder: Path) -> list[str]:
    """The calls of a scenario that change files."""
    prepare, flags = SCENARIOS[scenario]
    folder.mkdir(exist_ok=True)
    prepare(folder / "count")

    def counted() -> list[str]:
        point = CrashPoint()
        point.install()
        one_run(folder / "count", **flags)
        return list(point.names)

    code, names = in_child(counted)
    assert code == 0, names
    return list(names)


def check(scenario: str, at: int, mode: str, folder: Path, wanted: dict[str, Any]) -> None:
    """Kill one run at one point; whoever goes on ends as if nothing had happened."""
    prepare, flags = SCENARIOS[scenario]
    out = folder / f"{scenario}-{at}-{mode}"
    prepare(out)

    def killed() -> None:
        CrashPoint(at, mode).install()
        one_run(out, **flags)

    code, said = in_child(killed)
    assert code == -signal.SIGKILL, f"{scenario}, {mode} call {at} was not reached: {said}"
    ways: dict[str, dict[str, Any]] = {"resume": {"resume": True}, "overwrite": {"overwrite": True}, "plain": {}}
    for name, again in ways.items():
        copy = out.with_name(f"{out.name}-{name}")
        if out.exists():
            shutil.copytree(out, copy)
        code, said = in_child(lambda copy=copy, again=again: one_run(copy, **again))
        where = f"{scenario}, {mode} call {at}, {name}: {said}"
        if name == "plain" and is_run_folder(out):
            assert code == 2, where
            assert "add --resume or --overwrite" in said, where
        elif name == "resume" and scenario == "overwritten" and code == 2:
            assert "holds another run (seed = 9 there and 0 here)" in said, where
        else:
            assert code == 0, where
            assert said == wanted, where
            assert not list(copy.rglob("*.part")), where
        shutil.rmtree(copy, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)


def cases(folder: Path) -> Iterator[tuple[str, int, str]]:
    for scenario in SCENARIOS:
        for at, name in enumerate(points(scenario, folder / scenario), start=1):
            for mode in ("before", "after", "torn") if name == "fsync" else ("before", "after"):
                yield scenario, at, mode


def main(folder: Path, stride: int, offset: int) -> None:
    torch.set_num_threads(1)  # forked children have no other threads
    warnings.simplefilter("ignore")
    checkpoints.SECONDS_BETWEEN, checkpoints.SAVING_SHARE, loop.CHUNK = 0.0, 0, 2
    wanted = one_run(folder / "undisturbed")
    chosen = list(cases(folder))[offset::stride]
    for scenario, at, mode in chosen:
        check(scenario, at, mode, folder, wanted)
    print(f"{len(chosen)} crashes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
