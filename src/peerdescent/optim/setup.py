"""What an optimizer is built from, checked: its options, its parameters, and that all processes are given the same."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from peerdescent._util.schema import checked, settings_of
from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.graphs import AnyGraph, Graph
from peerdescent.graphs.own_weights import as_kind
from peerdescent.optim.peers import Peers, peers_in
from peerdescent.training.settings import Settings

STARTS = ("independent", "shared")


class Options(TypedDict, total=False):
    """The options of every optimizer, besides its method's hyperparameters.

    laplacian, mixing: the kinds of L and W, as in experiments, or the matrices ("metropolis").
    communication_period: steps from one exchange to the next, a schedule such as "8,4@1000,1@3000", or
        "random:P", with probability P (1).
    average_every: steps from one global average to the next, by an all_reduce: all agents take their mean (never).
    message_dtype: "same", or "bf16" for half the bytes ("same").
    compress: "topk:SHARE", "randk:SHARE", "qsgd:BITS", "sign" or "bf16": send compressed changes of public copies,
        which are part of the state; save it before `wait` ("none", or what the method has).
    consensus_step: c, which multiplies L and I−W (1, or less if messages are compressed).
    seed: decides the random numbers of compressors and of exchanges, as in experiments (0).
    start: "independent" keeps each agent's parameters, "shared" broadcasts those of rank 0, frozen ones too
        ("independent").
    process_group: the processes of torch.distributed that are the agents, by rank (all).
    mesh: a DeviceMesh of one dimension in their place, such as mesh["replicate"].
    kernel: "auto", "compiled", "torch" or "plain" ("auto").
    weight_decay: λ, which a parameter group may set for itself (0).
    decay: "coupled" adds λ·parameter to the gradient, as torch.optim.SGD does; "decoupled" subtracts lr·λ·x after the
        step, as AdamW does ("coupled").
    """

    laplacian: str
    mixing: str
    communication_period: int | str
    average_every: int | None
    message_dtype: str
    compress: str | None
    consensus_step: float | None
    seed: int
    start: str
    kernel: str
    process_group: dist.ProcessGroup | None
    mesh: DeviceMesh | None
    weight_decay: float
    decay: str


def check_options(options: Options) -> None:
    """Check names and values; matrices become texts, which all processes can compare.

    Raises:
        InputError: one is not as it should be.
    """
    settings = {setting.name: setting for setting in settings_of(Settings)}
    if "laplacian" in options:
        options["laplacian"] = as_kind("laplacian", options["laplacian"])
    if "mixing" in options:
        options["mixing"] = as_kind("mixing", options["mixing"])
    for name, value in options.items():
        if name not in Options.__annotations__:
            raise InputError(f"an optimizer has no option {name!r}: it has {', '.join(Options.__annotations__)}.")
        if name in settings:
            checked(settings[name], value)
    if options.get("start", STARTS[0]) not in STARTS:
        raise InputError(f"start = {options['start']!r}: expected one of {', '.join(STARTS)}.")


def check_weight_decay(group: dict[str, Any]) -> None:
    """Refuse a weight decay of a parameter group that is not a number of at least 0."""
    setting = next(setting for setting in settings_of(Settings) if setting.name == "weight_decay")
    checked(setting._replace(optional=False), group["weight_decay"])


def named_parameters(number: int, group: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The parameters of a group by name, or by their place if they were given without names."""
    where = f" of parameter group {number}" if number else ""
    names = group.get("param_names") or [str(place) for place in range(len(group["params"]))]
    return {f"parameter {name}{where}": p for name, p in zip(names, group["params"], strict=True)}


def trained_parameters(number: int, group: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The parameters of a group that require a gradient.

    Raises:
        InputError: they do not have one floating-point dtype, or are not on one device.
    """
    trained = {name: p for name, p in named_parameters(number, group).items() if p.requires_grad}
    kinds = {(str(p.dtype), str(p.device)) for p in trained.values()}
    if len(kinds) > 1 or any(p.is_meta or not p.is_floating_point() for p in trained.values()):
        found = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise InputError(f"a parameter group holds {found}: expected one floating-point dtype, on one device.")
    for name, parameter in trained.items():
        if hasattr(parameter, "to_local"):
            raise InputError(f"{name} is a DTensor, sharded over a device mesh: give the optimizer whole parameters.")
    return trained


def facts(
    kind: Mapping[str, str], graph: AnyGraph, trained: Sequence[dict[str, torch.Tensor]], options: Mapping[str, object]
) -> dict[str, str]:
    """What all processes must have in common, by name."""
    edges = repr(sorted(tuple(map(int, edge)) for edge in graph.edges)) if isinstance(graph, Graph) else graph.text
    known = {**kind, "graph": f"{graph.n} agents, edges {zlib.crc32(edges.encode()):08x}"}
    for number, parameters in enumerate(trained):
        tensors = list(parameters.values())
        size = f"{len(tensors)} tensors with {sum(t.numel() for t in tensors)} values"
        shapes = zlib.crc32(repr([(tuple(t.shape), str(t.dtype)) for t in tensors]).encode())
        known[f"trainable parameters of group {number}"] = f"{size}, shapes {shapes:08x}"
    shared = {name: value for name, value in options.items() if name not in ("process_group", "mesh")}
    return known | {f"option {name}": str(value) for name, value in shared.items()}


def group_of(options: Options) -> dist.ProcessGroup | None:
    """The process group that the options name; None for the default one.

    Raises:
        InputError: this process is not in it, or it is none.
    """
    given, mesh = options.get("process_group"), options.get("mesh")
    if given is not None and mesh is not None:
        raise InputError("process_group and mesh are both given: an optimizer takes one of them.")
    if mesh is not None:
        if not isinstance(mesh, DeviceMesh):
            raise InputError(f"mesh is {described(mesh)}: expected a torch.distributed DeviceMesh.")
        if mesh.ndim != 1:
            names = mesh.mesh_dim_names or ("replicate",)
            raise InputError(
                f"mesh has {mesh.ndim} dimensions: give the one along which the agents are, such as mesh[{names[0]!r}]."
            )
        return mesh.get_group()
    not_a_member: object = dist.GroupMember.NON_GROUP_MEMBER
    if given is not_a_member:
        raise InputError("this process is not in process_group: make the optimizer in the processes of the group only.")
    if given is not None and not isinstance(given, dist.ProcessGroup):
        raise InputError(f"process_group is {described(given)}: expected a ProcessGroup of torch.distributed.")
    return given


def peers_of(graph: AnyGraph, group: dist.ProcessGroup | None = None) -> Peers | None:
    """The processes of torch.distributed, or those of a group; None for a single agent."""
    started = dist.is_available() and dist.is_initialized()
    size = dist.get_world_size(group) if started else 1
    if size != graph.n:
        hint = "" if started else ": call torch.distributed.init_process_group first"
        raise InputError(
            f"the graph has {graph.n} agents and there {'is 1 process' if size == 1 else f'are {size} processes'}; "
            f"an optimizer needs one process per agent{hint}."
        )
    return peers_in(group) if size > 1 else None
