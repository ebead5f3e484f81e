"""Compressed messages of optimizers: what their options ask for, one agent per process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from peerdescent.algorithms import Algorithm
from peerdescent.distributed.placement import Placement
from peerdescent.mixing.network import MessageFilter
from peerdescent.mixing.pair_rows import PairRows
from peerdescent.mixing.sequence_weights import Weights
from peerdescent.optim.peers import Peers
from peerdescent.training.compression import Compressed, check_compression, compression_of, slots_of, with_compressor
from peerdescent.training.directed import check_directed
from peerdescent.training.settings import Settings

OPTIONS = ("compress", "consensus_step", "message_dtype", "seed")
"""The options that decide how messages are compressed."""


def compression_from(algorithm: Algorithm, weights: Weights, options: Mapping[str, Any]) -> Compressed:
    """How messages are compressed.

    Raises:
        InputError: they cannot be.
    """
    asked = with_compressor(Settings(**{name: options[name] for name in OPTIONS if name in options}), algorithm)
    check_directed(weights.graph, asked)
    check_compression(algorithm, asked)
    return compression_of(algorithm, weights, asked)


def on_processes(
    compression: Compressed, weights: Weights, rounds_before: Callable[[int], int], peers: Peers | None
) -> tuple[Sequence[MessageFilter], PairRows | None]:
    """What happens to messages, and where the rows of pairs are, with one agent per process."""
    slots = slots_of(weights.graph, Settings())
    rank = 0 if peers is None else peers.rank
    return compression.on(weights, rounds_before, Placement(weights.n, weights.n), rank, slots)
