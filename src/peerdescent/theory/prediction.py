"""What theory predicts of a method before a run: is it stable, under which condition, and what would make it so."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from peerdescent import schedules
from peerdescent._util.numbers import finite_or_none
from peerdescent.algorithms import DSGPA, Algorithm, varied
from peerdescent.errors import InputError
from peerdescent.mixing.periods import Period, Periods
from peerdescent.mixing.rounds import Rounds
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.agents import KnownRounds, as_rounds
from peerdescent.theory.ranges import TRIAL_ROUNDS, nearest_stable, scale_of, stable_range
from peerdescent.theory.recursion import Equation
from peerdescent.theory.sequences import judge_rounds
from peerdescent.theory.stability import stability, stable_up_to
from peerdescent.transforms import Transform

FLAT_COSTS = " (flat costs)"
"""What every condition on the graph alone is about: the curvature of the costs is not known."""


@dataclass(frozen=True)
class Prediction:
    """A verdict on stability, with its reason and its remedies; None where nothing can be predicted."""

    stable: bool | None
    """Whether everything stays bounded."""
    settles: bool | None
    """Stable, and not only circling where the method with γ = 1 would be unstable."""
    margin: float | None
    reason: str
    condition: str = ""
    """On which graphs the method is stable, and where this graph lies."""
    up_to: float | None = None
    """The largest eigenvalue for which it is stable; None for all."""
    eigenvalue: float | None = None
    tenfold_iterations: float | None = None
    """Iterations until disagreement has shrunk tenfold."""
    chatter: float | None = None
    """The size at which entries under a power keep circling."""
    cures: dict[str, float] = field(default_factory=dict)
    """For each step size the nearest value that alone makes the method stable."""
    suggestion: str = ""
    estimated_from: int | None = None
    """The rounds that the margin was estimated from; None if it was computed."""
    interval: tuple[float, float] | None = None
    """The 95 % confidence interval of 1 − margin, if that was estimated."""
    drifts: bool = False
    """Whether the mean may drift where the costs are flat; see `Stability.drifts`."""

    def sentence(self, name: str) -> str:
        """One line for the user, with a remedy if there is one."""
        if self.stable is None:
            return f"{name}: {self.reason}"
        circling = f"entries under the power keep circling at about {self.chatter:.2g}" if self.chatter else ""
        drift = "; where the costs are flat, the mean may drift" if self.drifts else ""
        if self.settles:
            slow = round(self.tenfold_iterations or 0)
            often = "at once" if slow < 1 else f"in about {slow:,} iteration{'s' * (slow > 1)}"
            return f"{name}: stable; disagreement shrinks tenfold {often}{'; ' * bool(circling)}{circling}{drift}"
        hint = f"; {self.suggestion} would make it stable" if self.suggestion else ""
        if self.stable:
            return f"{name} is bounded but does not settle: {circling or 'with γ = 1 it is unstable'}{drift}{hint}"
        if self.up_to == 0:
            return f"{name} is {self.condition}{hint}"
        return f"{name} is unstable on this graph: {self.reason}{hint}"

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def predict(
    algorithm: Algorithm,
    weights: Rounds,
    laplacian: str,
    mixing: str,
    communication_period: Period = 1,
    delay: int = 0,
) -> Prediction:
    """Predict the stability of a method on the graph and weights of a run.

    Args:
        algorithm: the method.
        weights: the run's L and W, or those of every round.
        laplacian: the kind of L; "matched" follows a change of step sizes.
        mixing: the kind of W.
        communication_period: iterations from one exchange of messages to the next, or a schedule of them.
        delay: rounds by which messages are late.

    >>> from peerdescent.algorithms import make
    >>> from peerdescent.graphs import parse
    >>> method = make("dsgpa-f")
    >>> weights = MixingWeights.build(parse("star:10"), "unit", "metropolis", method)
    >>> predict(method, weights, "unit", "metropolis").suggestion
    'eta = 0.021'
    """
    when: dict[str, Any] = {"communication_period": communication_period, "delay": delay}
    try:
        if isinstance(weights, MixingWeights) and Equation(algorithm).separates:
            return _in_modes(algorithm, weights, {"laplacian": laplacian, "mixing": mixing, **when})
        return _on_rounds(algorithm, weights, laplacian, when)
    except InputError as error:  # a method that theory cannot analyse
        return Prediction(None, None, None, str(error))


def clearly_settles(algorithm: Algorithm, weights: Rounds, communication_period: Period = 1, delay: int = 0) -> bool:
    """Whether a short sample of rounds that never repeat already shows that a method settles; False in doubt.

    The arguments are those of `predict`.

    >>> from peerdescent.algorithms import make
    >>> from peerdescent.graphs import parse
    >>> from peerdescent.mixing.sequence_weights import make_weights
    >>> clearly_settles(make("d-sgd-1"), make_weights(parse("matching:6"), "unit", "metropolis", make("d-sgd-1")))
    True
    """
    if weights.period is not None:
        return False
    try:
        trial = KnownRounds.of(weights, TRIAL_ROUNDS)
        periods = Periods.parse(communication_period).distinct
        verdicts = [judge_rounds(algorithm, trial, 0.0, m, delay, TRIAL_ROUNDS) for m in periods]
    except InputError:  # a method that theory cannot analyse
        return False
    return all(verdict.decided and verdict.settles for verdict in verdicts)


def _in_modes(algorithm: Algorithm, weights: MixingWeights, kinds: dict[str, Any]) -> Prediction:
    verdict = stability(algorithm, weights.graph, **kinds, weights=weights)
    cures = {} if verdict.settles else nearest_stable(algorithm, weights.graph, **kinds, weights=weights)
    when = kinds["communication_period"], kinds["delay"]
    up_to = stable_up_to(algorithm, 0.0, *when)
    return Prediction(
        verdict.stable,
        verdict.settles,
        verdict.margin,
        verdict.reason,
        condition(algorithm, up_to, weights, *when),
        finite_or_none(up_to),
        verdict.eigenvalue,
        finite_or_none(verdict.tenfold),
        verdict.chatter,
        cures,
        _suggestion(algorithm, cures, lambda changed: stability(changed, weights.graph, **kinds).settles),
        drifts=verdict.drifts,
    )


def _on_rounds(algorithm: Algorithm, weights: Rounds, laplacian: str, when: dict[str, Any]) -> Prediction:
    """The prediction where modes do not separate."""
    rounds = as_rounds(weights)
    verdict = stability(algorithm, None, weights=rounds, **when)
    interval = (verdict.estimate.low, verdict.estimate.high) if verdict.estimate else None
    sample = verdict.estimate.rounds if verdict.estimate else None
    if not verdict.decided:
        unknown = f"theory cannot tell whether it is stable: {verdict.reason}"
        return Prediction(None, None, None, unknown, estimated_from=sample, interval=interval)
    cures = {}
    if not verdict.settles:
        with suppress(InputError):  # too many agents to try dozens of values
            cures = nearest_stable(algorithm, None, laplacian, weights=rounds, **when)

    def settles(changed: Algorithm) -> bool:
        trial = KnownRounds.of(rounds, TRIAL_ROUNDS, scale_of(algorithm, changed, laplacian))
        periods = Periods.parse(when["communication_period"]).distinct
        return all(judge_rounds(changed, trial, 0.0, m, when["delay"], TRIAL_ROUNDS).settles for m in periods)

    return Prediction(
        verdict.stable,
        verdict.settles,
        verdict.margin,
        verdict.reason,
        tenfold_iterations=finite_or_none(verdict.tenfold),
        cures=cures,
        suggestion=_suggestion(algorithm, cures, settles),
        estimated_from=sample,
        interval=interval,
        drifts=verdict.drifts,
    )


def predict_ranges(
    algorithm: Algorithm,
    weights: Rounds,
    laplacian: str,
    mixing: str,
    communication_period: Period = 1,
    delay: int = 0,
) -> dict[str, tuple[float, float | None]]:
    """Between which values each step size may be changed alone; None for no end within a thousandfold."""
    kinds: dict[str, Any] = {"communication_period": communication_period, "delay": delay, "weights": weights}
    graph = weights.graph if isinstance(weights, MixingWeights) else None
    try:
        found = stable_range(algorithm, graph, laplacian, mixing, **kinds)
    except InputError:  # the prediction says why
        return {}
    return {key: (low, finite_or_none(high)) for key, (low, high) in found.items()}


def condition(
    algorithm: Algorithm, up_to: float, weights: MixingWeights, communication_period: Period = 1, delay: int = 0
) -> str:
    """On which graphs the method is stable with its values, and where this graph lies."""
    if algorithm.common_start or weights.graph.n == 1:
        return "nobody can disagree"
    equation, ends = Equation(algorithm), weights.spectrum
    if up_to == 0 and _momentum_too_slow(algorithm):
        return f"unstable for small eigenvalues of L: {_momentum_too_slow(algorithm)}; here ρ₂(L) = {ends.rho2:.4g}"
    if up_to == 0:
        return f"unstable on every connected graph for flat costs{_dual_too_strong(algorithm)}"
    if up_to == math.inf or (equation.matrix == "I−W" and up_to > 2 - 1e-6):  # I−W has no eigenvalue of 2 or more
        return f"stable on every connected graph{FLAT_COSTS}"
    if equation.matrix == "I−W":
        return f"stable if and only if λmin(W) > {1 - up_to:.4g}; here λmin(W) = {ends.lambda_min:.4g}{FLAT_COSTS}"
    if isinstance(algorithm, DSGPA) and equation.power_on_direction:
        below = stable_up_to(varied(algorithm, gamma=1.0, transform=Transform()), 0.0, communication_period, delay)
        slow = _momentum_too_slow(algorithm)
        nowhere = f"not for small eigenvalues ({slow})" if slow else "on no connected graph"
        where = f"below {below:.4g}" if below else f"{nowhere}{_dual_too_strong(algorithm)}"
        return f"disagreement bounded for ρ(L) < {up_to:.4g}, settles {where}; here ρ(L) = {ends.rho:.4g}{FLAT_COSTS}"
    return f"stable if and only if ρ(L) < {up_to:.4g}; here ρ(L) = {ends.rho:.4g}{FLAT_COSTS}"


def _dual_too_strong(algorithm: Algorithm) -> str:
    """The reason in the paper's letters, where it is that of the printed order."""
    if isinstance(algorithm, DSGPA) and algorithm.dual_too_strong:
        h = algorithm.nominal()
        return f": ηβ² = {h['eta'] * h['beta'] ** 2:.4g} ≥ α = {h['alpha']:.4g}"
    return ""


def _momentum_too_slow(algorithm: Algorithm) -> str:
    """Why momentum before the power makes long paths unstable for flat costs: it delays the dual; empty if not.

    For λ → 0 the slow modes are z ≈ 1 ± iηβ√λ, and a delay of (1−θ)/θ iterations turns their damping ηαλ into
    ηαλ − (ηβ)²λ(1−θ)/θ; in the jacobi order the dual is one iteration older.
    """
    if not isinstance(algorithm, DSGPA) or algorithm.momentum == 1 or algorithm.power_on == "gradient":
        return ""
    h, theta = algorithm.nominal(), algorithm.momentum
    late = (1 - theta if algorithm.dual == "gauss-seidel" else 1.0) * h["eta"] * h["beta"] ** 2
    name = "ηβ²(1−θ)" if algorithm.dual == "gauss-seidel" else "ηβ²"
    return f"{name} = {late:.4g} ≥ θα = {theta * h['alpha']:.4g}" if late >= theta * h["alpha"] else ""


def _suggestion(algorithm: Algorithm, cures: dict[str, float], settles: Callable[[Algorithm], bool]) -> str:
    """One change that makes the method stable, with as few digits as will do."""
    for name, value in cures.items():
        lower = value < schedules.nominal(getattr(algorithm, name))
        for digits in (2, 4):
            step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
            rounded = (math.floor(0.999 * value / step) if lower else math.ceil(1.001 * value / step)) * step
            changed = varied(algorithm, **{name: float(f"{rounded:.{digits}g}")})
            if settles(changed):
                return f"{name} = {rounded:.{digits}g}"
    return ""
