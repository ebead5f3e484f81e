"""Compressed messages in a run: what the settings ask for, whether the method can have it, and the consensus step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.graphs import AnyGraph
from peerdescent.mixing.compression import Compression
from peerdescent.mixing.compressors import parse
from peerdescent.mixing.consensus_step import default_consensus_step
from peerdescent.mixing.network import MessageFilter
from peerdescent.mixing.sequence_weights import Weights
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.recursion import Equation
from peerdescent.training.settings import UNCOMPRESSED, Settings

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Compressed:
    """How messages are compressed.

    Args:
        filters: what happens to them; nothing if they are sent as they are.
        step: the consensus step c.
        notes: which c was chosen, and why.
    """

    filters: tuple[MessageFilter, ...]
    step: float
    notes: tuple[str, ...] = ()


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


def check_compression(algorithm: Algorithm, graph: AnyGraph, settings: Settings) -> None:
    """Refuse to compress messages that cannot be.

    Raises:
        InputError: the method's messages are no iterates, or not every message arrives at every neighbour.
    """
    if not settings.compresses:
        return
    if algorithm.not_compressible:
        raise InputError(
            f"compress = {settings.compress!r} does not suit {type(algorithm).__name__}: {algorithm.not_compressible}; "
            "use gradient tracking (d-sgt-1) or DSGPA instead."
        )
    if graph.period != 1:
        raise InputError(
            f"compress = {settings.compress!r} and a graph that changes over time exclude each other: a public copy "
            "must receive every update, so use one graph or no compression."
        )


def message_bytes(settings: Settings, dimension: int) -> int:
    """The size of one message: p numbers in the precision of messages, compressed.

    >>> message_bytes(Settings(), 100), message_bytes(Settings(message_dtype="bf16"), 100)
    (400, 200)
    """
    exact = torch.float64 if settings.dtype == "float64" else torch.float32
    dtype = torch.bfloat16 if settings.message_dtype == "bf16" else exact
    return parse(settings.compress or UNCOMPRESSED).row_bytes(dimension, dtype)


def compression_of(algorithm: Algorithm, weights: Weights, settings: Settings) -> Compressed:
    """How the messages of a run are compressed."""
    c = consensus_step(algorithm, weights, settings)
    if not settings.compresses:
        return Compressed((), c)
    chosen = settings.consensus_step is None and c != 1
    notes = (f"consensus_step = {c:g}, by rule for {settings.compress} on this graph; theory gives no exact limit.",)
    return Compressed((Compression(parse(settings.compress), settings.seed),), c, notes if chosen else ())


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
    return default_consensus_step(parse(settings.compress), _strength(algorithm, weights))


def _strength(algorithm: Algorithm, weights: Weights) -> float:
    """By how much one exchange moves x in the mode that it moves most: ρ(I−W), or ηαρ(L) in the letters of DSGPA."""
    assert isinstance(weights, MixingWeights)  # other graphs are refused
    ends = weights.spectrum
    try:
        equation = Equation(algorithm)
        if equation.matrix == "L":
            return 1 - float(equation.step(ends.rho, 0.0).matrix[0, 0, 0])
    except InputError:  # not linear; such methods use W
        pass
    return 1 - ends.lambda_min
