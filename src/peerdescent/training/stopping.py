"""Stopping a run on request: all its processes at the same iteration, with a checkpoint."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from peerdescent._util.signals import StopRequest
from peerdescent.errors import PeerLostError, StoppedError

if TYPE_CHECKING:
    from peerdescent.training.loop import Run

SECONDS_BETWEEN = 1.0
"""How often several processes ask each other whether one of them is to stop, if iterations are slow."""
ITERATIONS_BETWEEN = 100
"""The same if they are fast."""


class Stopping:
    """Decides when to ask, and stops.

    Args:
        processes: how many share the agents. One process knows at once; several agree from time to time.
    """

    def __init__(self, processes: int) -> None:
        self.request = StopRequest()
        self._single = processes == 1
        self._next = self._asked = 0
        self._asked_at = time.monotonic()

    def forget_schedule(self) -> None:
        """Ask after the next iteration: after a loss the processes may disagree on when they were to ask."""
        self._next = 0

    def due(self, k: int) -> bool:
        """Whether to ask now, after k iterations; the same in all processes."""
        return bool(self.request.signal) if self._single else k >= self._next

    def stop_if_requested(self, run: Run) -> None:
        """Stop if a process of the run was asked to; all of them call this after the same iteration.

        Raises:
            StoppedError: the run has stopped, and its state is saved.
        """
        signals = run.group.gather_object(self.request.signal)
        decision = [max(signals), self._pause(run.k)] if run.group.is_rank_zero else None
        number, pause = run.group.broadcast_object(decision)
        self._next, self._asked, self._asked_at = run.k + pause, run.k, time.monotonic()
        if number:
            _stop(run, number)

    def _pause(self, k: int) -> int:
        """Iterations until all ask again, by rank 0's clock; which ones they are changes no result."""
        passed, seconds = max(1, k - self._asked), time.monotonic() - self._asked_at
        return max(1, min(ITERATIONS_BETWEEN, int(passed * SECONDS_BETWEEN / max(seconds, 1e-9))))


def _stop(run: Run, number: int) -> NoReturn:
    assert run.checkpoints is not None
    run.checkpoints.save_run(run)
    run.recorder.record_stop(run)
    with suppress(PeerLostError):
        run.group.barrier()  # no process leaves while another still expects something of it
    raise StoppedError(number, f"stopped at iteration {run.k}; resume=True continues from its checkpoint", run.k)
