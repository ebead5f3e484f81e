"""Random numbers that a module draws while it computes: noticed, and made a function of (seed, agent, iteration)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from peerdescent.data import stream
from peerdescent.errors import InputError
from peerdescent.problems.base import Oracle

REPEATS = 3
"""How often a module is called to see whether its results vary: enough for most coin flips."""
EVALUATION_SEED = 0
"""The seed of draws during evaluations: f is then a function of x."""


@contextmanager
def own_generator(device: torch.device) -> Iterator[Callable[[int], None]]:
    """Let code draw from torch's generators without a trace: their states are put back.

    Yields a function that seeds them.

    >>> before = torch.get_rng_state()
    >>> with own_generator(torch.device("cpu")) as seed:
    ...     seed(1)
    ...     number = torch.rand(1)
    >>> torch.equal(torch.get_rng_state(), before)
    True
    """
    generators = _generators(device)
    states = [generator.get_state() for generator in generators]

    def seed(value: int) -> None:
        for generator in generators:
            generator.manual_seed(value)

    try:
        yield seed
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


def draws_random_numbers(compute: Callable[[], torch.Tensor], device: torch.device, name: str) -> bool:
    """Whether a computation draws from torch's generators.

    Args:
        compute: called a few times; returns all results as one vector.
        device: whose generators it may use.
        name: what the error message calls the module.

    Raises:
        InputError: its results vary although torch's generators are seeded alike, so that no seed can repeat a run.

    >>> draws_random_numbers(lambda: torch.ones(3), torch.device("cpu"), "the model")
    False
    >>> draws_random_numbers(lambda: torch.rand(3), torch.device("cpu"), "the model")
    True
    """
    python, numpy = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002 (modules may use it)
    with own_generator(device) as seed:
        results = []
        for _ in range(REPEATS):
            seed(EVALUATION_SEED)
            before = [generator.get_state() for generator in _generators(device)]
            results.append(compute())
        after = [generator.get_state() for generator in _generators(device)]
    drawn_by_python = random.getstate() != python
    drawn_by_numpy = str(np.random.get_state(legacy=False)) != str(numpy)  # noqa: NPY002
    random.setstate(python)
    np.random.set_state(numpy)  # noqa: NPY002
    if drawn_by_python or drawn_by_numpy:
        source = "Python's random" if drawn_by_python else "numpy.random"
        raise InputError(f"{name} draws from {source}, which the seed of a run does not control; draw with torch.")
    if not all(_same(results[0], result) for result in results[1:]):
        raise InputError(
            f"{name} gives other results when it is called again with equal inputs and random numbers: it has a random "
            "generator or a state of its own; draw from torch's default generator and keep no state."
        )
    return not all(map(torch.equal, before, after))


class SeededOracle:
    """Gradients of a module that draws random numbers: the draws depend on (seed, agent, iteration) alone.

    Args:
        oracles: one for each agent.
        seed: of the run.
        numbers: the numbers of the agents in their random streams.
        device: whose generators the module uses.
    """

    def __init__(self, oracles: Sequence[Oracle], seed: int, numbers: Sequence[int], device: torch.device) -> None:
        self._oracles, self._seed, self._numbers, self._device = oracles, seed, numbers, device

    def __call__(self, points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        with own_generator(self._device) as seed:
            for i, oracle in enumerate(self._oracles):
                seed(int(stream(self._seed, "module", self._numbers[i], k).integers(2**62)))
                oracle(points[i : i + 1], k, out[i : i + 1])


def _generators(device: torch.device) -> list[torch.Generator]:
    """The generators that operations on a device and on the CPU draw from."""
    if device.type == "cpu":
        return [torch.default_generator]
    if device.type == "mps":
        return [torch.default_generator, torch.mps._get_default_mps_generator()]
    module = torch.get_device_module(device)
    index = module.current_device() if device.index is None else device.index
    return [torch.default_generator, *getattr(module, "default_generators", ())[index : index + 1]]


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two results are equal, bit for bit on the CPU; other devices may sum in any order."""
    if a.device.type == "cpu":
        return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True)
