"""Would trials be faster if many settings of one method ran as one batch? Time per setting, separate over stacked.

Separate: the compiled update, as `peerdescent tune` runs its trials, in parallel processes.
Stacked: C settings as C×n×p tensors with step sizes of shape C×1×1, with an eager update, because the compiled
kernels take one number for each step size.

python benchmarks/stacking.py
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from measure import medians

from peerdescent import problems
from peerdescent.algorithms import make
from peerdescent.algorithms.state import initial_state
from peerdescent.graphs import authors10
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights

AGENTS, SETTINGS = 10, 12
CASES: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("quadratic", 1, {"dimension": 10, "noise": 0.1}),
    ("quadratic", 1, {"dimension": 100, "noise": 0.1}),
    ("logistic-nonconvex", 20, {"samples": 10_000}),
    ("mnist-nn", 1, {}),
)


class Stacked:
    """The network for C×n×p tensors."""

    def __init__(self, weights: MixingWeights) -> None:
        self.L = torch.tensor(weights.laplacian.toarray(), dtype=torch.float32)
        self.D = torch.eye(AGENTS) - torch.tensor(weights.mixing.toarray(), dtype=torch.float32)

    def laplacian(self, a: torch.Tensor) -> torch.Tensor:
        return self.L @ a

    def disagreement(self, a: torch.Tensor) -> torch.Tensor:
        return self.D @ a

    def mix(self, a: torch.Tensor) -> torch.Tensor:
        return a - self.D @ a


def separate(name: str, batch: int, options: dict[str, Any], method: str) -> Callable[[], None]:
    problem, algorithm = problems.make(name, AGENTS, **options), make(method)
    weights = MixingWeights.build(authors10(), "unit", "metropolis", algorithm)
    network = make_network(weights, torch.float32, torch.device("cpu"))
    update = make_update(algorithm, initial_state(algorithm, problem.start(0)), network)
    oracle = problem.oracle(batch, 0, True, range(AGENTS))
    iteration = iter(range(10**9))

    def step() -> None:
        k = next(iteration)
        oracle(update.begin(k), k, update.gradient)
        update.finish(k)

    return step


def stacked(name: str, batch: int, options: dict[str, Any], method: str) -> Callable[[], None]:
    """The gradients of C·n agents in one call replace those of n agents at C points each."""
    problem, algorithm = problems.make(name, AGENTS * SETTINGS, **options), make(method)
    network = Stacked(MixingWeights.build(authors10(), "unit", "metropolis", algorithm))
    start = initial_state(algorithm, problem.start(0))
    state = {key: array.view(SETTINGS, AGENTS, -1) for key, array in start.items()}
    h = SimpleNamespace(**{key: torch.full((SETTINGS, 1, 1), v) for key, v in algorithm.hyperparameters(0).items()})
    oracle = problem.oracle(batch, 0, True, range(AGENTS * SETTINGS))
    gradient = torch.empty_like(start["x"])
    iteration = iter(range(10**9))

    def step() -> None:
        run = algorithm.step(SimpleNamespace(**state), network, h)
        oracle(next(run).reshape(gradient.shape), next(iteration), gradient)
        try:
            run.send(gradient.view(SETTINGS, AGENTS, -1))
        except StopIteration as end:
            state.update(end.value)

    return step


def main() -> None:
    torch.set_num_threads(1)
    print(f"{SETTINGS} settings, {AGENTS} agents, one thread; above 1, stacking is faster")
    for name, batch, options in CASES:
        for method in ("d-sgd-1", "dsgpa-f-pb"):
            arguments = (name, batch, options, method)
            t = medians({"separate": separate(*arguments), "stacked": stacked(*arguments)}, seconds=0.05)
            each, size = t["stacked"] / SETTINGS, f"{name} {options.get('dimension', '')}"
            print(f"{size:<22}{method:<12}{1e6 * t['separate']:>8.0f} µs separate {1e6 * each:>8.0f} µs stacked "
                  f"{t['separate'] / each:>6.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
