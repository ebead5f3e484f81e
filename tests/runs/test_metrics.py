import math

import pytest

from peerdescent.runs.metrics import Metrics, diverged

ROW = {"iteration": 10, "loss": 0.5, "consensus_error": 0.1, "gradient_norm": 0.2}


@pytest.mark.parametrize("key", ["loss", "consensus_error", "gradient_norm"])
@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_a_watched_number_that_is_not_finite_means_divergence(key, value):
    bad = {**ROW, key: value}
    assert diverged(bad)
    assert diverged(Metrics([ROW, bad]))
    assert not diverged(Metrics([bad, ROW]))  # only the last row counts


@pytest.mark.parametrize("record", [ROW, {**ROW, "accuracy": None, "seconds": math.nan}, {}, Metrics(), Metrics([ROW])])
def test_anything_else_does_not(record):
    assert not diverged(record)


def test_a_summary_states_it():
    assert diverged({**ROW, "diverged": True})
    assert not diverged({**ROW, "loss": None, "diverged": False})
