"""What a run on a directed graph cannot have."""

from __future__ import annotations

from peerdescent.errors import InputError
from peerdescent.graphs import AnyGraph, DirectedGraph
from peerdescent.training.settings import Settings


def check_directed(graph: AnyGraph, settings: Settings) -> None:
    """Refuse what would break push-sum: its weights follow from messages that all arrive, in time and as they are.

    >>> from peerdescent.graphs import parse
    >>> check_directed(parse("directed-ring:4"), Settings(drop="0.1"))
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: drop = '0.1' and a directed graph exclude each other: push-sum weights follow from \
messages that all arrive, in time and as they were sent; leave it out, or use an undirected graph.
    """
    if not isinstance(graph, DirectedGraph):
        return
    changed = {
        "compress": settings.compresses,
        "consensus_step": settings.consensus_step not in (None, 1.0),
        "message_dtype": settings.message_dtype != "same",
        "drop": settings.drop is not None,
        "inactive": settings.inactive is not None,
        "delay": bool(settings.delay),
        "message_noise": bool(settings.message_noise),
    }
    for name, given in changed.items():
        if given:
            raise InputError(
                f"{name} = {getattr(settings, name)!r} and a directed graph exclude each other: push-sum weights "
                "follow from messages that all arrive, in time and as they were sent; leave it out, or use an "
                "undirected graph."
            )
