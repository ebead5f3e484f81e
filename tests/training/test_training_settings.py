"""Weight decay, clipping, moving averages and early stopping, against literal transcriptions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance import reference
from tests.support.commands import rows

from peerdescent import Callback, InputError, algorithms, graphs, train
from peerdescent.algorithms import DMSGD, DSGD1, DSGPA, DSGT1, Algorithm
from peerdescent.errors import StoppedError
from peerdescent.problems import Quadratic
from peerdescent.runs.folder import read_summary
from peerdescent.schedules import Cosine
from peerdescent.training.early_stopping import reason_to_stop
from peerdescent.training.gradient_processing import row_norms
from peerdescent.training.settings import Settings
from peerdescent.training.stopping import Stopping
from peerdescent.transforms import Sign

pytestmark = pytest.mark.usefixtures("own_cache")
N, P, T = 5, 4, 12
ALL: dict[str, Any] = {"iterations": T, "batch_size": 0, "dtype": "float64", "eval_every": T, "per_agent": False}


def problem() -> tuple[Quadratic, reference.Gradient, np.ndarray]:
    random = np.random.default_rng(3)
    A, c = random.uniform(0.5, 1.5, (N, P)), 3 * random.normal(size=(N, P))
    return Quadratic(A, c), lambda i, x, k: A[i] * (x - c[i]), random.normal(size=(N, P))


def matrices() -> tuple[np.ndarray, np.ndarray]:
    graph = graphs.parse("ring:5")
    return graph.laplacian().toarray(), graph.mixing().toarray()


def run(method: Algorithm | str, **settings: Any) -> Any:
    quadratic, _, x0 = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(quadratic, "ring:5", method, x0=torch.from_numpy(x0), **{**ALL, **settings})


METHODS: dict[str, tuple[Callable[..., list[np.ndarray]], dict[str, float]]] = {
    "d-sgd-1": (reference.d_sgd_1, {"eta": 0.07}),
    "d-sgt-1": (reference.d_sgt_1, {"eta": 0.07}),
    "d2": (reference.d2, {"eta": 0.07}),
    "dm-sgd": (reference.dm_sgd, {"eta": 0.05, "beta": 0.6}),
    "d-asg": (reference.d_asg, {"eta": 0.05, "beta": 0.6}),
    "c-sgd": (reference.c_sgd, {"eta": 0.07}),
}


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("name", METHODS)
def test_clipping_and_coupled_decay_process_the_gradient_of_any_method(name: str, kernel: str) -> None:
    transcription, values = METHODS[name]
    _, gradient, x0 = problem()

    def clipped_and_decayed(i: int, x: np.ndarray, k: int) -> np.ndarray:
        g = gradient(i, x, k)
        return g * min(1.0, 1.5 / np.sqrt((g * g).sum())) + 0.3 * x

    expected = transcription(x0, *matrices(), clipped_and_decayed, T, **values)[-1]
    plain = transcription(x0, *matrices(), gradient, T, **values)[-1]
    result = run(algorithms.make(name, **values), weight_decay=0.3, clip_norm=1.5, kernel=kernel)
    assert np.abs(plain - expected).max() > 0.1
    np.testing.assert_allclose(result.x.numpy(), expected, rtol=0, atol=1e-12)


def decoupled(name: str) -> tuple[Algorithm, np.ndarray]:
    """x⁺ = step(x, g) − ηλx with λ = 0.4, and nothing else of the method sees it."""
    _, gradient, x = problem()
    L, W = matrices()
    u, v = np.zeros_like(x), np.zeros_like(x)

    def g(x: np.ndarray, k: int) -> np.ndarray:
        return np.stack([gradient(i, x[i], k) for i in range(N)])

    y, eta = g(x, 0), 0.07
    for k in range(T):
        if name == "sign":
            x = W @ x - eta * np.sign(g(x, k)) - eta * 0.4 * x
        elif name == "momentum":
            u = 0.6 * u + g(x, k)
            x, u = W @ (x - eta * u) - eta * 0.4 * x, W @ u
        elif name == "duals":
            x, v = x - eta * (2 * L @ x + 0.5 * v + g(x, k)) - eta * 0.4 * x, v + eta * 0.5 * L @ x
        else:  # tracking with a cosine schedule
            rate = 0.07 * (1 + np.cos(np.pi * k / T)) / 2
            new = W @ x - rate * y - rate * 0.4 * x
            x, y = new, W @ y + g(new, k + 1) - g(x, k)
    methods: dict[str, Algorithm] = {
        "sign": DSGD1(eta=eta, transform=Sign()),
        "momentum": DMSGD(eta=eta, beta=0.6),
        "duals": DSGPA(eta=eta, alpha=2.0, beta=0.5, dual="jacobi"),
        "tracking": DSGT1(eta=Cosine(0.07, T)),
    }
    return methods[name], x


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("name", ["sign", "momentum", "duals", "tracking"])
def test_decoupled_decay_is_subtracted_after_the_step(name: str, kernel: str) -> None:
    method, expected = decoupled(name)
    result = run(method, weight_decay=0.4, decay="decoupled", kernel=kernel)
    np.testing.assert_allclose(result.x.numpy(), expected, rtol=0, atol=1e-12)
    assert np.abs(run(method, kernel=kernel).x.numpy() - expected).max() > 0.05


def test_local_steps_decay_too() -> None:
    _, gradient, x = problem()
    _, W = matrices()
    for k in range(T):
        g = np.stack([gradient(i, x[i], k) for i in range(N)])
        x = (W @ x if (k + 1) % 3 == 0 else x) - 0.07 * g - 0.07 * 0.4 * x
    result = run(DSGD1(eta=0.07), weight_decay=0.4, decay="decoupled", communication_period=3)
    np.testing.assert_allclose(result.x.numpy(), x, rtol=0, atol=1e-12)


def test_the_moving_average_is_that_of_the_mean() -> None:
    _, gradient, x0 = problem()
    iterates = reference.d_sgd_1(x0, *matrices(), gradient, T, eta=0.07)
    m = iterates[0].mean(axis=0)
    for x in iterates[1:]:
        m = 0.8 * m + 0.2 * x.mean(axis=0)
    result = run(DSGD1(eta=0.07), ema=0.8, metrics={"peak": torch.max})
    np.testing.assert_allclose(result.x_ema.numpy(), m, rtol=0, atol=1e-12)
    last, quadratic = result.metrics[-1], problem()[0]
    assert last["ema_loss"] == pytest.approx(quadratic.loss(torch.from_numpy(m)), rel=1e-12)
    assert last["ema_peak"] == pytest.approx(m.max(), rel=1e-12)
    without = run(DSGD1(eta=0.07))
    assert torch.equal(result.x, without.x)
    assert result.metrics[-1]["loss"] == without.metrics[-1]["loss"]
    assert without.x_ema is None


def test_a_stopped_run_with_everything_resumes_bitwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: dict[str, Any] = {
        "weight_decay": 0.1,
        "decay": "decoupled",
        "clip_norm": 1.0,
        "ema": 0.9,
        "patience": 50,
        "eval_every": 4,
        "batch_size": 2,
    }
    whole = run("d-sgt-1", **chosen, out=tmp_path / "whole")
    monkeypatch.setattr(Stopping, "due", lambda self, k: k == 6)

    class Interrupt(Callback):
        def on_iteration(self, run: Any) -> None:
            if run.k == 6:
                run.stopping.request.signal = 2

    with pytest.raises(StoppedError):
        run("d-sgt-1", **chosen, out=tmp_path / "cut", callbacks=[Interrupt()])
    monkeypatch.undo()
    again = run("d-sgt-1", **chosen, out=tmp_path / "cut", resume=True)
    assert torch.equal(whole.x, again.x)
    assert torch.equal(whole.x_ema, again.x_ema)
    assert rows(tmp_path / "whole") == rows(tmp_path / "cut")
    with pytest.raises(InputError, match=r"ema = 0\.9 there and 0\.5 here"):
        run("d-sgt-1", **{**chosen, "ema": 0.5}, out=tmp_path / "cut", resume=True)


@given(st.lists(st.floats(0, 4) | st.none(), min_size=1, max_size=12), st.integers(1, 4), st.booleans())
def test_patience_counts_evaluations_since_the_best(values: list[float | None], patience: int, largest: bool) -> None:
    values[0] = 2.0
    table = [{"iteration": k, "f1": value} for k, value in enumerate(values)]
    settings = Settings(patience=patience, monitor="f1:max" if largest else "f1")
    ends = [bool(reason_to_stop(table[: k + 1], settings)) for k in range(len(table))]
    waited, best, expected = 0, None, []
    for value in values:
        better = value is not None and (best is None or (value > best if largest else value < best))
        best, waited = (value, 0) if better else (best, waited + 1)
        expected.append(waited >= patience)
    assert ends == expected


def test_a_run_that_no_longer_improves_ends_well_and_stays_ended(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"iterations": 5000, "eval_every": 10, "out": tmp_path / "a"}
    result = run(DSGD1(eta=0.3), patience=3, **chosen)
    losses = result.metrics["loss"]
    best = losses.index(min(losses))
    assert best == len(losses) - 1 - 3
    last = result.metrics[-1]["iteration"]
    assert result.stopped_early
    assert not result.diverged
    assert last < 5000
    assert result.notes[-1].startswith(f"stopped early at iteration {last}: loss has not improved for 3 evaluations")
    summary = read_summary(tmp_path / "a")
    assert (summary["status"], summary["iteration"]) == ("stopped early", last)
    before = (tmp_path / "a" / "metrics.jsonl").read_bytes()
    again = run(DSGD1(eta=0.3), patience=3, **chosen, resume=True)
    assert again.stopped_early
    assert torch.equal(again.x, result.x)
    assert (tmp_path / "a" / "metrics.jsonl").read_bytes() == before
    assert read_summary(tmp_path / "a") == summary
    longer = run(DSGD1(eta=0.3), patience=5, **chosen, resume=True)
    assert len(longer.metrics) == len(losses) + 2


class Falling(Callback):
    """A column that gets worse from the start."""

    def on_evaluation(self, run: Any, row: dict[str, Any]) -> None:
        row["score"] = -run.k


def test_columns_of_callbacks_can_be_monitored() -> None:
    result = run("d-sgd-1", eval_every=1, patience=2, monitor="score:max", callbacks=[Falling()])
    assert result.metrics["iteration"] == [0, 1, 2]
    assert not run("d-sgd-1", eval_every=1, patience=2, monitor="score", callbacks=[Falling()]).stopped_early


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weight_decay": -1.0}, "weight_decay = -1.0: expected a number, at least 0"),
        ({"weight_decay": float("nan")}, "weight_decay = nan: expected a number"),
        ({"decay": "decoupled"}, "decay = 'decoupled' has no effect without weight_decay"),
        ({"weight_decay": 1.0, "decay": "both"}, "decay = 'both': expected one of coupled, decoupled"),
        ({"clip_norm": 0}, "clip_norm = 0: expected a number greater than 0"),
        ({"ema": 1.0}, "ema = 1.0: expected a number greater than 0 and less than 1"),
        ({"monitor": "loss"}, "monitor = 'loss' has no effect without patience"),
        ({"patience": 0}, "patience = 0: expected a whole number, at least 1"),
        ({"patience": 2, "monitor": "test_loss"}, "monitor = 'test_loss': there is no such column"),
        ({"patience": 2, "monitor": "lossy"}, "no such column.*loss"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as caught:
        run("d-sgd-1", **settings, out=tmp_path / "a")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a").exists()


def test_norms_do_not_depend_on_which_rows_are_together() -> None:
    g = torch.from_numpy(np.random.default_rng(0).standard_normal((130, 1001)).astype(np.float32))
    together = row_norms(g)
    assert torch.equal(together, torch.cat([row_norms(row[None]) for row in g]))
    np.testing.assert_allclose(together.numpy(), np.linalg.norm(g.double().numpy(), axis=1), rtol=1e-14)
    huge = torch.tensor([[3e200, 4e200], [0.0, 0.0]], dtype=torch.float64)
    np.testing.assert_allclose(row_norms(huge).numpy(), [5e200, 0.0], rtol=1e-14)
    assert row_norms(torch.tensor([[1.0, torch.inf], [torch.nan, 1.0]])).isnan().all()


def test_defaults_leave_no_trace_in_the_records(tmp_path: Path) -> None:
    run("d-sgd-1", out=tmp_path / "a")
    text = (tmp_path / "a" / "experiment.toml").read_text()
    assert not any(key in text for key in ("weight_decay", "decay", "clip_norm", "ema", "patience", "monitor"))
