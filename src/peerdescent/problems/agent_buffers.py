"""A module whose buffers belong to the agents: every agent's forward passes change its own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from peerdescent.data import stream
from peerdescent.data.shards import TensorShards
from peerdescent.data.trees import Tree
from peerdescent.errors import InputError
from peerdescent.problems.base import Buffers
from peerdescent.problems.model_checks import copied, explained
from peerdescent.problems.module_buffers import changing_buffers
from peerdescent.problems.module_calls import T, call, call_with
from peerdescent.problems.module_randomness import EVALUATION_SEED, own_generator
from peerdescent.problems.recalibration import SAMPLES, recalibrated_statistics
from peerdescent.problems.sampled import Sampled


class AgentBuffers(Sampled):
    """Costs of a module, which is always called with given parameters and with the buffers of one agent.

    A problem has the module's own values of the buffers; a view of it (`with_buffers`) has those that it was given.
    """

    _pristine: nn.Module
    """The module as the user gave it, on the device and in the precision of the problem; it is never called."""
    _given: Buffers | None = None
    _updates: bool = False
    """Whether calls change the buffers; evaluations do not."""
    _leaves: dict[tuple[int, int], tuple[list[torch.Tensor], list[dict[str, torch.Tensor]]]]
    """The rows of the last points and their parameters as leaves, by the address and number of the points."""

    @cached_property
    def _module(self) -> nn.Module:
        """The copy that is called: what calls leave in it never reaches a user's model."""
        return copied(self._pristine)

    @cached_property
    def _evaluated_module(self) -> nn.Module:
        return copied(self._pristine).eval()

    @property
    def _called(self) -> str:
        return f"the model {type(self._pristine).__name__}"

    @cached_property
    def changing(self) -> tuple[str, ...]:
        """The buffers that the forward pass changes: every agent has these for itself, and all share the others.

        Raises:
            InputError: the module cannot be called, or a buffer changes its shape.
        """
        if self.by_hand or not any(module._buffers for module in self._module.modules()):
            return ()
        inputs, _ = self.data.few(0, 2)  # some layers refuse a single sample

        def once() -> None:
            with explained(f"the gradient of {self.name} cannot be computed"):
                call(self._module, inputs)

        with own_generator(self.device):
            return changing_buffers(self._module, dict(self._pristine.named_buffers()), once, self._called)

    @cached_property
    def _initial(self) -> Buffers:
        return {name: buffer for name, buffer in self._pristine.named_buffers() if name in self.changing}

    @property
    def buffers(self) -> Buffers:
        """The values of the changing buffers, as calls of the module find them."""
        return self._initial if self._given is None else self._given

    def initial_buffers(self, seed: int) -> Buffers:
        """Return the buffers with which the agents start, one row per agent."""
        return {name: torch.stack([value] * self.agents) for name, value in self._initial.items()}

    def with_buffers(self, buffers: Buffers) -> AgentBuffers:
        """Return a view of the problem in which the module has these buffers."""
        expected, given = ({name: tuple(b.shape) for name, b in one.items()} for one in (self._initial, buffers))
        if expected != given:
            raise InputError(f"buffers has {given}; expected what {self._called} changes: {expected or 'nothing'}.")
        self._module, self._evaluated_module  # noqa: B018 (views share them)
        new = copy.copy(self)
        new._given, new._leaves = buffers, {}
        return new

    def updating(self, buffers: Buffers) -> AgentBuffers:
        """Return a view of the problem whose gradients change these buffers, which are those of one agent."""
        view = self.with_buffers(buffers)
        view._updates = True
        return view

    def recalibrated(self, x: torch.Tensor, seed: int) -> AgentBuffers:
        """Return a view of the problem whose running statistics are those of the module with parameters x.

        They are taken from training samples of all agents, drawn by the seed.
        """
        module, inputs = self.model(x), self._samples_of_all()
        assert module is not None
        order = stream(seed, "recalibration").permutation(len(tree_leaves(inputs)[0]))
        with own_generator(self.device) as set_seed, explained(f"{self.name} cannot be recalibrated"):
            set_seed(EVALUATION_SEED)
            statistics = recalibrated_statistics(module, inputs, order)
        if not statistics:
            super().recalibrated(x, seed)
        return self.with_buffers({**self.buffers, **statistics})

    def _samples_of_all(self) -> Tree:
        """Return inputs of all agents: all of them if they are in memory, otherwise equally many of each."""
        if isinstance(self.data, TensorShards):
            return self.data.inputs
        if not self.data.regular:
            raise InputError(
                "running_statistics = 'recalibrate': batches of a collate_fn cannot be mixed; use 'average'."
            )
        each = max(1, SAMPLES // self.agents)
        parts = [self.data.few(agent, each)[0] for agent in range(self.agents)]
        return tree_map(lambda *leaves: torch.cat(leaves), *parts)

    def _call(self, parameters: dict[str, torch.Tensor], work: Callable[[nn.Module], T]) -> T:
        """Return work(module) with these parameters; what it does to the buffers is kept if this view updates them."""
        tensors = {**parameters, **{name: buffer.clone() for name, buffer in self.buffers.items()}}
        result = call_with(self._module, tensors, work)
        if self._updates:
            for name, buffer in self.buffers.items():
                if tensors[name].shape != buffer.shape:
                    raise InputError(
                        f"the buffer {name!r} of {self._called} changes its shape from {tuple(buffer.shape)} to "
                        f"{tuple(tensors[name].shape)}: keep its shape."
                    )
                buffer.copy_(tensors[name].detach())
        return result

    def to(self, device: torch.device, dtype: torch.dtype) -> AgentBuffers:
        """Return the problem on another device, in another precision; a view loses its buffers."""
        new = super().to(device, dtype)
        assert isinstance(new, AgentBuffers)
        new._pristine = copy.deepcopy(self._pristine).to(device, dtype)
        new._given, new._leaves = None, {}
        for derived in ("_module", "_evaluated_module", "_initial"):
            new.__dict__.pop(derived, None)
        return new
