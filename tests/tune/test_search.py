"""The search alone, on functions with a known minimum."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent import algorithms
from peerdescent.errors import InputError
from peerdescent.tune.search import Budget, Round, Scored, best, propose
from peerdescent.tune.space import Point, Space


def search(
    name: str, score: Callable[[Point], float], trials: int = 24, stable: Callable[[Point], bool] = lambda point: True
) -> tuple[Scored | None, int]:
    """Return the best point of a search and the number of points tried."""
    space, before, tried = Space.of(name, algorithms.make(name)), [], 0
    for this in Budget(trials=trials).rounds(1000):
        proposal = propose(space, before, this, stable, 0, name)
        assert all(map(stable, proposal.points))
        assert not any(map(stable, proposal.rejected))
        before = [Scored(point, score(point)) for point in proposal.points]
        tried += len(before)
    return best(before), tried


@given(trials=st.integers(1, 200), iterations=st.integers(1, 10**6))
def test_rounds_spend_the_budget_and_end_at_full_length(trials: int, iterations: int) -> None:
    rounds = Budget(trials=trials).rounds(iterations)
    assert sum(this.trials for this in rounds) == trials
    assert all(this.trials > 0 and this.iterations > 0 for this in rounds)
    assert rounds[-1].iterations == iterations
    assert sorted(this.iterations for this in rounds) == [this.iterations for this in rounds]


@given(eta=st.floats(0.005, 2.0))
def test_the_best_step_is_found_within_a_half(eta: float) -> None:
    found, tried = search("d-sgd-1", lambda point: abs(math.log(point["eta"] / eta)))
    assert tried == 24
    assert found is not None
    assert found.score < math.log(1.5)


def test_three_parameters_come_near_their_best() -> None:
    goal = {"eta": 0.5, "alpha": 0.5, "beta": 1.0}

    def far(point: Point) -> float:
        return sum(math.log(point[name] / value) ** 2 for name, value in goal.items())

    found, _ = search("dsgpa-f", far)
    assert found is not None
    assert found.score < far(algorithms.make("dsgpa-f").hyperparameters(0)) / 5


@given(limit=st.floats(0.004, 3.0))
def test_all_trials_are_stable(limit: float) -> None:
    found, tried = search("d-sgd-1", lambda point: -point["eta"], stable=lambda point: point["eta"] < limit)
    assert tried == 24  # rejected points cost no trial
    assert found is not None
    assert limit / 2 < found.point["eta"] < limit


def test_without_stable_points_nothing_is_tried() -> None:
    assert search("d-sgd-1", lambda point: 0.0, stable=lambda point: False) == (None, 0)


def test_a_round_keeps_the_best_points_and_searches_around_the_first() -> None:
    space = Space.of("d-sgd-1", algorithms.make("d-sgd-1"))
    before = [Scored({"eta": eta}, score) for eta, score in ((0.01, 3.0), (0.3, 1.0), (1.0, math.inf), (0.1, 2.0))]
    points = propose(space, before, Round(2, 6, 100, 0.25), lambda point: True, 0, "test").points
    assert points[:3] == [{"eta": 0.3}, {"eta": 0.1}, {"eta": 0.01}]
    assert len(points) == 6
    assert all(0.3 / 30**0.25 <= point["eta"] <= 0.3 * 30**0.25 for point in points[3:])
    assert best(before) == Scored({"eta": 0.3}, 1.0)
    assert best(before[2:3]) is None


@pytest.mark.parametrize("wrong", [{"trials": 0}, {"seeds": 0}, {"tuning_seeds": 0}, {"metric": "speed"}])
def test_budgets_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Budget(**wrong)  # type: ignore[arg-type]
