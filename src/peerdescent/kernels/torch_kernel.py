"""The recorded step through torch.compile: the fused update for devices that no C compiler reaches.

Products with L and W, means, and rounding to bfloat16 are single operations of torch; the arithmetic between them
becomes one generated pass each, which torch.compile fuses. The last pass writes every state in place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from peerdescent._util.row_norms import row_norms
from peerdescent.expressions import (
    Array,
    Binary,
    Clamp,
    Column,
    Constant,
    Expression,
    Maximum,
    Mixed,
    Power,
    Rounded,
    Scalar,
    walk,
)
from peerdescent.kernels.compiler import CompilerError
from peerdescent.kernels.fused import CompiledUpdate
from peerdescent.mixing.network import MemoryNetwork
from peerdescent.transforms import maximum, power

Numbers = dict[str, float]
ONE = Constant(1.0)
CHECKED_COLUMNS = 64
"""Columns on which the compiled passes are compared with the eager ones."""
_count = itertools.count()
"""Every pass is a function of its own: torch.compile limits how often it compiles one function."""


class TorchUpdate(CompiledUpdate):
    """The same schedule of messages as `CompiledUpdate`, on any device; `torch.compile` fuses its arithmetic."""

    def _kernel(
        self, outputs: Mapping[str, Expression], arrays: Mapping[str, torch.Tensor], network: MemoryNetwork
    ) -> TorchKernel:
        rows = {name: exchange.rows for name, exchange in self._exchanges.items()}
        return TorchKernel(outputs, arrays, rows, network)

    def _norm(self, rows: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
        def measure() -> None:
            out[:, 0] = row_norms(rows)

        return measure

    def _describe(self) -> str:
        return f"torch (torch.compile on {self.gradient.device.type})"


class TorchKernel:
    """Named arrays, updated in place by passes that torch.compile has fused.

    Args:
        outputs: the new value of each array.
        arrays: by name.
        rows: where an array has rows of other processes around it: all of them, which L and W act on.
        network: L, W and the mean.
        compiled: False evaluates the generated passes eagerly.
    """

    def __init__(
        self,
        outputs: Mapping[str, Expression],
        arrays: Mapping[str, torch.Tensor],
        rows: Mapping[str, torch.Tensor],
        network: MemoryNetwork,
        compiled: bool = True,
    ) -> None:
        self._arrays, self._rows, self._network = arrays, rows, network
        outputs = {name: node for name, node in outputs.items() if not (isinstance(node, Array) and node.name == name)}
        self._staged = [node for node in walk(*outputs.values()) if isinstance(node, Mixed | Rounded)]
        sources = [node.operands()[0] for node in self._staged]
        self._passes = {
            id(source): Pass((source,), (), compiled)
            for source in sources
            if not isinstance(source, Array | Mixed | Rounded)
        }
        self._update = Pass(tuple(outputs.values()), tuple(outputs), compiled)
        self._kept = outputs, sources  # ids stay unique
        if compiled:
            self._compile()

    def _compile(self) -> None:
        """Compile now, and compare with the eager passes on a few columns: an error belongs to the start of a run."""
        like = self._arrays["x"][:, :CHECKED_COLUMNS]
        values = {
            id(node): _check_values(_shape(node, like), like.clone(), 3 + i) for i, node in enumerate(self._staged)
        }
        for one in (*self._passes.values(), self._update):
            numbers = _check_values((one.count,), like.clone(), 1)
            sizes = {name: (len(a), min(a.shape[1], CHECKED_COLUMNS)) for name, a in self._arrays.items()}
            given = [
                {name: _check_values(sizes[name], a, i) for i, (name, a) in enumerate(self._arrays.items())}
                for _ in range(2)
            ]
            try:
                fused = one.run(numbers, given[0], values)
            except Exception as error:  # dynamo, inductor, Triton and compilers fail in ways of their own
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise CompilerError(f"torch.compile fails on {like.device.type}: {reason}") from error
            eager = one.run(numbers, given[1], values, eager=True)
            pairs = [(fused, eager), *((given[0][name], given[1][name]) for name in given[0])]
            if not all(a is None or torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs):
                raise CompilerError(f"torch.compile computes something else than the step on {like.device.type}")

    def __call__(self, numbers: Numbers) -> None:
        like, values = self._arrays["x"], dict[int, torch.Tensor]()
        for node in self._staged:
            source = node.operands()[0]
            if id(source) in self._passes:
                rows = self._passes[id(source)](numbers, self._arrays, values, like)
            elif isinstance(source, Array):
                rows = self._rows.get(source.name, self._arrays[source.name])
            else:
                rows = values[id(source)]
            values[id(node)] = self._stage(node, rows)
        self._update(numbers, self._arrays, values, like)

    def _stage(self, node: Expression, rows: torch.Tensor) -> torch.Tensor:
        """A product, a mean or a rounding. Inside a pass, torch.compile would drop the rounding."""
        if isinstance(node, Rounded):
            return rows.to(torch.bfloat16).to(rows.dtype)
        assert isinstance(node, Mixed)
        if node.kind == "mean":
            return rows.mean(dim=0, keepdim=True)
        network = self._network
        return (network.laplacian_matrix if node.kind == "laplacian" else network.disagreement_matrix) @ rows


def _shape(node: Expression, like: torch.Tensor) -> tuple[int, ...]:
    mean = isinstance(node, Mixed) and node.kind == "mean"
    return (1 if mean else like.shape[0], like.shape[1])


def _check_values(shape: tuple[int, ...], like: torch.Tensor, number: int) -> torch.Tensor:
    """Entries between −1 and 1, different for each array; a view if `like` is one, for which torch compiles anew."""
    made = torch.sin(1 + number + torch.arange(math.prod(shape), dtype=torch.float32)).view(shape).to(like).clone()
    return made[:] if like._is_view() else made


class Pass:
    """Elementwise arithmetic as one generated function of arrays and numbers.

    Args:
        roots: what it computes.
        targets: the arrays to write the results to; without them it returns its only result.
        compiled: whether torch.compile fuses it.

    >>> x, eta = Array("x"), Scalar("eta")
    >>> one = Pass((x - 2 * eta * x,), ("x",), compiled=False)
    >>> print(one.text.replace(one.name, "one"), end="")
    def one(numbers, a0):
        t0 = numbers[0] * a0
        t1 = a0 - t0
        a0.copy_(t1)
    >>> a = torch.ones(1, 2)
    >>> _ = one({"eta": 0.25}, {"x": a}, {}, a)
    >>> a
    tensor([[0.5000, 0.5000]])
    """

    def __init__(self, roots: tuple[Expression, ...], targets: tuple[str, ...], compiled: bool) -> None:
        self.name = f"pass_{next(_count)}"
        self._names: dict[int, str] = {}
        self._scalar_nodes: list[Expression] = []
        self._array_names = list(targets)
        self._values: list[Expression] = []
        self._lines: list[str] = []
        results = [self._result(root) for root in roots]
        if targets:
            self._lines += [
                f"{self._array(name)}.copy_({result})" for name, result in zip(targets, results, strict=True)
            ]
        else:
            self._lines += [f"return {result}" for result in results]
        inputs = [f"a{i}" for i in range(len(self._array_names))] + [f"v{i}" for i in range(len(self._values))]
        body = "".join(f"    {line}\n" for line in self._lines)
        self.text = f"def {self.name}({', '.join(['numbers', *inputs])}):\n{body}"
        self.count = len(self._scalar_nodes)
        """How many numbers it takes."""
        self._eager = self._function = _function(self.name, self.text)
        if compiled:
            self._function = torch.compile(self._eager, fullgraph=True, dynamic=True)
        self._last: tuple[list[float], torch.Tensor] | None = None

    def __call__(
        self,
        numbers: Numbers,
        arrays: Mapping[str, torch.Tensor],
        values: Mapping[int, torch.Tensor],
        like: torch.Tensor,
    ) -> torch.Tensor:
        """The result, for targets None; numbers have the dtype and device of `like`."""
        given = [scalar_value(node, numbers) for node in self._scalar_nodes]
        if self._last is None or self._last[0] != given:  # rates are often constant: no copy to the device then
            self._last = given, torch.tensor(given, dtype=like.dtype).to(like.device)
        return self.run(self._last[1], arrays, values)

    def run(
        self,
        numbers: torch.Tensor,
        arrays: Mapping[str, torch.Tensor],
        values: Mapping[int, torch.Tensor],
        eager: bool = False,
    ) -> torch.Tensor:
        """The same with the numbers in a tensor, eagerly if wanted."""
        inputs = [arrays[name] for name in self._array_names] + [values[id(node)] for node in self._values]
        result: torch.Tensor = (self._eager if eager else self._function)(numbers, *inputs)
        return result

    def _result(self, root: Expression) -> str:
        """A root's value; of an array that may be written to before, a product with 1.

        Torch 2.13 takes a clone for no operation, and reads the array after it was written.
        """
        return self._visit(ONE * root if isinstance(root, Array) else root)

    def _visit(self, node: Expression) -> str:
        """The name of a node's value; its line is added once, after those of its operands."""
        if id(node) not in self._names:
            self._names[id(node)] = self._named(node)
        return self._names[id(node)]

    def _named(self, node: Expression) -> str:
        if node.scalar:  # in double precision, once for all entries
            self._scalar_nodes.append(node)
            return f"numbers[{len(self._scalar_nodes) - 1}]"
        if isinstance(node, Array | Column):
            return self._array(node.name)
        if isinstance(node, Mixed | Rounded):
            self._values.append(node)
            return f"v{len(self._values) - 1}"
        return self._line(self._formula(node))

    def _line(self, formula: str) -> str:
        self._lines.append(f"t{len(self._lines)} = {formula}")
        return f"t{len(self._lines) - 1}"

    def _array(self, name: str) -> str:
        if name not in self._array_names:
            self._array_names.append(name)
        return f"a{self._array_names.index(name)}"

    def _formula(self, node: Expression) -> str:
        if isinstance(node, Binary):
            return f"{self._visit(node.left)} {node.operator} {self._visit(node.right)}"
        if isinstance(node, Clamp):
            return f"{self._visit(node.base)}.clamp({-node.limit!r}, {node.limit!r})"
        if isinstance(node, Power):
            return f"power({self._visit(node.base)}, {node.gamma!r})"
        if isinstance(node, Maximum):
            return f"maximum({self._visit(node.left)}, {self._visit(node.right)})"
        raise TypeError(f"cannot generate a pass for {type(node).__name__}")


def _function(name: str, text: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {"power": power, "maximum": maximum}
    exec(compile(text, f"<{name}>", "exec"), scope)
    function: Callable[..., Any] = scope[name]
    return function


def scalar_value(node: Expression, numbers: Numbers) -> float:
    """A number of the step, in double precision.

    >>> scalar_value(2 * Scalar("eta") - 1, {"eta": 0.75})
    0.5
    """
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Scalar):
        return float(numbers[node.name])
    assert isinstance(node, Binary)
    left, right = scalar_value(node.left, numbers), scalar_value(node.right, numbers)
    if node.operator == "/":
        return left / right
    return {"+": left + right, "-": left - right, "*": left * right}[node.operator]
