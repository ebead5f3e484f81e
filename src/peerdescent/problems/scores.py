"""What a point scores besides its loss: accuracy and loss on test data, and metrics of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.problems.model_checks import in_brief

Metric = Callable[..., Any]
"""A function of (outputs, targets) on the test data, or of x for a problem without a model; it returns a number."""
Metrics = Mapping[str, Metric]
Scores = dict[str, float | None]


def has_classes(targets: Any) -> bool:
    """Whether the targets are the numbers of classes, one per sample."""
    return isinstance(targets, torch.Tensor) and not targets.is_floating_point() and targets.dim() == 1


def rows_of(targets: Any) -> int:
    """Return the number of samples of a batch."""
    return len(tree_leaves(targets)[0])


def scores_on(
    model: Callable[[Any], Any], chunks: Iterable[tuple[Any, Any]], loss: Callable[[Any, Any], torch.Tensor], keep: bool
) -> tuple[Scores, tuple[Any, ...]]:
    """Return accuracy (None without classes) and test loss of a model in one pass; if `keep`, outputs and targets too.

    >>> chunks = [(torch.eye(2)[:1], torch.tensor([0])), (torch.eye(2)[1:], torch.tensor([0]))]
    >>> scores, _ = scores_on(lambda a: a, chunks, torch.nn.functional.nll_loss, False)
    >>> scores
    {'accuracy': 0.5, 'test_loss': -0.5}
    """
    right, count, total = 0, 0, 0.0
    classes = True
    kept: list[tuple[Any, Any]] = []
    for inputs, targets in chunks:
        outputs = model(inputs)
        rows = rows_of(targets)
        count, total = count + rows, total + rows * float(loss(outputs, targets))
        classes = classes and has_classes(targets) and isinstance(outputs, torch.Tensor)
        if classes:
            right += int((outputs.argmax(dim=1) == targets).sum())
        if keep:
            kept.append((outputs, targets))
    scores: Scores = {"accuracy": right / count if classes else None, "test_loss": total / count}
    return scores, tuple(joined(part) for part in zip(*kept, strict=True))


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
