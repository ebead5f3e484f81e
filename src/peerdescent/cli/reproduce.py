"""`peerdescent reproduce`: the paper's experiments, every number beside the printed one, one report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from peerdescent._util.validation import check_integer
from peerdescent.cli import flags
from peerdescent.cli.stopping import explained
from peerdescent.errors import InputError


def reproduce(
    what: Annotated[
        Literal[
            "nn", "cnn", "gamma", "all", "speedup", "heterogeneous-data", "communication", "placement", "heavy-tails"
        ],
        typer.Argument(help="Which experiment of the paper, or which of those that it lacks."),
    ],
    seeds: Annotated[int, typer.Option(help="Runs of each method, with seeds 0, 1, …")] = 3,
    reading: Annotated[
        Literal["code", "text"], typer.Option(help="As the authors' earlier code, or the text, has it.")
    ] = "code",
    out: Annotated[
        Path | None, typer.Option(help="Where records and report go; runs/reproduce-READING unless given.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs side by side, one thread each; all CPU cores unless given.")
    ] = None,
    budget: Annotated[float, typer.Option(help="Fraction of the iterations.")] = 1.0,
    quiet: flags.Quiet = False,
) -> None:
    """Run the paper's experiments and set every number beside the printed one.

    Examples:

    - `peerdescent reproduce all --seeds 3`

    - `peerdescent reproduce cnn --budget 0.05` runs a twentieth of the iterations, to try it out

    - `peerdescent reproduce speedup` and `heterogeneous-data` are studies that the paper lacks; `all` takes their
      verdicts from the same folder

    - `peerdescent reproduce communication` runs every method on graphs over time and with compressed messages, in
      minutes

    - `peerdescent reproduce placement` places powers, clips, signs and norms before and after every method's correction

    - `peerdescent reproduce heavy-tails` compares methods, tuned alike, under heavy-tailed and skewed gradient noise

    Stop it at any moment; the same command continues.
    """
    check_integer("seeds", seeds, 1)
    if not 0 < budget <= 1:
        raise InputError(f"budget = {budget}: expected a number above 0 and at most 1.")
    jobs = check_integer("jobs", os.cpu_count() or 1 if jobs is None else jobs, 1)
    out = out or Path("runs", f"reproduce-{reading}" + f"-{budget:g}" * (budget != 1))
    flags.silence(quiet)
    from rich.console import Console

    from peerdescent.reproduce.execution import execute

    console = Console(quiet=quiet, highlight=False)
    with explained(lambda: "the same command continues."):
        console.print(f"report: {execute(what, seeds, reading, budget, out, jobs, console)}")
