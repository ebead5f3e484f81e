"""Collective operations of a process group, for objects and for agents' rows; all processes call them alike."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from peerdescent.distributed.p2p import PointToPoint
from peerdescent.distributed.placement import Placement
from peerdescent.errors import InputError, PeerLostError


class Collectives:
    """Collective operations through rank 0, for a group that has these attributes."""

    rank: int
    size: int
    hosts: tuple[str, ...]
    p2p: PointToPoint

    @property
    def is_rank_zero(self) -> bool:
        """Whether this process keeps the records."""
        return self.rank == 0

    def broadcast_object(self, value: Any = None) -> Any:
        """Rank 0's JSON value, in every process."""
        if self.size == 1:
            return value
        if self.is_rank_zero:
            for sent in [self.p2p.send_object(value, peer) for peer in range(1, self.size)]:
                sent.wait()
            return value
        return self.p2p.recv_object(0)

    def gather_object(self, value: Any) -> list[Any]:
        """The JSON values of all processes at rank 0, in rank order; an empty list elsewhere."""
        if self.is_rank_zero:
            return [value, *(self.p2p.recv_object(peer) for peer in range(1, self.size))]
        self.p2p.send_object(value, 0).wait()
        return []

    def all_true(self, holds: bool) -> bool:
        """Whether `holds` is true in all processes."""
        return bool(self.broadcast_object(all(self.gather_object(holds))))

    def barrier(self) -> None:
        """Return when all processes have called this."""
        self.gather_object(None)
        self.broadcast_object()

    def check_same_on_all_ranks(self, facts: dict[str, str]) -> None:
        """Check that all processes give the same facts, by name.

        Raises:
            InputError: in all processes, naming one whose facts differ and what differs.
        """
        all_facts: list[dict[str, str]] = self.broadcast_object(self.gather_object(facts))
        for rank, theirs in enumerate(all_facts):
            for name in {**all_facts[0], **theirs}:
                expected, given = all_facts[0].get(name, "none"), theirs.get(name, "none")
                if given != expected:
                    with contextlib.suppress(PeerLostError):
                        self.barrier()  # so that no process leaves while another still waits for its answer
                    raise InputError(
                        f"process {rank} on {self.hosts[rank]} differs from process 0 in its {name} "
                        f"({given} against {expected}): start all processes alike."
                    )

    def gather(self, own: torch.Tensor, placement: Placement) -> torch.Tensor:
        """The rows of all agents at rank 0; elsewhere the local rows."""
        if self.size == 1:
            return own
        if not self.is_rank_zero:
            self.p2p.send(own.contiguous(), 0)
            return own
        every = own.new_empty(placement.agents, *own.shape[1:])
        every[: len(own)] = own
        for peer in range(1, self.size):
            block = placement.block(peer)
            self.p2p.recv(every[block.start : block.stop], peer)
        return every

    def scatter(self, every: torch.Tensor | None, own: torch.Tensor, placement: Placement) -> None:
        """Send rank 0's rows of all agents to the processes that host them, into `own`."""
        if not self.is_rank_zero:
            self.p2p.recv(own, 0)
            return
        assert every is not None
        own.copy_(every[: len(own)])
        for peer in range(1, self.size):
            block = placement.block(peer)
            self.p2p.send(every[block.start : block.stop].contiguous(), peer)
