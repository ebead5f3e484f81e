"""A small BatchNorm and dropout network on tiny images, and its decentralized training written out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import nn

from peerdescent import Result, train
from peerdescent.data import Minibatches, stream
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.problems import Supervised, supervised

AGENTS, BATCH, ETA = 4, 3, 0.1
GRAPH = "complete:4"
State = dict[int, dict[str, torch.Tensor]]
"""Parameters and buffers by name, for every agent."""


def images(agents: int = AGENTS) -> tuple[torch.Tensor, torch.Tensor]:
    """Two classes of 5×5 images: the brighter half decides."""
    inputs = torch.randn(10 * agents, 1, 5, 5, generator=torch.Generator().manual_seed(3))
    return inputs, (inputs[:, 0, :2].mean((1, 2)) > inputs[:, 0, 3:].mean((1, 2))).long()


def network() -> nn.Sequential:
    """A convolution with BatchNorm and dropout, and a second BatchNorm behind a dense layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten()]
        return nn.Sequential(*first, nn.Linear(27, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))


def problem(model: nn.Module | None = None, **options: Any) -> Supervised:
    """Every agent has ten images."""
    data = images()
    return supervised(model or network(), nn.functional.cross_entropy, data, agents=AGENTS, test=data, **options)


def run(group: ProcessGroup | None = None, **settings: Any) -> Result:
    """D-SGD on the complete graph unless told otherwise; `settings` go to `train`."""
    chosen = {"iterations": 20, "batch_size": BATCH, "eval_every": 10, "kernel": "plain", **settings}
    method = chosen.pop("method", "d-sgd-1")
    graph = chosen.pop("graph", GRAPH)
    return train(problem(chosen.pop("model", None)), graph, method, group=group, **chosen)


def beginning(dtype: torch.dtype) -> State:
    """All agents with the network as it is."""
    module = network().to(dtype)
    return {agent: {name: value.clone() for name, value in module.state_dict().items()} for agent in range(AGENTS)}


def metropolis(agents: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Metropolis weights of a complete graph: w_ij = 1/(1 + max(d_i, d_j))."""
    graph = nx.complete_graph(agents)
    w = np.zeros((agents, agents))
    for i, j in graph.edges:
        w[i, j] = w[j, i] = 1 / (1 + max(graph.degree[i], graph.degree[j]))
    return w + np.diag(1 - w.sum(axis=1))


def by_hand(state: State, iterations: range, seed: int = 0) -> State:
    """x_i ← Σ_j w_ij x_j − η ∇F_i(x_i) with one module per agent; its buffers stay with it."""
    whole = problem()
    agents: Sequence[int] = sorted(state)
    dtype = state[agents[0]]["0.weight"].dtype
    modules = {agent: network().to(dtype) for agent in agents}
    for agent, module in modules.items():
        module.load_state_dict(state[agent])
    w = metropolis(len(agents))
    minibatches = Minibatches(whole.sizes, BATCH, seed, True, range(AGENTS))
    for k in iterations:
        rows = minibatches.batches(k)
        for agent, module in modules.items():
            own = whole.shard(agent)
            batch = own[0][rows[agent]].to(dtype), own[1][rows[agent]]
            module.zero_grad()
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(stream(seed, "module", agent, k).integers(2**62)))
                nn.functional.cross_entropy(module(batch[0]), batch[1]).backward()
        for name, _ in network().named_parameters():
            held = [module.get_parameter(name) for module in modules.values()]
            x = np.stack([parameter.detach().numpy() for parameter in held])
            g = np.stack([parameter.grad.numpy() for parameter in held if parameter.grad is not None])
            new = np.einsum("ij,j...->i...", w, x) - ETA * g
            for parameter, value in zip(held, new, strict=True):
                parameter.data = torch.from_numpy(value).to(dtype)
    return {agent: {name: v.clone() for name, v in m.state_dict().items()} for agent, m in modules.items()}
