"""How a run is carried out."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from peerdescent._util.validation import check_integer
from peerdescent.errors import InputError

DTYPES = {"float32": torch.float32, "float64": torch.float64}
GRADIENTS = ("auto", "stacked", "loop")
MESSAGE_DTYPES = ("full", "bf16")
EVALUATIONS = 50


@dataclass(frozen=True)
class Settings:
    """How a run is carried out; what is minimised, where and by what stands elsewhere.

    Args:
        iterations: how many.
        batch_size: samples per agent and iteration; None for exact gradients.
        seed: decides starts and minibatches.
        laplacian: kind of L; "matched" is (I−W)/(αη).
        mixing: kind of W.
        replacement: draw minibatches with replacement, or in epochs.
        communication_period: iterations from one exchange of messages to the next.
        message_dtype: "full" sends messages in the precision of the state, "bf16" rounds them to bfloat16.
        eval_every: iterations between evaluations; None for fifty in all.
        per_agent: measure every agent too, not only x̄.
        device: where the tensors live.
        dtype: float32 or float64.
        threads: processor threads; None leaves torch's setting alone.
        kernel: auto, compiled or plain.
        gradients: auto, stacked or loop.
    """

    iterations: int = 1000
    batch_size: int | None = None
    seed: int = 0
    laplacian: str = "metropolis"
    mixing: str = "metropolis"
    replacement: bool = True
    communication_period: int = 1
    message_dtype: str = "full"
    eval_every: int | None = None
    per_agent: bool = True
    device: str = "cpu"
    dtype: str = "float32"
    threads: int | None = 1
    kernel: str = "auto"
    gradients: str = "auto"

    def __post_init__(self) -> None:
        lowest = {"iterations": 0, "seed": 0, "communication_period": 1, "batch_size": 1, "eval_every": 1, "threads": 1}
        for name, low in lowest.items():
            value = getattr(self, name)
            if value is not None or name in ("iterations", "seed", "communication_period"):
                object.__setattr__(self, name, check_integer(name, value, low, 2**63))
        if self.dtype not in DTYPES:
            raise InputError(f"dtype = {self.dtype!r}: expected float32 or float64.")
        if self.message_dtype not in MESSAGE_DTYPES:
            raise InputError(f"message_dtype = {self.message_dtype!r}: expected one of {', '.join(MESSAGE_DTYPES)}.")
        if self.gradients not in GRADIENTS:
            raise InputError(f"gradients = {self.gradients!r}: expected one of {', '.join(GRADIENTS)}.")

    @property
    def interval(self) -> int:
        """Iterations between evaluations."""
        return self.eval_every or max(1, self.iterations // EVALUATIONS)

    def place(self) -> tuple[torch.device, torch.dtype]:
        """The device and dtype, if this machine has them."""
        try:
            device = torch.device(self.device)
            float(torch.zeros(1, device=device, dtype=DTYPES[self.dtype]))  # some devices only pretend to hold numbers
        except (RuntimeError, AssertionError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"device = {self.device!r} cannot be used here: {reason}") from error
        return device, DTYPES[self.dtype]
