"""What cases begin with: a filled kernel cache, run folders that are whole, and the results that they lead to."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.fuzz.cases import Case, Ended, Place
from tests.support.fuzz.commands import METHODS
from tests.support.fuzz.supervision import run_all

FLAGS = (
    *("--problem", "quadratic", "--graph", "ring:4", "--set", "problem.dimension=6", "--set", "problem.noise=1"),
    *("--batch-size", "4", "--eval-every", "2", "--seed", "3"),
)
METHOD = ("--algorithm", "d-sgt-1")
HALF, WHOLE = ("--iterations", "10"), ("--iterations", "20")
OFTEN = {"PEERDESCENT_CHECKPOINT_SECONDS": "0"}
"""Two checkpoints are kept, and there are two after a few iterations."""
WARM = """
import warnings, peerdescent
warnings.simplefilter("ignore")
for name in {methods!r}:
    peerdescent.train("quadratic", "ring:4", name, iterations=1)
"""
RUNS = ("single", "workers")
PATIENCE = 600.0


def build(arena: Path) -> None:
    """Make the bases in `arena`/bases; each comes from a command in a process of its own."""
    bases = arena / "bases"
    shutil.rmtree(bases, ignore_errors=True)
    bases.mkdir(parents=True)
    commands: dict[str, tuple[str, ...]] = {
        "single": ("run", *FLAGS, *METHOD, *HALF, "--out", "single"),
        "undisturbed": ("run", *FLAGS, *METHOD, *WHOLE, "--out", "undisturbed"),
        "workers": ("run", *FLAGS, *METHOD, *HALF, "--workers", "2", "--out", "workers"),
        "comparison": ("compare", *FLAGS, *HALF, "-a", "d-sgd-1", "-a", "d2", "--out", "comparison"),
        "tuned": ("tune", *FLAGS, *HALF, "-a", "d-sgd-1", "--trials=2", "--seeds=1", "--jobs=1", "--out", "tuned"),
    }
    warm = Case("base", code=WARM.format(methods=METHODS))
    made = [warm, *(Case("base", argv, environment=OFTEN, drawn=True) for argv in commands.values())]
    for _, case, ended in run_all(list(enumerate(made)), arena, limit=PATIENCE, keep=True):
        if ended.code != 0:
            raise RuntimeError(f"{case.shown} ended with {ended.code}: {ended.err}")
        if case.argv:
            name = case.argv[-1]
            shutil.copytree(ended.place.here / name, bases / name)
            (bases / f"{name}.notes").write_text("\n".join(sorted(ended.notes)))
        else:
            shutil.copytree(ended.place.cache, bases / "cache")
        shutil.rmtree(ended.place.root)


def copy_cache(place: Place) -> None:
    """Give a case the filled cache: compiling takes longer than most cases."""
    shutil.copytree(place.bases / "cache", place.cache, dirs_exist_ok=True)


def known_notes(ended: Ended, base: str = "undisturbed") -> set[str]:
    """What the undisturbed run warned of."""
    return set((ended.place.bases / f"{base}.notes").read_text().splitlines())
