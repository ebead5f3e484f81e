"""When messages leave: a recorded step, split where it needs a gradient, rows of other processes, or norms of rows.

In one process a step with one gradient and without norms is one fused pass. With several processes, each message is
computed, sent and awaited before anything that needs it; a norm needs a whole row before anything can use it. The
equations stay the same, node by node, so that rounding does not change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from peerdescent.expressions import Array, Column, Expression, Mixed, RowNorm, walk
from peerdescent.tracing.recording import gradient_name

POINT = "@point"
"""The name of the point where the gradient is wanted; no state can have this name."""


def point_name(number: int) -> str:
    """The name of the point of a step's first, second, … gradient, counted from 0.

    >>> point_name(0), point_name(1)
    ('@point', '@point1')
    """
    return f"{POINT}{number or ''}"


@dataclass(frozen=True)
class Message:
    """An array whose rows other processes need."""

    array: str
    all_agents: bool
    """Whether all agents need it, for a mean, or only neighbours."""
    source: Expression | None
    """What is sent; None for an array that exists already: a state or a gradient's point."""
    needs: tuple[str, ...]
    """The messages that must arrive before it can be computed."""
    level: int
    """How many of the step's gradients it waits for."""
    number: int = 0
    """Which of the step's messages along edges it is."""


@dataclass(frozen=True)
class Norm:
    """The norms of the rows of an array, which each process computes for its own agents."""

    array: str
    source: Expression | None
    """What is measured; None for an array that exists already."""
    column: str
    """Where the norms go."""
    needs: tuple[str, ...]
    level: int


Operation = Message | Norm


@dataclass(frozen=True)
class Stage:
    """What happens before a gradient: operations for its point, the point, and what need not wait for the gradient."""

    point: Expression
    for_point: tuple[Operation, ...] = ()
    early: tuple[Operation, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """A step in order: for each gradient its stage and the gradient; then late operations and the update."""

    stages: tuple[Stage, ...]
    late: tuple[Operation, ...]
    outputs: Mapping[str, Expression]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations, in order."""
        before = (operation for stage in self.stages for operation in (*stage.for_point, *stage.early))
        return (*before, *self.late)

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, in the order in which they leave."""
        return tuple(operation for operation in self.operations if isinstance(operation, Message))


def plan_step(
    points: Sequence[Expression],
    outputs: Mapping[str, Expression],
    states: Collection[str],
    distributed: bool,
    filtered: bool = False,
) -> Schedule:
    """The order in which a step computes, sends and awaits; without messages unless it is distributed.

    Args:
        points: where gradients are wanted.
        outputs: the new value of every state.
        states: their names.
        distributed: whether rows are sent.
        filtered: whether neighbours read something else than the array that is sent, which then needs a copy.

    >>> x, g = Array("x"), Array(gradient_name(0))
    >>> schedule = plan_step([x], {"x": x - Mixed("laplacian", x) - Mixed("disagreement", g)}, ["x"], distributed=True)
    >>> [message.array for message in schedule.stages[0].early], [message.array for message in schedule.late]
    (['x'], ['@sent0'])
    >>> print(schedule.outputs["x"])
    ((x - laplacian(x)) - disagreement(@sent0))
    """
    writer = _Rewriter({*states, *map(point_name, range(len(points)))}, distributed, filtered)
    found: list[tuple[Expression, list[Operation]]] = []
    for number, point in enumerate(points):
        before = len(writer.operations)
        [new] = writer.rewrite_all(point)
        if not isinstance(new, Array):
            writer.known[id(point)] = Array(point_name(number))
            writer.levels[point_name(number)] = number
        found.append((new, writer.operations[before:]))
        writer.levels[gradient_name(number)] = number + 1
    new_outputs = dict(zip(outputs, writer.rewrite_all(*outputs.values()), strict=True))
    stages = []
    for number, (new, own) in enumerate(found):
        for_point = tuple(operation for operation in own if operation.level == number)
        early = (operation for operation in writer.operations if operation.level == number)
        stages.append(Stage(new, for_point, tuple(operation for operation in early if operation not in for_point)))
    late = tuple(operation for operation in writer.operations if operation.level == len(points))
    return Schedule(tuple(stages), late, new_outputs)


class _Rewriter:
    """Rewrites equations so that every norm is a column and, if distributed, every exchange reads what was sent."""

    def __init__(self, available: set[str], distributed: bool, filtered: bool) -> None:
        self.available, self.distributed, self.filtered = available, distributed, filtered
        self.operations: list[Operation] = []
        self.known: dict[int, Expression] = {}
        self.levels: dict[str, int] = {}
        """How many gradients an array waits for; states wait for none."""
        self._needs: dict[str, tuple[str, ...]] = {}
        """The messages from which a norm and the array that it measures are computed."""
        self._sent: dict[tuple[int, bool], Message] = {}
        self._kept: list[Expression] = []

    def rewrite_all(self, *roots: Expression) -> list[Expression]:
        """Rewrite equations, norms first: whatever else reads an array that is measured reads what is kept of it."""
        for node in walk(*roots):
            if isinstance(node, RowNorm):
                self.rewrite(node)
        return [self.rewrite(root) for root in roots]

    def rewrite(self, node: Expression) -> Expression:
        if id(node) not in self.known:
            self._kept.append(node)  # keeps its id unique
            if self.distributed and isinstance(node, Mixed):
                self.known[id(node)] = replace(node, source=Array(self._message(node).array))
            elif isinstance(node, RowNorm):
                self.known[id(node)] = Column(self._norm(node).column)
            else:
                parts = {f.name: getattr(node, f.name) for f in fields(node)}
                changed = {name: self.rewrite(part) for name, part in parts.items() if isinstance(part, Expression)}
                same = all(changed[name] is parts[name] for name in changed)
                self.known[id(node)] = node if same else replace(node, **changed)
        return self.known[id(node)]

    def _message(self, node: Mixed) -> Message:
        all_agents = node.kind == "mean"
        key = (id(node.source), all_agents)
        if key not in self._sent:
            source = self.rewrite(node.source)
            message = replace(self._describe(source, all_agents), number=node.number)
            self._sent[key] = message
            self.operations.append(message)
        return self._sent[key]

    def _describe(self, source: Expression, all_agents: bool) -> Message:
        if isinstance(source, Array) and source.name in self.available and not (all_agents or self.filtered):
            return Message(source.name, False, None, (), self.levels.get(source.name, 0))
        number = sum(isinstance(known, Message) and known.source is not None for known in self.operations)
        return Message(f"@sent{number}", all_agents, source, *self._dependencies(source))

    def _norm(self, node: RowNorm) -> Norm:
        """The norms of an array, which is computed and kept: all that follows reads it."""
        source = self.rewrite(node.base)
        number = sum(isinstance(known, Norm) for known in self.operations)
        existing = isinstance(source, Array)
        array = source.name if isinstance(source, Array) else f"@row{number}"
        norm = Norm(array, None if existing else source, f"@norm{number}", *self._dependencies(source))
        self.operations.append(norm)
        self.levels[norm.array] = self.levels[norm.column] = norm.level
        self._needs[norm.array] = self._needs[norm.column] = norm.needs
        self.known[id(node.base)] = Array(array)
        return norm

    def _dependencies(self, source: Expression) -> tuple[tuple[str, ...], int]:
        """The messages that an array needs, and how many gradients it waits for."""
        nodes = list(walk(source))
        sent = {known.array: known.level for known in self.operations if isinstance(known, Message)}
        arrays = [node.source for node in nodes if isinstance(node, Mixed)] if self.distributed else []
        needed = [array.name for array in arrays if isinstance(array, Array)]
        leaves = [node.name for node in nodes if isinstance(node, Array | Column)]
        needs = tuple(dict.fromkeys([*needed, *(name for leaf in leaves for name in self._needs.get(leaf, ()))]))
        waited = [self.levels.get(name, 0) for name in leaves] + [sent[name] for name in needs]
        return needs, max(waited, default=0)
