"""Heavy-tailed and skewed noise: who is biased, how tails are measured, and what the report says."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from peerdescent.problems import quadratic
from peerdescent.reproduce import gradient_tails, heavy_tails, heavy_tails_report
from peerdescent.reproduce.heavy_tails import EXACT, MENDED, PLAIN, POWERED, Bias, Outcome
from peerdescent.runs.metrics import Metrics

METHODS = heavy_tails.bias_methods()


def bias(name: str, noise: str, iterations: int = 1000, copies: int = 8) -> float:
    return heavy_tails.bias_of(name, METHODS[name], noise, iterations, copies).bias


def test_without_noise_only_the_power_on_gradients_is_biased() -> None:
    assert bias(POWERED, "none", copies=2) > 0.05
    for name in (PLAIN, EXACT, MENDED, "powered-tracking"):
        assert bias(name, "none", copies=2) < 0.005, name


def test_skewed_noise_biases_the_exact_variant_and_momentum_repairs_most_of_it() -> None:
    without, repaired = bias(EXACT, "exponential"), bias(MENDED, "exponential")
    assert without > 0.08
    assert repaired < without / 2


@pytest.mark.e2e
def test_the_table_of_biases() -> None:
    """Signs and orders of magnitude; rows as in the documentation."""
    found = {
        (name, noise): heavy_tails.bias_of(name, METHODS[name], noise)
        for noise in ("none", *heavy_tails.NOISES)
        for name in (PLAIN, POWERED, EXACT, MENDED)
    }
    assert found[POWERED, "none"].bias > 0.05
    for name in (PLAIN, EXACT, MENDED):
        assert found[name, "none"].bias < 0.005
    symmetric, exponential, pareto = "student-t:1.5", "exponential", "pareto:1.6"
    assert not found[EXACT, symmetric].biased
    assert found[EXACT, symmetric].bias < found[PLAIN, symmetric].bias
    assert found[EXACT, exponential].biased
    assert found[EXACT, exponential].bias > 0.08
    assert found[MENDED, exponential].bias < found[EXACT, exponential].bias / 4
    assert found[PLAIN, exponential].bias < 0.03
    assert found[EXACT, pareto].bias > 0.3
    assert found[MENDED, pareto].bias < found[EXACT, pareto].bias / 2
    assert found[PLAIN, pareto].bias < found[MENDED, pareto].bias  # where ours loses


def test_tails_of_known_distributions() -> None:
    random = np.random.default_rng(0)
    for alpha in (1.2, 2.5):
        assert gradient_tails.hill(random.pareto(alpha, 200_000) + 1) == pytest.approx(alpha, rel=0.1)
    skewed = random.standard_exponential((20_000, 3)) - 1
    assert gradient_tails.skewness(skewed) == pytest.approx(2.0, abs=0.3)
    assert np.abs(gradient_tails.skewness(random.standard_normal((20_000, 3)))).max() < 0.1


def test_the_noise_of_known_gradients() -> None:
    problem = quadratic(3, 4, noise=2.0)
    noise, norms = gradient_tails.noise_of(problem, problem.start(0)[0], 400)
    assert noise.shape == (400, 12)
    assert norms.shape == (400, 3)
    assert noise.std(axis=0) == pytest.approx(2 / math.sqrt(gradient_tails.BATCH), rel=0.2)
    found = gradient_tails.tails("a", "start", noise, norms)
    assert found.skewness < 0.3
    assert found.index > 4


def outcomes(**losses: float) -> list[Outcome]:
    curve = Metrics([{"iteration": 0, "loss": 2.0, "accuracy": 0.1}, {"iteration": 10, "loss": 0.1, "accuracy": 0.5}])
    names = {"plain": PLAIN, "powered": POWERED, "exact": EXACT, "mended": MENDED}
    return [Outcome(names[name], {"eta": 0.1}, [loss] * 2, [curve] * 2) for name, loss in losses.items()]


def synthetic() -> tuple[list[Bias], list[tuple[heavy_tails.Setting, list[Outcome]]], list[gradient_tails.Tails]]:
    setting = heavy_tails.settings(0.01)[-1]
    found = [Bias(name, noise, 0.01, 0.001) for name in METHODS for noise in ("none", *heavy_tails.NOISES)]
    ended = outcomes(plain=0.1, powered=math.inf, exact=0.3, mended=0.2)
    tails = [gradient_tails.Tails("mnist-nn", "start", 0.7, 0.2, 0.1, 3.0, 3.9, 8.0)]
    return found, [(setting, ended)], tails


def test_verdicts_say_where_ours_loses() -> None:
    found, results, tails = synthetic()
    setting = results[0][0]
    claims = {one.text: one for one in heavy_tails_report.claims(found, results, tails)}
    lost = claims[f"{MENDED}, tuned, ends no higher than any other method."]
    assert lost.verdict == "does not hold"
    assert f"{setting.name}: 0.2 ± 0 against 0.1 ± 0 of {PLAIN}" in lost.evidence
    assert claims[f"{MENDED}, tuned, ends no higher than {EXACT}."].verdict == "holds"
    assert f"{POWERED} in {setting.name} (2 seeds)" in str(claims)


@pytest.mark.e2e
def test_the_report_has_its_files(tmp_path: Path) -> None:
    page = heavy_tails_report.write_report(*synthetic(), tmp_path, "a command")
    assert page.is_file()
    assert json.loads((tmp_path / "claims.json").read_text())
    text = (tmp_path / "README.md").read_text()
    assert "| diverges |" in text
    assert "2.0× the best loss" in text
    assert {path.name for path in (tmp_path / "figures").iterdir()} >= {"bias.png", "network-pareto.png"}


def test_every_setting_names_methods_that_exist() -> None:
    for setting in heavy_tails.settings():
        assert {PLAIN, POWERED, EXACT, MENDED, "d-sgt-2", "clipped-d-sgd", "gt-nsgdm", "sclip-ef"} <= set(
            setting.experiment.algorithms
        )
        assert setting.experiment.gradient_noise is not None
    assert heavy_tails.settings()[0].lowest > 0
