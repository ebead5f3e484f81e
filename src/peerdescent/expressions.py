"""Recorded equations: what a method's step does to one entry of its arrays.

A step is plain arithmetic, so it runs on tensors, on NumPy arrays and on numbers. Given the symbols of this
module, the same arithmetic produces the equation itself, from which a fused kernel is generated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Union

MixKind = Literal["laplacian", "disagreement", "mean"]
Operand = Union["Expression", float]


@dataclass(frozen=True, eq=False)
class Expression:
    """A node of a recorded equation. Nodes compare by identity: each node is computed once.

    >>> x, eta = Array("x"), Scalar("eta")
    >>> print(x - 2 * eta * x)
    (x - ((2 * eta) * x))
    """

    scalar: ClassVar[bool] = False

    def __add__(self, other: Operand) -> Expression:
        return Binary("+", self, lift(other))

    def __radd__(self, other: Operand) -> Expression:
        return Binary("+", lift(other), self)

    def __sub__(self, other: Operand) -> Expression:
        return Binary("-", self, lift(other))

    def __rsub__(self, other: Operand) -> Expression:
        return Binary("-", lift(other), self)

    def __mul__(self, other: Operand) -> Expression:
        return Binary("*", self, lift(other))

    def __rmul__(self, other: Operand) -> Expression:
        return Binary("*", lift(other), self)

    def __truediv__(self, other: Operand) -> Expression:
        return Binary("/", self, lift(other))

    def __rtruediv__(self, other: Operand) -> Expression:
        return Binary("/", lift(other), self)

    def __neg__(self) -> Expression:
        return Binary("-", Constant(0.0), self)

    def operands(self) -> tuple[Expression, ...]:
        """The nodes that this one is computed from."""
        return ()


@dataclass(frozen=True, eq=False)
class Array(Expression):
    """A named n×p array: a state or the gradient."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Scalar(Expression):
    """A number that may change from one iteration to the next: η_k, α_k, β_k."""

    name: str
    scalar: ClassVar[bool] = True

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Constant(Expression):
    """A literal number."""

    value: float
    scalar: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True, eq=False)
class Binary(Expression):
    """a + b, a − b, a · b or a / b."""

    operator: str
    left: Expression
    right: Expression

    @property
    def scalar(self) -> bool:  # type: ignore[override]
        """Whether both sides are numbers."""
        return self.left.scalar and self.right.scalar

    def operands(self) -> tuple[Expression, ...]:
        """The two sides."""
        return (self.left, self.right)

    def __str__(self) -> str:
        return f"({self.left} {self.operator} {self.right})"


@dataclass(frozen=True, eq=False)
class Power(Expression):
    """The powerball σ(a, γ) = sign(a)|a|^γ."""

    base: Expression
    gamma: float

    def operands(self) -> tuple[Expression, ...]:
        """The base."""
        return (self.base,)

    def __str__(self) -> str:
        return f"power({self.base}, {self.gamma:g})"


@dataclass(frozen=True, eq=False)
class Clamp(Expression):
    """a, clipped to ±limit."""

    base: Expression
    limit: float

    def operands(self) -> tuple[Expression, ...]:
        """The clipped value."""
        return (self.base,)

    def __str__(self) -> str:
        return f"clamp({self.base}, {self.limit:g})"


@dataclass(frozen=True, eq=False)
class Maximum(Expression):
    """The larger entries of two arrays; NaN where one of them is."""

    left: Expression
    right: Expression

    def operands(self) -> tuple[Expression, ...]:
        """The two values."""
        return (self.left, self.right)

    def __str__(self) -> str:
        return f"max({self.left}, {self.right})"


@dataclass(frozen=True, eq=False)
class Rounded(Expression):
    """a, rounded to bfloat16 and back."""

    base: Expression

    def operands(self) -> tuple[Expression, ...]:
        """The rounded value."""
        return (self.base,)

    def __str__(self) -> str:
        return f"rounded({self.base})"


@dataclass(frozen=True, eq=False)
class Mixed(Expression):
    """Rows combined over the graph: L·a, (I−W)·a or the mean of all rows. The first two send a over every edge."""

    kind: MixKind
    source: Expression
    number: int = 0
    """Which of the step's messages along edges it is, in the order in which the step asks for them."""

    def operands(self) -> tuple[Expression, ...]:
        """The array that is sent."""
        return (self.source,)

    def __str__(self) -> str:
        return f"{self.kind}({self.source})"


@dataclass(frozen=True, eq=False)
class RowNorm(Expression):
    """‖a_i‖, the Euclidean norm of each agent's row: one number for all its columns."""

    base: Expression

    def operands(self) -> tuple[Expression, ...]:
        """The array whose rows are measured."""
        return (self.base,)

    def __str__(self) -> str:
        return f"norm({self.base})"


@dataclass(frozen=True, eq=False)
class Column(Expression):
    """A number for each agent that is known already, such as a norm or a push-sum weight: a named n×1 array."""

    name: str

    def __str__(self) -> str:
        return self.name


def lift(value: Operand) -> Expression:
    """Wrap a number in a node; return a node unchanged."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, (int, float)):
        return Constant(float(value))
    raise TypeError(f"a step combines arrays and numbers, not {type(value).__name__}")


def walk(*roots: Expression) -> Iterator[Expression]:
    """Every node below the roots, each once, operands before the nodes that use them."""
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((operand, False) for operand in reversed(node.operands()))
