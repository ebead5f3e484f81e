"""`peerdescent list`: what can be named."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

from peerdescent.cli.flags import AsJson

Load = Annotated[
    list[str] | None, typer.Option(metavar="FILE", help="A Python file that registers your own methods or problems.")
]


def list_(
    what: Annotated[
        Literal["algorithms", "graphs", "problems", "experiments", "datasets", "networks"],
        typer.Argument(help="What to list."),
    ],
    load: Load = None,
    as_json: AsJson = False,
) -> None:
    """Show what can be named: algorithms, graphs, problems, experiments, data sets, networks.

    Example: `peerdescent list algorithms`
    """
    from peerdescent.experiments.user_code import load_methods

    for path in load or []:
        load_methods(path)
    entries = _entries(what)
    if as_json:
        print(json.dumps(entries, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    columns = list(entries[0])
    for column in columns:
        table.add_column(column, no_wrap=column in ("name", "usage"), overflow="fold")
    for entry in entries:
        table.add_row(*(str(entry[column]) for column in columns))
    Console(markup=False, emoji=False).print(table)


def _entries(what: str) -> list[dict[str, str]]:
    from peerdescent import algorithms, graphs, problems
    from peerdescent.clock.files import library as networks
    from peerdescent.data.datasets import DATASETS
    from peerdescent.experiments.files import library

    if what == "algorithms":
        return [
            {
                "name": name,
                "also called": ", ".join(preset.aliases),
                "values": _text(preset.options()),
                "what it is": preset.summary,
            }
            for name, preset in algorithms.PRESETS.items()
        ]
    if what == "graphs":
        return [{"usage": t.usage, "what it is": t.summary} for t in graphs.TOPOLOGIES.values()]
    if what == "problems":
        named = problems.PROBLEMS.items()
        return [{"name": name, "options": _text(p.options()), "what it is": p.summary} for name, p in named]
    if what == "datasets":
        return [
            {
                "name": name,
                "MB": f"{d.size / 1e6:.0f}",
                "what it is": d.summary,
                "licence": d.licence,
                "source": d.origin,
            }
            for name, d in DATASETS.items()
        ]
    titles = networks() if what == "networks" else library()
    return [{"name": name, "what it is": title} for name, title in titles.items()]


def _text(options: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in options.items())
