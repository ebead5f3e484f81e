"""A method's step for all agents at once, where modes do not separate: graphs over time, or both L and W in one step.

The state is an array of states × agents × columns. The rows of L and of I−W sum to zero, so equal rows stay equal, and
what happens to the agents' disagreement does not depend on their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.expressions import Mixed
from peerdescent.mixing.push_sum import PushSumRounds
from peerdescent.mixing.rounds import Round, Rounds
from peerdescent.theory.evaluation import evaluate
from peerdescent.theory.recursion import Equation, Numbers

DENSE_UP_TO = 64
"""Agents up to which products with dense matrices are faster."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class KnownRounds:
    """A list of rounds, which repeats unless it is the beginning of one that does not."""

    rounds: tuple[Round, ...]
    repeats: bool = True

    @classmethod
    def of(cls, given: Rounds, sample: int, scale: float = 1.0) -> KnownRounds:
        """The rounds of one period, or of a sample, with L times a number."""
        rounds = [given.at(r) for r in range(given.period or sample)]
        scaled = (Round(each.laplacian * scale, each.disagreement, each.pairs, each.push_sum) for each in rounds)
        return cls(tuple(scaled), given.period is not None)

    def scaled(self, scale: float) -> KnownRounds:
        """The same with L times a number."""
        return self if scale == 1 else KnownRounds.of(self, len(self.rounds), scale)

    @cached_property
    def prepared(self) -> list[Exchange]:
        """All rounds, ready for products."""
        return [Exchange.of(each) for each in self.rounds]

    @property
    def n(self) -> int:
        """The number of agents."""
        return int(self.rounds[0].laplacian.shape[0])

    @property
    def period(self) -> int | None:
        """The number of rounds, if they repeat."""
        return len(self.rounds) if self.repeats else None

    @property
    def pairs(self) -> NDArray[Any]:
        """Receivers and senders of all rounds together."""
        return np.unique(np.concatenate([each.pairs for each in self.rounds]), axis=0)

    def messages(self, first: int, last: int) -> int:
        """How many rows travel along edges in rounds first, …, last − 1."""
        return sum(len(self.at(r).pairs) for r in range(first, last))

    def at(self, round: int) -> Round:
        """The matrices of a round."""
        return self.rounds[round % len(self.rounds)] if self.repeats else self.rounds[round]


@dataclass(frozen=True)
class ScaledRounds:
    """Rounds with c·L and c·(I−W)."""

    given: Rounds
    c: float

    @property
    def n(self) -> int:
        """The number of agents."""
        return self.given.n

    @property
    def period(self) -> int | None:
        """The rounds after which they repeat."""
        return self.given.period

    @property
    def pairs(self) -> NDArray[Any]:
        """Receivers and senders of all rounds together."""
        return self.given.pairs

    def messages(self, first: int, last: int) -> int:
        """How many rows travel along edges in rounds first, …, last − 1."""
        return self.given.messages(first, last)

    def at(self, round: int) -> Round:
        """The matrices of a round."""
        return self.given.at(round).scaled(self.c)


@dataclass(frozen=True)
class Exchange:
    """L and I−W of one round, ready for products."""

    laplacian: Any
    disagreement: Any

    @classmethod
    def of(cls, given: Round) -> Exchange:
        """The matrices of a round; their rows must sum to zero."""
        matrices = given.laplacian, given.disagreement
        for name, matrix in zip(("L", "I−W"), matrices, strict=True):
            if np.abs(matrix.sum(axis=1)).max(initial=0.0) > ROUNDING * max(1.0, np.abs(matrix.data).max(initial=0.0)):
                raise InputError(f"no prediction: the rows of {name} do not sum to zero.")
        small = matrices[0].shape[0] <= DENSE_UP_TO
        return cls(*(matrix.toarray() if small else matrix for matrix in matrices))


def as_rounds(value: object) -> Rounds:
    """Return the matrices of every round, with settled push-sum weights; raise InputError for anything else."""
    if isinstance(value, PushSumRounds):
        return value.settled()
    if not (callable(getattr(value, "at", None)) and hasattr(value, "period") and hasattr(value, "n")):
        raise InputError(f"weights is {described(value)}: expected the L and W of a graph or of a sequence of graphs.")
    return value  # type: ignore[return-value]


def exchanges(rounds: Rounds, count: int) -> list[Exchange]:
    """The first rounds; those of a repeating sequence are made once."""
    period = min(count, rounds.period or count)
    if isinstance(rounds, KnownRounds) and period <= len(rounds.rounds):
        made = rounds.prepared
    else:
        made = [Exchange.of(rounds.at(r)) for r in range(period)]
    return [made[r % period] for r in range(count)]


@dataclass(frozen=True)
class AgentsStep:
    """The step of all agents, for f_i = h‖x‖²/2 and messages that are `delay` rounds late."""

    equation: Equation
    curvature: float = 0.0
    delay: int = 0
    slope: float = 1.0
    """The factor that replaces a power or a clip."""

    def exchange(self, state: Numbers, matrices: Exchange) -> Numbers:
        """An iteration with messages."""
        equation, delay = self.equation, self.delay
        rows: list[Any] = list(state)
        for message in equation.messages if delay else ():
            first = equation.lag(message, delay)
            rows[first + 1 : first + delay] = rows[first : first + delay - 1]

        def mix(node: Mixed, value: Any) -> Any:
            value = np.broadcast_to(value, state.shape[1:])
            if node.kind == "mean":
                return np.broadcast_to(value.mean(axis=0), value.shape)
            if delay:
                first = equation.lag(node.source, delay)
                rows[first], value = value, state[first + delay - 1]
            return (matrices.laplacian if node.kind == "laplacian" else matrices.disagreement) @ value

        return self._new(equation.exchanging, state, rows, mix)

    def local(self, state: Numbers) -> Numbers:
        """An iteration without messages."""
        return self._new(self.equation.local, state, list(state), _mean)

    def run(self, state: Numbers, matrices: Iterable[Exchange], communication_period: int = 1) -> Numbers:
        """Rounds of `communication_period` iterations, whose last one exchanges messages."""
        for exchange in matrices:
            for _ in range(communication_period - 1):
                state = self.local(state)
            state = self.exchange(state, exchange)
        return state

    def _new(self, step: Any, state: Numbers, rows: list[Any], mix: Any) -> Numbers:
        names = self.equation.names
        _, new = evaluate(
            step,
            {**dict(zip(names, state, strict=False)), **self.equation.numbers()},
            gradient=lambda point: self.curvature * point,
            mix=mix,
            powered=lambda _, value: self.slope * value,
        )
        rows[: len(names)] = (new[name] for name in names)
        return np.stack([np.broadcast_to(row, state.shape[1:]) for row in rows])


def _mean(_: Mixed, value: Any) -> Any:
    return np.broadcast_to(np.mean(value, axis=0), np.shape(value))


def disagreement_basis(n: int) -> Numbers:
    """An orthonormal basis of the vectors whose entries sum to zero, n × (n−1)."""
    reflected = np.eye(n)[:, 1:]
    axis = np.full(n, 1 / np.sqrt(n))
    axis[0] += 1.0
    return np.asarray(reflected - np.outer(axis, axis[1:]) / axis[0], dtype=np.float64)


def disagreement_matrix(step: AgentsStep, matrices: Sequence[Exchange], n: int, communication_period: int) -> Numbers:
    """The matrix of several rounds on the disagreement of the arrays that ever leave zero."""
    basis, moving = disagreement_basis(n), step.equation.deciding(step.delay)
    size, width = step.equation.arrays(step.delay), n - 1
    state = np.zeros((size, n, len(moving) * width))
    for place, array in enumerate(moving):
        state[array, :, place * width : (place + 1) * width] = basis
    after = step.run(state, matrices, communication_period)[moving]
    return np.asarray((basis.T @ after).reshape(len(moving) * width, -1), dtype=np.float64)
