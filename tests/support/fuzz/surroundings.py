"""What surrounds a command: environment variables, the kernel cache, a disk that is full."""

from __future__ import annotations

import os
import random
import signal
import sysconfig
from pathlib import Path

from tests.support.fuzz.bases import FLAGS, METHOD, copy_cache
from tests.support.fuzz.cases import Case, Ended, Place, nothing
from tests.support.fuzz.values import number, text

RUN = ("run", *FLAGS, *METHOD, "--iterations", "4", "--out", "out")
PLACES = (
    "",
    "/dev/null",
    "/dev/null/x",
    "/proc/x",
    "{root}/file",
    "{root}/home/no/such",
    "x" * 300,
    "é",
    "relative",
    "~",
    "\n",
)
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
"""One process, which needs no other; what is changed below must be refused or not matter. A host that does not answer
is waited for, so the address stays."""
WRONG = {
    "RANK": ("-1", "1", "x", "", "1e3", "99999999999999999999"),
    "WORLD_SIZE": ("-2", "0", "x", "", "1.5", "99999999999999999999"),
    "MASTER_PORT": ("-1", "99999", "x", "", "65536", "99999999999999999999"),
    "TORCHELASTIC_RESTART_COUNT": ("x", "-1", "", "1.5", "99999999999999999999"),
    "TORCHELASTIC_USE_AGENT_STORE": ("x", ""),
}
NUMBERS = ("PEERDESCENT_CHECKPOINT_SECONDS", "PEERDESCENT_HEARTBEAT_SECONDS", *("OMP_NUM_THREADS",) * 3)
OTHERS = (
    "PEERDESCENT_DATA",
    "PEERDESCENT_X",
    "CC",
    "LANG",
    "TERM",
    "TZ",
    "NO_COLOR",
    "NO_COLOR",
    "HOME",
    "TMPDIR",
)


def environment(r: random.Random) -> Case:
    """A small run with one or two wrong variables."""
    chosen: dict[str, str | None] = {}
    if r.random() < 0.4:
        name = r.choice(list(WRONG))
        chosen = {**TORCHRUN, name: r.choice(WRONG[name])}
    for _ in range(r.choice((0, 1, 2)) or (not chosen)):
        name = r.choice(("PEERDESCENT_CACHE", *NUMBERS, *OTHERS))
        plain = text(r).replace("\0", "").encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        chosen[name] = number(r) if name in NUMBERS else r.choice((*PLACES, plain, None))
    kernel = () if r.random() < 0.3 else ("--kernel", "plain")
    return Case("environment", (*RUN, *kernel), environment=chosen, prepare=_with_a_file, real=r.random() < 0.1)


def _with_a_file(place: Place) -> None:
    copy_cache(place)
    (place.root / "file").touch()


def cache(r: random.Random) -> Case:
    """A run with damage to the compiled kernels."""
    damage, seed = (
        r.choice(("cut", "cut", "empty", "garbage", "folder", "other library", "link", "fifo", "bits")),
        r.random(),
    )

    def prepare(place: Place) -> None:
        copy_cache(place)
        again = random.Random(seed)
        for path in sorted(place.cache.rglob("*.kernel")):
            content = path.read_bytes()
            path.unlink()
            if damage in ("folder", "fifo"):
                path.mkdir() if damage == "folder" else os.mkfifo(path)
            elif damage == "link":
                path.symlink_to(again.choice(("missing", path.name, "/dev/null", "/dev/zero")))
            else:
                path.write_bytes({
                    "cut": content[: again.choice((10, 64, 1000, 4096, 5000, len(content) // 2, len(content) - 1))],
                    "empty": b"",
                    "garbage": again.randbytes(5000),
                    "other library": _other_library(),
                    "bits": bytes(byte ^ (again.random() < 0.001) for byte in content),
                }[damage])  # fmt: skip

    remark = f"kernels in the cache: {damage}"
    return Case("cache", RUN, prepare=prepare, check=_goes_on, remark=remark, real=r.random() < 0.05)


def _goes_on(ended: Ended) -> str | None:
    """What the cache holds can be made again, or done without."""
    return f"a damaged cache stops the run: exit code {ended.code}" if ended.code else None


def _other_library() -> bytes:
    """A library that loads but lacks the kernel."""
    folder = Path(sysconfig.get_config_var("DESTSHARED") or "/nonexistent")
    return next((path.read_bytes() for path in sorted(folder.glob("*.so"))), b"\x7fELF")


def struck(r: random.Random) -> Case:
    """A run that is interrupted or terminated, alone or shared by two processes, from its first moment on."""
    number = r.choice((signal.SIGINT, signal.SIGINT, signal.SIGTERM))
    several = r.random() < 0.3
    argv = (*RUN[:-4], "--iterations", "1000000", "--eval-every", "100", "--no-per-agent", "--out", "out")
    return Case(
        "signals",
        (*argv, "--workers", "2") if several else argv,
        environment={"PEERDESCENT_CHECKPOINT_SECONDS": "0.05"},
        prepare=copy_cache,
        strike=(number, r.uniform(0, 9) if several else r.choice((r.uniform(0, 0.3), r.uniform(0, 3)))),
        codes=frozenset({-number, 128 + number}),
        remark=f"{number.name} in the middle",
    )


def disk(r: random.Random) -> Case:
    """A disk that takes no more than some bytes per file: writing fails in the middle."""
    largest = r.choice((12, 16, 24, 48, 96)) << 10
    problem = (
        "--problem",
        "ripples",
        "--graph",
        "ring:4",
        "--set",
        f"problem.dimension={r.choice((2000, 5000, 20000))}",
    )
    methods = ("-a", "d-sgt-1", "-a", "d2") if r.random() < 0.2 else ("-a", "d-sgt-1")
    argv = ("compare" if len(methods) > 2 else "run", *problem, *methods, "--iterations", "4", "--out", "out")
    prepare = copy_cache if r.random() < 0.5 else nothing
    return Case(
        "disk",
        argv,
        prepare=prepare,
        largest_file=largest,
        drawn=r.random() < 0.2,
        remark=f"files end at {largest} bytes",
    )
