"""An iteration on a graph that changes every round, against the same iteration on one of its rounds, held still.

python benchmarks/sequences.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from measure import medians

from peerdescent import graphs
from peerdescent.algorithms import make
from peerdescent.algorithms.state import initial_state
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.sequence_weights import make_weights
from peerdescent.problems import MnistNN

AGENTS, BATCH = 16, 20
SEQUENCES = ("onepeer-exp:16", "base:16:1", "matching:16", "matcha:er:16:0.4:0.5")
METHODS = ("d-sgd-1", "dsgpa-f-pb", "d-sgt-1")


def iteration(problem: MnistNN, graph: graphs.Graph | graphs.GraphSequence, method: str) -> Callable[[], None]:
    """An iteration with its gradients; each call is the next one."""
    algorithm = make(method)
    weights = make_weights(graph, "metropolis", "metropolis", algorithm)
    network = make_network(weights, torch.float32, torch.device("cpu"))
    update = make_update(algorithm, initial_state(algorithm, problem.start(0)), network)
    oracle = problem.oracle(BATCH, 0, True, range(AGENTS), "stacked")
    rounds = iter(range(10**9))

    def step() -> None:
        k = next(rounds)
        oracle(update.begin(k), k, update.gradient)
        update.finish(k)

    return step


def typical(sequence: graphs.GraphSequence) -> graphs.Graph:
    """The first round with as many edges as rounds have on average, or nearly so."""
    return min(map(sequence.graph, range(20)), key=lambda graph: abs(len(graph.edges) - sequence.mean_edges))


def main() -> None:
    torch.set_num_threads(1)
    problem = MnistNN(agents=AGENTS)
    print(f"mnist-nn, n = {AGENTS}, p = {problem.dimension:,}, B = {BATCH}, one thread; target: ratio ≤ 1.15")
    print(f"{'sequence':<24}{'method':<14}{'held still, µs':>15}{'changing / held still':>24}")
    for spec in SEQUENCES:
        sequence = graphs.parse(spec)
        for method in METHODS:
            held, changing = (iteration(problem, each, method) for each in (typical(sequence), sequence))
            t = medians({"held": held, "changing": changing})
            print(f"{spec:<24}{method:<14}{1e6 * t['held']:>15.0f}{t['changing'] / t['held']:>24.2f}")


if __name__ == "__main__":
    main()
