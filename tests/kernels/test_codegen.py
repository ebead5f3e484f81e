"""Fused kernels against the eager reference, and the single-precision power against a double one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.algorithms import PRESETS, Algorithm, make
from peerdescent.algorithms.state import State, initial_state
from peerdescent.expressions import Array, Mixed, Scalar
from peerdescent.kernels.codegen import generate, power_table
from peerdescent.kernels.update import Update, make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.tracing.message_schedule import plan_step
from peerdescent.tracing.recording import record
from peerdescent.transforms import Clip, Powerball, power

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def updater(algorithm: Algorithm, x: torch.Tensor, graph: str, kernel: str = "compiled", threads: int = 1) -> Update:
    weights = MixingWeights.build(graphs.parse(graph), "metropolis", "metropolis", algorithm)
    network = make_network(weights, x.dtype, torch.device("cpu"))
    return make_update(algorithm, initial_state(algorithm, x), network, kernel, threads)


def run(
    algorithm: Algorithm,
    *,
    kernel: str,
    dtype: torch.dtype = torch.float64,
    graph: str = "er:6:0.5",
    columns: int = 33,
    threads: int = 1,
    iterations: int = 5,
) -> State:
    random = np.random.default_rng(columns)
    shape = (graphs.parse(graph).n, columns)
    update = updater(algorithm, torch.from_numpy(random.normal(size=shape)).to(dtype), graph, kernel, threads)
    for k in range(iterations):
        update.begin(k)
        update.gradient.copy_(torch.from_numpy(random.normal(size=shape)))
        update.finish(k)
    return update.state


def assert_equal_to_eager(algorithm: Algorithm, **settings: Any) -> None:
    plain, fused = run(algorithm, kernel="plain", **settings), run(algorithm, kernel="compiled", **settings)
    assert plain.keys() == fused.keys()
    for name, array in plain.items():
        tolerance = TOLERANCE[array.dtype] * max(1.0, float(array.abs().max()))
        np.testing.assert_allclose(fused[name].numpy(), array.numpy(), rtol=0, atol=tolerance, err_msg=name)


# ---- Shapes and threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("columns", [1, 7, 31, 32, 33, 63, 64, 65, 1000, 20011])
@pytest.mark.parametrize("name", ["dsgpa-f-pb", "dm-sgd", "d-asg", "c-sgd"])
def test_any_number_of_columns(name: str, columns: int, dtype: torch.dtype) -> None:
    assert_equal_to_eager(make(name), columns=columns, dtype=dtype)


@pytest.mark.parametrize("graph", ["ring:1", "path:2", "star:9", "complete:5", "ring:70", "er:80:0.1"])
@pytest.mark.parametrize("name", ["dsgpa-t-pb-exact", "d-sgt-2", "d2"])
def test_any_graph(name: str, graph: str) -> None:
    # From 65 agents on the eager path multiplies by a sparse matrix.
    assert_equal_to_eager(make(name), graph=graph, columns=70)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("columns", [1, 33, 1000, 20011])
def test_threads_do_not_change_a_bit(columns: int, dtype: torch.dtype) -> None:
    for name in ("dsgpa-f-pb", "d-asg", "c-sgd"):
        one = run(make(name), kernel="compiled", columns=columns, dtype=dtype, iterations=3)
        for threads in (2, 3, 8):  # the last is more than there are blocks of columns
            many = run(make(name), kernel="compiled", columns=columns, dtype=dtype, iterations=3, threads=threads)
            assert all(torch.equal(one[key], many[key]) for key in one), (name, threads)


def test_columns_do_not_touch_each_other() -> None:
    x = torch.zeros(5, 500, dtype=torch.float64)
    x[:, 123] = torch.arange(5.0)
    update = updater(make("dm-sgd"), x, "ring:5", threads=2)
    update.begin(0)
    update.finish(0)
    touched = update.state["x"].abs().sum(dim=0).nonzero().flatten().tolist()
    assert touched == [123]


# ---- The power ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replace(Algorithm):
    """x becomes the transformed gradient: a way to call a kernel's functions."""

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Any:
        g = yield s.x
        return {"x": g}


def fused(a: np.ndarray, transform: Any) -> np.ndarray:
    """The transform of each entry, computed by a compiled kernel in the dtype of a."""
    entries = torch.from_numpy(a)[None]
    update = updater(Replace(transform=transform), torch.zeros_like(entries), "ring:1")
    update.begin(0)
    update.gradient.copy_(entries)
    update.finish(0)
    return update.state["x"][0].numpy()


class Gamma:
    """A powerball that accepts any γ without a warning."""

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma

    def __call__(self, g: Any) -> Any:
        return power(g, self.gamma)


def every_exponent(count: int) -> np.ndarray:
    """Normal single-precision numbers of both signs, as many of each exponent, with the ends of each binade."""
    random = np.random.default_rng(0)
    mantissa = random.integers(0, 2**23, size=(254, count), dtype=np.uint32)
    mantissa[:, :3] = (0, 1, 2**23 - 1)
    exponent = np.arange(1, 255, dtype=np.uint32)[:, None] << 23
    sign = random.integers(0, 2, size=(254, count), dtype=np.uint32) << 31
    return (mantissa | exponent | sign).ravel().view(np.float32)


EXPONENTS = every_exponent(40)
FEW = every_exponent(4)


def relative_error(a: np.ndarray, gamma: float) -> float:
    # Single precision means γ too, in the eager path as in the kernel: |a|^γ moves by 88·δ when γ moves by δ.
    exact = np.abs(a.astype(np.float64)) ** float(np.float32(gamma))
    out = fused(a, Gamma(gamma)).astype(np.float64)
    assert np.array_equal(np.signbit(out), np.signbit(a))
    return float(np.abs(np.abs(out) / exact - 1).max())


@pytest.mark.parametrize("gamma", [0, 1e-6, 0.01, 0.1, 0.25, 0.3, 1 / 3, 0.5, 0.6, 0.7, 0.75, 0.9, 0.99, 0.999999])
def test_single_precision_power_over_all_exponents(gamma: float) -> None:
    assert relative_error(EXPONENTS, gamma) < 1e-6


@given(gamma=st.floats(2**-20, 1, exclude_max=True))
@settings(max_examples=80, deadline=None)
def test_single_precision_power_for_any_gamma(gamma: float) -> None:
    assert relative_error(FEW, gamma) < 1e-6


@given(gamma=st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_double_precision_power(gamma: float) -> None:
    a = np.concatenate([np.geomspace(1e-300, 1e300, 101), -np.geomspace(1e-300, 1e300, 101)])
    np.testing.assert_allclose(fused(a, Gamma(gamma)), np.sign(a) * np.abs(a) ** gamma, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", [0, 0.3, 0.5, 0.7, 0.99])
def test_zero_stays_zero_and_non_finite_values_stay_non_finite(gamma: float, dtype: Any) -> None:
    a = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0] * 9, dtype=dtype)
    out = fused(a, Gamma(gamma)).reshape(9, 8)
    assert np.array_equal(out[:, :2], np.zeros((9, 2)))
    assert np.isnan(out[:, 2:4]).all()
    # The sign of infinity is a number.
    assert gamma == 0 or not np.isfinite(out[:, 4:6]).any()
    np.testing.assert_allclose(out[:, 6:], np.tile([1, -1], (9, 1)), rtol=1e-6)


@pytest.mark.parametrize("gamma", [0.3, 0.7])
def test_below_the_smallest_normal_number_the_power_is_zero_or_right(gamma: float) -> None:
    a = np.array([1e-45, -1e-40, 1.1e-38], dtype=np.float32)
    out = fused(a, Gamma(gamma))
    exact = np.abs(a.astype(np.float64)) ** gamma
    assert ((out == 0) | (np.abs(np.abs(out) / exact - 1) < 1e-5)).all()
    assert np.abs(out).max() < 1e-10


def test_the_power_grows_with_its_argument() -> None:
    a = np.sort(np.abs(EXPONENTS))
    out = fused(a, Gamma(0.7)).astype(np.float64)
    assert (np.diff(out) >= -1e-6 * out[1:]).all()


def test_several_powers_in_one_equation_are_independent() -> None:
    @dataclass(frozen=True)
    class Several(Algorithm):
        def memory(self) -> Mapping[str, Any]:
            return {"u": "zero"}

        def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Any:
            g = yield s.x
            return {"x": power(g, 0.9) + power(power(g, 0.3), 0.6), "u": power(g, 0.5) - power(g, 0)}

    for dtype in TOLERANCE:
        assert_equal_to_eager(Several(), dtype=dtype)


def test_tables_hold_the_power_between_one_and_two() -> None:
    m = np.linspace(1, 2, 50)
    for gamma in (0.3, 0.7):
        coefficients = power_table(gamma, "float")[4:]
        series = sum(c * (m - 1.5) ** i for i, c in enumerate(coefficients))
        np.testing.assert_allclose(series, m**gamma, rtol=1e-6)


# ---- Other arithmetic ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clamp(dtype: Any) -> None:
    a = np.array([-3.0, -0.5, -0.25, 0.0, 0.5, 7.0, np.nan, np.inf, -np.inf], dtype=dtype)
    out = fused(a, Clip(0.5))
    np.testing.assert_array_equal(out, [-0.5, -0.5, -0.25, 0, 0.5, 0.5, np.nan, 0.5, -0.5])
    np.testing.assert_allclose(fused(a[:6], Clip(0.5).then(Powerball(0.5))) ** 2, np.abs(out[:6]), rtol=1e-6)


@dataclass(frozen=True)
class Rich(Algorithm):
    """Everything that an equation may contain, with exchanges of exchanges and swapped arrays."""

    def memory(self) -> Mapping[str, Any]:
        return {"u": "x", "w": "zero"}

    def hyperparameters(self, k: int) -> dict[str, float]:
        return {"eta": 0.1 / (k + 1), "rho": 0.3}

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Any:
        Lx = net.laplacian(s.x)
        point = (1 + h.rho) * s.x - h.rho / 2 * s.u
        g = yield point
        twice = net.mix(net.mix(s.u) - h.eta * g)
        shared = -(s.w / (2 + h.eta * h.eta)) + 1e-3
        pooled = net.mean(g + shared)
        return {"x": 0.5 * twice - h.eta * (Lx + pooled) + point * 0.25, "u": s.x, "w": s.u - 2 * shared + shared * g}


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("graph", ["ring:1", "star:6"])
def test_everything_at_once(graph: str, dtype: torch.dtype) -> None:
    for columns in (5, 130):
        assert_equal_to_eager(Rich(), graph=graph, dtype=dtype, columns=columns)


def test_means_are_of_all_rows() -> None:
    @dataclass(frozen=True)
    class Pooled(Algorithm):
        def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Any:
            yield s.x
            return {"x": net.mean(s.x)}

    for columns in (1, 33, 200):
        before = run(Pooled(), kernel="plain", columns=columns, iterations=0)["x"]
        after = run(Pooled(), kernel="compiled", columns=columns, iterations=1)["x"]
        np.testing.assert_allclose(after.numpy(), np.tile(before.numpy().mean(axis=0), (6, 1)), atol=1e-15)


Program = list[tuple[str, int, int]]


def equations(count: int) -> list[Program]:
    """Random straight-line programs over x, u, g, two numbers and a constant."""
    random = np.random.default_rng(12)
    return [
        [("+-*"[random.integers(3)], int(random.integers(6 + i)), int(random.integers(6 + i))) for i in range(6)]
        for _ in range(count)
    ]


@dataclass(frozen=True)
class Random(Algorithm):
    def memory(self) -> Mapping[str, Any]:
        return {"u": "x", **{f"out{i}": "zero" for i in range(24)}}

    def hyperparameters(self, k: int) -> dict[str, float]:
        return {"eta": 0.37, "beta": -1.2}

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Any:
        g = yield s.x
        new = {"x": s.x, "u": s.u}
        for number, program in enumerate(equations(24)):
            values = [s.x, s.u, g, h.eta, h.beta, 0.75]
            for sign, i, j in program:
                a, b = values[i], values[j]
                values.append(a + b if sign == "+" else a - b if sign == "-" else a * b)
            new[f"out{number}"] = values[-1] + 0 * s.x  # a number alone is not an array
        return new


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_random_equations(dtype: torch.dtype) -> None:
    assert_equal_to_eager(Random(), dtype=dtype, iterations=1, graph="path:2")


def test_an_unchanged_array_is_not_touched() -> None:
    source = generate({"x": Array("x") * Scalar("eta"), "u": Array("u")}, "double")
    assert source.arrays == ("x",)
    assert source.scalars == ("eta",)
    assert source.scratch_rows == 0


def test_what_is_used_twice_is_sent_once() -> None:
    sent = Mixed("laplacian", Array("x"))
    source = generate({"x": Array("x") - sent * sent, "v": Array("v") + sent}, "float")
    assert source.text.count("differences(laplacian") == 1
    assert source.scratch_rows == 1


@pytest.mark.parametrize("name", list(PRESETS))
def test_the_exchanges_in_a_kernel_are_those_of_the_method(name: str) -> None:
    algorithm = make(name)
    names = "x", *algorithm.memory()
    schedule = plan_step(*record(algorithm, names), names, distributed=False)
    rows = [{norm.array: norm.source} for norm in schedule.operations if norm.source is not None]
    bodies = [generate(outputs, "float").text.split("void kernel")[1] for outputs in (*rows, schedule.outputs)]
    two = ("dm-sgd", "d-sgt-1", "d-sgt-2", "gt-hsgd", "gt-nsgdm", "aug-dgm", "momentum-tracking", "push-diging")
    two += ("k-gt", "beer", "motef", "powered-tracking")
    expected = {**dict.fromkeys(two, 2), "c-sgd": 0}
    assert sum(body.count("differences(") for body in bodies) == expected.get(name, 1)


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_starts_in_any_memory_layout(kernel: str) -> None:
    rows = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    by_columns = rows.T.contiguous().T  # the same numbers, stored column by column
    update = updater(make("d-sgd-1", eta=0.0), by_columns, "ring:3", kernel)
    update.begin(0)
    update.finish(0)
    np.testing.assert_allclose(update.state["x"].numpy(), rows.mean(dim=0).expand(3, 4).numpy(), atol=1e-14)
