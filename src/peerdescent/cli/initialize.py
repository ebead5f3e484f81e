"""`peerdescent init`: a commented experiment file to start from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from peerdescent._util.files import write_atomically
from peerdescent._util.validation import did_you_mean
from peerdescent.cli.flags import path_of
from peerdescent.errors import InputError
from peerdescent.experiments.files import commented, read

DEFAULT = Path("experiment.toml")


def init(
    file: Annotated[Path, typer.Argument(parser=path_of, metavar="FILE", help="The file to write.")] = DEFAULT,
    base: Annotated[
        str | None, typer.Option("--from", metavar="EXPERIMENT", help="Start from a file, run folder or library name.")
    ] = None,
    network: Annotated[
        str | None, typer.Option(metavar="NAME", help="Write a network file instead: see `list networks`.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Write an experiment file with every key, what it means and its default.

    Examples:

    - `peerdescent init` writes experiment.toml; run it with `peerdescent run experiment.toml`

    - `peerdescent init mine.toml --from quickstart`

    - `peerdescent init network.toml --network wan` writes a network for `clock` and `explain`
    """
    if os.path.isdir(file):
        raise InputError(f"{file} is a folder: name the file to write.")
    if os.path.exists(file) and not overwrite:
        raise InputError(f"{file} exists: choose another name, or say --overwrite.")
    if network is not None and base is not None:
        raise InputError("--from and --network ask for different files: keep one.")
    text = (
        _network(network) if network is not None else commented(None if base is None else read(base, trust=True))
    )  # nothing in it is run
    try:
        write_atomically(file, text.encode())
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror or error}.") from error
    print(file)


def _network(name: str) -> str:
    from peerdescent.clock.files import library, text_of

    if name not in library():
        near = did_you_mean(name, library())
        raise InputError(f"there is no network {name!r}{near}: expected one of {', '.join(library())}.")
    return text_of(name)
