"""Parameters of the exact variant, and what the theorem's conditions are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent import InputError, algorithms, graphs, theory

FACTS: dict[str, Any] = {"mu": 0.5, "ell": 2.0, "floor": 1e-2}
pytestmark = pytest.mark.filterwarnings("ignore:gamma", "ignore:ηβ²")


def test_momentum_is_not_covered() -> None:
    failing = theory.exact_failing(algorithms.make("dsgpa-f-pb-exact", momentum=0.5), mu=0.1, ell=1.0, rho=1.0)
    assert failing == ["there is momentum (θ = 0.5)"]


def ends(graph: graphs.Graph, kind: str = "metropolis") -> tuple[float, float]:
    values = np.linalg.eigvalsh(graph.laplacian(kind).toarray())
    return float(values[-1]), float(values[1])


@given(
    mu=st.floats(1e-3, 10),
    condition=st.floats(1, 100),
    floor=st.floats(1e-8, 1),
    gamma=st.floats(0.3, 1),
    dual=st.sampled_from(["jacobi", "gauss-seidel"]),
    guaranteed=st.booleans(),
)
def test_recommended_parameters_satisfy_the_theorem(
    mu: float, condition: float, floor: float, gamma: float, dual: Any, guaranteed: bool
) -> None:
    graph, ell = graphs.path(4), mu * condition
    rho, rho2 = ends(graph, "unit")
    facts = {"floor": floor, "gamma": gamma, "laplacian": "unit", "dual": dual, "guaranteed": guaranteed}
    values = theory.exact_parameters(graph, mu, ell, **facts)
    eta, alpha, beta = (values[name] for name in ("eta", "alpha", "beta"))
    assert alpha * ell == pytest.approx(beta**2)
    assert eta * alpha * rho <= (0.5 if dual == "gauss-seidel" else 0.25) * (1 + 1e-9)
    if dual == "jacobi":
        assert eta * beta**2 * rho == pytest.approx(mu / 4)
    method = algorithms.DSGPA(eta, alpha, beta, gamma, power_on="direction", dual=dual)
    assert theory.exact_failing(method, mu, ell, rho) == []
    found = theory.exact_bound(method, mu, ell, rho, rho2, 4)
    if gamma == 1:
        assert found.distance == 0
        assert eta * found.K == pytest.approx(1)
    elif guaranteed:
        assert found.distance == pytest.approx(floor, rel=1e-6)


@pytest.mark.parametrize("dual", ["jacobi", "gauss-seidel"])
@pytest.mark.parametrize("gamma", [0.3, 0.5, 0.7, 0.9])
def test_the_guaranteed_distance_is_a_power_of_the_step(gamma: float, dual: Any) -> None:
    coarse, fine = (
        theory.exact_parameters("ring:6", 0.5, 2.0, floor, gamma, dimension=3, dual=dual) for floor in (1e-2, 1e-4)
    )
    assert coarse["eta"] / fine["eta"] == pytest.approx(100 ** (1 - gamma))
    assert coarse["alpha"] / fine["alpha"] == pytest.approx(fine["eta"] / coarse["eta"])


def test_each_condition_is_named() -> None:
    def failing(**values: Any) -> str:
        made = {"eta": 0.01, "alpha": 1.0, "beta": 2.0, "gamma": 0.7, "power_on": "direction", **values}
        return "; ".join(theory.exact_failing(algorithms.DSGPA(**made), mu=1.0, ell=2.0, rho=4.0))

    assert failing() == ""
    assert failing(beta=1.0) == "αℓ = 2 is above β² = 1"
    assert failing(alpha=20.0, beta=10.0) == "ηαρ = 0.8 is above 1/2"
    assert failing(dual="jacobi") == ""
    assert failing(dual="jacobi", alpha=10.0, beta=6.0) == "ηαρ = 0.4 is above 1/4; ηβ²ρ = 1.44 is above μ/4 = 0.25"
    assert failing(gamma=0.0) == "γ = 0 is not above 0"
    assert failing(epsilon=1e-5) == failing(eta="inverse:0.1:1") == "η, α and β are not constant"
    assert failing(beta=0.0) == "η, α and β are not all positive"
    assert "ηK = " in failing(gamma=1.0, eta=0.1)
    assert "only DSGPA" in failing(power_on="gradient")
    assert "only DSGPA" in theory.exact_failing(algorithms.make("d2"), 1.0, 1.0, 1.0)[0]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mu": 0.0}, "0 < mu ≤ ell"),
        ({"mu": 3.0}, "0 < mu ≤ ell"),
        ({"floor": 0.0}, "above 0"),
        ({"gamma": 0.0}, "above 0"),
        ({"dual": "first"}, "gauss-seidel"),
        ({"graph": "ring:1"}, "two agents"),
        ({"graph": "onepeer-exp:4"}, "Theorem A"),
        ({"dimension": 0}, "dimension"),
    ],
)
def test_wrong_input_gets_a_sentence(changed: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        theory.exact_parameters(**{"graph": "ring:4", **FACTS, **changed})


def test_a_bound_needs_the_conditions() -> None:
    with pytest.raises(InputError, match="Theorem A does not apply: αℓ"):
        theory.exact_bound(algorithms.make("dsgpa-f-pb-exact", beta=0.1), 0.1, 1.0, 1.0, 0.5, 10)
