"""Recorded equations: what they compute, and what cannot be recorded."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent.algorithms import PRESETS, Algorithm, make
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
    lift,
    walk,
)
from peerdescent.graphs import parse
from peerdescent.tracing.recording import RecordingError, RecordingNetwork, gradient_name, record
from peerdescent.transforms import Clip, ClipNorm, Powerball, Transform

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
VALUES = {"x": 3.25, "u": -1.5, "eta": 0.125}


def evaluate(node: Expression) -> float:
    """Evaluate a recorded equation on plain numbers."""
    if isinstance(node, (Array, Scalar)):
        return VALUES[node.name]
    if isinstance(node, Constant):
        return node.value
    assert isinstance(node, Binary)
    return float(OPERATORS[node.operator](evaluate(node.left), evaluate(node.right)))


Program = list[tuple[str, int, int, bool]]
PROGRAMS = st.lists(
    st.tuples(st.sampled_from("+-*"), st.integers(0, 99), st.integers(0, 99), st.booleans()), max_size=8
)


def perform(program: Program, values: list[Any]) -> Any:
    """The same arithmetic on any kind of values; each line may use earlier results."""
    for sign, i, j, negate in program:
        new = OPERATORS[sign](values[i % len(values)], values[j % len(values)])
        values.append(-new if negate else new)
    return values[-1]


@given(program=PROGRAMS)
def test_a_recorded_equation_computes_what_the_numbers_compute(program: Program) -> None:
    symbols: list[Any] = [0.5, 2, Array("x"), Array("u"), Scalar("eta")]
    numbers: list[Any] = [0.5, 2, VALUES["x"], VALUES["u"], VALUES["eta"]]
    assert evaluate(lift(perform(program, symbols))) == pytest.approx(perform(program, numbers), rel=1e-12)


def test_numbers_on_either_side() -> None:
    x = Array("x")
    assert [str(e) for e in (x + 1, 1 + x, x - 1, 1 - x, x * 2, 2 * x, x / 2, 2 / x, -x)] == [
        "(x + 1)", "(1 + x)", "(x - 1)", "(1 - x)", "(x * 2)", "(2 * x)", "(x / 2)", "(2 / x)", "(0 - x)",
    ]  # fmt: skip
    assert evaluate(6.5 / x) == 2.0


def test_only_numbers_make_numbers() -> None:
    x, eta = Array("x"), Scalar("eta")
    assert (eta * 2 + 1).scalar
    assert not (eta * x).scalar
    assert not Power(eta, 0.5).scalar
    assert not Clamp(x, 1.0).scalar
    assert lift(True).scalar


@pytest.mark.parametrize("other", ["text", None, [1.0], 1j])
def test_what_is_neither_array_nor_number_is_refused(other: Any) -> None:
    with pytest.raises(TypeError, match="arrays and numbers"):
        Array("x") + other
    with pytest.raises(TypeError):
        other - Array("x")


@pytest.mark.parametrize("use", [abs, float, len, lambda x: x**2, lambda x: x > 0, lambda x: x[0], lambda x: x @ x])
def test_operations_beyond_arithmetic_cannot_be_recorded(use: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        use(Array("x"))


def test_walk_gives_each_node_once_with_its_operands_before_it() -> None:
    x = Array("x")
    shared = x + 1
    root = shared * shared - Mixed("mix", shared)
    order = list(walk(root, shared, x))
    assert len(order) == len({id(node) for node in order}) == 6
    place = {id(node): i for i, node in enumerate(order)}
    for node in order:
        assert all(place[id(operand)] < place[id(node)] for operand in node.operands())
    assert order[-1] is root
    assert list(walk()) == []


def test_a_deep_equation_needs_no_deep_stack() -> None:
    node: Expression = Array("x")
    for _ in range(5000):
        node = node + 1
    assert sum(1 for _ in walk(node)) == 10001


def test_the_network_records_exchanges_and_a_local_one_only_the_mean() -> None:
    net, local, x = RecordingNetwork(), RecordingNetwork(local=True), Array("x")
    assert [str(net.laplacian(x)), str(net.mix(x)), str(net.mean(x))] == [
        "laplacian(x)",
        "(x - disagreement(x))",
        "mean(x)",
    ]
    assert [str(local.laplacian(x)), str(local.mix(x)), str(local.mean(x))] == ["0", "(x - 0)", "mean(x)"]


class DenseNetwork:
    """L·a, W·a and the mean, for NumPy arrays."""

    def __init__(self, spec: str) -> None:
        self.L, self.W = (matrix.toarray() for matrix in (parse(spec).laplacian("unit"), parse(spec).mixing()))

    def laplacian(self, a: np.ndarray) -> np.ndarray:
        return self.L @ a

    def disagreement(self, a: np.ndarray) -> np.ndarray:
        return a - self.W @ a

    def mix(self, a: np.ndarray) -> np.ndarray:
        return self.W @ a

    def debias(self, a: np.ndarray) -> np.ndarray:
        return a

    bias = debias

    def mean(self, a: np.ndarray) -> np.ndarray:
        return np.broadcast_to(a.mean(axis=0), a.shape)


def on_arrays(node: Expression, values: dict[str, Any], net: DenseNetwork) -> Any:
    """Evaluate a recorded equation on whole n×p arrays."""
    below = [on_arrays(operand, values, net) for operand in node.operands()]
    if isinstance(node, (Array, Scalar)):
        return values[node.name]
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Binary):
        return OPERATORS[node.operator](*below)
    if isinstance(node, Power):
        return np.sign(below[0]) * np.abs(below[0]) ** node.gamma
    if isinstance(node, Maximum):
        return np.maximum(*below)
    if isinstance(node, Clamp):
        return np.clip(below[0], -node.limit, node.limit)
    if isinstance(node, RowNorm):
        return np.sqrt((below[0] ** 2).sum(axis=1, keepdims=True))
    assert isinstance(node, Mixed)
    return getattr(net, node.kind)(below[0])


@pytest.mark.parametrize("transform", [Transform(), Powerball(0.7), Clip(0.3), ClipNorm(0.3)], ids=str)
@pytest.mark.parametrize("name", list(PRESETS))
def test_a_recorded_method_is_the_step_it_was_recorded_from(name: str, transform: Transform) -> None:
    method, net, random = make(name, transform=transform), DenseNetwork("star:5"), np.random.default_rng(1)
    state = {key: random.normal(size=(5, 3)) for key in ("x", *method.memory())}
    g, h = random.normal(size=(5, 3)), method.hyperparameters(3)
    step = method.step(SimpleNamespace(**state), net, SimpleNamespace(**h))
    wanted, gradients, new = [next(step)], [g], None
    while new is None:
        try:
            wanted.append(step.send(method.preprocess_gradient(gradients[-1], net)))
            gradients.append(random.normal(size=(5, 3)))
        except StopIteration as end:
            new = end.value
    points, outputs = record(method, tuple(state))
    values = {**state, **h, **{gradient_name(j): given for j, given in enumerate(gradients)}}
    for point, expected in zip(points, wanted, strict=True):
        np.testing.assert_allclose(on_arrays(point, values, net), expected, rtol=1e-13)
    assert set(outputs) == set(new)
    for key, node in outputs.items():
        np.testing.assert_allclose(on_arrays(node, values, net), new[key], rtol=1e-12, atol=1e-13)


def test_a_step_beyond_arithmetic_gets_an_error() -> None:
    @dataclass(frozen=True)
    class Eager(Algorithm):
        def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Any:
            g = yield s.x
            return {"x": s.x - g.clone()}

    with pytest.raises(RecordingError, match="Eager is not plain arithmetic"):
        record(Eager(), ("x",))
