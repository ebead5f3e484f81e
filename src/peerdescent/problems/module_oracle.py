"""Gradients of a user's module: agent by agent where its calls draw or change something, and errors in a sentence."""

from __future__ import annotations

import torch

from peerdescent.problems.base import Buffers, Oracle
from peerdescent.problems.model_checks import explained
from peerdescent.problems.module_buffers import ConstantBuffers


class ModuleOracle:
    """The gradients of a block of agents.

    Args:
        oracle: computes them.
        buffers: what its calls change, one row per agent of the block.
        constants: what its calls must not change.
        sentence: what to say if it fails.
    """

    def __init__(self, oracle: Oracle, buffers: Buffers, constants: ConstantBuffers, sentence: str) -> None:
        self.buffers = buffers
        self._oracle, self._constants, self._sentence = oracle, constants, sentence

    def __call__(self, points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        with explained(self._sentence):
            self._oracle(points, k, out)
        self._constants.check()
