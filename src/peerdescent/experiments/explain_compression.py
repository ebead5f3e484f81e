"""What is known of the consensus step of compressed messages before a run: what is proved, and what is a rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from peerdescent.errors import InputError
from peerdescent.mixing.compressor import Compressor, Origin
from peerdescent.mixing.compressors import parse
from peerdescent.mixing.consensus_step import MANY
from peerdescent.theory.compression import bounds, flat_run
from peerdescent.theory.recursion import Numbers
from peerdescent.training.compression import consensus_step, slots_of
from peerdescent.training.plan import Plan

MEASURED_UP_TO = 200
"""Agents up to which a flat run takes less than seconds."""


@dataclass(frozen=True)
class CompressionFacts:
    """The consensus step of a run with compressed messages."""

    compress: str
    consensus_step: float
    by_rule: bool
    """Whether the rule chose it: a heuristic, for vectors with normal entries."""
    delta: float
    """δ that the compressor guarantees for every vector."""
    typical_delta: float
    """δ of a vector with normal entries, by which the rule chooses."""
    proved_below: float | None
    """The consensus step below which a proof covers the method; None if there is none."""
    theory: str
    """What is proved, or that nothing is."""
    measured: str
    """How a short run on flat costs ended, where nothing is proved; empty if there was none."""

    def __str__(self) -> str:
        rule = f"by a rule for typical vectors (δ = {self.typical_delta:.2g}), which is a heuristic"
        chosen = f"c = {self.consensus_step:g}, {rule if self.by_rule else 'as given'}"
        proof = f"for any vector (δ = {self.delta:.2g}): {self.theory}"
        return "; ".join(filter(None, [chosen, proof, self.measured]))


def compression_facts(plan: Plan) -> CompressionFacts | None:
    """What is known of a plan's consensus step; None if its messages are not compressed.

    >>> from peerdescent.training.train import plan_of
    >>> facts = compression_facts(plan_of("quadratic", "ring:10", "d-sgd-1", compress="topk:0.1", consensus_step=0.03))
    >>> facts.theory
    'consensus with c < 0.0395 is proved (small gain; CHOCO: 0.0001704); larger c usually work too'
    """
    settings = plan.settings
    if not settings.compresses:
        return None
    Q, c = parse(settings.compress), consensus_step(plan.algorithm, plan.weights, settings)
    delta, measured = Q.delta(plan.dimension), ""
    if slots_of(plan.graph, settings) is not None:
        limit, text = None, "nothing is proved where each pair of agents has its own copy"
    else:
        limit, text = bounds(plan.algorithm, delta, plan.weights)
        if settings.delay:
            limit, text = None, f"{text}, without the delay of messages"
        if (limit is None or c > limit) and plan.graph.n <= MEASURED_UP_TO and not settings.delay:
            measured = _measured(plan, Q, c)
    by_rule = settings.consensus_step is None
    return CompressionFacts(Q.text, c, by_rule, delta, Q.typical_delta(MANY), limit, text, measured)


def _measured(plan: Plan, compressor: Compressor, c: float) -> str:
    """How a short run on flat costs ends; empty for a step that cannot be recorded."""

    def quantize(rows: Numbers, round: int, message: int) -> Numbers:
        origin, values = Origin(plan.settings.seed, range(len(rows)), round, message), torch.from_numpy(rows)
        decoded = compressor.decode(compressor.encode(values, origin), rows.shape[1], values.dtype, origin)
        return np.asarray(decoded.numpy())

    try:
        return str(flat_run(plan.algorithm, plan.weights, quantize, c))
    except InputError:
        return ""
