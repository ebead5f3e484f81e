"""`peerdescent init`: a commented experiment file to start from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from peerdescent._util.files import write_atomically
from peerdescent.cli.flags import path_of
from peerdescent.errors import InputError
from peerdescent.experiments.files import commented, read

DEFAULT = Path("experiment.toml")


def init(
    file: Annotated[Path, typer.Argument(parser=path_of, metavar="FILE", help="The file to write.")] = DEFAULT,
    base: Annotated[
        str | None, typer.Option("--from", metavar="EXPERIMENT", help="Start from a file, run folder or library name.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Write an experiment file with every key, what it means and its default.

    Examples:

    - `peerdescent init` writes experiment.toml; run it with `peerdescent run experiment.toml`

    - `peerdescent init mine.toml --from quickstart`
    """
    if os.path.isdir(file):
        raise InputError(f"{file} is a folder: name the file to write.")
    if os.path.exists(file) and not overwrite:
        raise InputError(f"{file} exists: choose another name, or say --overwrite.")
    text = commented(None if base is None else read(base, trust=True))  # nothing in it is run
    try:
        write_atomically(file, text.encode())
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror or error}.") from error
    print(file)
