"""A run on a network on which things go wrong: its rounds, its messages, inactive agents, and what they break."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import initial_state
from peerdescent.errors import InputError
from peerdescent.kernels.update import Update
from peerdescent.mixing.impaired_rounds import ImpairedRounds
from peerdescent.mixing.impairments import parse_drop, parse_inactive
from peerdescent.mixing.imperfect_messages import Delay, Noise
from peerdescent.mixing.network import MessageFilter
from peerdescent.mixing.rounds import Rounds
from peerdescent.problems.base import Buffers
from peerdescent.tracing.recording import vectors_sent
from peerdescent.training.added_updates import AddedUpdate
from peerdescent.training.settings import Settings


def check_impairments(algorithm: Algorithm, settings: Settings, name: str) -> list[str]:
    """What the reader should know before the run, in sentences; refuses inactive agents where all agents are needed."""
    if not settings.impaired:
        return []
    if vectors_sent(algorithm) == 0:
        if settings.inactive is not None:
            raise InputError(
                f"inactive = {settings.inactive!r}: {name} averages over all agents in every iteration; leave it out, "
                "or use a method that exchanges messages along edges."
            )
        return [f"{name} sends nothing along edges, so that no impairment of messages affects it"]
    if settings.drop is None or not parse_drop(settings.drop).one_sided:
        return []
    return [
        f"{name}'s {invariant} breaks when a message is lost in one direction only (drop = {settings.drop!r}): use "
        "symmetric drops or d-sgd-1"
        for invariant in invariants_of(algorithm)
    ]


def invariants_of(algorithm: Algorithm) -> list[str]:
    """The names of the method's invariants.

    >>> from peerdescent.algorithms import make
    >>> invariants_of(make("dsgpa-f")), invariants_of(make("d-sgd-1"))
    (['sum of v = 0'], [])
    """
    return list(algorithm.invariants(SimpleNamespace(**initial_state(algorithm, torch.ones(1, 1)))))


def impair(
    rounds: Rounds, settings: Settings, lost: Collection[int], rounds_before: Callable[[int], int]
) -> tuple[Rounds, list[MessageFilter]]:
    """The rounds, and what happens to messages on their way: they become noisy, and then they are late.

    Args:
        rounds: the rounds without impairments.
        settings: of the run.
        lost: agents of the beginning that are no longer there; the others keep their random numbers.
        rounds_before: the number of exchanges before an iteration.
    """
    if not settings.impaired:
        return rounds, []
    agents = [agent for agent in range(rounds.n + len(lost)) if agent not in lost]
    filters: list[MessageFilter] = [Delay(settings.delay, rounds_before)] if settings.delay else []
    if settings.message_noise:
        filters.append(Noise(settings.message_noise, settings.seed, agents, settings.message_dtype == "bf16"))
    drop = None if settings.drop is None else parse_drop(settings.drop)
    inactive = None if settings.inactive is None else parse_inactive(settings.inactive)
    if drop is None and inactive is None and not settings.delay:
        return rounds, filters
    return ImpairedRounds(rounds, settings.seed, drop, inactive, settings.delay, agents, rounds_before), filters


def with_inactive(update: Update, rounds: Rounds, own: range, buffers: Buffers) -> Update:
    """The update in which inactive agents do nothing, if agents ever are inactive."""
    if isinstance(rounds, ImpairedRounds) and rounds.inactive is not None:
        return InactiveUpdate(update, rounds, own, buffers)
    return update


class InactiveUpdate(AddedUpdate):
    """An update in which inactive agents do nothing: their rows stay as they are, those of the model's buffers too.

    Args:
        update: the same with all agents.
        rounds: say which agents are inactive.
        own: the agents hosted here.
        buffers: what the forward passes of these agents change.
    """

    def __init__(self, update: Update, rounds: ImpairedRounds, own: range, buffers: Buffers) -> None:
        super().__init__(update)
        self._rounds, self._own, self._buffers = rounds, own, buffers
        self._kept: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def begin(self, k: int) -> torch.Tensor:
        """Start iteration k, and keep the rows of inactive agents."""
        off = self._rounds.inactive_at(k)[self._own.start : self._own.stop].nonzero()[0]
        arrays = [*self.state.values(), *self._buffers.values()] if len(off) else []
        where = torch.from_numpy(off)
        self._kept = [(array, rows, array[rows]) for array in arrays for rows in [where.to(array.device)]]
        return super().begin(k)

    def finish(self, k: int) -> None:
        """End iteration k, and put the rows of inactive agents back."""
        super().finish(k)
        for array, rows, before in self._kept:
            array[rows] = before
