"""How a method goes on without some of its agents: states to go back to, invariants, agents that come back.

Nothing here knows about processes: these are functions of the agents' rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State, initial_state
from peerdescent.distributed.heartbeat import SnapshotId
from peerdescent.graphs import Graph
from peerdescent.kernels.update import is_message_memory
from peerdescent.training.buffers import joined_state, split_state


class Snapshots:
    """The last one or two states of the agents hosted here, to go back to after a loss.

    A process keeps a state before a barrier and discards the previous one after it. So whichever process is lost and
    whenever, all remaining processes have the oldest of their newest states.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[SnapshotId, State]] = []

    @property
    def newest(self) -> SnapshotId:
        """The epoch and iteration of the last state."""
        return self._kept[-1][0]

    def keep(self, snapshot_id: SnapshotId, state: State) -> None:
        """Keep a copy of the state."""
        self._kept.append((snapshot_id, {name: array.clone() for name, array in state.items()}))

    def discard_old(self) -> None:
        """Discard all but the last state, once all processes have kept that one."""
        del self._kept[:-1]

    def at(self, snapshot_id: SnapshotId) -> State:
        """The state with this id."""
        return dict(self._kept)[snapshot_id]


def restore_invariants(algorithm: Algorithm, state: State) -> State:
    """The state with the method's invariants restored, after agents were lost or came back.

    An invariant is a combination of the arrays whose mean over the agents is zero; without the rows of lost agents it
    is not. Its mean is subtracted from the first array of the method's memory on which the invariant depends: from v
    for DSGPA and D² (Σv = 0), from y for gradient tracking (mean tracker = mean gradient). x never changes.

    >>> from peerdescent.algorithms import D2
    >>> state = {"x": torch.tensor([[5.0], [7.0]]), "v": torch.tensor([[1.0], [2.0]])}
    >>> restore_invariants(D2(), state)
    {'x': tensor([[5.],
            [7.]]), 'v': tensor([[-0.5000],
            [ 0.5000]])}
    """
    state = dict(state)
    for invariant in algorithm.invariants(SimpleNamespace(**state)):
        for name in algorithm.memory():
            now = _evaluate(algorithm, invariant, state)
            ones = {**state, name: torch.ones_like(state[name])}
            zeros = {**state, name: torch.zeros_like(state[name])}
            slope = (_evaluate(algorithm, invariant, ones) - _evaluate(algorithm, invariant, zeros)).mean()
            if slope != 0:
                offset = now.mean(dim=0, keepdim=True) / slope
                state[name] = (state[name].double() - offset).to(state[name].dtype)
                break
    return state


def _evaluate(algorithm: Algorithm, invariant: str, state: State) -> torch.Tensor:
    array: torch.Tensor = algorithm.invariants(SimpleNamespace(**state))[invariant].double()
    return array


def readmit_agents(algorithm: Algorithm, graph: Graph, state: State, lost: Collection[int]) -> State:
    """The state of all agents from that of the survivors: lost agents come back with a neighbour's x.

    Each starts at the x of its first neighbour that stayed (of the first agent that stayed, if no neighbour did), with
    the buffers and messages of that neighbour, and with its memory as at the start of a run: dual variables and
    trackers at zero. Then the invariants are restored.
    """
    stayed = [agent for agent in range(graph.n) if agent not in lost]
    row = {agent: i for i, agent in enumerate(stayed)}
    for agent in lost:
        source = next((other for other in graph.neighbours(agent) if other not in lost), stayed[0])
        row[agent] = row[source]
    rows = [row[agent] for agent in range(graph.n)]
    state, buffers = split_state(state)
    x = state["x"][rows]
    fresh = initial_state(algorithm, x)
    sent = {name: array[rows] for name, array in state.items() if is_message_memory(name)}
    fresh |= sent  # as if the neighbour had sent its messages for both
    whole = {name: fresh.get(name, x).clone() for name in state}  # what the method does not know is an average of x
    for name, array in state.items():
        whole[name][stayed] = array
    whole["x"] = x
    return joined_state(restore_invariants(algorithm, whole), {name: array[rows] for name, array in buffers.items()})


def in_words(agents: Sequence[int]) -> str:
    """Agents by number, in words.

    >>> in_words([3]), in_words(range(4, 7)), in_words([1, 2, 9])
    ('agent 3', 'agents 4–6', 'agents 1, 2, 9')
    """
    if len(agents) == 1:
        return f"agent {agents[0]}"
    together = len(agents) > 2 and list(agents) == list(range(agents[0], agents[-1] + 1))
    return f"agents {agents[0]}–{agents[-1]}" if together else "agents " + ", ".join(map(str, agents))
