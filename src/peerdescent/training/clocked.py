"""A finished run in simulated seconds: what its method, graph and settings send, put into a network model."""

from __future__ import annotations

from peerdescent.algorithms import Algorithm
from peerdescent.clock.communication import Communication, on_graph, step_of
from peerdescent.clock.compute import compute_seconds
from peerdescent.clock.model import NetworkModel
from peerdescent.clock.pace import Forecast, forecast
from peerdescent.clock.simulation import finish_times
from peerdescent.graphs import AnyGraph
from peerdescent.runs.clock_file import COLUMN
from peerdescent.runs.metrics import Metrics
from peerdescent.tracing.recording import vectors_averaged
from peerdescent.training.compression import message_bytes
from peerdescent.training.plan import Plan
from peerdescent.training.settings import Settings


def communication_of(algorithm: Algorithm, graph: AnyGraph, settings: Settings, dimension: int) -> Communication:
    """What a run with these settings sends, with one agent per machine."""
    rounded, overlap = settings.message_dtype == "bf16", settings.kernel != "plain"
    size, periods = 8 if settings.dtype == "float64" else 4, settings.periods
    averaged = vectors_averaged(algorithm)
    return on_graph(
        graph,
        step_of(algorithm, rounded, overlap=overlap),
        step_of(algorithm, rounded, local=True, overlap=overlap),
        message_bytes(settings, dimension),
        dimension * size,
        lambda k: periods.rounds_before(k) if periods.exchanges(k) else None,
        lambda k: averaged * (settings.average_every is not None and (k + 1) % settings.average_every == 0),
    )


def clocked(
    metrics: Metrics, communication: Communication, model: NetworkModel, seed: int, several_processes: bool = False
) -> Metrics:
    """The metrics with a column of simulated seconds: when the last agent has finished the iterations of a row.

    Args:
        metrics: of the run.
        communication: what it sends.
        model: the network.
        seed: of the run; it decides computing times that vary.
        several_processes: whether its own seconds contain waiting, so that a model cannot be relative to them.
    """
    last = metrics[-1] if len(metrics) else {}
    iterations, seconds = last.get("iteration", 0), last.get("seconds")
    known = iterations > 0 and seconds is not None and not several_processes
    gradients = iterations * communication.n * communication.step.gradients
    measured = seconds / gradients if known else None
    wanted, times = set(metrics["iteration"]), {0: 0.0}
    compute = compute_seconds(model, communication.n, seed, measured if iterations else 0.0)
    for k, ends in enumerate(finish_times(communication, model, compute, iterations), start=1):
        if k in wanted:
            times[k] = float(ends.max())
    return Metrics([{**row, COLUMN: times[row["iteration"]]} for row in metrics])


def forecast_of(plan: Plan, model: NetworkModel) -> Forecast:
    """The pace of a method before it runs, beside that of an all_reduce."""
    settings = plan.settings
    sent = communication_of(plan.algorithm, plan.graph, settings, plan.dimension)
    return forecast(sent, model, settings.seed, cycle=settings.periods.longest * (sent.repeats or 1))
