"""The loop: gradients and updates, evaluations in between, callbacks all along."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from peerdescent._util.signals import deferred
from peerdescent._util.validation import check_for_machine
from peerdescent._version import __version__
from peerdescent.algorithms.state import State, initial_state
from peerdescent.distributed.faults import NO_FAULTS, Faults, inject
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import DivergedError, PeerLostError
from peerdescent.kernels.update import make_update
from peerdescent.mixing.global_average import GlobalAverage
from peerdescent.mixing.sequence_weights import Weights
from peerdescent.problems.base import Buffers, buffers_of
from peerdescent.runs.fingerprint import identity
from peerdescent.runs.metrics import diverged
from peerdescent.training.added_updates import EMA, check_additions, with_additions
from peerdescent.training.buffers import at_mean, digest_of_arrays, evaluate_each, joined_state
from peerdescent.training.callbacks import Callback, CallbackList, may_add_columns
from peerdescent.training.checkpoints import Checkpoints, seconds_between
from peerdescent.training.devices import process_device, synchronize
from peerdescent.training.early_stopping import check_monitor, reason_to_stop
from peerdescent.training.evaluation import columns, evaluate, evaluate_agents
from peerdescent.training.finite import divergence
from peerdescent.training.gradient_processing import processed
from peerdescent.training.gradients import choose_strategy, make_oracle
from peerdescent.training.impaired import check_impairments, with_inactive
from peerdescent.training.invariants import new_breaches, recorded_drift
from peerdescent.training.iteration import cost_notes, iterate
from peerdescent.training.networks import network_of
from peerdescent.training.plan import Plan
from peerdescent.training.recorder import Recorder
from peerdescent.training.recovery import Recovery, continue_without_lost
from peerdescent.training.result import Result
from peerdescent.training.stopping import Stopping

CHUNK = 100
"""Iterations between looks at the clock."""
ROSE = "ended above its starting loss: try smaller steps"


class Run:
    """One run, as this process sees it: what the plan fixes, and the state that moves.

    Args:
        plan: what is run.
        group: the processes that share the agents.
        faults: what happens when a process is lost, and which faults to inject.
        callbacks: called in rank 0 as the run goes on.
    """

    def __init__(
        self, plan: Plan, group: ProcessGroup, faults: Faults = NO_FAULTS, callbacks: Sequence[Callback] = ()
    ) -> None:
        check_for_machine("threads", plan.settings.threads or 1)
        seconds_between()  # wrong input is found before anything is written
        device, dtype = plan.settings.place()
        device = process_device(device, group)
        check_additions(plan.algorithm, plan.settings)
        self.plan, self.settings, self.group, self.faults = plan, plan.settings, group, faults
        self.problem, self.graph, self.algorithm = plan.problem.to(device, dtype), plan.graph, plan.algorithm
        self.all_agents = self.problem, self.graph
        """The problem and graph of all agents, whoever is lost later."""
        if group.is_rank_zero and not any(may_add_columns(callback) for callback in callbacks):
            check_monitor(plan.settings, columns(self.problem, plan.metrics, plan.settings.ema is not None))
        self.placement = Placement(self.graph.n, group.size)
        self.recovery = Recovery(faults, group, self.placement)
        if faults.on_loss == "continue":
            self.problem.subset(range(self.graph.n))  # refuses a problem that cannot
        self.k, self.seconds, self.evaluation_seconds = 0, 0.0, 0.0
        self.stopping = Stopping(group.size)
        self.lost: tuple[int, ...] = ()
        self.stopped_early = False
        self.recorder = Recorder()
        self.checkpoints: Checkpoints | None = None
        self.callbacks = CallbackList([*callbacks, self.recorder] if group.is_rank_zero else [])
        self.bytes_before = (0, 0)
        """An iteration and the bytes sent until then, where counting starts anew."""
        self._injected = faults.injected(self.placement.block(group.rank))
        self._traffic_before = group.traffic.bytes_sent
        notes = check_impairments(plan.algorithm, plan.settings, plan.name)
        for note in notes if group.is_rank_zero else ():
            self.recorder.note(note)
        self.start_digest = self._set_up(plan.start(self.problem).to(device, dtype))

    def _set_up(self, x: torch.Tensor) -> str:
        """Gradients and updates for the agents hosted here; returns a digest of all agents' starting points."""
        settings, group, block = self.settings, self.group, self.placement.block(self.group.rank)
        state = initial_state(self.algorithm, x)
        digest = digest_of_arrays([state["x"], *self.problem.initial_buffers(settings.seed).values()])
        group.check_same_on_all_ranks({**self._facts(), "starting points": digest[:12]})
        chosen = group.broadcast_object(choose_strategy(self.problem, x, settings) if group.is_rank_zero else None)
        oracle, self.strategy, reason = make_oracle(self.problem, settings, block, chosen, group)
        self.gradients = f"{self.strategy} ({reason})"
        self.buffers: Buffers = buffers_of(oracle)
        """What the forward passes of the agents hosted here change, one row per agent, live; most models have none."""
        if settings.recalibrates:
            self.problem.recalibrated(x[0], settings.seed)  # refuses a problem that cannot
        self.oracle = processed(oracle, settings, [self.problem.number(agent) for agent in block])
        own = {name: array[block.start : block.stop] for name, array in state.items()}
        if group.size > 1:  # not views of all agents' rows
            own = {name: array.clone() for name, array in own.items()}
        self.connect(own, self.plan.weights)
        return digest

    def _facts(self) -> dict[str, str]:
        """What all processes of a run must have in common, by name."""
        known = {**identity(self.plan.description), "dimension": str(self.problem.dimension)}
        known |= {"on-loss": self.faults.on_loss, "patience": str(self.settings.patience)}
        return {"version": __version__, **known}

    def connect(self, state: State, weights: Weights) -> None:
        """Weights and updates for the agents hosted here, with this state, on the graph as it is."""
        settings, x, average = self.settings, state["x"], state.pop(EMA, None)
        self.weights = weights
        made = network_of(self.plan, weights, x, self.lost, self.group, self.placement)
        network, self.rounds = made.network, made.rounds
        self.recorder.note_at_end(*made.notes, *cost_notes(self.algorithm))
        how = settings.kernel, settings.threads or 1, settings.periods
        self.merged, self._average = State(), GlobalAverage(self.algorithm, network)
        update = with_additions(make_update(self.algorithm, state, network, *how), settings, average, self._average)
        self.update = with_inactive(update, self.rounds, self.placement.block(self.group.rank), self.buffers)
        # Both kernels send the same messages, but not in the same order.
        self.group.check_same_on_all_ranks({"kernel": self.update.description.partition(" (")[0]})

    @property
    def state(self) -> State:
        """x and what the method keeps besides, the rows of the agents hosted here."""
        return self.update.state

    @property
    def shown_state(self) -> State:
        """The state that is evaluated: at the end with the final average, which a longer run would not have."""
        return {**self.state, **self.merged}

    def kept_state(self) -> State:
        """All that the agents hosted here need to go on: the state and their buffers."""
        return joined_state(self.state, self.buffers)

    def gathered_state(self) -> State:
        """The state of all agents in rank 0, elsewhere of the agents hosted there; all processes call this together."""
        return {name: self.group.gather(array, self.placement) for name, array in self.shown_state.items()}

    def gathered_buffers(self) -> Buffers:
        """The buffers of all agents, likewise."""
        return {name: self.group.gather(rows, self.placement) for name, rows in self.buffers.items()}

    def run(self) -> Result:
        """Run to the end, also without processes that are lost on the way if that is wanted and possible.

        Raises:
            StoppedError: the user has stopped the run, which has saved its state.
        """
        if self.checkpoints is None:  # there is nothing to save: Ctrl-C ends it at once
            return self._run_to_the_end()
        with deferred() as self.stopping.request:
            return self._run_to_the_end()

    def _run_to_the_end(self) -> Result:
        outcome: Result | DivergedError | None = None
        lost = over = False
        while not over:
            try:
                if not lost or continue_without_lost(self):
                    outcome = self._outcome()
                    self._finish_together()
                over = True
            except PeerLostError as error:
                if not self.recovery.can_go_on:
                    raise self.recovery.stop_error(error, self.checkpoints) from error
                self.group.raise_failure()
                lost = True
        if isinstance(outcome, DivergedError):
            raise outcome
        # Without an outcome rank 0 has everything, but could not say so any more.
        return outcome or self._result(self.shown_state["x"], self.buffers, 0)

    def _outcome(self) -> Result | DivergedError:
        try:
            return self._run()
        except DivergedError as error:
            return error

    def _run(self) -> Result:
        self.recovery.keep(self.k, self.kept_state())
        self.callbacks.on_start(self)
        if self.group.broadcast_object(self.recorder.diverged):
            self._diverge()  # it had diverged when it was stopped
        if self.group.broadcast_object(self._evaluation_due()):
            self._evaluate()
        for stop in self._stops():
            if self._stops_early():
                break
            self._advance(stop)
            self._evaluate()
        self._merge()
        if self.recorder.rose:
            self.recorder.note_at_end(ROSE)
        if self.checkpoints is not None:
            self.checkpoints.save_run(self)
        result = self._gathered_result()
        self.callbacks.on_end(self, result)
        return result

    def _finish_together(self) -> None:
        """No process leaves while others still expect something of it; one that is lost now has done its part.

        Raises:
            PeerLostError: this process does not know that all is done. Rank 0 may have to go back, and this one too.
        """
        try:
            self.group.barrier()
        except PeerLostError:
            if self.recovery.can_go_on and not self.group.is_rank_zero:
                raise
            if self.recovery.can_go_on:
                self.recovery.announce_completion()

    def _evaluation_due(self) -> bool:
        """Whether this iteration is still to be evaluated: the start, or where a killed run stopped."""
        rows, settings = self.recorder.metrics, self.settings
        here = self.k % settings.interval == 0 or self.k == settings.iterations
        return not len(rows) or (here and bool(rows[-1]["iteration"] < self.k))

    def _stops(self) -> Iterator[int]:
        """The iterations at which the run pauses to evaluate: multiples of the interval, and the end."""
        step, end = self.settings.interval, self.settings.iterations
        yield from range((self.k // step + 1) * step, end, step)
        if self.k < end:
            yield end

    def _stops_early(self) -> bool:
        """Whether what is monitored no longer improves; all processes do as rank 0 says."""
        if self.settings.patience is not None:
            rows = self.recorder.metrics
            reason = self.group.broadcast_object(
                reason_to_stop(rows, self.settings) if self.group.is_rank_zero else None
            )
            self.stopped_early = bool(reason)
            self.recorder.note_at_end(*[reason] * self.stopped_early)
        return self.stopped_early

    def _advance(self, stop: int) -> None:
        """Go on to `stop`, in chunks small enough to show progress and to lose little when killed."""
        update, oracle, every_iteration = self.update, self.oracle, self.callbacks.wants_iterations
        stop_due = (lambda k: False) if self.checkpoints is None else self.stopping.due
        while self.k < stop:
            chunk = range(self.k, min(stop, self.k + CHUNK))
            begin = time.perf_counter()
            for k in chunk:
                if k in self._injected:
                    inject(self._injected.pop(k))
                iterate(update, oracle, self.buffers, k)
                if every_iteration:
                    self.k = k + 1
                    self.callbacks.on_iteration(self)
                if stop_due(k + 1) and k + 1 < self.settings.iterations:
                    self.k, now = k + 1, time.perf_counter()
                    self.seconds, begin = self.seconds + now - begin, now
                    self.stopping.stop_if_requested(self)
            synchronize(self.state["x"].device)
            self.seconds += time.perf_counter() - begin
            self.k = chunk.stop
            self.recovery.keep(self.k, self.kept_state())
            self.callbacks.on_progress(self)
            if self.checkpoints is not None:
                self.checkpoints.save_if_due(self)

    def _merge(self) -> None:
        """The final average, unless the last iteration ended with one."""
        every = self.settings.average_every
        if self.settings.final_average and not self.merged and not (every and self.k and self.k % every == 0):
            self.merged = {name: rows.clone() for name, rows in self._average.of(self.state).items()}

    def _evaluate(self) -> None:
        if self.k == self.settings.iterations:
            self._merge()
        each = self.settings.evaluates_agents(self.all_agents[1].n)  # whoever is lost, all rows have the same columns
        begin, metrics = time.perf_counter(), self.plan.metrics
        own = evaluate_each(evaluate_agents, self.problem, self.shown_state["x"], self.buffers, metrics) if each else {}
        agents, state, buffers = self.group.gather_object(own), self.gathered_state(), self.gathered_buffers()
        finite = not self.group.is_rank_zero or self._record(state, buffers, agents, begin)
        if not self.group.broadcast_object(finite):
            self._diverge()

    def _record(self, state: State, buffers: Buffers, agents: list[dict[str, list[Any]]], begin: float) -> bool:
        """One more row, from the rows of all agents; returns whether its numbers are finite."""
        each = {name: [value for part in agents for value in part[name]] for name in agents[0]}
        at = partial(at_mean, self.problem, buffers=buffers, settings=self.settings)
        mean = evaluate(at, state, self.plan.metrics)
        self.evaluation_seconds += time.perf_counter() - begin
        counted = {"bytes_sent": self.bytes_sent(), "seconds": self.seconds}
        row = {"iteration": self.k, **mean, **each, **counted, "evaluation_seconds": self.evaluation_seconds}
        row |= recorded_drift(self.algorithm, state) if self.settings.impaired else {}
        self.callbacks.on_evaluation(self, row)
        if diverged(row):
            return False
        for breach in new_breaches(self.algorithm, state, self.k, self.recorder.metrics, self.recorder.notes):
            self.recorder.note(breach)
        return True

    def bytes_sent(self) -> int:
        """What the agents have sent along all edges, within a process too."""
        (before, sent), volume = self.bytes_before, self.plan.volume(self.rounds)
        self.bytes_before = self.k, sent + volume.between(before, self.k)
        return int(self.bytes_before[1] + volume.per_average * bool(self.merged))

    def _diverge(self) -> None:
        result = self._gathered_result()
        result.diverged = True
        self.callbacks.on_end(self, result)
        error = divergence(self.algorithm, self.problem, self.k)
        error.result = result
        raise error

    def _gathered_result(self) -> Result:
        """The points of all agents in rank 0, elsewhere of those hosted there; all processes call this together."""
        x, buffers = self.group.gather(self.shown_state["x"], self.placement), self.gathered_buffers()
        average = self.group.gather(self.state[EMA], self.placement).mean(dim=0) if EMA in self.state else None
        sent = sum(self.group.gather_object(self.group.traffic.bytes_sent - self._traffic_before))
        return replace(self._result(x, buffers, sent), x_ema=average)

    def _result(self, x: torch.Tensor, buffers: Buffers, sent: int) -> Result:
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
            stopped_early=self.stopped_early,
            weights=self.weights,
            buffers=buffers,
        )
