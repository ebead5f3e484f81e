"""The gradients of a module in four ways: stacked by vmap, agent by agent, replayed from a recording, compiled."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import torch
from torch.func import grad, vmap

from peerdescent.problems.compiled import compile_gradient
from peerdescent.problems.recorded import Recordings, key_of
from peerdescent.problems.sampled import Batches, GradientFunction, Sampled, Shards


class ModuleGradients(Sampled):
    """A problem whose points are the parameters of a module, one after the other.

    After some iterations the tensor operations of a gradient are recorded and replayed, which gives the same bits
    faster. Compiled, they are faster still and differ by rounding.
    """

    shapes: dict[str, torch.Size]
    """The parameters in a point, by name."""

    def __init__(
        self,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        shards: Shards,
        test: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        super().__init__(inputs, targets, shards, test)
        self._leaves: dict[tuple[int, int], list[dict[str, torch.Tensor]]] = {}
        self._recordings = Recordings()

    @property
    @abstractmethod
    def draws(self) -> bool:
        """Whether the module draws random numbers."""

    @abstractmethod
    def _value(self, parameters: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of the module with these parameters."""

    @abstractmethod
    def sample_points(self, agents: int) -> torch.Tensor:
        """Return the parameters of the module in so many rows."""

    def unflatten(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the parameters in a vector by name, as views."""
        pieces = torch.split(x, [shape.numel() for shape in self.shapes.values()])
        return {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}

    def unflatten_rows(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the parameters in the rows of a matrix by name, stacked, as views."""
        pieces = torch.split(x, [shape.numel() for shape in self.shapes.values()], dim=1)
        named = zip(self.shapes.items(), pieces, strict=True)
        return {name: piece.view(len(x), *shape) for (name, shape), piece in named}

    def stacked_gradient(
        self, points: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Compute all agents at once with vmap, or with a recording of it."""
        arguments = points.detach(), inputs, targets
        gradients = self._recordings.replay("stacked", *arguments)
        if gradients is None:
            gradients = self._stacked_gradients(*arguments)
            if self._recordings.due("stacked", *arguments):
                self._recordings.record("stacked", self._stacked_gradients, arguments, gradients)
        torch._foreach_copy_(list(self.unflatten_rows(out).values()), list(gradients))

    def _stacked_gradients(
        self, points: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> list[torch.Tensor]:
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
        torch._foreach_copy_(list(self.unflatten_rows(out).values()), list(gradients))

    def compile_for(self, agents: int, batch_size: int | None) -> None:
        """Compile the gradients of so many agents, with whole shards if batch_size is None."""
        samples, points = batch_size or self.sizes[0], self.sample_points(agents)
        rows = (torch.arange(agents * samples) % len(self.inputs)).to(self.device)
        inputs, targets = (
            part.index_select(0, rows).view(agents, samples, *part.shape[1:]) for part in (self.inputs, self.targets)
        )
        self.compiled_gradient(points, inputs, targets, torch.empty_like(points))

    def gradient_function(self, strategy: str) -> GradientFunction:
        """Return the function of a strategy."""
        return self.compiled_gradient if strategy == "compiled" else super().gradient_function(strategy)

    def looped_gradient(self, points: torch.Tensor, inputs: Batches, targets: Batches, out: torch.Tensor) -> None:
        """Compute agent by agent with autograd, or with a recording of it."""
        for i, row in enumerate(points.detach()):
            arguments = row, inputs[i], targets[i]
            gradients = self._recordings.replay("loop", *arguments)
            if gradients is None:
                gradients = self._autograd_gradients(self._rows_as_leaves(points)[i], inputs[i], targets[i])
                if self._recordings.due("loop", *arguments) and not self.draws and self._vmap_failure is None:
                    self._recordings.record("loop", self._one_agents_gradients, arguments, gradients)
            torch._foreach_copy_(list(self.unflatten(out[i]).values()), list(gradients))

    def _autograd_gradients(
        self, leaves: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return the gradients of one agent, whose parameters are leaves that view their part of its row."""
        value = self._value(leaves, inputs, targets)
        return torch.autograd.grad(value, list(leaves.values()), allow_unused=True, materialize_grads=True)

    def _one_agents_gradients(
        self, row: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> list[torch.Tensor]:
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
        shards = [self.shard(agent) for agent in range(min(2, self.agents))]
        few = min(2, *(len(inputs) for inputs, _ in shards))
        inputs, targets = (torch.stack([shard[part][:few] for shard in shards]) for part in (0, 1))
        self._stacked_gradients(self.sample_points(len(shards)), inputs, targets)

    def to(self, device: torch.device, dtype: torch.dtype) -> ModuleGradients:
        """Return the problem on another device, in another precision."""
        new = super().to(device, dtype)
        assert isinstance(new, ModuleGradients)
        new._leaves = {}
        new.__dict__.pop("_vmap_failure", None)
        return new

    def _rows_as_leaves(self, points: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        key = (points.data_ptr(), len(points))
        if key not in self._leaves:
            rows = (self.unflatten(row) for row in points.detach())
            self._leaves = {key: [{name: view.requires_grad_() for name, view in row.items()} for row in rows]}
        return self._leaves[key]
