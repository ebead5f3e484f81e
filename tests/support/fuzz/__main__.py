"""Run the fuzzer, or repeat single cases: `python -m tests.support.fuzz [SEED:CASE …]`."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import pkgutil
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.fuzz.verdicts import Report

SEED, CASES = "PEERDESCENT_FUZZ_SEED", "PEERDESCENT_FUZZ_CASES"
DEFAULT = 2000


def main() -> int:
    """The exit code: 0 if nothing was found."""
    given = _arguments()
    seed = int(given.seed) if given.seed else secrets.randbelow(10**6)
    single = [text.split(":") for text in given.case]
    if len({first for first, _ in single}) > 1:
        sys.exit("cases of one seed at a time")
    seed = int(single[0][0]) if single else seed
    _warm_up()
    from tests.support.fuzz import mix, verdicts

    wanted = [int(index) for _, index in single] or list(range(given.cases))
    print(f"seed {seed}: {len(wanted)} cases", flush=True)
    report = verdicts.Report(seed, mix.documented_codes())
    arena = Path(given.keep or tempfile.mkdtemp(prefix="fuzz-"))  # TemporaryDirectory would be removed by every fork
    try:
        _run(given, seed, wanted, arena, report, bool(single))
    except KeyboardInterrupt:
        print("interrupted: what was found until then follows")
    finally:
        if not given.keep:
            shutil.rmtree(arena, ignore_errors=True)
    print(report, flush=True)
    return int(report.failed > 0)


def _run(
    given: argparse.Namespace, seed: int, wanted: Sequence[int], arena: Path, report: Report, detailed: bool
) -> None:
    from tests.support.fuzz import bases, mix, supervision

    begin = time.monotonic()
    bases.build(arena)
    print(f"bases: {time.monotonic() - begin:.0f} s", flush=True)
    cases = ((index, case) for index in wanted if (case := mix.make(seed, index)).kind in (given.kind or case.kind))
    spent: Counter[str] = Counter()
    begin = time.monotonic()
    for index, case, ended in supervision.run_all(cases, arena, given.jobs, given.limit, bool(given.keep)):
        found = report.add(index, case, ended)
        spent[case.kind] += round(1000 * ended.used)
        if detailed:
            print(case, ended, found, sep="\n")
        elif report.cases % 250 == 0:
            print(f"{report.cases} cases, {report.failed} failed, {time.monotonic() - begin:.0f} s", flush=True)
    used = ", ".join(f"{kind} {spent[kind] / 1000:.0f} s" for kind in sorted(spent))
    print(f"{report.cases} cases in {time.monotonic() - begin:.0f} s; processor time: {used}")


def _arguments() -> argparse.Namespace:
    from tests.support.fuzz import mix

    parser = argparse.ArgumentParser(prog="python -m tests.support.fuzz", description=__doc__)
    parser.add_argument("case", nargs="*", help="SEED:CASE: repeat these only, and show all they say")
    parser.add_argument(
        "--seed", default=os.environ.get(SEED), help=f"decides all cases (${SEED}); a new one unless given"
    )
    parser.add_argument("--cases", type=int, default=int(os.environ.get(CASES) or DEFAULT), help=f"how many (${CASES})")
    parser.add_argument("--kind", action="append", choices=list(mix.KINDS), help="these only; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds after which a case hangs")
    parser.add_argument("--keep", help="work in this folder, and leave the folders of the cases in it")
    return parser.parse_args()


def _warm_up() -> None:
    """Import once what every case needs. Nothing is computed here: threads would not survive the forks."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MPLBACKEND="Agg")
    import torch

    import peerdescent

    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(peerdescent.__file__).parent.parent), os.getcwd()])
    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(peerdescent.__path__, "peerdescent."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("matplotlib.pyplot", "scipy.optimize", "scipy.sparse.linalg", "pandas", "safetensors.numpy"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
