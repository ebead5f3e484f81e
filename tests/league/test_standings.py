"""Who is first, who wins, who is not ranked: from losses that are written down here."""

import math

import numpy as np
import pytest

from peerdescent.league.standings import (
    Curve,
    Result,
    Standing,
    centralized,
    complete_tasks,
    refused,
    standing,
)


def curve(end: float, seed: int = 1, bytes_: float = 100.0, seconds: float = 10.0, diverged: bool = False) -> Curve:
    """A loss that falls on a line from 1, in ten evaluations."""
    part = np.linspace(0, 1, 11)
    needed = {"iterations": list(50 * part), "bytes": list(bytes_ * part), "seconds": list(seconds * part)}
    return Curve(seed, diverged, needed, list(1 + (end - 1) * part))


def result(method: str, ends: list[float], task: str = "t", **keys: float) -> Result:
    budgets = {"iterations": 50, "bytes": 100, "seconds": 10.0}
    return Result(task, method, "", [curve(end, seed, **keys) for seed, end in enumerate(ends, 1)], budgets)


def test_a_method_that_sends_twice_as_much_is_judged_half_way() -> None:
    one, two = result("one", [0.4]), result("two", [0.2], bytes_=200.0, seconds=40.0)
    assert two.losses("iterations", 1) == pytest.approx([0.2])
    assert two.losses("bytes", 1) == pytest.approx([0.6])
    assert two.losses("seconds", 1) == pytest.approx([0.8])
    assert [one.losses(c, 1) for c in ("iterations", "bytes", "seconds")] == [pytest.approx([0.4])] * 3
    found = {("t", "one"): one, ("t", "two"): two}
    firsts = [standing(c, found, ["t"], ["one", "two"]).order[0] for c in ("iterations", "bytes", "seconds")]
    assert firsts == [1, 0, 0]


def test_one_that_needs_less_is_judged_at_its_end_and_told() -> None:
    few = curve(0.5, bytes_=20.0)
    assert few.loss_at("bytes", 100) == 0.5
    assert not few.uses_up("bytes", 100)
    assert few.uses_up("iterations", 50)


def test_what_diverged_is_last_and_shares_its_place() -> None:
    broken = Result("t", "b", "", [curve(0.1), curve(0.1, 2, diverged=True)], {"iterations": 50})
    lost = Result("t", "c", "", [], {"iterations": 50}, trials=3)
    found = {("t", "a"): result("a", [0.9, 0.9]), ("t", "b"): broken, ("t", "c"): lost}
    one = standing("iterations", found, ["t"], ["a", "b", "c"])
    assert one.ranks.tolist() == [[1.0, 2.5, 2.5]]
    assert broken.diverged
    assert lost.diverged


def test_no_winner_where_the_seeds_disagree() -> None:
    losses = np.array([[[0.1, 0.3], [0.2, 0.2], [0.5, 0.5]], [[0.1, 0.1], [0.2, 0.2], [0.5, 0.5]]])
    one = Standing("iterations", ["t1", "t2"], ["a", "b", "c"], losses)
    assert [one.winner(0), one.winner(1)] == [None, 0]
    assert sorted(one.winners(0)) == [0, 1]
    assert one.leader is None  # under the second seed a and b share the best mean rank
    assert one.first_by_seed() == [0, None]
    agreed = Standing("iterations", ["t2"], ["a", "b", "c"], losses[1:])
    assert agreed.leader == 0
    assert agreed.by_seed.tolist() == [[1, 2, 3], [1, 2, 3]]


def test_equal_losses_and_none_at_all_have_no_winner() -> None:
    losses = np.array([[[0.1], [0.1]], [[math.inf], [math.inf]]])
    one = Standing("iterations", ["t1", "t2"], ["a", "b"], losses)
    assert [one.winner(0), one.winner(1)] == [None, None]
    assert one.winners(1) == []
    assert one.mean_ranks.tolist() == [1.5, 1.5]


def test_references_and_refused_methods() -> None:
    found = {
        ("t", "a"): result("a", [0.1]),
        ("t", "c"): Result("t", "c", vectors=0),
        ("t", "r"): Result("t", "r", "it needs a directed graph."),
        ("u", "a"): result("a", [0.1], "u"),
    }
    assert centralized(found) == ["c"]
    assert refused(found) == ["r"]
    assert complete_tasks(found, ["t", "u"], ["a", "c", "r"]) == ["t"]


def test_a_record_is_read() -> None:
    run = {"seed": 1, "diverged": False, "iterations": [0, 5], "bytes": [0, 8], "seconds": [0, 1], "loss": [1.0, 0.5]}
    record = {
        "refused": "", "found": True, "runs": [{**run, "accuracy": 0.9}], "iterations": 5, "values": {"eta": 0.1},
        "limits": {"bytes": 8, "seconds": 1.0}, "vectors": 1, "gradients": 1, "trials": 2, "rejected": 1, "notes": [],
        "seconds": 0.1,
    }  # fmt: skip
    read = Result.of("t", "a", record)
    assert read.losses("bytes", 1) == [0.5]
    assert read.values == {"eta": 0.1}
    diverged = {**run, "diverged": True, "loss": [1.0, None], "accuracy": None}
    assert Result.of("t", "a", {**record, "runs": [diverged]}).losses("iterations", 1) == [math.inf]
    assert Result.of("t", "a", {"refused": "no.", "seconds": 0.1}).refused == "no."
