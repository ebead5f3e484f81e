"""The study of the linear speedup: its grid, its parameters, its fits, and the command on a tiny budget."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from tests.reproduce.test_command import reproduce

from peerdescent import InputError, graphs, theory, train
from peerdescent.experiments.resolve import make_algorithm, resolve
from peerdescent.reproduce import speedup, speedup_report

KEYS = speedup.read()


def test_the_grid_is_what_was_asked_for() -> None:
    found = speedup.cells(KEYS)
    practical = [cell for cell in found if cell.parameters == "practical"]
    assert {cell.agents for cell in practical} == {1, 2, 4, 8, 16, 32, 64}
    lengths = {cell.iterations for cell in practical}
    assert max(lengths) / min(lengths) >= 100
    assert {cell.gamma for cell in found} == {1.0, 0.7, 0.5}
    for cell in found:
        assert cell.parameters == "practical" or cell.iterations > cell.agents**3 > 1
    assert {cell.agents for cell in found if cell.parameters == "theorem"} == {2, 4, 8, 16, 32, 64}


def test_theorem_1s_cells_have_theorem_1s_parameters() -> None:
    for part in speedup.parts(KEYS, 1):
        label, method = part.line.label, make_algorithm(part.experiment, "dsgpa-f-pb")
        h = method.hyperparameters(0)
        graph = graphs.parse(part.experiment.graph)
        assert h["eta"] == pytest.approx(math.sqrt(graph.n / part.experiment.iterations))
        if label.startswith("theorem"):
            k1, k2 = h["alpha"] / h["beta"], h["eta"] * h["beta"]
            ends = graphs.spectrum(graph.laplacian("metropolis"), graph.mixing())
            assert k1 > 1 / ends.rho2 + 1
            assert 0 < k2 < ((k1 - 1) * ends.rho2 - 1) / (ends.rho + (2 * k1**2 + 1) * ends.rho**2 + 1)


def test_practical_parameters_that_count_are_stable_where_the_cost_is_most_curved() -> None:
    for cell, part in zip(speedup.cells(KEYS), speedup.parts(KEYS, 1), strict=True):
        assert cell.label == part.line.label
        if cell.parameters == "practical" and speedup.counts("consensus", cell):
            method = make_algorithm(part.experiment, "dsgpa-f-pb")
            assert theory.stability(method, graphs.parse(part.experiment.graph), curvature=3.0).stable, part.line.label


@given(a=st.floats(-1.5, 0.5), b=st.floats(-1.5, 0.5), seed=st.integers(0, 10**6))
def test_slopes_and_intervals_are_those_of_the_normal_equations(a: float, b: float, seed: int) -> None:
    cells = [speedup.Cell("practical", "iid", 1.0, n, T) for n in (1, 2, 4, 8) for T in (100, 1000, 10_000)]
    noise = np.random.default_rng(seed).normal(0, 0.1, len(cells))
    values = [c.agents**a * c.iterations**b * math.exp(e) for c, e in zip(cells, noise, strict=True)]
    fit = speedup.fit("gradient", cells, values)
    x, y = [math.log(c.agents * c.iterations) for c in cells], np.log(values)
    (slope, _), covariance = np.polyfit(x, y, 1, cov=True)
    half = scipy.stats.t.ppf(0.975, len(cells) - 2) * math.sqrt(covariance[0, 0])
    assert (fit.slope, fit.low, fit.high) == pytest.approx((slope, slope - half, slope + half))
    normal = np.array([[1.0, math.log(c.agents), math.log(c.iterations)] for c in cells])
    _, of_n, of_t = np.linalg.solve(normal.T @ normal, normal.T @ y)
    assert (fit.exponent_n, fit.exponent_t) == pytest.approx((of_n, of_t), abs=1e-9)


@pytest.mark.parametrize(
    ("quantity", "power", "word"),
    [
        ("gradient", -0.5, "reproduced"),
        ("gradient", -0.8, "reproduced"),  # better than promised
        ("gradient", -0.1, "not reproduced"),
        ("consensus", -1.0, "reproduced"),
        ("consensus", -0.5, "not reproduced"),
    ],
)
def test_verdicts(quantity: str, power: float, word: str) -> None:
    cells = [speedup.Cell("practical", "iid", 1.0, n, T) for n in (2, 4, 8) for T in (100, 1000, 10_000)]
    noise = np.random.default_rng(0).normal(0, 0.01, len(cells))
    values = [speedup.across(quantity, c) ** power * math.exp(e) for c, e in zip(cells, noise, strict=True)]
    assert speedup.fit(quantity, cells, values).word == word


@pytest.mark.parametrize("broken", [0, 1])
def test_a_run_that_diverged_breaks_the_promise(broken: int) -> None:
    keys = {**KEYS, "agents": [2, 4, 8], "iterations": [1000, 10_000], "gammas": [1.0]}
    cells = speedup.cells(keys)
    rates = {"gradient": -0.6, "consensus": -1.1}  # better than promised
    values = {c.label: [{q: speedup.across(q, c) ** power for q, power in rates.items()}] * 2 for c in cells}
    practical = [cell for cell in cells if (cell.parameters, cell.data) == ("practical", "iid")]
    for cell in practical[-broken:] if broken else []:
        values[cell.label] = [values[cell.label][0], {"gradient": math.nan, "consensus": math.inf}]
    settings = list(speedup.settings(keys, cells, values))
    found = {(s.parameters, s.data): (s.diverged, len(s.cells)) for s in settings}
    assert found["practical", "iid"] == (broken, len(practical) - broken)
    assert found["practical", "heterogeneous"] == (0, len(practical))
    claims = {c.text: c for c in speedup_report.claims(settings)}
    hurt = [text for text, claim in claims.items() if claim.verdict == "not reproduced"]
    assert len(hurt) == 2 * broken
    assert all(
        "IID data with Gaussian noise, practical" in text and "diverged" in claims[text].evidence for text in hurt
    )


@pytest.mark.parametrize(("iterations", "tolerance"), [(10, 1e-9), (3000, 0.02)])
def test_averages_are_those_of_every_iterate(iterations: int, tolerance: float) -> None:
    experiment = speedup.parts({**KEYS, "agents": [4], "iterations": [iterations]}, 1)[-1].experiment
    (plan,) = resolve(experiment)
    problem, method = plan.problem, plan.algorithm
    options = {"eval_every": 1, "batch_size": 1, "laplacian": "metropolis", "dtype": "float64", "per_agent": False}
    rows = train(problem, experiment.graph, method, iterations=iterations, **options).metrics[:-1]
    found = speedup.averages(experiment)
    assert found["gradient"] == pytest.approx(np.mean([row["gradient_norm"] ** 2 for row in rows]), rel=tolerance)
    assert found["consensus"] == pytest.approx(np.mean([row["consensus_error"] for row in rows]), rel=tolerance)


def test_a_hypercube_needs_a_power_of_two() -> None:
    assert speedup.graph_of(1).n == 1
    with pytest.raises(InputError, match="power of two"):
        speedup.graph_of(6)


@pytest.mark.e2e
def test_the_command_leaves_slopes_figures_and_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {**KEYS, "agents": [2, 4], "iterations": [100, 300], "gammas": [1.0]}
    small["theorem"] = {"dual": "jacobi"}
    monkeypatch.setattr(speedup, "read", lambda: small)
    assert reproduce(monkeypatch, "speedup", "--seeds", "1", "--jobs", "1", "--quiet", "--out", str(tmp_path)) == 0
    out = tmp_path / "speedup"
    rows = list(csv.DictReader((out / "tables" / "slopes-practical.csv").open()))
    assert [(row["data"], row["promised"]) for row in rows] == [
        ("iid", "-0.5"), ("iid", "-1"), ("heterogeneous", "-0.5"), ("heterogeneous", "-1")
    ]  # fmt: skip
    claims = json.loads((out / "claims.json").read_text())
    assert len(claims) == 8
    assert {path.name for path in (out / "figures").glob("*.png")} == {
        f"{whose}-{data}.png" for whose in ("theorem", "practical") for data in ("iid", "heterogeneous")
    }
    assert "data:image/png;base64," in (out / "report.html").read_text()
