"""Who may speak to the processes of a run: those that prove, by HMAC-SHA256, that they know its token.

Local workers get a random token from their parent. Under torchrun the token is in $PEERDESCENT_TOKEN or in the file
named by $PEERDESCENT_TOKEN_FILE; on one host rank 0 makes one if neither is set.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from peerdescent.errors import InputError

TOKEN, TOKEN_FILE = "PEERDESCENT_TOKEN", "PEERDESCENT_TOKEN_FILE"
MIN_LENGTH = 16
"""Characters of a token: what a process proves with a shorter one could be used to guess it."""
MAX_LENGTH = 4096
MAC_SIZE = hashlib.sha256().digest_size
ADVICE = "python -c 'import secrets; print(secrets.token_hex())' makes one"


def authenticate(key: bytes, *parts: bytes) -> bytes:
    """The HMAC-SHA256 of some parts; each counts with its length, so that no other parts give the same."""
    whole = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(key, whole, "sha256")


@dataclass(frozen=True, repr=False)
class Token:
    """The secret of a run; an empty one is no secret, and protects nothing."""

    secret: bytes

    @property
    def fingerprint(self) -> str:
        """Tells whether two processes have the same token, without telling which; empty if there is none."""
        return authenticate(self.secret, b"fingerprint").hex() if self.secret else ""

    def key(self, session: bytes) -> bytes:
        """The key of one session."""
        return authenticate(self.secret, b"session", session)


NO_TOKEN = Token(b"")


def random_token() -> Token:
    """A new token."""
    return Token(secrets.token_bytes(32))


def token_from_environment() -> Token | None:
    """The token that the user has set, if any.

    Raises:
        InputError: it is too short, or others can read the file that it is in.
    """
    text, file = os.environ.get(TOKEN), os.environ.get(TOKEN_FILE)
    if text is not None and file is not None:
        raise InputError(f"{TOKEN} and {TOKEN_FILE} are both set: keep one.")
    if file is not None:
        return _checked(read_private(Path(file)), f"the token in {file}")
    return None if text is None else _checked(text.encode(), TOKEN)


def _checked(content: bytes, name: str) -> Token:
    secret = content.strip()
    if not MIN_LENGTH <= len(secret) <= MAX_LENGTH:
        raise InputError(f"{name} has {len(secret)} characters, expected {MIN_LENGTH} to {MAX_LENGTH}: {ADVICE}.")
    return Token(secret)


def read_private(path: Path) -> bytes:
    """The content of a file that belongs to this user and that nobody else can read.

    Raises:
        InputError: it cannot be read, or others could have read or written it.
    """
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a FIFO must not block
    except OSError as error:
        raise InputError(f"{path} (the token of the run) cannot be read: {error.strerror}.") from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is not a file: name a file that holds the token of the run.")
        if hasattr(os, "geteuid") and status.st_uid not in (os.geteuid(), 0):
            raise InputError(f"{path} belongs to another user, who knows the token: make a file of your own.")
        if os.name == "posix" and status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise InputError(f"{path} has mode {mode:03o}, others can use the token: run `chmod 600 {path}`.")
        return os.read(file, MAX_LENGTH + 1)
    finally:
        os.close(file)


def write_private(path: Path, content: bytes) -> None:
    """Write a new file that only this user can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
