"""The stability table of docs/theory.md as it is printed, derived again with sympy from each method's equations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp

from peerdescent import algorithms, theory

pytestmark = pytest.mark.filterwarnings("ignore:ηβ²")
PAGE = (Path(__file__).parents[2] / "docs" / "theory.md").read_text()
TABLE = PAGE.partition("| method | polynomial of a mode |")[2].partition("\n\n")[0]
LETTERS = "a b c w z α β ζ η λ μ ν ŵ C"
SYMBOLS = {letter: sp.Symbol(letter) for letter in LETTERS.split()}
a, b, c, w, z, alpha, beta, zeta, eta, lam, mu, nu, half, C = SYMBOLS.values()
h, x, v, q, r = sp.symbols("h x v q r")
"""A curvature; x and up to three memories."""
SHORT = {a: eta * alpha * lam, b: (eta * beta) ** 2 * lam, c: eta * h, half: (1 + w) / 2, C: (1 - beta) * c}
Rows = dict[str, tuple[str, str, str]]


def printed() -> Rows:
    """Polynomial, condition for h = 0 and condition for h > 0, by method, as the page prints them."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", TABLE.replace(r"\|", "¦"), flags=re.MULTILINE)
    return {name: tuple(rest) for name, *rest in rows}  # type: ignore[misc]


def python(text: str) -> str:
    """A printed formula, with letters side by side, as an expression of Python."""
    text = re.sub(r"¦([^¦]+)¦", r"§(\1)", text.replace("−", "-"))
    text = re.sub(r"(?<=[\w²³)])\s*(?=[A-Za-zα-ωŵ(])", "*", text)
    return text.replace("²", "**2").replace("³", "**3").replace("§", "abs")


def polynomial(text: str) -> sp.Expr:
    return sp.expand(eval(python(text.partition(", the mean")[0]), {}, dict(SYMBOLS)))


ROWS = printed()


def matrix(states: tuple[sp.Symbol, ...], *after: sp.Expr) -> sp.Matrix:
    """The matrix of a linear step, from the states before to the states after."""
    return sp.Matrix([[sp.diff(sp.expand(new), old) for old in states] for new in after])


# With one mode's eigenvalue λ of L or w of W, and the gradient hx. Memories of gradients are multiplied by η, so that
# c = ηh (αh for D-SGD-2) is all that is left of both.
JACOBI = matrix((x, v), x - eta * (alpha * lam * x + beta * v + h * x), v + eta * beta * lam * x)
DUAL = v + eta * beta * lam * x
FIRST = matrix((x, v), x - eta * (alpha * lam * x + beta * DUAL + h * x), DUAL)
PHI = x - c * x - v
NEW_M = beta * q + (1 - beta) * c * x
PHI_M = x - NEW_M - v
Y = (1 + beta) * x - beta * v
TRACKED = w * v + c * x - q
MIXED = w * (v + c * x - q)
ESTIMATE = c * x + (1 - beta) * (q - c * r)  # of the previous point r
TRACKED_ESTIMATE = w * (v + ESTIMATE - q)
NEW_U = beta * v + c * x
QUASI = w * (x - c * x - beta * v)
LOCAL = mu * v + c * x
OUTER = nu * q + LOCAL
HALF = (1 + w) / 2
DIFFUSION = matrix((x, v), HALF * PHI, v + (1 - HALF) * PHI)
STEPS = {
    "DSGPA, Jacobi": JACOBI,
    "DSGPA, Gauss–Seidel": FIRST,
    "D-SGD-1": matrix((x,), w * x - c * x),
    "D-SGD-2": matrix((x,), x - beta * lam * x - c * x),
    "DM-SGD": matrix((x, v), w * (x - eta * (beta * v + h * x)), w * (beta * v + h * x)),
    "D-ASG, β < 1": matrix((x, v), w * Y - c * Y, x),
    "D²": matrix((x, v), w * PHI, v + (1 - w) * PHI),
    "D-SGT-1": matrix((x, v, q), w * x - TRACKED, TRACKED, c * x),
    "D-SGT-2": matrix((x, v, q), w * (x - TRACKED), TRACKED, c * x),
    "C-SGD": matrix((x,), x - c * x),
    # the printed form of EXTRA, with x₋ and ηg₋ as memory, has besides the root 0
    "EXTRA": matrix((x, v, q), (1 + w) * x - HALF * v - (c * x - q), x, c * x),
    "Exact diffusion, NIDS": DIFFUSION,
    "EDM, C = (1−β)c": matrix((x, v, q), HALF * PHI_M, v + (1 - HALF) * PHI_M, NEW_M),
    "Aug-DGM": matrix((x, v, q), w * (x - MIXED), MIXED, c * x),
    "GT-HSGD": matrix((x, v, q, r), w * (x - TRACKED_ESTIMATE), TRACKED_ESTIMATE, ESTIMATE, x),
    "Momentum tracking": matrix((x, v, q), w * x - NEW_U + q, NEW_U, w * (q - NEW_U) + NEW_U),
    "QG-DSGDm": matrix((x, v), QUASI, beta * v + (1 - beta) * (x - QUASI)),
    "SGP, undirected": matrix((x,), w * (x - c * x)),
    "Push-DIGing, undirected": matrix((x, v, q), w * (x - v - c * x + q), w * (v + c * x - q), c * x),
    "Gossip SGD": matrix((x, v), w * (x - LOCAL), LOCAL),
    "Gossip SGD, outer step": matrix((x, v, q), w * (x - zeta * (LOCAL + nu * OUTER)), LOCAL, OUTER),
}
LIBRARY: dict[str, tuple[str, ...]] = {
    "DSGPA, Jacobi": ("dsgpa-f",),
    "DSGPA, Gauss–Seidel": ("dsgpa-f",),
    "D-ASG, β < 1": ("d-asg",),
    "D²": ("d2",),
    "Exact diffusion, NIDS": ("exact-diffusion", "nids"),
    "EDM, C = (1−β)c": ("edm",),
    "Momentum tracking": ("momentum-tracking",),
    "SGP, undirected": ("sgp",),
    "Push-DIGing, undirected": ("push-diging",),
    "Gossip SGD": ("gossip-sgd",),
    "Gossip SGD, outer step": ("gossip-sgd-outer",),
}
"""The registered names, where they are not the row's in small letters."""


def test_the_table_has_a_row_for_every_linear_method() -> None:
    from tests.support.chosen_methods import LINEAR

    assert list(ROWS) == list(STEPS)
    named = {name for row in STEPS for name in LIBRARY.get(row, (row.lower(),))}
    assert named == {name for name in LINEAR if not name.startswith("dsgpa")} | {
        "dsgpa-f"
    }  # the others differ in values


@pytest.mark.parametrize("method", list(STEPS))
def test_the_polynomials(method: str) -> None:
    claimed, derived = polynomial(ROWS[method][0]), STEPS[method].charpoly(z).as_expr()
    zeros = STEPS[method].rows - sp.degree(claimed, z)
    difference = (derived - z**zeros * claimed).subs(SHORT).subs(c, eta * h)
    assert sp.expand(difference) == 0


def jury(polynomial: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """1 − d, 1 + d − t and 1 + d + t of z² − tz + d: all positive, with d > −1, inside the unit circle."""
    one, minus_t, d = sp.Poly(polynomial, z).all_coeffs()
    assert one == 1
    return sp.expand(1 - d), sp.expand(1 + d + minus_t), sp.expand(1 + d - minus_t)


QG = (1 + 3 * beta - 2 * beta**2 - c * (1 + beta)) * w


@pytest.mark.parametrize(
    ("method", "conditions"),
    [
        ("DSGPA, Jacobi", (a + c - b, b, 4 + b - 2 * (a + c))),
        ("DSGPA, Gauss–Seidel", (a + c, b, 4 - 2 * (a + c) - b)),
        ("DM-SGD", (1 - w**2 * beta, 1 + w**2 * beta - w * (1 + beta - c), 1 + w**2 * beta + w * (1 + beta - c))),
        ("D-ASG, β < 1", (1 - beta * (w - c), 1 - (w - c), 1 + (1 + 2 * beta) * (w - c))),
        ("D²", (1 - w * (1 - c), 1 - w, 1 - w * (2 * c - 3))),
        ("D-SGT-1", (1 - w**2 + c, (1 - w) ** 2, (1 + w) ** 2 - 2 * c)),
        ("D-SGT-2", (1 - w**2 + c * w, (1 - w) ** 2, (1 + w) ** 2 - 2 * c * w)),
        ("EXTRA", (c + 1 - half, 1 + half - (1 + w), 2 + w + half - 2 * c)),
        ("Exact diffusion, NIDS", (1 - half * (1 - c), 1 - half, 1 - half * (2 * c - 3))),
        ("Aug-DGM", (1 - w**2 * (1 - c), (1 - w) ** 2, (1 + w) ** 2 - 2 * c * w**2)),
        ("QG-DSGDm", (1 - w * beta * (2 - beta - c), (1 - beta) * (1 - w * (1 - c)), 1 + beta + QG)),
        ("Gossip SGD", (1 - w * mu, (1 - w) * (1 - mu) + w * c, (1 + w) * (1 + mu) - w * c)),
    ],
)
def test_the_conditions_of_the_quadratics(method: str, conditions: tuple[sp.Expr, ...]) -> None:
    for derived, claimed in zip(jury(polynomial(ROWS[method][0])), conditions, strict=True):
        assert sp.expand(derived - claimed) == 0


@pytest.mark.parametrize(
    ("method", "at_one", "at_minus_one"),
    [
        ("EDM, C = (1−β)c", (1 - beta) * (1 - half), 1 + beta - half * (2 * C - 3 - 3 * beta)),
        ("Momentum tracking", (1 - w) ** 2 * (1 - beta), (1 + w) ** 2 * (1 + beta) - 2 * c),
        (
            "Gossip SGD, outer step",
            (1 - w) * (1 - mu) * (1 - nu) + w * zeta * c,
            (1 + w) * (1 + mu) * (1 + nu) - w * zeta * c * (1 + 2 * nu),
        ),
    ],
)
def test_the_conditions_of_the_cubics(method: str, at_one: sp.Expr, at_minus_one: sp.Expr) -> None:
    found = polynomial(ROWS[method][0])
    assert sp.expand(found.subs(z, 1) - at_one) == 0
    assert sp.expand(-found.subs(z, -1) - at_minus_one) == 0


def test_jurys_conditions_decide_for_cubics() -> None:
    random = np.random.default_rng(0)
    seen = set()
    for _ in range(2000):
        t, e, d = random.uniform(-3, 3), random.uniform(-3, 3), random.uniform(-1.2, 1.2)
        radius = float(np.abs(np.roots([1, -t, e, -d])).max())
        inside = 1 - t + e - d > 0 and 1 + t + e + d > 0 and abs(d) < 1 and abs(e - t * d) < 1 - d * d
        assert inside == (radius < 1)
        seen.add(inside)
    assert len(seen) == 2


def test_where_both_eigenvalues_of_the_mean_are_one_it_is_not_defective() -> None:
    # flat costs: modulus 1 is bounded only if it is semisimple on the states that the mean can reach
    jacobi = JACOBI.subs({lam: 0, h: 0})
    assert jacobi == sp.Matrix([[1, -eta * beta], [0, 1]])  # defective in general, but v̄ = 0 is never left
    assert sp.Matrix([[1, 0]]) == (jacobi * sp.Matrix([1, 0])).T
    heavy = STEPS["DM-SGD"].subs({w: 1, h: 0, beta: 1})
    assert (heavy - sp.eye(2)).rank() == 1  # β = 1 is defective: the mean grows linearly with a gradient's kick


def holds(text: str, values: dict[str, float], coefficients: np.ndarray) -> bool:
    """Whether a printed condition holds."""
    if text == "always":
        return True
    if text.startswith("as "):
        return holds(ROWS[text.removeprefix("as ")][2], values, coefficients)
    for part in re.split(r" and |, ", text):
        if part == "(J)":
            _, minus_t, e, minus_d = coefficients
            fulfilled = abs(e - minus_t * minus_d) < 1 - minus_d**2
        else:
            fulfilled = bool(eval(python(part), {}, {**values, "abs": abs}))
        if not fulfilled:
            return False
    return True


def drawn(random: np.random.Generator, method: str, flat: bool) -> dict[str, float]:
    """Values for every letter, within what the page asks for."""
    most = 1.3 if method == "DM-SGD" else 4.0 if method in ("DSGPA, Jacobi", "DSGPA, Gauss–Seidel", "D-SGD-2") else 0.99
    values = {name: float(random.uniform(0, 0.99)) for name in ("μ", "ν")}
    values |= {name: float(random.uniform(0, 2)) for name in ("α", "λ", "ζ", "η")}
    values |= {"β": float(random.uniform(0.01, most)), "w": float(random.uniform(-0.99, 0.99))}
    values["c"] = 0.0 if flat else float(random.uniform(0, 16 if method.startswith("EDM") else 4))
    values["a"], values["b"] = values["η"] * values["α"] * values["λ"], (values["η"] * values["β"]) ** 2 * values["λ"]
    return values | {"ŵ": (1 + values["w"]) / 2, "C": (1 - values["β"]) * values["c"]}


def from_library(method: str, name: str, values: dict[str, float]) -> Any:
    """The registered method with these values; the curvature is c/η (c/α for D-SGD-2)."""
    order = {"dual": "jacobi" if method.endswith("Jacobi") else "gauss-seidel"} if name == "dsgpa-f" else {}
    letters = {"eta": "η", "alpha": "α", "beta": "β", "momentum": "μ", "outer_lr": "ζ", "outer_momentum": "ν"}
    known = algorithms.PRESETS[name].options()
    return algorithms.make(name, **{key: values[letter] for key, letter in letters.items() if key in known}, **order)


@pytest.mark.parametrize("method", [name for name in STEPS if name != "C-SGD"])  # whose only mode is the mean
@pytest.mark.parametrize("flat", [True, False])
def test_the_conditions_decide_for_the_librarys_recursions(method: str, flat: bool) -> None:
    random = np.random.default_rng(1)
    text, *conditions = ROWS[method]
    letters = [symbol for symbol in SYMBOLS.values() if symbol is not z]
    coefficients = sp.lambdify(letters, sp.Poly(polynomial(text), z).all_coeffs())
    seen = set()
    for _ in range(60):
        values = drawn(random, method, flat)
        numbers = np.array(coefficients(*(values.get(str(letter), 0.0) for letter in letters)), dtype=float)
        radius = float(np.abs(np.roots(numbers)).max(initial=0.0))
        for name in LIBRARY.get(method, (method.lower(),)):
            one = from_library(method, name, values)
            curvature = values["c"] / values["α" if name == "d-sgd-2" else "η"]
            found = np.linalg.eigvals(theory.recursion(one, values["λ"], 1 - values["w"], curvature))
            assert float(np.abs(found).max()) == pytest.approx(radius, abs=1e-5), (name, values)
        if abs(radius - 1) > 1e-6:
            stable = holds(conditions[not flat], values, numbers)
            assert (radius < 1) == stable, (method, values)
            seen.add(stable)
    assert len(seen) == (1 if flat and conditions[0] in ("always", "w > −1") else 2)
