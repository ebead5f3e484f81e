"""How much memory this process may still take: what the machine has, and what its container allows."""

from __future__ import annotations

import os
from pathlib import Path

from peerdescent._util.byte_units import human_bytes
from peerdescent._util.validation import shortened
from peerdescent.errors import InputError

KILO = 1024
MEMINFO, CGROUPS, SYSTEM = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Return the bytes that can be taken without swapping, or None if the system does not say."""
    known = [size for size in (_of_machine(), *_of_cgroups()) if size is not None]
    return min(known, default=None)


def check_fits(what: str, size: int) -> None:
    """Refuse to make something of so many bytes if they are not free.

    >>> check_fits("quadratic with 10 agents and dimension 1,000,000", 8 * 10**13)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: quadratic with 10 agents and dimension 1,000,000 needs about 80.0 TB for ...
    """
    free = available_memory()
    if free is not None and size > free:
        raise InputError(
            f"{shortened(what)} needs about {human_bytes(size)} for its data, and {human_bytes(free)} of memory are "
            "free: choose fewer agents, or smaller options of the problem."
        )


def _of_machine() -> int | None:
    """Linux counts what it can free at once; elsewhere the whole memory is an upper limit."""
    for line in _text(MEMINFO).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * KILO
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None


def _of_cgroups() -> list[int | None]:
    """What is left below the limit of each group of processes that this one belongs to."""
    found = []
    for line in _text(CGROUPS).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "" or "memory" in controllers.split(","):
            first = controllers != ""  # the first version has a hierarchy for each controller
            root = SYSTEM / "memory" if first else SYSTEM
            group = root / path.lstrip("/")
            found += [_left(folder, first) for folder in (group, *group.parents) if folder.is_relative_to(root)]
    return found


def _left(folder: Path, first_version: bool) -> int | None:
    """The limit of a group minus what it uses; the cache of files that it has read can be freed."""
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if first_version else ("memory.max", "memory.current")
    limit, used = (_number(_text(folder / name)) for name in names)
    if limit is None or used is None:  # the limit is "max"
        return None
    statistics = dict(line.split()[:2] for line in _text(folder / "memory.stat").splitlines() if " " in line)
    cached = _number(statistics.get("total_inactive_file" if first_version else "inactive_file", "")) or 0
    return max(0, limit - used + min(cached, used))


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
