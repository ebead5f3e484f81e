"""Compiled gradients: where they are refused, and everything but the compiler itself, which `tests/e2e` runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from peerdescent import InputError, train
from peerdescent.problems import MnistNN, Supervised, compiled, quadratic, supervised
from peerdescent.training import gradients

pytestmark = pytest.mark.usefixtures("own_cache")
Compiled = Callable[..., Sequence[torch.Tensor]]


def problem(module: nn.Module | None = None, sizes: str = "even") -> Supervised:
    random = torch.Generator().manual_seed(1)
    data = torch.randn(60, 4, generator=random), torch.randint(3, (60,), generator=random)
    torch.manual_seed(0)
    module = module or nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    return supervised(module, nn.functional.cross_entropy, data, agents=3, sizes=sizes)


def run(given: Any, **settings: Any) -> Any:
    chosen = {"iterations": 6, "batch_size": 5, "gradients": "compiled", **settings}
    return train(given, "ring:3", "d-sgd-1", **chosen)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The recorded operations take the place of machine code; the list grows with each compilation."""
    made: list[int] = []

    def keep(recorded: torch.fx.GraphModule, tensors: Sequence[torch.Tensor]) -> Compiled:
        made.append(len(tensors))
        return recorded

    monkeypatch.setattr(compiled, "_compile", keep)
    return made


@pytest.mark.parametrize("settings", [{}, {"batch_size": 0}, {"dtype": "float64"}, {"batch_size": 1}])
def test_uncompiled_it_has_the_bits_of_vmap(compilations: list[int], settings: dict[str, Any]) -> None:
    result, given = run(problem(), **settings), problem()
    assert result.gradients == "compiled (as asked)"
    assert torch.equal(result.x, run(given, **{**settings, "gradients": "stacked"}).x)
    assert len(compilations) == 1


def test_it_is_compiled_once_for_all_runs_of_a_problem(compilations: list[int], tmp_path: Path) -> None:
    given = problem()
    whole = run(given, iterations=9)
    run(given, iterations=4, out=tmp_path / "a")
    assert 'gradients = "compiled"' in (tmp_path / "a" / "experiment.toml").read_text()
    assert torch.equal(run(given, iterations=9, out=tmp_path / "a", resume=True).x, whole.x)
    assert len(compilations) == 1
    with pytest.raises(InputError, match="holds another run \\(gradients"):
        run(given, iterations=12, gradients="stacked", out=tmp_path / "a", resume=True)


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "COMPILED_FROM", 9)


@pytest.mark.usefixtures("long")
def test_long_runs_are_compiled_and_short_ones_are_not(compilations: list[int]) -> None:
    assert run(problem(), iterations=9, gradients="auto").gradients == "compiled (the run is long)"
    assert len(compilations) == 1
    for settings in ({"iterations": 8, "gradients": "auto"}, {"iterations": 9, "gradients": "measure"}):
        assert not run(problem(), **settings).gradients.startswith("compiled")
    for other in (problem(nn.Sequential(nn.Linear(4, 3), nn.Dropout())), MnistNN(agents=3)):
        assert not run(other, iterations=9, gradients="auto").gradients.startswith("compiled")
    assert not run(problem(sizes="uneven"), iterations=9, gradients="auto", batch_size=0).gradients.startswith("comp")
    assert len(compilations) == 1


@pytest.mark.usefixtures("long")
def test_a_run_that_goes_on_keeps_its_strategy(compilations: list[int], tmp_path: Path) -> None:
    run(problem(), iterations=8, gradients="auto", out=tmp_path / "short")
    assert run(problem(), iterations=12, gradients="auto", out=tmp_path / "short", resume=True).gradients.startswith(
        "st"
    )
    assert not compilations
    run(problem(), iterations=9, gradients="auto", out=tmp_path / "long")
    again = run(problem(), iterations=12, gradients="auto", out=tmp_path / "long", resume=True)
    assert again.gradients.startswith("compiled")
    assert 'gradients = "compiled"' in (tmp_path / "long" / "experiment.toml").read_text()


@pytest.mark.usefixtures("long")
def test_a_long_run_does_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Compiled:
        raise RuntimeError("No working C++ compiler found")

    monkeypatch.setattr(compiled, "_compile", fail)
    result = run(problem(), iterations=9, gradients="auto")
    assert result.gradients.startswith("stacked (vmap over the agents; gradients = 'compiled' is not available here")
    assert torch.equal(result.x, run(problem(), iterations=9, gradients="stacked").x)


def test_a_compiler_that_fails_is_named_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Compiled:
        raise RuntimeError("No working C++ compiler found in ('g++',)\nand more")

    monkeypatch.setattr(compiled, "_compile", fail)
    with pytest.raises(InputError) as error:
        run(problem())
    assert str(error.value) == (
        "gradients = 'compiled' is not available here: RuntimeError: No working C++ compiler found in ('g++',); "
        "use gradients=auto."
    )


def test_wrong_machine_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(recorded: torch.fx.GraphModule, tensors: Sequence[torch.Tensor]) -> Compiled:
        return lambda *given: [1.01 * gradient for gradient in recorded(*given)]

    monkeypatch.setattr(compiled, "_compile", wrong)
    with pytest.raises(InputError, match="differs from the original by more than rounding"):
        run(problem())


@pytest.mark.parametrize(
    ("given", "settings", "message"),
    [
        (problem(nn.Sequential(nn.Linear(4, 3), nn.Dropout())), {}, "draws random numbers"),
        (problem(sizes="uneven"), {"batch_size": 0}, "needs shards of equal sizes"),
        (quadratic(agents=3), {}, "gradients = 'compiled': quadratic supports stacked"),
        (MnistNN(agents=3), {}, "gradients = 'compiled': mnist-nn supports stacked, loop"),
    ],
)
def test_where_it_is_impossible_it_is_refused(
    given: Any, settings: dict[str, Any], message: str, compilations: list[int]
) -> None:
    with pytest.raises(InputError, match=message):
        run(given, **settings)
    assert not compilations
