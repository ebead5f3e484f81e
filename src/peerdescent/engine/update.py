"""How a method's step is carried out on the n×p state: eagerly, or as one fused pass over memory.

Both follow the same protocol. `begin(k)` gives the point where the gradient is wanted; the caller writes the
gradient into `gradient`; `finish(k)` updates the state in place.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, Protocol

import torch

from peerdescent.algorithms import Algorithm, Step
from peerdescent.engine.codegen import Source, generate, power_table
from peerdescent.engine.compiler import CompilerError, load
from peerdescent.engine.network import MemoryNetwork
from peerdescent.errors import InputError
from peerdescent.expressions import Array, Expression, RecordingNetwork, Scalar

State = dict[str, torch.Tensor]
KERNELS = ("auto", "compiled", "plain")
GRADIENT, POINT = "@gradient", "@point"
"""Arrays of the engine's own; no state can have such a name."""
CACHE_BYTES = 192 * 1024
"""What a block of columns of all arrays and scratch may take: less than common second-level caches hold."""


class Update(Protocol):
    """One method on one state."""

    state: State
    gradient: torch.Tensor
    description: str

    def begin(self, k: int) -> torch.Tensor:
        """Start iteration k: the n×p points where the gradient is wanted."""
        ...

    def finish(self, k: int) -> None:
        """End iteration k with the gradient in `gradient`: the state moves on, in place."""
        ...


def initial_state(algorithm: Algorithm, x: torch.Tensor) -> State:
    """x and what the method remembers, at the start."""
    x = x.mean(dim=0, keepdim=True).expand_as(x) if algorithm.common_start else x
    x = x.clone(memory_format=torch.contiguous_format)  # kernels go by rows, whatever the caller's layout
    extra = {name: torch.zeros_like(x) if start == "zero" else x.clone() for name, start in algorithm.memory().items()}
    return {"x": x, **extra}


def make_update(
    algorithm: Algorithm,
    state: State,
    network: MemoryNetwork,
    kernel: str = "auto",
    threads: int = 1,
    mix_every: int = 1,
) -> Update:
    """The fastest carrier that works here, or the one asked for; its `description` says which it is.

    With `mix_every` = m, messages travel in iterations m−1, 2m−1, … only; in between every agent is by itself.
    """
    gradient = torch.zeros_like(state["x"])
    talking = _carrier(algorithm, state, gradient, network, kernel, threads)
    if mix_every == 1:
        return talking
    return TalkSometimes(talking, _carrier(algorithm, state, gradient, network.silenced(), kernel, threads), mix_every)


def _carrier(
    algorithm: Algorithm, state: State, gradient: torch.Tensor, network: MemoryNetwork, kernel: str, threads: int
) -> Update:
    if kernel not in KERNELS:
        raise InputError(f"kernel = {kernel!r}: expected one of {', '.join(KERNELS)}.")
    x = state["x"]
    reason = "" if x.device.type == "cpu" else f"tensors are on {x.device.type}"
    if x.dtype not in (torch.float32, torch.float64):
        reason = f"no compiled kernel for {x.dtype}"
    if kernel != "plain" and not reason:
        try:
            return CompiledUpdate(algorithm, state, network, threads, gradient)
        except (CompilerError, RecordingError) as error:
            reason = str(error)
    if kernel == "compiled":
        raise InputError(f"a compiled kernel cannot be had here: {reason}; use kernel=plain.")
    return PlainUpdate(algorithm, state, network, reason, gradient)


class PlainUpdate:
    """The obvious path: the step itself, evaluated eagerly."""

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        network: MemoryNetwork,
        reason: str = "",
        gradient: torch.Tensor | None = None,
    ) -> None:
        self.algorithm, self.state, self.network = algorithm, state, network
        self.gradient = torch.zeros_like(state["x"]) if gradient is None else gradient
        self.description = f"plain ({reason})" if reason else "plain"
        self._step: Step

    def begin(self, k: int) -> torch.Tensor:
        """Run the step up to its `yield`."""
        numbers = SimpleNamespace(**self.algorithm.hyperparameters(k))
        step = self.algorithm.alone if self.network.silent else self.algorithm.step
        self._step = step(SimpleNamespace(**self.state), self.network, numbers)
        point: torch.Tensor = next(self._step)
        return point

    def finish(self, k: int) -> None:
        """Hand over the gradient and take the new state."""
        new = _finish(self._step, self.algorithm.seen(self.gradient, self.network))
        for name, value in {name: value.clone() for name, value in new.items()}.items():
            self.state[name].copy_(value)


class CompiledUpdate:
    """The fast path: the step recorded once, written as C, compiled, and run as one pass in place."""

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        network: MemoryNetwork,
        threads: int = 1,
        gradient: torch.Tensor | None = None,
    ) -> None:
        self.algorithm, self.state = algorithm, state
        self.gradient = torch.zeros_like(state["x"]) if gradient is None else gradient
        point, outputs = record(algorithm, tuple(state), network.silent)
        arrays = {**state, GRADIENT: self.gradient}
        self._before: _Kernel | None = None
        if isinstance(point, Array):
            self._point = state[point.name]
        else:
            self._point = arrays[POINT] = torch.empty_like(state["x"])
            self._before = _Kernel({POINT: point}, arrays, network, threads)
            known: dict[int, Expression] = {id(point): Array(POINT)}
            outputs = {name: _replace(node, known) for name, node in outputs.items()}
        self._update = _Kernel(outputs, arrays, network, threads)
        self.description = f"compiled ({threads} thread{'s' * (threads > 1)})"

    def begin(self, k: int) -> torch.Tensor:
        """Compute the point, unless it is x itself."""
        self._numbers = self.algorithm.hyperparameters(k)
        if self._before is not None:
            self._before(self._numbers)
        return self._point

    def finish(self, k: int) -> None:
        """The whole update in one pass."""
        self._update(self._numbers)


class TalkSometimes:
    """Two carriers of one state: one that exchanges messages, and one for the iterations in between."""

    def __init__(self, talking: Update, silent: Update, mix_every: int) -> None:
        self.state, self.gradient, self.description = talking.state, talking.gradient, talking.description
        self._talking, self._silent, self._mix_every = talking, silent, mix_every

    def _for(self, k: int) -> Update:
        return self._talking if (k + 1) % self._mix_every == 0 else self._silent

    def begin(self, k: int) -> torch.Tensor:
        """Start iteration k with the carrier whose turn it is."""
        return self._for(k).begin(k)

    def finish(self, k: int) -> None:
        """End iteration k."""
        self._for(k).finish(k)


class RecordingError(RuntimeError):
    """The step asks for more than arithmetic and cannot be recorded."""


def record(
    algorithm: Algorithm, names: tuple[str, ...], silent: bool = False
) -> tuple[Expression, dict[str, Expression]]:
    """The step as equations: the gradient's point, and the new value of every state."""
    network = RecordingNetwork(silent)
    state = SimpleNamespace(**{name: Array(name) for name in names})
    numbers = SimpleNamespace(**{name: Scalar(name) for name in algorithm.hyperparameters(0)})
    try:
        step = (algorithm.alone if silent else algorithm.step)(state, network, numbers)
        point = next(step)
        outputs = _finish(step, algorithm.seen(Array(GRADIENT), network))
    except (TypeError, AttributeError) as error:
        raise RecordingError(f"the step of {type(algorithm).__name__} is not plain arithmetic: {error}") from error
    return point, outputs


def vectors_sent(algorithm: Algorithm) -> int:
    """How many p-vectors an agent sends to each neighbour per iteration, counted on one tiny step.

    >>> from peerdescent.algorithms import make
    >>> vectors_sent(make("dsgpa-f-pb")), vectors_sent(make("dm-sgd")), vectors_sent(make("c-sgd"))
    (1, 2, 0)
    """
    network = _CountingNetwork()
    one = torch.ones(1, 1)
    state = initial_state(algorithm, one)
    step = algorithm.step(SimpleNamespace(**state), network, SimpleNamespace(**algorithm.hyperparameters(0)))
    next(step)
    _finish(step, algorithm.seen(one, network))
    return len({id(a) for a in network.sent})


class _CountingNetwork:
    """Passes everything through and keeps what was sent, alive, so that ids stay distinct."""

    def __init__(self) -> None:
        self.sent: list[torch.Tensor] = []

    def laplacian(self, a: torch.Tensor) -> torch.Tensor:
        self.sent.append(a)
        return torch.zeros_like(a)

    def disagreement(self, a: torch.Tensor) -> torch.Tensor:
        return self.laplacian(a)

    def mix(self, a: torch.Tensor) -> torch.Tensor:
        return a - self.disagreement(a)

    def mean(self, a: torch.Tensor) -> torch.Tensor:
        return a


class _Kernel:
    """A compiled pass over named arrays, split by columns among threads."""

    def __init__(self, outputs: dict[str, Expression], arrays: State, network: MemoryNetwork, threads: int) -> None:
        x = arrays["x"]
        n, p = x.shape
        real, c_real = ("double", ctypes.c_double) if x.dtype == torch.float64 else ("float", ctypes.c_float)
        self._source: Source = generate(outputs, real)
        self._function = load(self._source.text).kernel
        self._function.restype = None
        per_column = n * x.element_size() * (len(self._source.arrays) + self._source.scratch_rows)
        width = max(64, min(p, CACHE_BYTES // per_column) // 32 * 32)
        tables = [number for gamma in self._source.gammas for number in power_table(gamma, real)]
        self._numbers = (ctypes.c_double * max(1, len(self._source.scalars)))()
        self._kept = [arrays[name] for name in self._source.arrays], network
        pointers = (ctypes.c_void_p * len(self._source.arrays))(*(a.data_ptr() for a in self._kept[0]))
        common = (pointers, self._numbers, (c_real * max(1, len(tables)))(*tables))
        matrices = (ctypes.byref(network.laplacian_matrix.struct), ctypes.byref(network.disagreement_matrix.struct))
        self._scratch = torch.empty(threads, max(1, self._source.scratch_rows) * n * width, dtype=x.dtype)
        bounds = [min(p, (p * t // threads + width - 1) // width * width) for t in range(threads)] + [p]
        self._calls = [
            (*(ctypes.c_long(value) for value in (n, p, bounds[t], bounds[t + 1], width)), *common, *matrices,
             ctypes.c_void_p(self._scratch[t].data_ptr()))
            for t in range(threads)
        ]  # fmt: skip
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __call__(self, numbers: dict[str, float]) -> None:
        for i, name in enumerate(self._source.scalars):
            self._numbers[i] = numbers[name]
        if self._pool is None:
            self._function(*self._calls[0])
        else:
            list(self._pool.map(lambda call: self._function(*call), self._calls))


def _finish(step: Step, gradient: object) -> dict[str, Any]:
    try:
        step.send(gradient)
    except StopIteration as end:
        new: dict[str, Any] = end.value
        return new
    raise TypeError("a step yields exactly once: the point where the gradient is wanted")


def _replace(node: Expression, known: dict[int, Expression]) -> Expression:
    """The same equation with some nodes exchanged; what was shared stays shared."""
    if id(node) not in known:
        parts = {f.name: getattr(node, f.name) for f in fields(node)}
        changed = {name: _replace(part, known) for name, part in parts.items() if isinstance(part, Expression)}
        known[id(node)] = replace(node, **changed) if changed else node
    return known[id(node)]
