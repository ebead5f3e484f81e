"""One iteration: every gradient that the step wants, all on the same samples, and the update."""

from __future__ import annotations

from peerdescent.algorithms import Algorithm
from peerdescent.kernels.update import Update
from peerdescent.problems import Oracle
from peerdescent.problems.base import Buffers
from peerdescent.tracing.recording import gradients_wanted


def iterate(update: Update, oracle: Oracle, buffers: Buffers, k: int) -> None:
    """Carry out iteration k.

    Samples and random draws are a function of (seed, agent, k), so that every gradient of the iteration is on the same
    ones. Each sees the model's buffers as they were at the start, and those that the first leaves are kept: with two
    gradients a moving average does not move twice.

    Args:
        update: the method.
        oracle: the gradients of the agents hosted here.
        buffers: what the oracle's calls change.
        k: the iteration.
    """
    gradients = update.gradients_at(k)
    if gradients == 1:
        oracle(update.begin(k), k, update.gradient)
        update.finish(k)
        return
    before = _copied(buffers)
    oracle(update.begin(k), k, update.gradient)
    after = _copied(buffers)
    for _ in range(1, gradients):
        point = update.again(k)
        _restore(buffers, before)
        oracle(point, k, update.gradient)
    _restore(buffers, after)
    update.finish(k)


def _copied(buffers: Buffers) -> Buffers:
    return {name: rows.clone() for name, rows in buffers.items()}


def _restore(buffers: Buffers, kept: Buffers) -> None:
    for name, rows in kept.items():
        buffers[name].copy_(rows)


def cost_notes(algorithm: Algorithm) -> list[str]:
    """What a reader of the records should know of the cost of an iteration: nothing, if it is one gradient.

    >>> from peerdescent.algorithms import make
    >>> cost_notes(make("gt-hsgd")), cost_notes(make("d-sgd-1"))
    (['gradients per iteration: 2, on the same samples'], [])
    """
    count = gradients_wanted(algorithm)
    return [f"gradients per iteration: {count}, on the same samples"] if count > 1 else []
