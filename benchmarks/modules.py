"""A whole iteration of D-SGD for a user's module, through `problems.supervised`, against a plain PyTorch loop.

python benchmarks/modules.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from measure import cpu_minima
from torch import nn

from peerdescent import problems
from peerdescent.algorithms import make
from peerdescent.algorithms.state import initial_state
from peerdescent.graphs import ring
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Supervised
from peerdescent.problems.recorded import CALLS

ETA, SAMPLES = 0.1, 200
Step = Callable[[], None]


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10))


def convolutional() -> nn.Module:
    first = nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2)
    second = nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(nn.Unflatten(1, (1, 28, 28)), *first, *second, nn.Flatten(), nn.Linear(400, 10))


CASES = (
    ("784-50-10", dense, 10, 32, "stacked"),
    ("784-50-10", dense, 50, 32, "stacked"),
    ("784-50-10", dense, 10, 1, "stacked"),
    ("two convolutions", convolutional, 10, 32, "loop"),
    ("two convolutions", convolutional, 10, 1, "loop"),
)
"""A network, n, B, and the strategy of gradients="auto"."""


def make_problem(network: Callable[[], nn.Module], agents: int) -> Supervised:
    torch.manual_seed(0)
    data = torch.randn(agents * SAMPLES, 784), torch.randint(10, (agents * SAMPLES,))
    return problems.supervised(network(), nn.functional.cross_entropy, data, agents=agents)


def mixing(agents: int) -> MixingWeights:
    return MixingWeights.build(ring(agents), "metropolis", "metropolis", make("d-sgd-1"))


def ours(problem: Supervised, batch: int, strategy: str) -> Step:
    """An iteration as `train` runs it, after so many that the gradient is replayed."""
    algorithm = make("d-sgd-1", eta=ETA)
    network = make_network(mixing(problem.agents), torch.float32, torch.device("cpu"))
    update = make_update(algorithm, initial_state(algorithm, problem.start(0)), network)
    oracle = problem.oracle(batch, 0, True, range(problem.agents), strategy)
    iteration = iter(range(10**9))

    def step() -> None:
        k = next(iteration)
        oracle(update.begin(k), k, update.gradient)
        update.finish(k)

    for _ in range(CALLS + 1):
        step()
    return step


def by_hand(problem: Supervised, batch: int) -> Step:
    """The same without a library: a module and an autograd pass for every agent, and one product with W."""
    models = [problem.model(row) for row in problem.start(0)]
    W = torch.tensor(mixing(problem.agents).mixing.toarray(), dtype=torch.float32)
    shards = [problem.shard(i) for i in range(problem.agents)]

    def step() -> None:
        for model, (inputs, targets) in zip(models, shards, strict=True):
            chosen = torch.randint(len(targets), (batch,))
            model.zero_grad()
            nn.functional.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
        with torch.no_grad():
            for parameters in zip(*(model.parameters() for model in models), strict=True):
                x = torch.stack([p.detach().flatten() for p in parameters])
                for p, mixed in zip(parameters, W @ x, strict=True):
                    p.copy_((mixed.view_as(p)).sub_(p.grad, alpha=ETA))

    return step


def measure(network: Callable[[], nn.Module], agents: int, batch: int, auto: str) -> dict[str, float]:
    problem = make_problem(network, agents)
    steps = {"by hand": by_hand(problem, batch)}
    for strategy in (auto, "compiled"):
        steps[strategy] = ours(copy.copy(problem), batch, strategy)
    return cpu_minima(steps)


def main() -> None:
    torch.set_num_threads(1)
    print("one iteration, one thread, CPU time; the factor over a loop by hand in brackets")
    for name, network, agents, batch, auto in CASES:
        t = measure(network, agents, batch, auto)
        columns = (f"{way} {1e3 * seconds:.2f} ms ({t['by hand'] / seconds:.1f})" for way, seconds in t.items())
        print(f"{name}, n = {agents}, B = {batch}:", ", ".join(columns), flush=True)


if __name__ == "__main__":
    main()
