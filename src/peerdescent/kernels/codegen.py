"""From a recorded step to the C source of one fused pass over memory.

The pass works on blocks of columns that fit into the cache. Within a block it computes the exchanges first, in
order, into a scratch area, and then updates every state in place. Each array is read and written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

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

TABLE = 11
"""The length of the table for a fractional power (see kernel_parts.h)."""


@dataclass(frozen=True)
class Source:
    """The C source of a kernel and the order of its arguments."""

    text: str
    arrays: tuple[str, ...]
    scalars: tuple[str, ...]
    gammas: tuple[float, ...]
    scratch_rows: int
    """Rows of scratch memory, as a multiple of n."""


def generate(outputs: Mapping[str, Expression], real: str) -> Source:
    """The kernel that computes all outputs (array name → equation) in one pass; `real` is float or double."""
    return _Writer(outputs, real).source()


class _Writer:
    def __init__(self, outputs: Mapping[str, Expression], real: str) -> None:
        self.outputs = {name: node for name, node in outputs.items() if not _is(node, name)}
        self.real = real
        nodes = list(walk(*self.outputs.values()))
        self.mixed = [node for node in nodes if isinstance(node, Mixed)]
        inputs = {node.name for node in nodes if isinstance(node, Array | Column)}
        self.arrays = tuple(sorted(inputs | set(self.outputs)))
        self.scalars = tuple(sorted({node.name for node in nodes if isinstance(node, Scalar)}))
        self.gammas = tuple(sorted({n.gamma for n in nodes if isinstance(n, Power) and n.gamma not in (0, 0.5, 1)}))
        self.name_of = {name: f"a{i}" for i, name in enumerate(self.arrays)}  # users' names may clash with C's
        self.number_of = {name: f"h{i}" for i, name in enumerate(self.scalars)}
        self.buffers = 0
        self.buffer_of: dict[int, str] = {}

    def source(self) -> Source:
        stages = "".join(self._exchange(node) for node in self.mixed)
        outputs = {self.name_of[name]: node for name, node in self.outputs.items()}
        update = self._loop(outputs, self._rows())
        pointers = "".join(
            f"    real *restrict {self.name_of[name]} = arrays[{i}];\n" for i, name in enumerate(self.arrays)
        )
        numbers = "".join(
            f"    const double {self.number_of[name]} = numbers[{i}];\n" for i, name in enumerate(self.scalars)
        )
        tables = "".join(
            f"    real table{i}[{TABLE}]; /* a copy that no store can change */\n"
            f"    memcpy(table{i}, tables + {TABLE * i}, sizeof table{i});\n"
            for i in range(len(self.gammas))
        )
        body = f"""\
typedef {self.real} real;
{files(__package__).joinpath("kernel_parts.h").read_text()}
void kernel(long n, long p, long first, long last, long width, real *const *arrays, const double *numbers,
            const real *tables, const matrix *laplacian, const matrix *disagreement, const matrix *all_agents,
            real *scratch) {{
    (void)numbers, (void)tables, (void)laplacian, (void)disagreement, (void)all_agents, (void)scratch;
{pointers}{numbers}{tables}    for (long c0 = first; c0 < last; c0 += width) {{
        const long columns = last - c0 < width ? last - c0 : width;
{stages}{update}    }}
}}
"""
        return Source(body, self.arrays, self.scalars, self.gammas, self.buffers)

    def _rows(self) -> dict[str, str]:
        """The address of an agent's part of every array, within a block."""
        return {name: f"{name} + i * p + c0" for name in self.name_of.values()}

    def _buffer(self) -> str:
        self.buffers += 1
        return f"(scratch + {self.buffers - 1} * n * width)"

    def _exchange(self, node: Mixed) -> str:
        """The combined rows of one exchange, in a separate scratch buffer."""
        text, sent, stride = "", "", "p"
        if isinstance(node.source, Array):
            sent = f"{self.name_of[node.source.name]} + c0"
        else:
            sent, stride = self._buffer(), "width"
            text = self._loop({"sent": node.source}, {**self._rows(), "sent": f"{sent} + i * width"})
        buffer = self.buffer_of[id(node)] = self._buffer()
        if node.kind == "mean":
            return text + f"        mean(all_agents, {sent}, {stride}, columns, {buffer});\n"
        return text + f"        differences({node.kind}, n, {sent}, {stride}, columns, {buffer}, width);\n"

    def _loop(self, outputs: Mapping[str, Expression], places: Mapping[str, str]) -> str:
        """For all agents and all columns of the block: load, compute, store."""
        names: dict[int, str] = {}
        loads, lines, hoisted, rows = [], [], [], []
        used: set[str] = set(outputs)
        for node in _elementwise(*outputs.values()):
            name = names[id(node)] = f"t{len(names)}"
            if isinstance(node, Array):
                array = self.name_of[node.name]
                used.add(array)
                loads.append(f"const real {name} = {array}_[c];")
            elif isinstance(node, Mixed):
                step = "0" if node.kind == "mean" else "i * width"
                rows.append(f"const real *restrict {name}_ = {self.buffer_of[id(node)]} + {step};")
                loads.append(f"const real {name} = {name}_[c];")
            elif isinstance(node, Column):
                hoisted.append(f"const real {name} = {self.name_of[node.name]}[i];")
            elif node.scalar:
                hoisted.append(f"const double {name} = {self._formula(node, names)};")
            else:
                lines.append(f"const real {name} = {self._formula(node, names)};")
        rows += [f"real *restrict {name}_ = {places[name]};" for name in sorted(used)]
        stores = [f"{name}_[c] = {_value(node, names)};" for name, node in outputs.items()]
        inner = "".join(f"                {line}\n" for line in loads + lines + stores)
        outer = "".join(f"            {line}\n" for line in hoisted + rows)
        return f"""\
        for (long i = 0; i < n; i++) {{
{outer}            INDEPENDENT
            for (long c = 0; c < columns; c++) {{
{inner}            }}
        }}
"""

    def _formula(self, node: Expression, names: Mapping[int, str]) -> str:
        if isinstance(node, Scalar):
            return self.number_of[node.name]
        if isinstance(node, Constant):
            return repr(node.value)
        if isinstance(node, Binary):
            cast = _value if not node.scalar else _name
            return f"{cast(node.left, names)} {node.operator} {cast(node.right, names)}"
        if isinstance(node, Clamp):
            base, limit = _value(node.base, names), f"(real){node.limit!r}"
            return f"{base} > {limit} ? {limit} : {base} < -{limit} ? -{limit} : {base}"
        if isinstance(node, Maximum):
            left, right = _value(node.left, names), _value(node.right, names)
            return f"{left} > {right} || {left} != {left} ? {left} : {right}"  # NaN stays NaN
        if isinstance(node, Rounded):
            return f"rounded({_value(node.base, names)})"
        if isinstance(node, Power):
            return self._power(node.gamma, _value(node.base, names))
        raise TypeError(f"cannot generate C for {type(node).__name__}")

    def _power(self, gamma: float, base: str) -> str:
        if gamma in (0, 0.5):
            return f"{'sign' if gamma == 0 else 'root'}_{self.real}({base})"
        return f"power_{self.real}({base}, table{self.gammas.index(gamma)})"


def power_table(gamma: float, real: str) -> list[float]:
    """The table that `power_float` and `power_double` read for γ."""
    if real == "double":
        return [gamma] + [0.0] * (TABLE - 1)
    gamma = float(np.float32(gamma))
    high = float(np.round(gamma * 2**15) / 2**15)  # 16 bits times an 8-bit exponent is exact in 24 bits
    m = np.polynomial.Chebyshev.interpolate(lambda f: (1.5 + f) ** gamma, TABLE - 5, domain=[-0.5, 0.5])
    low = gamma - high
    return [high / 2**23, 127 * high, low / 2**23, 127 * low, *m.convert(kind=np.polynomial.Polynomial).coef]


def _elementwise(*roots: Expression) -> list[Expression]:
    """The nodes of one loop, operands first; an exchange is a leaf here, computed earlier."""
    order: list[Expression] = []
    seen: set[int] = set()

    def visit(node: Expression) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for operand in () if isinstance(node, Mixed) else node.operands():
            visit(operand)
        order.append(node)

    for root in roots:
        visit(root)
    return order


def _is(node: Expression, name: str) -> bool:
    return isinstance(node, Array) and node.name == name


def _name(node: Expression, names: Mapping[int, str]) -> str:
    return names[id(node)]


def _value(node: Expression, names: Mapping[int, str]) -> str:
    return f"(real){names[id(node)]}" if node.scalar else names[id(node)]
