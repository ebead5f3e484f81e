"""One agent's trainable parameters as a row of its method's state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from peerdescent.algorithms import Algorithm, varied
from peerdescent.algorithms.state import initial_state
from peerdescent.errors import InputError
from peerdescent.kernels.update import make_update, synchronize_messages
from peerdescent.mixing.network import MemoryNetwork
from peerdescent.mixing.periods import Period
from peerdescent.optim.precision import state_dtype
from peerdescent.training.added_updates import gradient_rate


class Bucket:
    """Some parameters, moved into one row that a method updates in place; they become views of it.

    In half precision they stay where they are and hold the row rounded: the state is in single precision.

    The messages of the next iteration leave at the end of `step`, unless they need its gradient.

    Args:
        parameters: by name, of one dtype, on one device.
        algorithm: the method.
        network: this agent and its neighbours.
        kernel: "auto", "compiled", "torch" or "plain".
        communication_period: iterations from one exchange to the next, or a schedule of them.
    """

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        algorithm: Algorithm,
        network: MemoryNetwork,
        kernel: str = "auto",
        communication_period: Period = 1,
    ) -> None:
        self.names, self.parameters, self.k = list(parameters), list(parameters.values()), 0
        self._shapes = [p.shape for p in self.parameters]
        dtype = self.parameters[0].dtype
        self._rounded = dtype != state_dtype(dtype)
        x = torch.cat([p.detach().reshape(-1) for p in self.parameters])[None].to(state_dtype(dtype))
        x = network.mean(x) if algorithm.common_start else x
        self.update = make_update(algorithm, initial_state(algorithm, x), network, kernel, 1, communication_period)
        self._gradients = self._pieces(self.update.gradient)

    def start(self) -> None:
        """Send the first messages, and make the parameters views of the point where the gradient is wanted."""
        point = self.update.begin(0)
        self.at_x = point.data_ptr() == self.update.state["x"].data_ptr()
        """Whether the gradient is wanted at x itself."""
        self._at = self.update.state["x"] if self.at_x else point.clone()
        self._here = self._at
        """The point of the current gradient: `_at`, unless the step wants a further gradient elsewhere."""
        self._exact = self._pieces(self._at)
        self._views = [p.data for p in self.parameters] if self._rounded else self._exact
        self._round()
        self.link()

    def link(self) -> None:
        """Make the parameters views of the point where the gradient is wanted."""
        for parameter, view in zip(self.parameters, self._views, strict=True):
            parameter.data = view

    def check_linked(self) -> None:
        """Check that the parameters are still views of the row.

        Raises:
            InputError: one is not; the message names it.
        """
        for name, parameter, view in zip(self.names, self.parameters, self._views, strict=True):
            if not shares_memory(parameter, view):
                raise InputError(
                    f"{name} no longer shares memory with its optimizer, because it was replaced after the optimizer "
                    "was built, as model.to(), model.double() and vector_to_parameters() do: build the optimizer "
                    "after that, or call restart() in all processes to go on from the new values."
                )

    def memory(self) -> dict[str, list[torch.Tensor]]:
        """The state besides the parameters, as views in their shapes, by name."""
        names = [name for name in self.update.state if name != "x" or not self.at_x or self._rounded]
        return {name: self._pieces(self.update.state[name]) for name in names}

    def solution(self) -> list[torch.Tensor]:
        """x in the parameters' shapes."""
        return self._pieces(self.update.state["x"])

    def take_gradients(self) -> None:
        """Copy the parameters' gradients; a missing one counts as zero."""
        given = [(piece, p.grad) for piece, p in zip(self._gradients, self.parameters, strict=True)]
        present = [(piece, grad) for piece, grad in given if grad is not None]
        if any(grad.is_sparse for _, grad in present):
            raise InputError("a parameter has a sparse gradient: decentralized methods need dense ones (sparse=False).")
        if len(present) < len(given):
            self.update.gradient.zero_()
        if present:
            pieces, grads = zip(*present, strict=True)
            torch._foreach_copy_(pieces, grads)

    def again(self, algorithm: Algorithm, weight_decay: float = 0.0) -> None:
        """Go on to the next gradient of the iteration with the one taken, and move the parameters to its point."""
        self.update.set_hyperparameters(algorithm, self.k)
        if weight_decay:
            self.update.gradient.add_(self._here, alpha=weight_decay)
        self._here = self.update.again(self.k)
        if self._rounded:
            torch._foreach_copy_(self._views, self._pieces(self._here))
            return
        for parameter, piece in zip(self.parameters, self._pieces(self._here), strict=True):
            parameter.data = piece

    def go_back(self) -> None:
        """Move the parameters back to the point of the first gradient."""
        self.link()
        self._round()

    def step(
        self,
        algorithm: Algorithm,
        weight_decay: float = 0.0,
        decoupled: bool = False,
        mean: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        """One iteration with the gradients taken and the hyperparameters of this variant of the method.

        Weight decay λ adds λ times the parameters to the gradient, or, decoupled, subtracts ηλx after the step.
        """
        self.update.set_hyperparameters(algorithm, self.k)
        x = self.update.state["x"]
        before = x.clone() if weight_decay and decoupled else None
        if weight_decay and not decoupled:
            self.update.gradient.add_(self._here, alpha=weight_decay)
        self.update.finish(self.k)
        if before is not None:
            x.sub_(before, alpha=algorithm.hyperparameters(self.k)[gradient_rate(algorithm)] * weight_decay)
        if mean is not None:
            state = self.update.state
            for name, row in algorithm.global_average(SimpleNamespace(**state), SimpleNamespace(mean=mean)).items():
                state[name].copy_(row)
        self.k += 1
        self.begin()

    def begin(self) -> None:
        """Send the messages that are ready, and move the parameters to the next gradient's point."""
        point = self.update.begin(self.k)
        if point.data_ptr() != self._at.data_ptr():
            self._at.copy_(point)
        self._here = self._at
        self._round()

    def _round(self) -> None:
        """Write the row to parameters in half precision."""
        if self._rounded:
            torch._foreach_copy_(self._views, self._exact)

    def adopt(self) -> None:
        """Use the current values of parameters that were replaced, and link them again."""
        for name, parameter, view in zip(self.names, self.parameters, self._views, strict=True):
            kinds = [f"{tuple(t.shape)} of {t.dtype} on {t.device}" for t in (parameter, view)]
            if kinds[0] != kinds[1]:
                raise InputError(
                    f"{name} is now {kinds[0]}, and its optimizer was built for {kinds[1]}: build a new optimizer in "
                    "all processes."
                )
        if self._rounded:
            torch._foreach_copy_(self._exact, self.current())
        for parameter, view in zip(self.parameters, self._views, strict=True):
            if not shares_memory(parameter, view):
                view.copy_(parameter.detach())
        self.link()

    def current(self) -> list[torch.Tensor]:
        """Copies of the parameters; in single precision where one in half precision is still the row, rounded."""
        if not self._rounded:
            return [p.detach().clone() for p in self.parameters]
        pairs = zip(self.parameters, self._exact, strict=True)
        return [
            exact.clone() if torch.equal(p.detach(), exact.to(p.dtype)) else p.detach().to(exact.dtype)
            for p, exact in pairs
        ]

    def restart(self, k: int, memory: Mapping[str, Sequence[torch.Tensor]]) -> None:
        """Continue at iteration k from the current parameters and a saved memory."""
        self.update.wait()
        for name, pieces in self.memory().items():
            for piece, value in zip(pieces, memory[name], strict=True):
                piece.copy_(value)
        synchronize_messages(self.update)
        self.k = k
        self.begin()

    def _pieces(self, row: torch.Tensor) -> list[torch.Tensor]:
        """A row in the parameters' shapes; several vectors, such as copies for neighbours, have their count first."""
        sizes = [shape.numel() for shape in self._shapes]
        vectors = row.view(-1, sum(sizes))
        count = () if len(vectors) == 1 else (len(vectors),)
        pieces = zip(torch.split(vectors, sizes, dim=1), self._shapes, strict=True)
        return [piece.view(*count, *shape) for piece, shape in pieces]


def shares_memory(parameter: torch.Tensor, view: torch.Tensor) -> bool:
    """Whether a parameter is the same view of the same memory; not every device can tell by itself."""
    if parameter.device.type == "cpu" and view.device.type == "cpu":
        return parameter.is_set_to(view)
    kinds = [(t.device, t.dtype, t.data_ptr(), t.shape, t.stride()) for t in (parameter, view)]
    return kinds[0] == kinds[1]


def with_numbers(algorithm: Algorithm, numbers: dict[str, Any]) -> Algorithm:
    """The method with other hyperparameters; the same object if they are equal."""
    if all(getattr(algorithm, name) == value for name, value in numbers.items()):
        return algorithm
    return varied(algorithm, **numbers)
