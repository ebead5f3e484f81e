"""`peerdescent explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerdescent.cli import flags
from peerdescent.cli.clock import NETWORK
from peerdescent.cli.flags import OUTPUT, AsJson
from peerdescent.clock.files import read

if TYPE_CHECKING:
    from peerdescent.experiments.explain import Explanation, GraphFacts, Theorem1, Traffic

FigureFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw the graph into a .png, .svg or .pdf file.", rich_help_panel=OUTPUT),
]

Network = Annotated[str | None, typer.Option(metavar="NETWORK", help=NETWORK, rich_help_panel=OUTPUT)]


@flags.with_flags()
def explain(figure: FigureFile = None, network: Network = None, as_json: AsJson = False, **given: Any) -> None:
    """Tell before a run: the graph, traffic, stability and what would restore it, and whether a theorem applies.

    With --network also: how long an iteration takes there, how long with an all_reduce, and where both are equal.

    Examples:

    - `peerdescent explain quickstart`

    - `peerdescent explain -a dsgpa-f --graph star:10 --laplacian unit`

    - `peerdescent explain experiment.toml --json`

    - `peerdescent explain -a dsgpa-f --graph ring:32 --network wan`
    """
    experiment = flags.experiment_from(given)
    model = None if network is None else read(network)
    from peerdescent._util.numbers import jsonable
    from peerdescent.experiments.explain import explain_plan, picture
    from peerdescent.experiments.resolve import resolve

    plans = resolve(experiment)
    facts = [explain_plan(plan, model) for plan in plans]
    if figure is not None:
        from peerdescent.experiments.run import weighted_graph
        from peerdescent.report import drawing

        drawn = weighted_graph(experiment, plans)
        drawing.save_as(drawing.topology(drawn.graph, drawn.spectrum, drawn.kind), figure)
    if as_json:
        found = [jsonable(each.as_dict()) for each in facts]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
        return
    if dots := picture(plans[0].graph):
        print(f"{plans[0].graph}\n{dots}\n")
    for each in facts:
        _show(each)


def _show(facts: Explanation) -> None:
    """The facts of one method, for a person."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, title=facts.algorithm, title_justify="left")
    for label, text in _lines(facts).items():
        if text:
            table.add_row(label, Text(text))
    Console(highlight=False, emoji=False).print(table, "")


def _lines(facts: Explanation) -> dict[str, str]:
    stable = facts.stability
    verdict = stable.sentence(facts.algorithm)
    return {
        **_graph(facts.graph),
        **_gradients(facts.gradients_per_iteration),
        "traffic": _traffic(facts.traffic),
        "compression": "" if facts.compression is None else str(facts.compression),
        **_forecast(facts),
        "memory": f"about {facts.memory}",
        "stability": verdict,
        "because": "" if stable.reason in verdict else stable.reason,
        "condition": "" if stable.condition in verdict else stable.condition,
        "stable while": _ranges(facts.ranges),
        "what would help": ", ".join(f"{key} = {value:.4g}" for key, value in stable.cures.items()),
        **_theorem1(facts.theorem1),
        "Theorem A": "" if facts.exact is None else str(facts.exact),
        "notes": "; ".join(facts.notes),
    }


def _gradients(count: int) -> dict[str, str]:
    return {"gradients": f"gradients per iteration: {count}, on the same samples"} if count > 1 else {}


def _forecast(facts: Explanation) -> dict[str, str]:
    if facts.forecast is None:
        return {}
    pace, equal = facts.forecast.sentences(facts.traffic.dimension)
    return {f"on {facts.forecast.network}": pace, "beside all_reduce": equal}


def _graph(graph: GraphFacts) -> dict[str, str]:
    """The graph and its eigenvalues, or how graphs over time contract."""
    low, high = graph.degrees
    out, directed = ("out-", "directed ") if graph.push_sum else ("", "")
    degrees = f"{out}degree {low}" if low == high else f"{out}degrees {low} to {high}"
    size = f"{graph.agents} agents, {graph.edges} {directed}edge{'s' * (graph.edges != 1)}, {degrees}"
    size += f", diameter {graph.diameter}" if graph.diameter is not None else ""
    if graph.contraction is not None and graph.push_sum is not None:
        smallest, largest = graph.push_sum
        equal = f"{smallest:.3g}" == f"{largest:.3g}"
        weights = "all push-sum weights are 1" if equal else f"push-sum weights from {smallest:.3g} to {largest:.3g}"
        rounds = f"; over time {graph.edges_per_round:.4g} edges per round, a period of {graph.contraction.period}"
        over_time = rounds if graph.contraction.period != 1 else ""
        return {"graph": size + over_time, "mixing": f"{graph.contraction}; {weights}"}
    if graph.contraction is not None:
        rounds = "random rounds" if graph.contraction.period is None else f"a period of {graph.contraction.period}"
        over_time = f"; over time {graph.edges_per_round:.4g} edges per round, {rounds}"
        return {"graph": f"all rounds together: {size}{over_time}", "mixing": str(graph.contraction)}
    low_end, second = (f"{round(value, 12) + 0.0:.4g}" for value in (graph.lambda_min, graph.lambda2))
    ends = f"ρ(L) = {graph.rho:.4g}, ρ₂(L) = {graph.rho2:.4g}, λ₂(W) = {second}, λmin(W) = {low_end}"
    return {"graph": size, "spectrum": f"{ends}, gap {graph.gap:.4g}"}


def _traffic(sent: Traffic) -> str:
    from peerdescent.mixing.periods import Periods
    from peerdescent.report.formatting import human_bytes

    if not sent.vectors_per_edge:
        return "nothing travels on the graph"
    ends = [human_bytes(number) for number in sent.bytes_per_iteration]
    periods = Periods.parse(sent.communication_period)
    count = "1 vector" if sent.vectors_per_edge == 1 else f"{sent.vectors_per_edge} vectors"
    spread = ends[0] if ends[0] == ends[1] else " to ".join(ends)
    vectors = f"{count} of {sent.dimension:,} numbers to each neighbour"
    return f"{vectors} {periods.words}: {spread} per agent and iteration{' on average' * (not periods.always)}"


def _ranges(found: dict[str, tuple[float, float | None]]) -> str:
    """How far each step size may go by itself; the curvature of the costs, which is not known, adds its own limits."""
    each = ", ".join(_between(name, *ends) for name, ends in found.items())
    return f"{each} (one at a time; costs flat)" if each else ""


def _between(name: str, low: float, high: float | None) -> str:
    """The interval in which a step size may be changed by itself."""
    if high is None:
        return f"{name} > {low:.4g}" if low else f"any {name}"
    return f"{low:.4g} < {name} < {high:.4g}" if low else f"{name} < {high:.4g}"


def _held(found: Theorem1) -> str:
    if not found.holds:
        return f"its conditions fail: {'; '.join(found.failing)}"
    return "its printed conditions hold" + (f"; {found.caveat}" if found.caveat else "")


def _theorem1(found: Theorem1) -> dict[str, str]:
    values = found.parameters
    asked = f"κ₁ = {values['kappa1']:.4g}, κ₂ = {values['kappa2']:.4g}: " if values else ""
    asked += ", ".join(f"{name} = {values[name]:.4g}" for name in ("eta", "alpha", "beta")) if values else ""
    return {
        "Theorem 1": _held(found),
        "it asks for": "" if found.holds else asked or found.infeasible or "",
    }
