"""What a point scores besides its loss: accuracy and loss on test data, and metrics of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.problems.model_checks import in_brief

Metric = Callable[..., Any]
"""A function of (outputs, targets) on the test data, or of x for a problem without a model; it returns a number."""
Metrics = Mapping[str, Metric]
Scores = dict[str, float | None]


def has_classes(targets: torch.Tensor) -> bool:
    """Whether the targets are the numbers of classes, one per sample."""
    return not targets.is_floating_point() and targets.dim() == 1


def scores_on(
    model: Callable[[Any], Any],
    inputs: torch.Tensor,
    targets: torch.Tensor,
    loss: Callable[[Any, torch.Tensor], torch.Tensor],
    chunk: int,
    keep: bool,
) -> tuple[Scores, Any]:
    """Return accuracy (None without classes) and test loss of a model in one pass, and its outputs if `keep`.

    >>> scores, _ = scores_on(lambda a: a, torch.eye(2), torch.tensor([0, 0]), torch.nn.functional.nll_loss, 1, False)
    >>> scores
    {'accuracy': 0.5, 'test_loss': -0.5}
    """
    classes, count = has_classes(targets), len(targets)
    right, total = 0, 0.0
    kept: list[Any] = []
    for begin in range(0, count, chunk):
        some = targets[begin : begin + chunk]
        outputs = model(inputs[begin : begin + chunk])
        total += len(some) * float(loss(outputs, some))
        if classes:
            right += int((outputs.argmax(dim=1) == some).sum())
        if keep:
            kept.append(outputs)
    return {"accuracy": right / count if classes else None, "test_loss": total / count}, joined(kept) if keep else None


def joined(parts: Sequence[Any]) -> Any:
    """Join the outputs of a model for one chunk of samples after another; they may be tuples or dicts of tensors."""
    first = parts[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(list(parts))
    if isinstance(first, Mapping):
        return {key: joined([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple | list):
        return tuple(joined(part) for part in zip(*parts, strict=True))
    raise InputError(f"the model returns {described(first)}: metrics need tensors, or tuples or dicts of them.")


def own_scores(metrics: Metrics, *arguments: Any) -> Scores:
    """Return the numbers of the user's metrics.

    >>> own_scores({"largest": torch.max}, torch.tensor([1.0, 3.0]))
    {'largest': 3.0}
    >>> own_scores({"name": lambda x: "three"}, torch.tensor([1.0, 3.0]))
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: the metric 'name' returns 'three': expected a number.
    """
    return {name: _number(name, metric, arguments) for name, metric in metrics.items()}


def _number(name: str, metric: Metric, arguments: tuple[Any, ...]) -> float:
    try:
        with torch.no_grad():
            value = metric(*arguments)
    except Exception as error:
        expected = "x" if len(arguments) == 1 else "(outputs, targets)"
        raise InputError(
            f"the metric {name!r} fails: {type(error).__name__}: {in_brief(error)}; it is called as a function of "
            f"{expected}."
        ) from error
    try:
        if isinstance(value, str | bytes | bool | complex):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"the metric {name!r} returns {described(value)}: expected a number.") from None
