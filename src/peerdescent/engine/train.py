"""The loop: gradients, updates, evaluations, records."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from peerdescent import algorithms, graphs, problems
from peerdescent.algorithms import Algorithm
from peerdescent.engine.checkpoint import Checkpoint
from peerdescent.engine.folder import RunFolder, read_experiment
from peerdescent.engine.gradients import choose_strategy
from peerdescent.engine.metrics import Metrics, Row, breaches, evaluate
from peerdescent.engine.network import Wiring
from peerdescent.engine.result import Result
from peerdescent.engine.settings import GRADIENTS, Settings
from peerdescent.engine.update import State, Update, initial_state, make_update, vectors_sent
from peerdescent.errors import DivergedError, InputError
from peerdescent.graphs import Graph
from peerdescent.problems import Problem

PIECE = 100
"""Iterations between looks at the clock."""
SECONDS_BETWEEN_CHECKPOINTS = 10.0
SAVING_SHARE = 20
"""Large states are saved less often: computing takes at least so many times as long as saving."""
Progress = Callable[[int, Row | None], None]


def train(
    problem: Problem | str,
    graph: object,
    algorithm: Algorithm | str,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    x0: torch.Tensor | None = None,
    progress: Progress | None = None,
    experiment: dict[str, Any] | None = None,
    **settings: Any,
) -> Result:
    """Train one model among the agents of a graph.

    Args:
        problem: what is minimised, or the name of a problem.
        graph: a Graph, a networkx graph or a text such as "ring:10".
        algorithm: a method, or the name of one.
        out: a folder for the records; None keeps nothing.
        resume: go on where the run in `out` stopped.
        overwrite: replace the run in `out`.
        x0: the agents' starting points, n×p or one row; None takes the problem's.
        progress: called with (iteration, row or None) as the run goes on.
        experiment: what to write down as having been run; made from the arguments unless given.
        **settings: iterations, batch_size, seed and the other fields of `Settings`.

    Raises:
        InputError: something in the input is wrong; the message says what to do.
        DivergedError: the loss is no longer finite; its `result` holds what was recorded.

    >>> from peerdescent.problems import Quadratic
    >>> problem = Quadratic(A=[[1.0]] * 3, c=[[0.0], [0.0], [1.0]])
    >>> method = algorithms.DSGPA(eta=0.1, alpha=1, beta=1, gamma=0.7, power_on="direction")
    >>> result = train(problem, "complete:3", method, iterations=2000, dtype="float64")
    >>> round(float(result.x_mean), 3)
    0.333
    """
    chosen, graph, method = _settings(settings), graphs.as_graph(graph), _algorithm(algorithm)
    problem = problems.make(problem, graph.n) if isinstance(problem, str) else problem
    if problem.agents != graph.n:
        raise InputError(f"the problem has {problem.agents} agents and the graph {graph.n}: they must be the same.")
    if out is not None and resume:
        chosen = _as_before(chosen, Path(out))
    with _threads(chosen.threads):
        run = _Run(problem, graph, method, chosen, x0)
        if out is None:
            return run.go(progress)
        with closing(RunFolder(out, resume, overwrite)) as folder:
            run.record_in(folder, experiment or describe(problem, graph, method, chosen))
            return run.go(progress)


def check(problem: Problem, graph: Graph, algorithm: Algorithm, **settings: Any) -> str:
    """Build what a run needs and run nothing: wrong input is found before anything is written.

    Returns the way in which it would compute gradients, "stacked" or "loop".
    """
    chosen = _settings(settings)
    with _threads(chosen.threads):
        return _Run(problem, graph, algorithm, chosen, None).strategy


def describe(problem: Problem, graph: Graph, algorithm: Algorithm, settings: Settings) -> dict[str, Any]:
    """A run made in Python, written down as an experiment."""
    chosen = {name: value for name, value in vars(settings).items() if value is not None}
    method = {"class": type(algorithm).__name__, **algorithm.parameters(), "transform": str(algorithm.transform)}
    edges = {"edges": [list(edge) for edge in graph.edges], "weights": list(graph.weights or ())}
    return {"problem": problem.name, "graph": graph.spec or edges, "algorithm": method, **chosen}


def seconds_between_checkpoints() -> float:
    """How long a run may go without saving its state; PEERDESCENT_CHECKPOINT_SECONDS changes it."""
    text = os.environ.get("PEERDESCENT_CHECKPOINT_SECONDS", "")
    try:
        return float(text) if text else SECONDS_BETWEEN_CHECKPOINTS
    except ValueError:
        raise InputError(f"PEERDESCENT_CHECKPOINT_SECONDS = {text!r}: expected a number of seconds.") from None


class _Run:
    """One run: everything that is fixed during it, and the state that moves."""

    def __init__(
        self, problem: Problem, graph: Graph, algorithm: Algorithm, settings: Settings, x0: torch.Tensor | None
    ) -> None:
        device, dtype = settings.place()
        self.problem, self.graph, self.algorithm, self.settings = problem.to(device, dtype), graph, algorithm, settings
        self.wiring = Wiring.build(graph, settings.laplacian, settings.mixing, algorithm)
        x = self.problem.start(settings.seed) if x0 is None else _start(x0, self.problem)
        strategy, why = settings.gradients, "as asked"
        if strategy == "auto":
            strategy, why = choose_strategy(self.problem, x, settings.batch_size)
        self.strategy, self.gradients = strategy, f"{strategy} ({why})"
        self.oracle = self.problem.oracle(
            settings.batch_size, settings.seed, settings.replacement, range(problem.agents), strategy
        )
        state = initial_state(algorithm, x.to(device, dtype))
        self.start_digest = hashlib.sha256(state["x"].cpu().numpy().tobytes()).hexdigest()
        network = self.wiring.network(dtype, device)
        self.update: Update = make_update(
            algorithm, state, network, settings.kernel, settings.threads or 1, settings.mix_every
        )
        self.bytes_per_exchange = (
            vectors_sent(algorithm) * self.problem.dimension * x.element_size() * 2 * len(graph.edges)
        )
        self.k, self.seconds, self.metrics = 0, 0.0, Metrics()
        self.notes = list(self.wiring.notes)
        self.folder: RunFolder | None = None
        self._next_save = time.monotonic() + seconds_between_checkpoints()

    @property
    def state(self) -> State:
        return self.update.state

    def record_in(self, folder: RunFolder, experiment: dict[str, Any]) -> None:
        """Keep records in a folder, and go on from what it holds."""
        experiment = {**experiment, "gradients": self.strategy}
        self.digest, known = _digest(experiment, self.start_digest), folder.experiment()
        self.folder, last = folder, folder.last()
        if last is not None:
            known = known if last.digest == self.digest and _fits(last.state, self.state) else {}
        if known is not None and _digest(known, self.start_digest) != self.digest:
            raise InputError(f"{folder.path} holds a run of another experiment: choose another --out.")
        if last is not None:
            if last.iteration > self.settings.iterations:
                raise InputError(
                    f"{folder.path} holds {last.iteration} iterations already: ask for at least as many, "
                    "or choose another --out."
                )
            for name, array in self.state.items():
                array.copy_(last.state[name])
            self.k, self.seconds = last.iteration, last.seconds
        recorded = folder.last_iteration()
        if last is None and recorded > self.settings.iterations:
            raise InputError(f"{folder.path} holds {recorded} iterations already: choose another --out.")
        folder.describe({**experiment, "iterations": self.settings.iterations})
        self.metrics = folder.rewind(self.k if last is not None else -1)

    def go(self, progress: Progress | None) -> Result:
        """Run to the end, evaluating on the way."""
        if len(self.metrics) and self.metrics[-1]["loss"] is None:
            self._diverged()  # a run that had diverged when it was stopped
        if self._due():
            self._evaluate(progress)
        for stop in self._stops():
            self._advance(stop, progress)
            self._evaluate(progress)
        if self.metrics[-1]["loss"] > self.metrics[0]["loss"]:
            self.notes.append("ended above its starting loss: try smaller steps")
        if self.folder is not None:
            self._save()
            self.folder.finish({**self._result().summary(), "diverged": False, "notes": self.notes})
        return self._result()

    def _due(self) -> bool:
        """Whether this point is still to be evaluated: the start, or where a killed run stood."""
        if not len(self.metrics):
            return True
        here = self.k % self.settings.interval == 0 or self.k == self.settings.iterations
        return here and bool(self.metrics[-1]["iteration"] < self.k)

    def _stops(self) -> Iterator[int]:
        """The iterations at which the run pauses to evaluate: multiples of the interval, and the end."""
        step, end = self.settings.interval, self.settings.iterations
        yield from range((self.k // step + 1) * step, end, step)
        if self.k < end:
            yield end

    def _advance(self, stop: int, progress: Progress | None) -> None:
        """Go on to `stop`, in pieces small enough to show progress and to lose little when killed."""
        update, oracle = self.update, self.oracle
        while self.k < stop:
            piece = range(self.k, min(stop, self.k + PIECE))
            begin = time.perf_counter()
            for k in piece:
                oracle(update.begin(k), k, update.gradient)
                update.finish(k)
            self.seconds += time.perf_counter() - begin
            self.k = piece.stop
            if progress is not None:
                progress(self.k, None)
            self._save_if_due()

    def _evaluate(self, progress: Progress | None) -> None:
        counted = {"bytes_sent": self.k // self.settings.mix_every * self.bytes_per_exchange, "seconds": self.seconds}
        row = {"iteration": self.k, **evaluate(self.problem, self.state["x"], self.settings.per_agent), **counted}
        self.metrics.rows.append(row)
        if self.folder is not None:
            self.folder.append(row)
        if progress is not None:
            progress(self.k, row)
        if not all(math.isfinite(row[key]) for key in ("loss", "consensus_error", "gradient_norm")):
            self._diverged()
        self._watch()

    def _watch(self) -> None:
        for law, far in breaches(self.algorithm, self.state).items():
            note = f"invariant broken at iteration {self.k}: {law} is off by {far:.1e} of the largest entry"
            if not any(law in known for known in self.notes):
                self.notes.append(note)
                warnings.warn(note, stacklevel=2)

    def _diverged(self) -> None:
        if self.folder is not None:
            self.folder.finish({**self._result().summary(), "diverged": True, "notes": self.notes})
        error = DivergedError(
            f"{type(self.algorithm).__name__} diverged: its numbers are no longer finite at iteration {self.k}; "
            "try smaller steps or a smaller Laplacian."
        )
        result = self._result()
        result.diverged, error.result = True, result
        raise error

    def _save_if_due(self) -> None:
        if self.folder is not None and time.monotonic() > self._next_save:
            self._save()

    def _save(self) -> None:
        assert self.folder is not None
        begin = time.monotonic()
        self.folder.save(Checkpoint(self.state, self.k, self.seconds, self.digest))
        end = time.monotonic()
        self._next_save = end + max(seconds_between_checkpoints(), SAVING_SHARE * (end - begin))

    def _result(self) -> Result:
        fixed = (self.problem, self.graph, self.algorithm, self.settings)
        return Result(self.state["x"], self.metrics, *fixed, self.update.description, self.gradients, self.notes)


def _as_before(settings: Settings, out: Path) -> Settings:
    """The choice between equal ways that the run in `out` made by measuring, for the same bits after a resume."""
    before = str(read_experiment(out).get("gradients", "auto")) if (out / "experiment.toml").is_file() else "auto"
    return replace(settings, gradients=before) if settings.gradients == "auto" and before in GRADIENTS else settings


def _digest(experiment: dict[str, Any], start: str) -> str:
    """Equal for experiments whose runs can continue each other: same description, same starting points."""
    free = ("iterations", "eval_every", "out", "name", "title", "gradients")
    fixed = {**{key: value for key, value in experiment.items() if key not in free}, "start": start}
    return hashlib.sha256(json.dumps(fixed, sort_keys=True, default=str).encode()).hexdigest()


def _fits(saved: State, state: State) -> bool:
    """Whether a saved state has the same arrays: problems made in Python share names."""
    return {name: a.shape for name, a in saved.items()} == {name: a.shape for name, a in state.items()}


def _settings(given: dict[str, Any]) -> Settings:
    known = Settings.__dataclass_fields__
    for name in given:
        if name not in known:
            raise InputError(f"train has no argument {name!r}: it has {', '.join(known)}.")
    return Settings(**given)


def _algorithm(algorithm: Algorithm | str) -> Algorithm:
    return algorithms.make(algorithm) if isinstance(algorithm, str) else algorithm


def _start(x0: torch.Tensor, problem: Problem) -> torch.Tensor:
    shape = (problem.agents, problem.dimension)
    try:
        return torch.as_tensor(x0).detach().to(problem.device, problem.dtype).expand(shape).contiguous()
    except RuntimeError:
        raise InputError(f"x0 has shape {tuple(x0.shape)}: expected {shape} or one row of it.") from None


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Torch's thread count, set for the run and put back."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
