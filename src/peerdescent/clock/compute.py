"""Computing times: a function of (seed, agent, iteration), with the spread and the stragglers of the model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from peerdescent.clock.model import NetworkModel
from peerdescent.data.randomness import stream
from peerdescent.errors import InputError

Numbers = NDArray[np.float64]
BLOCK = 256
"""Iterations that are drawn at once."""


def mean_seconds(model: NetworkModel, n: int, measured: float | None = None) -> Numbers:
    """The mean computing time of each agent, without stragglers.

    Args:
        model: the network.
        n: number of agents.
        measured: the seconds per agent and iteration of the run, for a model that is relative to them.
    """
    compute = model.compute
    seconds = compute.seconds
    if seconds is None:
        if measured is None:
            raise InputError(
                f"{model.name} has computing times relative to a measured run, and there is none here: "
                "give compute.seconds instead of compute.relative."
            )
        assert compute.relative is not None  # the model has one of them
        seconds = compute.relative * measured
    means = np.full(n, seconds)
    for agents, factor in model.factors:
        means[list(agents)] *= factor
    return means


def compute_seconds(model: NetworkModel, n: int, seed: int, measured: float | None = None) -> Iterator[Numbers]:
    """The computing time of every agent, iteration by iteration, without end.

    With deviation d, a lognormal time is exp(σz − σ²/2) times the mean, σ² = ln(1 + d²), and a gamma time has the
    shape 1/d²; both have mean 1 and standard deviation d.

    >>> from peerdescent.clock.model import Compute
    >>> times = compute_seconds(NetworkModel(compute=Compute(seconds=0.1, spread="gamma", deviation=0.5)), 2, seed=1)
    >>> next(times).shape
    (2,)
    """
    means = mean_seconds(model, n, measured)
    varies = model.compute.deviation > 0 or model.stragglers.probability > 0
    block = 0
    while True:
        factors = np.ones((n, BLOCK)) if not varies else np.stack([_factors(model, seed, i, block) for i in range(n)])
        yield from (means[:, None] * factors).T
        block += 1


def _factors(model: NetworkModel, seed: int, agent: int, block: int) -> Numbers:
    """The factors of one agent in one block of iterations."""
    deviation, slow = model.compute.deviation, model.stragglers
    random = stream(seed, "computing time", agent, block)
    if model.compute.spread == "lognormal":
        sigma = math.sqrt(math.log1p(deviation**2))
        factors = np.exp(sigma * random.standard_normal(BLOCK) - sigma**2 / 2)
    elif model.compute.spread == "gamma":
        factors = random.gamma(1 / deviation**2, deviation**2, BLOCK)
    else:
        factors = np.ones(BLOCK)
    if slow.probability and (model.straggling is None or agent in model.straggling):
        hit = stream(seed, "straggler", agent, block).random(BLOCK) < slow.probability
        factors = np.where(hit, factors * slow.factor, factors)
    return factors
