"""The fast path: a recorded step as compiled passes over memory, split around its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State
from peerdescent.distributed.exchange import Exchange
from peerdescent.expressions import Array, Expression
from peerdescent.kernels import library_cache
from peerdescent.kernels.kernel import Kernel
from peerdescent.mixing.network import BlockNetwork, MemoryNetwork
from peerdescent.tracing.message_schedule import POINT, Message, plan_step
from peerdescent.tracing.recording import BIAS, DEBIAS, GRADIENT, record


class CompiledUpdate:
    """The fast path: the step recorded once, written as C, compiled, and run in place.

    With all agents in one process it is one pass over memory. With several processes it is split around its
    messages: those that do not need the gradient leave in `begin` and travel while the gradient is computed.
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
        point, outputs = record(algorithm, tuple(state), network.local, network.rounded, network.scales is not None)
        self._schedule = plan_step(
            point, outputs, tuple(state), isinstance(network, BlockNetwork), bool(network.filters)
        )
        self._network, self._exchanges = network, dict[str, Exchange]()
        arrays = {**state, GRADIENT: self.gradient}
        if network.scales is not None:
            arrays |= {DEBIAS: network.scales.debias, BIAS: network.scales.bias}
        if not isinstance(point, Array):
            arrays[POINT] = torch.empty_like(state["x"])
        for message in self._schedule.messages:
            assert isinstance(network, BlockNetwork)
            exchange = network.exchange(state["x"], message.all_agents, message.number)
            self._exchanges[message.array] = exchange
            if message.array in arrays:
                exchange.own.copy_(arrays[message.array])
            arrays[message.array] = exchange.own  # with the rows of other processes before and after it
        state.update({name: arrays[name] for name in state})
        self._point = arrays[point.name if isinstance(point, Array) else POINT]
        self._kernels = {
            message.array: self._kernel(
                {message.array: message.source},
                {**arrays, message.array: self._exchanges[message.array].outgoing},
                network,
            )
            for message in self._schedule.messages
            if message.source is not None
        }
        if not isinstance(point, Array):
            self._kernels[POINT] = self._kernel({POINT: self._schedule.point}, arrays, network)
        self._update = self._kernel(self._schedule.outputs, arrays, network)
        self._in_flight: set[str] = set()
        self.description = self._describe()

    def _kernel(
        self, outputs: Mapping[str, Expression], arrays: Mapping[str, torch.Tensor], network: MemoryNetwork
    ) -> Callable[[dict[str, float]], None]:
        """A pass that computes these arrays in place."""
        return Kernel(outputs, arrays, network, self._threads)

    def _describe(self) -> str:
        uncached = library_cache.problem()
        note = f"; not cached: {uncached}" if uncached else ""
        return f"compiled ({self._threads} thread{'s' * (self._threads > 1)}{note})"

    def begin(self, k: int) -> torch.Tensor:
        """Compute the point, unless it is x itself, and send every message that is ready."""
        self._network.begin(k)
        self._k, self._numbers = k, self.algorithm.hyperparameters(k)
        self._dispatch(self._schedule.for_point)
        if POINT in self._kernels:
            self._await(tuple(self._in_flight))
            self._kernels[POINT](self._numbers)
        self._dispatch(self._schedule.early)
        return self._point

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

    def _dispatch(self, messages: tuple[Message, ...]) -> None:
        """Compute each message in its buffer and send it, as soon as the messages that it needs have arrived."""
        for message in messages:
            self._await(message.needs)
            if message.source is not None:
                self._kernels[message.array](self._numbers)
            self._in_flight.add(message.array)
            self._exchanges[message.array].start(self._k)

    def _await(self, arrays: tuple[str, ...]) -> None:
        for array in arrays:
            if array in self._in_flight:
                self._in_flight.discard(array)
                self._exchanges[array].wait()
