"""`peerdescent clock`: finished runs in simulated seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from peerdescent.cli.flags import AsJson

NETWORK = "A network: a TOML file, or a name that `peerdescent list networks` shows."
Network = Annotated[str, typer.Option(metavar="NETWORK", help=NETWORK)]


def clock(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders, comparisons, sweeps.")],
    network: Network,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw all these runs against simulated seconds: .png, .svg or .pdf."),
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Run the Python files that a run has loaded.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add simulated seconds to finished runs: how long they would have taken in a network.

    Writes clock.json next to the metrics, and draws tables and figures anew; `peerdescent report` shows the new axis.

    Examples:

    - `peerdescent clock runs/b --network wan`

    - `peerdescent init network.toml --network wan`, change it, and `peerdescent clock runs/a --network network.toml`

    - `peerdescent clock runs/gossip runs/central --network wan --figure seconds.png`
    """
    from peerdescent.clock.files import read

    model = read(network)  # wrong input is found before torch is imported
    from rich.console import Console

    from peerdescent.experiments.clock import clock_runs

    table = clock_runs(runs, model, trust)
    if figure is not None:
        _draw(runs, figure)
    if as_json:
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        print(json.dumps({"network": model.name, "runs": rows}, indent=2))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(table.to_rich())
    if figure is not None:
        console.print(f"figure: {figure}")


def _draw(runs: list[Path], figure: Path) -> None:
    """Loss and, where there is one, accuracy of all runs against simulated seconds."""
    from peerdescent._util.numbers import finite_or_none
    from peerdescent.report.drawing import save_as
    from peerdescent.report.runs import find, group
    from peerdescent.report.seeds import learning_curves

    curves = {g.label: [run.metrics for run in g.runs] for g in group(find(runs))}
    tested = all(finite_or_none(v) is not None for tables in curves.values() for t in tables for v in t["accuracy"])
    keys = ("loss", *["accuracy"] * tested)
    save_as(learning_curves(curves, keys, against=("simulated_seconds",)), figure)
