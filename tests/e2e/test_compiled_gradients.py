"""Compiled gradients with the real compiler: vmap's numbers to rounding, in one process and in two, also resumed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from peerdescent import Result, train
from peerdescent.problems import Supervised, compiled, supervised

pytestmark = pytest.mark.e2e


def problem() -> Supervised:
    random = torch.Generator().manual_seed(1)
    data = torch.randn(120, 7, generator=random), torch.randint(3, (120,), generator=random)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.LayerNorm(9), nn.Linear(9, 3))
    return supervised(net, nn.functional.cross_entropy, data, agents=4)


def run(given: Supervised, **settings: Any) -> Result:
    chosen = {"iterations": 30, "batch_size": 6, "gradients": "compiled", **settings}
    return train(given, "ring:4", "d-sgd-1", **chosen)


def test_the_numbers_of_vmap(tmp_path: Path) -> None:
    given = problem()
    whole = run(given)
    stacked = run(problem(), gradients="stacked")
    assert whole.gradients == "compiled (as asked)"
    torch.testing.assert_close(whole.x, stacked.x, rtol=1e-4, atol=1e-5)
    run(given, iterations=12, out=tmp_path / "a")
    assert torch.equal(run(given, out=tmp_path / "a", resume=True).x, whole.x)
    torch.testing.assert_close(run(problem(), workers=2).x, whole.x, rtol=1e-4, atol=1e-5)
    assert torch.equal(run(problem()).x, whole.x)


def test_double_precision_and_exact_gradients() -> None:
    exact: dict[str, Any] = {"dtype": "float64", "batch_size": 0}
    result, expected = run(problem(), **exact), run(problem(), **exact, gradients="stacked")
    torch.testing.assert_close(result.x, expected.x, rtol=1e-9, atol=1e-12)


def test_nothing_is_pickled_and_no_process_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path))
    monkeypatch.delenv(compiled.FOLDER, raising=False)
    given = problem()
    shapes = given.start(0), given.inputs[:20].view(4, 5, 7), given.targets[:20].view(4, 5)
    compiled.compile_gradient(given._stacked_gradients, shapes)
    (folder,) = tmp_path.glob("inductor-*")
    assert os.environ.get(compiled.FOLDER) != str(folder)
    assert list(folder.rglob("*.so"))
    assert not (folder / "fxgraph").exists()
    mine = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True, check=False
    )
    assert "compile_worker" not in mine.stdout


def test_without_a_compiler_it_is_refused_in_one_sentence(tmp_path: Path) -> None:
    code = (
        "import torch; from torch import nn; from peerdescent import InputError, problems, train\n"
        "data = torch.randn(40, 3), torch.randn(40, 1)\n"
        "problem = problems.supervised(nn.Linear(3, 1), nn.functional.mse_loss, data, agents=2)\n"
        "try:\n    train(problem, 'ring:2', 'd-sgd-1', iterations=3, gradients='compiled')\n"
        "except InputError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "CXX": "/nowhere/c++", "PEERDESCENT_CACHE": str(tmp_path)}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    (line,) = found.stdout.splitlines()
    assert line.startswith("gradients = 'compiled' is not available here: ")
    assert line.endswith("; use gradients=auto.")
