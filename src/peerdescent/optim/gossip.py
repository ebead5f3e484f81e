"""Any optimizer of torch inside: each agent steps on its own, and the agents mix their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from peerdescent._util.validation import check_integer, described
from peerdescent.algorithms import DSGD1
from peerdescent.errors import InputError
from peerdescent.graphs import DirectedGraph
from peerdescent.graphs.own_weights import as_kind
from peerdescent.mixing.impaired_rounds import iteration_of
from peerdescent.mixing.network import make_network
from peerdescent.mixing.periods import Periods
from peerdescent.mixing.sequence_weights import make_weights
from peerdescent.optim.collective import CollectiveOptimizer
from peerdescent.optim.compression import compression_from, on_processes
from peerdescent.optim.outer import Outer
from peerdescent.optim.precision import state_dtype
from peerdescent.optim.row import ParameterRow
from peerdescent.optim.setup import Options, check_options, group_of

ORDERS = ("adapt-then-combine", "combine-then-adapt")
KEY = "gossip"
"""Where a state dict holds what is not the inner optimizer's."""


class Gossip(CollectiveOptimizer):
    r"""Any optimizer of torch, one agent per process, whose parameters are mixed with the neighbours' every H steps.

    With u, the update that the inner optimizer computes at x:

    .. math:: x^+ = W(x + u) \quad\text{(adapt-then-combine)}, \qquad x^+ = Wx + u \quad\text{(combine-then-adapt)}

    in every H-th step, and x⁺ = x + u in between. If the agents combine first, the messages travel during the forward
    and backward pass. What the inner optimizer remembers, such as Adam's moments, stays local. `outer` adds momentum
    on what the H steps have changed, as DiLoCo does (see `Outer`).

    `param_groups` and `state` are those of the inner optimizer, so that LR schedulers act on it. Parameters stay
    where they are; only those that require a gradient when the optimizer is built are sent, and all processes must
    agree on which. A parameter without a gradient is left out by the inner optimizer, and mixes all the same; so do
    all parameters of a process that waits in `join`.

    For parameters that need different optimizers, such as Muon for matrices and AdamW for the rest, make a Gossip of
    each, in the same order in all processes.

    Args:
        inner: the optimizer of this agent, built on its model's parameters.
        graph: the communication graph, one agent per process: a Graph, a networkx graph or a text such as "ring:4".
        every: H, the steps from one exchange to the next; or "8,4@1000,1@3000", or "random:P", a probability.
        order: "adapt-then-combine" or "combine-then-adapt".
        outer: the outer step, None for none.
        average_every: the steps from one global average to the next (see `average`), None for never.
        mixing: the kind of W.
        message_dtype: "same", or "bf16" for half the bytes.
        compress: "topk:SHARE", "randk:SHARE", "qsgd:BITS", "sign" or "bf16": send compressed changes of copies, which
            are part of the state; save it before `wait`.
        consensus_step: c, which multiplies I−W; by a rule unless given, 1 without compression.
        seed: decides the random numbers of compressors and of exchanges.
        start: "independent" keeps each agent's parameters, "shared" broadcasts those of rank 0.
        process_group: the processes of torch.distributed that are the agents, by rank; all by default.
        mesh: a DeviceMesh of one dimension in their place.

    >>> model = torch.nn.Linear(2, 1)
    >>> opt = Gossip(torch.optim.AdamW(model.parameters(), lr=0.1), "complete:1", every=4, outer=Outer())
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> before = model.bias.item()
    >>> opt.step()
    >>> round(before - model.bias.item(), 1)
    0.1
    """

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        graph: object,
        *,
        every: int | str = 1,
        order: Literal["adapt-then-combine", "combine-then-adapt"] = "adapt-then-combine",
        outer: Outer | None = None,
        average_every: int | None = None,
        mixing: str = "metropolis",
        message_dtype: str = "same",
        compress: str = "none",
        consensus_step: float | None = None,
        seed: int = 0,
        start: str = "independent",
        process_group: dist.ProcessGroup | None = None,
        mesh: DeviceMesh | None = None,
    ) -> None:
        mixing = as_kind("mixing", mixing)
        messages = {
            "message_dtype": message_dtype,
            "compress": compress,
            "consensus_step": consensus_step,
            "seed": seed,
        }
        given: Options = {"mixing": mixing, "start": start, **messages}  # type: ignore[typeddict-item]
        check_options(given)
        self.inner, self._periods, self.order = _checked(inner), Periods.parse(every, "every").seeded(seed), order
        self.outer, self.average_every, self.steps = outer, average_every, 0
        if not isinstance(order, str) or order not in ORDERS:
            raise InputError(f"order = {described(order)}: expected one of {', '.join(ORDERS)}.")
        if outer is not None and not isinstance(outer, Outer):
            raise InputError(f"outer is {described(outer)}: expected Outer(...) or None.")
        if average_every is not None:
            check_integer("average_every", average_every, 1)
        self.__setstate__({})  # the hooks of torch's optimizers; groups and state are the inner one's
        trained = self._prepare(graph, group_of({"process_group": process_group, "mesh": mesh}))
        options: dict[str, Any] = {"every": self.every, "order": order, "outer": outer, "average_every": average_every}
        options |= {"mixing": mixing, **messages}
        self._options = options
        with self._call("Gossip(...)"), torch.no_grad():
            self._check_same({"inner optimizer": type(inner).__name__}, trained, {**options, "start": start})
            if start == "shared":
                self._share_parameters()
            self._rows = self._make_rows(trained, mixing, messages)
            self._anchors = [row.values() for row in self._rows] if outer else []
            self._momenta = [torch.zeros_like(anchor) for anchor in self._anchors]
            self._begin()

    def _make_rows(
        self, trained: Sequence[dict[str, torch.Tensor]], mixing: str, messages: Mapping[str, Any]
    ) -> list[ParameterRow]:
        """One row for each dtype, whatever the groups."""
        parameters = {name: p for group in trained for name, p in group.items()}
        if isinstance(self.graph, DirectedGraph):
            raise InputError(
                f"Gossip needs an undirected graph, and {self.graph} is not: use optim.SGP or optim.PushDIGing."
            )
        weights = make_weights(self.graph, "metropolis", mixing, DSGD1())
        compression, rounds_before = compression_from(DSGD1(), weights, messages), self._periods.rounds_before
        self.notes = weights.notes + compression.notes
        rows = []
        for dtype in dict.fromkeys(p.dtype for p in parameters.values()):
            chosen = {name: p for name, p in parameters.items() if p.dtype == dtype}
            device = next(iter(chosen.values())).device
            if self._peers is not None:
                self._peers.prepare_device(device)
            exact = dtype == torch.bfloat16 and self.outer is None  # what is sent has no more digits
            sent_as = "bf16" if exact and compression.compressor is None else messages["message_dtype"]
            filters, pairs = on_processes(compression, weights, rounds_before, self._peers)
            network = make_network(
                weights,
                state_dtype(dtype),
                device,
                sent_as,
                self._peers,
                traffic=self._traffic,
                rounds_before=rounds_before,
                filters=filters,
                consensus_step=compression.step,
                pairs=pairs,
            )
            rows.append(ParameterRow(chosen, network))
        return rows

    @property
    def every(self) -> int | str:
        """H, or the schedule of H."""
        return self._periods.plain

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The inner optimizer's."""
        return self.inner.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The inner optimizer's."""
        return self.inner.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The inner optimizer's."""
        return self.inner.defaults

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: other agents would not know of a later group."""
        raise InputError("a parameter group cannot be added later: make a new optimizer in all processes.")

    def _take_gradients(self) -> None:
        """The inner optimizer reads them."""

    def _iterate(self, active: bool) -> int:
        """One iteration; without gradients the inner optimizer rests."""
        if active:
            self.inner.step()
        if self._periods.exchanges(self.steps):
            for number in range(len(self._rows)):
                self._exchange(number)
        self.steps += 1
        if self.average_every and self.steps % self.average_every == 0:
            self._average()
        self._begin()
        return self.steps

    @property
    def _next(self) -> int:
        """The step of the next exchange."""
        return iteration_of(self._periods.rounds_before(self.steps), self._periods.rounds_before)

    def _begin(self) -> None:
        """Send what can travel during the next forward and backward pass."""
        if self.order == "combine-then-adapt":
            for number, row in enumerate(self._rows):
                if self.outer is None and self._periods.exchanges(self.steps):
                    row.send(row.values(), self._next)
                elif self.outer is not None and not row.sent:  # known as soon as a round begins
                    row.send(self._anchors[number], self._next)

    def _exchange(self, number: int) -> None:
        """Combine with the neighbours, after the last inner update before an exchange."""
        row = self._rows[number]
        x = row.values()
        if self.outer is not None:
            anchor = self._anchors[number]
            x = anchor - self.outer.direction(anchor, x, self._momenta[number])
        if self.order == "adapt-then-combine":
            row.send(x, self._next)
        x -= row.disagreement()
        row.assign(x)
        if self.outer is not None:
            self._anchors[number].copy_(x)

    @torch.no_grad()
    def average(self) -> None:
        """Set the parameters of all agents to their mean for good, for example at the end; in all processes together.

        `averaged` does so for a while only.
        """
        self._check_parameters()
        with self._call("average()"):
            self._agree()
            self._average()
            self._begin()

    def _average(self) -> None:
        """The mean of parameters and anchors, by an all_reduce that sends 2p(n−1)/n numbers."""
        for number, row in enumerate(self._rows):
            self._forget(row)
            x = self._mean_sent(row.values())
            row.assign(x)
            if self.outer is not None:  # between two exchanges they differ from x
                exchanged = self.steps == 0 or self._periods.exchanges(self.steps - 1)
                self._anchors[number] = x if exchanged else self._mean_sent(self._anchors[number])

    def _forget(self, row: ParameterRow) -> None:
        """Drop the message in flight, if there is one: the parameters are about to change."""
        row.wait()
        row.sent = False

    def restart(self) -> None:
        """Go on from the current parameters, and count H steps from them; call it in all processes together."""
        self._check_parameters()
        with self._call("restart()"), torch.no_grad():
            self._agree()
            for number, row in enumerate(self._rows):
                self._forget(row)
                if self.outer is not None:
                    self._anchors[number].copy_(row.values())
            self._begin()

    def wait(self) -> None:
        """Await all messages in flight, in all processes together; call it before the process group is destroyed."""
        with self._call("wait()"):
            for row in self._rows:
                row.wait()
            self._agree()  # what this agent has sent has arrived

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's state dict, with the steps made and the outer step's state under the key "gossip"."""
        return {**self.inner.state_dict(), KEY: self._own_state()}

    def _own_state(self) -> dict[str, Any]:
        messages = [row.memory() for row in self._rows]
        known = {"steps": self.steps, "anchors": self._anchors, "momenta": self._momenta}
        return {**known, "messages": messages} if any(messages) else known

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved optimizer; load the model first, and both in all processes together."""
        own = state_dict.get(KEY)
        mine = self._own_state()
        if own is None or len(own["anchors"]) != len(self._anchors) or _messages(own) != _messages(mine):
            raise InputError(
                "the state to load is of another optimizer: expected one that a Gossip with the same outer step and "
                "the same compression saved."
            )
        self.inner.load_state_dict({name: value for name, value in state_dict.items() if name != KEY})
        self._resume(own)

    def _resume(self, own: dict[str, Any]) -> None:
        """Continue from the current parameters with a saved state."""
        self._check_parameters()
        with self._call("load_state_dict()"), torch.no_grad():
            self._agree()
            self.steps = int(own["steps"])
            saved = [*own["anchors"], *own["momenta"]]
            for mine, value in zip([*self._anchors, *self._momenta], saved, strict=True):
                mine.copy_(value)
            for number, row in enumerate(self._rows):
                self._forget(row)
                for name, value in own.get("messages", [{}] * len(self._rows))[number].items():
                    row.memory()[name].copy_(value)
                row.synchronize()
            self._begin()

    def __reduce__(self) -> Any:
        """Pickled, it is built again with its parameters, in all processes together."""
        return _built_again, (self.inner, self.graph, self._options, self._own_state())

    def _solution(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(p, p) for row in self._rows for p in row.parameters]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for row in self._rows:
            row.check()
        known = sum(len(row.parameters) for row in self._rows) + len(self._frozen)
        if known != sum(len(group["params"]) for group in self.param_groups):
            raise InputError("a parameter group was added later: make a new optimizer in all processes.")


def _built_again(inner: torch.optim.Optimizer, graph: object, options: dict[str, Any], own: dict[str, Any]) -> Gossip:
    opt = Gossip(inner, graph, **options)
    opt._resume(own)
    return opt


def _messages(own: Mapping[str, Any]) -> list[dict[str, torch.Size]]:
    """What messages keep in a saved state: names and shapes."""
    return [{name: rows.shape for name, rows in each.items()} for each in own.get("messages", [])]


def _checked(inner: object) -> torch.optim.Optimizer:
    """An optimizer that can be used inside."""
    if not isinstance(inner, torch.optim.Optimizer) or isinstance(inner, CollectiveOptimizer):
        raise InputError(
            f"inner is {described(inner)}: expected an optimizer of torch, such as torch.optim.AdamW(...)."
        )
    closure = inspect.signature(inner.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InputError(f"{type(inner).__name__} evaluates the loss several times in a step: use another optimizer.")
    return inner
