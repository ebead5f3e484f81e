"""Compressed messages in a run: what the settings ask for, whether the method can have it, and the consensus step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.distributed.placement import Placement
from peerdescent.errors import InputError
from peerdescent.graphs import AnyGraph
from peerdescent.mixing.compression import Compression
from peerdescent.mixing.compressor import Compressor
from peerdescent.mixing.compressors import parse
from peerdescent.mixing.consensus_step import default_consensus_step
from peerdescent.mixing.network import MessageFilter
from peerdescent.mixing.pair_copies import PairCompression
from peerdescent.mixing.pair_rows import PairRows, Slots
from peerdescent.mixing.rounds import Rounds
from peerdescent.mixing.sequence_weights import SAMPLED_ROUNDS, Weights
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.recursion import Equation
from peerdescent.training.settings import UNCOMPRESSED, Settings

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Compressed:
    """How messages are compressed.

    Args:
        compressor: Q; None if they are sent as they are.
        seed: of random compressors.
        step: the consensus step c.
        notes: which c was chosen, and why.
    """

    compressor: Compressor | None
    seed: int
    step: float
    notes: tuple[str, ...] = ()

    def on(
        self,
        rounds: Rounds,
        rounds_before: Callable[[int], int],
        placement: Placement,
        process: int,
        slots: Slots | None,
    ) -> tuple[Sequence[MessageFilter], PairRows | None]:
        """What happens to messages in these rounds, and where the rows of pairs are, if each pair has its own copy.

        Args:
            rounds: who gets whose message.
            rounds_before: the number of exchanges before an iteration.
            placement: which process hosts which agents.
            process: this one.
            slots: where agents keep the copies of pairs; None for one public copy of what an agent sends.
        """
        if self.compressor is None or (slots is not None and not len(rounds.pairs)):
            return (), None
        if slots is None:
            return (Compression(self.compressor, self.seed),), None
        rows = PairRows(rounds.pairs, placement, process, slots)
        return (PairCompression(self.compressor, self.seed, rows, rounds, rounds_before),), rows


def with_compressor(settings: S, *algorithms: Algorithm) -> S:
    """The settings with the compressor of the methods where none is given; unchanged if they have different ones.

    >>> from peerdescent.algorithms import make
    >>> with_compressor(Settings(), make("choco-sgd")).compress, with_compressor(Settings(), make("d2")).compress
    ('topk:0.1', 'none')
    >>> with_compressor(Settings(compress="none"), make("choco-sgd")).compress
    'none'
    """
    own = {algorithm.compressor for algorithm in algorithms}
    if settings.compress is not None or len(own) != 1:
        return settings
    try:
        return settings.replace(compress=own.pop())
    except InputError as error:
        name, default = type(algorithms[0]).__name__, algorithms[0].compressor
        raise InputError(f"{name} has compress = {default!r} unless it is given: {error}") from None


def slots_of(graph: AnyGraph, settings: Settings, agents: Sequence[int] | None = None) -> Slots | None:
    """Where copies of pairs are kept; None if every neighbour gets every message, so that one public copy is enough.

    Args:
        graph: of all agents at the start.
        settings: of the run.
        agents: those that are there now, by their numbers at the start; all by default.

    >>> from peerdescent.graphs import parse as graph
    >>> slots_of(graph("ring:4"), Settings()) is None, slots_of(graph("ring:4"), Settings(drop="0.1")).width
    (True, 2)
    """
    if graph.period == 1 and settings.drop is None and settings.inactive is None:
        return None
    return Slots(graph.union, range(graph.n) if agents is None else agents)


def check_compression(algorithm: Algorithm, settings: Settings) -> None:
    """Refuse to compress messages that are no iterates.

    Raises:
        InputError: with the reason.
    """
    if settings.compresses and algorithm.not_compressible:
        raise InputError(
            f"compress = {settings.compress!r} does not suit {type(algorithm).__name__}: {algorithm.not_compressible}; "
            "use gradient tracking (d-sgt-1) or DSGPA instead."
        )


def message_bytes(settings: Settings, dimension: int) -> int:
    """The size of one message: p numbers in the precision of messages, compressed.

    >>> message_bytes(Settings(), 100), message_bytes(Settings(message_dtype="bf16"), 100)
    (400, 200)
    """
    exact = torch.float64 if settings.dtype == "float64" else torch.float32
    dtype = torch.bfloat16 if settings.message_dtype == "bf16" else exact
    return parse(settings.compress or UNCOMPRESSED).row_bytes(dimension, dtype)


def copies_kept(graph: AnyGraph, settings: Settings) -> int:
    """The n×p arrays that copies take, for each vector that is sent, rounded down.

    >>> from peerdescent.graphs import parse as graph
    >>> [copies_kept(graph(text), Settings(compress="sign")) for text in ("ring:8", "onepeer-exp:8")]
    [1, 6]
    """
    if not settings.compresses:
        return 0
    slots = slots_of(graph, settings)
    if slots is None:
        return 1
    return slots.width + int(graph.union.degrees.sum()) // graph.n  # and the difference of both copies of each pair


def compression_of(algorithm: Algorithm, weights: Weights, settings: Settings) -> Compressed:
    """How the messages of a run are compressed."""
    c = consensus_step(algorithm, weights, settings)
    if not settings.compresses:
        return Compressed(None, settings.seed, c)
    chosen = settings.consensus_step is None and c != 1
    notes = (f"consensus_step = {c:g}, by rule for {settings.compress} on this graph; theory gives no exact limit.",)
    return Compressed(parse(settings.compress), settings.seed, c, notes if chosen else ())


def consensus_step(algorithm: Algorithm, weights: Weights, settings: Settings) -> float:
    """The consensus step c: as given, or by the rule of `default_consensus_step`.

    >>> from peerdescent.algorithms import make
    >>> from peerdescent.graphs import parse as graph
    >>> method = make("d-sgd-1")
    >>> weights = MixingWeights.build(graph("ring:10"), "metropolis", "metropolis", method)
    >>> consensus_step(method, weights, Settings(compress="topk:0.1")), consensus_step(method, weights, Settings())
    (0.21, 1.0)
    """
    if settings.consensus_step is not None:
        return settings.consensus_step
    if not settings.compresses:
        return 1.0
    return default_consensus_step(parse(settings.compress), strength(algorithm, weights))


def strength(algorithm: Algorithm, weights: Weights) -> float:
    """By how much one exchange moves x in the mode that it moves most: ρ(I−W), or ηαρ(L) in the letters of DSGPA.

    Where the graph changes, ρ is the largest of any round of a period, or of the first rounds of a random sequence,
    by Gershgorin's bound: twice the largest diagonal entry, which is exact where every agent has one neighbour.
    """
    if isinstance(weights, MixingWeights):
        rho, rho_w = weights.spectrum.rho, 1 - weights.spectrum.lambda_min
    else:
        rounds = [weights.at(r) for r in range(weights.period or SAMPLED_ROUNDS)]
        rho, rho_w = (
            2 * max(float(getattr(each, name).diagonal().max()) for each in rounds)
            for name in ("laplacian", "disagreement")
        )
    try:
        equation = Equation(algorithm)
        if equation.matrix == "L":
            return 1 - float(equation.step(rho, 0.0).matrix[0, 0, 0])
    except InputError:  # not linear; such methods use W
        pass
    return rho_w
