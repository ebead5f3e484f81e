"""Any nn.Module, loss and data as a problem: parameters become one flat vector per agent."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.data import Dataset

from peerdescent.data import partition as make_partition
from peerdescent.data import stream
from peerdescent.errors import InputError
from peerdescent.problems.sampled import EVALUATED_AT_ONCE, Batches, Sampled, Shards

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Data = tuple[torch.Tensor, torch.Tensor] | Dataset[Any]
STARTS = ("shared", "independent")


class Supervised(Sampled):
    """f_i(x) = mean over agent i's shard of loss(module with parameters x).

    Gradients are stacked over the agents by `torch.func.vmap`, or computed agent by agent.
    """

    name = "supervised"
    strategies = ("stacked", "loop")

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        shards: Shards,
        test: tuple[torch.Tensor, torch.Tensor] | None = None,
        start: str = "shared",
    ) -> None:
        super().__init__(inputs, targets, shards, test)
        if start not in STARTS:
            raise InputError(f"start = {start!r}: expected one of {', '.join(STARTS)}.")
        _refuse_hidden_state(model)
        self._module, self.loss_function, self.start_kind = copy.deepcopy(model), loss, start
        self.shapes = {name: p.shape for name, p in model.named_parameters() if p.requires_grad}
        self.dimension = sum(shape.numel() for shape in self.shapes.values())
        if not self.dimension:
            raise InputError(f"the model {type(model).__name__} has no parameters to train.")
        self._leaves: dict[tuple[int, int], list[dict[str, torch.Tensor]]] = {}

    def start(self, seed: int) -> torch.Tensor:
        """The module's own parameters for all_agents, or a fresh draw by the module for each agent."""
        if self.start_kind == "shared":
            return self.flatten(self._module).expand(self.agents, -1).to(self.device, self.dtype).contiguous()
        rows = []
        for agent in range(self.agents):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(stream(seed, "start", self.number(agent)).integers(2**62)))
                fresh = copy.deepcopy(self._module)
                fresh.apply(_reset)
            rows.append(self.flatten(fresh))
        return torch.stack(rows).to(self.device, self.dtype)

    def flatten(self, module: nn.Module) -> torch.Tensor:
        """The module's parameters as one vector."""
        parameters = dict(module.named_parameters())
        return torch.cat([parameters[name].detach().flatten() for name in self.shapes])

    def unflatten(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """A vector's parts as the module's parameters: views, not copies."""
        pieces = torch.split(x, [shape.numel() for shape in self.shapes.values()])
        return {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}

    def mean_loss(self, x: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The user's loss on the module's outputs."""
        return self.loss_function(functional_call(self._module, self.unflatten(x), (inputs,)), targets)

    def stacked_gradient(
        self, points: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor, out: torch.Tensor
    ) -> None:
        """All agents at once, by vmap."""
        gradient = vmap(grad(self.mean_loss), randomness="error")
        out.copy_(gradient(points.detach(), inputs, targets))

    def looped_gradient(self, points: torch.Tensor, inputs: Batches, targets: Batches, out: torch.Tensor) -> None:
        """Agent by agent; each parameter is a leaf of its own that views its part of the row."""
        for i, leaves in enumerate(self._rows_as_leaves(points)):
            value = self.loss_function(functional_call(self._module, leaves, (inputs[i],)), targets[i])
            gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True, materialize_grads=True)
            for place, gradient in zip(self.unflatten(out[i]).values(), gradients, strict=True):
                place.copy_(gradient)

    def accuracy(self, x: torch.Tensor) -> float | None:
        """The share of test samples whose class is the largest output; None without test data or classes."""
        if self.test is None or self.test[1].is_floating_point() or self.test[1].dim() != 1:
            return None
        right = 0
        with torch.no_grad():
            for begin in range(0, len(self.test[1]), EVALUATED_AT_ONCE):
                inputs, labels = (part[begin : begin + EVALUATED_AT_ONCE] for part in self.test)
                outputs = functional_call(self._module, self.unflatten(x), (inputs,))
                right += int((outputs.argmax(dim=1) == labels).sum())
        return right / len(self.test[1])

    def model(self, x: torch.Tensor) -> nn.Module:
        """A copy of the module with x as its parameters."""
        module = copy.deepcopy(self._module).to(x.device, x.dtype)
        with torch.no_grad():
            parameters = dict(module.named_parameters())
            for name, value in self.unflatten(x).items():
                parameters[name].copy_(value)
        return module

    def to(self, device: torch.device, dtype: torch.dtype) -> Supervised:
        """The same problem on another device, in another precision."""
        new = super().to(device, dtype)
        assert isinstance(new, Supervised)
        new._module = copy.deepcopy(self._module).to(device, dtype)
        new._leaves = {}
        return new

    def _rows_as_leaves(self, points: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        key = (points.data_ptr(), len(points))
        if key not in self._leaves:
            rows = (self.unflatten(row) for row in points.detach())
            self._leaves = {key: [{name: view.requires_grad_() for name, view in row.items()} for row in rows]}
        return self._leaves[key]


def supervised(
    model: nn.Module,
    loss: Loss,
    data: Data,
    agents: int = 10,
    partition: str = "iid",
    test: Data | None = None,
    start: str = "shared",
    sizes: str = "even",
    seed: int = 0,
) -> Supervised:
    """Any module, loss and data as a problem for n agents.

    Args:
        model: the module; what it computes must be a function of its parameters and input alone.
        loss: loss(outputs, targets), the mean over a batch.
        data: (inputs, targets), or a Dataset of such pairs.
        agents: n.
        partition: "iid", "label" or "dirichlet:A".
        test: data for the accuracy (classification: the largest output is the answer).
        start: "shared" (the module's parameters) or "independent" (each agent draws its own).
        sizes: "even" or "uneven" shards.
        seed: decides the partition.

    >>> inputs, targets = torch.randn(60, 3), torch.randn(60, 1)
    >>> problem = supervised(nn.Linear(3, 1), nn.functional.mse_loss, (inputs, targets), agents=4)
    >>> problem.agents, problem.dimension
    (4, 4)
    """
    inputs, targets = as_tensors(data, "data")
    labelled = not targets.is_floating_point() and targets.dim() == 1
    shards = make_partition(np.asarray(targets) if labelled else len(targets), agents, partition, seed, sizes)
    return Supervised(model, loss, inputs, targets, shards, None if test is None else as_tensors(test, "test"), start)


def as_tensors(data: Data, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets as two tensors with one row per sample."""
    if isinstance(data, Dataset):
        pairs = [data[i] for i in range(len(data))]  # type: ignore[arg-type]
        columns = [torch.stack([torch.as_tensor(pair[c]) for pair in pairs]) for c in (0, 1)] if pairs else []
    else:
        columns = [torch.as_tensor(column) for column in data]
    if len(columns) != 2 or len(columns[0]) != len(columns[1]) or not len(columns[0]):
        raise InputError(
            f"{name}: expected (inputs, targets) or a Dataset of such pairs, of equal length and not empty."
        )
    return columns[0], columns[1]


def _reset(module: nn.Module) -> None:
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()


def _refuse_hidden_state(model: nn.Module) -> None:
    """Refuse what is not a function of parameters and input alone: state that no agent owns, and chance of its own."""
    for name, module in model.named_modules():
        if isinstance(module, _DropoutNd) and module.p > 0:
            raise InputError(
                f"the layer {name or type(model).__name__!r} draws at random, which no seed governs: remove it."
            )
        if getattr(module, "track_running_stats", False) and getattr(module, "running_mean", None) is not None:
            raise InputError(
                f"the layer {name or type(model).__name__!r} keeps running statistics, which are not parameters: "
                "use track_running_stats=False or a GroupNorm."
            )
