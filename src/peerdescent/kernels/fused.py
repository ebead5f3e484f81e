"""The fast path: a recorded step as compiled passes over memory, split around its messages, gradients and norms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State
from peerdescent.distributed.exchange import Exchange
from peerdescent.expressions import Array, Expression
from peerdescent.kernels import library_cache
from peerdescent.kernels.kernel import Kernel
from peerdescent.kernels.row_norms import CompiledNorms
from peerdescent.mixing.network import BlockNetwork, MemoryNetwork
from peerdescent.tracing.message_schedule import Message, Norm, Operation, plan_step, point_name
from peerdescent.tracing.recording import BIAS, DEBIAS, gradient_name, record


class CompiledUpdate:
    """The fast path: the step recorded once, written as C, compiled, and run in place.

    With all agents in one process it is one pass over memory. With several processes it is split around its
    messages: those that do not need the gradient leave in `begin` and travel while the gradient is computed. An array
    whose rows are measured is a pass of its own, and so is the point of a gradient that is no state.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        network: MemoryNetwork,
        threads: int = 1,
        gradient: torch.Tensor | None = None,
    ) -> None:
        self.algorithm, self.state, self._threads = algorithm, state, threads
        self.gradient = torch.zeros_like(state["x"]) if gradient is None else gradient
        weighted = network.scales is not None
        points, outputs = record(algorithm, tuple(state), network.local, network.rounded, weighted)
        self._schedule = plan_step(
            points, outputs, tuple(state), isinstance(network, BlockNetwork), bool(network.filters)
        )
        self._network, self._exchanges = network, dict[str, Exchange]()
        self._earlier = [torch.zeros_like(self.gradient) for _ in points[1:]]
        """Every gradient but the last, which stays in `gradient`."""
        arrays = {**state, **{gradient_name(j): a for j, a in enumerate([*self._earlier, self.gradient])}}
        arrays |= {point_name(j): torch.empty_like(state["x"]) for j in self._computed_points()}
        if network.scales is not None:
            arrays |= {DEBIAS: network.scales.debias, BIAS: network.scales.bias}
        for message in self._schedule.messages:
            assert isinstance(network, BlockNetwork)
            exchange = network.exchange(state["x"], message.all_agents, message.number)
            self._exchanges[message.array] = exchange
            if message.array in arrays:
                exchange.own.copy_(arrays[message.array])
            arrays[message.array] = exchange.own  # with the rows of other processes before and after it
        state.update({name: arrays[name] for name in state})
        self._norms: dict[str, Callable[[], None]] = {}
        self._kernels = self._make_kernels(arrays, network)
        known = enumerate(stage.point for stage in self._schedule.stages)
        self._points = [arrays[point.name if isinstance(point, Array) else point_name(j)] for j, point in known]
        self._update = self._kernel(self._schedule.outputs, arrays, network)
        self._in_flight: set[str] = set()
        self._received = 0
        self.description = self._describe()

    def _computed_points(self) -> list[int]:
        """The gradients whose point is no state: it must be computed."""
        return [j for j, stage in enumerate(self._schedule.stages) if not isinstance(stage.point, Array)]

    def _make_kernels(
        self, arrays: dict[str, torch.Tensor], network: MemoryNetwork
    ) -> dict[str, Callable[[dict[str, float]], None]]:
        """The passes for messages, norms and points, by the array that they compute."""
        kernels = {}
        for operation in self._schedule.operations:
            name, source = operation.array, operation.source
            if isinstance(operation, Norm):
                if source is not None:
                    arrays[name] = torch.empty_like(self.gradient)
                arrays[operation.column] = torch.zeros_like(self.gradient[:, :1], memory_format=torch.contiguous_format)
                self._norms[operation.column] = self._norm(arrays[name], arrays[operation.column])
            if source is not None:
                own = {name: self._exchanges[name].outgoing} if isinstance(operation, Message) else {}
                kernels[name] = self._kernel({name: source}, {**arrays, **own}, network)
        for j in self._computed_points():
            name = point_name(j)
            kernels[name] = self._kernel({name: self._schedule.stages[j].point}, arrays, network)
        return kernels

    def _kernel(
        self, outputs: Mapping[str, Expression], arrays: Mapping[str, torch.Tensor], network: MemoryNetwork
    ) -> Callable[[dict[str, float]], None]:
        """A pass that computes these arrays in place."""
        return Kernel(outputs, arrays, network, self._threads)

    def _norm(self, rows: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
        """A function that writes the norms of rows to a column."""
        return CompiledNorms(rows, out, self._threads)

    def _describe(self) -> str:
        uncached = library_cache.problem()
        note = f"; not cached: {uncached}" if uncached else ""
        return f"compiled ({self._threads} thread{'s' * (self._threads > 1)}{note})"

    def gradients_at(self, k: int) -> int:
        """How many gradients the step wants."""
        return len(self._points)

    def begin(self, k: int) -> torch.Tensor:
        """Compute the point, unless it is x itself, and send every message that is ready."""
        self._network.begin(k)
        self._k, self._numbers, self._received = k, self.algorithm.hyperparameters(k), 0
        return self._stage()

    def again(self, k: int) -> torch.Tensor:
        """Keep the gradient, and do the same for the next one."""
        self._earlier[self._received].copy_(self.gradient)
        self._received += 1
        return self._stage()

    def _stage(self) -> torch.Tensor:
        """All that leads to the point of the next gradient, and all that need not wait for the gradient."""
        stage, point = self._schedule.stages[self._received], point_name(self._received)
        self._dispatch(stage.for_point)
        if point in self._kernels:
            self._await(tuple(self._in_flight))
            self._kernels[point](self._numbers)
        self._dispatch(stage.early)
        return self._points[self._received]

    def finish(self, k: int) -> None:
        """Send the messages that need the gradient, await all messages, and update."""
        self._dispatch(self._schedule.late)
        self._await(tuple(self._in_flight))
        self._update(self._numbers)

    def set_hyperparameters(self, algorithm: Algorithm, k: int) -> None:
        """The update uses the new numbers."""
        self.algorithm, self._numbers = algorithm, algorithm.hyperparameters(k)

    def wait(self) -> None:
        """Await the messages in flight."""
        self._await(tuple(self._in_flight))

    def exchanges(self) -> dict[int, Exchange]:
        """The exchanges with neighbours, by the number of the message."""
        messages = self._schedule.messages
        return {m.number: self._exchanges[m.array] for m in messages if not m.all_agents}

    def _dispatch(self, operations: tuple[Operation, ...]) -> None:
        """Compute each array as soon as the messages that it needs have arrived; send it, or measure its rows."""
        for operation in operations:
            self._await(operation.needs)
            if operation.source is not None:
                self._kernels[operation.array](self._numbers)
            if isinstance(operation, Norm):
                self._norms[operation.column]()
            else:
                self._in_flight.add(operation.array)
                self._exchanges[operation.array].start(self._k)

    def _await(self, arrays: tuple[str, ...]) -> None:
        for array in arrays:
            if array in self._in_flight:
                self._in_flight.discard(array)
                self._exchanges[array].wait()
