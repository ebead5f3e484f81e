"""Which collective calls a process has made, and the first at which processes disagree: pure functions, no I/O.

Every process makes the same calls in the same order, so a process whose n-th call differs from another's, or that has
ended before its n-th call, is why the others wait. Logs only grow, so an old copy of one is still true.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

RUNS_KEPT = 100
STEP = "step()"
"""How the names of all kinds of steps begin."""
ENDED, BARRIER = "ended", "torch.distributed.barrier()"
ADVICE = (
    "use `with optimizer.join():` for unequal numbers of batches, and zero_grad() and step() for a batch that one "
    "process leaves out; all processes must make the same calls in the same order"
)


class CallLog:
    """The calls of one process, as runs of calls with the same name.

    >>> log = CallLog()
    >>> for steps, name in enumerate(["step()", "step()", "wait()"]):
    ...     log.append(name)
    ...     log.steps = steps + 1
    >>> log.name_at(1), log.name_at(2), log.name_at(3)
    ('step()', 'wait()', None)
    >>> CallLog.parse(log.text(ended=True)).name_at(3)
    'ended'
    """

    def __init__(self) -> None:
        self.runs: list[tuple[int, str, int]] = []
        """The first call of each run, its name, and the steps completed before it."""
        self.calls, self.steps, self.ended = 0, 0, False
        self.barrier_seconds = 0
        """For how long the process has been in a barrier of torch.distributed, after its last call."""
        self.in_barrier = False
        """Whether it is known to stay there."""

    def append(self, name: str) -> None:
        """Record that a call begins."""
        if not self.runs or self.runs[-1][1] != name:
            self.runs.append((self.calls, name, self.steps))
            del self.runs[:-RUNS_KEPT]
        self.calls += 1

    def name_at(self, call: int) -> str | None:
        """The name of a call, or what the process does instead; None if it is not known."""
        if call >= self.calls:
            return ENDED if self.ended else BARRIER if self.in_barrier else None
        return next((name for first, name, _ in reversed(self.runs) if first <= call), None)

    def steps_before(self, call: int) -> int | None:
        """The steps completed before a call at which a run begins, or before the end."""
        if call == self.calls:
            return self.steps
        return next((steps for first, _, steps in self.runs if first == call), None)

    def text(self, ended: bool = False, barrier_seconds: int = 0) -> str:
        """The log as JSON; another thread may append to it meanwhile."""
        calls = self.calls  # before the runs: a run that begins later does no harm
        known = {"calls": calls, "runs": list(self.runs), "steps": self.steps, "ended": ended}
        return json.dumps({**known, "barrier_seconds": barrier_seconds})

    @staticmethod
    def parse(text: str | bytes) -> CallLog:
        """A log from its JSON."""
        read, log = json.loads(text), CallLog()
        log.calls, log.steps, log.ended = read["calls"], read["steps"], read["ended"]
        log.barrier_seconds = read["barrier_seconds"]
        log.runs = [(first, name, steps) for first, name, steps in read["runs"]]
        return log


def disagreement(logs: Mapping[int, CallLog]) -> str:
    """A sentence about the first call at which processes disagree, by rank; empty if they agree so far.

    >>> one, other = CallLog(), CallLog()
    >>> for name in ("step()", "step()"):
    ...     one.append(name)
    >>> other.append("step()")
    >>> disagreement({0: one, 1: other})
    ''
    >>> other.steps, other.ended = 1, True
    >>> disagreement({0: one, 1: other}).partition(":")[0]
    'process 1 stopped after step 1 (it ended) while process 0 called step()'
    """
    candidates = {first for log in logs.values() for first, _, _ in log.runs} | {log.calls for log in logs.values()}
    for call in sorted(candidates):
        names = {rank: name for rank, log in logs.items() if (name := log.name_at(call)) is not None}
        if len(set(names.values())) > 1:
            counted = (log.steps_before(call) for rank, log in logs.items() if rank in names)
            return _sentence(names, next((steps for steps in counted if steps is not None), 0))
    return ""


def _sentence(names: Mapping[int, str], steps: int) -> str:
    """Who did what; those that take no further step, while others do, have stopped."""
    by_name: dict[str, list[int]] = {}
    for rank in sorted(names):
        by_name.setdefault(names[rank], []).append(rank)
    stepping = {name: ranks for name, ranks in by_name.items() if name.startswith(STEP)}
    others = {name: ranks for name, ranks in by_name.items() if name not in stepping}
    if len(stepping) == 1 and others:
        stopped = " and ".join(
            f"{processes(ranks)} stopped after step {steps} ({_did('it', name)})" for name, ranks in others.items()
        )
        text = f"{stopped} while {' and '.join(_did(processes(ranks), name) for name, ranks in stepping.items())}"
    else:
        text = f"after step {steps}, {' and '.join(_did(processes(ranks), name) for name, ranks in by_name.items())}"
    return f"{text}: {ADVICE}{'; a process that failed says why in its own output' if ENDED in by_name else ''}."


def _did(who: str, name: str) -> str:
    return f"{who} ended" if name == ENDED else f"{who} called {name}"


def processes(ranks: Sequence[int]) -> str:
    """Names of processes.

    >>> processes([0, 2]), processes([1])
    ('processes 0 and 2', 'process 1')
    """
    if len(ranks) == 1:
        return f"process {ranks[0]}"
    return f"processes {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
