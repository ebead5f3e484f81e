"""Models with running statistics in several processes: the same bits, also after kills, resumes and losses."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.support import buffered_training
from tests.support.buffered_training import AGENTS, ETA, State, by_hand, problem

from peerdescent import Result, algorithms, load
from peerdescent.errors import PeerdescentError, PeerLostError

pytestmark = pytest.mark.e2e
LOST_AT = 10


def same_state(one: Result, other: Result) -> bool:
    """Whether the points and all buffers are equal, bit for bit."""
    assert one.buffers.keys() == other.buffers.keys() != set()
    return torch.equal(one.x, other.x) and all(
        torch.equal(one.buffers[name], other.buffers[name]) for name in one.buffers
    )


def run(**settings: Any) -> Result:
    """A run with the compiled update, whose bits do not depend on the placement."""
    return buffered_training.run(**{"kernel": "auto", **settings})


def state_of(result: Result, agents: list[int]) -> State:
    return {agent: result.model(agent=agent).state_dict() for agent in agents}


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("running_statistics", ["average", "recalibrate"])
def test_any_placement_gives_the_same_bits(workers: int, running_statistics: str) -> None:
    one, several = (run(workers=count, running_statistics=running_statistics) for count in (1, workers))
    assert several.processes == workers
    assert same_state(one, several)
    for name in ("loss", "accuracy", "gradient_norm", "agent_loss", "agent_accuracy"):
        assert one.metrics[name] == several.metrics[name]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 3), (3, 2)])
def test_killed_and_resumed_in_another_placement(
    before: int, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "0")
    out = tmp_path / "a"
    if before == 1:
        run(iterations=13, out=out)  # one process cannot kill itself within a test
    else:
        with pytest.raises(PeerLostError, match="--resume goes on from iteration 10"):
            run(workers=before, out=out, kill=["3@13"])
    resumed = run(workers=after, out=out, resume=True)
    assert same_state(resumed, run())
    assert same_state(load(out, problem()), resumed)


def test_the_others_keep_their_buffers_when_an_agent_is_lost() -> None:
    chosen: dict[str, Any] = {"method": algorithms.make("d-sgd-1", eta=ETA), "dtype": "float64"}
    at_the_loss = run(iterations=LOST_AT, **chosen)
    with pytest.warns(UserWarning, match=f"lost agent 3.*3 agents go on from iteration {LOST_AT}"):
        result = run(workers=AGENTS, on_loss="continue", kill=["3@15"], **chosen)
    assert result.lost == (3,)
    stayed = [0, 1, 2]
    expected = by_hand(state_of(at_the_loss, stayed), range(LOST_AT, 20))
    for agent, state in state_of(result, stayed).items():
        for name, value in state.items():
            torch.testing.assert_close(value, expected[agent][name], rtol=1e-9, atol=1e-11, msg=f"{agent} {name}")
    assert result.buffers["1.num_batches_tracked"].tolist() == [20] * 3


def test_an_agent_that_comes_back_has_its_neighbours_buffers(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"graph": "path:4", "out": tmp_path / "a"}
    with pytest.warns(UserWarning, match="lost agent 1"), pytest.raises(PeerdescentError, match="no longer connected"):
        run(workers=AGENTS, on_loss="continue", kill=["1@15"], **chosen)
    (folder,) = (tmp_path / "a" / "checkpoints").glob("*")
    parts = [load_file(folder / f"agents-{row}-{row}.safetensors") for row in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = run(resume=True, iterations=LOST_AT, **chosen)
    for name, rows in again.buffers.items():
        saved = torch.cat([part[f"buffer:{name}"] for part in parts])
        assert torch.equal(rows, saved[[0, 0, 1, 2]])
    longer = run(resume=True, **chosen)
    assert longer.buffers["1.num_batches_tracked"].tolist() == [20] * AGENTS
