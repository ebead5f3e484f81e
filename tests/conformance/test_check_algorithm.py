"""`check_algorithm` itself: each incorrect method here fails one check."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from peerdescent import InputError, testing
from peerdescent.algorithms import Algorithm

Step = Generator[Any, Any, dict[str, Any]]


@dataclass(frozen=True)
class Descent(Algorithm):
    """A correct method, and the base of the incorrect ones."""

    eta: float = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Step:
        Wx = net.mix(s.x)
        g = yield s.x
        return self.moved(s, Wx - h.eta * g, g)

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x}


@dataclass(frozen=True)
class Unnamed(Descent):
    def memory(self) -> Mapping[str, Any]:
        return {"u": "zero"}


@dataclass(frozen=True)
class Undeclared(Descent):
    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x, "u": g}


@dataclass(frozen=True)
class Endless(Descent):
    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Step:
        while True:
            yield s.x


@dataclass(frozen=True)
class Infinite(Descent):
    def memory(self) -> Mapping[str, Any]:
        return {"u": "zero"}

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x, "u": s.u / s.u}


@dataclass(frozen=True)
class Violating(Descent):
    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        return {"mean of x = 0": s.x}


@dataclass(frozen=True)
class Random(Descent):
    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x + torch.rand(1, dtype=x.dtype)}


@dataclass(frozen=True)
class Decaying(Descent):
    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": 0.9 * x}


@dataclass(frozen=True)
class Leader(Descent):
    """Agent 0 is special."""

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x - 0.1 * (s.x - s.x[:1])}


@dataclass(frozen=True)
class Overflowing(Descent):
    def hyperparameters(self, k: int) -> dict[str, float]:
        return {"eta": float("inf") if k == 1000 else 0.1}


@dataclass(frozen=True)
class Forgetful(Descent):
    def parameters(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class TwoFaced(Descent):
    """Records a different equation from the one it computes."""

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x if isinstance(x, torch.Tensor) else x + 0.001 * g}


@dataclass(frozen=True)
class Apart(Descent):
    """Moves each agent by a different amount."""

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x + g * torch.arange(len(x), dtype=x.dtype)[:, None]}


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (Unnamed(), testing.NAMES),
        (Undeclared(), testing.NAMES),
        (Endless(), testing.NAMES),
        (Infinite(), testing.FINITE),
        (Violating(), testing.INVARIANTS),
        (Random(), testing.REPEATS),
        (Apart(), testing.CONSENSUS),
        (Decaying(), testing.FIXED),
        (Leader(), testing.LABELS),
        (Overflowing(), testing.NUMBERS),
        (Forgetful(eta=0.3), testing.PARAMETERS),
        (TwoFaced(), testing.KERNEL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Algorithm) else "",
)
def test_a_failed_check_is_named(method: Algorithm, name: str) -> None:
    with pytest.raises(AssertionError) as caught:
        testing.check_algorithm(method)
    message = str(caught.value)
    assert message.startswith(f"{type(method).__name__} fails a check. {name}: ")


def test_what_cannot_be_recorded_or_written_is_reported_as_skipped() -> None:
    @dataclass(frozen=True)
    class Eager(Descent):
        def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
            return {"x": x.clone()}

    report = testing.check_algorithm(Eager(eta=lambda k: 0.1 / (k + 1)))  # type: ignore[arg-type]
    assert {testing.KERNEL, testing.PARAMETERS}.isdisjoint(report.checked)
    assert any("Eager is not plain arithmetic" in sentence for sentence in report.skipped)
    assert any("eta is a Python function" in sentence for sentence in report.skipped)
    assert "skipped" in str(report)


def test_a_correct_method_passes_every_check() -> None:
    assert not testing.check_algorithm(Descent()).skipped


def test_a_single_agent_is_always_included() -> None:
    @dataclass(frozen=True)
    class Pair(Descent):
        def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
            return {"x": x + 0 * s.x[1:2]}

    with pytest.raises(AssertionError, match="ring:1"):
        testing.check_algorithm(Pair(), graphs=("complete:2",))


@dataclass(frozen=True)
class WeightDecay(Descent):
    """x⁺ = (1 − ηd)Wx − ηg."""

    decay: float = 0.5
    decays: ClassVar[bool] = True

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Step:
        Wx = net.mix(s.x)
        g = yield s.x
        return {"x": (1 - h.eta * self.decay) * Wx - h.eta * g}


@dataclass(frozen=True)
class Shifting(Decaying):
    """Declares weight decay and moves x to another place instead."""

    decays: ClassVar[bool] = True

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x + 0.1}


def test_a_method_with_weight_decay_passes_and_the_report_says_what_it_skips() -> None:
    report = testing.check_algorithm(WeightDecay(), iterations=10)
    assert len(report.skipped) == 1
    assert report.skipped[0].startswith(f"{testing.FIXED} (with weight decay it shrinks x to 0.599 of it")


def test_weight_decay_must_be_declared_and_real() -> None:
    with pytest.raises(AssertionError, match="declares decays = True"):
        testing.check_algorithm(Decaying())
    with pytest.raises(AssertionError, match="must shrink in proportion"):
        testing.check_algorithm(Shifting())


@dataclass(frozen=True)
class Extragradient(Descent):
    """x⁺ = Wx − ηg(W(x − ηg(x))): the second point needs the first gradient and a message."""

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Step:
        Wx = net.mix(s.x)
        g = yield s.x
        g = yield net.mix(s.x - h.eta * g)
        return {"x": Wx - h.eta * g}


@dataclass(frozen=True)
class Uneven(Descent):
    """Yields twice with tensors, once when it is recorded."""

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Step:
        g = yield s.x
        if isinstance(g, torch.Tensor) and len(g) > 1:
            g = yield s.x
        return {"x": net.mix(s.x) - h.eta * g}


def test_a_method_with_several_gradients_passes_every_check() -> None:
    assert not testing.check_algorithm(Extragradient()).skipped


def test_a_step_always_yields_equally_often() -> None:
    with pytest.raises(InputError, match="the step of Uneven does not always yield equally often"):
        testing.check_algorithm(Uneven())
