"""Compressed messages: bounds on the consensus step c, and a short run on flat costs where no bound is known.

Neighbours read public copies â ← â + Q(a − â) instead of a, and c·(I−W)â replaces (I−W)a. The compressor's quality
is δ: E‖Q(a) − a‖² ≤ (1−δ)‖a‖².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from peerdescent._util.validation import check_integer, check_number
from peerdescent.algorithms import Algorithm, ChocoSGD
from peerdescent.algorithms.gradient_tracking import DSGT1, DSGT2
from peerdescent.algorithms.sgd import DSGD1
from peerdescent.expressions import Clamp, Mixed, Power
from peerdescent.mixing.consensus_step import largest_consensus_step
from peerdescent.mixing.rounds import Rounds
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.agents import Exchange, as_rounds, exchanges
from peerdescent.theory.evaluation import evaluate
from peerdescent.theory.recursion import Equation, Numbers
from peerdescent.transforms import power

Quantize = Callable[[Numbers, int, int], Numbers]
"""Q of all agents' rows, given the round and the number of the message."""
Outcome = Literal["contracted", "diverged", "neither"]
FLAT_ROUNDS = 500
DIMENSION = 50
FAR = 1e6
"""A run whose disagreement has grown by this factor ends early."""
GROWN, SHRUNK = 10.0, 0.5
"""Disagreement that has grown by more than the one diverges, below the other it contracts."""


def choco_step(delta: float, gap: float, rho: float) -> float:
    """The consensus step for which CHOCO-GOSSIP provably converges linearly: sufficient, and usually far too small.

    c = g²δ / (16g + g² + 4ρ² + 2gρ² − 8gδ) with the spectral gap g of W and ρ = ‖I−W‖; the squared error then shrinks
    by 1 − g²δ/82 or more per round. Reference: Koloskova, Stich and Jaggi 2019, Theorem 2.

    >>> round(choco_step(delta=1.0, gap=1.0, rho=1.0), 4)
    0.0667
    """
    delta, g = check_number("delta", delta, 0, 1), check_number("gap", gap, 0, 1)
    rho = check_number("rho", rho, 0, 2)
    below = 16 * g + g**2 + 4 * rho**2 + 2 * g * rho**2 - 8 * g * delta
    return g**2 * delta / below if below > 0 else 1.0


def small_gain_step(delta: float, rho: float) -> float:
    """The consensus step below which plain consensus with public copies converges, whatever the compressor does.

    In a mode with s = cμ the error e = a − â that compression leaves gives x⁺ = (1−s)x + se, and the next difference
    to compress is (1+s)e − sx. The largest gain between them over all frequencies is (2+s)/(2−s), and the compressor's
    is √(1−δ) = r; by the small-gain theorem r(2+s)/(2−s) < 1 suffices: c < 2(1−r)/((1+r)ρ), at most 1.

    >>> round(small_gain_step(delta=0.1, rho=4 / 3), 4)
    0.0395
    """
    return min(1.0, largest_consensus_step(check_number("delta", delta, 0, 1), check_number("rho", rho, 0, 2)))


def bounds(algorithm: Algorithm, delta: float, weights: Rounds) -> tuple[float | None, str]:
    """The largest c that a proof covers for a method, None if there is none, and a sentence on what is proved.

    Args:
        algorithm: the method.
        delta: the compressor's quality δ.
        weights: the run's L and W.

    >>> from peerdescent.algorithms import make
    >>> from peerdescent.graphs import ring
    >>> method = make("d-sgd-1")
    >>> bounds(method, 0.1, MixingWeights.build(ring(10), "metropolis", "metropolis", method))[1]
    'consensus with c < 0.0395 is proved (small gain; CHOCO: 0.0001704); larger c usually work too'
    """
    name = type(algorithm).__name__
    if not isinstance(weights, MixingWeights):
        return None, f"no bound on c is known for {name} on graphs that change"
    ends = weights.spectrum
    rho, gap = max(0.0, min(2.0, 1 - ends.lambda_min)), min(1.0, max(0.0, ends.gap))
    small, choco = small_gain_step(delta, rho), choco_step(delta, gap, rho)
    if isinstance(algorithm, (DSGD1, ChocoSGD)):
        proved = f"consensus with c {'≤' if small == 1 else '<'} {small:.4g} is proved"
        return small, f"{proved} (small gain; CHOCO: {choco:.4g}); larger c usually work too"
    if isinstance(algorithm, (DSGT1, DSGT2)):
        order = f"BEER proves convergence for c of the order of δ·gap = {delta * gap:.2g}, without a constant"
        return None, f"{order}; larger c usually work too"
    return None, f"no bound on c is known for {name}"


@dataclass(frozen=True)
class FlatRun:
    """A short run on flat costs, where nothing but the exchange of messages acts."""

    outcome: Outcome
    factor: float
    """The final disagreement by the initial one."""
    rounds: int

    def __str__(self) -> str:
        if self.outcome == "neither":
            return (
                f"a flat run of {self.rounds} rounds did not decide: disagreement is {self.factor:.2g} times as large"
            )
        return f"a flat run of {self.rounds} rounds {self.outcome}"


def flat_run(
    algorithm: Algorithm,
    weights: Rounds,
    quantize: Quantize,
    consensus_step: float = 1.0,
    rounds: int = FLAT_ROUNDS,
    dimension: int = DIMENSION,
) -> FlatRun:
    """Run a method on flat costs from random points with compressed messages, and see whether disagreement shrinks.

    Powers are computed, not replaced; copies start at zero.

    Args:
        algorithm: the method; its step need not be linear.
        weights: the run's L and W, or those of every round.
        quantize: Q(rows, round, message), the compressor.
        consensus_step: c.
        rounds: how many.
        dimension: numbers per agent.

    >>> from peerdescent.algorithms import make
    >>> from peerdescent.graphs import ring
    >>> method = make("d-sgd-1")
    >>> weights = MixingWeights.build(ring(5), "metropolis", "metropolis", method)
    >>> print(flat_run(method, weights, lambda rows, round, message: np.round(rows, 1), rounds=50))
    a flat run of 50 rounds contracted
    """
    check_integer("rounds", rounds, 1)
    c, known = check_number("consensus_step", consensus_step), as_rounds(weights)
    equation, n = Equation(algorithm), known.n
    state = np.zeros((len(equation.names), n, dimension))
    starts = {"x": "x", **algorithm.memory()}
    state[[start == "x" for start in starts.values()]] = np.random.default_rng(0).standard_normal((n, dimension))
    copies = np.zeros((len(equation.messages), n, dimension))
    before = _spread(state)
    with np.errstate(all="ignore"):
        for number, exchange in enumerate(exchanges(known, rounds)):
            state = _compressed(equation, state, copies, exchange, c, lambda a, m, r=number: quantize(a, r, m))
            after = _spread(state)
            if not after < FAR * before:
                return FlatRun("diverged", after / before, number + 1)
    factor = after / before if before else 0.0
    outcome: Outcome = "contracted" if factor < SHRUNK else "diverged" if factor > GROWN else "neither"
    return FlatRun(outcome, factor, rounds)


def _compressed(
    equation: Equation, state: Numbers, copies: Numbers, exchange: Exchange, c: float, quantize: Any
) -> Numbers:
    sent: set[int] = set()

    def mix(node: Mixed, value: Any) -> Any:
        if node.kind == "mean":
            return np.broadcast_to(np.mean(value, axis=0), np.shape(value))
        number = next(i for i, source in enumerate(equation.messages) if source is node.source)
        if number not in sent:
            sent.add(number)
            copies[number] += quantize(value - copies[number], number)
        return c * ((exchange.laplacian if node.kind == "laplacian" else exchange.disagreement) @ copies[number])

    def powered(node: Power | Clamp, value: Any) -> Any:
        return power(value, node.gamma) if isinstance(node, Power) else np.clip(value, -node.limit, node.limit)

    leaves = {**dict(zip(equation.names, state, strict=True)), **equation.numbers()}
    _, new = evaluate(equation.exchanging, leaves, np.zeros_like, mix, powered, linear=False)
    return np.stack([np.broadcast_to(new[name], state.shape[1:]) for name in equation.names])


def _spread(state: Numbers) -> float:
    """The disagreement of x."""
    return float(np.linalg.norm(state[0] - state[0].mean(axis=0)))
