"""What a run does when a process is lost, and faults injected on purpose, for tests and demonstrations."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

from peerdescent._util.validation import described
from peerdescent.errors import InputError, PeerLostError

ON_LOSS = ("stop", "continue", "restart")
RESTARTS = 100
"""How often local processes start again before a run gives up."""
T = TypeVar("T")


class InjectedFault(NamedTuple):
    """A fault injected on purpose, before an iteration, into the process that hosts an agent."""

    kind: Literal["kill", "stall"]
    agent: int
    iteration: int
    seconds: float = 0.0


@dataclass(frozen=True)
class Faults:
    """What happens when a process is lost, and which faults to inject.

    Args:
        on_loss: "stop" ends the run with a sentence; "continue" goes on with the remaining agents; "restart" starts all
            processes again from the last checkpoint.
        kill: strings AGENT@ITERATION: the process that hosts the agent kills itself before that iteration.
        stall: strings AGENT@ITERATION:SECONDS: it sleeps instead.

    >>> Faults(kill=("3@250",), stall=("1@100:2.5",)).injected(range(0, 4))
    {100: [InjectedFault(kind='stall', agent=1, iteration=100, seconds=2.5)], 250: [InjectedFault(kind='kill', agent=3, iteration=250, seconds=0.0)]}
    """  # noqa: E501 (the output of a doctest is one line)

    on_loss: str = "stop"
    kill: tuple[str, ...] = ()
    stall: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.on_loss, str) or self.on_loss not in ON_LOSS:
            raise InputError(f"on-loss = {described(self.on_loss)}: expected one of {', '.join(ON_LOSS)}.")
        self._parsed()

    def _parsed(self) -> list[InjectedFault]:
        found = [_parse("kill", text) for text in self.kill] + [_parse("stall", text) for text in self.stall]
        return sorted(found, key=lambda fault: fault.iteration)

    def check(self, agents: int, processes: int) -> None:
        """Reject faults that cannot happen in this run."""
        for fault in self._parsed():
            if fault.agent >= agents:
                raise InputError(
                    f"{fault.kind} {fault.agent}@{fault.iteration}: there is no agent {fault.agent}, "
                    f"expected one of 0 to {agents - 1}."
                )
        if self.kill and processes == 1:
            raise InputError(
                f"kill {self.kill[0]}: all agents are in one process, and no process would remain; "
                "use several processes, with workers or torchrun."
            )

    def injected(self, own: range) -> dict[int, list[InjectedFault]]:
        """The faults of the agents hosted here, by iteration."""
        here: dict[int, list[InjectedFault]] = {}
        for fault in self._parsed():
            if fault.agent in own:
                here.setdefault(fault.iteration, []).append(fault)
        return here

    def after(self, restarts: int) -> Faults:
        """The faults that remain after some restarts: each restart has used up the earliest kill.

        >>> Faults(kill=("1@50", "2@20")).after(1).kill
        ('1@50',)
        """
        kills = sorted(self.kill, key=lambda text: _parse("kill", text).iteration)
        return replace(self, kill=tuple(kills[restarts:]))


NO_FAULTS = Faults()


def inject(faults: list[InjectedFault]) -> None:
    """Inject faults into this process."""
    for fault in faults:
        if fault.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(fault.seconds)


def with_restarts(faults: Faults, attempt: Callable[[int], T]) -> T:
    """Call attempt(0), and with on_loss="restart" attempt(1), attempt(2), … after every loss."""
    for number in range(RESTARTS + 1):
        try:
            return attempt(number)
        except PeerLostError as error:
            if faults.on_loss != "restart" or number == RESTARTS:
                raise
            warnings.warn(f"{str(error).rstrip('.')}; restart {number + 1} of at most {RESTARTS}", stacklevel=2)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _parse(kind: Literal["kill", "stall"], text: str) -> InjectedFault:
    wanted = "AGENT@ITERATION, such as 3@250" if kind == "kill" else "AGENT@ITERATION:SECONDS, such as 3@250:20"
    agent, _, rest = str(text).partition("@")
    iteration, colon, seconds = rest.partition(":")
    try:
        fault = InjectedFault(kind, int(agent), int(iteration), float(seconds) if colon else 0.0)
    except ValueError:
        raise InputError(f"{kind} {text}: expected {wanted}.") from None
    if min(fault.agent, fault.iteration) < 0 or bool(colon) != (kind == "stall") or not 0 <= fault.seconds < 1e6:
        raise InputError(f"{kind} {text}: expected {wanted}.")
    return fault


def as_faults(on_loss: str, kill: Sequence[str], stall: Sequence[str]) -> Faults:
    """Faults from what a user gives: one string or several."""
    for name, texts in (("kill", kill), ("stall", stall)):
        if not isinstance(texts, str | list | tuple):
            raise InputError(f"{name} is {described(texts)}: expected a list of faults, such as ['3@250'].")
    several = [(texts,) if isinstance(texts, str) else tuple(texts) for texts in (kill, stall)]
    return Faults(on_loss, *several)
