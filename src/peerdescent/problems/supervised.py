"""Any nn.Module with a loss and data as a problem: one flat parameter vector per agent."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from peerdescent._util.validation import check_choice
from peerdescent.data import stream
from peerdescent.data.shards import ShardedData, Shards
from peerdescent.data.trees import Tree
from peerdescent.errors import InputError
from peerdescent.problems.base import Buffers, Oracle
from peerdescent.problems.given_data import Data, TestData, as_shards, as_test, check_evaluated
from peerdescent.problems.model_checks import check_model, copied, explained, in_brief
from peerdescent.problems.module_buffers import ConstantBuffers
from peerdescent.problems.module_gradients import ModuleGradients
from peerdescent.problems.module_oracle import ModuleOracle
from peerdescent.problems.module_randomness import (
    EVALUATION_SEED,
    SeededOracle,
    draws_random_numbers,
    own_generator,
)
from peerdescent.problems.sampled import Sampled
from peerdescent.problems.scores import Metrics, Scores, own_scores, scores_on

Loss = Callable[[Any, Any], torch.Tensor]
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
        self._pristine, self.loss_function, self.start_kind = copied(model), loss, start
        self.shapes = {name: p.shape for name, p in model.named_parameters() if p.requires_grad}
        self.dimension = sum(shape.numel() for shape in self.shapes.values())
        if not self.dimension:
            raise InputError(
                f"the model {type(model).__name__} has no parameters with requires_grad; give a trainable model."
            )

    def start(self, seed: int) -> torch.Tensor:
        """Return the parameters of the module for all agents ("shared"), or new ones for each agent ("independent")."""
        if self.start_kind == "shared":
            return self.flatten(self._pristine).expand(self.agents, -1).to(self.device, self.dtype).contiguous()
        rows = [self.flatten(self._fresh(seed, self.number(agent))) for agent in range(self.agents)]
        return torch.stack(rows).to(self.device, self.dtype)

    def _fresh(self, seed: int, number: int) -> nn.Module:
        """Return the module with the new parameters of the agent of that number."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(stream(seed, "start", number).integers(2**62)))
            return copy.deepcopy(self._pristine).cpu().apply(_reset)  # the same numbers whatever the device

    def initial_buffers(self, seed: int) -> Buffers:
        """Return the buffers of the module for all agents, or those of each agent's new module."""
        if self.start_kind != "independent" or not self.changing:
            return super().initial_buffers(seed)
        fresh = [dict(self._fresh(seed, self.number(agent)).named_buffers()) for agent in range(self.agents)]
        return {name: torch.stack([buffers[name] for buffers in fresh]).to(self.device) for name in self.changing}

    def preferred_strategy(self) -> tuple[str, str]:
        """Return "loop" for convolutions and for modules that vmap cannot run, otherwise "stacked".

        >>> data = torch.randn(8, 3), torch.randn(8, 1)
        >>> supervised(nn.Linear(3, 1), nn.functional.mse_loss, data, agents=2).preferred_strategy()
        ('stacked', 'vmap over the agents')
        """
        if self.by_hand:
            return super().preferred_strategy()
        if self.changing:
            return "loop", "the forward pass changes buffers of the model"
        if self.draws:
            return "loop", "the model draws random numbers"
        if any(isinstance(module, _ConvNd) for module in self._module.modules()):
            return "loop", "convolutions are faster agent by agent"
        if not self.data.regular:
            return "loop", "batches of a collate_fn may differ in shape"
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
        return draws_random_numbers(self._sample_gradient, self.device, self._called)

    def _sample_gradient(self, samples: int = 2) -> torch.Tensor:
        """Return the loss and gradient of agent 0 on some samples, as one vector."""
        point = self.flatten(self._pristine).to(self.device, self.dtype)
        with explained(f"the gradient of {self.name} cannot be computed"):
            leaves = {name: view.requires_grad_() for name, view in self.unflatten(point).items()}
            value, gradients = self.differentiate(leaves, *self.data.few(0, samples))
        return torch.cat([value.detach().flatten(), *(gradient.flatten() for gradient in gradients)])

    def check_request(self, batch_size: int | None, strategy: str) -> None:
        """Refuse to stack agents whose module draws or changes buffers: that must not depend on who is together."""
        compiled = strategy == "compiled" and not self.by_hand
        super().check_request(batch_size, "stacked" if compiled else strategy)
        if compiled:
            self.check_compiled(batch_size)
        if strategy != "loop" and (self.changing or self.draws):
            does = "changes its buffers" if self.changing else "draws random numbers"
            raise InputError(
                f"gradients = {strategy!r}: {self._called} {does}, which must not depend on the agents that share a "
                "process; use gradients=loop or auto."
            )

    def oracle(
        self, batch_size: int | None, seed: int, replacement: bool, agents: range, strategy: str = "stacked"
    ) -> Oracle:
        """Return gradients for a block of agents; random draws in the module depend on (seed, agent, k) alone."""
        if self.by_hand:
            return super().oracle(batch_size, seed, replacement, agents, strategy)
        self.check_request(batch_size, strategy)
        if (min(self.sizes) if batch_size is None else batch_size) == 1:
            with own_generator(self.device):
                self._sample_gradient(1)  # some layers need more samples: refused before anything is written
        if strategy == "compiled":
            self.compile_for(len(agents), batch_size)
        rows = {name: every[agents.start : agents.stop].clone() for name, every in self.initial_buffers(seed).items()}
        if self.draws or rows:
            views = [self.updating({name: row[i] for name, row in rows.items()}) for i in range(len(agents))]
            each = [
                Sampled.oracle(view, batch_size, seed, replacement, range(agent, agent + 1), strategy)
                for agent, view in zip(agents, views, strict=True)
            ]
            oracle: Oracle = SeededOracle(each, seed, [self.number(agent) for agent in agents], self.device)
        else:
            oracle = super().oracle(batch_size, seed, replacement, agents, strategy)
        constants = ConstantBuffers(self._module, self.changing, self._called)
        return ModuleOracle(oracle, rows, constants, f"the gradient of {self.name} cannot be computed")

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
        """Evaluate a module that draws or changes buffers in eval mode; what it draws all the same is always alike."""
        with explained(f"{self.name} cannot be evaluated"):
            if not (self.changing or self.draws):
                yield
                return
            training, self._module = self._module, self._evaluated_module
            try:
                with own_generator(self.device) as seed:
                    seed(EVALUATION_SEED)
                    yield
            finally:
                self._module = training

    def accuracy(self, x: torch.Tensor) -> float | None:
        """Return the fraction of test samples whose class has the largest output; None without test data or classes."""
        return self.scores(x, {})["accuracy"]

    def scores(self, x: torch.Tensor, metrics: Metrics) -> Scores:
        """Return test loss, accuracy (None without classes), and metrics of (outputs, targets) on all test data."""
        if self.test is None:
            if metrics:
                raise InputError(
                    f"the metric {next(iter(metrics))!r} needs test data, and {self.name} has none: pass test=... to "
                    "the problem (the training data, if you mean those)."
                )
            return {"accuracy": None}
        with self._evaluation(), torch.no_grad():
            found, kept = scores_on(partial(self.outputs, x), self.test_chunks(), self.loss_function, bool(metrics))
        return {**found, **own_scores(metrics, *kept)}

    def model(self, x: torch.Tensor) -> nn.Module:
        """Return a copy of the module with parameters x and the buffers of this view."""
        module = copy.deepcopy(self._pristine).to(x.device, x.dtype)
        with torch.no_grad():
            tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
            for name, value in {**self.unflatten(x), **(self._given or {})}.items():
                tensors[name].copy_(value)
        return module


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
    - Of a DataLoader, the dataset, collate_fn and (unless `train` is given another) batch_size are used.
    - IterableDatasets are streams: iteration k of an agent takes its next batch, whatever `replacement` is; one that
      ends starts again. Of one stream for all, agent i takes samples i, i+n, i+2n, … Resuming reads from the start.
    - A list has one of these for each agent.

    Args:
        model: the module; its output must depend only on its parameters, its buffers, its input, and random numbers
            that it draws with torch (dropout, noise), which become a function of (seed, agent, iteration). Buffers
            that its forward pass changes, such as running statistics, belong to each agent and are never sent; the
            others are shared. Evaluations of a model that draws or changes buffers use its eval mode. Parameters with
            requires_grad=False stay as they are.
        loss: loss(outputs, targets), the mean over a batch.
        data: one data set for all agents, or a list with one for each.
        agents: n; 10 unless data or shards decide it.
        partition: "iid" (the default), "label" or "dirichlet:A", by `targets`, `labels` or samples of a Dataset.
        test: data for the test loss, your own metrics, and the accuracy of a classifier; streams need a length.
        start: "shared" (the parameters of the module) or "independent" (new ones for each agent, drawn by the
            `reset_parameters` of its layers).
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
    attention = isinstance(module, nn.MultiheadAttention | nn.Transformer)
    reset = getattr(module, "_reset_parameters" if attention else "reset_parameters", None)
    if callable(reset):
        reset()
