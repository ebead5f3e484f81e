"""The search space: every method has one, and its points can be written into an experiment."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent import algorithms
from peerdescent._util import toml
from peerdescent.algorithms import DSGD1, DSGPA
from peerdescent.errors import InputError
from peerdescent.experiments.resolve import make_algorithm
from peerdescent.experiments.schema import Experiment
from peerdescent.schedules import Cosine, Inverse, Power, Rate, Step, Warmup
from peerdescent.tune.space import EPSILONS, FACTOR, GAMMAS, Dimension, Space


def space(name: str) -> Space:
    return Space.of(name, algorithms.make(name))


@pytest.mark.parametrize("name", list(algorithms.PRESETS))
def test_a_methods_own_values_are_a_point_of_its_space(name: str) -> None:
    method = algorithms.make(name)
    assert space(name).at(space(name).own) == method
    assert {d.name for d in space(name).dimensions} >= set(method.rates)


@pytest.mark.filterwarnings("ignore:gamma")
@given(
    name=st.sampled_from(list(algorithms.PRESETS)),
    part=st.sampled_from([1.0, 0.5, 0.25]),
    numbers=st.lists(st.floats(0, 1), min_size=6, max_size=6),
)
def test_points_survive_an_experiment_file_and_stay_in_their_box(name: str, part: float, numbers: list[float]) -> None:
    searched = space(name)
    point = searched.near(searched.own, part, np.array(numbers[: len(searched.dimensions)]))
    written = toml.dumps({"set": {name: searched.options(point)}}).decode()
    experiment = Experiment(algorithms=(name,), set=toml.loads(written, "a test")["set"])
    assert make_algorithm(experiment, name) == searched.at(point)
    for d in searched.dimensions:
        if d.scale == "log":
            ratio = point[d.name] / d.own
            if d.name in searched.method.times_eta:
                ratio *= point["eta"] / searched.own["eta"]
            assert 0.998 / FACTOR**part <= ratio <= 1.002 * FACTOR**part
        if d.scale == "momentum":
            assert 0 <= point[d.name] < 1
            assert (1 - d.own) / FACTOR**part * 0.9 <= 1 - point[d.name]
    assert GAMMAS[0] <= point.get("gamma", 0.5) <= GAMMAS[1]
    assert EPSILONS[0] <= point.get("epsilon", 0.1) <= EPSILONS[1]


def test_parameters_outside_of_the_space_stay_fixed() -> None:
    assert [d.name for d in space("dsgpa-f").dimensions] == ["eta", "alpha", "beta"]
    assert [d.name for d in space("dsgpa-t-pb").dimensions] == ["eta", "alpha", "beta", "gamma", "epsilon"]
    fixed = space("dsgpa-f-pb").at({"eta": 0.1, "alpha": 1.0, "beta": 2.0, "gamma": 0.9})
    assert fixed == DSGPA(eta=0.1, alpha=1, beta=2, gamma=0.9, dual="gauss-seidel")


def test_schedules_keep_their_form_and_share_one_decay() -> None:
    changed = space("d-sgd-2").at({"alpha": 0.5, "beta": 0.1, "decay": 20.0})
    assert changed.hyperparameters(1000) == pytest.approx({"alpha": 0.5 / 1.2, "beta": 0.1 / 1.2**0.3})
    method = DSGD1(eta=Power(0.3, -0.123456789))
    own = Space.of("d-sgd-1", method)
    assert own.at(own.own) == method  # unrounded
    assert own.at({"eta": 0.3, "decay": 2.0}) == DSGD1(eta=Power(0.3, -0.2469))


@pytest.mark.parametrize(
    ("own", "changed"),
    [
        (Cosine(0.1, 300, 0.01), Cosine(0.2, 300, 0.02)),
        (Step(0.1, 0.5, (10, 20)), Step(0.2, 0.5, (10, 20))),
        (Warmup(10, 0.1), Warmup(10, 0.2)),
        (Warmup(10, Cosine(0.1, 300)), Warmup(10, Cosine(0.2, 300))),
    ],
)
def test_the_base_of_every_schedule_is_searched(own: Rate, changed: Rate) -> None:
    searched = Space.of("d-sgd-1", DSGD1(eta=own))
    assert searched.own == {"eta": 0.1}
    assert searched.at(searched.own) == DSGD1(eta=own)
    assert searched.at({"eta": 0.2}) == DSGD1(eta=changed)


def test_a_change_of_the_step_keeps_the_products_with_eta() -> None:
    searched = space("dsgpa-f")
    point = searched.near(searched.own, 1.0, np.array([1.0, 0.5, 0.5]))  # the largest η, the others in the middle
    assert point == pytest.approx({"eta": 0.9, "alpha": 5 / 30, "beta": 20 / 30}, rel=1e-3)


def test_momentum_is_searched_by_its_distance_from_one() -> None:
    beta = Dimension("beta", 0.9, "momentum", (0.0, 0.999))
    low, high = beta.side(0.9, 0.5)
    assert beta.value(high) == pytest.approx(1 - 0.1 / math.sqrt(FACTOR), abs=1e-4)
    assert beta.value(low) == pytest.approx(1 - 0.1 * math.sqrt(FACTOR), abs=1e-4)


@pytest.mark.parametrize("eta", [0.0, Inverse(0.0, 0.0)])
def test_a_method_with_nothing_to_tune_is_refused(eta: object) -> None:
    with pytest.raises(InputError, match="d-sgd-1 has nothing to tune"):
        Space.of("d-sgd-1", DSGD1(eta=eta))  # type: ignore[arg-type]
