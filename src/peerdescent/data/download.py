"""Downloads from web servers, with limits on time and size; one that broke off continues where it stopped."""

from __future__ import annotations

import contextlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from peerdescent._util.files import read_file
from peerdescent.errors import InputError

TIMEOUT = 20.0
"""Seconds without data after which a server is abandoned."""
PATIENCE = 300.0
"""Seconds allowed for one file from a mirror, or for a package client; a large file has more."""
SLOWEST = 250_000
"""Bytes per second for which a large file has time besides."""
PARTIAL = ".partial"
"""The suffix of what has arrived of a download that broke off."""
_CHUNK = 1 << 18


class SourceError(Exception):
    """This source failed; the message is the reason in a few words."""


def candidates(
    url: str, name: str, limit: int, folder: Path | None = None, headers: Mapping[str, str] | None = None
) -> Iterator[bytes]:
    """Yield what a server has: first what continues an earlier download, if there is one, then all of it anew.

    What arrives is also appended to a file, so that a killed process loses nothing. It may be damaged, or come from
    another server: the caller verifies the first candidate and asks for the second only if it is wrong.

    Args:
        url: the address.
        name: the file, for messages and for the name of the partial download.
        limit: the size in bytes above which it is refused.
        folder: where partial downloads are kept; None to keep none.
        headers: further headers of the request.

    Raises:
        SourceError: the server does not have it, is too slow or breaks off.
    """
    partial = None if folder is None else folder / f"{name}{PARTIAL}"
    if begun := _begun(partial, limit):
        yield _read(url, name, limit, partial, begun, headers or {})
    _forget(partial)
    yield _read(url, name, limit, partial, b"", headers or {})


def _read(url: str, name: str, limit: int, partial: Path | None, begun: bytes, headers: Mapping[str, str]) -> bytes:
    """Download the rest of what has begun; all of it from a server that does not serve parts."""
    content, end = bytearray(begun), time.monotonic() + PATIENCE + limit / SLOWEST
    asked = {**headers, "Range": f"bytes={len(begun)}-"} if begun else dict(headers)
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=asked), timeout=TIMEOUT) as answer:
            if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
                content.clear()
            while piece := answer.read1(_CHUNK):
                _append(partial, len(content), piece)
                content += piece
                if len(content) > limit:
                    _forget(partial)
                    raise SourceError(f"{name} is too large")
                if time.monotonic() > end:
                    raise SourceError(f"{name} took more than {PATIENCE + limit / SLOWEST:.0f} s")
            if answer.length:
                raise SourceError(f"connection failed (it broke off after {len(content) / 1e6:.1f} MB of {name})")
    except urllib.error.HTTPError as error:
        if not (begun and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):  # it had arrived whole
            raise SourceError(f"HTTP status {error.code} for {name}") from None
    except TimeoutError:
        raise SourceError(f"no answer for {TIMEOUT:g} s") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise SourceError(f"connection failed ({brief(reason)})") from None
    _forget(partial)
    return bytes(content)


def _begun(partial: Path | None, limit: int) -> bytes:
    """Return what an earlier download has left."""
    if partial is None:
        return b""
    try:
        return read_file(partial, "partial download", limit)
    except InputError:
        return b""


def _append(partial: Path | None, at: int, piece: bytes) -> None:
    """Keep a piece that belongs at this position, unless another process has written there; a full disk keeps none."""
    if partial is None:
        return
    with contextlib.suppress(OSError), open(partial, "ab" if at else "wb") as file:
        if file.tell() == at:
            file.write(piece)


def _forget(partial: Path | None) -> None:
    if partial is not None:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def brief(error: object) -> str:
    """Return an error as one short line, without error numbers."""
    text = str(getattr(error, "strerror", None) or error) or type(error).__name__
    return " ".join(text.split())[:160]
