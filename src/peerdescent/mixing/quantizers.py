"""Compressors that send few bits of every entry."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from peerdescent.mixing.compressor import Compressor, Origin, as_bytes, from_bytes, pack, packed_bytes, unpack

BUCKET = 128
"""Entries that share a scale in QSGD: fewer are more exact, and take more bytes."""
BITS = range(2, 9)


@dataclass(frozen=True)
class QSGD(Compressor):
    r"""Each entry randomly rounded to one of s = 2^(bits−1) − 1 levels and its sign.

    .. math:: Q(a)_i = τ\,\frac{M}{s}\operatorname{sign}(a_i)\left\lfloor\frac{s|a_i|}{M} + u_i\right\rfloor,
              \qquad M = \max_j |a_j|, \quad u_i \text{ uniform in } [0, 1)

    in buckets of d = 128 entries, each with its own M: the variant with buckets and the maximum that the paper uses in
    its experiments. With τ = 1 it is unbiased, and E‖Q(a) − a‖² ≤ ω‖a‖² with

    .. math:: ω = \frac{\sqrt{1 + (d-1)/s^2} - 1}{2},

    attained where one entry is M and the others are M/(2s(1+ω)). Where ω ≥ ½, which 2 and 3 bits have,
    τ = 1/(1+ω) makes a contraction with δ = 1/(1+ω) of it; otherwise τ = 1 and δ = 1 − ω.
    Reference: Alistarh et al. 2017.

    >>> round(QSGD(4).delta(1000), 2), round(QSGD(2).delta(1000), 2), QSGD(4).row_bytes(256, torch.float32)
    (0.55, 0.16, 136)
    """

    bits: int

    @property
    def text(self) -> str:
        """For example "qsgd:4"."""
        return f"qsgd:{self.bits}"

    @property
    def levels(self) -> int:
        """s."""
        return int(2 ** (self.bits - 1)) - 1

    def omega(self, p: int) -> float:
        """ω: the largest error of random rounding, E‖Q(a) − a‖²/‖a‖² with τ = 1."""
        return (math.sqrt(1 + (min(p, BUCKET) - 1) / self.levels**2) - 1) / 2

    def scale(self, p: int) -> float:
        """τ."""
        omega = self.omega(p)
        return 1.0 if omega < 0.5 else 1 / (1 + omega)

    def delta(self, p: int) -> float:
        """1 − ω, or 1/(1+ω) where it is scaled."""
        omega = self.omega(p)
        return 1 - omega if omega < 0.5 else 1 / (1 + omega)

    def typical_delta(self, p: int) -> float:
        """As for entries of a bucket whose largest is √(2 ln d) times their root mean square, rounded uniformly."""
        variance = 2 * math.log(max(2, min(p, BUCKET))) / (6 * self.levels**2)
        tau = self.scale(p)
        return max(self.delta(p), 1 - (1 - tau) ** 2 - tau**2 * variance)

    def row_bytes(self, p: int, dtype: torch.dtype) -> int:
        """A maximum per bucket, and `bits` bits per entry."""
        return -(-p // BUCKET) * dtype.itemsize + self.bits * packed_bytes(p)

    def encode(self, rows: torch.Tensor, origin: Origin) -> torch.Tensor:
        """The maxima, then the lowest bit of all entries, the next one, and so on."""
        p, s = rows.shape[1], self.levels
        M = _in_buckets(rows).abs().amax(dim=2)  # NaN if an entry is
        relative = rows / _spread(torch.where(M > 0, M, 1), p)
        drawn = [random.random(p, dtype=np.float32) for random in origin.streams()]
        u = torch.from_numpy(np.array(drawn).reshape(-1, p)).to(rows)
        level = torch.floor(s * relative.abs() + u).clamp_(max=s).copysign_(relative)
        code = level.nan_to_num_(nan=0, posinf=0, neginf=0).add_(s).to(torch.uint8)
        packed = [pack((code & (1 << bit)) != 0) for bit in range(self.bits)]
        return torch.cat([as_bytes(M), *packed], dim=1)

    def decode(self, encoded: torch.Tensor, p: int, dtype: torch.dtype, origin: Origin) -> torch.Tensor:
        """τMl/s with the level l of each entry."""
        width, end = packed_bytes(p), -(-p // BUCKET) * dtype.itemsize
        code = torch.zeros(len(encoded), p, dtype=torch.uint8, device=encoded.device)
        for bit in range(self.bits):
            begin = end + bit * width
            code |= unpack(encoded[:, begin : begin + width], p).to(torch.uint8) << bit
        M = from_bytes(encoded[:, :end], dtype)
        return (code.to(dtype) - self.levels) * _spread(M * (self.scale(p) / self.levels), p)


@dataclass(frozen=True)
class ScaledSign(Compressor):
    """The signs, times the mean magnitude: Q(a) = (‖a‖₁/p)·sign(a), with sign(0) = 1.

    ‖Q(a) − a‖² = ‖a‖² − ‖a‖₁²/p, so δ = 1/p in the worst case, one entry that is not zero, and 2/π for a normal vector.
    But each message moves all entries equally, so that a − â is soon far from normal: ¼ is the rule here.
    Reference: Karimireddy et al. 2019.

    >>> sign, origin = ScaledSign(), Origin(0, [0], 0)
    >>> sign.decode(sign.encode(torch.tensor([[1.0, -3.0, 2.0]]), origin), 3, torch.float32, origin)
    tensor([[ 2., -2.,  2.]])
    """

    @property
    def text(self) -> str:
        """Always "sign"."""
        return "sign"

    def row_bytes(self, p: int, dtype: torch.dtype) -> int:
        """The scale, and a bit per entry."""
        return dtype.itemsize + packed_bytes(p)

    def encode(self, rows: torch.Tensor, origin: Origin) -> torch.Tensor:
        """The scale and the signs."""
        # row by row: the sum of a row among others may be taken in another order
        scales = torch.stack([row.abs().mean() for row in rows]) if len(rows) else rows.new_zeros(0)
        return torch.cat([as_bytes(scales[:, None]), pack(rows < 0)], dim=1)

    def decode(self, encoded: torch.Tensor, p: int, dtype: torch.dtype, origin: Origin) -> torch.Tensor:
        """Plus or minus the scale."""
        scale = from_bytes(encoded[:, : dtype.itemsize], dtype)
        return torch.where(unpack(encoded[:, dtype.itemsize :], p), -scale, scale)

    def delta(self, p: int) -> float:
        """1/p."""
        return 1 / p

    def typical_delta(self, p: int) -> float:
        """¼, below a normal vector's 2/π: gradient tracking diverges with the consensus step that 2/π would allow."""
        return max(1 / p, 0.25)


def _in_buckets(rows: torch.Tensor) -> torch.Tensor:
    """Rows as m × buckets × entries, the last bucket filled with zeros."""
    missing = -rows.shape[1] % BUCKET
    filled = torch.nn.functional.pad(rows, (0, missing)) if missing else rows
    return filled.reshape(len(rows), -1, BUCKET)


def _spread(scales: torch.Tensor, p: int) -> torch.Tensor:
    """The scale of its bucket for each of p entries."""
    return scales.repeat_interleave(BUCKET, dim=1)[:, :p]
