"""What a run does about lost processes: keep states to go back to, regroup, and tell the user."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from peerdescent.algorithms.state import State
from peerdescent.distributed.faults import Faults
from peerdescent.distributed.heartbeat import SnapshotId
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError, PeerdescentError, PeerLostError
from peerdescent.graphs.own_weights import restricted
from peerdescent.kernels.update import synchronize_messages
from peerdescent.mixing.sequence_weights import make_weights
from peerdescent.training.buffers import split_state
from peerdescent.training.checkpoint_files import Checkpoint
from peerdescent.training.checkpoints import Checkpoints, complete
from peerdescent.training.state_repair import Snapshots, in_words, restore_invariants

if TYPE_CHECKING:
    from peerdescent.training.loop import Run

COMPLETED: SnapshotId = (-1, -1)
"""Instead of a state to go back to: rank 0 has finished, so all have."""
MAX_IDLE_REGROUPS = 5
"""How often in a row processes regroup although none was lost."""


class Survivors(NamedTuple):
    """Which agents go on, and from where."""

    k: int
    state: State
    """The rows of the agents hosted here at iteration k, with their buffers."""
    agents: tuple[int, ...]
    lost: tuple[int, ...]
    placement: Placement
    """Of the remaining agents, numbered anew."""
    note: str


class Recovery:
    """What a run keeps in case it loses processes.

    Args:
        faults: what to do then.
        group: the processes.
        placement: where the agents are at the start.
    """

    def __init__(self, faults: Faults, group: ProcessGroup, placement: Placement) -> None:
        self.group, self._placement, self._initial_members = group, placement, group.members
        self._wanted = faults.on_loss == "continue"
        self._snapshots, self._idle_regroups = Snapshots(), 0
        self._new, self._reported = list[int](), set[int]()
        group.agents = {name: in_words(placement.block(rank)) for rank, name in enumerate(group.members)}
        group.drop_unresponsive(faults.on_loss != "stop")

    @property
    def can_go_on(self) -> bool:
        """Whether the remaining processes are to go on, and this one is still connected to rank 0."""
        return self._wanted and not self.group.abandoned

    def keep(self, k: int, state: State) -> None:
        """Keep a state to go back to, if the run is to go on after a loss; a barrier for all processes."""
        if self._wanted and self.group.size > 1:
            self._snapshots.keep((self.group.epoch, k), state)
            self.group.barrier()
            self._snapshots.discard_old()

    def announce_completion(self) -> None:
        """Regroup once more with the processes that do not know yet that the run is complete, to tell them."""
        while True:
            with suppress(PeerLostError):  # another loss: regroup without that process
                self.group.regroup(COMPLETED)
                return

    def regroup(self) -> Survivors | None:
        """Regroup and go back to the last state that all remaining processes have; None if the run is complete."""
        before = self.group.members
        snapshot_id = self.group.regroup(self._snapshots.newest)
        if snapshot_id == COMPLETED:
            return None
        self._idle_regroups = self._idle_regroups + 1 if before == self.group.members else 0
        if self._idle_regroups == MAX_IDLE_REGROUPS:
            raise PeerdescentError("connections break repeatedly although all processes are alive: check the network.")
        stayed = [rank for rank, name in enumerate(self._initial_members) if name in self.group.members]
        blocks = [self._placement.block(rank) for rank in stayed]
        agents = tuple(agent for block in blocks for agent in block)
        lost = tuple(agent for agent in range(self._placement.agents) if agent not in agents)
        placement = Placement(len(agents), len(blocks), tuple(map(len, blocks)))
        note = f"{self._news()}; {len(agents)} agents go on from iteration {snapshot_id[1]}"
        return Survivors(snapshot_id[1], self._snapshots.at(snapshot_id), agents, lost, placement, note)

    def _news(self) -> str:
        reasons = self.group.lost()
        self._new = [name for name in self._initial_members if name in reasons and name not in self._reported]
        lost = "; ".join(f"{self.group.describe(name)}: {reasons[name]}" for name in self._new)
        return f"lost {lost}" if lost else "reconnected"

    def confirm(self) -> None:
        """Mark the processes that the last note names as recorded; those lost since then are not."""
        self._reported |= set(self._new)

    def stop_error(self, error: PeerLostError, checkpoints: Checkpoints | None) -> PeerLostError:
        """The error that a run ends with if it lost a process and cannot go on."""
        error = self.group.name_lost(error)
        saved = complete(checkpoints.folder) if checkpoints is not None else []
        advice = f"--resume goes on from iteration {int(saved[0].stem)}" if saved else "there is no checkpoint yet"
        return PeerLostError(error.reasons, f"{error}; the run has stopped, {advice}.")


def continue_without_lost(run: Run) -> bool:
    """Regroup and go back to the last state that all processes have; the method's invariants are restored.

    Returns whether there is anything left to do.
    """
    problem, graph = run.all_agents
    left = run.recovery.regroup()
    if left is None:
        return False
    run.k, run.lost, run.placement = left.k, left.lost, left.placement
    run.stopping.forget_schedule()
    if run.checkpoints is not None:
        run.checkpoints.placement = left.placement
    run.recorder.rewind(run.k)
    run.bytes_before = run.k, run.bytes_sent()
    try:
        run.graph = graph.subset(left.agents)
    except InputError as error:
        _stop(run, left.state, error)
    run.problem = problem.subset(left.agents)
    laplacian, mixing = (restricted(kind, left.agents) for kind in (run.settings.laplacian, run.settings.mixing))
    weights = make_weights(run.graph, laplacian, mixing, run.algorithm)
    state, buffers = split_state(left.state)
    run.connect({name: array.clone() for name, array in state.items()}, weights)
    for name, rows in buffers.items():  # this process hosts the same agents as before
        run.buffers[name].copy_(rows)
    whole = run.gathered_state()
    restored = restore_invariants(run.algorithm, whole) if run.group.is_rank_zero else whole
    for name, array in run.state.items():
        run.group.scatter(restored[name] if run.group.is_rank_zero else None, array, run.placement)
    synchronize_messages(run.update)
    run.recorder.note(left.note)
    run.recovery.confirm()
    return True


def _stop(run: Run, state: State, error: InputError) -> NoReturn:
    """Stop with a checkpoint: of all agents, if there is one of this iteration, else of those that are left."""
    way_back = "there is no checkpoint"
    if run.checkpoints is not None:
        way_back = "--resume brings them back from the checkpoint"
        if not run.checkpoints.has(run.k):
            run.checkpoints.save(Checkpoint(state, run.k, run.seconds, run.checkpoints.digest, run.lost))
            way_back = "--resume brings them back with a neighbour's x"
    raise PeerdescentError(
        f"without {in_words(run.lost)} the graph is no longer connected, and the run has stopped at iteration {run.k}; "
        f"{way_back}."
    ) from error
