"""A trained model as a file that safetensors and torch read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tests.support.commands import Command
from torch import nn

import peerdescent
from peerdescent import problems
from peerdescent.errors import InputError
from peerdescent.training.export import row_of_agent


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def small() -> problems.Problem:
    torch.manual_seed(0)
    X, y = torch.randn(40, 3), torch.randint(0, 2, (40,))
    return problems.supervised(net(), nn.functional.cross_entropy, (X, y), agents=4)


def test_a_module_reads_back_what_was_exported(tmp_path: Path) -> None:
    result = peerdescent.train(small(), "ring:4", "d2", iterations=5, batch_size=2)
    X = torch.randn(7, 3)
    for agent, point in ((None, result.x_mean), (3, result.x[3])):
        file = tmp_path / f"{agent}.safetensors"
        names = result.export(file, agent=agent)
        tensors = load_file(file)
        assert names == list(net().state_dict())
        assert sorted(names) == sorted(tensors)
        module = net()
        module.load_state_dict(tensors)
        expected = result.problem.model(point)
        assert expected is not None
        assert torch.equal(module(X), expected(X))
        flat = torch.cat([tensors[name].flatten() for name, _ in net().named_parameters()])
        assert torch.equal(flat, point)
    with safe_open(tmp_path / "3.safetensors", "pt") as opened:
        assert opened.metadata()["agent"] == "3"


def test_a_run_folder_is_exported_by_a_command(peerdescent_: Command, here: Path) -> None:
    small_run = ["--problem", "mnist-nn", "--graph", "ring:4", "--iterations", "2", "--per-agent"]
    assert peerdescent_("run", *small_run, "-a", "d2", "--out", "a", "--quiet").code == 0
    said = peerdescent_("export", "a", "model.safetensors", "--agent", "1")
    assert said.code == 0, said
    module = peerdescent.load(here / "a").model()
    module.load_state_dict(load_file(here / "model.safetensors"))
    flat = torch.cat([parameter.flatten() for parameter in module.parameters()])
    x = peerdescent.load(here / "a").x
    assert sorted(flat.tolist()) == sorted(x[1].tolist())
    for words in (
        ["a", "model.safetensors"], ["a", "model.pt"], ["a", "new.safetensors", "--agent", "4"],
        ["b", "new.safetensors"], ["a", "."], ["a", "no/such/folder/m.safetensors"],
    ):  # fmt: skip
        refused = peerdescent_("export", *words)
        assert (refused.code, len(refused.sentences)) == (2, 1), refused
    assert peerdescent_("export", "a", "model.safetensors", "--overwrite").code == 0


def test_a_problem_made_in_python_is_exported_as_one_vector(peerdescent_: Command, here: Path) -> None:
    result = peerdescent.train(small(), "ring:4", "d2", iterations=5, batch_size=2, out=here / "a")
    said = peerdescent_("export", "a", "model.safetensors")
    assert said.code == 0, said
    assert "made in Python" in said.err
    assert torch.equal(load_file(here / "model.safetensors")["x"], result.x_mean)
    named = peerdescent.load(here / "a", small()).export(here / "named.safetensors")
    assert named == list(net().state_dict())


def test_agents_keep_their_numbers_after_a_loss() -> None:
    assert [row_of_agent(agent, 3, (1, 3, 4)) for agent in (0, 2, 5)] == [0, 1, 2]
    for agent in (1, 6, -1):
        with pytest.raises(InputError, match="agent"):
            row_of_agent(agent, 3, (1, 3, 4))
