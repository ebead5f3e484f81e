"""What a person sees while an experiment is carried out: a heading, progress, a table, where things are."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from peerdescent._util.numbers import jsonable
from peerdescent._util.validation import whole
from peerdescent._version import __version__
from peerdescent.data.fetch import fetch
from peerdescent.distributed.faults import Faults, as_faults, restarts_of_torchrun, with_restarts
from peerdescent.distributed.launcher import workers
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.experiments import Experiment, explain
from peerdescent.graphs import Graph
from peerdescent.mixing.weights import MixingWeights
from peerdescent.runs.metrics import Row

if TYPE_CHECKING:
    from peerdescent.experiments.runner import Outcome


@dataclass(frozen=True)
class RunOptions:
    """Where the records go and what is printed."""

    out: Path | None = None
    resume: bool = False
    overwrite: bool = False
    quiet: bool = False
    as_json: bool = False
    strict: bool = False
    """Refuse a method that is unstable on the graph."""
    workers: int = 1
    """Local processes that share the agents."""
    on_loss: str = "stop"
    """What to do when a process is lost."""
    kill: tuple[str, ...] = ()
    stall: tuple[str, ...] = ()
    """Faults to make on purpose."""

    @property
    def faults(self) -> Faults:
        """What happens when a process is lost, and which faults to make."""
        return as_faults(self.on_loss, self.kill, self.stall)

    def again(self, restarts: int) -> RunOptions:
        """The same after some restarts: it goes on where it was, and faults do not happen twice."""
        if not restarts:
            return self
        return replace(self, resume=True, overwrite=False, kill=self.faults.after(restarts).kill)

    def folder(self, name: str) -> Path:
        """The folder for the records, below runs/ unless one was given; contradicting wishes are refused."""
        if self.resume and self.out is None:
            raise InputError("--resume needs --out: name the run folder to go on with.")
        if self.resume and self.overwrite:
            raise InputError("--resume and --overwrite contradict each other: keep one.")
        return self.out or Path("runs", f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")


def execute(experiment: Experiment, way: RunOptions, together: bool, group: ProcessGroup | None = None) -> None:
    """Run or compare, alone or in a group, showing how it goes; raises if every method diverged."""
    named = way.out is not None
    way = replace(way, out=way.folder("compare" if together else experiment.algorithms[0]))
    whole("--workers", way.workers, 1)
    agents = experiment.make_graph().n
    way.faults.check(agents, group.size if group is not None else way.workers)
    if group is not None:
        if way.workers > 1:
            raise InputError("--workers starts processes of its own: leave it out under torchrun.")
        if way.on_loss == "restart" and not named:
            raise InputError("--on-loss restart needs --out under torchrun: name the run folder to go on with.")
        group.check_same_on_all_ranks(_alike(experiment, way, together))
        way = replace(
            way.again(restarts_of_torchrun()) if named else way, out=Path(group.broadcast_object(str(way.out)))
        )
    if way.workers == 1:
        _execute(experiment, way, together, group)
        return
    Placement(agents, way.workers)

    def attempt(number: int) -> None:
        now = way.again(number)
        with workers(way.workers, _follow, experiment, replace(now, workers=1), together) as started:
            _execute(experiment, now, together, started)

    with_restarts(way.faults, attempt)


def _alike(experiment: Experiment, way: RunOptions, together: bool) -> dict[str, str]:
    """What all processes must have been asked for, by name; paths, titles and threads are everyone's own."""
    free = ("title", "load", "threads", "gradients")
    chosen = experiment.resolved(*experiment.algorithms)
    values = {"command": "compare" if together else "run", "resume": way.resume, "on-loss": way.on_loss, **chosen}
    texts = {name: json.dumps(value, sort_keys=True, default=str) for name, value in values.items() if name not in free}
    return {"version": __version__, **texts}


def _follow(group: ProcessGroup, experiment: Experiment, way: RunOptions, together: bool) -> None:
    """What a worker does: the same in silence, with the user's own methods loaded there too."""
    experiment.check()
    _execute(experiment, way, together, group)


def _execute(experiment: Experiment, way: RunOptions, together: bool, group: ProcessGroup | None) -> None:
    from peerdescent.experiments import runner  # figures are slow to import, and only this needs them

    assert way.out is not None
    out, leads = way.out, group is None or group.is_rank_zero
    silent = way.quiet or way.as_json or not leads
    console = Console(quiet=silent, highlight=False, markup=False, emoji=False)
    introduce(console, experiment)
    predict(console, experiment, way.strict)
    if experiment.problem == "mnist-cnn":
        fetch("mnist", announce=lambda text: console.print(text, markup=False))
    with _progress(console, silent) as bar:
        carry = runner.compare if together else runner.run
        announce = _announcer(bar, experiment.iterations)
        outcomes = carry(experiment, out, way.resume, way.overwrite, announce, group, way.faults)
    if way.as_json and leads:
        print(_as_json(outcomes, out))
    if leads:
        _conclude(console, outcomes, out)
    errors = [outcome.error for outcome in outcomes.values() if outcome.error is not None]
    if len(errors) == len(outcomes):
        raise errors[0]


def _progress(console: Console, silent: bool) -> Progress:
    text, state = TextColumn("{task.description:<17}"), TextColumn("{task.fields[state]}")
    columns = (text, BarColumn(), MofNCompleteColumn(), state, TimeRemainingColumn(compact=True))
    return Progress(*columns, console=console, disable=silent)


def _announcer(bar: Progress, iterations: int) -> Callable[[str], Callable[[int, Row | None], None]]:
    """For each method a line of its own in the progress display."""

    def announce(name: str) -> Callable[[int, Row | None], None]:
        task = bar.add_task(name, total=iterations, state="")

        def progress(k: int, row: Row | None) -> None:
            bar.update(task, completed=k)
            if row is not None:
                accuracy = "" if row["accuracy"] is None else f"  accuracy {100 * row['accuracy']:.2f} %"
                bar.update(task, state=f"loss {row['loss']:.4g}{accuracy}")

        return progress

    return announce


def introduce(console: Console, experiment: Experiment) -> None:
    """What is run, and where."""
    graph = experiment.make_graph()
    count = len(graph.edges)
    method = experiment.make_algorithm(experiment.algorithms[0])
    spectrum = MixingWeights.build(graph, experiment.laplacian, experiment.mixing, method).spectrum
    if experiment.title:
        console.print(experiment.title, style="bold")
    console.print(
        f"{experiment.problem} on {experiment.graph}: {graph.n} agents, {count} edge{'s' * (count != 1)}, "
        f"ρ(L) = {spectrum.rho:.3g}, ρ₂(L) = {spectrum.rho2:.3g} ({experiment.laplacian} Laplacian)"
    )


def predict(console: Console, experiment: Experiment, strict: bool) -> None:
    """Say of each method whether it is stable here, before hours are lost."""
    for name in experiment.algorithms:
        found = explain.stability(experiment, name)
        text = explain.sentence(name, found)
        if found["settles"] is not False:
            console.print(text, markup=False)
        elif strict:
            raise InputError(f"{text}.")
        else:
            warnings.warn(text, stacklevel=2)


def show_graph(graph: Graph) -> None:
    """A small graph as dots, for a person."""
    if drawn := explain.picture(graph):
        Console(highlight=False, markup=False, emoji=False).print(f"{graph}\n{drawn}\n")


def show_facts(facts: dict[str, Any]) -> None:
    """The facts of one method, for a person."""
    graph, stable = facts["graph"], facts["stability"]
    low, high = graph["degrees"]
    degrees = f"degree {low}" if low == high else f"degrees {low} to {high}"
    verdict, condition = explain.sentence(facts["algorithm"], stable), stable.get("condition", "")
    lines = {
        "graph": f"{graph['agents']} agents, {graph['edges']} edge{'s' * (graph['edges'] != 1)}, {degrees}, "
        f"diameter {graph['diameter']}",
        "spectrum": f"ρ(L) = {graph['rho']:.4g}, ρ₂(L) = {graph['rho2']:.4g}, "
        f"λmin(W) = {round(graph['lambda_min'], 12) + 0.0:.4g}, gap {graph['gap']:.4g}",
        "traffic": _traffic(facts["traffic"]),
        "stability": verdict,
        "because": "" if stable["reason"] in verdict else stable["reason"],
        "condition": "" if condition in verdict else condition,
        "stable while": _ranges(stable["ranges"]),
        "cures, one at a time": ", ".join(f"{key} = {value:.4g}" for key, value in stable["cures"].items()),
        **_theorem1(facts["theorem1"]),
        "notes": "; ".join(facts["notes"]),
    }
    table = Table(box=None, show_header=False, pad_edge=False, title=facts["algorithm"], title_justify="left")
    for label, text in lines.items():
        if text:
            table.add_row(label, Text(text))
    Console(highlight=False, emoji=False).print(table, "")


def _traffic(sent: dict[str, Any]) -> str:
    from peerdescent.report.formatting import human_bytes

    if not sent["vectors_per_edge"]:
        return "nothing travels on the graph"
    ends = [human_bytes(number) for number in sent["bytes_per_iteration"]]
    often = "iteration" if sent["communication_period"] == 1 else f"{sent['communication_period']} iterations"
    count = "1 vector" if sent["vectors_per_edge"] == 1 else f"{sent['vectors_per_edge']} vectors"
    spread = ends[0] if ends[0] == ends[1] else " to ".join(ends)
    mean = " on average" * (sent["communication_period"] > 1)
    vectors = f"{count} of {sent['dimension']:,} numbers to each neighbour"
    return f"{vectors} every {often}: {spread} per agent and iteration{mean}"


def _ranges(found: dict[str, Any]) -> str:
    """How far each step size may go by itself; the curvature of the costs, which is not known, adds its own limits."""
    each = ", ".join(_between(name, *ends) for name, ends in found.items())
    return f"{each} (one at a time; costs flat)" if each else ""


def _between(name: str, low: float, high: float | None) -> str:
    """The interval in which a step size may be changed by itself."""
    if high is None:
        return f"{name} > {low:.4g}" if low else f"any {name}"
    return f"{low:.4g} < {name} < {high:.4g}" if low else f"{name} < {high:.4g}"


def _theorem1(found: dict[str, Any]) -> dict[str, str]:
    values = found["parameters"]
    asked = f"κ₁ = {values['kappa1']:.4g}, κ₂ = {values['kappa2']:.4g}: " if values else ""
    asked += ", ".join(f"{name} = {values[name]:.4g}" for name in ("eta", "alpha", "beta")) if values else ""
    fails = "its conditions fail: " + "; ".join(found["failing"])
    return {
        "Theorem 1": "its conditions hold" if found["holds"] else fails,
        "it asks for": "" if found["holds"] else asked or found["infeasible"] or "",
    }


def _conclude(console: Console, outcomes: Mapping[str, Outcome], out: Path) -> None:
    from peerdescent.experiments import runner

    console.print(runner.summary(outcomes).to_rich())
    result = next(iter(outcomes.values())).result
    console.print(f"update: {result.kernel}; gradients: {result.gradients}")
    if result.processes > 1:
        sent = sum(outcome.result.interprocess_bytes for outcome in outcomes.values()) / 1e6
        console.print(f"{result.processes} processes sent each other {sent:.1f} MB")
    figure = out / "figures" / "comparison.png"
    console.print(*([f"figure: {figure}"] if figure.exists() else []), f"run folder: {out}", sep="\n")


def _as_json(outcomes: Mapping[str, Outcome], out: Path) -> str:
    results: dict[str, Any] = {
        name: {**outcome.result.summary(), "diverged": outcome.error is not None, "notes": outcome.notes}
        for name, outcome in outcomes.items()
    }
    return json.dumps({"out": str(out), "results": jsonable(results)}, indent=2)
