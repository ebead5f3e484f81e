"""The value of a recorded step: in one mode, for all agents at once, delayed or compressed.

Only the meaning of three kinds of nodes differs: what the gradient is, what an exchange of messages gives, and what
replaces a power.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from peerdescent.errors import InputError
from peerdescent.expressions import (
    Array,
    Binary,
    Clamp,
    Constant,
    Expression,
    Maximum,
    Mixed,
    Power,
    RowNorm,
    Scalar,
    walk,
)
from peerdescent.tracing.recording import GRADIENT, gradient_name

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def evaluate(
    step: tuple[Sequence[Expression], Mapping[str, Expression]],
    leaves: Mapping[str, Any],
    gradient: Callable[[Any], Any],
    mix: Callable[[Mixed, Any], Any],
    powered: Callable[[Power | Clamp, Any], Any],
    linear: bool = True,
) -> tuple[list[Any], dict[str, Any]]:
    """The points where gradients are wanted, mostly one, and the new value of every state.

    Args:
        step: the recorded points and states.
        leaves: the values of states and hyperparameters.
        gradient: a gradient, given the value of its point; asked for one after the other.
        mix: what an exchange gives, from its node and the value that is sent.
        powered: what a power or a clip gives, from its node and the value under it.
        linear: refuse a step that is not linear, apart from powers and clips; norms of rows are not.
    """
    points, outputs = step
    known: dict[int, Any] = {}
    values = dict(leaves)

    def visit(*roots: Expression) -> None:
        for node in walk(*roots):
            if id(node) not in known:
                known[id(node)] = _value(node, known, values, mix, powered, linear)

    for number, point in enumerate(points):
        visit(point)
        values[gradient_name(number)] = gradient(known[id(point)])
    visit(*outputs.values())
    return [known[id(point)] for point in points], {name: known[id(node)] for name, node in outputs.items()}


def _value(
    node: Expression,
    known: Mapping[int, Any],
    leaves: Mapping[str, Any],
    mix: Callable[[Mixed, Any], Any],
    powered: Callable[[Power | Clamp, Any], Any],
    linear: bool,
) -> Any:
    match node:
        case Array(name) | Scalar(name):
            return leaves[name]
        case Constant(value):
            return value
        case Power(base) | Clamp(base):
            return powered(node, known[id(base)])
        case Mixed(_, source):
            return mix(node, known[id(source)])
        case Maximum(left, right):
            if linear:
                raise _not_linear(node)
            return np.maximum(known[id(left)], known[id(right)])
        case RowNorm(base):
            if linear:
                raise _not_linear(node)
            return np.linalg.norm(known[id(base)], axis=-1, keepdims=True)
        case Binary(sign, left, right):
            a, b = known[id(left)], known[id(right)]
            if linear and not _linear(sign, left.scalar, right.scalar, a, b):
                raise _not_linear(node)
            return OPERATORS[sign](a, b)
    raise TypeError(f"unknown node {node}")


def _not_linear(node: Expression) -> InputError:
    text = str(node).replace(GRADIENT, "g")
    return InputError(f"no prediction: the step is not linear, it computes {text}.")


def _linear(sign: str, left: bool, right: bool, a: Any, b: Any) -> bool:
    """Whether an operation keeps things linear, given which sides are numbers."""
    if sign == "*":
        return left or right
    if sign == "/":
        return right
    # a number added to an array is an affine step, unless it is 0
    return left == right or bool(np.all((a if left else b) == 0))
