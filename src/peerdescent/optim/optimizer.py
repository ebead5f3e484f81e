"""Any method as a torch optimizer: one agent per process."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from typing_extensions import Unpack

from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.mixing.network import make_network
from peerdescent.mixing.periods import Periods
from peerdescent.mixing.sequence_weights import Weights, make_weights
from peerdescent.optim.bucket import Bucket, with_numbers
from peerdescent.optim.collective import CollectiveOptimizer
from peerdescent.optim.compression import compression_from, on_processes
from peerdescent.optim.precision import restore_precision, state_dtype
from peerdescent.optim.setup import STARTS, Options, check_options, check_weight_decay, group_of
from peerdescent.training.added_updates import gradient_rate

Parameters = Iterable[torch.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, torch.Tensor]]


class Decentralized(CollectiveOptimizer):
    """Any method of the library, or your own, as an optimizer.

    Each parameter group is a separate row with its own hyperparameters: `lr` (the method's η, or the weight of its
    gradient) and the method's other rates under their names. LR schedulers or your code may change them between
    steps; rates that are schedules evolve by themselves and do not appear in the groups.

    Only parameters that require a gradient when the optimizer is built are updated and sent; all processes must agree
    on which. One that is frozen later still mixes, with a zero gradient once its `grad` is None.

    All processes make the same calls in the same order; if they do not, the calls raise an InputError that names who
    did what.

    Args:
        params: parameters or parameter groups; those to train have one dtype per group and are on one device.
        graph: the communication graph, one agent per process: a Graph, a networkx graph or a text such as "ring:4".
        algorithm: the method.
        **options: see `Options`.

    >>> from peerdescent.algorithms import make
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = Decentralized(model.parameters(), "complete:1", make("d-sgd-1", eta=0.1))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> before = model.bias.item()
    >>> opt.step()
    >>> round(before - model.bias.item(), 6)
    0.1
    """

    def __init__(self, params: Parameters, graph: object, algorithm: Algorithm, **options: Unpack[Options]) -> None:
        check_options(options)
        self.algorithm = algorithm
        self._names = {name: _key(name, algorithm) for name in _numbers(algorithm)}
        self._decoupled, self._average_every = options.get("decay") == "decoupled", options.get("average_every")
        known = {key: getattr(algorithm, name) for name, key in self._names.items()}
        super().__init__(params, {"weight_decay": options.get("weight_decay") or 0.0, **known})
        for group in self.param_groups:
            check_weight_decay(group)
        trained = self._prepare(graph, group_of(options))
        with self._call(f"{type(self).__name__}(...)"):
            self._set_up(trained, options)
        self._expose_state()

    def _set_up(self, trained: Sequence[dict[str, torch.Tensor]], options: Options) -> None:
        """Check that all processes agree, and make a row for each group that has parameters to train."""
        known = {name: options.get(name, "default") for name in Options.__annotations__}
        self._check_same({"method": type(self.algorithm).__name__}, trained, known)
        if options.get("start", STARTS[0]) == "shared":
            self._share_parameters()
        kinds = options.get("laplacian", "metropolis"), options.get("mixing", "metropolis")
        weights = make_weights(self.graph, *kinds, self.algorithm)
        self._compression = compression_from(self.algorithm, weights, options)
        self.notes = weights.notes + self._compression.notes
        self._trained_groups = [number for number, parameters in enumerate(trained) if parameters]
        self._buckets = [self._bucket(number, trained[number], weights, options) for number in self._trained_groups]
        if self._peers is not None:  # both kernels send the same messages, but not in the same order
            kernels = [bucket.update.description.partition(" (")[0] for bucket in self._buckets]
            self._peers.check_same_on_all_ranks({"kernel": ", ".join(kernels)})
        for bucket in self._buckets:
            bucket.start()

    def _bucket(self, number: int, parameters: dict[str, torch.Tensor], weights: Weights, options: Options) -> Bucket:
        one = next(iter(parameters.values()))
        message_dtype = options.get("message_dtype", "same")
        if self._peers is not None:
            self._peers.prepare_device(one.device)
        kernel = options.get("kernel", "auto")
        periods = Periods.parse(options.get("communication_period", 1)).seeded(options.get("seed", 0))
        rounds_before = periods.rounds_before
        filters, pairs = on_processes(self._compression, weights, rounds_before, self._peers)
        network = make_network(
            weights,
            state_dtype(one.dtype),
            one.device,
            message_dtype,
            self._peers,
            traffic=self._traffic,
            rounds_before=rounds_before,
            filters=filters,
            consensus_step=self._compression.step,
            pairs=pairs,
        )
        return Bucket(parameters, self._variant(self.param_groups[number]), network, kernel, periods)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in torch, but only during construction: other agents would not know of a later group."""
        if hasattr(self, "_buckets"):
            raise InputError("a parameter group cannot be added later: make a new optimizer in all processes.")
        super().add_param_group(param_group)

    def _take_gradients(self) -> None:
        if self._gradients > 1 and self._closure is None:
            raise InputError(
                f"{type(self.algorithm).__name__} needs {self._gradients} gradients per step, at different points on "
                "one batch: call step(closure) with a function that clears the gradients, computes the loss of the "
                "batch, calls backward() and returns the loss; this excludes a GradScaler."
            )
        for bucket in self._buckets:
            bucket.take_gradients()

    @property
    def _gradients(self) -> int:
        """The gradients that the next step wants."""
        return max(bucket.update.gradients_at(bucket.k) for bucket in self._buckets)

    def _take_further_gradients(self, active: bool) -> None:
        """Compute the gradients at the next points, all parameter groups together, with the closure."""
        for group, bucket in self._rows():
            bucket.again(self._variant(group), 0.0 if self._decoupled else self._decay(group, active))
        try:
            if active and self._closure is not None:
                self.zero_grad()
                with torch.enable_grad():
                    self._closure()
                for bucket in self._buckets:
                    bucket.take_gradients()
        finally:
            for bucket in self._buckets:
                bucket.go_back()

    def _decay(self, group: dict[str, Any], active: bool) -> float:
        return float(group.get("weight_decay", 0.0)) if active else 0.0

    def _iterate(self, active: bool) -> int:
        """One iteration; a parameter without a gradient, and an inactive process, count as having a zero one.

        An inactive process has the hyperparameters of those that still step (the largest, where they differ).
        """
        if self._joining:
            self._share_hyperparameters(active)
        for _, bucket in self._rows() if not active else ():
            bucket.update.gradient.zero_()
        for _ in range(1, self._gradients):
            self._take_further_gradients(active)
        for group, bucket in self._rows():
            decay = self._decay(group, active)
            merging = self._average_every is not None and (bucket.k + 1) % self._average_every == 0
            bucket.step(self._variant(group), decay, self._decoupled, self._mean_sent if merging else None)
            group["step"] = bucket.k
        return self._buckets[0].k

    def _solution(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [pair for bucket in self._buckets for pair in zip(bucket.parameters, bucket.solution(), strict=True)]

    @torch.no_grad()
    def restart(self) -> None:
        """Use the current parameters as x and send them again; call it in all processes together."""
        current = [bucket.current() for bucket in self._buckets]
        for bucket in self._buckets:
            bucket.adopt()
        with self._call("restart()"):
            self._agree()
            for (group, bucket), values in zip(self._rows(), current, strict=True):
                memory = bucket.memory()
                if "x" in memory:  # the parameters are views of another point
                    memory["x"] = values
                bucket.restart(group["step"], memory)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved optimizer; load the model first, and both in all processes together."""
        super().load_state_dict(state_dict)
        restore_precision(self, state_dict)
        with torch.no_grad():
            for bucket in self._buckets:
                bucket.adopt()
            with self._call("load_state_dict()"):
                self._agree()
                for group, bucket in self._rows():
                    saved = {name: [self.state[p][name] for p in bucket.parameters] for name in bucket.memory()}
                    bucket.restart(group["step"], saved)
        self._expose_state()

    def wait(self) -> None:
        """Await all messages in flight, in all processes together; call it before the process group is destroyed."""
        with self._call("wait()"):
            for bucket in self._buckets:
                bucket.update.wait()
            self._agree()  # what this agent has sent has arrived

    def _rows(self) -> Iterator[tuple[dict[str, Any], Bucket]]:
        """The groups that have parameters to train, and their rows; torch may replace the groups."""
        return zip((self.param_groups[number] for number in self._trained_groups), self._buckets, strict=True)

    def _check_parameters(self) -> None:
        for bucket in self._buckets:
            bucket.check_linked()
        super()._check_parameters()

    def _share_hyperparameters(self, active: bool) -> None:
        """Take over the hyperparameters of the active processes, if this one is not."""
        places = [(group, key) for group, _ in self._rows() for key in self._names.values()]
        values = torch.tensor(
            [float(group[key]) if active else -math.inf for group, key in places], dtype=torch.float64
        )
        if self._peers is not None and places:
            self._peers.all_reduce(values, dist.ReduceOp.MAX)
        if not active:
            for (group, key), value in zip(places, values.tolist(), strict=True):
                group[key] = value

    def _variant(self, group: dict[str, Any]) -> Algorithm:
        """The method with this group's hyperparameters."""
        return with_numbers(self.algorithm, {name: float(group[key]) for name, key in self._names.items()})

    def _expose_state(self) -> None:
        """Make the torch state of every parameter to train views of the method's state."""
        for group, bucket in self._rows():
            group["step"] = bucket.k
            for name, pieces in bucket.memory().items():
                for parameter, piece in zip(bucket.parameters, pieces, strict=True):
                    self.state[parameter][name] = piece


def _numbers(algorithm: Algorithm) -> list[str]:
    """The rates that are plain numbers."""
    return [name for name in algorithm.rates if isinstance(getattr(algorithm, name), float)]


def _key(name: str, algorithm: Algorithm) -> str:
    """A rate's name in a parameter group: the one that multiplies the gradient is torch's lr."""
    return "lr" if name == gradient_rate(algorithm) else name
