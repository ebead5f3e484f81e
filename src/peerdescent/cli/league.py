"""`peerdescent league`: every method on the same tasks, tuned at an equal budget; ranks with their uncertainty."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from peerdescent._util.validation import check_integer
from peerdescent.cli import flags
from peerdescent.cli.stopping import explained
from peerdescent.cli.tune import MOST_JOBS, MOST_RUNS

QUICK: dict[str, Any] = {"data": ("digits",), "iterations": 48, "trials": 3, "seeds": 2}
"""What --quick runs, unless other flags say otherwise."""
Names = list[str] | None


def league(
    algorithm: Annotated[
        Names, typer.Option("--algorithm", "-a", metavar="NAME", help="Methods; all that are registered unless given.")
    ] = None,
    data: Annotated[
        Names, typer.Option(metavar="NAME", help="Data sets: adult, fashion-mnist, digits; all of them unless given.")
    ] = None,
    partition: Annotated[
        Names, typer.Option(metavar="SPLIT", help="How they are split; iid and dirichlet:0.1 unless given.")
    ] = None,
    graph: Annotated[
        Names, typer.Option(metavar="GRAPH", help="Who talks to whom; ring:16 and onepeer-exp:16 unless given.")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(metavar="K", max=10**9, help="Of a measured run; 400 unless given.")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(metavar="N", max=MOST_RUNS, help="Trial runs of each method on each task; 12 unless given."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", max=MOST_RUNS, help="Fresh seeds, 1, 2, …; 3 unless given.")
    ] = None,
    network: Annotated[
        str, typer.Option(metavar="NETWORK", help="Of the clock: a TOML file, or a name of `list networks`.")
    ] = "wan",
    load: Annotated[
        Names, typer.Option(metavar="FILE", help="A Python file that registers methods of your own; it is run.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Digits only, short runs, few trials: a minute or two, to try it out.")
    ] = False,
    so_far: Annotated[
        bool, typer.Option("--so-far", help="Run nothing: make the page from the tasks that are finished.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(parser=flags.path_of, metavar="PATH", help="The folder; runs/league unless given.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", max=MOST_JOBS, help="Side by side; all processors unless given.")
    ] = None,
    quiet: flags.Quiet = False,
) -> None:
    """Tune all methods at an equal budget, measure them on fresh seeds, and rank them on the same tasks.

    One page has the ranks by loss at equal iterations, equal bytes and equal simulated seconds, with their uncertainty,
    and names no winner where the seeds disagree.

    Examples:

    - `peerdescent league --quick` tries it out

    - `peerdescent league` plays all methods on twelve tasks: 40 minutes of processor time

    - `peerdescent league --load mine.py` lets methods of your own join; what is finished is not run again

    - `peerdescent league -a d2,nids,extra --data digits --graph torus:4x4 --seeds 10`

    -a, --data, --partition, --graph and --load may be given several times, the first three also with commas. Stop it
    at any moment; the same command continues, and newly registered methods join.
    """
    keys: dict[str, Any] = dict(QUICK) if quick else {}
    listed = {"methods": algorithm, "data": data, "partitions": partition}
    keys |= {key: tuple(name for text in texts for name in text.split(",")) for key, texts in listed.items() if texts}
    keys |= {key: tuple(texts) for key, texts in {"graphs": graph, "load": load}.items() if texts}
    numbers = {"iterations": iterations, "trials": trials, "seeds": seeds}
    keys |= {key: check_integer(key, number, 1) for key, number in numbers.items() if number is not None}
    jobs = check_integer("jobs", os.cpu_count() or 1 if jobs is None else jobs, 1)
    flags.silence(quiet)
    from peerdescent.clock.files import read

    read(network)  # wrong input is found before torch is imported
    from rich.console import Console

    from peerdescent.league.execution import execute
    from peerdescent.league.tasks import League

    console = Console(quiet=quiet, highlight=False)
    folder = out or Path("runs", "league" + "-quick" * quick)
    with explained(lambda: "the same command continues."):
        page = execute(League(**keys, network=network), folder, jobs, console, so_far)
    console.print(f"page: {page}", markup=False)
