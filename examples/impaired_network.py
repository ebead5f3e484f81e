"""How methods react to lost, late and noisy messages: relative error after 1,500 iterations, as a Markdown table.

Quadratic costs with different minima on a ring of 10 agents, exact gradients, fixed step sizes.
"""

import warnings

import numpy as np

import peerdescent as pd
from peerdescent.problems import Quadratic

AGENTS, DIMENSION, ITERATIONS = 10, 5, 1500
METHODS = {
    "d-sgd-1": {"eta": 0.02},
    "d-sgt-1": {"eta": 0.02},
    "d-sgt-2": {"eta": 0.02},
    "dsgpa-f": {"eta": 0.02, "alpha": 10.0, "beta": 5.0},
    "d2": {"eta": 0.02},
}
NETWORKS = {
    "perfect": {},
    "drop 0.1": {"drop": "0.1"},
    "drop 0.3": {"drop": "0.3"},
    "drop 0.3, one-sided": {"drop": "0.3:one-sided"},
    "inactive 0.3": {"inactive": "0.3"},
    "delay 1": {"delay": 1},
    "delay 5": {"delay": 5},
    "noise 0.01": {"message_noise": 0.01},
}


def error(problem: Quadratic, method: str, network: dict) -> str:
    """The distance from the optimum, relative to its norm, as the agents' root mean square."""
    settings = {
        "iterations": ITERATIONS,
        "batch_size": 0,
        "dtype": "float64",
        "eval_every": ITERATIONS,
        "per_agent": False,
    }
    try:
        run = pd.train(problem, f"ring:{AGENTS}", pd.algorithms.make(method, **METHODS[method]), **settings, **network)
    except pd.DivergedError:
        return "diverges"
    best = problem.optimum()
    far = float((run.x - best).norm() / AGENTS**0.5 / best.norm())
    return f"{far:.0e}" if far < 10 else "diverges"


def main() -> None:
    """Print the table."""
    random = np.random.default_rng(0)
    problem = Quadratic(random.uniform(0.5, 2, (AGENTS, DIMENSION)), random.standard_normal((AGENTS, DIMENSION)))
    warnings.simplefilter("ignore")  # one-sided drops and unstable methods are the point here
    print("| network |", " | ".join(METHODS), "|")
    print("|---" * (len(METHODS) + 1) + "|")
    for name, network in NETWORKS.items():
        print(f"| {name} |", " | ".join(error(problem, method, network) for method in METHODS), "|", flush=True)


if __name__ == "__main__":
    main()
