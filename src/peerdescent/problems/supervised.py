"""Any nn.Module with a loss and data as a problem: one flat parameter vector per agent."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.conv import _ConvNd

from peerdescent._util.validation import check_choice
from peerdescent.data import stream
from peerdescent.data.lazy import of_agents
from peerdescent.data.shards import ShardedData, Shards
from peerdescent.data.trees import Tree
from peerdescent.errors import InputError
from peerdescent.problems.base import Oracle
from peerdescent.problems.given_data import Data, TestData, as_shards, as_test, check_evaluated
from peerdescent.problems.model_checks import check_model, check_value, copied, explained, in_brief
from peerdescent.problems.module_inputs import arguments
from peerdescent.problems.module_randomness import (
    EVALUATION_SEED,
    SeededOracle,
    draws_random_numbers,
    own_generator,
)
from peerdescent.problems.sampled import Batches, Sampled

Loss = Callable[[Any, Any], torch.Tensor]
STARTS = ("shared", "independent")


class Supervised(Sampled):
    """f_i(x) = mean over the shard of agent i of loss(module with parameters x).

    Gradients are computed for all agents at once by `torch.func.vmap`, or agent by agent.
    """

    name = "supervised"
    strategies = ("stacked", "loop")

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        inputs: Tree | ShardedData,
        targets: Tree = None,
        shards: Shards = (),
        test: TestData | None = None,
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
        self._leaves: dict[tuple[int, int], list[dict[str, torch.Tensor]]] = {}

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
        if not self.data.regular:
            return "loop", "batches of a collate_fn may differ in shape"
        try:
            self._try_stacked()
            return "stacked", "vmap over the agents"
        except Exception as error:  # vmap raises whatever the module's operations raise
            return "loop", f"vmap fails: {in_brief(error, 100)}"

    def _try_stacked(self) -> None:
        """Compute the gradient of at most two agents on two samples each; some layers refuse one sample."""
        agents = range(min(2, self.agents))
        few = min([2, *self.sizes[: len(agents)]])
        inputs, targets = of_agents([self.data.few(agent, few) for agent in agents], stacked=True)
        points = self.flatten(self._module).to(self.device, self.dtype).repeat(len(agents), 1)
        self.stacked_gradient(points, inputs, targets, torch.empty_like(points))

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
        inputs, targets = self.data.few(0, 2)
        point = self.flatten(self._module).to(self.device, self.dtype)
        with explained(f"the gradient of {self.name} cannot be computed"):
            leaves = {name: view.requires_grad_() for name, view in self.unflatten(point).items()}
            value = self._value(leaves, inputs, targets)
            check_value(value)
            gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True, materialize_grads=True)
        return torch.cat([value.detach().flatten(), *(gradient.flatten() for gradient in gradients)])

    def flatten(self, module: nn.Module) -> torch.Tensor:
        """Return the parameters of a module as one vector."""
        parameters = dict(module.named_parameters())
        return torch.cat([parameters[name].detach().flatten() for name in self.shapes])

    def unflatten(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the parameters in a vector by name, as views."""
        pieces = torch.split(x, [shape.numel() for shape in self.shapes.values()])
        return {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}

    def mean_loss(self, x: torch.Tensor, inputs: Tree, targets: Tree) -> torch.Tensor:
        """Return the loss of the outputs of the module."""
        return self._value(self.unflatten(x), inputs, targets)

    def _value(self, parameters: dict[str, torch.Tensor], inputs: Tree, targets: Tree) -> torch.Tensor:
        return self.loss_function(functional_call(self._module, parameters, *arguments(inputs)), targets)

    def check_request(self, batch_size: int | None, strategy: str) -> None:
        """Refuse stacked gradients of a module that draws: its draws would depend on which agents are together."""
        super().check_request(batch_size, strategy)
        if self.draws and strategy == "stacked":
            raise InputError(
                f"gradients = 'stacked': the model {type(self._module).__name__} draws random numbers, which must not "
                "depend on the agents that share a process; use gradients=loop or auto."
            )

    def oracle(
        self, batch_size: int | None, seed: int, replacement: bool, agents: range, strategy: str = "stacked"
    ) -> Oracle:
        """Return gradients for a block of agents; random draws in the module depend on (seed, agent, k) alone."""
        if self.by_hand:
            return super().oracle(batch_size, seed, replacement, agents, strategy)
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

    def stacked_gradient(self, points: torch.Tensor, inputs: Tree, targets: Tree, out: torch.Tensor) -> None:
        """Compute all agents at once with vmap."""
        gradient = vmap(grad(self.mean_loss), randomness="error")
        out.copy_(gradient(points.detach(), inputs, targets))

    def looped_gradient(self, points: torch.Tensor, inputs: Batches, targets: Batches, out: torch.Tensor) -> None:
        """Compute agent by agent; each parameter is a leaf that views its part of the row."""
        for i, leaves in enumerate(self._rows_as_leaves(points)):
            value = self._value(leaves, inputs[i], targets[i])
            gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True, materialize_grads=True)
            for place, gradient in zip(self.unflatten(out[i]).values(), gradients, strict=True):
                place.copy_(gradient)

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
        if self.test is None:
            return None
        right = total = 0
        with self._evaluation(), torch.no_grad():
            for inputs, labels in self.test_chunks():
                if not isinstance(labels, torch.Tensor) or labels.is_floating_point() or labels.dim() != 1:
                    return None
                outputs = functional_call(self._module, self.unflatten(x), *arguments(inputs))
                if not isinstance(outputs, torch.Tensor):
                    return None
                right, total = right + int((outputs.argmax(dim=1) == labels).sum()), total + len(labels)
        return right / total

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
        new._leaves = {}
        new.__dict__.pop("_evaluated_module", None)
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
    agents: int | None = None,
    partition: str | None = None,
    test: Data | None = None,
    start: str = "shared",
    sizes: str | None = None,
    seed: int | None = None,
    shards: Sequence[Any] | None = None,
    evaluated: int | None = None,
) -> Supervised:
    """Make a problem for n agents from any module, loss and data.

    Data are pairs (inputs, targets). A tuple or list of inputs becomes module(*inputs), a dict module(**inputs); the
    loss gets targets in the structure that they have.

    - (inputs, targets) with one row per sample, and TensorDatasets, are in memory.
    - Other Datasets are read sample by sample when a batch is drawn: what `__getitem__` draws with torch, `random` or
      `numpy.random` is a function of (seed, agent, iteration), so augmentation is live, and a run can be repeated.
      Evaluations draw the same every time.
    - Of a DataLoader, the dataset, the collate_fn and the batch_size (unless `train` is given another) are used.
      Agents draw their own, always full minibatches.
    - IterableDatasets are streams: iteration k of an agent takes its next batch, whatever `replacement` is; one that
      ends starts again. Of one stream for all, agent i takes samples i, i+n, i+2n, … Resuming reads from the start.
    - A list has one of these for each agent.

    Args:
        model: the module; its output must depend only on its parameters, its input, and random numbers that it draws
            with torch (dropout, noise), which become a function of (seed, agent, iteration). Evaluations of a model
            that draws use its eval mode.
        loss: loss(outputs, targets), the mean over a batch.
        data: one data set for all agents, or a list with one for each.
        agents: n; 10 unless data or shards decide it.
        partition: "iid" (the default), "label" or "dirichlet:A". Labels are `targets` or `labels` of a Dataset, or
            read from all its samples.
        test: data for the accuracy of a classifier, whose answer is the largest output; streams need a length.
        start: "shared" (the parameters of the module) or "independent" (new ones for each agent).
        sizes: "even" (the default) or "uneven" shards.
        seed: determines the partition; 0 by default.
        shards: the sample indices of each agent, instead of a partition.
        evaluated: training samples for evaluating loss and gradient norm, the first of each agent and equally many;
            0, the default, for all. Of streams it is 1,000 by default.

    >>> inputs, targets = torch.randn(60, 3), torch.randn(60, 1)
    >>> problem = supervised(nn.Linear(3, 1), nn.functional.mse_loss, (inputs, targets), agents=4)
    >>> problem.agents, problem.dimension
    (4, 4)
    >>> twice = (inputs, inputs), targets
    >>> supervised(nn.Bilinear(3, 3, 1), nn.functional.mse_loss, twice, shards=[range(50), [50, 51]]).sizes
    [50, 2]
    """
    check_model(model, loss)
    held_out = None if test is None else as_test(test)
    sharded = as_shards(data, agents, partition, sizes, seed, shards)
    problem = Supervised(model, loss, sharded, test=held_out, start=start)
    problem.evaluated = check_evaluated(evaluated, sharded)
    return problem


def _reset(module: nn.Module) -> None:
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()
