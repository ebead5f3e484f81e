"""The clock: when each agent finishes each iteration of a synchronous method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from peerdescent.clock.communication import Communication, Pairs, Send
from peerdescent.clock.links import all_reduce_step, routes, server_seconds
from peerdescent.clock.model import NetworkModel

Numbers = NDArray[np.float64]


class _Exchange:
    """The messages of one round, ordered by receiver; `links` are their places among all links of the run."""

    def __init__(self, model: NetworkModel, pairs: Pairs, all_pairs: Pairs, n: int, size: float) -> None:
        pairs = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]
        self.sender = pairs[:, 0]
        codes = all_pairs[:, 0] * n + all_pairs[:, 1]  # unique and, as the caller sorts all_pairs, in order
        self.links = np.searchsorted(codes, pairs[:, 0] * n + pairs[:, 1])
        found = routes(model, pairs, n)
        self.transfer, self.latency = found.transfer(size), found.latency
        self.receivers, self.starts = np.unique(pairs[:, 1], return_index=True)

    def deliver(self, leaving: Numbers, free: Numbers) -> Numbers:
        """When the last message has reached each agent, sent at these times; `free` is updated.

        A link sends its messages one after another: s = max(leaving, free), free⁺ = s + size/rate, arrival = free⁺ +
        latency. An agent that receives nothing waits for nothing.
        """
        done = np.maximum(leaving[self.sender], free[self.links]) + self.transfer
        free[self.links] = done
        last = np.full(len(leaving), -np.inf)
        if len(self.starts):
            last[self.receivers] = np.maximum.reduceat(done + self.latency, self.starts)
        return last


class Clock:
    """The times of all agents, advanced iteration by iteration.

    Agent i begins iteration k when it has finished the one before. Its messages leave in the order of the recorded
    step: those for the gradient's point, those that do not need the gradient, which travel while it is computed, and
    those that do; a message that needs others leaves when they have arrived. The iteration ends when all its own
    messages have arrived and the gradient is there. A step with several gradients does so for each of them.

    Args:
        communication: what the run sends.
        model: the network.

    >>> from peerdescent.clock.communication import Send, Step, on_graph
    >>> from peerdescent.clock.model import Link
    >>> from peerdescent.graphs import ring
    >>> sent = on_graph(ring(4), Step(early=(Send("x"),)), vector_bytes=1e6)
    >>> clock = Clock(sent, NetworkModel(link=Link(latency_ms=20, bandwidth_mbit=100)))
    >>> clock.advance(0, np.full(4, 0.05)).round(6).tolist()
    [0.1, 0.1, 0.1, 0.1]
    """

    def __init__(self, communication: Communication, model: NetworkModel) -> None:
        model.check(communication.n)
        self.communication, self.model = communication, model
        self.now: Numbers = np.zeros(communication.n)
        """When each agent has finished its last iteration."""
        pairs = communication.all_pairs
        self._all_pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        self._free: Numbers = np.zeros(len(pairs))
        """When each link has sent all that it was given."""
        self._exchanges: dict[int, _Exchange] = {}
        self._average_seconds = self._seconds_of_an_average()

    def advance(self, k: int, compute: Numbers) -> Numbers:
        """Carry out iteration k, in which a gradient takes the agents so many seconds; return when each finishes."""
        sent = self.communication
        round_ = sent.round_of(k)
        step = sent.local if round_ is None else sent.step
        arrived: dict[str, Numbers] = {}
        now = self.now
        for part in (step, *step.further):
            now = self._send(part.for_point, now, round_, arrived)
            if part.awaits_point:
                now = _latest(now, arrived.values())
            now = self._send(part.early, now, round_, arrived) + compute
        now = self._send(step.late, now, round_, arrived)
        now = _latest(now, arrived.values())
        for _ in range(sent.averages(k)):
            now = self._average(now)
        self.now = now
        return self.now

    def _send(self, messages: Iterable[Send], now: Numbers, round_: int | None, arrived: dict[str, Numbers]) -> Numbers:
        """Send messages in order; returns when each agent has sent its last one."""
        for message in messages:
            now = _latest(now, (arrived[name] for name in message.needs))
            if message.all_agents:
                arrived[message.array] = self._average(now)
            elif round_ is not None:
                arrived[message.array] = self._exchange(round_).deliver(now, self._free)
        return now

    def _exchange(self, round_: int) -> _Exchange:
        sent = self.communication
        key = round_ if sent.repeats is None else round_ % sent.repeats
        if key not in self._exchanges:
            if sent.repeats is None:
                self._exchanges.clear()  # it does not come again
            self._exchanges[key] = _Exchange(self.model, sent.pairs(round_), self._all_pairs, sent.n, sent.vector_bytes)
        return self._exchanges[key]

    def _seconds_of_an_average(self) -> tuple[float, float]:
        """What passes before and after the moment at which all contributions are there."""
        n, size = self.communication.n, self.communication.mean_bytes
        if self.model.average.by == "server":
            return server_seconds(self.model, n, size)
        return 0.0, all_reduce_seconds(self.model, n, size)

    def _average(self, ready: Numbers) -> Numbers:
        """When each agent has the mean: all of them at the same time, after the last one is ready."""
        before, after = self._average_seconds
        return np.full(len(ready), ready.max() + before + after)


def all_reduce_seconds(model: NetworkModel, n: int, size: float) -> float:
    """The seconds of a ring all_reduce of so many bytes: 2(n−1) steps, each as long as on the slowest link.

    >>> from peerdescent.clock.model import Link
    >>> model = NetworkModel(link=Link(latency_ms=20, bandwidth_mbit=100))
    >>> round(all_reduce_seconds(model, 32, 4 * 500_000), 6)  # 62 (20 ms + 62,500 B / 100 Mbit/s)
    1.55
    """
    return 2 * (n - 1) * all_reduce_step(model, n, size)


def finish_times(
    communication: Communication, model: NetworkModel, compute: Iterable[Numbers], iterations: int
) -> Iterator[Numbers]:
    """When each agent finishes each iteration.

    Args:
        communication: what the run sends.
        model: the network.
        compute: the computing times of all agents, iteration by iteration.
        iterations: how many.
    """
    clock = Clock(communication, model)
    for k, seconds in enumerate(islice(compute, iterations)):
        yield clock.advance(k, seconds)


def _latest(now: Numbers, others: Iterable[Numbers]) -> Numbers:
    for other in others:
        now = np.maximum(now, other)
    return now
