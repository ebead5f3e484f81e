"""One schema for files, flags and Python: types, ranges, defaults, precedence, the commented file."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.support.commands import Command

import peerdescent
from peerdescent import InputError
from peerdescent._util import toml
from peerdescent._util.schema import settings_of
from peerdescent.cli import flags
from peerdescent.cli.run import run
from peerdescent.experiments.files import commented, read
from peerdescent.experiments.resolve import make_algorithm
from peerdescent.experiments.schema import Experiment, from_keys, override
from peerdescent.training.settings import Settings

NAMES = [setting.name for setting in settings_of(Experiment)]


def test_every_setting_is_a_flag_a_key_and_an_argument() -> None:
    given_flags = set(inspect.signature(run).parameters)
    for name in NAMES:
        assert name in flags.HIDDEN or {"set": "set_"}.get(name, name) in given_flags
        assert name in commented()
    assert {setting.name for setting in settings_of(Settings)} < set(NAMES)


@pytest.mark.usefixtures("undrawn")
def test_python_and_the_command_line_have_the_same_defaults(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("run", "--problem", "quadratic", "--graph", "ring:3", "-a", "d2", "--out", "a", "-q").code == 0
    peerdescent.train("quadratic", "ring:3", "d2", out=here / "b")
    one, other = (toml.loads((here / name / "experiment.toml").read_text(), name) for name in ("a", "b"))
    assert one.pop("partition") == "iid"  # a named problem's split, which `train` has no argument for
    assert one == other
    first, second = ((here / name / "checkpoints" / f"{3000:012d}.safetensors").read_bytes() for name in ("a", "b"))
    assert first[-120:] == second[-120:]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("iterations", "many", "iterations = 'many': expected a whole number, at least 0"),
        ("iterations", -1, "iterations = -1: expected a whole number, at least 0"),
        ("iterations", 2.5, "iterations = 2.5: expected a whole number"),
        ("iterations", True, "iterations = True: expected a whole number"),
        ("iterations", 10**30, "iterations = 1000000000000000000000000000000: expected a whole number"),
        ("communication_period", 0, "communication_period = 0: expected a whole number, at least 1"),
        ("replacement", 1, "replacement = 1: expected true or false"),
        ("dtype", "half", "dtype = 'half': expected one of float32, float64"),
        ("message_dtype", "int4", "message_dtype = 'int4': expected one of same, bf16"),
        ("powerball", 2, "powerball = 2: expected a number in [0, 1]"),
        ("graph", 3, "graph = 3: expected a text"),
        ("load", "a.py", "load = 'a.py': expected a list of texts"),
        ("algorithms", [1], "algorithms = [1]: expected a list of texts"),
        ("set", [], "set = []: expected a table"),
    ],
)
def test_a_wrong_value_is_one_sentence(key: str, value: Any, words: str) -> None:
    with pytest.raises(InputError) as error:
        from_keys({key: value})
    assert str(error.value).startswith(words)


@given(
    st.dictionaries(
        st.sampled_from([*NAMES, "bogus"]), st.none() | st.booleans() | st.integers() | st.text() | st.floats()
    )
)
def test_any_keys_give_an_experiment_or_a_sentence(keys: dict[str, Any]) -> None:
    try:
        experiment = from_keys(keys)
    except InputError:
        return
    assert from_keys(experiment.asdict()) == experiment


METHODS = ("d-sgd-1", "dm-sgd", "d2")


@given(
    st.dictionaries(st.sampled_from(["eta", *METHODS]), st.floats(0.01, 0.9), min_size=1),
    st.lists(
        st.tuples(st.sampled_from(["eta", *(f"{name}.eta" for name in METHODS)]), st.floats(0.01, 0.9)), max_size=3
    ),
)
def test_flags_win_over_files(file: dict[str, float], given_flags: list[tuple[str, float]]) -> None:
    """A flag for the method, a flag for all, the file's table for the method, the file's value for all: the first."""
    tables: dict[str, Any] = {name: {"eta": value} for name, value in file.items() if name != "eta"}
    common = {"eta": file["eta"]} if "eta" in file else {}
    experiment = Experiment(algorithms=METHODS, set={**common, **tables})
    flags_ = dict(given_flags)  # a flag given twice: the last one counts
    changed = override(experiment, {}, [f"{key}={value}" for key, value in given_flags])
    for name in METHODS:
        expected = flags_.get(
            f"{name}.eta",
            flags_.get("eta", file.get(name, file.get("eta", make_algorithm(Experiment(), name).eta))),  # type: ignore[attr-defined]
        )
        assert make_algorithm(changed, name).eta == expected  # type: ignore[attr-defined]


@pytest.mark.usefixtures("undrawn")
def test_a_flag_wins_over_the_file_of_a_run(peerdescent_: Command, here: Path) -> None:
    flags_ = ("--problem", "quadratic", "--graph", "ring:4", "-a", "d-sgd-1", "--iterations", "3", "-q")
    assert peerdescent_("run", *flags_, "--out", "a").code == 0
    assert peerdescent_("run", "a/experiment.toml", "--set", "eta=.3", "--out", "b", "-q").code == 0
    assert make_algorithm(read("b"), "d-sgd-1").eta == 0.3  # type: ignore[attr-defined]
    refused = peerdescent_("run", "a", "--set", "eta=.3", "--resume")
    assert refused.code == 2
    assert "d-sgd-1.eta = 0.1 there and 0.3 here" in refused.err


def test_the_commented_file_is_the_default_experiment(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("init").code == 0
    assert read("experiment.toml") == Experiment()
    assert "expected" not in Path("experiment.toml").read_text()
    again = peerdescent_("init")
    assert again.code == 2
    assert "experiment.toml exists" in again.err
    assert peerdescent_("init", "--overwrite", "--from", "one-digit-each").code == 0
    assert read("experiment.toml") == read("one-digit-each")
    lines = [line.removeprefix("# ") for line in commented().split("# [set]")[0].splitlines()]
    keys = toml.loads("\n".join(line for line in lines if re.match(r"[a-z_]+ = ", line)), "every key")
    assert set(keys) == set(NAMES) - {"set"}


@pytest.mark.parametrize("name", NAMES)
def test_an_array_where_none_is_expected_is_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name} = an ndarray of shape \(2,\): expected"):
        Experiment(**{name: np.array([1, 2])})


def test_a_long_unknown_key_makes_no_long_sentence() -> None:
    with pytest.raises(InputError, match=r"unknown key 'x{60}…'\."):
        from_keys({"x" * 2000: 1}, "experiment.toml")


def test_a_title_must_fit_on_a_figure() -> None:
    """Drawing a million characters takes minutes."""
    with pytest.raises(InputError, match=r"title = a str: expected a text of at most 300 characters\."):
        Experiment(title="x" * 301)
    assert Experiment(title="x" * 300).title
