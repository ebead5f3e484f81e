"""What is wrong with the way a case ended, and the report on all of them."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from tests.support.fuzz.cases import Case, Ended
from tests.support.fuzz.child import NOT_PREPARED

GROUPS = 20
TRACEBACK = "Traceback (most recent call last)"
FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+),? in (\S+)', re.MULTILINE)
RAISED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Stop\w*))\b", re.MULTILINE)
PACKAGE = "/src/peerdescent/"
"""Part of the paths of the project's modules; a clone may have any name, that of the project too."""
TEMPORARY = ("*.part", "*.tmp", "cache/tmp*", "tmp/*", "shm/*")
"""What nobody should find after a command: unfinished files, temporary folders, shared memory."""
OF_TORCH = "tmp/torchinductor_*"
"""A cache that torch makes by itself."""
OWN = ("before.json", "running", "stdout", "stderr", "home*", "cache", "tmp", "shm", "here")
"""What the fuzzer itself puts into a case's folder."""
WRONG_INPUT = 2


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong; those of the same `group` are reported together."""

    group: str
    detail: str


@dataclass
class Found:
    """All faults of one group."""

    example: str
    detail: str
    repeat: str
    count: int = 0
    kinds: set[str] = field(default_factory=set)


def faults(case: Case, ended: Ended, codes: frozenset[int]) -> list[Fault]:
    """What is wrong with a case that has ended; `codes` are the exit codes that are documented."""
    tail = "\n".join(ended.err.splitlines()[-12:])
    if ended.code == NOT_PREPARED:
        return [Fault("the fuzzer itself failed", tail)]
    if ended.hung:
        return [Fault(f"hangs in {_place_of_dump(ended.err)}", f"after {ended.seconds:.0f} s\n{_dump(ended.err)}")]
    if ended.code < 0 and ended.code not in case.codes:
        name = signal.Signals(-ended.code).name
        return [Fault(f"{name} in {_place_of_dump(ended.err)}", _dump(ended.err))]
    if TRACEBACK in ended.err:
        return [Fault(_place_of_traceback(ended.err), tail)]
    if ended.code not in codes | case.codes:
        return [Fault(f"undocumented exit code {ended.code}", tail)]
    found = _wordy(case, ended) + _left_behind(ended) + _lost(ended)
    if wrong := case.check(ended):
        found.append(Fault(wrong.split(":")[0], wrong))
    return found


def _wordy(case: Case, ended: Ended) -> list[Fault]:
    """A command that fails says one sentence; one that ends well says nothing on stderr but notes."""
    if case.code:
        return []
    foreign = ("note: ", "libgomp: ")  # the OpenMP runtime judges its variables before Python starts
    lines = [line for line in ended.err.splitlines() if line.strip() and not line.startswith(foreign)]
    tail = "\n".join(ended.err.splitlines()[-12:])
    if ended.code == 0 and lines:
        return [Fault(f"stderr of a command that ends well: {re.sub(r'[0-9]+', 'N', lines[0])[:60]}", tail)]
    if ended.code > 0 and not (len(lines) == 1 and lines[0].startswith("peerdescent: ")) and "--help" not in ended.out:
        return [Fault(f"{len(lines)} lines in place of one sentence", tail or "(nothing on stderr)")]
    if ended.code and lines and lines[0].startswith("peerdescent: the run: "):
        return [Fault("a sentence that names no file", tail)]
    return []


def _left_behind(ended: Ended) -> list[Fault]:
    """Processes, temporary files, and anything at all after wrong input."""
    found = []
    if ended.alive:
        found.append(Fault("processes that outlive the command", f"{len(ended.alive)} processes"))
    new = [name for name in ended.after if name not in ended.before]
    for pattern in TEMPORARY:
        left = [name for name in new if fnmatch(name, pattern) and not fnmatch(name, OF_TORCH)]
        if left:
            found.append(Fault(f"leftovers: {pattern}", ", ".join(left[:5])))
    outside = [name for name in new if "/" not in name and not any(fnmatch(name, own) for own in OWN)]
    if outside:
        found.append(Fault("files outside of the working directory", ", ".join(outside[:5])))
    made = [name for name in new if name.startswith("here/") and not name.endswith((".part", ".lock"))]
    if ended.code == WRONG_INPUT and made:
        found.append(Fault("wrong input leaves files", ", ".join(made[:5])))
    return found


def _lost(ended: Ended) -> list[Fault]:
    """Wrong input takes nothing away and changes nothing."""
    if ended.code != WRONG_INPUT:
        return []
    files = {name: seen for name, seen in ended.before.items() if name.startswith("here/") and not _passing(name)}
    gone = [name for name in files if name not in ended.after]
    changed = [name for name, seen in files.items() if ended.after.get(name, seen) != seen]
    found = [Fault("wrong input removes files", ", ".join(gone[:5]))] if gone else []
    return found + ([Fault("wrong input changes files", ", ".join(changed[:5]))] if changed else [])


def _passing(name: str) -> bool:
    return name.endswith((".part", ".lock", ".writable"))


def _place_of_traceback(err: str) -> str:
    """The exception, and where in the project it was raised or passed through last."""
    text = err[err.rindex(TRACEBACK) :]
    names = RAISED.findall(text)
    return f"{names[-1] if names else 'exception'} in {_frame(FRAME.findall(text))}"


def _dump(err: str) -> str:
    """What the fault handler wrote of the main thread: the innermost frames."""
    text = err[max(err.rfind("Fatal Python error"), 0) :]
    return "\n".join(text[max(text.find("Current thread"), 0) :].partition("\n\n")[0].splitlines()[:6])


def _place_of_dump(err: str) -> str:
    """Where the fault handler saw the main thread; it writes the innermost frame first."""
    text = err[max(err.rfind("Fatal Python error"), 0) :]
    return _frame(FRAME.findall(text[max(text.find("Current thread"), 0) :].partition("\n\n")[0])[::-1])


def _frame(frames: Sequence[tuple[str, str, str]]) -> str:
    """The innermost frame of the project, followed by the innermost of all if that is another."""
    if not frames:
        return "unknown place"
    named = [f"{_short(path)}:{name}" for path, _, name in frames]
    own = [name for (path, _, _), name in zip(frames, named, strict=True) if PACKAGE in path]
    return named[-1] if not own or own[-1] == named[-1] else f"{own[-1]} ({named[-1]})"


def _short(path: str) -> str:
    return path.rpartition(PACKAGE)[2] if PACKAGE in path else "/".join(path.split("/")[-2:])


class Report:
    """Faults, grouped, with one example of each group."""

    def __init__(self, seed: int, codes: Iterable[int]) -> None:
        self.seed, self.codes = seed, frozenset(codes)
        self.groups: dict[str, Found] = {}
        self.ends: dict[int, int] = {}
        self.cases = self.failed = 0
        self.longest = 0, ""
        """The most characters of one error sentence, and the case."""

    def add(self, index: int, case: Case, ended: Ended) -> list[Fault]:
        """Judge a case."""
        found = faults(case, ended, self.codes)
        self.cases, self.failed = self.cases + 1, self.failed + bool(found)
        self.ends[ended.code] = self.ends.get(ended.code, 0) + 1
        said = max((len(line) for line in ended.err.splitlines() if line.startswith("peerdescent: ")), default=0)
        self.longest = max(self.longest, (said, f"{self.seed}:{index}"))
        for fault in found:
            repeat = f"python -m tests.support.fuzz {self.seed}:{index}"
            group = self.groups.setdefault(fault.group, Found(case.shown, fault.detail, repeat))
            group.count += 1
            group.kinds.add(case.kind)
        return found

    def __str__(self) -> str:
        ends = ", ".join(f"{code}: {count}" for code, count in sorted(self.ends.items()))
        lines = [f"seed {self.seed}: {self.failed} of {self.cases} cases failed (cases by exit code: {ends})"]
        if self.longest[0]:
            lines.append("the longest error sentence has {} characters: case {}".format(*self.longest))
        ranked = sorted(self.groups.items(), key=lambda item: -item[1].count)
        for name, group in ranked[:GROUPS]:
            detail = "\n".join(f"      {line[:200]}" for line in group.detail.splitlines()[-6:])
            kinds = ", ".join(sorted(group.kinds))
            lines += ["", f"{group.count} × {name} [{kinds}]", f"    {group.example}", f"    repeat: {group.repeat}"]
            lines += [detail] if detail else []
        further = [f"{group.count} × {name}; repeat: {group.repeat}" for name, group in ranked[GROUPS:]]
        lines += ["", f"and {len(further)} further groups:", *further] if further else []
        return "\n".join(lines)
