"""`kernel = "torch"`: the update that torch.compile fuses, against the plain one."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from tests.support.process_runs import one_run

from peerdescent import InputError, train
from peerdescent.distributed.launcher import workers
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.problems import logistic_nonconvex

pytestmark = pytest.mark.e2e


def both(name: str, **settings: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """x of the plain update and of the fused one."""
    problem, given = logistic_nonconvex(agents=6, samples=120), {"iterations": 20, "batch_size": 4, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, fused = (train(problem, "ring:6", name, kernel=kernel, **given) for kernel in ("plain", "torch"))
    assert fused.kernel == "torch (torch.compile on cpu)"
    return plain.x, fused.x


@pytest.mark.parametrize("name", ["d2", "d-sgt-2", "dm-sgd", "d-asg"])
def test_methods_without_a_power_are_equal_bit_by_bit(name: str) -> None:
    plain, fused = both(name)
    assert torch.equal(plain, fused)


def test_rounded_messages_stay_rounded() -> None:
    plain, fused = both("dsgpa-f", message_dtype="bf16", communication_period=2)
    assert torch.equal(plain, fused)


def test_the_powerball_is_equal_to_rounding() -> None:
    plain, fused = both("dsgpa-f-pb", dtype="float64")
    torch.testing.assert_close(fused, plain, rtol=1e-12, atol=1e-14)


def fused_runs(group: ProcessGroup) -> list[Any]:
    results = [one_run(group, kernel=kernel) for kernel in ("plain", "torch")]
    group.barrier()
    return results


def test_two_processes_send_the_rows_that_the_passes_need() -> None:
    with workers(2, fused_runs) as group:
        plain, fused = fused_runs(group)
    assert fused.kernel.startswith("torch")
    assert fused.interprocess_bytes == plain.interprocess_bytes
    torch.testing.assert_close(fused.x, plain.x, rtol=1e-4, atol=1e-6)


def test_a_wrong_compiler_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(function: Any) -> Any:
        def compiled(numbers: torch.Tensor, *arrays: torch.Tensor) -> Any:
            return function(2 * numbers, *arrays)

        return compiled

    monkeypatch.setattr(torch, "compile", lambda function, **_: wrong(function))
    with pytest.raises(InputError, match=r"torch.compile computes something else than the step on cpu"):
        train(logistic_nonconvex(agents=2, samples=20), "complete:2", "d-sgd-1", kernel="torch", iterations=2)


def test_what_torch_compile_cannot_do_here_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no backend\nand pages of advice")

    monkeypatch.setattr(torch, "compile", lambda function, **_: broken)
    with pytest.raises(InputError, match=r"kernel = 'torch' is not available here: torch.compile fails on cpu: no"):
        train(logistic_nonconvex(agents=2, samples=20), "complete:2", "d-sgd-1", kernel="torch", iterations=2)
