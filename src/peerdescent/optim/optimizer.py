"""Any method as a torch optimizer: one agent per process."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload

import torch
import torch.distributed as dist
from torch import nn
from torch.amp.grad_scaler import GradScaler
from typing_extensions import Unpack

from peerdescent import graphs
from peerdescent.algorithms import Algorithm
from peerdescent.distributed.exchange import Traffic
from peerdescent.errors import InputError
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.optim.bucket import Bucket, with_numbers
from peerdescent.optim.call_log import STEP
from peerdescent.optim.precision import restore_precision, state_dtype
from peerdescent.optim.scaling import unscaled
from peerdescent.optim.setup import (
    STARTS,
    Options,
    check_options,
    facts,
    group_of,
    named_parameters,
    peers_of,
    trained_parameters,
)

Parameters = Iterable[torch.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, torch.Tensor]]


class Decentralized(torch.optim.Optimizer):
    """Any method of the library, or your own, as an optimizer.

    Each parameter group is a separate row with its own hyperparameters: `lr` (the method's η, or the weight of its
    gradient) and the method's other rates under their names. LR schedulers or your code may change them between
    steps; rates that are schedules evolve by themselves and do not appear in the groups.

    Only parameters that require a gradient when the optimizer is built are updated and sent; all processes must agree
    on which. One that is frozen later still mixes, with a zero gradient once its `grad` is None.

    All processes make the same calls in the same order; if they do not, the calls raise an InputError that names who
    did what.

    Args:
        params: parameters or parameter groups; those to train have one dtype per group and are on one device.
        graph: the communication graph, one agent per process: a Graph, a networkx graph or a text such as "ring:4".
        algorithm: the method.
        **options: see `Options`.

    >>> from peerdescent.algorithms import make
    >>> model = nn.Linear(2, 1)
    >>> opt = Decentralized(model.parameters(), "complete:1", make("d-sgd-1", eta=0.1))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> before = model.bias.item()
    >>> opt.step()
    >>> round(before - model.bias.item(), 6)
    0.1
    """

    _step_supports_amp_scaling = True  # a GradScaler then lets `step` decide whether to skip

    def __init__(self, params: Parameters, graph: object, algorithm: Algorithm, **options: Unpack[Options]) -> None:
        check_options(options)
        # Only through the scaler itself can processes agree on what it found, and on its scale.
        warnings.filterwarnings("ignore", "GradScaler is going to stop passing itself", FutureWarning)
        self.algorithm, self.graph = algorithm, graphs.as_graph(graph)
        self._names = {name: _key(name, algorithm) for name in _numbers(algorithm)}
        self._joining, self._traffic = False, Traffic()
        super().__init__(params, {key: getattr(algorithm, name) for name, key in self._names.items()})
        trained = [trained_parameters(number, group) for number, group in enumerate(self.param_groups)]
        if not any(trained):
            raise InputError("no parameter requires a gradient: an optimizer needs at least one that does.")
        given = [named_parameters(number, group) for number, group in enumerate(self.param_groups)]
        self._frozen = {name: p for named in given for name, p in named.items() if not p.requires_grad}
        self._peers = peers_of(self.graph, group_of(options))
        self._label = "" if self._peers is None else self._peers.next_label()
        with self._call(f"{type(self).__name__}(...)"):
            self._set_up(trained, options)
        self._expose_state()

    def _set_up(self, trained: Sequence[dict[str, torch.Tensor]], options: Options) -> None:
        """Check that all processes agree, and make a row for each group that has parameters to train."""
        self._agree()
        if self._peers is not None:
            self._peers.check_same_on_all_ranks(facts(self.algorithm, self.graph, trained, options))
            if options.get("start", STARTS[0]) == "shared":
                for parameter in (p for group in self.param_groups for p in group["params"]):
                    self._peers.broadcast(parameter.data)
        kinds = options.get("laplacian", "metropolis"), options.get("mixing", "metropolis")
        weights = MixingWeights.build(self.graph, *kinds, self.algorithm)
        self.notes = weights.notes
        self._trained_groups = [number for number, parameters in enumerate(trained) if parameters]
        self._buckets = [self._bucket(number, trained[number], weights, options) for number in self._trained_groups]
        if self._peers is not None:  # both kernels send the same messages, but not in the same order
            kernels = [bucket.update.description.partition(" (")[0] for bucket in self._buckets]
            self._peers.check_same_on_all_ranks({"kernel": ", ".join(kernels)})
        for bucket in self._buckets:
            bucket.start()

    def _bucket(
        self, number: int, parameters: dict[str, torch.Tensor], weights: MixingWeights, options: Options
    ) -> Bucket:
        one = next(iter(parameters.values()))
        message_dtype = options.get("message_dtype", "same")
        if self._peers is not None:
            self._peers.prepare_device(one.device)
        network = make_network(
            weights, state_dtype(one.dtype), one.device, message_dtype, self._peers, traffic=self._traffic
        )
        kernel, period = options.get("kernel", "auto"), options.get("communication_period", 1)
        return Bucket(parameters, self._variant(self.param_groups[number]), network, kernel, period)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in torch, but only during construction: other agents would not know of a later group."""
        if hasattr(self, "_buckets"):
            raise InputError("a parameter group cannot be added later: make a new optimizer in all processes.")
        super().add_param_group(param_group)

    @overload
    def step(self, closure: None = ..., *, grad_scaler: GradScaler | None = ...) -> None: ...
    @overload
    def step(self, closure: Callable[[], float], *, grad_scaler: GradScaler | None = ...) -> float: ...

    @torch.no_grad()
    def step(
        self, closure: Callable[[], float] | None = None, *, grad_scaler: GradScaler | None = None
    ) -> float | None:
        """One iteration with the current gradients; a parameter without a gradient counts as having a zero one.

        A process that leaves out a batch calls `zero_grad` and `step` all the same. With `GradScaler.step(optimizer)`
        all processes skip the step if the gradient of any is not finite, and all scales change alike.

        Args:
            closure: computes the loss and the gradients first.
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
        for bucket in self._buckets:
            bucket.take_gradients()
        self._advance(overflows)
        return loss

    @contextmanager
    def join(self) -> Iterator[None]:
        """A context for loops with unequal numbers of steps: put the loop inside, in all processes.

        A process that leaves it early goes on with zero gradients, and with the hyperparameters of those that still
        step (the largest, where they differ), until all have left: its parameters follow its neighbours', and what
        the method keeps invariant stays so. Inside, call only `step`; each costs an extra all_reduce of a few bytes.
        Afterwards all processes have made equally many steps. Call the LR scheduler of an epoch after the context.
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
            active: whether this process has gradients; otherwise they are zero.
        """
        kind = " inside join()" if self._joining else " with a GradScaler" if overflows is not None else ""
        with self._call(f"{STEP}{kind}"):
            if kind:
                overflow, anyone = self._agree(max([0.0, *(float(flag) for flag in overflows or [])]), float(active))
                for flag in overflows or []:
                    flag.fill_(overflow)
                if overflow or not anyone:
                    return bool(anyone)
            if self._joining:
                self._share_hyperparameters(active)
            for group, bucket in self._rows():
                if not active:
                    bucket.update.gradient.zero_()
                bucket.step(self._variant(group))
                group["step"] = bucket.k
            if self._peers is not None:
                self._peers.log.steps = self._buckets[0].k
        return True

    @torch.no_grad()
    def restart(self) -> None:
        """Use the current parameters as x and send them again; call it in all processes together."""
        current = [bucket.current() for bucket in self._buckets]
        for bucket in self._buckets:
            bucket.adopt()
        with self._call("restart()"):
            self._agree()
            for (group, bucket), values in zip(self._rows(), current, strict=True):
                memory = bucket.memory()
                if "x" in memory:  # the parameters are views of another point
                    memory["x"] = values
                bucket.restart(group["step"], memory)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved optimizer; load the model first, and both in all processes together."""
        super().load_state_dict(state_dict)
        restore_precision(self, state_dict)
        with torch.no_grad():
            for bucket in self._buckets:
                bucket.adopt()
            with self._call("load_state_dict()"):
                self._agree()
                for group, bucket in self._rows():
                    saved = {name: [self.state[p][name] for p in bucket.parameters] for name in bucket.memory()}
                    bucket.restart(group["step"], saved)
        self._expose_state()

    def wait(self) -> None:
        """Await all messages in flight, in all processes together; call it before the process group is destroyed."""
        with self._call("wait()"):
            for bucket in self._buckets:
                bucket.update.wait()
            self._agree()  # what this agent has sent has arrived

    @contextmanager
    def averaged(self, model: nn.Module | None = None) -> Iterator[None]:
        """Within this context the parameters, and the model's real-valued buffers, are the mean over all agents.

        All processes enter it together. Frozen parameters stay as they are in each process. Messages in flight are
        not affected, and the end restores everything.
        """
        self._check_parameters()
        parameters = [p for bucket in self._buckets for p in bucket.parameters]
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
            means = [self._mean(x) for bucket in self._buckets for x in bucket.solution()]
            buffer_means = [self._mean(buffer) for buffer in buffers]
        try:
            for parameter, mean in zip(parameters, means, strict=True):
                parameter.data = mean.to(parameter.dtype)
            for buffer, mean in zip(buffers, buffer_means, strict=True):
                buffer.copy_(mean)
            yield
        finally:
            for bucket in self._buckets:
                bucket.link()
            for buffer, value in zip(buffers, kept, strict=True):
                buffer.copy_(value)

    def bytes_sent(self) -> int:
        """The bytes of the messages that this optimizer has sent to this agent's neighbours so far."""
        return self._traffic.bytes_sent

    def _rows(self) -> Iterator[tuple[dict[str, Any], Bucket]]:
        """The groups that have parameters to train, and their rows; torch may replace the groups."""
        return zip((self.param_groups[number] for number in self._trained_groups), self._buckets, strict=True)

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
        for bucket in self._buckets:
            bucket.check_linked()
        for name, parameter in self._frozen.items():
            if parameter.requires_grad:
                raise InputError(
                    f"{name} was frozen when the optimizer was built and requires a gradient now: build a new "
                    "optimizer in all processes."
                )

    def _share_hyperparameters(self, active: bool) -> None:
        """Take over the hyperparameters of the active processes, if this one is not."""
        places = [(group, key) for group, _ in self._rows() for key in self._names.values()]
        values = torch.tensor(
            [float(group[key]) if active else -math.inf for group, key in places], dtype=torch.float64
        )
        if self._peers is not None and places:
            self._peers.all_reduce(values, dist.ReduceOp.MAX)
        if not active:
            for (group, key), value in zip(places, values.tolist(), strict=True):
                group[key] = value

    def _mean(self, a: torch.Tensor) -> torch.Tensor:
        mean = a.detach().clone(memory_format=torch.contiguous_format)
        if self._peers is not None:
            self._peers.all_reduce(mean)
        return mean.div_(self.graph.n)

    def _variant(self, group: dict[str, Any]) -> Algorithm:
        """The method with this group's hyperparameters."""
        return with_numbers(self.algorithm, {name: float(group[key]) for name, key in self._names.items()})

    def _expose_state(self) -> None:
        """Make the torch state of every parameter to train views of the method's state."""
        for group, bucket in self._rows():
            group["step"] = bucket.k
            for name, pieces in bucket.memory().items():
                for parameter, piece in zip(bucket.parameters, pieces, strict=True):
                    self.state[parameter][name] = piece


def _numbers(algorithm: Algorithm) -> list[str]:
    """The rates that are plain numbers."""
    return [name for name in algorithm.rates if isinstance(getattr(algorithm, name), float)]


def _key(name: str, algorithm: Algorithm) -> str:
    """A rate's name in a parameter group: the one that multiplies the gradient is torch's lr."""
    return "lr" if name == ("eta" if "eta" in algorithm.rates else algorithm.rates[0]) else name
