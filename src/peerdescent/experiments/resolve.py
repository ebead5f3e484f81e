"""From an experiment to plans: everything is built and checked once, before anything is written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from peerdescent import algorithms, graphs, problems, transforms
from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.experiments.schema import PROBLEM, Experiment
from peerdescent.experiments.user_code import load_methods
from peerdescent.graphs import AnyGraph
from peerdescent.mixing.sequence_weights import make_weights
from peerdescent.problems import Problem
from peerdescent.training.compression import with_compressor
from peerdescent.training.plan import Plan, plain
from peerdescent.training.settings import Settings


def resolve(experiment: Experiment) -> list[Plan]:
    """A plan for every method of an experiment; they share the graph and, once it is needed, the problem.

    >>> [plan.algorithm.eta for plan in resolve(Experiment(problem="quadratic", algorithms=("d2",), set={"eta": 0.05}))]
    [0.05]
    """
    experiment = prepare(experiment)
    graph = graphs.parse(experiment.graph)
    settings = settings_only(experiment)
    settings.place()
    make_problem = functools.cache(lambda: make_problem_of(experiment, graph))
    methods = {name: make_algorithm(experiment, name) for name in experiment.algorithms}
    return [_plan(experiment, name, method, graph, settings, make_problem) for name, method in methods.items()]


def prepare(experiment: Experiment) -> Experiment:
    """Load the user's files, call methods by their own names instead of aliases, and refuse tables of no method."""
    for path in experiment.load:
        load_methods(path)
    names = tuple(algorithms.canonical(name) for name in experiment.algorithms)
    tables = {
        key if key == PROBLEM or not isinstance(value, Mapping) else algorithms.canonical(key): value
        for key, value in experiment.set.items()
    }
    for key, value in tables.items():
        if isinstance(value, Mapping) and key != PROBLEM and key not in names:
            raise InputError(f"set.{key}: there is no such algorithm in this experiment.")
    return experiment.replace(algorithms=names, set=tables)


def make_algorithm(experiment: Experiment, name: str) -> Algorithm:
    """A method with the values that are set for it, and for all."""
    known = algorithms.find(name).options()
    common = {key: value for key, value in experiment.set.items() if not isinstance(value, Mapping)}
    own = experiment.set.get(name, {})
    anywhere = {key for other in experiment.algorithms for key in algorithms.find(other).options()}
    for key in (*(key for key in common if key not in anywhere), *(key for key in own if key not in known)):
        raise InputError(f"{name} has no hyperparameter {key!r}: it has {', '.join(known)}.")
    values = {key: value for key, value in common.items() if key in known}
    if experiment.transform is not None:
        own = {**own, "transform": transforms.parse(experiment.transform)}
    return algorithms.make(name, experiment.powerball, **{**values, **own})


def make_problem_of(experiment: Experiment, graph: AnyGraph) -> Problem:
    """The problem of an experiment, for the agents of its graph."""
    return problems.make(experiment.problem, graph.n, experiment.partition, **experiment.problem_options)


def settings_only(experiment: Experiment) -> Settings:
    """What of an experiment says how a run is carried out."""
    return Settings(**{name: getattr(experiment, name) for name in Settings.__struct_fields__})


def describe(experiment: Experiment, *names: str) -> dict[str, Any]:
    """The experiment with every choice explicit, ready for TOML: the run of one method, or of several."""
    made = {name: make_algorithm(experiment, name) for name in names}
    named = {"algorithm": names[0]} if len(names) == 1 else {"algorithms": list(names)}
    chosen = plain(with_compressor(experiment, *made.values()))
    values = {key: value for key, value in chosen.items() if key not in ("algorithms", "set", "graph")}
    own: dict[str, Any] = {name: method.parameters() for name, method in made.items()}
    own |= {PROBLEM: experiment.problem_options} if experiment.problem_options else {}
    return {**named, "graph": graphs.parse(experiment.graph).text, **values, "set": own}


def _plan(
    experiment: Experiment,
    name: str,
    method: Algorithm,
    graph: AnyGraph,
    settings: Settings,
    make_problem: Callable[[], Problem],
) -> Plan:
    settings = with_compressor(settings, method)
    weights = make_weights(graph, settings.laplacian, settings.mixing, method)
    size = functools.partial(problems.size, experiment.problem, graph.n, **experiment.problem_options)
    dimension = functools.partial(
        problems.dimension, experiment.problem, graph.n, experiment.partition, **experiment.problem_options
    )
    description = describe(experiment, name)
    return Plan(name, graph, method, settings, weights, make_problem, description, None, dimension, size)
