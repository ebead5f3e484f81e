"""`peerdescent report`: one page for any run folders."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from peerdescent.cli.flags import path_of

DEFAULT = Path("report.html")


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders, comparisons, or folders of those.")],
    out: Annotated[Path, typer.Option(parser=path_of, metavar="PATH", help="The file to write.")] = DEFAULT,
    title: Annotated[str, typer.Option(help="The page's heading.")] = "",
) -> None:
    """Make one HTML page with curves, tables and settings of any runs. Exit code 2: a folder is not a run."""
    from peerdescent.report import page, run_page  # slow to import, and only this needs them

    options = [*(["--out", str(out)] if out != DEFAULT else []), *(["--title", title] if title else [])]
    command = shlex.join(["peerdescent", "report", *map(str, runs), *options])
    page.write(run_page.page(runs, command, title), out)
    print(out)
