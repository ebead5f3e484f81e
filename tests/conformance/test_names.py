"""The names of the methods: presets, aliases, and names that do not exist."""

from __future__ import annotations

import numpy as np
import pytest

from peerdescent import InputError, algorithms, graphs, train
from peerdescent.algorithms import ALIASES, DSGD1, PRESETS, canonical, find, make, register, unregister
from peerdescent.problems import quadratic


@pytest.mark.parametrize("alias", list(ALIASES))
def test_an_alias_is_exactly_its_preset(alias: str) -> None:
    assert alias not in PRESETS
    assert canonical(alias) == ALIASES[alias]
    assert find(alias) is PRESETS[ALIASES[alias]]
    assert make(alias) == make(ALIASES[alias])
    assert alias in PRESETS[ALIASES[alias]].aliases


@pytest.mark.parametrize(("alias", "ATC"), [("dgd", False), ("diging", False), ("dsgt", True)])
def test_the_names_fit_the_published_equations(alias: str, ATC: bool) -> None:
    # DGD: x⁺ = Wx − ηg. DIGing: x⁺ = Wx − ηy, y⁺ = Wy + g⁺ − g. DSGT: x⁺ = W(x − ηy), the same y.
    problem, W, eta = quadratic(5, 3, seed=1), graphs.ring(5).mixing().toarray(), 0.05
    A, c = problem.A.numpy(), problem.c.numpy()

    def g(x: np.ndarray) -> np.ndarray:
        return np.einsum("npq,nq->np", A, x - c)

    x = np.zeros((5, 3))
    y = g(x)
    for _ in range(20):
        new = W @ (x - eta * y) if ATC else W @ x - eta * y
        y = g(new) if alias == "dgd" else W @ y + g(new) - g(x)
        x = new
    found = train(problem, "ring:5", make(alias, eta=eta), iterations=20, dtype="float64", x0=np.zeros((5, 3)))
    np.testing.assert_allclose(found.x.numpy(), x, atol=1e-12)


def test_a_mistyped_alias_leads_to_the_right_one() -> None:
    with pytest.raises(InputError, match=r"no algorithm 'digin' \(did you mean 'diging'"):
        find("digin")


def test_names_are_taken_once() -> None:
    for name, aliases in (("dgd", ()), ("mine", ("dgd",)), ("mine", ("d2",)), ("c-sgd", ())):
        with pytest.raises(InputError, match="already registered"):
            register(name, DSGD1, aliases=aliases)
    assert "mine" not in PRESETS


def test_a_method_leaves_with_its_aliases() -> None:
    register("mine", DSGD1, aliases=("my-own",), eta=0.5)
    register("mine", DSGD1, aliases=("my-new",), eta=0.25)  # a file that is loaded twice
    assert make("my-new").eta == 0.25  # type: ignore[attr-defined]
    assert "my-own" not in ALIASES
    unregister("mine")
    assert "my-new" not in ALIASES
    assert "mine" not in PRESETS


def test_varied_is_silent_and_changes_only_what_is_named(recwarn: pytest.WarningsRecorder) -> None:
    method = make("dsgpa-f", dual="gauss-seidel")
    changed = algorithms.varied(method, dual="jacobi")  # its construction warns
    assert not recwarn.list
    assert changed == algorithms.varied(method, dual="jacobi")
    assert changed.parameters() == {**method.parameters(), "dual": "jacobi"}
