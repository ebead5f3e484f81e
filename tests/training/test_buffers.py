"""Runs of models with running statistics: every agent has its own, and they survive whatever x survives."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.support.buffered_training import AGENTS, ETA, beginning, by_hand, images, network, problem, run
from torch import nn

from peerdescent import Callback, InputError, Result, algorithms, graphs, load, train
from peerdescent.algorithms import D2
from peerdescent.problems import quadratic
from peerdescent.runs.fingerprint import fingerprint
from peerdescent.training.loop import Run
from peerdescent.training.state_repair import readmit_agents


@pytest.fixture(scope="module")
def undisturbed() -> Result:
    """20 iterations of D-SGD."""
    return run()


def same_state(one: Result, other: Result) -> bool:
    """Whether the points and all buffers are equal, bit for bit."""
    assert one.buffers.keys() == other.buffers.keys() != set()
    return torch.equal(one.x, other.x) and all(
        torch.equal(one.buffers[name], other.buffers[name]) for name in one.buffers
    )


def test_it_is_the_training_written_by_hand() -> None:
    result = run(method=algorithms.make("d-sgd-1", eta=ETA), dtype="float64", iterations=12)
    expected = by_hand(beginning(torch.float64), range(12))
    for agent in range(AGENTS):
        found = result.model(agent=agent).state_dict()
        assert found.keys() == expected[agent].keys()
        for name, value in found.items():
            torch.testing.assert_close(value, expected[agent][name], rtol=1e-9, atol=1e-11, msg=f"{agent} {name}")
    assert len({tuple(row.tolist()) for row in result.buffers["1.running_mean"]}) == AGENTS


def test_a_seed_repeats_it_and_the_module_stays_as_it_was(undisturbed: Result) -> None:
    model = network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert same_state(undisturbed, run(model=model))
    assert not same_state(undisturbed, run(seed=1))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_the_averaged_model_has_averaged_buffers_and_is_what_was_evaluated(undisturbed: Result) -> None:
    result, (inputs, targets) = undisturbed, images()
    model = result.model()
    for name, buffer in model.named_buffers():
        rows = result.buffers[name].numpy()
        expected = rows.max(axis=0) if name.endswith("num_batches_tracked") else rows.mean(axis=0)
        np.testing.assert_allclose(buffer.numpy(), expected, rtol=1e-6)
    last = result.metrics[-1]
    for module, loss, accuracy in [
        (model, last["loss"], last["accuracy"]),
        *((result.model(agent=i), last["agent_loss"][i], last["agent_accuracy"][i]) for i in range(AGENTS)),
    ]:
        outputs = module.eval()(inputs).detach()
        assert float(nn.functional.cross_entropy(outputs, targets)) == pytest.approx(loss, rel=1e-5)
        assert float((outputs.argmax(1) == targets).double().mean()) == accuracy


def test_recalibrated_statistics_are_those_of_the_averaged_model(undisturbed: Result) -> None:
    result, (inputs, targets) = run(running_statistics="recalibrate"), images()
    assert same_state(result, undisturbed)  # the trajectory is the same
    assert result.metrics[-1]["loss"] != undisturbed.metrics[-1]["loss"]
    model: Any = result.model().eval()
    hidden = model[0](inputs).detach()
    torch.testing.assert_close(model[1].running_mean, hidden.mean((0, 2, 3)))
    torch.testing.assert_close(model[1].running_var, hidden.transpose(0, 1).flatten(1).var(dim=1))
    assert model[1].num_batches_tracked == 20
    loss = float(nn.functional.cross_entropy(model(inputs).detach(), targets))
    assert loss == pytest.approx(result.metrics[-1]["loss"], rel=1e-5)


def test_nothing_to_recalibrate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="quadratic has no layers with running statistics"):
        train(quadratic(4), "ring:4", "d2", iterations=2, running_statistics="recalibrate", out=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_batches_of_one_sample_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected more than 1 value per channel"):
        run(batch_size=1, out=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_setting_that_older_runs_do_not_have_leaves_their_fingerprints() -> None:
    old = fingerprint({"seed": 1})
    assert fingerprint({"seed": 1, "running_statistics": "average"}) == old
    assert fingerprint({"seed": 1, "running_statistics": "recalibrate"}) != old


class Interrupt(Callback):
    """Ctrl-C after some iterations."""

    def on_iteration(self, run: Run) -> None:
        assert run.buffers["1.num_batches_tracked"].tolist() == [run.k] * AGENTS
        if run.k == 7:
            signal.raise_signal(signal.SIGINT)


def test_stopped_and_resumed_it_is_the_undisturbed_run(undisturbed: Result, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match="stopped at iteration 7"):
        run(out=tmp_path / "a", callbacks=[Interrupt()])
    resumed = run(out=tmp_path / "a", resume=True)
    assert same_state(resumed, undisturbed)
    assert resumed.metrics[-1]["loss"] == undisturbed.metrics[-1]["loss"]
    saved = load_file(tmp_path / "a" / "checkpoints" / "000000000020.safetensors")
    assert torch.equal(saved["buffer:6.running_var"], undisturbed.buffers["6.running_var"])
    loaded = load(tmp_path / "a", problem())
    assert same_state(loaded, undisturbed)
    for agent in (None, 2):
        one, other = loaded.model(agent), undisturbed.model(agent)
        assert all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))


def test_other_running_statistics_at_the_start_are_another_run(tmp_path: Path) -> None:
    run(out=tmp_path / "a", iterations=2)
    model: Any = network()
    model[1].running_mean.fill_(1.0)
    with pytest.raises(InputError, match="holds another run"):
        run(model=model, out=tmp_path / "a", resume=True)


def test_agents_that_come_back_have_the_buffers_of_their_neighbour() -> None:
    state = {"x": torch.tensor([[1.0], [3.0]]), "v": torch.tensor([[1.0], [-1.0]]), "buffer:n": torch.tensor([5, 7])}
    whole = readmit_agents(D2(), graphs.parse("path:4"), state, lost=[1, 3])  # 0 and 2 stayed
    assert whole["buffer:n"].tolist() == [5, 5, 7, 7]
    assert whole["x"].flatten().tolist() == [1, 1, 3, 3]
    assert float(whole["v"].sum()) == 0


def test_the_agents_of_a_result_are_counted_as_at_the_start() -> None:
    result = run(iterations=2)
    with pytest.raises(InputError, match="agent is 4, expected an integer that is at least 0 and less than 4"):
        result.model(agent=4)
    result.graph, result.x, result.lost = graphs.parse("complete:3"), result.x[[0, 2, 3]], (1,)
    result.buffers = {name: rows[[0, 2, 3]] for name, rows in result.buffers.items()}
    assert torch.equal(result.model(agent=2)[0].weight.flatten(), result.x[1, :27])  # type: ignore[index]
    with pytest.raises(InputError, match="agent = 1: it was lost"):
        result.model(agent=1)
