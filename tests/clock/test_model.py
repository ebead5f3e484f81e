"""Network files: what they may say, and one sentence for everything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peerdescent import clock
from peerdescent._util import toml
from peerdescent.clock.files import text_of
from peerdescent.errors import InputError

COMPUTE: dict[str, Any] = {"compute": {"seconds": 0.1}}


@pytest.mark.parametrize("name", ["lan", "wan", "home"])
def test_every_network_of_the_library_can_be_named_copied_and_edited(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text_of(name))
    assert clock.read(path).agent == clock.read(name).agent
    assert clock.library()[name] == clock.read(name).title
    clock.read(name).check(5)


def test_the_commented_keys_of_wan_are_valid() -> None:
    lines = text_of("wan").splitlines()
    active = [line.removeprefix("# ") if " = " in line or line.startswith("# [") else line for line in lines]
    model = clock.from_keys(toml.loads("\n".join(active[2:]), "wan"))
    assert model.factors == (((3,), 2.0), (tuple(range(8, 16)), 1.5))
    assert model.sites["boston"] == tuple(range(16, 32))
    assert model.links[3, 0].latency_ms == 80
    assert model.average.by == "server"
    model.check(32)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"lnk": {}}, "n has an unknown key 'lnk' (did you mean 'link' or 'links'?)."),
        ({"link": {"latency": 1}}, "n has an unknown key 'link.latency' (did you mean 'latency_ms'?)."),
        ({"link": {"latency_ms": -1}}, "n: link.latency_ms = -1: expected a number, at least 0."),
        ({"link": {"latency_ms": float("nan")}}, "n: link.latency_ms = nan: expected a number, at least 0."),
        ({"link": {"bandwidth_mbit": 0}}, "n: link.bandwidth_mbit = 0: expected a number greater than 0."),
        ({"agent": {"uplink_mbit": "fast"}}, "n: agent.uplink_mbit = 'fast': expected a number greater than 0."),
        ({"link": 5}, "n: link = 5: expected a table."),
        ({"title": 5}, "n: title = 5: expected a text."),
        ({"compute": {}}, "n: give one of compute.seconds and compute.relative."),
        ({"compute": {"seconds": 1, "relative": 1}}, "n: give one of compute.seconds and compute.relative."),
        (
            {"compute": {"seconds": 1, "spread": "normal"}},
            "n: compute.spread = 'normal': expected one of none, lognormal, gamma.",
        ),
        (
            {"compute": {"seconds": 1, "deviation": 0.5}},
            "n: compute.spread and compute.deviation have an effect only together: give both.",
        ),
        (
            {"compute": {"seconds": 1, "factors": {"3": 0}}},
            "n: compute.factors.3 = 0: expected a number greater than 0.",
        ),
        (
            {"compute": {"seconds": 1, "factors": {"x": 2}}},
            'n: compute.factors = \'x\': expected agents such as "0-15", "0,3,7-9" or [0, 3].',
        ),
        (
            {"within": {"latency_ms": 1}},
            "n has a table for links within or between sites, and no [sites]: list their agents.",
        ),
        ({"sites": {"a": "0-2", "b": "2-3"}}, "n: agent 2 is in the sites a and b: keep one."),
        ({"sites": {"a": [-1]}}, 'n: sites.a = [-1]: expected agents such as "0-15", "0,3,7-9" or [0, 3].'),
        ({"sites": {"a": []}}, 'n: sites.a = []: expected agents such as "0-15", "0,3,7-9" or [0, 3].'),
        ({"sites": {"a": "5-3"}}, 'n: sites.a = \'5-3\': expected agents such as "0-15", "0,3,7-9" or [0, 3].'),
        (
            {"links": {"3": {"latency_ms": 1}}},
            'n: links has \'3\': expected two agents such as "0-3", or "0>3" for one direction.',
        ),
        ({"links": {"0-1": {"mbit": 1}}}, "n has an unknown key 'links.0-1.mbit'."),
        (
            {"stragglers": {"probability": 0.1}},
            "n: stragglers need a probability above 0 and a factor above 1: give both.",
        ),
        ({"average": {"uplink_mbit": 5}}, 'n: the table [average] describes a server: add by = "server".'),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as found:
        clock.from_keys({**COMPUTE, **keys}, "n")
    assert str(found.value) == sentence


def test_a_network_must_fit_the_agents() -> None:
    model = clock.from_keys({**COMPUTE, "sites": {"a": "0-2", "b": "4"}}, "n")
    with pytest.raises(InputError, match=r"n names agent 4, and there are 4 agents, 0 to 3: change one\."):
        model.check(4)
    with pytest.raises(InputError, match=r"n: agent 3 is in no site: add it to one of a, b\."):
        model.check(5)


def test_a_network_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"there is no network 'wam' \(did you mean 'wan'\?\): give a TOML file or one"
    ):
        clock.read("wam")
    with pytest.raises(InputError, match="there is no network file"):
        clock.read(tmp_path / "a.toml")
    with pytest.raises(InputError, match="network is 5: expected a TOML file"):
        clock.read(5)  # type: ignore[arg-type]
