"""What all optimizers over processes share: calls that agree, GradScalers, unequal numbers of steps, means."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import overload

import torch
import torch.distributed as dist
from torch import nn
from torch.amp.grad_scaler import GradScaler

from peerdescent import graphs
from peerdescent.distributed.exchange import Traffic
from peerdescent.errors import InputError
from peerdescent.optim.call_log import STEP
from peerdescent.optim.scaling import unscaled
from peerdescent.optim.setup import facts, named_parameters, peers_of, trained_parameters


class CollectiveOptimizer(torch.optim.Optimizer):
    """An optimizer of one agent per process, whose calls all processes make in the same order.

    A subclass calls `_prepare` when its parameter groups are known and defines the methods without a body.
    """

    _step_supports_amp_scaling = True  # a GradScaler then lets `step` decide whether to skip
    _closure: Callable[[], float] | None = None
    """What `step` was given, while it runs: some methods compute gradients at several points."""

    def _prepare(self, graph: object, group: dist.ProcessGroup | None) -> list[dict[str, torch.Tensor]]:
        """Read the graph, find the processes, and return each group's parameters to train, by name."""
        # Only through the scaler itself can processes agree on what it found, and on its scale.
        warnings.filterwarnings("ignore", "GradScaler is going to stop passing itself", FutureWarning)
        self.graph = graphs.as_graph(graph)
        self._joining, self._traffic = False, Traffic()
        trained = [trained_parameters(number, group) for number, group in enumerate(self.param_groups)]
        if not any(trained):
            raise InputError("no parameter requires a gradient: an optimizer needs at least one that does.")
        given = [named_parameters(number, group) for number, group in enumerate(self.param_groups)]
        self._frozen = {name: p for named in given for name, p in named.items() if not p.requires_grad}
        self._peers = peers_of(self.graph, group)
        self._label = "" if self._peers is None else self._peers.next_label()
        return trained

    def _check_same(
        self, kind: dict[str, str], trained: Sequence[dict[str, torch.Tensor]], options: dict[str, object]
    ) -> None:
        """Check that all processes build the same optimizer."""
        self._agree()
        if self._peers is not None:
            self._peers.check_same_on_all_ranks(facts(kind, self.graph, trained, options))

    def _share_parameters(self) -> None:
        """Replace the parameters, frozen ones too, by those of rank 0."""
        if self._peers is not None:
            for parameter in (p for group in self.param_groups for p in group["params"]):
                self._peers.broadcast(parameter.data)

    @abstractmethod
    def _take_gradients(self) -> None:
        """Read the gradients, before any call that others wait for."""

    @abstractmethod
    def _iterate(self, active: bool) -> int:
        """One iteration; returns how many were made. An inactive process has no gradients."""

    @abstractmethod
    def _solution(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Every parameter to train, with its value in the method's x."""

    @overload
    def step(self, closure: None = ..., *, grad_scaler: GradScaler | None = ...) -> None: ...
    @overload
    def step(self, closure: Callable[[], float], *, grad_scaler: GradScaler | None = ...) -> float: ...

    @torch.no_grad()
    def step(
        self, closure: Callable[[], float] | None = None, *, grad_scaler: GradScaler | None = None
    ) -> float | None:
        """One iteration with the current gradients.

        A process that leaves out a batch calls `zero_grad` and `step` all the same. With `GradScaler.step(optimizer)`
        all processes skip the step if the gradient of any is not finite, and all scales change alike.

        Args:
            closure: computes the loss and the gradients first. A method with several gradients per iteration needs it,
                and calls it again at other points: let it use the same batch and clear the gradients.
            grad_scaler: set by `GradScaler.step`.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._check_parameters()
        if grad_scaler is None and hasattr(self, "found_inf"):
            raise InputError("this version of torch does not pass a GradScaler to optimizers: use an earlier one.")
        overflows = None if grad_scaler is None else unscaled(self, grad_scaler)
        self._closure = closure
        try:
            self._take_gradients()
            self._advance(overflows)
        finally:
            self._closure = None
        return loss

    @contextmanager
    def join(self) -> Iterator[None]:
        """A context for loops with unequal numbers of steps: put the loop inside, in all processes.

        A process that leaves it early goes on without gradients until all have left: its parameters follow its
        neighbours', and what the method keeps invariant stays so. Inside, call only `step`; each costs an extra
        all_reduce of a few bytes. Afterwards all processes have made equally many steps. Call the LR scheduler of an
        epoch after the context.
        """
        if self._joining:
            raise InputError("join() is called inside join(): use one context around the loop.")
        self._joining = True
        try:
            yield
            self._check_parameters()
            with torch.no_grad():
                while self._advance(active=False):
                    pass
        finally:
            self._joining = False

    def _advance(self, overflows: Sequence[torch.Tensor] | None = None, active: bool = True) -> bool:
        """One iteration, unless the gradients of a process overflow; returns whether any process is active.

        Args:
            overflows: the flags of a GradScaler, which become the same in all processes.
            active: whether this process has gradients.
        """
        kind = " inside join()" if self._joining else " with a GradScaler" if overflows is not None else ""
        with self._call(f"{STEP}{kind}"):
            if kind:
                overflow, anyone = self._agree(max([0.0, *(float(flag) for flag in overflows or [])]), float(active))
                for flag in overflows or []:
                    flag.fill_(overflow)
                if overflow or not anyone:
                    return bool(anyone)
            steps = self._iterate(active)
            if self._peers is not None:
                self._peers.log.steps = steps
        return True

    @contextmanager
    def averaged(self, model: nn.Module | None = None) -> Iterator[None]:
        """Within this context the parameters, and the model's real-valued buffers, are the mean over all agents.

        All processes enter it together. Frozen parameters stay as they are in each process. Messages in flight are
        not affected, and the end restores everything.
        """
        self._check_parameters()
        solution = self._solution()
        buffers = [b for b in model.buffers() if b.is_floating_point()] if model is not None else []
        kept = [b.detach().clone() for b in buffers]
        size = sum(buffer.numel() for buffer in buffers)
        with self._call("averaged()" if model is None else "averaged(model)"):
            most, least = self._agree(size, -size)
            if most != -least:
                raise InputError(
                    f"the model's buffers have {-least:.0f} numbers in one process and {most:.0f} in another: give all "
                    "processes the same model."
                )
            means = [self._mean(x) for _, x in solution]
            buffer_means = [self._mean(buffer) for buffer in buffers]
        own = [parameter.data for parameter, _ in solution]
        try:
            for (parameter, _), mean in zip(solution, means, strict=True):
                parameter.data = mean.to(parameter.dtype)
            for buffer, mean in zip(buffers, buffer_means, strict=True):
                buffer.copy_(mean)
            yield
        finally:
            for (parameter, _), value in zip(solution, own, strict=True):
                parameter.data = value
            for buffer, value in zip(buffers, kept, strict=True):
                buffer.copy_(value)

    def bytes_sent(self) -> int:
        """The bytes of the messages that this optimizer has sent to this agent's neighbours so far."""
        return self._traffic.bytes_sent

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        """A collective call, which all processes make together."""
        if self._peers is None:
            yield
            return
        with self._peers.call(f"{name}{self._label}"):
            yield

    def _agree(self, one: float = 0.0, other: float = 0.0) -> list[float]:
        """The largest of each flag over all processes; checks that all are in the same call."""
        return [one, other] if self._peers is None else self._peers.agree((one, other))

    def _check_parameters(self) -> None:
        """Check that the parameters are still those of the construction."""
        for name, parameter in self._frozen.items():
            if parameter.requires_grad:
                raise InputError(
                    f"{name} was frozen when the optimizer was built and requires a gradient now: build a new "
                    "optimizer in all processes."
                )

    def _mean_sent(self, row: torch.Tensor) -> torch.Tensor:
        """The mean of a row over all agents; its all_reduce counts as sent."""
        n = self.graph.n
        self._traffic.bytes_sent += 2 * row.numel() * row.element_size() * (n - 1) // n
        return self._mean(row)

    def _mean(self, a: torch.Tensor) -> torch.Tensor:
        mean = a.detach().clone(memory_format=torch.contiguous_format)
        if self._peers is not None:
            self._peers.all_reduce(mean)
        return mean.div_(self.graph.n)
