"""Properties that every method must have: one call checks them all for a method of your own.

>>> from peerdescent.algorithms import DSGD1
>>> report = check_algorithm(DSGD1(eta=0.1), graphs=("path:3",), iterations=5)
>>> report.algorithm, report.graphs
('DSGD1', ('path:3', 'ring:1'))
>>> CONSENSUS in report.checked
True
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch

from peerdescent._util.validation import check_integer, described
from peerdescent.algorithms import Algorithm, as_algorithm
from peerdescent.algorithms.state import State, initial_state
from peerdescent.data import stream
from peerdescent.errors import InputError
from peerdescent.graphs import Graph, as_graph, as_static, ring
from peerdescent.kernels.update import Update, make_update
from peerdescent.mixing.network import MemoryNetwork, make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.schedules import text
from peerdescent.tracing.step import StepError, run_step
from peerdescent.training.invariants import violations

GRAPHS = ("path:4", "star:5", "ring:1", "complete:3", "er:7:0.4")
COLUMNS = 37
"""Enough for the fused kernel's vector registers, plus a remainder that does not fill one."""
ROUNDING = {torch.float64: 1e-10, torch.float32: 1e-4}
"""The tolerance between two ways to compute the same thing, relative to the largest entry."""

NUMBERS = "hyperparameters are finite and keep their names"
PARAMETERS = "parameters() rebuilds the same method"
NAMES = "a step yields where it wants gradients and returns x and its memory, nothing else"
FINITE = "the state stays finite and is updated in place"
INVARIANTS = "the invariants that the method declares hold"
REPEATS = "two runs are bitwise equal"
CONSENSUS = "agents with equal starts and equal gradients stay equal"
FIXED = "a zero gradient at consensus leaves x unchanged"
LABELS = "the numbering of the agents does not matter"
KERNEL = "the compiled kernel equals the eager step"

Gradients = Callable[[int], torch.Tensor]


@dataclass(frozen=True)
class Report:
    """What `check_algorithm` checked and what it skipped, as text."""

    algorithm: str
    graphs: tuple[str, ...]
    checked: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    def __str__(self) -> str:
        missing = "".join(f"; skipped: {sentence}" for sentence in self.skipped)
        return f"{self.algorithm} passes {len(self.checked)} checks on {', '.join(self.graphs)}{missing}"


def check_algorithm(algorithm: Algorithm, *, graphs: Sequence[object] = GRAPHS, iterations: int = 30) -> Report:
    """Check every property of this module for a method.

    The gradients are random, so nothing has to converge; a method that overflows within `iterations` on one of
    the graphs fails. A graph with a single agent is always included.

    A method with weight decay declares `decays = True`: a zero gradient at consensus must then shrink x towards
    zero, instead of leaving it unchanged.

    Args:
        algorithm: the method, with its hyperparameters.
        graphs: anything that `peerdescent.graphs.as_graph` accepts.
        iterations: the number of steps per check.

    Returns:
        What was checked. The report lists the compiled kernel as skipped where there is no compiler or where
        the step is more than arithmetic.

    Raises:
        AssertionError: names the property that does not hold.

    >>> from peerdescent.algorithms import make
    >>> print(check_algorithm(make("d-asg", previous="zero"), graphs=("star:4",), iterations=5).skipped[0])
    a zero gradient at consensus leaves x unchanged (true only with x_prev started at x)
    """
    as_algorithm(algorithm)
    check_integer("iterations", iterations, 1, 10**9)
    if isinstance(graphs, str) or not isinstance(graphs, Sequence):
        raise InputError(f"graphs is {described(graphs)}: expected a list of graphs, such as ['ring:5'].")
    networks = [as_static(as_graph(graph), "check_algorithm") for graph in graphs]
    if all(graph.n > 1 for graph in networks):
        networks.append(ring(1))
    _numbers(algorithm, iterations)
    reasons = {NUMBERS: "", PARAMETERS: _parameters(algorithm)}
    for graph in networks:
        bench = _Bench(algorithm, graph, iterations)
        for name, check in _CHECKS.items():
            reasons[name] = check(bench) or reasons.get(name, "")
    names = tuple(graph.spec or str(graph) for graph in networks)
    checked = tuple(name for name, reason in reasons.items() if not reason)
    skipped = tuple(f"{name} ({reason})" for name, reason in reasons.items() if reason)
    return Report(type(algorithm).__name__, names, checked, skipped)


class _Bench:
    """A method on a graph, with gradients that are a pure function of the iteration."""

    def __init__(self, algorithm: Algorithm, graph: Graph, iterations: int) -> None:
        self.algorithm, self.graph, self.iterations = algorithm, graph, iterations
        self.start = torch.from_numpy(stream(0, "conformance").standard_normal((graph.n, COLUMNS)))

    def gradients(self, k: int) -> torch.Tensor:
        random = stream(0, "conformance", block=k + 1)
        return torch.from_numpy(random.standard_normal((self.graph.n, COLUMNS)))

    def network(self, dtype: torch.dtype = torch.float64, graph: Graph | None = None) -> MemoryNetwork:
        weights = MixingWeights.build(graph or self.graph, "metropolis", "metropolis", self.algorithm)
        return make_network(weights, dtype, torch.device("cpu"))

    def plain(self, start: torch.Tensor, dtype: torch.dtype = torch.float64, graph: Graph | None = None) -> Update:
        state = initial_state(self.algorithm, start.to(dtype))
        return make_update(self.algorithm, state, self.network(dtype, graph), "plain")

    def run(self, update: Update, gradients: Gradients, after: Callable[[int], None] | None = None) -> State:
        """Run every iteration; `after` inspects the state at the end of each."""
        for k in range(self.iterations):
            self._receive(update.begin(k), update, gradients(k))
            for number in range(2, update.gradients_at(k) + 1):
                self._receive(update.again(k), update, gradients(k) / number)  # another one, as at another point
            update.finish(k)
            if after is not None:
                after(k)
        return update.state

    def _receive(self, point: torch.Tensor, update: Update, gradient: torch.Tensor) -> None:
        shape = tuple(point.shape)
        self.require(NAMES, shape == tuple(self.start.shape), f"the point it yields has shape {shape}")
        update.gradient.copy_(gradient)

    def require(self, name: str, holds: bool, detail: str) -> None:
        _require(self.algorithm, name, holds, f"{detail}, on {self.graph}")

    def close(self, name: str, one: State, other: Mapping[str, torch.Tensor], what: str) -> None:
        """Require that two states are equal to rounding."""
        scale = max(1e-300, *(float(array.abs().max()) for array in one.values()))
        tolerance = ROUNDING[one["x"].dtype]
        for key, array in one.items():
            far = float((array - other[key]).abs().max()) / scale
            self.require(name, far <= tolerance, f"{what}: {key} is off by {far:.1e} of the largest entry")


def _numbers(algorithm: Algorithm, iterations: int) -> None:
    names = list(algorithm.hyperparameters(0))
    for k in (*range(iterations), 1000, 10**6):
        h = algorithm.hyperparameters(k)
        good = list(h) == names and all(math.isfinite(value) for value in h.values())
        _require(algorithm, NUMBERS, good, f"at k = {k} they are {h}")


def _parameters(algorithm: Algorithm) -> str:
    for name in algorithm.rates:
        rate = getattr(algorithm, name)
        if "python:" in text(rate):
            return f"{name} is a Python function, which has no text"
    values = algorithm.parameters()
    good = all(isinstance(value, (int, float, str)) for value in values.values())
    _require(algorithm, PARAMETERS, good, f"{values} holds more than numbers and texts")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they appeared when the caller made the method
            again = type(algorithm)(transform=algorithm.transform, **values)
    except (InputError, TypeError) as error:
        raise AssertionError(f"{type(algorithm).__name__} fails a check. {PARAMETERS}: {error}") from error
    _require(algorithm, PARAMETERS, again == algorithm, f"{algorithm} became {again}")
    return ""


def _names(bench: _Bench) -> str:
    algorithm, network = bench.algorithm, bench.network()
    state = initial_state(algorithm, bench.start)
    numbers = SimpleNamespace(**algorithm.hyperparameters(0))
    given = algorithm.preprocess_gradient(bench.gradients(0), network)
    try:
        _, new = run_step(algorithm, SimpleNamespace(**state), network, numbers, lambda _: given)
    except StepError as error:
        raise AssertionError(f"{type(algorithm).__name__} fails a check. {NAMES}: {error}") from error
    declared = {"x", *algorithm.memory()}
    bench.require(NAMES, set(new) == declared, f"it declares {sorted(declared)} and returns {sorted(new)}")
    for name, value in new.items():
        shape = getattr(value, "shape", None)
        bench.require(NAMES, shape == bench.start.shape, f"{name} comes back with shape {shape}")
    return ""


def _finite(bench: _Bench) -> str:
    update = bench.plain(bench.start)
    places = {name: array.data_ptr() for name, array in update.state.items()}

    def inspect(k: int) -> None:
        overflowed = [name for name, array in update.state.items() if not array.isfinite().all()]
        bench.require(FINITE, not overflowed, f"{', '.join(overflowed)} is not finite after iteration {k}")
        moved = [name for name, array in update.state.items() if array.data_ptr() != places[name]]
        bench.require(FINITE, not moved, f"{', '.join(moved)} moved to another address")

    bench.run(update, bench.gradients, inspect)
    return ""


def _invariants(bench: _Bench) -> str:
    update = bench.plain(bench.start)

    def inspect(k: int) -> None:
        broken = violations(bench.algorithm, update.state)
        bench.require(INVARIANTS, not broken, f"{broken} after iteration {k}")

    bench.run(update, bench.gradients, inspect)
    return ""


def _repeats(bench: _Bench) -> str:
    one, other = (bench.run(bench.plain(bench.start), bench.gradients) for _ in range(2))
    different = [name for name in one if not torch.equal(one[name], other[name])]
    bench.require(REPEATS, not different, f"{', '.join(different)} differs")
    return ""


def _consensus(bench: _Bench) -> str:
    start = bench.start[:1].expand_as(bench.start).contiguous()
    state = bench.run(bench.plain(start), lambda k: bench.gradients(k)[:1].expand_as(start))
    mean = {"x": state["x"].mean(dim=0, keepdim=True).expand_as(start)}
    bench.close(CONSENSUS, {"x": state["x"]}, mean, "the agents drift apart")
    return ""


def _fixed(bench: _Bench) -> str:
    """Memory may start away from the fixed point (D-ASG's can): any possible start counts, the declared one first."""
    start = bench.start[:1].expand_as(bench.start).contiguous()
    if bench.algorithm.decays:
        return _decaying(bench, start)
    names = list(bench.algorithm.memory())
    declared = tuple(bench.algorithm.memory().values())
    choices = sorted(itertools.product(("zero", "x"), repeat=len(names)), key=lambda choice: choice != declared)
    far = math.inf
    for choice in choices:
        update = bench.plain(start)
        for name, at in zip(names, choice, strict=True):
            update.state[name].copy_(start if at == "x" else torch.zeros_like(start))
        x = bench.run(update, lambda k: torch.zeros_like(start))["x"]
        far = min(far, float((x - start).abs().max() / start.abs().max()))
        if far <= ROUNDING[x.dtype]:
            if choice == declared:
                return ""
            starts = ", ".join(f"{name} started at {at}" for name, at in zip(names, choice, strict=True))
            return f"true only with {starts}"
    hint = "; a method with weight decay declares decays = True"
    bench.require(FIXED, False, f"x moves by {far:.1e} of its largest entry{hint}")
    return ""


def _decaying(bench: _Bench, start: torch.Tensor) -> str:
    """With weight decay, x keeps its direction and does not grow."""
    update = bench.plain(start)
    x = bench.run(update, lambda k: torch.zeros_like(start))["x"]
    factor = float((x * start).sum() / (start * start).sum())
    far = float((x - factor * start).abs().max() / start.abs().max())
    good = far <= ROUNDING[x.dtype] and -ROUNDING[x.dtype] <= factor <= 1 + ROUNDING[x.dtype]
    bench.require(FIXED, good, f"with weight decay x must shrink in proportion, and it became {factor:.3g} times x")
    return f"with weight decay it shrinks x to {factor:.3g} of it in {bench.iterations} iterations"


def _labels(bench: _Bench) -> str:
    order = torch.from_numpy(stream(0, "labels").permutation(bench.graph.n))  # new agent i was agent order[i]
    number = np.argsort(order.numpy())
    edges = tuple((int(number[i]), int(number[j])) for i, j in bench.graph.edges)
    renamed = bench.plain(bench.start[order], graph=Graph(bench.graph.n, edges))
    other = bench.run(renamed, lambda k: bench.gradients(k)[order])
    one = bench.run(bench.plain(bench.start), bench.gradients)
    bench.close(LABELS, {name: array[order] for name, array in one.items()}, other, "after renumbering")
    return ""


def _kernel(bench: _Bench) -> str:
    for dtype in ROUNDING:
        state = initial_state(bench.algorithm, bench.start.to(dtype))
        fused = make_update(bench.algorithm, state, bench.network(dtype))
        if fused.description.startswith("plain"):
            return fused.description
        one = bench.run(bench.plain(bench.start, dtype), bench.gradients)
        bench.close(KERNEL, one, bench.run(fused, bench.gradients), f"in {dtype}")
    return ""


_CHECKS: dict[str, Callable[[_Bench], str]] = {
    NAMES: _names,
    FINITE: _finite,
    INVARIANTS: _invariants,
    REPEATS: _repeats,
    CONSENSUS: _consensus,
    FIXED: _fixed,
    LABELS: _labels,
    KERNEL: _kernel,
}
"""Each checks one method on one graph and returns why it was skipped, or an empty text."""


def _require(algorithm: Algorithm, name: str, holds: bool, detail: str) -> None:
    if not holds:
        raise AssertionError(f"{type(algorithm).__name__} fails a check. {name}: {detail}.")
