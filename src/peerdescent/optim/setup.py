"""What an optimizer is built from, checked: its options, its parameters, and that all processes are given the same."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import torch
import torch.distributed as dist

from peerdescent._util.schema import checked, settings_of
from peerdescent.errors import InputError
from peerdescent.graphs import Graph
from peerdescent.optim.peers import Peers, default_peers
from peerdescent.training.settings import Settings

STARTS = ("independent", "shared")


class Options(TypedDict, total=False):
    """The options of every optimizer, besides its method's hyperparameters.

    laplacian, mixing: the kinds of L and W, as in experiments ("metropolis").
    communication_period: steps from one exchange to the next (1).
    message_dtype: "same", or "bf16" for half the bytes ("same").
    start: "independent" keeps each agent's parameters, "shared" broadcasts those of rank 0, frozen ones too
        ("independent").
    kernel: "auto", "compiled" or "plain" ("auto").
    """

    laplacian: str
    mixing: str
    communication_period: int
    message_dtype: str
    start: str
    kernel: str


def check_options(options: Options) -> None:
    """Check names and values.

    Raises:
        InputError: one is not as it should be.
    """
    settings = {setting.name: setting for setting in settings_of(Settings)}
    for name, value in options.items():
        if name not in Options.__annotations__:
            raise InputError(f"an optimizer has no option {name!r}: it has {', '.join(Options.__annotations__)}.")
        if name in settings:
            checked(settings[name], value)
    if options.get("start", STARTS[0]) not in STARTS:
        raise InputError(f"start = {options['start']!r}: expected one of {', '.join(STARTS)}.")


def named_parameters(number: int, group: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The parameters of a group by name, or by their place if they were given without names."""
    where = f" of parameter group {number}" if number else ""
    names = group.get("param_names") or [str(place) for place in range(len(group["params"]))]
    return {f"parameter {name}{where}": p for name, p in zip(names, group["params"], strict=True)}


def trained_parameters(number: int, group: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The parameters of a group that require a gradient.

    Raises:
        InputError: they do not have one floating-point dtype, or are not on the CPU.
    """
    trained = {name: p for name, p in named_parameters(number, group).items() if p.requires_grad}
    kinds = {(str(p.dtype), p.device.type) for p in trained.values()}
    if len(kinds) > 1 or any(p.device.type != "cpu" or not p.is_floating_point() for p in trained.values()):
        found = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise InputError(f"a parameter group holds {found}: expected one floating-point dtype, on the CPU.")
    return trained


def facts(
    kind: Mapping[str, str], graph: Graph, trained: Sequence[dict[str, torch.Tensor]], options: Mapping[str, object]
) -> dict[str, str]:
    """What all processes must have in common, by name."""
    edges = zlib.crc32(repr(sorted(tuple(map(int, edge)) for edge in graph.edges)).encode())
    known = {**kind, "graph": f"{graph.n} agents, edges {edges:08x}"}
    for number, parameters in enumerate(trained):
        tensors = list(parameters.values())
        size = f"{len(tensors)} tensors with {sum(t.numel() for t in tensors)} values"
        shapes = zlib.crc32(repr([(tuple(t.shape), str(t.dtype)) for t in tensors]).encode())
        known[f"trainable parameters of group {number}"] = f"{size}, shapes {shapes:08x}"
    return known | {f"option {name}": str(value) for name, value in options.items()}


def peers_of(graph: Graph) -> Peers | None:
    """The processes of torch.distributed; None for a single agent."""
    started = dist.is_available() and dist.is_initialized()
    size = dist.get_world_size() if started else 1
    if size != graph.n:
        hint = "" if started else ": call torch.distributed.init_process_group first"
        raise InputError(
            f"the graph has {graph.n} agents and there {'is 1 process' if size == 1 else f'are {size} processes'}; "
            f"an optimizer needs one process per agent{hint}."
        )
    return default_peers() if size > 1 else None
