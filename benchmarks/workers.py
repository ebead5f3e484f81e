"""Two processes against one, the same run: mnist-cnn and mnist-nn, n = 10, B = 20.

python benchmarks/workers.py
"""

from __future__ import annotations

import statistics

from peerdescent import problems, train

CASES = {"mnist-cnn": ("er:10:0.4", "matched", 60), "mnist-nn": ("authors10", "unit", 1500)}
ROUNDS = 3


def seconds(name: str, workers: int) -> float:
    """What the iterations of one run take, without its start and its evaluations."""
    graph, laplacian, iterations = CASES[name]
    problem = problems.make(name, 10)
    settings = {"batch_size": 20, "laplacian": laplacian, "gradients": "stacked", "per_agent": False}
    result = train(problem, graph, "dsgpa-t-pb", iterations=iterations, workers=workers, **settings)
    return float(result.metrics[-1]["seconds"])


def main() -> None:
    print(f"{'problem':>10} {'1 process (s)':>14} {'2 processes (s)':>16} {'ratio':>6}")
    for name in CASES:
        one, two = [], []
        for _ in range(ROUNDS):  # in turn, so that what else the machine does falls on both
            one.append(seconds(name, 1))
            two.append(seconds(name, 2))
        a, b = statistics.median(one), statistics.median(two)
        print(f"{name:>10} {a:>14.2f} {b:>16.2f} {a / b:>6.2f}")


if __name__ == "__main__":
    main()
