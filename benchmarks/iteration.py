"""A whole iteration of mnist-nn (n = 10, B = 20) against a plain per-agent PyTorch loop of the same method.

python benchmarks/iteration.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from measure import medians

from peerdescent.algorithms import make
from peerdescent.algorithms.state import initial_state
from peerdescent.graphs import authors10
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import MnistNN, SigmoidNet, risk

BATCH, METHOD = 20, "dsgpa-f-pb"


def ours(problem: MnistNN, strategy: str, kernel: str) -> Callable[[], None]:
    algorithm = make(METHOD)
    network = make_network(
        MixingWeights.build(authors10(), "unit", "metropolis", algorithm), torch.float32, torch.device("cpu")
    )
    update = make_update(algorithm, initial_state(algorithm, problem.start(0)), network, kernel)
    oracle = problem.oracle(BATCH, 0, True, range(10), strategy)
    iteration = iter(range(10**9))

    def step() -> None:
        k = next(iteration)
        oracle(update.begin(k), k, update.gradient)
        update.finish(k)

    return step


def by_hand(problem: MnistNN) -> Callable[[], None]:
    """The same without a library: a module, an autograd pass and a loop over neighbours for every agent."""
    graph, h = authors10(), make(METHOD)
    models = [SigmoidNet() for _ in range(10)]
    for model, row in zip(models, problem.start(0), strict=True):
        torch.nn.utils.vector_to_parameters(row, model.parameters())
    dual = [[torch.zeros_like(p) for p in model.parameters()] for model in models]
    shards = [problem.shard(i) for i in range(10)]

    @torch.no_grad()
    def update(i: int, old: list[list[torch.Tensor]]) -> None:
        for index, p in enumerate(models[i].parameters()):
            x = old[i][index]
            Lx = sum((x - old[j][index] for j in graph.neighbours(i)), torch.zeros_like(x))
            dual[i][index] += h.eta * h.beta * Lx
            power = torch.sign(p.grad) * p.grad.abs() ** h.gamma
            p.sub_(h.eta * (h.alpha * Lx + h.beta * dual[i][index] + power))

    def step() -> None:
        old = [[p.detach().clone() for p in model.parameters()] for model in models]
        for i, (inputs, labels) in enumerate(shards):
            chosen = torch.randint(len(labels), (BATCH,))
            models[i].zero_grad()
            risk(models[i](inputs[chosen]), labels[chosen]).backward()
        for i in range(10):
            update(i, old)

    return step


def main() -> None:
    torch.set_num_threads(1)
    problem = MnistNN()
    t = medians(
        {
            "ours": ours(problem, "stacked", "auto"),
            "ours, agent by agent": ours(problem, "loop", "auto"),
            "ours, plain update": ours(problem, "stacked", "plain"),
            "by hand": by_hand(problem),
        },
        seconds=0.05,
    )
    print(f"mnist-nn, n = 10, B = 20, {METHOD}, one thread; by hand / ours: target ≥ 6")
    for name, value in t.items():
        print(f"{name:<22}{1e3 * value:>8.2f} ms   by hand / this: {t['by hand'] / value:>6.1f}")


if __name__ == "__main__":
    main()
