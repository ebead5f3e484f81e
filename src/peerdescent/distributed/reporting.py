"""What the user is told of processes: their names, notes from threads, and the message that a run ends with."""

from __future__ import annotations

import contextlib
import warnings

from peerdescent.distributed.signed_store import SignedStore
from peerdescent.errors import PeerdescentError, RankError

FAILURE = "failure"
"""The key in the store of the first error that a process ended with."""


class Reporting:
    """Names of processes and their errors, for a group that has these attributes."""

    rank: int
    entries: SignedStore
    agents: dict[int, str]
    initial_hosts: tuple[str, ...]

    def describe(self, rank: int) -> str:
        """A process by the agents it hosts, its host and its initial rank."""
        agents = self.agents.get(rank, "")
        host = self.initial_hosts[rank].partition(" ")[0]
        return f"{agents} on {host} (process {rank})" if agents else f"process {rank} on {host}"

    def record_failure(self, error: PeerdescentError) -> None:
        """Store the error that this process ends with for the others, unless there is an earlier one."""
        with contextlib.suppress(RuntimeError):  # the process that serves the store may have ended
            self.entries.set_once(FAILURE, {"rank": self.rank, "message": str(error), "code": error.exit_code})

    def raise_failure(self) -> None:
        """Raise the error that another process ended with, if there is one."""
        try:
            entry = self.entries.find(FAILURE)
        except RuntimeError:
            return
        if entry is not None and entry["rank"] != self.rank:
            raise RankError(entry["rank"], entry["message"], entry["code"])


def notify_user(text: str) -> None:
    """Warn from a thread; a filter may turn the warning into an error, which must not end the thread."""
    with contextlib.suppress(Exception):
        warnings.warn(text, stacklevel=2)
