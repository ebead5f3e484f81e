"""The larger entries of two arrays: the same bits in every kernel, and NaN where one of them is."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from peerdescent import InputError, graphs, theory
from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State, initial_state
from peerdescent.kernels.plain import PlainUpdate
from peerdescent.kernels.torch_kernel import TorchKernel, TorchUpdate
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.transforms import maximum


@dataclass(frozen=True)
class Larger(Algorithm):
    """x becomes the larger of itself and twice the gradient."""

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Any:
        g = yield s.x
        return {"x": maximum(s.x, 2 * g)}


class EagerPasses(TorchUpdate):
    """The generated passes without torch.compile."""

    def _kernel(self, outputs: Any, arrays: Any, network: Any) -> TorchKernel:
        return TorchKernel(outputs, arrays, {}, network, compiled=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_kernels_agree_bit_by_bit(dtype: torch.dtype) -> None:
    special = [0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan")]
    a, b = (array.ravel() for array in np.meshgrid(special, special))
    random = np.random.default_rng(1)
    x = torch.from_numpy(np.concatenate([a, random.normal(size=37)]))[None].to(dtype)
    g = torch.from_numpy(np.concatenate([b, random.normal(size=37)]))[None].to(dtype)
    method = Larger()
    weights = MixingWeights.build(graphs.ring(1), "metropolis", "metropolis", method)
    network = make_network(weights, dtype, torch.device("cpu"))

    def state() -> State:
        return initial_state(method, x)

    updates = [PlainUpdate(method, state(), network), EagerPasses(method, state(), network)]
    updates.append(make_update(method, state(), network, "compiled"))  # type: ignore[arg-type]
    for update in updates:
        update.begin(0)
        update.gradient.copy_(g)
        update.finish(0)
        found = update.state["x"].numpy()
        np.testing.assert_array_equal(found, np.maximum(x.numpy(), 2 * g.numpy()))
    assert np.isnan(found[0, :36]).sum() == 11


def test_theory_says_that_it_is_not_linear() -> None:
    with pytest.raises(InputError, match=r"not linear, it computes max\(x, \(2 \* g\)\)\.$"):
        theory.stability(Larger(), "ring:4")
