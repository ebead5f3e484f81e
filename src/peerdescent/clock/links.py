"""How long messages take: rates of links, shares of connections, latencies."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerdescent.clock.communication import Pairs
from peerdescent.clock.model import Link, NetworkModel

Numbers = NDArray[np.float64]
BITS, MEGA, MILLI = 8.0, 1e6, 1e-3


@dataclass(frozen=True)
class Routes:
    """The messages of one exchange, all of the same size, sent at the same time.

    Args:
        latency: seconds from leaving to arriving, per message.
        rate: bits per second, per message.
        overhead: seconds that the sender is busy with the messages of the exchange, before they leave.
    """

    latency: Numbers
    rate: Numbers
    overhead: Numbers

    def transfer(self, size: float) -> Numbers:
        """Seconds for which a message of so many bytes occupies its link."""
        return self.overhead + BITS * size / self.rate


def routes(model: NetworkModel, pairs: Pairs, n: int) -> Routes:
    """The messages along these pairs in this network.

    A message that shares a connection gets an equal part of it, r = min(link, uplink/sent, downlink/received, …), and
    keeps that part until it has arrived: nobody gets more because another message has ended.

    >>> from peerdescent.clock.model import Access
    >>> model = NetworkModel(link=Link(latency_ms=20), agent=Access(uplink_mbit=100))
    >>> star = routes(model, np.array([[0, 1], [0, 2], [1, 0]]), 3)
    >>> star.rate.tolist(), star.transfer(1e6).tolist()
    ([50000000.0, 50000000.0, 100000000.0], [0.16, 0.16, 0.08])
    """
    sender, receiver = pairs[:, 0], pairs[:, 1]
    sent, received = np.bincount(sender, minlength=n), np.bincount(receiver, minlength=n)
    latency, rate, overhead = _links(model, pairs, n)
    rate = np.minimum(rate, _rate(model.agent.uplink_mbit) / sent[sender])
    rate = np.minimum(rate, _rate(model.agent.downlink_mbit) / received[receiver])
    if model.sites:
        site = site_numbers(model, n)
        leaves = site[sender] != site[receiver]
        count = len(model.sites)
        out = np.bincount(site[sender][leaves], minlength=count)
        into = np.bincount(site[receiver][leaves], minlength=count)
        up = _rate(model.between.uplink_mbit) / np.maximum(out, 1)[site[sender]]
        down = _rate(model.between.downlink_mbit) / np.maximum(into, 1)[site[receiver]]
        rate = np.where(leaves, np.minimum(rate, np.minimum(up, down)), rate)
    return Routes(latency, rate, overhead * sent[sender])


def _links(model: NetworkModel, pairs: Pairs, n: int) -> tuple[Numbers, Numbers, Numbers]:
    """Latency, rate and overhead of the links themselves: of a named one, of its class, or of all."""
    columns = np.array([_numbers(model.link)] * len(pairs)).reshape(-1, 3)
    if model.sites:
        site = site_numbers(model, n)
        inside = site[pairs[:, 0]] == site[pairs[:, 1]]
        columns[inside] = _numbers(model.within, model.link)
        columns[~inside] = _numbers(model.between, model.link)
    if model.links:
        for place, pair in enumerate(map(tuple, pairs.tolist())):
            if pair in model.links:
                columns[place] = _numbers(model.links[pair], default=columns[place])
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _numbers(link: Link, more_general: Link | None = None, default: Numbers | None = None) -> Numbers:
    """Seconds, bits per second and seconds; what a link does not say is as in the more general one."""
    if default is None:
        default = np.array([0.0, math.inf, 0.0]) if more_general is None else _numbers(more_general)
    given = (link.latency_ms, link.bandwidth_mbit, link.overhead_ms)
    return np.array([d if v is None else v * u for v, u, d in zip(given, (MILLI, MEGA, MILLI), default, strict=True)])


def site_numbers(model: NetworkModel, n: int) -> NDArray[np.int64]:
    """The number of each agent's site."""
    site = np.zeros(n, dtype=np.int64)
    for number, agents in enumerate(model.sites.values()):
        site[list(agents)] = number
    return site


def _rate(mbit: float | None) -> float:
    return math.inf if mbit is None else mbit * MEGA


def all_reduce_step(model: NetworkModel, n: int, size: float) -> float:
    """The seconds of one step of a ring all_reduce of so many bytes: size/n bytes over the slowest link of the ring.

    The whole takes 2(n−1) such steps: n−1 to add up, n−1 to distribute.
    """
    if n == 1:
        return 0.0
    agents = np.arange(n, dtype=np.int64)
    ring = routes(model, np.stack([agents, (agents + 1) % n], axis=1), n)
    return float((ring.transfer(size / n) + ring.latency).max())


def server_seconds(model: NetworkModel, n: int, size: float) -> tuple[float, float]:
    """The seconds of a message from an agent to the server, and of one back, while all n agents do the same."""
    server, link = model.average, _numbers(model.link)
    latency = link[0] if server.latency_ms is None else server.latency_ms * MILLI
    up = min(link[1], _rate(model.agent.uplink_mbit), _rate(server.downlink_mbit) / n)
    down = min(link[1], _rate(model.agent.downlink_mbit), _rate(server.uplink_mbit) / n)
    return float(latency + link[2] + BITS * size / up), float(latency + n * link[2] + BITS * size / down)
