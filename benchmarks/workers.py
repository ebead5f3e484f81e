"""Two processes against one, the same run: mnist-cnn and mnist-nn, n = 10, B = 20.

python benchmarks/workers.py

Two processes share memory, or exchange rows through sockets as hosts do. The last column is the limit of two CPUs: two
independent runs of five agents at the same time, without messages, against one run of ten.
"""

from __future__ import annotations

import multiprocessing
import statistics
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from peerdescent import problems, train
from peerdescent.distributed import shared_memory

CASES = {"mnist-cnn": ("er:10:0.4", 150), "mnist-nn": ("authors10", 2000)}
ROUNDS = 3


def seconds(name: str, graph: str, iterations: int, workers: int) -> float:
    """The seconds of one run's iterations, without its start-up and its evaluations."""
    problem = problems.make(name, 5 if graph == "ring:5" else 10)
    settings = {"batch_size": 20, "gradients": "stacked", "per_agent": False, "eval_every": iterations}
    result = train(problem, graph, "dsgpa-t-pb", iterations=iterations, workers=workers, **settings)
    return float(result.metrics[-1]["seconds"])


def halves(name: str, iterations: int) -> float:
    """The slower of two simultaneous runs with half the agents each."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        runs = [pool.submit(seconds, name, "ring:5", iterations, 1) for _ in range(2)]
        return max(run.result() for run in runs)


def through_sockets(name: str, graph: str, iterations: int) -> float:
    """Two processes without shared memory."""
    memory, shared_memory.MEMORY = shared_memory.MEMORY, Path("/nowhere")
    try:
        return seconds(name, graph, iterations, 2)
    finally:
        shared_memory.MEMORY = memory


def main() -> None:
    print(f"{'problem':>10} {'1 process (ms)':>15} {'2 processes (ms)':>17} {'ratio':>6} {'sockets':>8} {'limit':>8}")
    for name, (graph, iterations) in CASES.items():
        one, two, sent, apart = [], [], [], []
        for _ in range(ROUNDS):  # in turn, so that other load affects all alike
            one.append(seconds(name, graph, iterations, 1))
            two.append(seconds(name, graph, iterations, 2))
            sent.append(through_sockets(name, graph, iterations))
            apart.append(halves(name, iterations))
        a, b, c, d = (1e3 * statistics.median(times) / iterations for times in (one, two, sent, apart))
        print(f"{name:>10} {a:>15.2f} {b:>17.2f} {a / b:>6.2f} {a / c:>8.2f} {a / d:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
