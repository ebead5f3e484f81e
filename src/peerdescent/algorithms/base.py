"""What a method is: hyperparameters, memory, and one step written as its equation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from peerdescent import schedules
from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.transforms import Transform

Start = Literal["zero", "x"]
Step = Generator[Any, Any, dict[str, Any]]


def as_algorithm(value: object) -> Algorithm:
    """Return the method itself; raise InputError for anything else, such as a name or a class.

    >>> as_algorithm("d-sgd-1")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: algorithm is 'd-sgd-1': expected a method such as algorithms.make("d-sgd-1").
    """
    if not isinstance(value, Algorithm):
        raise InputError(f'algorithm is {described(value)}: expected a method such as algorithms.make("d-sgd-1").')
    return value


class Network(Protocol):
    """What a step may ask of the graph; L, W and I−W send one vector over every edge."""

    def laplacian(self, a: Any) -> Any:
        """L·a."""
        ...

    def mix(self, a: Any) -> Any:
        """W·a."""
        ...

    def disagreement(self, a: Any) -> Any:
        """(I−W)·a: the same message as `mix`, without the rounding of a difference of large numbers."""
        ...

    def debias(self, a: Any) -> Any:
        """a/w with the agents' push-sum weights w before the exchange; a itself on undirected graphs, where w = 1."""
        ...

    def bias(self, a: Any) -> Any:
        """w⁺·a with the weights after the exchange."""
        ...

    def mean(self, a: Any) -> Any:
        """The mean of all rows, in every row: what a central server would compute."""
        ...


class Mean(Protocol):
    """What a global average may ask for."""

    def mean(self, a: Any) -> Any:
        """The mean of all rows, in every row."""
        ...


class Exchanges(Protocol):
    """What a step may ask of the iterations that exchange messages."""

    def steps(self, k: int) -> int:
        """The iterations from the last exchange before k to k, with k."""
        ...

    def expected_steps(self, k: int) -> float:
        """The period in iteration k; the mean one where it is random."""
        ...


@dataclass(frozen=True)
class Algorithm:
    """A decentralized method: an immutable value, checked on construction.

    A subclass lists its step sizes in `rates` and its state besides x in `memory`, and writes its equation in
    `step`. It then runs in the simulator, on the command line and in the conformance checks.
    """

    transform: Transform = field(default=Transform(), kw_only=True)

    rates: ClassVar[tuple[str, ...]] = ()
    """The fields that are numbers or schedules."""
    momenta: ClassVar[tuple[str, ...]] = ()
    """The rates that are momenta, in [0, 1), where 1 − β is what matters."""
    shares: ClassVar[tuple[str, ...]] = ()
    """The rates that are shares, above 0 and at most 1, of what is new."""
    times_eta: ClassVar[tuple[str, ...]] = ()
    """The rates that act only as products with eta: those products decide stability."""
    common_start: ClassVar[bool] = False
    """Whether all agents start from the same point, the mean of their starting points."""
    corrects: ClassVar[bool] = False
    """Whether the step corrects local gradients, and passes the corrected direction through `corrected`."""
    decays: ClassVar[bool] = False
    """Whether the step applies weight decay: a zero gradient then shrinks x instead of leaving it unchanged."""
    compressor: ClassVar[str] = "none"
    """What compresses its messages unless `compress` is given: part of methods such as CHOCO-SGD."""
    directed: ClassVar[bool] = False
    """Whether it works on directed graphs, where P is column-stochastic and agents have push-sum weights."""
    not_compressible: ClassVar[str] = ""
    """Why its messages must not be compressed (`compress`), in words; empty if they may be."""
    bias: ClassVar[str | None] = None
    """Why it ends away from the optimum on heterogeneous data, with a constant step size and exact gradients, in words;
    empty if it does not. Its card shows this and `use`: every registered method of this library says both."""
    use: ClassVar[str] = ""
    """When to choose it, in a sentence."""
    needs: ClassVar[str] = ""
    """What it needs of L or W, in words, if that is more than a symmetric matrix whose rows sum to 0 or 1."""

    def __post_init__(self) -> None:
        if not callable(self.transform) or isinstance(self.transform, type):
            raise InputError(
                f"transform is {described(self.transform)}: expected a function, such as transforms.Clip(1.0)."
            )
        if self._after != Transform() and not self.corrects:
            raise InputError(
                f"{type(self).__name__} corrects no gradients, so that {self.transform} has no direction to act on: "
                "leave out on_direction(), or @direction."
            )
        for name in self.rates:
            if not hasattr(self, name):
                raise InputError(
                    f"{type(self).__name__} lists the rate {name!r}, which is not one of its fields; add it."
                )
            rate = schedules.parse(getattr(self, name), name)
            if not _is_step_size(rate):
                raise InputError(f"{name} = {rate} is not a step size: expected a number that is not negative.")
            object.__setattr__(self, name, rate)

    def memory(self) -> Mapping[str, Start]:
        """The arrays kept besides x; each starts at zero or as a copy of the initial x."""
        return {}

    def hyperparameters(self, k: int) -> dict[str, float]:
        """The numbers that `step` receives at iteration k = 0, 1, …"""
        return {name: schedules.at(getattr(self, name), k) for name in self.rates}

    def nominal(self) -> dict[str, float]:
        """The hyperparameters that theory uses: those of iteration 0, or of the first one after every warm-up."""
        return self.hyperparameters(max((schedules.warmup_ends(getattr(self, name)) for name in self.rates), default=0))

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """One iteration: yields the point where the gradient is wanted, receives it, returns the new state.

        A step may yield several points, always equally many: all gradients of an iteration are on the same samples.

        Messages requested before a `yield` travel while the gradient is computed. The step is pure
        arithmetic without branches on values, so that it can be recorded and fused.

        Args:
            s: the state, `s.x` and the arrays of `memory`, each n×p.
            net: L·a, W·a, (I−W)·a and the mean over the agents.
            h: the numbers of `hyperparameters`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define step")

    def with_periods(self, periods: Exchanges) -> Algorithm:
        """The method as it runs where messages travel in these iterations: itself, unless its step depends on them."""
        return self

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """An iteration without messages (`communication_period` > 1): L = 0, W = I; `step` unless overridden."""
        return self.step(s, net, h)

    def global_average(self, s: SimpleNamespace, net: Mean) -> dict[str, Any]:
        """What a global average changes (`average_every`): x becomes the mean x̄; all else stays unless overridden.

        Dual variables, trackers and momenta stay as they are: each agent has its own, their means are those that the
        invariants speak of, and x̄ is no part of these. The mean of x does not move, and where all agents agree
        nothing does: a solution of the method stays one.
        """
        return {"x": net.mean(s.x)}

    def preprocess_gradient(self, g: Any, net: Network) -> Any:
        """The gradient as `step` receives it: transformed, agent by agent."""
        return self.transform(g)

    @property
    def _after(self) -> Transform:
        """The part of the transform that acts after the correction; functions of the user have none."""
        return self.transform.after if isinstance(self.transform, Transform) else Transform()

    def corrected(self, d: Any) -> Any:
        """The corrected direction as it moves x: transformed, if the transform is to act after the correction."""
        return d if self._after == Transform() else self._after(d)

    def descended(self, x: Any, g: Any, v: Any, eta: Any) -> Any:
        """x − ηg − v, where the correction v has the factor η in it; with a transform after it x − ησ(g + v/η)."""
        return x - eta * g - v if self._after == Transform() else x - eta * self.corrected(g + v / eta)

    def gradient_transform(self) -> Transform:
        """What acts on local gradients before any correction, which decides the bias on heterogeneous data."""
        if not isinstance(self.transform, Transform):
            raise InputError(f"nothing is known of the transform {described(self.transform)}.")
        return self.transform.before

    def mixing(self, lambda_min: float) -> Literal["as-is", "lazy"]:
        """Whether the method works with W, given its smallest eigenvalue, or needs (I+W)/2."""
        return "as-is"

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """Arrays whose mean over the agents is always zero, by the name of the invariant."""
        return {}

    def parameters(self) -> dict[str, Any]:
        """The fields as plain numbers and texts, as in an experiment file.

        A Python function appears by name, `python:module.function`, which `schedules.parse` does not read back.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "transform"}
        return {name: _plain(value, name in self.rates) for name, value in values.items()}


def _is_step_size(rate: schedules.Rate) -> bool:
    """Whether a rate, which may be any function of k, begins with a number that is not negative."""
    try:
        value = float(schedules.at(rate, 0))
    except (TypeError, ValueError, OverflowError):
        return False
    return math.isfinite(value) and value >= 0


A = TypeVar("A", bound=Algorithm)


def varied(algorithm: A, **values: Any) -> A:
    """The method with other values, without the warnings of construction: for values that are only tried.

    >>> from peerdescent.algorithms import DSGD1
    >>> varied(DSGD1(eta=0.1), eta=0.2).eta
    0.2
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return replace(algorithm, **values)


def _plain(value: Any, is_rate: bool) -> Any:
    if isinstance(value, (int, float, str)):
        return value
    return schedules.text(value) if is_rate else str(value)
