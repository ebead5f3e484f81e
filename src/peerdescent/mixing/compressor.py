"""What a compressor is: rows of numbers to rows of bytes and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from peerdescent.data.randomness import stream


@dataclass(frozen=True)
class Origin:
    """Where rows come from, which decides the random numbers that compress them.

    Args:
        seed: of the run.
        agents: who sends each row.
        iteration: when.
        message: its number among the messages of a step.
    """

    seed: int
    agents: Sequence[int]
    iteration: int
    message: int = 0

    def streams(self) -> list[np.random.Generator]:
        """A new generator for each row, a function of (seed, agent, iteration, message) alone."""
        return [stream(self.seed, f"compression {self.message}", agent, self.iteration) for agent in self.agents]


@dataclass(frozen=True)
class Compressor:
    """Q, which turns each row of p numbers into a fixed number of bytes.

    A row's bytes depend on that row and on its random numbers alone, so they are the same whichever process computes
    them, with other rows or without. NaN and infinite numbers arrive as numbers that are not finite.
    """

    @property
    def text(self) -> str:
        """What `parse` reads back."""
        raise NotImplementedError

    def encode(self, rows: torch.Tensor, origin: Origin) -> torch.Tensor:
        """The bytes of m rows, m × row_bytes."""
        raise NotImplementedError

    def decode(self, encoded: torch.Tensor, p: int, dtype: torch.dtype, origin: Origin) -> torch.Tensor:
        """Q(a) for each row, m × p, from its bytes."""
        raise NotImplementedError

    def row_bytes(self, p: int, dtype: torch.dtype) -> int:
        """The size of a row of p numbers."""
        raise NotImplementedError

    def delta(self, p: int) -> float:
        """The contraction δ: E‖Q(a) − a‖² ≤ (1 − δ)‖a‖² for every a with p entries."""
        raise NotImplementedError

    def typical_delta(self, p: int) -> float:
        """About 1 − E‖Q(a) − a‖²/‖a‖² for a with many independent normal entries, which is far from the worst a."""
        raise NotImplementedError


def as_bytes(rows: torch.Tensor) -> torch.Tensor:
    """The bytes of each row."""
    return rows.contiguous().view(torch.uint8)


def from_bytes(encoded: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The numbers of each row, from its bytes."""
    return encoded.clone(memory_format=torch.contiguous_format).view(dtype)  # a clone is aligned, a slice may not be


def packed_bytes(count: int) -> int:
    """The bytes that so many bits take.

    >>> packed_bytes(8), packed_bytes(9)
    (1, 2)
    """
    return -(-count // 8)


def pack(bits: torch.Tensor) -> torch.Tensor:
    """Bits in bytes, eight of a row in each: the first is the highest, and the last byte is filled with zeros.

    >>> pack(torch.tensor([[True, False, False, False, False, False, False, True, True]])).tolist()
    [[129, 128]]
    """
    missing = -bits.shape[1] % 8
    filled = torch.nn.functional.pad(bits, (0, missing)) if missing else bits
    return (filled.view(len(bits), -1, 8) * _weights(bits.device)).sum(-1, dtype=torch.uint8)


def unpack(packed: torch.Tensor, count: int) -> torch.Tensor:
    """The first `count` bits of each row.

    >>> unpack(torch.tensor([[129, 128]], dtype=torch.uint8), 9).int().tolist()
    [[1, 0, 0, 0, 0, 0, 0, 1, 1]]
    """
    bits = (packed[:, :, None] & _weights(packed.device)) != 0
    return bits.reshape(len(packed), -1)[:, :count]


def _weights(device: torch.device) -> torch.Tensor:
    return torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8, device=device)
