"""Where network models come from: TOML files, and the library by name."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from peerdescent._util import toml
from peerdescent._util.files import read_text
from peerdescent._util.validation import described, did_you_mean
from peerdescent.clock.model import NetworkModel, from_keys
from peerdescent.errors import InputError


def read(source: str | os.PathLike[str] | NetworkModel) -> NetworkModel:
    """A network from a TOML file, or from the library by name.

    >>> read("lan").link.latency_ms
    0.2
    """
    if isinstance(source, NetworkModel):
        return source
    if not isinstance(source, str | os.PathLike):
        raise InputError(f'network is {described(source)}: expected a TOML file, or a name such as "wan".')
    name = str(source)
    if name in library():
        return from_keys(toml.loads(text_of(name), name), name)
    path = Path(source)
    if path.suffix != ".toml" and not os.path.exists(path):
        near = did_you_mean(name, library())
        raise InputError(f"there is no network {name!r}{near}: give a TOML file or one of {', '.join(library())}.")
    return from_keys(toml.loads(read_text(path, "network file"), str(path)), str(path))


def text_of(name: str) -> str:
    """The commented file of a network that ships with the package."""
    return files(__package__).joinpath("library").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def library() -> dict[str, str]:
    """The networks that ship with the package, by name, with their titles."""
    folder = files(__package__).joinpath("library")
    names = sorted(item.name[:-5] for item in folder.iterdir() if item.name.endswith(".toml"))
    return {name: str(toml.loads(text_of(name), name)["title"]) for name in names}
