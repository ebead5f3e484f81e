"""Any method as a torch optimizer: one agent per process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypedDict, overload

import torch
import torch.distributed as dist
from torch import nn
from typing_extensions import Unpack

from peerdescent import graphs
from peerdescent._util.schema import checked, settings_of
from peerdescent.algorithms import Algorithm
from peerdescent.distributed.process_group import ProcessGroup, default_process_group
from peerdescent.errors import InputError
from peerdescent.graphs import Graph
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.optim.bucket import Bucket, with_numbers
from peerdescent.training.settings import Settings

Parameters = Iterable[torch.Tensor] | Iterable[dict[str, Any]]
STARTS = ("independent", "shared")


class Options(TypedDict, total=False):
    """The options of every optimizer, besides its method's hyperparameters.

    laplacian, mixing: the kinds of L and W, as in experiments ("metropolis").
    communication_period: steps from one exchange to the next (1).
    message_dtype: "same", or "bf16" for half the bytes ("same").
    start: "independent" keeps each agent's parameters, "shared" broadcasts those of rank 0 ("independent").
    kernel: "auto", "compiled" or "plain" ("auto").
    """

    laplacian: str
    mixing: str
    communication_period: int
    message_dtype: str
    start: str
    kernel: str


class Decentralized(torch.optim.Optimizer):
    """Any method of the library, or your own, as an optimizer.

    Each parameter group is a separate row with its own hyperparameters: `lr` (the method's η, or the weight of its
    gradient) and the method's other rates under their names. LR schedulers or your code may change them between
    steps; rates that are schedules evolve by themselves and do not appear in the groups.

    Args:
        params: parameters or parameter groups, of one dtype per group, on the CPU.
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

    def __init__(self, params: Parameters, graph: object, algorithm: Algorithm, **options: Unpack[Options]) -> None:
        _check(options)
        self.algorithm, self.graph = algorithm, graphs.as_graph(graph)
        self._group = _process_group(self.graph)
        self._names = {name: _key(name, algorithm) for name in _numbers(algorithm)}
        super().__init__(params, {key: getattr(algorithm, name) for name, key in self._names.items()})
        if options.get("start", "independent") == "shared" and self._group is not None:
            for parameter in (p for group in self.param_groups for p in group["params"]):
                dist.broadcast(parameter.data, 0)
        weights = MixingWeights.build(
            self.graph, options.get("laplacian", "metropolis"), options.get("mixing", "metropolis"), algorithm
        )
        self.notes = weights.notes
        self._buckets = [self._bucket(group, weights, options) for group in self.param_groups]
        self._expose_state()

    def _bucket(self, group: dict[str, Any], weights: MixingWeights, options: Options) -> Bucket:
        parameters: list[torch.Tensor] = group["params"]
        kinds = {(str(p.dtype), p.device.type) for p in parameters}
        if len(kinds) > 1 or parameters[0].device.type != "cpu" or not parameters[0].is_floating_point():
            found = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
            raise InputError(f"a parameter group holds {found}: expected one floating-point dtype, on the CPU.")
        network = make_network(
            weights, parameters[0].dtype, parameters[0].device, options.get("message_dtype", "same"), self._group
        )
        method = self._variant(group)
        return Bucket(
            parameters, method, network, options.get("kernel", "auto"), options.get("communication_period", 1)
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in torch, but only during construction: other agents would not know of a later group."""
        if hasattr(self, "_buckets"):
            raise InputError("a parameter group cannot be added later: make a new optimizer in all processes.")
        super().add_param_group(param_group)

    @overload
    def step(self, closure: None = ...) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One iteration with the current gradients; a parameter without a gradient counts as having a zero one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group, bucket in zip(self.param_groups, self._buckets, strict=True):
            bucket.step(self._variant(group))
            group["step"] = bucket.k
        return loss

    @torch.no_grad()
    def restart(self) -> None:
        """Use the current parameters as x and send them again; call it in all processes together."""
        for group, bucket in zip(self.param_groups, self._buckets, strict=True):
            memory = bucket.memory()
            if "x" in memory:  # the parameters are views of another point
                memory["x"] = [p.detach().clone() for p in group["params"]]
            bucket.restart(group["step"], memory)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved optimizer; load the model first, and both in all processes together."""
        super().load_state_dict(state_dict)
        with torch.no_grad():
            for group, bucket in zip(self.param_groups, self._buckets, strict=True):
                saved = {name: [self.state[p][name] for p in group["params"]] for name in bucket.memory()}
                bucket.restart(group["step"], saved)
        self._expose_state()

    def wait(self) -> None:
        """Await all messages in flight, in all processes together; call it before the process group is destroyed."""
        for bucket in self._buckets:
            bucket.update.wait()
        if self._group is not None:
            dist.barrier()  # what this agent has sent has arrived

    @contextmanager
    def averaged(self, model: nn.Module | None = None) -> Iterator[None]:
        """Within this context the parameters, and the model's real-valued buffers, are the mean over all agents.

        All processes enter it together. Messages in flight are not affected, and the end restores everything.
        """
        parameters = [p for group in self.param_groups for p in group["params"]]
        buffers = [b for b in model.buffers() if b.is_floating_point()] if model is not None else []
        kept = [b.detach().clone() for b in buffers]
        means = [self._mean(x) for bucket in self._buckets for x in bucket.solution()]
        try:
            for parameter, mean in zip(parameters, means, strict=True):
                parameter.data = mean
            for buffer in buffers:
                buffer.copy_(self._mean(buffer))
            yield
        finally:
            for bucket in self._buckets:
                bucket.link()
            for buffer, value in zip(buffers, kept, strict=True):
                buffer.copy_(value)

    def bytes_sent(self) -> int:
        """The bytes that this agent has sent to its neighbours so far."""
        return 0 if self._group is None else self._group.traffic.bytes_sent

    def _mean(self, a: torch.Tensor) -> torch.Tensor:
        mean = a.detach().clone(memory_format=torch.contiguous_format)
        if self._group is not None:
            dist.all_reduce(mean)
        return mean.div_(self.graph.n)

    def _variant(self, group: dict[str, Any]) -> Algorithm:
        """The method with this group's hyperparameters."""
        return with_numbers(self.algorithm, {name: float(group[key]) for name, key in self._names.items()})

    def _expose_state(self) -> None:
        """Make the torch state of every parameter views of the method's state."""
        for group, bucket in zip(self.param_groups, self._buckets, strict=True):
            group["step"] = bucket.k
            for name, pieces in bucket.memory().items():
                for parameter, piece in zip(group["params"], pieces, strict=True):
                    self.state[parameter][name] = piece


def _numbers(algorithm: Algorithm) -> list[str]:
    """The rates that are plain numbers."""
    return [name for name in algorithm.rates if isinstance(getattr(algorithm, name), float)]


def _key(name: str, algorithm: Algorithm) -> str:
    """A rate's name in a parameter group: the one that multiplies the gradient is torch's lr."""
    return "lr" if name == ("eta" if "eta" in algorithm.rates else algorithm.rates[0]) else name


def _process_group(graph: Graph) -> ProcessGroup | None:
    """The processes of torch.distributed; None for a single agent."""
    started = dist.is_available() and dist.is_initialized()
    size = dist.get_world_size() if started else 1
    if size != graph.n:
        hint = "" if started else ": call torch.distributed.init_process_group first"
        raise InputError(
            f"the graph has {graph.n} agents and there {'is 1 process' if size == 1 else f'are {size} processes'}; "
            f"an optimizer needs one process per agent{hint}."
        )
    return default_process_group() if size > 1 else None


def _check(options: Options) -> None:
    settings = {setting.name: setting for setting in settings_of(Settings)}
    for name, value in options.items():
        if name not in Options.__annotations__:
            raise InputError(f"an optimizer has no option {name!r}: it has {', '.join(Options.__annotations__)}.")
        if name in settings:
            checked(settings[name], value)
    if options.get("start", STARTS[0]) not in STARTS:
        raise InputError(f"start = {options['start']!r}: expected one of {', '.join(STARTS)}.")
