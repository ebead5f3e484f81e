"""How much memory a run takes, estimated before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass

from peerdescent._util.byte_units import human_bytes
from peerdescent._util.memory import available_memory
from peerdescent.errors import InputError

MATRIX_ENTRY = 24
"""The bytes of an entry of the sparse matrices L and W together."""


@dataclass(frozen=True)
class Estimate:
    """The memory that a run takes, in bytes.

    Args:
        agents: n.
        parameters: p, the length of x.
        arrays: how many n×p arrays there are.
        itemsize: one of their entries.
        data: the problem's data.
        minibatches: the samples of all agents in one iteration, and what is drawn ahead for them.
        matrices: L and W.
    """

    agents: int
    parameters: int
    arrays: int
    itemsize: int
    data: int = 0
    minibatches: int = 0
    matrices: int = 0

    @property
    def state(self) -> int:
        """What the n×p arrays take."""
        return self.agents * self.parameters * self.arrays * self.itemsize

    @property
    def total(self) -> int:
        """All of it."""
        return self.state + self.data + self.minibatches + self.matrices

    def __str__(self) -> str:
        counted = f"{self.agents:,} agent{'s' * (self.agents != 1)} × {self.parameters:,} parameters"
        state = f"{counted} × {self.arrays} arrays × {self.itemsize} bytes = {human_bytes(self.state)}"
        others = {"data": self.data, "minibatches": self.minibatches, "L and W": self.matrices}
        plus = [f"{name} {human_bytes(size)}" for name, size in others.items() if size > self.total // 100]
        return f"{human_bytes(self.total)} ({', plus '.join([state, *plus])})"


def estimate(
    agents: int,
    parameters: int,
    memory: int,
    messages: int,
    itemsize: int,
    edges: int = 0,
    data: int = 0,
    minibatches: int = 0,
) -> Estimate:
    """The memory of a run: a lower bound, so that nothing is refused that fits.

    Args:
        agents: n.
        parameters: p, the length of x.
        memory: the arrays that the method keeps besides x.
        messages: the vectors that an agent sends in an iteration.
        itemsize: the bytes of a number.
        edges: of the graph.
        data: the bytes of the problem's data.
        minibatches: the bytes of the samples of one iteration.

    >>> print(estimate(20, 61_706, memory=1, messages=1, itemsize=4, edges=20))
    24.7 MB (20 agents × 61,706 parameters × 5 arrays × 4 bytes = 24.7 MB)
    """
    arrays = 1 + memory + messages + 2  # x and the memory, the messages, the gradient, and the starting points
    return Estimate(agents, parameters, arrays, itemsize, data, minibatches, MATRIX_ENTRY * (agents + 2 * edges))


def check_memory(name: str, needed: Estimate) -> None:
    """Refuse a run that cannot fit into the memory that is free; where that is unknown, nothing is refused."""
    free = available_memory()
    if free is not None and needed.total > free:
        raise InputError(
            f"{name} needs about {needed}, and {human_bytes(free)} of memory are free: use fewer agents, a smaller "
            "problem or a smaller batch_size."
        )
