"""How skewed and how heavy-tailed real minibatch gradients are: their skewness and Hill's tail index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from peerdescent import problems
from peerdescent._util.randomness import stream
from peerdescent.algorithms import make
from peerdescent.problems import Problem
from peerdescent.training.train import train

Numbers = NDArray[np.float64]
NETWORKS = {"mnist-nn": 300, "mnist-cnn": 60}
"""Minibatch gradients of every agent that are drawn at a point."""
AGENTS, BATCH, ENTRIES = 5, 20, 400
TAIL = 0.01
"""The share of the largest values that Hill's estimator uses."""
TRAINED = {"mnist-nn": 1000, "mnist-cnn": 60}
"""Iterations of gradient tracking to the point "trained"."""
STEPS = {"mnist-nn": 0.2, "mnist-cnn": 0.3}


@dataclass(frozen=True)
class Tails:
    """The noise of minibatch gradients, g − ∇f_i(x), of a network at a point."""

    network: str
    point: str
    skewness: float
    """The median over the entries of |skewness|, each over the minibatches of one agent."""
    skewed: float
    """The share of the entries with |skewness| > 1."""
    chance: float
    """The same median for Gaussian noise and as many minibatches: what finite samples show by chance."""
    index: float
    """Hill's tail index of the entries, each divided by its standard deviation; below 2 the variance is infinite."""
    gaussian_index: float
    """The same for Gaussian noise, which has no tail index: what finite samples show."""
    norm_index: float
    """Hill's tail index of ‖g − ∇f_i(x)‖ over its median."""


def hill(values: Numbers, share: float = TAIL) -> float:
    """Hill's estimate of α in P(X > t) ~ t^−α, from the largest values.

    >>> sample = np.random.default_rng(0).pareto(1.5, 200_000) + 1
    >>> abs(hill(sample) - 1.5) < 0.1
    True
    """
    ordered = np.sort(np.abs(values).ravel())[::-1]
    count = max(2, int(share * len(ordered)))
    return float(1 / np.mean(np.log(ordered[: count - 1] / ordered[count - 1])))


def skewness(noise: Numbers) -> Numbers:
    """E ξ³/(E ξ²)^(3/2) over the first axis; entries that never vary have none and are left out.

    >>> coins = np.array([[0.0], [0.0], [0.0], [1.0]])
    >>> skewness(coins - coins.mean(axis=0)).round(3)
    array([1.155])
    """
    variance = (noise**2).mean(axis=0)
    kept = variance > 0
    return np.asarray((noise[:, kept] ** 3).mean(axis=0) / variance[kept] ** 1.5, dtype=np.float64)


def noise_of(problem: Problem, x: torch.Tensor, minibatches: int, entries: int = ENTRIES) -> tuple[Numbers, Numbers]:
    """Some entries of g, minibatch × (agent, entry), and the norms of all of g − mean g, minibatch × agent."""
    block, points = range(problem.agents), x.expand(problem.agents, -1).contiguous()
    oracle = problem.oracle(BATCH, 0, True, block, problem.preferred_strategy()[0])
    chosen = torch.from_numpy(stream(0, "tails").permutation(problem.dimension)[:entries].copy())
    out, total = torch.empty_like(points), torch.zeros_like(points)
    parts, norms = [], []
    for k in range(minibatches):
        oracle(points, k, out)
        total += out
        parts.append(out[:, chosen].flatten().double().numpy())
    for k in range(minibatches):  # again, instead of keeping them all
        oracle(points, k, out)
        norms.append((out - total / minibatches).norm(dim=1).double().numpy())
    return np.stack(parts), np.stack(norms)


def tails(network: str, point: str, noise: Numbers, norms: Numbers) -> Tails:
    """What these minibatches say."""
    centred = noise - noise.mean(axis=0)
    found = np.abs(skewness(centred))
    gaussian = stream(0, "gaussian").standard_normal(centred.shape)
    deviation = centred.std(axis=0)
    scaled = centred[:, deviation > 0] / deviation[deviation > 0]
    by_chance = np.abs(skewness(gaussian - gaussian.mean(axis=0)))
    return Tails(
        network,
        point,
        float(np.median(found)),
        float((found > 1).mean()),
        float(np.median(by_chance)),
        hill(scaled),
        hill(gaussian),
        hill(norms / np.median(norms, axis=0)),
    )


def measure(network: str, budget: float = 1.0) -> list[Tails]:
    """The tails of a network's minibatch gradients at its starting point and after some training."""
    count, iterations = (max(4, round(n[network] * budget)) for n in (NETWORKS, TRAINED))
    problem = problems.make(network, AGENTS)
    start = problem.start(0)[0]
    result = train(
        problem, f"ring:{AGENTS}", make("d-sgt-1", eta=STEPS[network]), x0=start, iterations=iterations,
        batch_size=BATCH, eval_every=iterations, per_agent=False, progress=False,
    )  # fmt: skip
    points = {"start": start, "trained": result.x_mean.to(start)}
    return [tails(network, name, *noise_of(problem, x, count)) for name, x in points.items()]
