"""L and I−W of every round for tensors and kernels, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Generic, TypeVar

import torch

from peerdescent.distributed.placement import ExchangePlan
from peerdescent.mixing.matrix import DiagonalBlocks, Matrix
from peerdescent.mixing.pair_rows import PairRows
from peerdescent.mixing.rounds import PerRound, Round, Rounds, Sparse, per_round

M = TypeVar("M")


class RoundMatrices(Generic[M]):
    """What is made of L and of I−W of a round, each when it is first asked for and then kept."""

    def __init__(self, chosen: Round, make: Callable[[Sparse], M]) -> None:
        self._round, self._make = chosen, make

    def laplacian(self) -> M:
        """L."""
        return self._laplacian

    def disagreement(self) -> M:
        """I−W."""
        return self._disagreement

    @cached_property
    def _laplacian(self) -> M:
        return self._disagreement if self._round.one_matrix else self._make(self._round.laplacian)

    @cached_property
    def _disagreement(self) -> M:
        return self._make(self._round.disagreement)


class BlockMatrices(RoundMatrices[Matrix]):
    """The same for a round of several that were made at once."""

    def __init__(self, several: RoundMatrices[DiagonalBlocks], index: int) -> None:
        self._several, self._index = several, index

    @cached_property
    def _laplacian(self) -> Matrix:
        return self._several.laplacian()[self._index]

    @cached_property
    def _disagreement(self) -> Matrix:
        return self._several.disagreement()[self._index]


def matrices_per_round(
    weights: Rounds,
    consensus_step: float,
    dtype: torch.dtype,
    device: torch.device,
    plan: ExchangePlan | None = None,
    pairs: PairRows | None = None,
) -> PerRound[RoundMatrices[Matrix]]:
    """The matrices of each round.

    Args:
        weights: L and W of every round.
        consensus_step: c, by which L and I−W are multiplied.
        dtype: of the tensors.
        device: of the tensors.
        plan: the rows of this process; None for one process.
        pairs: where the rows of pairs of agents are, if messages have one for each pair.
    """

    def matrix(csr: Sparse) -> Matrix:
        if pairs is not None:
            return Matrix.of(pairs.matrix(csr), dtype, device, pairs.matrix_plan)
        return Matrix.of(csr, dtype, device, plan)

    @lru_cache(maxsize=2)  # rounds follow one another
    def several(whole: Round) -> RoundMatrices[DiagonalBlocks]:
        return RoundMatrices(whole, lambda csr: DiagonalBlocks(csr, weights.n, dtype, device))

    def matrices(r: int) -> RoundMatrices[Matrix]:
        chosen = weights.at(r).scaled(consensus_step)
        if chosen.block_of is not None and plan is None:
            whole, index = chosen.block_of
            return BlockMatrices(several(whole), index)
        return RoundMatrices(chosen, matrix)

    return per_round(matrices, weights)
