"""Method cards: what to know of a method before you choose it, from its code, its docstring and theory, as Markdown."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from peerdescent.algorithms import PRESETS, Algorithm, canonical, find, make, varied
from peerdescent.errors import InputError
from peerdescent.experiments.docstrings import Docstring, read_docstring
from peerdescent.experiments.formulas import formula
from peerdescent.expressions import Array, Expression, walk
from peerdescent.graphs import ring
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.prediction import condition
from peerdescent.theory.radii import Modes
from peerdescent.theory.recursion import Equation
from peerdescent.theory.stability import bisect, judge, stable_up_to
from peerdescent.tracing.recording import GRADIENT, vectors_sent

COMMAND = "peerdescent card"
HEAD = f"""\
# Methods

Every method with its equation, what it sends, what it needs, and when it is stable. `{COMMAND}` writes this page from
the code; `{COMMAND} NAME` shows one method, also one of your own (`--load FILE`).

x, v, y, … have one row per agent; x⁺ is the next iterate and x₋ the previous one; g is the stacked stochastic gradient
at x. W is a symmetric, doubly stochastic mixing matrix of the graph, L its Laplacian. *Heterogeneous data* says where a
method ends if the agents' costs differ, with exact gradients and a constant step size. *Stability* is for the values
shown and flat costs. *Largest step* is for costs of curvature h and every W without negative eigenvalues.
"""
EIGENVALUES = np.linspace(0.02, 1.0, 50)
"""Those of I−W for which the largest step is searched."""
LARGEST = 1e3
"""Beyond it, no largest step is reported."""


@dataclass(frozen=True)
class Card:
    """What is known of one method; texts are Markdown."""

    name: str
    aliases: tuple[str, ...]
    summary: str
    docs: Docstring
    sends: str
    needs: str
    bias: str | None
    """Why it is biased on heterogeneous data; empty if it is not, None if nobody has said."""
    stability: str
    largest_step: float | None
    """The largest η for curvature 1; None if there is none, or none is known."""
    values: dict[str, object]
    use: str

    def missing(self) -> list[str]:
        """What the method's class does not say, and how it would."""
        found = {
            "an equation, `.. math::` in its docstring": self.docs.formulas,
            "a reference, `Reference: …` in its docstring": self.docs.reference,
            "`bias`, a sentence or an empty text": self.bias is not None,
            "`use`, a sentence": self.use,
        }
        return [what for what, given in found.items() if not given]

    def heterogeneous(self) -> str:
        """Whether the method is exact where the agents' costs differ."""
        if self.bias is None:
            return "not known"
        return f"biased: {self.bias}" if self.bias else "exact"

    def markdown(self, equation_of: str = "") -> str:
        """The card, whose equation may be that of another one."""
        formulas = "\n\n".join(f"```math\n{each}\n```" for each in self.docs.formulas)
        said = "\n\n".join(filter(None, [self.docs.title, formulas, self.docs.text]))
        step = "" if self.largest_step is None else f"ηh < {self.largest_step:.3g}"
        lines = {
            "Also called": ", ".join(f"`{alias}`" for alias in self.aliases),
            "Values": ", ".join(f"`{key} = {value}`" for key, value in self.values.items()),
            "Sends": self.sends,
            "Needs": self.needs,
            "Heterogeneous data": self.heterogeneous(),
            "Stability": self.stability,
            "Largest step": step,
            "When to use it": self.use,
            "Reference": self.docs.reference,
        }
        listed = "\n".join(f"- **{label}**: {text}" for label, text in lines.items() if text)
        about = (
            f"The equation is that of [{equation_of}](#{equation_of}). This one: {self.summary}."
            if equation_of
            else said
        )
        return f"## {self.name}\n\n{about}\n\n{listed}\n"


def card(name: str) -> Card:
    """The card of a registered method.

    >>> found = card("d2")
    >>> found.sends, found.heterogeneous(), found.docs.reference
    ('1 vector per edge: `x − ηg − v`, after the gradient', 'exact', 'Tang et al. 2018')
    >>> found.stability
    'stable if and only if λmin(W) > -0.3333'
    """
    name = canonical(name)
    preset, algorithm = find(name), make(name)
    equation = _equation(algorithm)
    return Card(
        name,
        preset.aliases,
        preset.summary,
        read_docstring(inspect.getdoc(preset.kind) or ""),
        _sends(algorithm, equation),
        _needs(algorithm, equation),
        algorithm.bias,
        _stability(algorithm),
        _largest_step(algorithm, equation),
        preset.options(),
        algorithm.use,
    )


def page(names: Iterable[str] = ()) -> str:
    """The cards of these methods, or of all of them with an introduction and a table."""
    chosen = [canonical(name) for name in names]
    cards = [card(name) for name in chosen or PRESETS]
    parts = [] if chosen else [HEAD, _table(cards)]
    first: dict[type[Algorithm], str] = {}
    for each in cards:
        shown = first.setdefault(find(each.name).kind, each.name)
        parts.append(each.markdown("" if shown == each.name else shown))
    return "\n".join(parts)


def _table(cards: Sequence[Card]) -> str:
    rows = [
        f"| [{each.name}](#{each.name}) | {each.sends.partition(' per')[0]} | "
        f"{each.heterogeneous().partition(':')[0]} | {each.summary} |"
        for each in cards
    ]
    return "\n".join(["| method | sends per edge | heterogeneous data | what it is |", "|---|---|---|---|", *rows, ""])


def _equation(algorithm: Algorithm) -> Equation | None:
    """The recorded step; None for one that is more than arithmetic."""
    try:
        return Equation(algorithm)
    except InputError:
        return None


def _sends(algorithm: Algorithm, equation: Equation | None) -> str:
    count = vectors_sent(algorithm)
    if not count:
        return "nothing over the graph"
    vectors = f"{count} vector{'s' * (count > 1)} per edge"
    if equation is None:
        return vectors
    outputs = equation.exchanging[1].items()
    known = {id(node): f"{name}⁺" for name, node in outputs if not isinstance(node, Array)}
    messages = [f"`{formula(message, known)}`, {_when(message)}" for message in equation.messages]
    return f"{vectors}: {'; '.join(messages)}"


def _when(message: Expression) -> str:
    late = any(isinstance(leaf, Array) and leaf.name.startswith(GRADIENT) for leaf in walk(message))
    return "after the gradient" if late else "while the gradient is computed"


def _needs(algorithm: Algorithm, equation: Equation | None) -> str:
    letters = {"laplacian": "L", "disagreement": "W"}
    used = [letter for kind, letter in letters.items() if equation is not None and kind in equation.kinds]
    return "; ".join(filter(None, [" and ".join(used), algorithm.needs]))


def _stability(algorithm: Algorithm) -> str:
    """On which graphs it is stable with its values; for one that is not linear, why nothing is known."""
    try:
        weights = MixingWeights.build(ring(5), "metropolis", "metropolis", algorithm)
        return condition(algorithm, stable_up_to(algorithm), weights).partition("; here")[0]
    except InputError as error:
        return str(error).partition(", it computes")[0].removesuffix(".")


def _largest_step(algorithm: Algorithm, equation: Equation | None) -> float | None:
    """The η up to which a linear method that mixes by W is stable for curvature 1, whatever the graph."""
    if equation is None or equation.powers or equation.kinds != {"disagreement"} or "eta" not in algorithm.rates:
        return None
    found = Modes("I−W", EIGENVALUES)

    def stable(eta: float) -> bool:
        return judge(varied(algorithm, eta=eta), found, curvature=1.0).stable

    try:
        start = next((eta for eta in np.geomspace(1e-3, 1e-6, 4) if stable(float(eta))), None)
        if start is None or stable(LARGEST):
            return None
        return bisect(stable, float(start), LARGEST, digits=1e-6)
    except InputError:  # not linear
        return None
