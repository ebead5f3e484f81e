"""Experiments carried out: one run folder per method, one comparison above them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from peerdescent._util import extras, toml
from peerdescent._util.files import write_atomically
from peerdescent.algorithms import Algorithm
from peerdescent.distributed.faults import NO_FAULTS, Faults
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import DivergedError, InputError
from peerdescent.experiments.experiment import Experiment
from peerdescent.graphs import Graph
from peerdescent.mixing.weights import MixingWeights
from peerdescent.report.layout import MATCHED, WeightedGraph
from peerdescent.report.summary import summary_table
from peerdescent.report.tables import Table
from peerdescent.runs.folder import prepare_folder, write_environment
from peerdescent.training import Result, train
from peerdescent.training.loop import Progress
from peerdescent.training.train import check

Announce = Callable[[str], "Progress | None"]


@dataclass
class Outcome:
    """A method's result, and the sentence it ended with if it diverged."""

    result: Result
    error: DivergedError | None = None

    @property
    def notes(self) -> list[str]:
        """What the table says beside the numbers."""
        ends = [f"diverged at iteration {self.result.metrics[-1]['iteration']}"] if self.error is not None else []
        return ends + self.result.notes


def run(
    experiment: Experiment,
    out: Path,
    resume: bool,
    overwrite: bool,
    announce: Announce,
    group: ProcessGroup | None = None,
    faults: Faults = NO_FAULTS,
) -> dict[str, Outcome]:
    """One method, its records and its figures in `out`; all processes of a group call this, the first one writes."""
    (name,) = experiment.algorithms
    outcomes = {name: train_one(experiment, name, out, resume, overwrite, announce, group, faults)}
    if group is None or group.is_rank_zero:
        _draw(experiment, outcomes, out)
    return outcomes


def compare(
    experiment: Experiment,
    out: Path,
    resume: bool,
    overwrite: bool,
    announce: Announce,
    group: ProcessGroup | None = None,
    faults: Faults = NO_FAULTS,
) -> dict[str, Outcome]:
    """Every method of the experiment in a folder of its own below `out`; one that diverges does not stop the others."""
    graph, leads = experiment.make_graph(), group is None or group.is_rank_zero
    problem = experiment.make_problem(graph.n)
    for name in experiment.algorithms:
        check(problem, graph, experiment.make_algorithm(name), **vars(experiment.settings()))
    if leads:
        prepare_folder(out, resume, overwrite)
        write_environment(out)
    outcomes = {
        name: train_one(experiment, name, out / name, resume, False, announce, group, faults)
        for name in experiment.algorithms
    }
    if not leads:
        return outcomes
    described = {name: experiment.resolved(name) for name in experiment.algorithms}
    write_atomically(out / "comparison.toml", toml.dumps(described))
    _draw(experiment, outcomes, out)
    return outcomes


def train_one(
    experiment: Experiment,
    name: str,
    out: Path,
    resume: bool,
    overwrite: bool,
    announce: Announce,
    group: ProcessGroup | None = None,
    faults: Faults = NO_FAULTS,
) -> Outcome:
    """One method of an experiment, with records in `out`."""
    graph = experiment.make_graph()
    problem, algorithm = experiment.make_problem(graph.n), experiment.make_algorithm(name)
    try:
        result = train(
            problem,
            graph,
            algorithm,
            out=out,
            resume=resume,
            overwrite=overwrite,
            progress=announce(name),
            experiment=experiment.resolved(name),
            group=group,
            **vars(faults),
            **vars(experiment.settings()),
        )
        return Outcome(result)
    except DivergedError as error:
        return Outcome(error.result, error)


def _draw(experiment: Experiment, outcomes: Mapping[str, Outcome], out: Path) -> None:
    """Write tables and, if matplotlib is installed, figures next to the records."""
    summary(outcomes).write(out / "table", ("md", "csv"))
    try:
        extras.require("matplotlib", "figures")
    except InputError as error:  # the run itself is complete
        warnings.warn(f"no figure is drawn: {error}", stacklevel=2)
        return
    from peerdescent.report import drawing, figures

    curves = {name: outcome.result.metrics for name, outcome in outcomes.items()}
    drawing.save(figures.comparison(curves, experiment.title), out / "figures" / "comparison")
    methods = [outcome.result.algorithm for outcome in outcomes.values()]
    graph = next(iter(outcomes.values())).result.graph  # that of the survivors, if agents were lost
    weighted = weighted_graph(graph, experiment.laplacian, experiment.mixing, methods)
    drawing.save(drawing.topology(weighted.graph, weighted.spectrum, weighted.kind), out / "figures" / "topology")


def weighted_graph(graph: Graph, laplacian: str, mixing: str, methods: Sequence[Algorithm]) -> WeightedGraph:
    """The graph with the spectrum of the methods' L; if it is matched to several methods, with that of I−W."""
    if laplacian == MATCHED and len(methods) > 1:
        return WeightedGraph.build(graph, laplacian, mixing)
    return WeightedGraph(graph, MixingWeights.build(graph, laplacian, mixing, methods[0]).spectrum, laplacian)


def summary(outcomes: Mapping[str, Outcome]) -> Table:
    """How each method ended."""
    return summary_table({name: {**o.result.summary(), "notes": o.notes} for name, o in outcomes.items()})
