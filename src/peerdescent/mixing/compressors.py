"""Compressors by text: topk:0.1, randk:0.1, qsgd:4, sign, bf16 and none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.mixing.compressor import Compressor, Origin, as_bytes, from_bytes
from peerdescent.mixing.quantizers import BITS, QSGD, ScaledSign
from peerdescent.mixing.sparsifiers import RandK, TopK

FORMS = "topk:SHARE, randk:SHARE, qsgd:BITS, sign, bf16 or none"


@dataclass(frozen=True)
class NoCompression(Compressor):
    """Every row as it is.

    >>> NoCompression().row_bytes(10, torch.float32)
    40
    """

    @property
    def text(self) -> str:
        """Always "none"."""
        return "none"

    def row_bytes(self, p: int, dtype: torch.dtype) -> int:
        """All of it."""
        return p * dtype.itemsize

    def encode(self, rows: torch.Tensor, origin: Origin) -> torch.Tensor:
        """The bytes of the rows."""
        return as_bytes(rows)

    def decode(self, encoded: torch.Tensor, p: int, dtype: torch.dtype, origin: Origin) -> torch.Tensor:
        """The rows."""
        return from_bytes(encoded, dtype)

    def delta(self, p: int) -> float:
        """1: there is no error."""
        return 1.0

    def typical_delta(self, p: int) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class BFloat16(NoCompression):
    """Every entry rounded to bfloat16, whose 8 significant bits give an error of at most 2⁻⁸ of it.

    Numbers below 1e-38, which bfloat16 cannot hold with all its bits, are less exact.

    >>> BFloat16().row_bytes(10, torch.float32)
    20
    """

    @property
    def text(self) -> str:
        """Always "bf16"."""
        return "bf16"

    def row_bytes(self, p: int, dtype: torch.dtype) -> int:
        """Two bytes per entry."""
        return p * torch.bfloat16.itemsize

    def encode(self, rows: torch.Tensor, origin: Origin) -> torch.Tensor:
        """The rounded rows."""
        return as_bytes(rows.to(torch.bfloat16))

    def decode(self, encoded: torch.Tensor, p: int, dtype: torch.dtype, origin: Origin) -> torch.Tensor:
        """The rounded rows, as numbers of this dtype."""
        return from_bytes(encoded, torch.bfloat16).to(dtype)

    def delta(self, p: int) -> float:
        """1 − 2⁻¹⁶."""
        return 1 - 2.0**-16

    def typical_delta(self, p: int) -> float:
        """1 − 2⁻¹⁶."""
        return self.delta(p)


def parse(text: object) -> Compressor:
    """The compressor of a text.

    >>> parse("topk:0.1")
    TopK(share=0.1)
    >>> parse("topk:2")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: compress = 'topk:2': expected a share of the entries in (0, 1] after topk:.
    """
    if not isinstance(text, str):
        raise InputError(f"compress = {described(text)}: expected {FORMS}.")
    kind, colon, value = text.partition(":")
    simple = {"none": NoCompression(), "bf16": BFloat16(), "sign": ScaledSign()}
    if not colon and kind in simple:
        return simple[kind]
    if kind in ("topk", "randk"):
        share = _number(value)
        if not 0 < share <= 1:
            raise InputError(f"compress = {described(text)}: expected a share of the entries in (0, 1] after {kind}:.")
        return TopK(share) if kind == "topk" else RandK(share)
    if kind == "qsgd":
        bits = _number(value)
        if bits not in BITS:
            raise InputError(f"compress = {described(text)}: expected 2 to 8 bits per entry after qsgd:.")
        return QSGD(int(bits))
    raise InputError(f"compress = {described(text)}: expected {FORMS}.")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
