"""The loop: gradients, updates, evaluations, records."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State, initial_state
from peerdescent.distributed.exchange import PeerLostError
from peerdescent.distributed.faults import NO_FAULTS, Faults, inject
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import DivergedError, InputError, PeerdescentError
from peerdescent.graphs import Graph
from peerdescent.kernels.update import Update, make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Problem
from peerdescent.runs.folder import CHECKPOINTS, RunFolder
from peerdescent.runs.metrics import Row
from peerdescent.tracing.recording import vectors_sent
from peerdescent.training.checkpoints import Checkpoint, Checkpoints, Pace
from peerdescent.training.evaluation import breaches, evaluate, evaluate_agents
from peerdescent.training.fingerprint import digest, facts, fits, start_points
from peerdescent.training.gradients import choose_strategy
from peerdescent.training.recorder import Recorder, check_continues
from peerdescent.training.recovery import Recovery
from peerdescent.training.result import Result
from peerdescent.training.settings import Settings
from peerdescent.training.state_repair import in_words, readmit_agents, restore_invariants

PIECE = 100
"""Iterations between looks at the clock."""
ABOVE = "ended above its starting loss: try smaller steps"
Progress = Callable[[int, Row | None], None]


class Run:
    """One run: everything that is fixed during it, and the state that moves."""

    def __init__(
        self,
        problem: Problem,
        graph: Graph,
        algorithm: Algorithm,
        settings: Settings,
        x0: torch.Tensor | None,
        group: ProcessGroup,
        faults: Faults = NO_FAULTS,
    ) -> None:
        device, dtype = settings.place()
        if group.size > 1 and device.type != "cpu":
            raise InputError(f"device = {settings.device!r}: agents in several processes live on the cpu.")
        self.problem, self.graph, self.algorithm, self.settings = problem.to(device, dtype), graph, algorithm, settings
        self.group, self.placement, self.faults = group, Placement(graph.n, group.size), faults
        self._whole, self._block = (self.problem, graph), self.placement.block(group.rank)
        self.recovery = Recovery(faults, group, self.placement)
        if faults.on_loss == "continue":
            self.problem.subset(range(graph.n))  # refuses a problem that cannot
        x = self.problem.start(settings.seed) if x0 is None else start_points(x0, self.problem)
        self.k, self.seconds, self.recorder = 0, 0.0, Recorder()
        self.lost: tuple[int, ...] = ()
        self._bytes_until = (0, 0)
        self._strikes = faults.injected(self._block)
        self.start_digest = self._set_up(x.to(device, dtype))
        self.checkpoints: Checkpoints | None = None
        self.digest = ""
        self._bytes_before = group.traffic.bytes_sent
        self._pace = Pace()

    def _set_up(self, x: torch.Tensor) -> str:
        """Gradients and updates for the agents hosted here; returns a digest of all agents' starts."""
        settings, group, block = self.settings, self.group, self._block
        whole = initial_state(self.algorithm, x)
        start_digest = hashlib.sha256(whole["x"].cpu().numpy().tobytes()).hexdigest()
        alike = facts(self.problem, self.graph, self.algorithm, settings, start_digest)
        group.check_same_on_all_ranks({**alike, "on-loss": self.faults.on_loss})
        strategy, why = settings.gradients, "as asked"
        if strategy == "auto" and group.is_rank_zero:
            strategy, why = choose_strategy(self.problem, x, settings.batch_size)
        strategy, why = group.broadcast_object([strategy, why])
        self.strategy: str = strategy
        self.gradients = f"{strategy} ({why})"
        self.oracle = self.problem.oracle(settings.batch_size, settings.seed, settings.replacement, block, strategy)
        own = {name: array[block.start : block.stop] for name, array in whole.items()}
        self._connect(own if group.size == 1 else {name: array.clone() for name, array in own.items()})
        return start_digest

    def _connect(self, state: State) -> None:
        """Weights and updates for the agents hosted here, with this state, on the graph as it is."""
        settings, x = self.settings, state["x"]
        self.weights = MixingWeights.build(self.graph, settings.laplacian, settings.mixing, self.algorithm)
        self.recorder.note_in_the_end(*self.weights.notes)
        network = make_network(self.weights, x.dtype, x.device, settings.message_dtype, self.group, self.placement)
        self.update: Update = make_update(
            self.algorithm, state, network, settings.kernel, settings.threads or 1, settings.communication_period
        )
        # its messages have an order of their own
        self.group.check_same_on_all_ranks({"update": self.update.description.partition(" (")[0]})
        size = 2 if settings.message_dtype == "bf16" else x.element_size()
        vectors = vectors_sent(self.algorithm) * self.problem.dimension
        self.bytes_per_exchange = vectors * size * 2 * len(self.graph.edges)

    @property
    def state(self) -> State:
        """The rows of the agents hosted here."""
        return self.update.state

    def _gathered(self) -> State:
        """The state of all agents at rank 0; elsewhere the own rows."""
        return {name: self.group.gather(array, self.placement) for name, array in self.state.items()}

    def record_in(self, folder: RunFolder, experiment: dict[str, Any]) -> None:
        """Keep records in a folder, and go on from what it holds."""
        experiment = {**experiment, "gradients": self.strategy}
        self.digest, known = digest(experiment, self.start_digest), folder.experiment()
        self.group.broadcast_object(self.digest)
        self.checkpoints = Checkpoints(folder.checkpoints, self.group, self.placement)
        last = self.checkpoints.last()
        if last is not None and last.lost:
            last.state = readmit_agents(self.algorithm, self.graph, last.state, last.lost)
            self.recorder.note(f"{in_words(last.lost)} came back at iteration {last.iteration} with a neighbour's x")
        if last is not None:
            fitting = fits(last.state, self.state, (self.graph.n, self.problem.dimension))
            known = known if last.digest == self.digest and fitting else {}
        same = known is None or digest(known, self.start_digest) == self.digest
        check_continues(folder, same, last, self.settings.iterations)
        self._restore(last)
        described = {**experiment, "iterations": self.settings.iterations}
        self.recorder.keep_in(folder, described, self.k if last is not None else -1)
        if len(rows := self.recorder.metrics):  # agents may have been lost before: what was sent until then is there
            self._bytes_until = rows[-1]["iteration"], rows[-1]["bytes_sent"]

    def follow(self, out: Path) -> None:
        """Go on from where rank 0 does, and keep the own part of checkpoints in its folder's place."""
        self.digest = self.group.broadcast_object()
        self.checkpoints = Checkpoints(out / CHECKPOINTS, self.group, self.placement)
        self._restore(self.checkpoints.last())

    def _restore(self, last: Checkpoint | None) -> None:
        """Everyone's rows of rank 0's checkpoint, if it has one."""
        counted = self.group.broadcast_object(None if last is None else [last.iteration, last.seconds])
        if counted is not None:
            self.k, self.seconds = counted
            for name, array in self.state.items():
                self.group.scatter(None if last is None else last.state[name], array, self.placement)

    def go(self, progress: Progress | None) -> Result:
        """Run to the end, whoever is lost on the way, if that is wanted and can be."""
        outcome: Result | DivergedError | None = None
        lost = over = False
        while not over:
            try:
                if not lost or self._go_on_without_the_lost():
                    outcome = self._outcome(progress)
                    self._end()
                over = True
            except PeerLostError as error:
                if not self.recovery.can_go_on:
                    raise self.recovery.sentence(error, self.checkpoints) from error
                self.group.raise_failure()
                lost = True
        if isinstance(outcome, DivergedError):
            raise outcome
        if outcome is None:  # rank 0 has everything, but could not say so any more
            return self._result(self.state["x"], 0)
        return outcome

    def _outcome(self, progress: Progress | None) -> Result | DivergedError:
        try:
            return self._go(progress)
        except DivergedError as error:
            return error

    def _go(self, progress: Progress | None) -> Result:
        """Run to the end, evaluating on the way."""
        self.recovery.keep(self.k, self.state)
        if self.group.broadcast_object(self.recorder.diverged):
            self._diverged()  # a run that had diverged when it was stopped
        if self.group.broadcast_object(self._due()):
            self._evaluate(progress)
        for stop in self._stops():
            self._advance(stop, progress)
            self._evaluate(progress)
        if self.recorder.rose:
            self.recorder.note_in_the_end(ABOVE)
        if self.checkpoints is not None:
            self._save()
        result = self._gathered_result()
        self.recorder.finish(result)
        return result

    def _end(self) -> None:
        """Nobody leaves while others still hear from it; who is lost now has done its part.

        Raises:
            PeerLostError: this process has not heard that all is done. Rank 0 may have to go back, and this one too.
        """
        try:
            self.group.barrier()
        except PeerLostError:
            if self.recovery.can_go_on and not self.group.is_rank_zero:
                raise
            if self.recovery.can_go_on:
                self.recovery.adjourn()

    def _due(self) -> bool:
        """Whether this point is still to be evaluated: the start, or where a killed run stood."""
        rows, settings = self.recorder.metrics, self.settings
        here = self.k % settings.interval == 0 or self.k == settings.iterations
        return not len(rows) or (here and bool(rows[-1]["iteration"] < self.k))

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
                if k in self._strikes:
                    inject(self._strikes.pop(k))
                oracle(update.begin(k), k, update.gradient)
                update.finish(k)
            self.seconds += time.perf_counter() - begin
            self.k = piece.stop
            self.recovery.keep(self.k, self.state)
            if progress is not None:
                progress(self.k, None)
            self._save_if_due()

    def _evaluate(self, progress: Progress | None) -> None:
        own = evaluate_agents(self.problem, self.state["x"]) if self.settings.per_agent else {}
        agents, state = self.group.gather_object(own), self._gathered()
        finite = not self.group.is_rank_zero or self._record(state, agents, progress)
        if not self.group.broadcast_object(finite):
            self._diverged()

    def _record(self, state: State, agents: list[dict[str, list[Any]]], progress: Progress | None) -> bool:
        """One more row, from the rows of all agents; returns whether its numbers are finite."""
        each = {name: [value for part in agents for value in part[name]] for name in agents[0]}
        counted = {"bytes_sent": self._bytes_sent(), "seconds": self.seconds}
        row = {"iteration": self.k, **evaluate(self.problem, state["x"]), **each, **counted}
        finite = self.recorder.add(row)
        if progress is not None:
            progress(self.k, row)
        if finite:
            self._watch(state)
        return finite

    def _bytes_sent(self) -> int:
        """What the agents have sent along all edges, those of one process too."""
        (before, sent), m = self._bytes_until, self.settings.communication_period
        return int(sent + (self.k // m - before // m) * self.bytes_per_exchange)

    def _watch(self, state: State) -> None:
        for law, far in breaches(self.algorithm, state).items():
            note = f"invariant broken at iteration {self.k}: {law} is off by {far:.1e} of the largest entry"
            if not any(law in known for known in self.recorder.notes):
                self.recorder.note(note)

    def _diverged(self) -> None:
        result = self._gathered_result()
        result.diverged = True
        self.recorder.finish(result)
        error = DivergedError(
            f"{type(self.algorithm).__name__} diverged: its numbers are no longer finite at iteration {self.k}; "
            "try smaller steps or a smaller Laplacian."
        )
        error.result = result
        raise error

    def _save_if_due(self) -> None:
        if self.checkpoints is not None and self.group.broadcast_object(self._pace.due):
            self._save()

    def _save(self) -> None:
        assert self.checkpoints is not None
        with self._pace.saving():
            self.checkpoints.save(Checkpoint(self.state, self.k, self.seconds, self.digest, self.lost))

    def _gathered_result(self) -> Result:
        """What rank 0 has of all agents, the others of their own; all of them call this together."""
        x = self.group.gather(self.state["x"], self.placement)
        return self._result(x, sum(self.group.gather_object(self.group.traffic.bytes_sent - self._bytes_before)))

    def _result(self, x: torch.Tensor, sent: int) -> Result:
        return Result(
            x,
            self.recorder.metrics,
            self.problem,
            self.graph,
            self.algorithm,
            self.settings,
            self.update.description,
            self.gradients,
            self.recorder.notes,
            processes=self.group.size,
            interprocess_bytes=sent,
            lost=self.lost,
        )

    def _go_on_without_the_lost(self) -> bool:
        """Meet again; those who are left get a problem and a graph of their own, and the method's laws are restored.

        Returns whether there is anything left to do.
        """
        problem, graph = self._whole
        left = self.recovery.regroup()
        if left is None:
            return False
        self.k, self.lost, self.placement = left.k, left.lost, left.placement
        if self.checkpoints is not None:
            self.checkpoints.placement = left.placement
        self.recorder.go_back(self.k)
        self._bytes_until = self.k, self._bytes_sent()
        try:
            self.graph = graph.subset(left.agents)
        except InputError as error:
            self._fall_apart(left.state, error)
        self.problem = problem.subset(left.agents)
        self._connect({name: array.clone() for name, array in left.state.items()})
        whole = self._gathered()
        restored = restore_invariants(self.algorithm, whole) if self.group.is_rank_zero else whole
        for name, array in self.state.items():
            self.group.scatter(restored[name] if self.group.is_rank_zero else None, array, self.placement)
        self.recorder.note(left.note)
        self.recovery.confirm()
        return True

    def _fall_apart(self, state: State, error: InputError) -> NoReturn:
        """Stop with a checkpoint: of all agents, if there is one of this iteration, else of those who are left."""
        way_back = "there is no checkpoint"
        if self.checkpoints is not None:
            way_back = "--resume brings them back from the checkpoint"
            if not self.checkpoints.has(self.k):
                self.checkpoints.save(Checkpoint(state, self.k, self.seconds, self.digest, self.lost))
                way_back = "--resume brings them back with a neighbour's x"
        raise PeerdescentError(
            f"without {in_words(self.lost)} the graph falls apart, and the run has stopped at iteration {self.k}; "
            f"{way_back}."
        ) from error
