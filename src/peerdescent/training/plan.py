"""A plan: everything that is fixed before a run, resolved once and used by all who run, explain or judge it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch

from peerdescent import problems, schedules
from peerdescent._util.validation import described
from peerdescent.algorithms import Algorithm, describe
from peerdescent.errors import InputError
from peerdescent.graphs import AnyGraph
from peerdescent.mixing.global_average import Volume, bytes_per_average
from peerdescent.mixing.rounds import Rounds
from peerdescent.mixing.sequence_weights import Weights, make_weights
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Problem, Size, size_of
from peerdescent.problems.scores import Metrics
from peerdescent.theory.agents import ScaledRounds
from peerdescent.theory.prediction import Prediction, clearly_settles, predict
from peerdescent.tracing.recording import gradients_wanted, vectors_sent
from peerdescent.training.compression import (
    check_compression,
    consensus_step,
    copies_kept,
    message_bytes,
    with_compressor,
)
from peerdescent.training.directed import check_directed
from peerdescent.training.finite import check_finite_data, check_finite_points
from peerdescent.training.impaired import impair
from peerdescent.training.memory import Estimate, check_memory, estimate
from peerdescent.training.settings import UNCOMPRESSED, Settings

MADE_IN_PYTHON = "made_in_python"
"""The key that lists what only Python can make again."""
LARGEST_RATE = 1e30
"""A step size above this overflows single precision, and its square what theory computes with."""
INDEX = 8
"""The bytes of a sample's number."""


@dataclass(frozen=True)
class Plan:
    """One method on one problem and graph, with the weights that follow from them.

    Args:
        name: what tables and figures call the method.
        graph: who talks to whom.
        algorithm: the method with its hyperparameters.
        settings: how the run is carried out.
        weights: L, W and their spectrum.
        make_problem: makes the problem when it is first needed; `explain` needs its dimension only.
        description: all choices as TOML keys, as the run folder records them.
        x0: the agents' starting points; None takes the problem's.
        make_dimension: the length of x, where that is known without the problem's data.
        make_size: the size of the problem, where that is known without making it.
        metrics: the user's own, evaluated with the loss; they do not decide the trajectory.
    """

    name: str
    graph: AnyGraph
    algorithm: Algorithm
    settings: Settings
    weights: Weights
    make_problem: Callable[[], Problem]
    description: Mapping[str, Any]
    x0: torch.Tensor | None = None
    make_dimension: Callable[[], int] | None = None
    make_size: Callable[[], Size | None] | None = None
    metrics: Metrics = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.algorithm.rates:
            rate = getattr(self.algorithm, name)
            if (schedules.base(rate) or 0.0) > LARGEST_RATE:
                raise InputError(f"{name} = {schedules.text(rate)}: expected a step size of at most {LARGEST_RATE:g}.")
        check_directed(self.graph, self.settings)
        check_compression(self.algorithm, self.settings)

    @cached_property
    def problem(self) -> Problem:
        """What is minimised."""
        problem = self.make_problem()
        if problem.agents != self.graph.n:
            raise InputError(
                f"the problem has {problem.agents} agents and the graph {self.graph.n}: they must be the same."
            )
        check_finite_data(problem, self.settings.place()[1])
        return problem

    @cached_property
    def dimension(self) -> int:
        """How many numbers an agent's x has."""
        return self.problem.dimension if self.make_dimension is None else self.make_dimension()

    def memory(self, processes: int = 1) -> Estimate:
        """What the run takes, with the data once in each process of this machine."""
        size = (None if self.make_size is None else self.make_size()) or size_of(self.problem)
        agents, batch = self.graph.n, self.settings.samples
        per_sample = size.sample + INDEX if size.sample else 0
        return estimate(
            agents,
            size.dimension,
            len(self.algorithm.memory())
            + gradients_wanted(self.algorithm)
            - 1
            + (self.settings.ema is not None)
            + (self.settings.decay == "decoupled")
            + 5 * (self.settings.gradient_noise is not None)  # drawn, stacked and converted
            + self.settings.delay * self.vectors_sent,
            self.vectors_sent * (1 + copies_kept(self.graph, self.settings)),
            8 if self.settings.dtype == "float64" else 4,
            len(self.graph.union.edges),
            size.data * processes,
            0 if batch is None else agents * batch * per_sample + size.drawn,
        )

    def check_memory(self, processes: int = 1) -> None:
        """Refuse a run that does not fit into the memory that is free, before anything is made."""
        if self.settings.place()[0].type == "cpu":
            check_memory(self.name, self.memory(processes))

    @cached_property
    def prediction(self) -> Prediction:
        """Whether the method is stable here, why, and what would make it so."""
        s = self.settings
        return predict(self.algorithm, self.judged_weights, s.laplacian, s.mixing, s.periods, s.delay)

    @property
    def predicted_unstable(self) -> bool:
        """Whether to warn of the prediction; what a short sample of rounds shows to settle needs no long one."""
        s = self.settings
        if clearly_settles(self.algorithm, self.judged_weights, s.periods, s.delay):
            return False
        return self.prediction.settles is False

    @property  # not kept: a plan is pickled for other processes
    def judged_weights(self) -> Rounds:
        """L and W as theory judges them: times the consensus step, and without the messages that get lost."""
        s, c = self.settings, consensus_step(self.algorithm, self.weights, self.settings)
        if isinstance(self.weights, MixingWeights) and s.drop is None and s.inactive is None:
            return self.weights.scaled(c)
        rounds, _ = impair(self.weights, s, (), s.periods.rounds_before)
        return rounds if c == 1 else ScaledRounds(rounds, c)

    @cached_property
    def vector_bytes(self) -> int:
        """The size of one message: p numbers in the precision of messages, compressed."""
        return message_bytes(self.settings, self.dimension)

    @cached_property
    def vectors_sent(self) -> int:
        """How many vectors an agent sends to each neighbour in an exchange."""
        return vectors_sent(self.algorithm)

    def volume(self, weights: Rounds) -> Volume:
        """What the agents with these weights send: those of the plan, or those that are left."""
        message = self.vectors_sent * self.vector_bytes
        merge = bytes_per_average(self.algorithm, weights.n, self.dimension * self.settings.place()[1].itemsize)
        return Volume(self.settings.periods, weights.messages, message, self.settings.average_every, merge)

    def start(self, problem: Problem) -> torch.Tensor:
        """The agents' starting points, n×p."""
        if self.x0 is None:
            points = problem.start(self.settings.seed)
            return check_finite_points(points, f"the starting points of {problem.name}")
        shape = (problem.agents, problem.dimension)
        points = as_points(self.x0)
        try:
            points = points.to(problem.device, problem.dtype).expand(shape).contiguous()
        except RuntimeError:
            raise InputError(f"x0 has shape {tuple(points.shape)}: expected {shape} or one row of it.") from None
        return check_finite_points(points, "x0")


def make_plan(
    problem: Problem | Callable[[], Problem],
    graph: AnyGraph,
    algorithm: Algorithm,
    settings: Settings,
    x0: torch.Tensor | None = None,
    problem_name: str = "",
    algorithm_name: str = "",
) -> Plan:
    """A plan from objects; names are given where the objects were made from them."""
    settings = with_compressor(settings, algorithm)
    made: dict[str, Any] = describe(algorithm, algorithm_name)
    python = made.pop(MADE_IN_PYTHON, [])
    make = partial(_given, problem) if isinstance(problem, Problem) else problem
    if not problem_name:
        python.append("problem")
        made["problem"] = make().name
    if x0 is not None:
        python.append("x0")
        made["x0"] = hashlib.sha256(as_points(x0).cpu().numpy().tobytes()).hexdigest()[:16]
    weights = make_weights(graph, settings.laplacian, settings.mixing, algorithm)
    description = {
        "algorithm": made.pop("algorithm"),
        "problem": problem_name or made.pop("problem"),
        "graph": graph.text,
        **plain(settings),
        **made,
        **({MADE_IN_PYTHON: python} if python else {}),
    }
    size = partial(problems.size, problem_name, graph.n) if problem_name else None
    name = str(description["algorithm"])
    return Plan(name, graph, algorithm, settings, weights, make, description, x0, make_size=size)


def as_points(x0: object) -> torch.Tensor:
    """Starting points as a tensor of real numbers."""
    try:
        points = torch.as_tensor(x0).detach()
    except (TypeError, ValueError, RuntimeError):
        points = None
    if points is None or points.is_complex():
        raise InputError(f"x0 is {described(x0)}: expected the agents' starting points, n×p or one row.")
    return points


def _given(problem: Problem) -> Problem:
    """A function of a module, so that plans can be pickled."""
    return problem


def with_defaults(description: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded description, with defaults for settings that are newer than it."""
    return {**plain(Settings(compress=UNCOMPRESSED)), **description}


def plain(settings: Settings) -> dict[str, Any]:
    """Settings as TOML keys: lists for tuples, nothing for what is not set."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.asdict().items()}
    return {name: value for name, value in values.items() if value is not None and value not in ("", [])}
