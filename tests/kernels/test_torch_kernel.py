"""The passes that torch.compile fuses, evaluated eagerly: they compute what the plain step computes, bit by bit."""

from __future__ import annotations

import warnings

import pytest
import torch

from peerdescent import graphs
from peerdescent.algorithms import PRESETS, Algorithm, make
from peerdescent.algorithms.state import initial_state
from peerdescent.data import stream
from peerdescent.expressions import Array, Expression, Mixed, Scalar
from peerdescent.kernels.plain import PlainUpdate
from peerdescent.kernels.torch_kernel import TorchKernel, TorchUpdate
from peerdescent.mixing.network import MemoryNetwork, make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.transforms import Clip

AGENTS, COLUMNS, STEPS = 5, 7, 6


class EagerPasses(TorchUpdate):
    """The generated passes without torch.compile."""

    def _kernel(
        self, outputs: dict[str, Expression], arrays: dict[str, torch.Tensor], network: MemoryNetwork
    ) -> TorchKernel:
        return TorchKernel(outputs, arrays, {}, network, compiled=False)


def numbers(*name: str, shape: tuple[int, ...] = (AGENTS, COLUMNS)) -> torch.Tensor:
    return torch.from_numpy(stream(0, " ".join(name)).standard_normal(shape)).float()


def network_for(method: Algorithm, rounded: bool, agents: int = AGENTS) -> MemoryNetwork:
    weights = MixingWeights.build(graphs.parse(f"ring:{agents}"), "metropolis", "metropolis", method)
    return make_network(weights, torch.float32, torch.device("cpu"), "bf16" if rounded else "same")


def final_states(method: Algorithm, network: MemoryNetwork, agents: int = AGENTS) -> list[dict[str, torch.Tensor]]:
    start = numbers("start", shape=(agents, COLUMNS))
    updates = [kind(method, initial_state(method, start.clone()), network) for kind in (PlainUpdate, EagerPasses)]
    for k in range(STEPS):
        for update in updates:
            point = update.begin(k)
            update.gradient.copy_(point - numbers("gradient", str(k), shape=(agents, COLUMNS)))
            for _ in range(1, update.gradients_at(k)):
                point = update.again(k)
                update.gradient.copy_(point - numbers("gradient", str(k), shape=(agents, COLUMNS)))
            update.finish(k)
    return [update.state for update in updates]


@pytest.mark.parametrize("variant", ["same", "bf16", "local"])
@pytest.mark.parametrize("name", PRESETS)
def test_every_method_equals_its_plain_step_bit_by_bit(name: str, variant: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = make(name)
    network = network_for(method, rounded=variant == "bf16")
    plain, passes = final_states(method, network.without_messages() if variant == "local" else network)
    for array, value in plain.items():
        assert torch.equal(passes[array], value), array


def test_clipped_gradients_and_sparse_weights() -> None:
    method = make("d-sgt-2", transform=Clip(0.3))
    plain, passes = final_states(method, network_for(method, rounded=False, agents=70), agents=70)
    for array, value in plain.items():
        assert torch.equal(passes[array], value), array


def test_a_state_that_becomes_another_takes_its_old_value() -> None:
    x, y, eta = Array("x"), Array("y"), Scalar("eta")
    arrays = {"x": torch.full((2, 1), 3.0), "y": torch.full((2, 1), 5.0)}
    network = network_for(make("d-sgd-1"), rounded=False, agents=2)
    kernel = TorchKernel({"x": x - eta * Mixed("mean", x + y), "y": x}, arrays, {}, network, compiled=False)
    kernel({"eta": 0.5})
    assert arrays["x"].flatten().tolist() == [-1.0, -1.0]
    assert arrays["y"].flatten().tolist() == [3.0, 3.0]
    kernel({"eta": 0.25})  # a number that changed reaches the pass
    assert arrays["x"].flatten().tolist() == [-1.5, -1.5]
