"""Lost processes, as a run sees them: states to go back to, who is left with which agents, and what is said of it."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from peerdescent.algorithms.state import State
from peerdescent.distributed.exchange import PeerLostError
from peerdescent.distributed.faults import Faults
from peerdescent.distributed.heartbeat import SnapshotId
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import PeerdescentError
from peerdescent.training.checkpoints import Checkpoints, complete
from peerdescent.training.state_repair import Snapshots, in_words

OVER: SnapshotId = (-1, -1)
"""In the place of a state to go back to: rank 0 had finished, and so have all."""
MEETINGS_IN_VAIN = 5
"""How often in a row processes meet again of whom none was lost."""


class Survivors(NamedTuple):
    """Who goes on, and from where."""

    k: int
    state: State
    """The rows of the agents hosted here at that time."""
    agents: tuple[int, ...]
    lost: tuple[int, ...]
    placement: Placement
    """Of the agents that are left, numbered anew."""
    note: str


class Recovery:
    """What a run remembers for the case that it loses processes.

    Args:
        faults: what is to be done then.
        group: the processes.
        placement: where the agents are at the start.
    """

    def __init__(self, faults: Faults, group: ProcessGroup, placement: Placement) -> None:
        self.group, self._placement, self._began = group, placement, group.members
        self._wanted = faults.on_loss == "continue"
        self._snapshots, self._in_vain = Snapshots(), 0
        self._new, self._told = list[int](), set[int]()
        group.agents = {name: in_words(placement.block(rank)) for rank, name in enumerate(group.members)}
        group.drop_unresponsive(faults.on_loss != "stop")

    @property
    def can_go_on(self) -> bool:
        """Whether those who are left are to go on, and rank 0 is among them and hears this process."""
        return self._wanted and not self.group.abandoned

    def keep(self, k: int, state: State) -> None:
        """A state to go back to, if the run is to go on after a loss; all processes wait for each other."""
        if self._wanted and self.group.size > 1:
            self._snapshots.keep((self.group.epoch, k), state)
            self.group.barrier()
            self._snapshots.discard_old()

    def adjourn(self) -> None:
        """Meet those once more who have not heard that all is done, so that they know."""
        while True:
            with suppress(PeerLostError):  # yet another one: then without it
                self.group.regroup(OVER)
                return

    def regroup(self) -> Survivors | None:
        """Meet again; the last state that all who are left have is the one to go on from. None if all is done."""
        before = self.group.members
        snapshot_id = self.group.regroup(self._snapshots.newest)
        if snapshot_id == OVER:
            return None
        self._in_vain = self._in_vain + 1 if before == self.group.members else 0
        if self._in_vain == MEETINGS_IN_VAIN:
            raise PeerdescentError("connections break again and again though all processes live: check the network.")
        stayed = [rank for rank, name in enumerate(self._began) if name in self.group.members]
        blocks = [self._placement.block(rank) for rank in stayed]
        agents = tuple(agent for block in blocks for agent in block)
        lost = tuple(agent for agent in range(self._placement.agents) if agent not in agents)
        placement = Placement(len(agents), len(blocks), tuple(map(len, blocks)))
        note = f"{self._news()}; {len(agents)} agents go on from iteration {snapshot_id[1]}"
        return Survivors(snapshot_id[1], self._snapshots.at(snapshot_id), agents, lost, placement, note)

    def _news(self) -> str:
        reasons = self.group.lost()
        self._new = [name for name in self._began if name in reasons and name not in self._told]
        lost = "; ".join(f"{self.group.who(name)}: {reasons[name]}" for name in self._new)
        return f"lost {lost}" if lost else "met again"

    def confirm(self) -> None:
        """Those whom the last note names are in the records; whoever was lost since then is not."""
        self._told |= set(self._new)

    def sentence(self, error: PeerLostError, checkpoints: Checkpoints | None) -> PeerLostError:
        """With what a run ends that lost a process and cannot go on."""
        error = self.group.verdict(error)
        saved = complete(checkpoints.folder) if checkpoints is not None else []
        way_on = f"--resume goes on from iteration {int(saved[0].stem)}" if saved else "there is no checkpoint yet"
        return PeerLostError(error.reasons, f"{error}; it has stopped, {way_on}.")
