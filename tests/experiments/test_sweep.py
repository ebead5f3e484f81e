"""Seeds and grids: what they stand for, what is refused, and how flags change those of a file."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent.errors import InputError
from peerdescent.experiments.files import read, read_with_sweep
from peerdescent.experiments.schema import Experiment
from peerdescent.experiments.sweep import Sweep, as_grid, as_seeds, override_sweep, split_values
from peerdescent.experiments.sweep_parts import folder_name, parts

BASE = Experiment(problem="quadratic", graph="ring:4", algorithms=("d2", "dm-sgd"), batch_size=0, iterations=10)


def values_of(sweep: Sweep, base: Experiment = BASE) -> list[tuple[str, dict[str, Any], int]]:
    return [(p.method, p.experiment.set.get(p.method, {}), p.experiment.seed) for p in parts(base, sweep)]


def test_the_runs_are_the_product_of_values_and_seeds_for_the_methods_that_have_them() -> None:
    found = values_of(Sweep(2, {"eta": (0.1, 0.2), "beta": (0.5, 0.6)}), BASE.replace(seed=5))
    own = [{"eta": eta} for eta in (0.1, 0.2)]
    momentum = [{"eta": eta, "beta": beta} for eta, beta in itertools.product((0.1, 0.2), (0.5, 0.6))]
    expected = [("d2", values, seed) for values in own for seed in (5, 6)]
    assert found == expected + [("dm-sgd", values, seed) for values in momentum for seed in (5, 6)]


def test_a_methods_own_values_win_over_those_for_all() -> None:
    assert values_of(Sweep(None, {"eta": (0.1, 0.2), "dm-sgd": {"eta": (0.3,)}})) == [
        ("d2", {"eta": 0.1}, 0), ("d2", {"eta": 0.2}, 0), ("dm-sgd", {"eta": 0.3}, 0),
    ]  # fmt: skip
    fixed = BASE.replace(set={"d2": {"eta": 0.5}})
    assert [m for m, _, _ in values_of(Sweep(None, {"eta": (0.1, 0.2)}), fixed)] == ["d2", "dm-sgd", "dm-sgd"]


def test_options_of_the_problem_can_be_varied() -> None:
    found = parts(BASE, Sweep(None, {"problem": {"noise": (0, 1)}}))
    assert [part.experiment.set["problem"] for part in found] == [{"noise": 0}, {"noise": 1}] * 2
    assert found[1].folder(Path("x")) == Path("x/d2/problem.noise=1/seed-0")


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"etaa": (0.1,)}, "'eta'"),
        ({"d2": {"beta": (0.1,)}}, "d2 has no hyperparameter 'beta'"),
        ({"d-sgd-1": {"eta": (0.1,)}}, "no such algorithm"),
        ({"nonsense": {"eta": (0.1,)}}, "nonsense"),
        ({"eta": (0.1, "later")}, "later"),
        ({"eta": tuple(range(1, 6000))}, "11,998 runs"),
    ],
)
def test_grids_that_no_method_can_take_are_refused(grid: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parts(BASE, Sweep(None, grid))


def test_a_grid_that_changes_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="every method has its own"):
        parts(BASE.replace(set={"d2": {"eta": 1}, "dm-sgd": {"eta": 1}}), Sweep(None, {"eta": (0.1, 0.2)}))


@pytest.mark.parametrize(
    "grid", [{"eta": []}, {"eta": 3}, {"eta": "a"}, {"eta": [1, 1.0]}, {"eta": [None]}, {1: [2]}, 3]
)
def test_lists_that_are_no_grid_are_refused(grid: Any) -> None:
    with pytest.raises(InputError, match="grid"):
        as_grid(grid)


@pytest.mark.parametrize("seeds", ["", "0", "-1", "1,", "1,x", "3,3", 0, True, 1.5, [], [1, 1], [-1], None, "1" * 30])
def test_seeds_that_are_none_are_refused(seeds: Any) -> None:
    with pytest.raises(InputError, match="seeds"):
        as_seeds(seeds)


@given(st.lists(st.floats(0.001, 10), min_size=2, max_size=5, unique=True))
def test_values_between_commas_are_read_back(values: list[float]) -> None:
    single, several = split_values([f"eta={','.join(map(repr, values))}", "warm=cosine:0.1:100"])
    assert single == ["warm=cosine:0.1:100"]
    assert several == {"eta": values}


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=80)), min_size=1, max_size=3))
def test_every_point_has_a_folder_name_of_its_own(point: list[tuple[str, str]]) -> None:
    name, other = folder_name(tuple(point)), folder_name((*point, ("more", 1)))
    assert name != other
    assert 0 < len(name.encode()) < 4 * 130
    assert Path(name).name == name
    assert name not in (".", "..")
    assert not name.startswith(".")


def test_flags_win_over_the_sweep_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        'algorithms = ["d2", "dm-sgd"]\nproblem = "quadratic"\n[set.d2]\neta = 0.5\n'
        "[sweep]\nseeds = [3, 4]\n[sweep.grid]\nbeta = [0.1, 0.2]\n[sweep.grid.dm-sgd]\neta = [0.1, 0.3]\n"
    )
    experiment, sweep = read_with_sweep(str(file))
    assert sweep == Sweep((3, 4), {"beta": (0.1, 0.2), "dm-sgd": {"eta": (0.1, 0.3)}})
    assert override_sweep(experiment, sweep, {"seed": 1})[1].seeds_from(1) == (1,)
    assert override_sweep(experiment, sweep, {}, ["eta=.2"])[1].grid == {"beta": (0.1, 0.2)}
    changed, grid = override_sweep(experiment, sweep, {}, ["eta=.2,.4", "d2.eta=.7"], "2")
    assert grid == Sweep(2, {"beta": (0.1, 0.2), "eta": (0.2, 0.4)})
    assert [values.get("eta") for m, values, s in values_of(grid, changed) if s == 0] == [0.7, 0.2, 0.4, 0.2, 0.4]
    with pytest.raises(InputError, match="sweep"):
        read(str(file))
    file.write_text("[sweep]\nseedz = 3\n")
    with pytest.raises(InputError, match="seedz"):
        read_with_sweep(str(file))


@pytest.mark.parametrize("text", ["eta=a\nb", "eta=a\rb,c", "eta=\0", 'eta="a\n', "eta="])
def test_a_text_that_is_no_list_is_one_value(text: str) -> None:
    assert split_values([text]) == ([text], {})
