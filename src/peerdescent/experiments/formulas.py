"""A recorded equation as a person would write it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from peerdescent.expressions import Array, Binary, Constant, Expression, Mixed, Power, RowNorm, Scalar, walk
from peerdescent.tracing.recording import GRADIENT

LETTERS = {
    GRADIENT: "g",
    "alpha": "α",
    "beta": "β",
    "eta": "η",
    "eta_s": "η_s",
    "gamma": "γ",
    "tau": "τ",
    "theta": "θ",
    "x_prev": "x₋",
    "g_prev": "g₋",
}
MATRICES = {"laplacian": "L", "disagreement": "(I−W)", "mean": "mean"}
LONGEST = 60
"""Longer formulas are named by what they depend on."""
WORD_LAST, WORD_FIRST = re.compile(r"[A-Za-z_]\w+$", re.ASCII), re.compile(r"[A-Za-z_]\w|\d", re.ASCII)
"""Factors that a neighbour would run into: names of several letters, and numbers that come second."""
NOTHING = 1e-30
"""What is smaller only keeps a division from failing."""
SUM, PRODUCT, ATOM = 0, 1, 2
Rendered = tuple[str, int]


def formula(node: Expression, known: Mapping[int, str] | None = None) -> str:
    """An equation in the letters of the papers; `known` names nodes by their id, such as new values of states.

    >>> x, g, eta = Array("x"), Array(GRADIENT), Scalar("eta")
    >>> formula(x - eta * (g + Array("v")))
    'x − η(g + v)'
    >>> formula(x - eta / Scalar("tau") * g)
    'x − (η/τ)g'
    >>> formula(sum([g] * 20, x))
    'a function of g and x'
    """
    text = _rendered(node, known or {})[0]
    return text if len(text) <= LONGEST else f"a function of {_leaves(node)}"


def _leaves(node: Expression) -> str:
    names = sorted({_letter(leaf.name) for leaf in walk(node) if isinstance(leaf, Array)})
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _rendered(node: Expression, known: Mapping[int, str]) -> Rendered:
    """The text, and what kind of expression it is."""
    if id(node) in known:
        return known[id(node)], ATOM
    match node:
        case Array(name) | Scalar(name):
            return _letter(name), ATOM
        case Constant(value):
            return f"{value:g}", ATOM
        case Mixed(kind, source):
            return MATRICES[kind] + _within(source, ATOM, known), PRODUCT
        case Power(base, gamma):
            return f"{'√' if gamma == 0.5 else 'σ'}({_rendered(base, known)[0]})", ATOM
        case RowNorm(base):
            return f"‖{_rendered(base, known)[0]}‖", ATOM
        case Binary("+", left, Constant(value)) if 0 < value < NOTHING:
            return _rendered(left, known)
        case Binary("+" | "-" as sign, left, right):
            first = "" if isinstance(left, Constant) and left.value == 0 else f"{_within(left, SUM, known)} "
            after = _within(right, PRODUCT if sign == "-" else SUM, known)
            return f"{first}{'−' if sign == '-' else '+'}{' ' * bool(first)}{after}", SUM
        case Binary("*", left, right):
            divided = isinstance(left, Binary) and left.operator == "/"
            first, after = _within(left, ATOM if divided else PRODUCT, known), _within(right, PRODUCT, known)
            return f"{first}{'·' if WORD_LAST.search(first) or WORD_FIRST.match(after) else ''}{after}", PRODUCT
        case Binary(_, left, right):
            return f"{_within(left, PRODUCT, known)}/{_within(right, ATOM, known)}", PRODUCT
    parts = ", ".join(_rendered(part, known)[0] for part in node.operands())
    return f"{type(node).__name__.lower()}({parts})", ATOM


def _within(node: Expression, least: int, known: Mapping[int, str]) -> str:
    """The text of a part, in parentheses unless it binds strongly enough."""
    text, kind = _rendered(node, known)
    return text if kind >= least else f"({text})"


def _letter(name: str) -> str:
    return LETTERS.get(name, name)
