"""Running a method's step, which its author may have written in any way: what is wrong with it, in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from peerdescent._util.validation import described
from peerdescent.algorithms import Algorithm, Step
from peerdescent.algorithms.base import Network
from peerdescent.algorithms.state import memory_of
from peerdescent.errors import InputError, PeerdescentError

EXPECTED = "a step yields each point where a gradient is wanted, mostly once, and returns its new state as a dict"
MOST = 100
"""Gradients of one iteration: a step that yields more often is taken for one that never ends."""


class StepError(InputError):
    """A method's step does not do what a step must do."""


def start_step(
    algorithm: Algorithm, state: SimpleNamespace, network: Network, numbers: SimpleNamespace, local: bool = False
) -> tuple[Step, Any]:
    """Run a step up to its first `yield`; return it, waiting for the gradient, and the point that it yields."""
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


def continue_step(algorithm: Algorithm, step: Step, gradient: object) -> Any:
    """Pass a gradient to a step that wants another one; return the next point."""
    with _named(algorithm):
        try:
            point = step.send(gradient)
        except StopIteration:
            raise _wrong(algorithm, "does not always yield equally often") from None
        if point is None:
            raise _wrong(algorithm, "yields None")
    return point


def finish_step(algorithm: Algorithm, step: Step, gradient: object) -> dict[str, Any]:
    """Pass the last gradient to a step that waits for it; return the new state."""
    with _named(algorithm):
        try:
            step.send(gradient)
        except StopIteration as end:
            return _checked(algorithm, end.value)
    raise _wrong(algorithm, "does not always yield equally often")


def run_step(
    algorithm: Algorithm,
    state: SimpleNamespace,
    network: Network,
    numbers: SimpleNamespace,
    gradient: Callable[[int], object],
    local: bool = False,
) -> tuple[list[Any], dict[str, Any]]:
    """Run a whole step, given its gradients by number; return the points that it yields and the new state."""
    step, point = start_step(algorithm, state, network, numbers, local)
    points = [point]
    with _named(algorithm):
        while len(points) <= MOST:
            try:
                points.append(step.send(gradient(len(points) - 1)))
            except StopIteration as end:
                return points, _checked(algorithm, end.value)
            if points[-1] is None:
                raise _wrong(algorithm, "yields None")
    raise _wrong(algorithm, f"yields more than {MOST} times")


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
