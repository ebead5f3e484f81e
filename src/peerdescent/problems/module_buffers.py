"""Buffers of a module: which of them the forward pass changes, and which stay as they are.

What changes (running statistics, moving averages, counters) is a part of each agent's state. What does not (masks,
tables of positions) is shared by all agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from peerdescent.errors import InputError
from peerdescent.problems.base import Buffers


def changing_buffers(module: nn.Module, initial: Buffers, call: Callable[[], object], name: str) -> tuple[str, ...]:
    """Return the names of the buffers that the forward pass changes.

    The module is called twice. The first call may create what it keeps ready for later ones, such as a mask.

    Args:
        module: the module that `call` calls; its buffers change.
        initial: the buffers that it had before any call.
        call: one forward pass.
        name: what the error message calls the module.

    Raises:
        InputError: a buffer changes its shape or dtype, or has no initial value.

    >>> norm = nn.BatchNorm1d(2)
    >>> initial = {name: buffer.clone() for name, buffer in norm.named_buffers()}
    >>> changing_buffers(norm, initial, lambda: norm(torch.randn(4, 2)), "the model")
    ('running_mean', 'running_var', 'num_batches_tracked')
    """
    call()
    before = {key: (buffer, buffer._version, buffer.clone()) for key, buffer in module.named_buffers()}
    call()
    after = dict(module.named_buffers())
    changed = {key for key, buffer in after.items() if key not in before or _differ(buffer, *before[key])}
    names = {*running_statistics(module), *changed, *(before.keys() - after.keys())}
    for key in sorted(names):
        forms = [None if held is None else (held.shape, held.dtype) for held in (initial.get(key), after.get(key))]
        if forms[0] is None or forms[0] != forms[1] or not initial[key].numel():
            raise InputError(
                f"the buffer {key!r} of {name} is {_form(initial.get(key))} at first and {_form(after.get(key))} after "
                "a forward pass: register it with a value whose shape and dtype stay the same."
            )
    return tuple(key for key in initial if key in names)


def running_statistics(module: nn.Module) -> Iterator[str]:
    """Yield the names of the running statistics that normalizing layers update, in the modes that they are in."""
    for key, layer in module.named_modules():
        if isinstance(layer, _NormBase) and layer.training and layer.running_mean is not None:
            for kind in ("running_mean", "running_var", "num_batches_tracked"):
                if getattr(layer, kind) is not None:
                    yield f"{key}.{kind}" if key else kind


class ConstantBuffers:
    """The buffers that agents share: nothing may change them.

    Args:
        module: the module.
        changing: the names of all other buffers.
        name: what the error message calls the module.
    """

    def __init__(self, module: nn.Module, changing: tuple[str, ...], name: str) -> None:
        self._name = name
        self._known: list[tuple[str, dict[str, torch.Tensor | None], str, torch.Tensor | None, int]] = []
        for prefix, owner in module.named_modules():
            for key, buffer in owner._buffers.items():
                full = f"{prefix}.{key}" if prefix else key
                if full not in changing:
                    version = 0 if buffer is None else buffer._version
                    self._known.append((full, owner._buffers, key, buffer, version))

    def check(self) -> None:
        """Refuse a change: the results would depend on which agents share a process."""
        for full, holder, key, buffer, version in self._known:
            if holder.get(key) is not buffer or (buffer is not None and buffer._version != version):
                raise InputError(
                    f"the buffer {full!r} of {self._name} has changed, but not in the first two forward passes, which "
                    "decide whether agents have it each for themselves: update it in every forward pass or never."
                )


def _differ(now: torch.Tensor, then: torch.Tensor, version: int, value: torch.Tensor) -> bool:
    """Whether a buffer was assigned, written to, or has another value."""
    if now is not then or now._version != version:
        return True
    return not bool(((now == value) | (now.isnan() & value.isnan())).all())  # some operations write unnoticed


def _form(buffer: torch.Tensor | None) -> str:
    return "absent" if buffer is None else f"{str(buffer.dtype).removeprefix('torch.')}{list(buffer.shape)}"
