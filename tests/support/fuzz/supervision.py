"""The parent's side: two children at a time, none for longer than allowed, and nothing of them left behind."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.fuzz.cases import Case, Ended, Place
from tests.support.fuzz.child import RUNNING, contents, run_case

LIMIT = 30.0
"""Seconds after which a case is taken to hang; one that lacks a processor gets more, up to `PATIENCE` times as long."""
PATIENCE = 5
GRACE = 5.0
"""Seconds that helper processes may take to end after their command."""
DUMPING = 3.0
"""Seconds to write down where a hanging case is."""
SUBREAPER = 36
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class _Running:
    index: int
    case: Case
    place: Place
    pid: int
    began: float = field(default_factory=time.monotonic)
    running: float | None = None
    ended: float | None = None
    code: int = 0
    used: float = 0.0
    hung: bool = False
    struck: bool = False
    aborted: float | None = None
    cpu: tuple[float, float] = (0.0, 0.0)
    """The processor time that was seen last, and when it last changed or could have."""


def run_all(
    cases: Iterable[tuple[int, Case]], arena: Path, jobs: int = 2, limit: float = LIMIT, keep: bool = False
) -> Iterator[tuple[int, Case, Ended]]:
    """Run cases in forked children, a few at a time, and yield how they ended, in the order in which they end.

    Args:
        cases: numbers and cases.
        arena: a folder for theirs; its folder `bases` is what they copy.
        jobs: how many at a time.
        limit: seconds after which a case is taken to hang.
        keep: whether to keep the folders.
    """
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)  # orphans of a case become children of this process
    waiting, running = iter(cases), list[_Running]()
    try:
        while True:
            while len(running) < jobs and (next_one := next(waiting, None)) is not None:
                running.append(_start(*next_one, arena))
            if not running:
                return
            for child in _finished(running, limit):
                running.remove(child)
                yield child.index, child.case, _ended(child, running)
                if not keep:
                    shutil.rmtree(child.place.root, ignore_errors=True)
            time.sleep(0.004)
    finally:
        for child in running:
            _kill_group(child.pid)


def _start(index: int, case: Case, arena: Path) -> _Running:
    place = Place(arena / f"case-{index}", arena / "bases")
    shutil.rmtree(place.root, ignore_errors=True)
    place.make()
    pid = os.fork()
    if pid == 0:
        run_case(case, place)
    return _Running(index, case, place, pid)


def _finished(running: list[_Running], limit: float) -> list[_Running]:
    """Those that have ended, helpers and all, or were stopped."""
    _reap(running)
    now = time.monotonic()
    for child in running:
        _strike_if_due(child, now)
        if child.ended is None and child.aborted is None and _hangs(child, now, limit):
            child.hung, child.aborted = True, now
            _signal(child.pid, signal.SIGABRT)  # the fault handler writes down where it hangs
        elif child.ended is None and child.aborted is not None and now > child.aborted + DUMPING:
            _kill_group(child.pid)
    over = [child for child in running if child.ended is not None]
    return [child for child in over if child.hung or _is_alone(child, running, now)]


def _is_alone(child: _Running, running: list[_Running], now: float) -> bool:
    """Whether no process of a case is left, or for too long; one that lacks a processor gets more time."""
    left = _left(child, running)
    starved = any(_stat(pid)[:1] == ["R"] for pid in left)
    return not left or now > (child.ended or now) + GRACE * (PATIENCE if starved else 1)


def _strike_if_due(child: _Running, now: float) -> None:
    """Send the signal of a case: an interrupt to all its processes, as a terminal does, others to the first."""
    if child.case.strike is None or child.struck or child.ended is not None:
        return
    number, delay = child.case.strike
    if child.running is None and (child.place.root / RUNNING).exists():
        child.running = now
    if child.running is not None and now >= child.running + delay:
        child.struck = True
        _signal(-child.pid if number == signal.SIGINT else child.pid, number)


def _reap(running: list[_Running]) -> None:
    known = {child.pid: child for child in running}
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if child := known.get(pid):
            child.ended, child.code = time.monotonic(), os.waitstatus_to_exitcode(status)
            child.used = used.ru_utime + used.ru_stime


def _hangs(child: _Running, now: float, limit: float) -> bool:
    """Whether a case takes too long; one that could go on but lacks a processor is given more time."""
    if now < child.began + limit:
        return False
    members = _session(child.pid)
    used = sum(map(_processor_time, members))
    if used > child.cpu[0] or any(_stat(pid)[:1] == ["R"] for pid in members):
        child.cpu = used, now
    starved = used < limit / 2 and now < child.cpu[1] + limit / 10
    return not starved or now > child.began + PATIENCE * limit


def _ended(child: _Running, running: list[_Running]) -> Ended:
    alive = () if child.hung else tuple(_left(child, running))
    _kill_group(child.pid)
    for pid in alive:
        _signal(pid, signal.SIGKILL)
    while any(_stat(pid)[:1] not in ([], ["Z"]) for pid in alive):  # or they would be taken for those of the next case
        time.sleep(0.01)
    before, place = child.place.root / "before.json", child.place
    return Ended(
        place,
        child.code,
        _text(place.root / "stdout"),
        _text(place.root / "stderr"),
        (child.ended or child.began) - child.began,
        child.used,
        child.hung,
        json.loads(before.read_text()) if before.is_file() else {},
        contents(place),
        alive,
    )


def _left(child: _Running, running: list[_Running]) -> list[int]:
    """The processes that a case has left: those of its session, and orphans of no other case."""
    others = [one for one in running if one is not child]
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    orphans = {int(pid) for pid in children} - {child.pid}
    living = [pid for pid in orphans if _stat(pid)[:1] not in ([], ["Z"])]
    strays = {pid for pid in living if not any(_is_of(pid, one) for one in others)}
    return sorted(strays | (set(_session(child.pid)) if _group_lives(child.pid) else set()))


def _is_of(pid: int, child: _Running) -> bool:
    """Whether a process belongs to a case, by its session or, for one that has left it, by its environment."""
    fields = _stat(pid)
    if pid == child.pid or (fields and int(fields[3]) == child.pid):
        return True
    try:
        return os.fsencode(child.place.root) + b"/" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _session(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        fields = _stat(pid)
        if fields and int(fields[3]) == session and fields[0] != "Z":
            found.append(pid)
    return found


def _stat(pid: int) -> list[str]:
    """State, parent, group, session, … of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _processor_time(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        return


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="backslashreplace") if path.is_file() else ""
