"""Parameters of one dtype as one row that an agent sends to its neighbours."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from peerdescent.errors import InputError
from peerdescent.mixing.network import BlockNetwork, MemoryNetwork
from peerdescent.optim.precision import state_dtype


class ParameterRow:
    """Some parameters, which stay where they are, and the exchange of a row of their size.

    Rows of parameters in half precision are in single precision.

    Args:
        parameters: by name, of one dtype, on one device.
        network: this agent and its neighbours.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], network: MemoryNetwork) -> None:
        self.names, self.parameters, self.network = list(parameters), list(parameters.values()), network
        self._kinds = [_kind(p) for p in self.parameters]
        self._shapes = [p.shape for p in self.parameters]
        self._exchange = network.exchange(self.values(), False) if isinstance(network, BlockNetwork) else None
        self.sent = False
        """Whether a message has left whose answers are not used yet."""
        self._in_flight = False

    def values(self) -> torch.Tensor:
        """A copy of the parameters as a row, 1×p."""
        row = torch.cat([p.detach().reshape(-1) for p in self.parameters])[None]
        return row.to(state_dtype(row.dtype))

    def assign(self, row: torch.Tensor) -> None:
        """Set the parameters to a row."""
        pieces = torch.split(row[0], [shape.numel() for shape in self._shapes])
        views = [piece.view(shape) for piece, shape in zip(pieces, self._shapes, strict=True)]
        torch._foreach_copy_([p.detach() for p in self.parameters], views)

    def send(self, row: torch.Tensor, k: int) -> None:
        """Send a row to the neighbours of the exchange in step k; returns at once. An unused answer is dropped."""
        self.wait()
        self.sent = True
        if self._exchange is not None:
            self.network.begin(k)
            self._exchange.outgoing.copy_(row.to(torch.bfloat16) if self.network.rounded else row)
            self._exchange.start(k)
            self._in_flight = True

    def wait(self) -> None:
        """Await the message in flight."""
        if self._in_flight and self._exchange is not None:
            self._in_flight = False
            self._exchange.wait()

    def disagreement(self) -> torch.Tensor:
        """(I−W) times the row that was sent, as soon as the neighbours' rows are here: exactly 0 if all are equal."""
        self.wait()
        self.sent = False
        if self._exchange is None:  # a single agent
            return torch.zeros_like(self.values()[:, :1])
        return self.network.disagreement_matrix @ self._exchange.rows

    def memory(self) -> dict[str, torch.Tensor]:
        """What messages keep from one exchange to the next, such as copies; empty unless they are compressed."""
        return {} if self._exchange is None else self._exchange.memory

    def synchronize(self) -> None:
        """Tell the neighbours what `memory` holds, after it was written; in all processes together."""
        if self._exchange is not None:
            self._exchange.synchronize()

    def check(self) -> None:
        """Check that the parameters have kept their shapes and dtypes.

        Raises:
            InputError: one has not; the message names it.
        """
        for name, parameter, kind in zip(self.names, self.parameters, self._kinds, strict=True):
            if _kind(parameter) != kind:
                raise InputError(
                    f"{name} is now {_text(_kind(parameter))}, and its optimizer was built for {_text(kind)}: build a "
                    "new optimizer in all processes."
                )


def _kind(p: torch.Tensor) -> tuple[torch.Size, torch.dtype, torch.device]:
    return p.shape, p.dtype, p.device


def _text(kind: tuple[torch.Size, torch.dtype, torch.device]) -> str:
    return f"{tuple(kind[0])} of {kind[1]} on {kind[2]}"
