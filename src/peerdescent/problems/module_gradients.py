"""The gradients of a module in four ways: stacked by vmap, agent by agent, replayed from a recording, compiled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.func import grad, vmap

from peerdescent.data.lazy import of_agents
from peerdescent.data.shards import ShardedData, Shards
from peerdescent.data.trees import Tree, aligned
from peerdescent.errors import InputError
from peerdescent.problems.agent_buffers import AgentBuffers
from peerdescent.problems.compiled import compile_gradient
from peerdescent.problems.given_data import TestData
from peerdescent.problems.model_checks import check_value
from peerdescent.problems.module_calls import call
from peerdescent.problems.recorded import Recordings, key_of
from peerdescent.problems.sampled import Batches, GradientFunction


class ModuleGradients(AgentBuffers):
    """A problem whose points are the parameters of a module, one after the other.

    After some iterations the tensor operations of a gradient are recorded and replayed, which gives the same bits
    faster. Compiled, they are faster still and differ by rounding.
    """

    shapes: dict[str, torch.Size]
    """The parameters in a point, by name."""
    loss_function: Callable[[Any, Any], torch.Tensor]
    """loss(outputs, targets), the mean over a batch."""

    def __init__(
        self,
        inputs: Tree | ShardedData,
        targets: Tree = None,
        shards: Shards = (),
        test: TestData | None = None,
    ) -> None:
        super().__init__(inputs, targets, shards, test)
        self._leaves = {}
        self._out: tuple[torch.Tensor, list[torch.Tensor]] | None = None
        self._recordings = Recordings()

    @property
    @abstractmethod
    def draws(self) -> bool:
        """Whether the module draws random numbers."""

    def outputs(self, x: torch.Tensor, inputs: Tree) -> Any:
        """Return what the module with parameters x makes of a batch."""
        return self._call(self.unflatten(x), lambda module: call(module, inputs))

    def mean_loss(self, x: torch.Tensor, inputs: Tree, targets: Tree) -> torch.Tensor:
        """Return the loss of the outputs of the module."""
        return self._value(self.unflatten(x), inputs, targets)

    def _value(self, parameters: dict[str, torch.Tensor], inputs: Tree, targets: Tree) -> torch.Tensor:
        return self._call(parameters, lambda module: self.loss_function(call(module, inputs), targets))

    def differentiate(
        self, leaves: dict[str, torch.Tensor], inputs: Tree, targets: Tree
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Return the loss and its gradients at leaves."""

        def work(module: nn.Module) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
            value = self.loss_function(call(module, inputs), targets)
            check_value(value)
            wanted = list(leaves.values())
            return value, torch.autograd.grad(value, wanted, allow_unused=True, materialize_grads=True)

        return self._call(leaves, work)

    def flatten(self, module: nn.Module) -> torch.Tensor:
        """Return the parameters of a module as one vector."""
        parameters = dict(module.named_parameters())
        return torch.cat([parameters[name].detach().flatten() for name in self.shapes])

    def sample_points(self, agents: int) -> torch.Tensor:
        """Return the parameters of the module in so many rows."""
        return self.flatten(self._pristine).to(self.device, self.dtype).repeat(agents, 1)

    def unflatten(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the parameters in a vector by name, as views."""
        pieces = torch.split(x, [shape.numel() for shape in self.shapes.values()])
        return {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}

    def unflatten_rows(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the parameters in the rows of a matrix by name, stacked, as views."""
        pieces = torch.split(x, [shape.numel() for shape in self.shapes.values()], dim=1)
        named = zip(self.shapes.items(), pieces, strict=True)
        return {name: piece.view(len(x), *shape) for (name, shape), piece in named}

    def stacked_gradient(self, points: torch.Tensor, inputs: Tree, targets: Tree, out: torch.Tensor) -> None:
        """Compute all agents at once with vmap, or with a recording of it."""
        arguments = points.detach(), inputs, targets
        gradients = self._recordings.replay("stacked", *arguments)
        if gradients is None:
            gradients = self._stacked_gradients(*arguments)
            if self._recordings.due("stacked", *arguments):
                self._recordings.record("stacked", self._stacked_gradients, arguments, gradients)
        torch._foreach_copy_(self._places(out), list(gradients))

    def _places(self, out: torch.Tensor) -> list[torch.Tensor]:
        """Return where the gradients of all agents go, one stack per parameter: views, kept for the next iteration."""
        if self._out is None or not self._out[0].is_set_to(out):
            self._out = out, list(self.unflatten_rows(out).values())
        return self._out[1]

    def _stacked_gradients(self, points: torch.Tensor, inputs: Tree, targets: Tree) -> list[torch.Tensor]:
        """Return the gradients of all agents, one stack per parameter."""
        gradient = vmap(grad(self._value), randomness="error")
        found = gradient(self.unflatten_rows(points), inputs, targets)
        return [found[name] for name in self.shapes]

    def compiled_gradient(
        self, points: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Compute all agents at once with a compiled function."""
        arguments = points.detach(), inputs, targets
        key = key_of("stacked", *arguments)
        if key not in self._recordings.compiled:
            self._recordings.compiled[key] = compile_gradient(self._stacked_gradients, arguments)
        gradients = self._recordings.compiled[key](*arguments)
        torch._foreach_copy_(self._places(out), list(gradients))

    def compiles(self, batch_size: int | None) -> bool:
        """Return whether all agents can be compiled together, where stacking them is the rule."""
        if self.by_hand or self.device.type != "cpu" or self.preferred_strategy()[0] != "stacked":
            return False
        try:
            self.check_compiled(batch_size)
        except InputError:
            return False
        return True

    def check_compiled(self, batch_size: int | None) -> None:
        """Refuse data for which no function can be compiled."""
        if not self.data.regular:
            raise InputError(
                "gradients = 'compiled': batches of a collate_fn may differ in shape; use gradients=loop or auto."
            )
        if batch_size is None and len(set(self.sizes)) > 1:
            raise InputError(
                "gradients = 'compiled' with exact gradients needs shards of equal sizes; use gradients=loop or auto."
            )
        if not all(isinstance(part, torch.Tensor) for part in self.data.few(0, 1)):
            raise InputError(
                "gradients = 'compiled' needs inputs and targets that are tensors; use gradients=stacked or auto."
            )

    def compile_for(self, agents: int, batch_size: int | None) -> None:
        """Compile the gradients of so many agents, with whole shards if batch_size is None."""
        samples, points = batch_size or self.sizes[0], self.sample_points(agents)
        few = [self.data.few(agent % self.agents, samples) for agent in range(agents)]
        self.compiled_gradient(points, *of_agents(few, stacked=True), torch.empty_like(points))

    def gradient_function(self, strategy: str) -> GradientFunction:
        """Return the function of a strategy."""
        return self.compiled_gradient if strategy == "compiled" else super().gradient_function(strategy)

    def looped_gradient(self, points: torch.Tensor, inputs: Batches, targets: Batches, out: torch.Tensor) -> None:
        """Compute agent by agent with autograd, or with a recording of it."""
        rows, leaves = self._aligned_rows(points)
        for i, row in enumerate(rows):
            arguments = row, aligned(inputs[i]), aligned(targets[i])
            gradients = self._recordings.replay("loop", *arguments)
            if gradients is None:
                _, gradients = self.differentiate(leaves[i], *arguments[1:])
                if self._recordings.due("loop", *arguments) and self._repeats:
                    self._recordings.record("loop", self._one_agents_gradients, arguments, gradients)
            torch._foreach_copy_(list(self.unflatten(out[i]).values()), list(gradients))

    @property
    def _repeats(self) -> bool:
        """Whether the operations of a gradient are always the same: no draws, no changes, no branches on numbers."""
        return not (self.changing or self.draws) and self._vmap_failure is None

    def _one_agents_gradients(self, row: torch.Tensor, inputs: Tree, targets: Tree) -> list[torch.Tensor]:
        """Return the gradients of one agent, as a function that can be recorded."""
        found = grad(self._value)(self.unflatten(row), inputs, targets)
        return [found[name] for name in self.shapes]

    @cached_property
    def _vmap_failure(self) -> Exception | None:
        """What vmap raises for this module; where it works, no control flow and no shape depends on numbers."""
        try:
            self._try_stacked()
        except Exception as error:  # whatever the module's operations raise
            return error
        return None

    def _try_stacked(self) -> None:
        """Compute the gradient of at most two agents on two samples each; some layers refuse one sample."""
        agents = range(min(2, self.agents))
        few = min([2, *self.sizes[: len(agents)]])
        inputs, targets = of_agents([self.data.few(agent, few) for agent in agents], stacked=True)
        self._stacked_gradients(self.sample_points(len(agents)), inputs, targets)

    def to(self, device: torch.device, dtype: torch.dtype) -> ModuleGradients:
        """Return the problem on another device, in another precision."""
        new = super().to(device, dtype)
        assert isinstance(new, ModuleGradients)
        new.__dict__.pop("_vmap_failure", None)
        return new

    def _aligned_rows(self, points: torch.Tensor) -> tuple[list[torch.Tensor], list[dict[str, torch.Tensor]]]:
        """Return the rows of the points, in aligned memory, and their parameters as leaves that view them."""
        key = (points.data_ptr(), len(points))
        if key not in self._leaves:
            rows = [aligned(row) for row in points.detach()]
            leaves = [{name: view.requires_grad_() for name, view in self.unflatten(row).items()} for row in rows]
            kept = list(self._leaves.items())[-1:]  # a step may alternate between two points
            self._leaves = {**dict(kept), key: (rows, leaves)}
        rows, leaves = self._leaves[key]
        for row, point in zip(rows, points.detach(), strict=True):
            if row.data_ptr() != point.data_ptr():
                row.copy_(point)
        return rows, leaves
