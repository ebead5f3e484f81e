"""How the processes that torchrun started come to the same token, and what they say if they do not."""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from torch.distributed.distributed_c10d import Store

from peerdescent._util.owned_folders import OwnedFolder
from peerdescent.distributed import shared_memory
from peerdescent.distributed.authentication import (
    ADVICE,
    NO_TOKEN,
    TOKEN,
    TOKEN_FILE,
    Token,
    random_token,
    read_private,
    token_from_environment,
    write_private,
)
from peerdescent.distributed.gloo import reason_of
from peerdescent.errors import InputError, PeerdescentError

PLACE = "token-file"
"""The key in the store of the path where rank 0 has put a token; the path is empty if it has not made one."""
REFUSAL_SECONDS = 5.0
"""Seconds that rank 0 waits, if the tokens differ, until the others have noticed: it may serve the store."""
UNPROTECTED = (
    f"no token is set: anyone on this network can read and disturb the heartbeat; set {TOKEN} or {TOKEN_FILE} "
    f"to the same secret on all hosts ({ADVICE})"
)


@contextlib.contextmanager
def shared_token(store: Store, rank: int, size: int, one_host: bool) -> Iterator[Token]:
    """The token that all processes of torchrun have, while they join.

    It is the one that the user has set. Otherwise, on one host, rank 0 puts one into a file that only this user can
    read; over several hosts there is none, and rank 0 says what follows.
    """
    given = token_from_environment()
    if rank > 0:
        yield given or _from_rank_zero(store)
        return
    if given is not None or not one_host or size == 1:
        store.set(PLACE, "")
        if given is None and size > 1:
            warnings.warn(UNPROTECTED, stacklevel=2)
        yield given or NO_TOKEN
        return
    base = shared_memory.MEMORY if shared_memory.MEMORY.is_dir() else Path(tempfile.gettempdir())
    folder, token = OwnedFolder(base, "token"), random_token()
    try:
        write_private(folder.path / "token", token.secret)
        store.set(PLACE, str(folder.path / "token"))
        yield token
    finally:
        folder.remove()


def _from_rank_zero(store: Store) -> Token:
    try:
        path = store.get(PLACE).decode(errors="replace")
    except RuntimeError as error:
        raise PeerdescentError(f"process 0 did not join ({reason_of(error)}): check whether it was started.") from error
    return Token(read_private(Path(path))) if path else NO_TOKEN


def publish_fingerprint(store: Store, rank: int, token: Token) -> None:
    """Let the others see whether they have the same token."""
    store.set(f"token/{rank}", f"fingerprint:{token.fingerprint}")


def check_same_token(store: Store, rank: int, size: int) -> None:
    """Compare the tokens of those that have joined.

    Raises:
        InputError: they differ; all processes raise it.
    """
    known = {peer: store.get(f"token/{peer}") for peer in range(size) if store.check([f"token/{peer}"])}
    others = [peer for peer in known if 0 in known and known[peer] != known[0]]
    if not others:
        return
    store.set(f"refused/{rank}", "")
    end = time.monotonic() + REFUSAL_SECONDS
    while rank == 0 and time.monotonic() < end and not store.check([f"refused/{peer}" for peer in known]):
        time.sleep(0.05)
    has_none = [peer for peer in (0, others[0]) if known[peer] == b"fingerprint:"]
    difference = (
        f"process {has_none[0]} has no token, but process {others[0] if has_none == [0] else 0} has one"
        if has_none
        else f"process {others[0]} has another token than process 0"
    )
    raise InputError(f"{difference}: set {TOKEN} or {TOKEN_FILE} to the same secret for all processes.")
