"""After a loss: the agents that are left get their own problem, graph and weights, and the run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from peerdescent.algorithms.state import State
from peerdescent.errors import InputError, PeerdescentError
from peerdescent.mixing.weights import MixingWeights
from peerdescent.training.checkpoints import Checkpoint
from peerdescent.training.state_repair import in_words, restore_invariants

if TYPE_CHECKING:
    from peerdescent.training.loop import Run


def continue_without_lost(run: Run) -> bool:
    """Regroup and go back to the last state that all processes have; the method's invariants are restored.

    Returns whether there is anything left to do.
    """
    problem, graph = run.all_agents
    left = run.recovery.regroup()
    if left is None:
        return False
    run.k, run.lost, run.placement = left.k, left.lost, left.placement
    if run.checkpoints is not None:
        run.checkpoints.placement = left.placement
    run.recorder.rewind(run.k)
    run.bytes_before = run.k, run.bytes_sent()
    try:
        run.graph = graph.subset(left.agents)
    except InputError as error:
        _stop(run, left.state, error)
    run.problem = problem.subset(left.agents)
    weights = MixingWeights.build(run.graph, run.settings.laplacian, run.settings.mixing, run.algorithm)
    run.connect({name: array.clone() for name, array in left.state.items()}, weights)
    whole = run.gathered_state()
    restored = restore_invariants(run.algorithm, whole) if run.group.is_rank_zero else whole
    for name, array in run.state.items():
        run.group.scatter(restored[name] if run.group.is_rank_zero else None, array, run.placement)
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
