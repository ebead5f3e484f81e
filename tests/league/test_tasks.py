"""Who plays on what: checked before anything is run, and the command line says the same."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from tests.support.commands import Command

from peerdescent import algorithms
from peerdescent.algorithms import registry
from peerdescent.errors import InputError
from peerdescent.league.page import verdict
from peerdescent.league.playing import RESULT, conditions, limits_of, played
from peerdescent.league.standings import Standing
from peerdescent.league.tasks import League, Task

MINE = """
from dataclasses import dataclass
from peerdescent.algorithms import DSGD1, register

@dataclass(frozen=True)
class Mine(DSGD1):
    pass

register("league-test", Mine, "a method of the user's own", eta={eta})
"""


def test_twelve_tasks_and_all_methods_unless_told_otherwise() -> None:
    league = League()
    assert len(league.tasks) == 12
    assert league.methods == tuple(algorithms.PRESETS)
    assert len({entry.folder(Path()) for entry in league.entries}) == 12 * len(algorithms.PRESETS)
    assert league.command == "peerdescent league"


def test_the_command_has_what_differs_from_the_usual() -> None:
    league = League(("dgd", "d2"), ("digits",), ("iid",), ("ring:4", "star:5"), 50, 6, 2, "lan")
    assert shlex.split(league.command) == [
        "peerdescent", "league", "-a", "d-sgd-1", "-a", "d2", "--data", "digits", "--partition", "iid",
        "--graph", "ring:4", "--graph", "star:5", "--iterations", "50", "--trials", "6", "--seeds", "2",
        "--network", "lan",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"methods": ("d2", "d3")}, "d3"),
        ({"methods": ("d2",)}, "at least two"),
        ({"methods": ("dgd", "d-sgd-1")}, "at least two"),
        ({"data": ("cifar",)}, "cifar"),
        ({"data": ()}, "--data is empty"),
        ({"partitions": ("dirichlet:-1",)}, "dirichlet:-1"),
        ({"graphs": ("rung:16",)}, "rung"),
        ({"iterations": 0}, "iterations"),
        ({"trials": 0}, "trials"),
        ({"seeds": 0}, "seeds"),
        ({"network": "moon"}, "moon"),
        ({"load": ("missing.py",)}, "missing.py"),
    ],
)
def test_wrong_settings_are_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        League(**keys)  # type: ignore[arg-type]


def test_a_clock_with_a_stopwatch_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text("[compute]\nrelative = 1.0\n")
    with pytest.raises(InputError, match="stopwatch"):
        League(network=str(tmp_path / "net.toml"))


def test_changed_code_of_the_user_is_another_entry(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    folders = []
    try:
        for eta in ("0.1", "0.1", "0.2"):
            file.write_text(MINE.format(eta=eta))
            league = League(("d2", "league-test"), ("digits",), ("iid",), ("ring:4",), load=(str(file),))
            shipped, own = league.entries
            assert shipped.version == ""
            folders.append((own.folder(Path()), conditions(own), conditions(shipped)))
    finally:
        registry.unregister("league-test")
    assert folders[0] == folders[1]
    assert folders[0][0] != folders[2][0]
    assert folders[0][1] != folders[2][1]
    assert folders[0][2] == folders[2][2]


def test_a_result_stays_valid_when_a_newer_version_has_more_settings(tmp_path: Path) -> None:
    entry = League(("d2", "dm-sgd"), ("digits",), ("iid",), ("ring:4",)).entries[1]
    known = conditions(entry)
    del known["experiment"]["set"]["dm-sgd"]["beta"], known["experiment"]["delay"]
    folder = entry.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / RESULT).write_text(json.dumps({"conditions": known}))
    assert played(entry, tmp_path)
    for damaged in ({**known, "version": "1"}, {**known, "experiment": {**known["experiment"], "batch_size": 8}}):
        (folder / RESULT).write_text(json.dumps({"conditions": damaged}))
        assert not played(entry, tmp_path)
    (folder / RESULT).write_text("[]")
    assert not played(entry, tmp_path)


def test_the_budget_is_one_vector_per_edge() -> None:
    keys = '{"link": {"latency_ms": 20}, "compute": {"seconds": 0.05}}'
    found = limits_of(Task("digits", "iid", "ring:4"), 10, keys)
    parameters = (64 + 1) * 32 + (32 + 1) * 10
    assert found.bytes == 10 * 8 * 4 * parameters  # iterations × directed edges × bytes × numbers
    assert found.seconds == pytest.approx(10 * 0.05)  # 20 ms pass while the gradient is computed


def test_the_verdict_names_no_leader_where_seeds_disagree() -> None:
    losses = np.tile(np.array([[[0.1, 0.3], [0.2, 0.2]]]), (8, 1, 1))
    said = verdict(Standing("bytes", list("abcdefgh"), ["one", "two"], losses))
    assert "no method is first" in said
    assert "one under seed 1, two under seed 2" in said
    agreed = verdict(Standing("seconds", list("abcdefgh"), ["one", "two"], losses[:, :, :1]))
    assert "one is first under every seed, with mean rank 1.0" in agreed
    assert "tells one from all others" in agreed
    few = verdict(Standing("seconds", ["a"], ["one", "two"], losses[:1, :, :1]))
    assert "on so few tasks" in few


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--seeds", "0"), "seeds is 0"),
        (("--jobs", "0"), "jobs is 0"),
        (("--data", "cifar"), "cifar"),
        (("-a", "d2,d3"), "d3"),
        (("--network", "moon"), "moon"),
        (("--load", "missing.py"), "missing.py"),
        (("--so-far", "--quick", "--out", "nowhere"), "has no task that all methods have finished"),
    ],
)
def test_wrong_flags_are_one_sentence(peerdescent_: Command, here: Path, flags: tuple[str, ...], words: str) -> None:
    said = peerdescent_("league", *flags)
    assert said.code == 2
    assert words in said.err
    assert len(said.sentences) == 1
    assert not list(here.iterdir())
