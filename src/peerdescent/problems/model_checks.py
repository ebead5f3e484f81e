"""What a user's model and loss must be, and what they raise, in one sentence."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from peerdescent._util.validation import described
from peerdescent.errors import InputError, PeerdescentError


@contextmanager
def explained(sentence: str) -> Iterator[None]:
    """Turn whatever a model or a loss raises into one sentence, with the original error as its cause.

    >>> with explained("the gradient cannot be computed"):
    ...     1 / 0
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: the gradient cannot be computed: ZeroDivisionError: division by zero; check model, \
loss and data.
    """
    try:
        yield
    except PeerdescentError:
        raise
    except Exception as error:
        name = type(error).__name__
        raise InputError(f"{sentence}: {name}: {in_brief(error)}; check model, loss and data.") from error


def in_brief(error: Exception, length: int = 200) -> str:
    """Return the first sentence of an error message."""
    text = str(error).strip() or "no message"
    return text.splitlines()[0].partition(". ")[0][:length].rstrip(".")


def check_model(model: nn.Module, loss: object) -> None:
    """Refuse what is no module and no loss, and a module whose layers cannot work for one agent alone."""
    if not isinstance(model, nn.Module):
        raise InputError(f"model is {described(model)}: expected a torch.nn.Module.")
    if not callable(loss):
        raise InputError(f"loss is {described(loss)}: expected a function of (outputs, targets), their mean loss.")
    for name, module in model.named_modules():
        if isinstance(module, nn.SyncBatchNorm):
            raise InputError(
                f"the layer {name or type(model).__name__!r} is a SyncBatchNorm, which averages over processes: use "
                "BatchNorm, whose running statistics belong to each agent."
            )
    tensors = [*model.parameters(), *model.buffers()]
    if any(tensor.is_meta for tensor in tensors):
        raise InputError(f"the model {type(model).__name__} is on the meta device: give its parameters values first.")
    if any(is_lazy(tensor) for tensor in tensors):
        raise InputError(
            f"the model {type(model).__name__} has lazy layers without shapes; call it once on a batch before."
        )


def copied(model: nn.Module) -> nn.Module:
    """Return a copy of the user's module."""
    try:
        return copy.deepcopy(model)
    except Exception as error:
        raise InputError(
            f"the model {type(model).__name__} cannot be copied: {type(error).__name__}: {in_brief(error)}; its "
            "parameters must be leaves, and its attributes must support copy.deepcopy."
        ) from error


def check_value(value: torch.Tensor) -> None:
    """Refuse a loss that is not one number."""
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise InputError(
            f"loss returned {described(value)}: expected a tensor with one number, the mean over the batch."
        )
