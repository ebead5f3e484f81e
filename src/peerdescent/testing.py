"""Laws that every method keeps, for those who write their own: one call checks them all.

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
from typing import Any

import numpy as np
import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State, initial_state
from peerdescent.data import stream
from peerdescent.errors import InputError
from peerdescent.graphs import Graph, as_graph
from peerdescent.kernels.update import Update, make_update
from peerdescent.mixing.network import MemoryNetwork, make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.schedules import Inverse, Power
from peerdescent.training.evaluation import violations

GRAPHS = ("path:4", "star:5", "ring:1", "complete:3", "er:7:0.4")
COLUMNS = 37
"""Enough for the fused kernel's vectors, and a rest that does not fill one."""
ROUNDING = {torch.float64: 1e-10, torch.float32: 1e-4}
"""How far two ways of computing the same may lie apart, relative to the largest entry."""

NUMBERS = "hyperparameters are finite and keep their names"
PARAMETERS = "parameters() makes the same method again"
NAMES = "a step yields once and returns x and its memory, nothing else"
FINITE = "the state stays finite and is updated in place"
INVARIANTS = "the method's own invariants hold"
REPEATS = "two runs are bitwise equal"
CONSENSUS = "agents that start and move alike stay alike"
REST = "a zero gradient at consensus leaves x where it is"
LABELS = "the numbering of the agents does not matter"
KERNEL = "the compiled kernel equals its plain twin"

Gradients = Callable[[int], torch.Tensor]


@dataclass(frozen=True)
class Report:
    """What `check_algorithm` looked at, and what it had to leave out, in sentences."""

    algorithm: str
    graphs: tuple[str, ...]
    checked: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        missing = "".join(f"; left out: {sentence}" for sentence in self.left_out)
        return f"{self.algorithm} keeps {len(self.checked)} laws on {', '.join(self.graphs)}{missing}"


def check_algorithm(algorithm: Algorithm, *, graphs: Sequence[object] = GRAPHS, iterations: int = 30) -> Report:
    """Put a method through every law of this module.

    The gradients are random numbers, so nothing has to converge; a method that blows up within `iterations`
    on one of the graphs fails. One agent alone is always among the graphs.

    Args:
        algorithm: the method, with its hyperparameters.
        graphs: what `peerdescent.graphs.as_graph` takes.
        iterations: how many steps each law is followed.

    Returns:
        What was checked. The compiled kernel is left out, and that is said, where there is no compiler or
        where the step asks for more than arithmetic.

    Raises:
        AssertionError: the law that does not hold, in a sentence.

    >>> from peerdescent.algorithms import make
    >>> print(check_algorithm(make("d-asg", previous="zero"), graphs=("star:4",), iterations=5).left_out[0])
    a zero gradient at consensus leaves x where it is (true only with x_prev started at x)
    """
    networks = [as_graph(graph) for graph in graphs]
    if all(graph.n > 1 for graph in networks):
        networks.append(as_graph("ring:1"))
    _numbers(algorithm, iterations)
    reasons = {NUMBERS: "", PARAMETERS: _parameters(algorithm)}
    for graph in networks:
        bench = _Bench(algorithm, graph, iterations)
        for law, check in _LAWS.items():
            reasons[law] = check(bench) or reasons.get(law, "")
    names = tuple(graph.spec or str(graph) for graph in networks)
    checked = tuple(law for law, reason in reasons.items() if not reason)
    left_out = tuple(f"{law} ({reason})" for law, reason in reasons.items() if reason)
    return Report(type(algorithm).__name__, names, checked, left_out)


class _Bench:
    """A method on a graph, fed with gradients that are a pure function of the iteration."""

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
        """Every iteration; `after` looks at the state when one is done."""
        for k in range(self.iterations):
            point = update.begin(k)
            shape = tuple(point.shape)
            self.demand(NAMES, shape == tuple(self.start.shape), f"the point it yields has shape {shape}")
            update.gradient.copy_(gradients(k))
            update.finish(k)
            if after is not None:
                after(k)
        return update.state

    def demand(self, law: str, holds: bool, detail: str) -> None:
        _demand(self.algorithm, law, holds, f"{detail}, on {self.graph}")

    def alike(self, law: str, one: State, other: Mapping[str, torch.Tensor], what: str) -> None:
        """Two states agree to rounding."""
        scale = max(1e-300, *(float(array.abs().max()) for array in one.values()))
        tolerance = ROUNDING[one["x"].dtype]
        for name, array in one.items():
            far = float((array - other[name]).abs().max()) / scale
            self.demand(law, far <= tolerance, f"{what}: {name} is off by {far:.1e} of the largest entry")


def _numbers(algorithm: Algorithm, iterations: int) -> None:
    names = list(algorithm.hyperparameters(0))
    for k in (*range(iterations), 1000, 10**6):
        h = algorithm.hyperparameters(k)
        good = list(h) == names and all(math.isfinite(value) for value in h.values())
        _demand(algorithm, NUMBERS, good, f"at k = {k} they are {h}")


def _parameters(algorithm: Algorithm) -> str:
    for name in algorithm.rates:
        rate = getattr(algorithm, name)
        if not isinstance(rate, (int, float, Power, Inverse)):
            return f"{name} is a schedule of your own, which has no text"
    values = algorithm.parameters()
    good = all(isinstance(value, (int, float, str)) for value in values.values())
    _demand(algorithm, PARAMETERS, good, f"{values} is more than numbers and texts")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the caller has seen them when the method was made
        try:
            again = type(algorithm)(transform=algorithm.transform, **values)
        except (InputError, TypeError) as error:
            raise AssertionError(f"{type(algorithm).__name__} breaks a law. {PARAMETERS}: {error}") from error
    _demand(algorithm, PARAMETERS, again == algorithm, f"{algorithm} became {again}")
    return ""


def _names(bench: _Bench) -> str:
    algorithm, network = bench.algorithm, bench.network()
    state = initial_state(algorithm, bench.start)
    numbers = SimpleNamespace(**algorithm.hyperparameters(0))
    step = algorithm.step(SimpleNamespace(**state), network, numbers)
    next(step)
    new: dict[str, Any] = {}
    try:
        step.send(algorithm.preprocess_gradient(bench.gradients(0), network))
        bench.demand(NAMES, False, "it yields twice")
    except StopIteration as end:
        new = end.value
    declared = {"x", *algorithm.memory()}
    bench.demand(NAMES, set(new) == declared, f"declared are {sorted(declared)} and it returns {sorted(new)}")
    for name, value in new.items():
        shape = getattr(value, "shape", None)
        bench.demand(NAMES, shape == bench.start.shape, f"{name} comes back with shape {shape}")
    return ""


def _finite(bench: _Bench) -> str:
    update = bench.plain(bench.start)
    places = {name: array.data_ptr() for name, array in update.state.items()}

    def look(k: int) -> None:
        wild = [name for name, array in update.state.items() if not array.isfinite().all()]
        bench.demand(FINITE, not wild, f"{', '.join(wild)} is not finite after iteration {k}")
        moved = [name for name, array in update.state.items() if array.data_ptr() != places[name]]
        bench.demand(FINITE, not moved, f"{', '.join(moved)} moved to another place in memory")

    bench.run(update, bench.gradients, look)
    return ""


def _invariants(bench: _Bench) -> str:
    update = bench.plain(bench.start)

    def look(k: int) -> None:
        broken = violations(bench.algorithm, update.state)
        bench.demand(INVARIANTS, not broken, f"{broken} after iteration {k}")

    bench.run(update, bench.gradients, look)
    return ""


def _repeats(bench: _Bench) -> str:
    one, other = (bench.run(bench.plain(bench.start), bench.gradients) for _ in range(2))
    different = [name for name in one if not torch.equal(one[name], other[name])]
    bench.demand(REPEATS, not different, f"{', '.join(different)} differs")
    return ""


def _consensus(bench: _Bench) -> str:
    start = bench.start[:1].expand_as(bench.start).contiguous()
    state = bench.run(bench.plain(start), lambda k: bench.gradients(k)[:1].expand_as(start))
    mean = {"x": state["x"].mean(dim=0, keepdim=True).expand_as(start)}
    bench.alike(CONSENSUS, {"x": state["x"]}, mean, "the agents have drifted apart")
    return ""


def _rest(bench: _Bench) -> str:
    """Memory may start away from rest (D-ASG's can): any of its possible starts will do, its own first."""
    start = bench.start[:1].expand_as(bench.start).contiguous()
    names = list(bench.algorithm.memory())
    own = tuple(bench.algorithm.memory().values())
    choices = sorted(itertools.product(("zero", "x"), repeat=len(names)), key=lambda choice: choice != own)
    far = math.inf
    for choice in choices:
        update = bench.plain(start)
        for name, at in zip(names, choice, strict=True):
            update.state[name].copy_(start if at == "x" else torch.zeros_like(start))
        x = bench.run(update, lambda k: torch.zeros_like(start))["x"]
        far = min(far, float((x - start).abs().max() / start.abs().max()))
        if far <= ROUNDING[x.dtype]:
            if choice == own:
                return ""
            starts = ", ".join(f"{name} started at {at}" for name, at in zip(names, choice, strict=True))
            return f"true only with {starts}"
    bench.demand(REST, False, f"x moves by {far:.1e} of its largest entry")
    return ""


def _labels(bench: _Bench) -> str:
    order = torch.from_numpy(stream(0, "labels").permutation(bench.graph.n))  # new agent i was agent order[i]
    number = np.argsort(order.numpy())
    edges = tuple((int(number[i]), int(number[j])) for i, j in bench.graph.edges)
    renamed = bench.plain(bench.start[order], graph=Graph(bench.graph.n, edges))
    other = bench.run(renamed, lambda k: bench.gradients(k)[order])
    one = bench.run(bench.plain(bench.start), bench.gradients)
    bench.alike(LABELS, {name: array[order] for name, array in one.items()}, other, "after renumbering")
    return ""


def _kernel(bench: _Bench) -> str:
    for dtype in ROUNDING:
        state = initial_state(bench.algorithm, bench.start.to(dtype))
        fused = make_update(bench.algorithm, state, bench.network(dtype))
        if fused.description.startswith("plain"):
            return fused.description
        one = bench.run(bench.plain(bench.start, dtype), bench.gradients)
        bench.alike(KERNEL, one, bench.run(fused, bench.gradients), f"in {dtype}")
    return ""


_LAWS: dict[str, Callable[[_Bench], str]] = {
    NAMES: _names,
    FINITE: _finite,
    INVARIANTS: _invariants,
    REPEATS: _repeats,
    CONSENSUS: _consensus,
    REST: _rest,
    LABELS: _labels,
    KERNEL: _kernel,
}
"""Each looks at one method on one graph; an answer that is not empty says what had to be left out."""


def _demand(algorithm: Algorithm, law: str, holds: bool, detail: str) -> None:
    if not holds:
        raise AssertionError(f"{type(algorithm).__name__} breaks a law. {law}: {detail}.")
