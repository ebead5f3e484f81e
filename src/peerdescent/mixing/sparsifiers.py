"""Compressors that send a share of the entries: the largest, or random ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch

from peerdescent.mixing.compressor import Compressor, Origin, as_bytes, from_bytes, pack, packed_bytes, unpack

INDEX_BYTES = 4


@dataclass(frozen=True)
class _Share(Compressor):
    """The common part: k = ⌊share·p⌉ entries of a row, at least one."""

    share: float

    def count(self, p: int) -> int:
        """How many of p entries are sent."""
        return min(p, max(1, round(self.share * p)))

    def delta(self, p: int) -> float:
        """k/p: for the k largest entries in every case, for random ones on average."""
        return self.count(p) / p


@dataclass(frozen=True)
class TopK(_Share):
    """The k entries of largest magnitude; of equal ones, those that come first.

    A row is its k values in the order of their indices, and then the indices: as int32, or as one bit per entry where
    that is shorter, from a share of 1/32 on. Reference: Stich, Cordonnier and Jaggi 2018.

    >>> row, origin = torch.tensor([[1.0, -3.0, 2.0, 3.0, -3.0]]), Origin(0, [0], 0)
    >>> top = TopK(0.4)
    >>> top.decode(top.encode(row, origin), 5, torch.float32, origin)
    tensor([[ 0., -3.,  0.,  3.,  0.]])
    """

    @property
    def text(self) -> str:
        """For example "topk:0.1"."""
        return f"topk:{self.share!r}"

    def row_bytes(self, p: int, dtype: torch.dtype) -> int:
        """k values, and k indices or p bits."""
        return self.count(p) * dtype.itemsize + min(INDEX_BYTES * self.count(p), packed_bytes(p))

    def encode(self, rows: torch.Tensor, origin: Origin) -> torch.Tensor:
        """The values and where they are."""
        m, p = rows.shape
        k = self.count(p)
        chosen = _largest(rows, k)
        values = as_bytes(rows[chosen].view(m, k))
        if self._as_bits(p):
            return torch.cat([values, pack(chosen)], dim=1)
        indices = chosen.nonzero()[:, 1].view(m, k).to(torch.int32)
        return torch.cat([values, as_bytes(indices)], dim=1)

    def decode(self, encoded: torch.Tensor, p: int, dtype: torch.dtype, origin: Origin) -> torch.Tensor:
        """The values at their indices, and zeros."""
        k = self.count(p)
        values, where = encoded[:, : k * dtype.itemsize], encoded[:, k * dtype.itemsize :]
        rows = torch.zeros(len(encoded), p, dtype=dtype, device=encoded.device)
        if self._as_bits(p):
            return rows.masked_scatter_(unpack(where, p), from_bytes(values, dtype))
        return rows.scatter_(1, from_bytes(where, torch.int32).long(), from_bytes(values, dtype))

    def _as_bits(self, p: int) -> bool:
        return packed_bytes(p) < INDEX_BYTES * self.count(p)

    def typical_delta(self, p: int) -> float:
        """The part of a normal vector's energy beyond the quantile t: 2(tφ(t) + 1 − Φ(t))."""
        normal, share = NormalDist(), self.count(p) / p
        if share >= 1:
            return 1.0
        t = normal.inv_cdf(1 - share / 2)
        return min(1.0, 2 * t * normal.pdf(t) + share)


@dataclass(frozen=True)
class RandK(_Share):
    """k random entries, which the receiver knows, so that only their values travel.

    They are not scaled by p/k: a public copy needs a contraction, not an unbiased estimate.
    Reference: Stich, Cordonnier and Jaggi 2018.

    >>> RandK(0.1).row_bytes(1000, torch.float32), RandK(0.1).delta(1000)
    (400, 0.1)
    """

    @property
    def text(self) -> str:
        """For example "randk:0.1"."""
        return f"randk:{self.share!r}"

    def row_bytes(self, p: int, dtype: torch.dtype) -> int:
        """k values."""
        return self.count(p) * dtype.itemsize

    def encode(self, rows: torch.Tensor, origin: Origin) -> torch.Tensor:
        """The values."""
        return as_bytes(rows.gather(1, self._indices(rows.shape[1], origin).to(rows.device)))

    def decode(self, encoded: torch.Tensor, p: int, dtype: torch.dtype, origin: Origin) -> torch.Tensor:
        """The values at the indices that the sender has drawn, and zeros."""
        rows = torch.zeros(len(encoded), p, dtype=dtype, device=encoded.device)
        return rows.scatter_(1, self._indices(p, origin).to(rows.device), from_bytes(encoded, dtype))

    def _indices(self, p: int, origin: Origin) -> torch.Tensor:
        k = self.count(p)
        drawn = [random.choice(p, k, replace=False, shuffle=False) for random in origin.streams()]
        return torch.from_numpy(np.array(drawn, dtype=np.int64).reshape(-1, k))

    def typical_delta(self, p: int) -> float:
        """k/p: no vector is better or worse."""
        return self.delta(p)


def _largest(rows: torch.Tensor, k: int) -> torch.Tensor:
    """Which k entries of each row have the largest magnitudes; NaN counts as infinite, so that it is sent."""
    size = rows.abs().nan_to_num_(nan=math.inf, posinf=math.inf)
    least = torch.topk(size, k, dim=1, sorted=False).values.amin(dim=1, keepdim=True)
    chosen = size >= least
    if int(chosen.sum()) == k * len(rows):
        return chosen
    larger = size > least  # ties: those that come first
    tied = chosen & ~larger
    return larger | (tied & (tied.cumsum(dim=1) <= k - larger.sum(dim=1, keepdim=True)))
