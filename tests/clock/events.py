"""An independent clock: every message and every agent is an event in a queue, as a network would carry them out."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Link = tuple[int, int]


@dataclass
class Events:
    """n agents, each with a program: ("send", name, to_all), ("wait", names), ("compute",), in every iteration.

    Args:
        n: number of agents.
        program: by iteration, what every agent does in order.
        receivers: by iteration and agent, to whom it sends.
        compute: by iteration and agent, seconds.
        transfer: by iteration and link, for how long a message occupies the link.
        latency: by link.
        mean_seconds: from the last contribution to a mean until all have it.
    """

    n: int
    program: Callable[[int], Sequence[tuple[Any, ...]]]
    receivers: Callable[[int, int], Sequence[int]]
    compute: Callable[[int, int], float]
    transfer: Callable[[int, Link], float]
    latency: Callable[[Link], float]
    mean_seconds: float = 0.0
    queue: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)
    ends: dict[tuple[int, int], float] = field(default_factory=dict)

    def run(self, iterations: int) -> list[list[float]]:
        self.iterations, self.counter = iterations, 0
        self.place = dict.fromkeys(range(self.n), (0, 0))
        self.inbox: dict[tuple[int, int, str], set[int]] = {}
        self.contributions: dict[tuple[int, str], set[int]] = {}
        self.busy: dict[Link, float] = {}
        self.computing: set[int] = set()
        for agent in range(self.n):
            self.at(0.0, lambda now, agent=agent: self.go_on(agent, now))
        while self.queue:
            now, _, action = heapq.heappop(self.queue)
            action(now)
        return [[self.ends[k, agent] for agent in range(self.n)] for k in range(iterations)]

    def at(self, time: float, action: Callable[[float], None]) -> None:
        self.counter += 1
        heapq.heappush(self.queue, (time, self.counter, action))

    def go_on(self, agent: int, now: float) -> None:
        """Carry out the agent's program until it has to wait; called whenever something has happened to it."""
        while agent not in self.computing:
            k, line = self.place[agent]
            if k == self.iterations:
                return
            program = self.program(k)
            if line == len(program):
                self.ends[k, agent] = now
                self.place[agent] = k + 1, 0
                continue
            word, *rest = program[line]
            if word == "wait" and not all(self.complete(k, agent, name) for name in rest[0]):
                return
            self.place[agent] = k, line + 1
            if word == "send":
                self.send(k, agent, now, *rest)
            elif word == "compute":
                self.computing.add(agent)
                self.at(now + self.compute(k, agent), lambda then: self.computed(agent, then))

    def computed(self, agent: int, now: float) -> None:
        self.computing.discard(agent)
        self.go_on(agent, now)

    def send(self, k: int, agent: int, now: float, name: str, to_all: bool) -> None:
        if to_all:
            given = self.contributions.setdefault((k, name), set())
            given.add(agent)
            if len(given) == self.n:
                for other in range(self.n):
                    self.at(
                        now + self.mean_seconds,
                        lambda then, i=other: self.receive(k, i, name, set(range(-1, self.n)), then),
                    )
            return
        for other in self.receivers(k, agent):
            link = agent, other
            begin = max(now, self.busy.get(link, 0.0))
            self.busy[link] = begin + self.transfer(k, link)
            arrival = self.busy[link] + self.latency(link)
            self.at(arrival, lambda then, i=other: self.receive(k, i, name, {agent}, then))

    def receive(self, k: int, agent: int, name: str, senders: set[int], now: float) -> None:
        self.inbox.setdefault((k, agent, name), set()).update(senders)
        self.go_on(agent, now)

    def complete(self, k: int, agent: int, name: str) -> bool:
        got = self.inbox.get((k, agent, name), set())
        if name.startswith("mean"):
            return -1 in got
        return all(i in got for i in range(self.n) if agent in self.receivers(k, i))
