"""Random numbers that a module draws are a function of (seed, agent, iteration), in any placement."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from peerdescent import Callback, InputError, Result, train
from peerdescent.distributed.launcher import workers
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.problems import Supervised, supervised
from peerdescent.training import checkpoints, loop

pytestmark = pytest.mark.usefixtures("own_cache")
SETTINGS: dict[str, Any] = {"iterations": 12, "batch_size": 4, "eval_every": 6, "per_agent": False}


class Drawing(nn.Module):
    """A network whose hidden units pass through a function that draws."""

    def __init__(self, draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.draw, self.last = nn.Linear(3, 8), draw, nn.Linear(8, 1)
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                shape = parameter.shape
                parameter.copy_(torch.randn(shape, generator=torch.Generator().manual_seed(number)) / 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.draw(torch.tanh(self.first(inputs))))
        return result


def noisy(hidden: torch.Tensor) -> torch.Tensor:
    return hidden + 0.1 * torch.randn_like(hidden)


DRAWS: dict[str, Any] = {"nn.Dropout": nn.Dropout(0.5), "F.dropout": nn.functional.dropout, "torch.randn": noisy}
drawing = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)


def problem(draw: Any = DRAWS["nn.Dropout"], agents: int = 4, **options: Any) -> Supervised:
    inputs = torch.randn(10 * agents, 3, generator=torch.Generator().manual_seed(7))
    return supervised(
        Drawing(draw), nn.functional.mse_loss, (inputs, inputs.prod(1, keepdim=True)), agents=agents, **options
    )


def run(draw: Any = DRAWS["nn.Dropout"], group: ProcessGroup | None = None, **settings: Any) -> Result:
    return train(problem(draw), "ring:4", "d-sgt-1", group=group, **{**SETTINGS, **settings})


@drawing
def test_a_seed_repeats_a_run_and_leaves_the_generator_alone(draw: Any) -> None:
    given = problem(draw)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = train(given, "ring:4", "d-sgt-1", **SETTINGS)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = run(draw)
    assert torch.equal(first.x, again.x)
    assert [row["loss"] for row in first.metrics] == [row["loss"] for row in again.metrics]
    assert [row["gradient_norm"] for row in first.metrics] == [row["gradient_norm"] for row in again.metrics]
    assert first.gradients == "loop (the model draws random numbers)"
    assert not torch.equal(first.x, run(draw, seed=1).x)


@drawing
@pytest.mark.parametrize("sizes", ["even", "uneven"])
@pytest.mark.parametrize("batch_size", [4, None])
def test_draws_depend_on_seed_agent_and_iteration_alone(draw: Any, sizes: str, batch_size: int | None) -> None:
    whole = problem(draw, sizes=sizes)
    points = whole.start(0)

    def gradients(agents: range, k: int, seed: int = 0) -> torch.Tensor:
        out = torch.empty(len(agents), whole.dimension)
        whole.oracle(batch_size, seed, True, agents, "loop")(points[agents.start : agents.stop], k, out)
        return out

    together = gradients(range(4), 5)
    assert torch.equal(together, torch.cat([gradients(range(1), 5), gradients(range(1, 4), 5)]))
    assert not torch.equal(together, gradients(range(4), 6))
    assert not torch.equal(together, gradients(range(4), 5, seed=1))
    some = whole.subset([1, 3])
    out = torch.empty(2, whole.dimension)
    some.oracle(batch_size, 0, True, range(2), "loop")(points[[1, 3]], 5, out)
    assert torch.equal(out, together[[1, 3]])


def test_agents_and_iterations_have_different_draws() -> None:
    """All shards are equal, and gradients are exact: only the draws can differ."""
    data = torch.ones(4, 3), torch.ones(4, 1)
    same = supervised(Drawing(nn.functional.dropout), nn.functional.mse_loss, data, agents=4)
    oracle, out = same.oracle(None, 0, True, range(4), "loop"), torch.empty(4, same.dimension)
    seen = set()
    for k in range(5):
        oracle(same.start(0), k, out)
        seen |= {tuple(row.tolist()) for row in out}
    assert len(seen) > 15  # 20 masks of eight units, of which few coincide by chance


def in_group(group: ProcessGroup) -> Result:
    return run(group=group)


def test_three_processes_compute_the_same_bits() -> None:
    with workers(3, in_group) as group:
        assert torch.equal(in_group(group).x, run().x)


class _Interrupt(Callback):
    def on_progress(self, run: Any) -> None:
        if run.k == 9:
            raise KeyboardInterrupt


def test_a_run_resumes_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(out=tmp_path / "whole")
    monkeypatch.setattr(loop, "CHUNK", 3)
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(checkpoints, "SAVING_SHARE", 0)
    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path / "part", callbacks=[_Interrupt()])
    assert list((tmp_path / "part").rglob("*6.safetensors"))
    assert torch.equal(run(out=tmp_path / "part", resume=True).x, whole.x)


def test_evaluations_use_the_eval_mode() -> None:
    some, x = problem(test=(torch.randn(5, 3), torch.zeros(5, dtype=torch.long))), problem().start(0)[0]
    expected = nn.functional.mse_loss(some.model(x).eval()(some.inputs), some.targets)
    torch.testing.assert_close(some.loss(x), float(expected.detach()))
    assert some.accuracy(x) == 1.0
    assert some.model(x).training
    moved = some.to(torch.device("cpu"), torch.float64)
    torch.testing.assert_close(moved.loss(x.double()), some.loss(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("draw", [nn.functional.dropout, noisy], ids=["F.dropout", "torch.randn"])
def test_what_is_drawn_in_an_evaluation_is_always_alike(draw: Any) -> None:
    some = problem(draw)
    x = some.start(0)[0]
    assert len({some.loss(x) for _ in range(4)}) == 1
    assert torch.equal(some.gradient(x), some.gradient(x))


def test_stacked_gradients_of_a_module_that_draws_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"gradients = 'stacked': the model Drawing draws .* use gradients=loop or auto"
    ):
        run(gradients="stacked")
    assert torch.equal(run(gradients="loop").x, run().x)
    assert run(gradients="measure").gradients.startswith("loop (the other way is impossible")


def test_dropout_in_eval_mode_draws_nothing() -> None:
    inputs = torch.randn(20, 3)
    model = Drawing(nn.Dropout(0.5)).eval()
    quiet = supervised(model, nn.functional.mse_loss, (inputs, inputs[:, :1]), agents=2)
    assert not quiet.draws
    assert quiet.preferred_strategy()[0] == "stacked"


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return inputs * self.calls


GENERATOR = torch.Generator().manual_seed(0)
FOREIGN: dict[str, tuple[Any, str]] = {
    "random": (lambda hidden: hidden * random.random(), "Python's random"),
    "unused random": (lambda hidden: (random.random(), hidden)[1], "Python's random"),
    "numpy": (lambda hidden: hidden * float(np.random.rand()), "numpy.random"),  # noqa: NPY002
    "generator": (lambda hidden: hidden + torch.rand(8, generator=GENERATOR), "random generator or a state of its own"),
    "state": (_Counting(), "random generator or a state of its own"),
}


@pytest.mark.parametrize(("draw", "reason"), FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("gradients", ["auto", "loop", "stacked", "measure"])
def test_draws_that_no_seed_controls_are_refused(draw: Any, reason: str, gradients: str) -> None:
    states = random.getstate(), str(np.random.get_state())  # noqa: NPY002
    try:
        with pytest.raises(InputError, match=f"the model Drawing .*{reason}"):
            train(problem(draw), "ring:4", "d-sgt-1", gradients=gradients, **SETTINGS)
    finally:
        assert states == (random.getstate(), str(np.random.get_state()))  # noqa: NPY002
