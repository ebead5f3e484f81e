"""Any nn.Module with a loss and data as a problem: one flat parameter vector per agent."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.modules.conv import _ConvNd

from peerdescent._util.validation import check_choice
from peerdescent.data import partition as make_partition
from peerdescent.data import stream
from peerdescent.errors import InputError
from peerdescent.problems.base import Oracle
from peerdescent.problems.model_checks import check_model, check_value, copied, explained, in_brief
from peerdescent.problems.module_gradients import ModuleGradients
from peerdescent.problems.module_randomness import (
    EVALUATION_SEED,
    SeededOracle,
    draws_random_numbers,
    own_generator,
)
from peerdescent.problems.sampled import EVALUATED_AT_ONCE, Shards
from peerdescent.problems.tensors import Data, as_tensors

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
STARTS = ("shared", "independent")


class Supervised(ModuleGradients):
    """f_i(x) = mean over the shard of agent i of loss(module with parameters x).

    Gradients are computed for all agents at once by `torch.func.vmap`, or agent by agent. After some iterations the
    tensor operations of either are recorded and replayed, which gives the same bits faster; compiled, they are faster
    still and differ by rounding.
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
        check_choice("start", start, STARTS)
        check_model(model, loss)
        if not callable(loss):
            raise InputError(
                f"loss = {loss!r}: expected a function of (outputs, targets) that returns their mean loss."
            )
        self._module, self.loss_function, self.start_kind = copied(model), loss, start
        self.shapes = {name: p.shape for name, p in model.named_parameters() if p.requires_grad}
        self.dimension = sum(shape.numel() for shape in self.shapes.values())
        if not self.dimension:
            raise InputError(
                f"the model {type(model).__name__} has no parameters with requires_grad; give a trainable model."
            )

    def start(self, seed: int) -> torch.Tensor:
        """Return the parameters of the module for all agents ("shared"), or new ones for each agent ("independent")."""
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

    def preferred_strategy(self) -> tuple[str, str]:
        """Return "loop" for convolutions and for modules that vmap cannot run, otherwise "stacked".

        >>> data = torch.randn(8, 3), torch.randn(8, 1)
        >>> supervised(nn.Linear(3, 1), nn.functional.mse_loss, data, agents=2).preferred_strategy()
        ('stacked', 'vmap over the agents')
        """
        if self.by_hand:
            return super().preferred_strategy()
        if self.draws:
            return "loop", "the model draws random numbers"
        if any(isinstance(module, _ConvNd) for module in self._module.modules()):
            return "loop", "convolutions are faster agent by agent"
        if self._vmap_failure is None:
            return "stacked", "vmap over the agents"
        return "loop", f"vmap fails: {in_brief(self._vmap_failure, 100)}"

    @cached_property
    def draws(self) -> bool:
        """Whether the module draws random numbers: its gradients are then computed agent by agent, with set seeds.

        Raises:
            InputError: the gradient cannot be computed, or it varies however torch's generators are seeded.
        """
        if self.by_hand:
            return False
        return draws_random_numbers(self._sample_gradient, self.device, f"the model {type(self._module).__name__}")

    def _sample_gradient(self) -> torch.Tensor:
        """Return the loss and gradient of agent 0 on two samples, as one vector."""
        inputs, targets = self.shard(0)
        rows = (torch.arange(2) % len(inputs)).to(self.device)
        point = self.flatten(self._module).to(self.device, self.dtype)
        with explained(f"the gradient of {self.name} cannot be computed"):
            leaves = {name: view.requires_grad_() for name, view in self.unflatten(point).items()}
            value = self._value(leaves, inputs[rows], targets[rows])
            check_value(value)
            gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True, materialize_grads=True)
        return torch.cat([value.detach().flatten(), *(gradient.flatten() for gradient in gradients)])

    def sample_points(self, agents: int) -> torch.Tensor:
        """Return the parameters of the module in so many rows."""
        return self.flatten(self._module).to(self.device, self.dtype).repeat(agents, 1)

    def flatten(self, module: nn.Module) -> torch.Tensor:
        """Return the parameters of a module as one vector."""
        parameters = dict(module.named_parameters())
        return torch.cat([parameters[name].detach().flatten() for name in self.shapes])

    def mean_loss(self, x: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of the outputs of the module."""
        return self._value(self.unflatten(x), inputs, targets)

    def _value(self, parameters: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.loss_function(functional_call(self._module, parameters, (inputs,)), targets)

    def check_request(self, batch_size: int | None, strategy: str) -> None:
        """Refuse stacked gradients of a module that draws: its draws would depend on which agents are together."""
        compiled = strategy == "compiled" and not self.by_hand
        super().check_request(batch_size, "stacked" if compiled else strategy)
        if compiled and batch_size is None and not self.even:
            raise InputError(
                "gradients = 'compiled' with exact gradients needs shards of equal sizes; use gradients=loop or auto."
            )
        if self.draws and strategy != "loop":
            raise InputError(
                f"gradients = {strategy!r}: the model {type(self._module).__name__} draws random numbers, which must "
                "not depend on the agents that share a process; use gradients=loop or auto."
            )

    def oracle(
        self, batch_size: int | None, seed: int, replacement: bool, agents: range, strategy: str = "stacked"
    ) -> Oracle:
        """Return gradients for a block of agents; random draws in the module depend on (seed, agent, k) alone."""
        if self.by_hand:
            return super().oracle(batch_size, seed, replacement, agents, strategy)
        if strategy == "compiled":
            self.check_request(batch_size, strategy)
            self.compile_for(len(agents), batch_size)
        if self.draws:
            blocks = [range(agent, agent + 1) for agent in agents]
            each = [super(Supervised, self).oracle(batch_size, seed, replacement, one, strategy) for one in blocks]
            oracle: Oracle = SeededOracle(each, seed, [self.number(agent) for agent in agents], self.device)
        else:
            oracle = super().oracle(batch_size, seed, replacement, agents, strategy)

        def gradient(points: torch.Tensor, k: int, out: torch.Tensor) -> None:
            with explained(f"the gradient of {self.name} cannot be computed"):
                oracle(points, k, out)

        return gradient

    def loss(self, x: torch.Tensor) -> float:
        """Return f(x); every agent has the same weight, whatever the size of its shard."""
        with self._evaluation():
            return super().loss(x)

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """Return ∇f(x) on all data."""
        with self._evaluation():
            return super().gradient(x)

    @contextmanager
    def _evaluation(self) -> Iterator[None]:
        """Evaluate a module that draws in eval mode, without dropout; what it draws all the same is always alike."""
        with explained(f"{self.name} cannot be evaluated"):
            if not self.draws:
                yield
                return
            training, self._module = self._module, self._evaluated_module
            try:
                with own_generator(self.device) as seed:
                    seed(EVALUATION_SEED)
                    yield
            finally:
                self._module = training

    @cached_property
    def _evaluated_module(self) -> nn.Module:
        return copy.deepcopy(self._module).eval()

    def accuracy(self, x: torch.Tensor) -> float | None:
        """Return the fraction of test samples whose class has the largest output; None without test data or classes."""
        if self.test is None or self.test[1].is_floating_point() or self.test[1].dim() != 1:
            return None
        right = 0
        with torch.no_grad(), self._evaluation():
            for begin in range(0, len(self.test[1]), EVALUATED_AT_ONCE):
                inputs, labels = (part[begin : begin + EVALUATED_AT_ONCE] for part in self.test)
                outputs = functional_call(self._module, self.unflatten(x), (inputs,))
                right += int((outputs.argmax(dim=1) == labels).sum())
        return right / len(self.test[1])

    def model(self, x: torch.Tensor) -> nn.Module:
        """Return a copy of the module with parameters x."""
        module = copy.deepcopy(self._module).to(x.device, x.dtype)
        with torch.no_grad():
            parameters = dict(module.named_parameters())
            for name, value in self.unflatten(x).items():
                parameters[name].copy_(value)
        return module

    def to(self, device: torch.device, dtype: torch.dtype) -> Supervised:
        """Return the problem on another device, in another precision."""
        new = super().to(device, dtype)
        assert isinstance(new, Supervised)
        new._module = copy.deepcopy(self._module).to(device, dtype)
        new.__dict__.pop("_evaluated_module", None)
        return new


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
    """Make a problem for n agents from any module, loss and data.

    Args:
        model: the module; its output must depend only on its parameters, its input, and random numbers that it draws
            with torch (dropout, noise), which become a function of (seed, agent, iteration). Evaluations of a model
            that draws use its eval mode. Its operations may be recorded and replayed, so that it is not called in
            every iteration: what it prints or counts is not to be relied on.
        loss: loss(outputs, targets), the mean over a batch.
        data: (inputs, targets), or a Dataset of such pairs.
        agents: n.
        partition: "iid", "label" or "dirichlet:A".
        test: data for the accuracy of a classifier, whose answer is the largest output.
        start: "shared" (the parameters of the module) or "independent" (new ones for each agent).
        sizes: "even" or "uneven" shards.
        seed: determines the partition.

    >>> inputs, targets = torch.randn(60, 3), torch.randn(60, 1)
    >>> problem = supervised(nn.Linear(3, 1), nn.functional.mse_loss, (inputs, targets), agents=4)
    >>> problem.agents, problem.dimension
    (4, 4)
    """
    inputs, targets = as_tensors(data, "data")
    labelled = not targets.is_floating_point() and targets.dim() == 1
    shards = make_partition(np.asarray(targets) if labelled else len(targets), agents, partition, seed, sizes)
    return Supervised(model, loss, inputs, targets, shards, None if test is None else as_tensors(test, "test"), start)


def _reset(module: nn.Module) -> None:
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()
