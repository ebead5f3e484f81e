"""Lost, late and noisy messages and inactive agents: every method against a transcription, or at least sane."""

from functools import cache

import numpy as np
import pytest
import torch
from tests.conformance import impaired_reference as reference

from peerdescent import algorithms, problems, train
from peerdescent.data import stream
from peerdescent.errors import InputError
from peerdescent.graphs import as_graph
from peerdescent.mixing.chance import Bursts, Independent
from peerdescent.training.invariants import COLUMN

N, P, K, SEED = 6, 3, 25, 5
RATES = {
    "d-sgd-1": {"eta": 0.05},
    "d-sgt-1": {"eta": 0.05},
    "dsgpa-f": {"eta": 0.05, "alpha": 2.0, "beta": 1.0},
    "d2": {"eta": 0.05},
}
FUNCTIONS = {
    "d-sgd-1": reference.d_sgd_1,
    "d-sgt-1": reference.d_sgt_1,
    "dsgpa-f": reference.dsgpa_f,
    "d2": reference.d2,
}
IMPAIRED = {
    "drop": {"drop": "0.3"},
    "bursts": {"drop": "gilbert:0.2:0.4:0.8"},
    "one-sided": {"drop": "0.3:one-sided"},
    "inactive": {"inactive": "markov:0.2:0.5"},
    "delay": {"delay": 3},
    "noise": {"message_noise": 0.01},
    "all": {"drop": "0.2", "inactive": "cyclic:5:1", "delay": 2, "message_noise": 0.01},
}
LAWS = {"0.2": Independent(0.2), "0.3": Independent(0.3), "gilbert:0.2:0.4:0.8": Bursts(0.2, 0.4, 0.8)}


@pytest.fixture(autouse=True)
def no_prediction(monkeypatch):
    """Stability on random rounds is sampled, and tested elsewhere; for so many short runs that takes too long."""
    monkeypatch.setattr("peerdescent.training.train._warn_if_unstable", lambda plan, group: None)


@cache
def history(law, purpose, i, j):
    return law.happens(SEED, purpose, np.array([[i, j]]), 0, K)[:, 0]


def lost(text):
    """lost(i, j, r), by the law of each edge or direction alone."""
    law, one_sided = LAWS[text.removesuffix(":one-sided")], text.endswith(":one-sided")
    return lambda i, j, r: history(law, "drop", *((i, j) if one_sided else sorted([i, j])))[r]


def is_inactive(text):
    if text.startswith("cyclic"):
        return lambda i, k: (k - i) % 5 == 0
    return lambda i, k: history(Bursts(0.2, 0.5), "inactive", i, i)[k]


@cache
def drawn(message, agent):
    return stream(SEED, f"message {message} noise", agent).standard_normal((4096 // P, P))


def expected(name, problem, settings, x0, L, W):
    drops = lost(settings["drop"]) if "drop" in settings else lambda i, j, r: False
    inactive = is_inactive(settings["inactive"]) if "inactive" in settings else lambda i, k: False
    delay, sigma = settings.get("delay", 0), settings.get("message_noise", 0.0)

    def arrives(i, j, r):
        quiet = any(inactive(agent, time) for agent in (i, j) for time in (r - delay, r))
        return not (drops(i, j, r - delay) or quiet)

    def noise(m, i, r):
        return sigma * drawn(m, i)[r]

    def gradient(i, x):
        return problem.A[i].numpy() @ (x - problem.c[i].numpy())

    wire = reference.Wire(delay, arrives, noise)
    return FUNCTIONS[name](x0, L, W, gradient, K, wire, inactive, **RATES[name])


def make_problem():
    random = np.random.default_rng(1)
    A, c, start = random.uniform(0.5, 2, (N, P)), random.standard_normal((N, P)), random.standard_normal((N, P))
    return problems.Quadratic(A, c, start=start).to(torch.device("cpu"), torch.float64)


def quiet_train(problem, method, **settings):
    common = {"seed": SEED, "batch_size": 0, "dtype": "float64", "per_agent": False}
    return train(problem, "er:6:0.6:seed=1", method, **{"eval_every": K, **common, **settings})


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize(
    ("impairment", "kernel"),
    [
        ("all", "compiled"),
        *(pytest.param(name, "plain", marks=pytest.mark.e2e) for name in IMPAIRED),
        pytest.param("one-sided", "compiled", marks=pytest.mark.e2e),
    ],
)
@pytest.mark.filterwarnings("ignore:.*one direction only", "ignore:invariant violated")
def test_the_trajectory_is_that_of_the_transcription(name, impairment, kernel):
    problem, settings, graph = make_problem(), IMPAIRED[impairment], as_graph("er:6:0.6:seed=1")
    L, W = graph.laplacian().toarray(), graph.mixing().toarray()
    method = algorithms.make(name, **RATES[name])
    if method.mixing(float(np.linalg.eigvalsh(W)[0])) == "lazy":
        W = (np.eye(N) + W) / 2
    run = quiet_train(problem, method, iterations=K, kernel=kernel, **settings)
    x = expected(name, problem, settings, problem.start(0).numpy(), L, W)
    assert np.abs(run.x.numpy() - x).max() < 1e-12 * np.abs(x).max()


@pytest.mark.parametrize(
    "impairment", ["delay", *(pytest.param(name, marks=pytest.mark.e2e) for name in ("drop", "inactive", "all"))]
)
def test_every_method_keeps_its_invariants(impairment):
    problem, settings = make_problem(), IMPAIRED[impairment]
    for name in algorithms.PRESETS:
        if name == "c-sgd" and "inactive" in settings:
            with pytest.raises(InputError, match=r"^inactive = .*: c-sgd averages over all agents .*\.$"):
                quiet_train(problem, algorithms.make(name), iterations=20, **settings)
            continue
        run = quiet_train(
            problem, algorithms.make(name), iterations=12, eval_every=4, kernel="plain", compress="none", **settings
        )
        assert not any("invariant" in note for note in run.notes), name
        assert all(error is None or error < 1e-12 for error in run.metrics[COLUMN]), name


@pytest.mark.parametrize("name", ["dsgpa-f", "d-sgt-1", "d2"])
def test_one_sided_drops_are_announced_and_their_first_breach_is_named(name):
    method = algorithms.make(name, **RATES[name])
    with pytest.warns(UserWarning, match="invariant|one direction") as caught:
        run = quiet_train(make_problem(), method, iterations=20, eval_every=1, drop="0.3:one-sided")
    before, breach = (str(warning.message) for warning in caught)
    assert "breaks when a message is lost in one direction only" in before
    assert "use symmetric drops or d-sgd-1" in before
    first = next(row for row in run.metrics if row[COLUMN] > 1e-9)
    assert breach.startswith(f"invariant violated at iteration {first['iteration']}: ")
    assert f"off by {first[COLUMN]:.1e} of the largest entry" in breach
    assert run.notes[:2] == [before, breach]


def test_d_sgd_has_nothing_that_one_sided_drops_break(recwarn):
    run = quiet_train(make_problem(), algorithms.make("d-sgd-1"), iterations=5, drop="0.3:one-sided")
    assert run.notes == []
    assert COLUMN not in run.metrics[-1]
    assert len(recwarn) == 0
