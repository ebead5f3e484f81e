"""Messages that arrive late or with noise; an agent compares what arrives with what it has sent itself.

So (L·a)_i = Σ_j l_ij (â_j − â_i) with the late or noisy â on both sides: sums over the agents stay zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from peerdescent.data import stream
from peerdescent.distributed.exchange import Exchange
from peerdescent.distributed.placement import Routes
from peerdescent.mixing.network import MakeExchange

BLOCK_ENTRIES = 4096
"""About so many entries of noise are drawn at once for an agent."""


class CarriedExchange(Exchange):
    """An exchange that writes other rows than `outgoing` into another exchange, which carries them."""

    def __init__(self, carrier: Exchange) -> None:
        self._carrier, self.plan, self.traffic = carrier, carrier.plan, carrier.traffic
        self.rows, self.own = carrier.rows, carrier.own
        self.outgoing, self.memory = torch.zeros_like(carrier.outgoing), carrier.memory

    def select(self, routes: Routes) -> None:
        """The carrier follows."""
        self._carrier.select(routes)

    def start(self, k: int = 0) -> None:
        """Send what `outgoing` becomes on its way."""
        self._change(k)
        self._carrier.start(k)

    def _change(self, k: int) -> None:
        """Write what is sent in iteration k into the carrier."""
        raise NotImplementedError

    def wait(self) -> None:
        """Return when all rows have arrived."""
        self._carrier.wait()

    def synchronize(self) -> None:
        """As the carrier does."""
        self._carrier.synchronize()


@dataclass(frozen=True)
class Delay:
    """Every message arrives d rounds after it was sent.

    Senders keep their messages for d rounds, so that only they have to remember anything.

    Args:
        rounds: d, at least 1.
        rounds_before: the number of exchanges before an iteration.
    """

    rounds: int
    rounds_before: Callable[[int], int] = int

    def exchange(self, make: MakeExchange, like: torch.Tensor, number: int) -> Exchange:
        """An exchange of old rows."""
        return DelayedExchange(make(like.shape[1], like.dtype), self)


class DelayedExchange(CarriedExchange):
    """Sends what was written d rounds ago; `memory` holds the rows of the last d rounds, in turn."""

    def __init__(self, carrier: Exchange, delay: Delay) -> None:
        super().__init__(carrier)
        self._delay = delay
        self._line = [torch.zeros_like(carrier.outgoing) for _ in range(delay.rounds)]
        self.memory = {**carrier.memory, **{f"late{turn}": rows for turn, rows in enumerate(self._line)}}

    def _change(self, k: int) -> None:
        rows = self._line[self._delay.rounds_before(k) % self._delay.rounds]
        self._carrier.outgoing.copy_(rows)
        rows.copy_(self.outgoing)


@dataclass(frozen=True)
class Noise:
    """Every entry of every message has independent N(0, σ²) noise, a function of (seed, agent, iteration, message).

    Args:
        deviation: σ.
        seed: the seed of the run.
        agents: the numbers of all agents in random streams, by default 0, 1, …
        rounded: whether messages are sent as bfloat16, the noise with them.
    """

    deviation: float
    seed: int
    agents: Sequence[int] | None = None
    rounded: bool = False

    def exchange(self, make: MakeExchange, like: torch.Tensor, number: int) -> Exchange:
        """An exchange of noisy rows."""
        return NoisyExchange(make(like.shape[1], like.dtype), self, number)


class NoisyExchange(CarriedExchange):
    """Sends `outgoing` plus noise."""

    def __init__(self, carrier: Exchange, noise: Noise, number: int) -> None:
        super().__init__(carrier)
        self._noise, self._purpose = noise, f"message {number} noise"
        own = carrier.plan.own
        self._agents = list(own) if noise.agents is None else [noise.agents[agent] for agent in own]
        self._count = max(1, BLOCK_ENTRIES // max(1, carrier.outgoing.shape[1]))
        self._drawn: tuple[int, torch.Tensor] = -1, torch.empty(0)

    def _change(self, k: int) -> None:
        sent = self._carrier.outgoing
        torch.add(self.outgoing, self._at(k), alpha=self._noise.deviation, out=sent)
        if self._noise.rounded:  # what neighbours receive, and what they are compared with
            sent.copy_(sent.to(torch.bfloat16))

    def _at(self, k: int) -> torch.Tensor:
        """The standard normal numbers of iteration k, one row per agent hosted here."""
        block, place = divmod(k, self._count)
        if self._drawn[0] != block:
            shape = self._count, self.outgoing.shape[1]
            drawn = [
                stream(self._noise.seed, self._purpose, agent, block).standard_normal(shape) for agent in self._agents
            ]
            self._drawn = block, torch.from_numpy(np.stack(drawn, axis=1)).to(self.outgoing)
        return self._drawn[1][place]
