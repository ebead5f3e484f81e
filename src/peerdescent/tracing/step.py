"""Running a method's step, which its author may have written in any way: what is wrong with it, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from peerdescent._util.validation import described
from peerdescent.algorithms import Algorithm, Step
from peerdescent.algorithms.base import Network
from peerdescent.algorithms.state import memory_of
from peerdescent.errors import InputError, PeerdescentError

EXPECTED = "a step yields once, the point where the gradient is wanted, and returns its new state as a dict"


class StepError(InputError):
    """A method's step does not do what a step must do."""


def start_step(
    algorithm: Algorithm, state: SimpleNamespace, network: Network, numbers: SimpleNamespace, local: bool = False
) -> tuple[Step, Any]:
    """Run a step up to its `yield`; return it, waiting for the gradient, and the point that it yields."""
    with _named(algorithm):
        step = (algorithm.local_step if local else algorithm.step)(state, network, numbers)
        if not hasattr(step, "send"):
            raise _wrong(algorithm, f"is no generator but returns {described(step)}")
        try:
            point = next(step)
        except StopIteration:
            raise _wrong(algorithm, "yields nothing") from None
        if point is None:
            raise _wrong(algorithm, "yields None")
    return step, point


def finish_step(algorithm: Algorithm, step: Step, gradient: object) -> dict[str, Any]:
    """Pass the gradient to a step that waits for it; return the new state."""
    with _named(algorithm):
        try:
            step.send(gradient)
        except StopIteration as end:
            return _checked(algorithm, end.value)
    raise _wrong(algorithm, "yields twice")


def _checked(algorithm: Algorithm, new: object) -> dict[str, Any]:
    if not isinstance(new, Mapping):
        raise _wrong(algorithm, f"returns {described(new)}")
    known = {"x", *memory_of(algorithm)}
    if "x" not in new or not set(new) <= known:
        raise _wrong(algorithm, f"declares {sorted(known)} and returns {sorted(map(str, new))}")
    return dict(new)


def _wrong(algorithm: Algorithm, what: str) -> StepError:
    return StepError(f"the step of {type(algorithm).__name__} {what}: {EXPECTED}.")


@contextmanager
def _named(algorithm: Algorithm) -> Iterator[None]:
    """Turn whatever a step raises into one sentence, with the original error as its cause."""
    try:
        yield
    except PeerdescentError:
        raise
    except Exception as error:
        text = (str(error).strip() or "no message").splitlines()[0][:200].rstrip(".")
        raise StepError(f"the step of {type(algorithm).__name__} failed: {type(error).__name__}: {text}.") from error
