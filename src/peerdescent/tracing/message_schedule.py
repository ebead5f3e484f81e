"""When messages leave: a recorded step, split where it needs rows of other processes.

In one process a step is one fused pass. With several, each message is computed, sent and awaited before anything
that needs it. The equations stay the same, node by node, so that rounding does not change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace

from peerdescent.expressions import Array, Expression, Mixed, walk
from peerdescent.tracing.recording import GRADIENT

POINT = "@point"
"""The name of the point where the gradient is wanted; no state can have this name."""


@dataclass(frozen=True)
class Message:
    """An array whose rows other processes need."""

    array: str
    all_agents: bool
    """Whether all agents need it, for a mean, or only neighbours."""
    source: Expression | None
    """What is sent; None for an array that exists already: a state or the gradient's point."""
    needs: tuple[str, ...]
    """The messages that must arrive before it can be computed."""
    late: bool
    """Whether it depends on the gradient."""
    number: int = 0
    """Which of the step's messages along edges it is."""


@dataclass(frozen=True)
class Schedule:
    """A step in order: messages for the point, the point, early messages, the gradient, late messages, the update."""

    point: Expression
    outputs: Mapping[str, Expression]
    for_point: tuple[Message, ...]
    early: tuple[Message, ...]
    late: tuple[Message, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, in the order in which they leave."""
        return self.for_point + self.early + self.late


def plan_step(
    point: Expression,
    outputs: Mapping[str, Expression],
    states: Collection[str],
    distributed: bool,
    filtered: bool = False,
) -> Schedule:
    """The order in which a step computes, sends and awaits; without messages unless it is distributed.

    Args:
        point: where the gradient is wanted.
        outputs: the new value of every state.
        states: their names.
        distributed: whether rows are sent.
        filtered: whether neighbours read something else than the array that is sent, which then needs a copy.

    >>> x, g = Array("x"), Array(GRADIENT)
    >>> schedule = plan_step(x, {"x": x - Mixed("laplacian", x) - Mixed("disagreement", g)}, ["x"], distributed=True)
    >>> [message.array for message in schedule.early], [message.array for message in schedule.late]
    (['x'], ['@sent0'])
    >>> print(schedule.outputs["x"])
    ((x - laplacian(x)) - disagreement(@sent0))
    """
    writer = _Rewriter({*states, POINT}, distributed, filtered)
    new_point = writer.rewrite(point)
    for_point = tuple(writer.messages)
    if not isinstance(point, Array):
        writer.known[id(point)] = Array(POINT)
    new_outputs = {name: writer.rewrite(node) for name, node in outputs.items()}
    rest = writer.messages[len(for_point) :]
    early, late = (tuple(m for m in rest if m.late is when) for when in (False, True))
    return Schedule(new_point, new_outputs, for_point, early, late)


class _Rewriter:
    """Rewrites equations so that, if distributed, every exchange reads an array that is sent as a message."""

    def __init__(self, available: set[str], distributed: bool, filtered: bool) -> None:
        self.available, self.distributed, self.filtered = available, distributed, filtered
        self.messages: list[Message] = []
        self.known: dict[int, Expression] = {}
        self._sent: dict[tuple[int, bool], Message] = {}
        self._kept: list[Expression] = []

    def rewrite(self, node: Expression) -> Expression:
        if id(node) not in self.known:
            self._kept.append(node)  # keeps its id unique
            if self.distributed and isinstance(node, Mixed):
                self.known[id(node)] = replace(node, source=Array(self._message(node).array))
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
            self.messages.append(message)
        return self._sent[key]

    def _describe(self, source: Expression, all_agents: bool) -> Message:
        if isinstance(source, Array) and source.name in self.available and not (all_agents or self.filtered):
            return Message(source.name, False, None, (), False)
        sent = {message.array: message for message in self.messages}
        arrays = [node.source for node in walk(source) if isinstance(node, Mixed)]
        needs = tuple(dict.fromkeys(array.name for array in arrays if isinstance(array, Array)))
        leaves = {node.name for node in walk(source) if isinstance(node, Array)}
        late = GRADIENT in leaves or any(sent[name].late for name in needs)
        number = sum(message.source is not None for message in self.messages)
        return Message(f"@sent{number}", all_agents, source, needs, late)
