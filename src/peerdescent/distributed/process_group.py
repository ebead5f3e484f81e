"""The processes of one run, as one of them sees them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]

from peerdescent.distributed.collectives import Collectives
from peerdescent.distributed.heartbeat import Heartbeat
from peerdescent.distributed.membership import MembershipTracking
from peerdescent.distributed.reporting import notify_user
from peerdescent.distributed.shared_memory import SharedMemory
from peerdescent.distributed.signed_store import SignedStore


class ProcessGroup(Collectives, MembershipTracking):
    """This process among those of a run.

    Rank 0 keeps the records. All processes call the same methods in the same order. After a loss the others can
    `regroup`: ranks are then counted anew, and `members` are the initial ranks.

    Args:
        rank: of this process.
        size: how many processes there are.
        entries: shared by all of them.
        hosts: where each process runs, in words.
        heartbeat: finds out which processes are lost; None for a group that ends with the first loss.
    """

    def __init__(
        self, rank: int, size: int, entries: SignedStore, hosts: Sequence[str], heartbeat: Heartbeat | None = None
    ) -> None:
        super().__init__(rank, size, entries, tuple(hosts), heartbeat)
        self.shared_folder: Path | None = None
        """A folder in memory that all processes see; None if they are on several machines."""
        self.device_group: dist.ProcessGroup | None = None
        """A group of torch.distributed whose backend sends from device to device; None sends through the host."""
        if heartbeat is not None:
            heartbeat.interrupt, heartbeat.waiting_for = self.interrupt, self.waiting_for
            heartbeat.describe, heartbeat.notify_user = self.describe, notify_user

    @classmethod
    def single(cls) -> ProcessGroup:
        """One process that hosts all agents."""
        return cls(0, 1, SignedStore(HashStore()), ("this machine",))

    def tag(self) -> int:
        """A tag that no other exchange of this run has."""
        return next(self._tags)

    def shared_memory(self, tag: int) -> SharedMemory | None:
        """Shared memory for the exchange with this tag, if all processes are on one machine."""
        if self.shared_folder is None:
            return None
        return SharedMemory(self.shared_folder, f"{self.epoch}-{tag}", self.rank, self._interrupted)

    def close(self, clean: bool) -> None:
        """Leave the group; the others count it as a loss unless it is clean."""
        if self._heartbeat is not None:
            self._heartbeat.close(clean)
        self.disconnect()
