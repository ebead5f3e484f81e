"""The stability table of docs/theory.md, derived again with sympy from each method's printed equations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp

from peerdescent import algorithms, theory

PAGE = (Path(__file__).parents[2] / "docs" / "theory.md").read_text()
z, a, b, c, w, beta, x, v = sp.symbols("z a b c w beta x v")
eta, alpha, lam, h = sp.symbols("eta alpha lambda h", positive=True)
q = sp.Symbol("q")
"""A second memory."""


def matrix(states: tuple[sp.Symbol, ...], *after: sp.Expr) -> sp.Matrix:
    """The matrix of a linear step, from the states before to the states after."""
    return sp.Matrix([[sp.diff(sp.expand(new), old) for old in states] for new in after])


# With one mode's eigenvalue λ of L or w of W, and the gradient hx; c = ηh (αh for D-SGD-2), a = ηαλ, b = (ηβ)²λ.
JACOBI = matrix((x, v), x - eta * (alpha * lam * x + beta * v + h * x), v + eta * beta * lam * x)
DUAL = v + eta * beta * lam * x
FIRST = matrix((x, v), x - eta * (alpha * lam * x + beta * DUAL + h * x), DUAL)
PHI = x - c * x - v
Y = (1 + beta) * x - beta * v
TRACKED = w * v + c * x - q
STEPS = {
    "DSGPA, Jacobi": JACOBI,
    "DSGPA, Gauss–Seidel": FIRST,
    "D-SGD-1": matrix((x,), w * x - c * x),
    "D-SGD-2": matrix((x,), x - beta * lam * x - c * x),
    "DM-SGD": matrix((x, v), w * (x - eta * (beta * v + h * x)), w * (beta * v + h * x)),
    "D-ASG": matrix((x, v), w * Y - c * Y, x),
    "D²": matrix((x, v), w * PHI, v + (1 - w) * PHI),
    # the memory is ηy and ηg₋, so that c is all that is left of η and h
    "D-SGT-1": matrix((x, v, q), w * x - TRACKED, TRACKED, c * x),
    "D-SGT-2": matrix((x, v, q), w * (x - TRACKED), TRACKED, c * x),
    "C-SGD": matrix((x,), x - c * x),
}
POLYNOMIALS = {
    "DSGPA, Jacobi": z**2 - (2 - a - c) * z + 1 - a - c + b,
    "DSGPA, Gauss–Seidel": z**2 - (2 - a - b - c) * z + 1 - a - c,
    "D-SGD-1": z - (w - c),
    "D-SGD-2": z - (1 - beta * lam - c),
    "DM-SGD": z**2 - w * (1 + beta - c) * z + w**2 * beta,
    "D-ASG": z**2 - (1 + beta) * (w - c) * z + beta * (w - c),
    "D²": z**2 - w * (2 - c) * z + w * (1 - c),
    "D-SGT-1": z * (z**2 - (2 * w - c) * z + w**2 - c),
    "D-SGT-2": z * (z**2 - w * (2 - c) * z + w**2 - c * w),
    "C-SGD": z - (1 - c),
}
SHORT = {a: eta * alpha * lam, b: (eta * beta) ** 2 * lam, c: eta * h}


@pytest.mark.parametrize("method", list(STEPS))
def test_the_polynomials(method: str) -> None:
    found = STEPS[method].charpoly(z).as_expr()
    difference = (found - POLYNOMIALS[method]).subs(SHORT)
    assert sp.expand(difference.subs(c, eta * h)) == 0


def test_the_table_has_these_rows() -> None:
    rows = re.findall(r"^\| ((?:DSGPA|D-|DM-|D²|C-)[^|]*?) \|", PAGE, flags=re.MULTILINE)
    assert [row.partition(", β")[0] for row in rows] == list(STEPS)


def jury(polynomial: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """1 − d, 1 + d − t and 1 + d + t of z² − tz + d: all positive, with d > −1, inside the unit circle."""
    one, minus_t, d = sp.Poly(sp.expand(polynomial / (z if polynomial.subs(z, 0) == 0 else 1)), z).all_coeffs()
    assert one == 1
    return sp.expand(1 - d), sp.expand(1 + d + minus_t), sp.expand(1 + d - minus_t)


@pytest.mark.parametrize(
    ("method", "conditions"),
    [
        ("DSGPA, Jacobi", (a + c - b, b, 4 + b - 2 * (a + c))),
        ("DSGPA, Gauss–Seidel", (a + c, b, 4 - 2 * (a + c) - b)),
        ("DM-SGD", (1 - w**2 * beta, 1 + w**2 * beta - w * (1 + beta - c), 1 + w**2 * beta + w * (1 + beta - c))),
        ("D-ASG", (1 - beta * (w - c), 1 - (w - c), 1 + (1 + 2 * beta) * (w - c))),
        ("D²", (1 - w * (1 - c), 1 - w, 1 - w * (2 * c - 3))),
        ("D-SGT-1", (1 - w**2 + c, (1 - w) ** 2, (1 + w) ** 2 - 2 * c)),
        ("D-SGT-2", (1 - w**2 + c * w, (1 - w) ** 2, (1 + w) ** 2 - 2 * c * w)),
    ],
)
def test_the_conditions_of_the_quadratics(method: str, conditions: tuple[sp.Expr, ...]) -> None:
    for derived, claimed in zip(jury(POLYNOMIALS[method]), conditions, strict=True):
        assert sp.expand(derived - claimed) == 0


def test_where_both_eigenvalues_of_the_mean_are_one_it_is_not_defective() -> None:
    # flat costs: modulus 1 is bounded only if it is semisimple on the states that the mean can reach
    jacobi = JACOBI.subs({lam: 0, h: 0})
    assert jacobi == sp.Matrix([[1, -eta * beta], [0, 1]])  # defective in general, but v̄ = 0 is never left
    assert sp.Matrix([[1, 0]]) == (jacobi * sp.Matrix([1, 0])).T
    heavy = STEPS["DM-SGD"].subs({w: 1, h: 0, beta: 1})
    assert (heavy - sp.eye(2)).rank() == 1  # β = 1 is defective: the mean grows linearly with a gradient's kick


STABLE: dict[str, Any] = {
    "d-sgd-1": lambda c, w, beta: abs(w - c) < 1,
    "dm-sgd": lambda c, w, beta: w * w * beta < 1 and abs(w * (1 + beta - c)) < 1 + w * w * beta,
    "d-asg": lambda c, w, beta: -1 / (1 + 2 * beta) < w - c and abs(w - c) * beta < 1,
    "d2": lambda c, w, beta: w * (2 * c - 3) < 1 and abs(w * (1 - c)) < 1,
    "d-sgt-1": lambda c, w, beta: c < (1 + w) ** 2 / 2,
    "d-sgt-2": lambda c, w, beta: 2 * c * w < (1 + w) ** 2 and w * w - c * w < 1,
}


def test_the_conditions_decide_for_the_librarys_recursions() -> None:
    random = np.random.default_rng(1)
    seen = set()
    for name, stable in STABLE.items():
        for _ in range(150):
            c_, w_, beta_ = (
                float(random.uniform(0, 4)),
                float(random.uniform(-0.99, 0.99)),
                float(random.uniform(0, 1.3)),
            )
            values = {"eta": c_} | ({"beta": beta_} if name in ("dm-sgd", "d-asg") else {})
            found = theory.recursion(algorithms.make(name, **values), 0.0, 1 - w_, curvature=1.0)
            radius = float(np.abs(np.linalg.eigvals(found)).max())
            if abs(radius - 1) > 1e-6:
                assert (radius < 1) == stable(c_, w_, beta_), (name, c_, w_, beta_)
                seen.add((name, radius < 1))
    assert len(seen) == 2 * len(STABLE)
