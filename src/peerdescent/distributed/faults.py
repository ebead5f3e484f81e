"""What a run does when a process is lost, and faults made on purpose, for tests and for users who want to see it."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

from peerdescent.distributed.exchange import PeerLostError
from peerdescent.errors import InputError

ON_LOSS = ("stop", "continue", "restart")
RESTARTS = 100
"""How often local processes are started again before a run gives up."""
T = TypeVar("T")


class InjectedFault(NamedTuple):
    """A fault made on purpose: the process that hosts an agent is struck before an iteration."""

    kind: Literal["kill", "stall"]
    agent: int
    iteration: int
    seconds: float = 0.0


@dataclass(frozen=True)
class Faults:
    """What happens when a process is lost, and which faults to make.

    Args:
        on_loss: "stop" ends the run with a sentence; "continue" goes on with the agents that are left; "restart"
            starts all processes again from the last checkpoint.
        kill: texts AGENT@ITERATION: the process that hosts the agent kills itself before that iteration.
        stall: texts AGENT@ITERATION:SECONDS: it sleeps instead.

    >>> Faults(kill=("3@250",), stall=("1@100:2.5",)).injected(range(0, 4))
    {100: [InjectedFault(kind='stall', agent=1, iteration=100, seconds=2.5)], 250: [InjectedFault(kind='kill', agent=3, iteration=250, seconds=0.0)]}
    """  # noqa: E501 (a doctest's answer is one line)

    on_loss: str = "stop"
    kill: tuple[str, ...] = ()
    stall: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.on_loss not in ON_LOSS:
            raise InputError(f"on-loss = {self.on_loss!r}: expected one of {', '.join(ON_LOSS)}.")
        self._parsed()

    def _parsed(self) -> list[InjectedFault]:
        found = [_strike("kill", text) for text in self.kill] + [_strike("stall", text) for text in self.stall]
        return sorted(found, key=lambda strike: strike.iteration)

    def check(self, agents: int, processes: int) -> None:
        """Refuse faults that cannot happen in this run."""
        for strike in self._parsed():
            if strike.agent >= agents:
                raise InputError(
                    f"{strike.kind} {strike.agent}@{strike.iteration}: there is no agent {strike.agent}, "
                    f"expected one of 0 to {agents - 1}."
                )
        if self.kill and processes == 1:
            raise InputError(
                f"kill {self.kill[0]}: all agents live in one process, and none would be left to go on; "
                "use several, with workers or torchrun."
            )

    def injected(self, own: range) -> dict[int, list[InjectedFault]]:
        """The faults of the agents hosted here, by iteration."""
        here: dict[int, list[InjectedFault]] = {}
        for strike in self._parsed():
            if strike.agent in own:
                here.setdefault(strike.iteration, []).append(strike)
        return here

    def after(self, restarts: int) -> Faults:
        """The faults that are left after some restarts: each restart has used up the earliest kill.

        >>> Faults(kill=("1@50", "2@20")).after(1).kill
        ('1@50',)
        """
        kills = sorted(self.kill, key=lambda text: _strike("kill", text).iteration)
        return replace(self, kill=tuple(kills[restarts:]))


NO_FAULTS = Faults()


def inject(strikes: list[InjectedFault]) -> None:
    """Let the faults happen to this process."""
    for strike in strikes:
        if strike.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(strike.seconds)


def with_restarts(faults: Faults, attempt: Callable[[int], T]) -> T:
    """Call attempt(0), and with on_loss="restart" attempt(1), attempt(2), … after every loss."""
    for number in range(RESTARTS + 1):
        try:
            return attempt(number)
        except PeerLostError as error:
            if faults.on_loss != "restart" or number == RESTARTS:
                raise
            warnings.warn(f"{str(error).rstrip('.')}; restart {number + 1} of at most {RESTARTS}", stacklevel=2)
    raise AssertionError("the last attempt returns or raises")


def restarts_of_torchrun() -> int:
    """How often torchrun has started this process again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _strike(kind: Literal["kill", "stall"], text: str) -> InjectedFault:
    wanted = "AGENT@ITERATION, such as 3@250" if kind == "kill" else "AGENT@ITERATION:SECONDS, such as 3@250:20"
    agent, _, rest = str(text).partition("@")
    iteration, colon, seconds = rest.partition(":")
    try:
        strike = InjectedFault(kind, int(agent), int(iteration), float(seconds) if colon else 0.0)
    except ValueError:
        raise InputError(f"{kind} {text}: expected {wanted}.") from None
    if min(strike.agent, strike.iteration) < 0 or bool(colon) != (kind == "stall") or not 0 <= strike.seconds < 1e6:
        raise InputError(f"{kind} {text}: expected {wanted}.")
    return strike


def as_faults(on_loss: str, kill: Sequence[str], stall: Sequence[str]) -> Faults:
    """Faults from what a user gives: one text or several."""
    several = [(texts,) if isinstance(texts, str) else tuple(texts) for texts in (kill, stall)]
    return Faults(on_loss, *several)
