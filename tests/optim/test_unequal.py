"""Processes that do not do the same: skipped steps, unequal numbers of steps, mismatched calls, frozen parameters.

The expected states come from literal loops in NumPy, agent by agent.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support import optim_scenarios as scenarios
from tests.support.optim_scenarios import AGENTS, ALPHA, BAD_STEP, BETA, COLUMNS, LR, STEPS

from peerdescent.distributed.launcher import workers
from peerdescent.optim.call_log import CallLog, disagreement

pytestmark = [pytest.mark.xdist_group("optim"), pytest.mark.e2e]
NEIGHBOURS = {0: [1], 1: [0, 2], 2: [1]}
WEIGHT = 1 / 3
"""Metropolis: 1/(1 + the larger degree), and every edge of the path of three agents ends at agent 1."""
Gradient = Callable[[int, int, np.ndarray], np.ndarray]


@functools.cache
def found() -> dict[str, list[Any]]:
    """All jobs in one start of the processes, by name."""
    jobs: list[tuple[Any, ...]] = [
        ("scaled",),
        ("joined", "dsgpa"),
        ("joined", "d2"),
        ("joined_with_a_scaler",),
        ("frozen", "same", 1),
        ("frozen", "bf16", 1),
        ("frozen", "same", 3),
        ("left_out",),
        ("released",),
        ("slow", "2"),
        ("uneven", "dsgpa", "wait"),
        ("uneven", "d2", "averaged"),
        ("uneven_scaled",),
        ("other_buffers",),
        ("one_step_less",),
        ("alone_in_averaged",),
        ("some_scaled",),
        ("unlike_trainable",),
    ]
    with workers(AGENTS, scenarios.in_workers, jobs) as group:
        return scenarios.in_workers(group, jobs)


def target(agent: int) -> np.ndarray:
    return np.tile(np.arange(COLUMNS, dtype=float) * (agent + 1) - agent, 2)


def plain(agent: int, k: int, x: np.ndarray) -> np.ndarray:
    return x - target(agent)


def start() -> list[np.ndarray]:
    return [np.concatenate([np.full(COLUMNS, i + 1.0), np.full(COLUMNS, i - 1.0)]) for i in range(AGENTS)]


def laplacian(rows: list[np.ndarray], agent: int) -> np.ndarray:
    total = np.zeros(2 * COLUMNS)
    for other in NEIGHBOURS[agent]:
        total = total + WEIGHT * (rows[agent] - rows[other])
    return total


def dsgpa(steps: int, gradient: Gradient = plain, decay: float = 1.0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    x, v = start(), [np.zeros(2 * COLUMNS) for _ in range(AGENTS)]
    for k in range(steps):
        eta = LR * decay**k
        Lx = [laplacian(x, i) for i in range(AGENTS)]
        v = [v[i] + eta * BETA * Lx[i] for i in range(AGENTS)]
        x = [x[i] - eta * (ALPHA * Lx[i] + BETA * v[i] + gradient(i, k, x[i])) for i in range(AGENTS)]
    return x, v


def d2(steps: int, gradient: Gradient, decay: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    x, v = start(), [np.zeros(2 * COLUMNS) for _ in range(AGENTS)]
    for k in range(steps):
        phi = [x[i] - LR * decay**k * gradient(i, k, x[i]) - v[i] for i in range(AGENTS)]
        mixed = [laplacian(phi, i) for i in range(AGENTS)]  # I − W of Metropolis weights
        x = [phi[i] - mixed[i] for i in range(AGENTS)]
        v = [v[i] + mixed[i] for i in range(AGENTS)]
    return x, v


def rows(name: str, key: str = "x") -> np.ndarray:
    return np.array([result[key] for result in found()[name]])


def test_all_skip_the_step_that_overflows_in_one() -> None:
    np.testing.assert_allclose(rows("scaled"), dsgpa(STEPS - 1)[0], rtol=1e-12)
    scales = rows("scaled", "scales")
    assert (scales == scales[0]).all()
    assert scales[0, BAD_STEP] == scales[0, BAD_STEP - 1] / 2
    assert (rows("scaled", "step") == STEPS - 1).all()


@pytest.mark.parametrize(("name", "method"), [("joined dsgpa", dsgpa), ("joined d2", d2)])
def test_finished_processes_go_on_mixing_until_all_are_done(name: str, method: Callable[..., Any]) -> None:
    def gradient(agent: int, k: int, x: np.ndarray) -> np.ndarray:
        return plain(agent, k, x) if k < 3 + 2 * agent else np.zeros_like(x)

    x, v = method(7, gradient, decay=0.9)
    np.testing.assert_allclose(rows(name), x, rtol=1e-12)
    np.testing.assert_allclose(rows(name, "v"), v, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(rows(name, "v").sum(axis=0), 0, atol=1e-13)
    np.testing.assert_allclose(rows(name, "mean")[0], np.mean(x, axis=0), rtol=1e-12)
    assert (rows(name, "step") == 7).all()


@pytest.mark.e2e
def test_a_scaler_inside_join() -> None:
    def gradient(agent: int, k: int, x: np.ndarray) -> np.ndarray:
        return np.zeros_like(x) if agent == 0 and k >= 2 else plain(agent, k, x)

    np.testing.assert_allclose(rows("joined_with_a_scaler"), dsgpa(3, gradient)[0], rtol=1e-12)
    assert rows("joined_with_a_scaler", "scale").tolist() == [8, 4, 4]


def test_a_left_out_batch_is_a_zero_gradient() -> None:
    def gradient(agent: int, k: int, x: np.ndarray) -> np.ndarray:
        return np.zeros_like(x) if (agent, k) == (1, BAD_STEP) else plain(agent, k, x)

    np.testing.assert_allclose(rows("left_out"), dsgpa(STEPS, gradient)[0], rtol=1e-12)


@pytest.mark.parametrize(("name", "size", "exchanges"), [("same 1", 8, 7), ("bf16 1", 2, 7), ("same 3", 8, 2)])
def test_only_trainable_parameters_travel(name: str, size: int, exchanges: int) -> None:
    """One message per neighbour and exchange: those of the six steps, and of the next, which has left already."""
    results = found()[f"frozen {name}"]
    degrees = [len(NEIGHBOURS[agent]) for agent in range(AGENTS)]
    assert [result["bytes"] for result in results] == [2 * COLUMNS * size * exchanges * degree for degree in degrees]
    assert [result["base"] for result in results] == [result["averaged base"] for result in results] == [0, 1, 2]
    assert all(result["state"] == ["a", "b"] for result in results)
    if name == "same 1":
        np.testing.assert_allclose(rows("frozen same 1"), dsgpa(STEPS)[0], rtol=1e-12)


def test_a_slow_process_is_waited_for() -> None:
    x = dsgpa(STEPS)[0]
    np.testing.assert_allclose(rows("slow 2"), x, rtol=1e-12)
    np.testing.assert_allclose(rows("slow 2", "mean")[1], np.mean(x, axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("uneven dsgpa wait", r"process 2 stopped after step 5 \(it called wait\(\)\) while process.* called step\(\)"),
        (
            "uneven d2 averaged",
            r"process 2 stopped after step 5 \(it called averaged\(\)\) while process.* called step",
        ),
        ("uneven_scaled", r"process 2 stopped after step 3 \(it called wait\(\)\) while .* step\(\) with a GradScaler"),
        ("other_buffers", r"the model's buffers have 4 numbers in one process and 6 in another"),
        ("one_step_less", r"process 2 stopped after step 4 \(it called wait\(\)\) while process.* called step\(\)"),
        ("alone_in_averaged", r"process 0 stopped after step 4 \(it called averaged\(\)\) while process.* called step"),
        ("some_scaled", r"process 0 called step\(\) with a GradScaler and process.* called step\(\)"),
        ("unlike_trainable", r"process 1 on \S+ differs .* trainable parameters of group 0 \(1 tensors with 4 values"),
    ],
)
def test_calls_that_differ_are_refused_in_every_process(name: str, sentence: str) -> None:
    for text in found()[name]:
        assert isinstance(text, str), f"{name} ended without a refusal: {text}"
        assert text.startswith("InputError: ")
        assert "\n" not in text
        assert text.endswith(".")
        assert re.search(sentence, text), text


def log_of(*names: str, ended: bool = False, in_barrier: bool = False) -> CallLog:
    log = CallLog()
    for name in names:
        log.append(name)
        log.steps += name.startswith("step()")
    log = CallLog.parse(log.text(ended))
    log.in_barrier = in_barrier
    return log


@pytest.mark.parametrize(
    ("logs", "sentence"),
    [
        ([log_of("step()"), log_of("step()", "step()"), log_of()], ""),  # slow is not stopped
        ([log_of("step()", "wait()"), log_of("step()", "wait()", ended=True)], ""),
        (
            [log_of("step()", "step()", "wait()"), log_of("step()", ended=True)],
            "process 1 stopped after step 1 (it ended)",
        ),
        ([log_of("step()"), log_of("step()", in_barrier=True)], ""),
        ([log_of("step()"), log_of(in_barrier=True)], "process 1 stopped after step 0 (it called torch.distributed."),
        (
            [log_of("averaged()"), log_of("wait()")],
            "after step 0, process 0 called averaged() and process 1 called wait()",
        ),
        ([log_of(*["step()", "averaged()"] * 500), log_of("wait()")], ""),  # longer ago than logs reach
    ],
)
def test_logs_disagree_only_on_calls_that_were_made(logs: list[CallLog], sentence: str) -> None:
    text = disagreement(dict(enumerate(logs)))
    assert text.startswith(sentence) if sentence else not text


def test_no_tensor_is_left_to_a_thread_of_gloo() -> None:
    """A process that ends while a thread frees a tensor aborts."""
    assert found()["released"] == [{"held": 0}] * AGENTS
