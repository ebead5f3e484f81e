"""The settings of a run: types, ranges, defaults and help texts, defined here and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from peerdescent._util.schema import LARGEST, Schema, about
from peerdescent.errors import InputError
from peerdescent.mixing.periods import Periods, plain_period

if TYPE_CHECKING:
    import torch

WHOLE_SHARDS = 0
"""The batch size that asks for exact gradients."""
EVALUATIONS = 50
PER_AGENT_UP_TO = 64
"""Agents up to which each of them is evaluated unless the user decides: all of them take time proportional to n."""
MOST_THREADS = 1024
"""More than any run can use; far more make the system refuse to start them."""
KINDS: tuple[Literal["laplacian"], Literal["mixing"]] = ("laplacian", "mixing")
LONGEST_DELAY = 1000
"""Rounds; a sender keeps its messages of so many."""
MOST_NOISE = 1e30
"""More would overflow single precision."""
UNCOMPRESSED = "none"
RUN, NETWORK, COMPUTE = "Run", "Communication", "Computation"


class Settings(Schema, frozen=True, kw_only=True):
    """How a run is carried out. `train` takes these as keyword arguments, an experiment file as keys.

    >>> Settings(iterations=100).interval
    2
    >>> Settings(dtype="float16")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: dtype = 'float16': expected one of float32, float64.
    """

    iterations: Annotated[int, about("Number of iterations.", "K", RUN, ge=0, le=LARGEST)] = 3000
    batch_size: Annotated[
        int,
        about("Samples per agent and iteration; 0 uses whole shards: exact gradients.", "B", RUN, ge=0, le=LARGEST),
    ] = 20
    seed: Annotated[int, about("Decides starting points and minibatches.", "S", RUN, ge=0, le=LARGEST)] = 0
    replacement: Annotated[bool, about("Draw minibatches with replacement, or in epochs.", panel=RUN)] = True
    eval_every: Annotated[
        int | None, about("Iterations between evaluations; 50 evaluations unless given.", "K", RUN, ge=1, le=LARGEST)
    ] = None
    per_agent: Annotated[
        bool | None, about("Evaluate every agent too, not only the average; up to 64 agents unless given.", panel=RUN)
    ] = None
    running_statistics: Annotated[
        Literal["average", "recalibrate"],
        about(
            "Of BatchNorm layers in the averaged model: the mean of the agents', or computed anew on training samples.",
            panel=RUN,
        ),
    ] = "average"
    weight_decay: Annotated[
        float | None, about("λ of weight decay: adds λx to every gradient, or see --decay.", "L", RUN, ge=0, le=LARGEST)
    ] = None
    decay: Annotated[
        Literal["coupled", "decoupled"] | None,
        about("λx joins the gradient (coupled, unless given), or ηλx is subtracted after the step.", panel=RUN),
    ] = None
    gradient_noise: Annotated[
        str | None,
        about(
            "Add noise of mean 0 to every gradient: gaussian, student-t:NU, exponential or pareto:A; :SCALE scales it.",
            "KIND",
            RUN,
        ),
    ] = None
    clip_norm: Annotated[
        float | None, about("Scale every agent's gradient to at most this norm.", "C", RUN, gt=0, le=LARGEST)
    ] = None
    ema: Annotated[
        float | None, about("Also evaluate a moving average of x with this decay, such as 0.999.", "D", RUN, gt=0, lt=1)
    ] = None
    patience: Annotated[
        int | None, about("Stop after so many evaluations without improvement.", "N", RUN, ge=1, le=LARGEST)
    ] = None
    monitor: Annotated[
        str | None,
        about("What must improve: loss, unless given; test_loss, accuracy, your NAME, or NAME:max.", "NAME", RUN),
    ] = None
    laplacian: Annotated[
        str,
        about(
            "L: metropolis, unit or weighted, optionally with :SCALE; matched, (I−W)/(αη); or your own, file:L.csv.",
            "KIND",
            NETWORK,
        ),
    ] = "metropolis"
    mixing: Annotated[
        str,
        about(
            "W: metropolis, lazy, max-degree, uniform, weighted, best-constant or fastest; or your own, file:W.csv.",
            "KIND",
            NETWORK,
        ),
    ] = "metropolis"
    communication_period: Annotated[
        int | str,
        about(
            "Exchange messages in every M-th iteration only; 8,4@1000,1@3000 changes M at those iterations; random:P "
            "exchanges with probability P.",
            "M",
            NETWORK,
            parse=plain_period,
        ),
    ] = 1
    average_every: Annotated[
        int | None, about("Set all agents to their mean after every P-th iteration.", "P", NETWORK, ge=1, le=LARGEST)
    ] = None
    final_average: Annotated[
        bool | None, about("Set all agents to their mean after the last iteration.", panel=NETWORK)
    ] = None
    message_dtype: Annotated[
        Literal["same", "bf16"],
        about("Messages in the precision of --dtype, or rounded to bfloat16 (half the bytes or less).", panel=NETWORK),
    ] = "same"
    drop: Annotated[
        str | None,
        about(
            "Lose messages: with probability P in every round, or in bursts (gilbert:P:R or gilbert:P:R:LOSS: an edge "
            "turns bad with P, good with R); :one-sided at the end loses each direction by itself.",
            "P",
            NETWORK,
        ),
    ] = None
    inactive: Annotated[
        str | None,
        about(
            "Agents do nothing at times: with probability P in every iteration, for a while (markov:P:R), or in turns "
            "(cyclic:PERIOD:OFF).",
            "P",
            NETWORK,
        ),
    ] = None
    delay: Annotated[int, about("Messages arrive D rounds late.", "D", NETWORK, ge=0, le=LONGEST_DELAY)] = 0
    message_noise: Annotated[
        float, about("σ of Gaussian noise on every entry of every message.", "S", NETWORK, ge=0, le=MOST_NOISE)
    ] = 0.0
    compress: Annotated[
        str | None,
        about(
            "Send compressed changes of public copies: topk:SHARE, randk:SHARE, qsgd:BITS, sign, bf16; or none, as "
            "most methods do unless it is given.",
            "KIND",
            NETWORK,
        ),
    ] = None
    consensus_step: Annotated[
        float | None,
        about("c: multiplies L and I−W; 1, or less if compressed, unless given.", "C", NETWORK, gt=0, le=1),
    ] = None
    device: Annotated[str, about("Where the tensors are: cpu, cuda, cuda:1, mps, xpu, …", "DEVICE", COMPUTE)] = "cpu"
    dtype: Annotated[Literal["float32", "float64"], about("Precision of the state.", panel=COMPUTE)] = "float32"
    threads: Annotated[int | None, about("CPU threads per process.", "N", COMPUTE, ge=1, le=MOST_THREADS)] = 1
    kernel: Annotated[
        Literal["auto", "compiled", "torch", "plain"],
        about("The update: one fused C pass, torch.compile, or plain PyTorch; auto: C on the CPU.", panel=COMPUTE),
    ] = "auto"
    gradients: Annotated[
        Literal["auto", "stacked", "loop", "compiled", "measure"],
        about(
            "All agents at once, or one by one; compiled: all at once, by a function that is compiled first; auto "
            "follows a fixed rule, and measure times the first two.",
            panel=COMPUTE,
        ),
    ] = "auto"

    def __post_init__(self) -> None:
        for kind in KINDS:
            msgspec.structs.force_setattr(self, kind, _kind(kind, getattr(self, kind)))
        for name in ("drop", "inactive"):  # a probability is a number in a file, and the simplest of their texts
            given = getattr(self, name)
            if isinstance(given, int | float) and not isinstance(given, bool):
                msgspec.structs.force_setattr(self, name, str(given))
        super().__post_init__()
        self._check_impairments()
        for name, other in {"decay": "weight_decay", "monitor": "patience"}.items():
            if getattr(self, name) is not None and getattr(self, other) is None:
                raise InputError(f"{name} = {getattr(self, name)!r} has no effect without {other}: give both.")
        if self.compresses:
            self._check_compression()
        if self.gradient_noise is not None:
            from peerdescent.training.gradient_noise import GradientNoise  # it loads NumPy and torch

            GradientNoise.parse(self.gradient_noise)

    def _check_compression(self) -> None:
        from peerdescent.mixing.compressors import parse

        parse(self.compress)
        if self.message_dtype != "same":
            raise InputError(
                f"message_dtype = {self.message_dtype!r} and compress = {self.compress!r} both decide how messages "
                "are sent: give one of them."
            )
        if self.message_noise:
            raise InputError(
                f"compress = {self.compress!r} and message_noise = {self.message_noise} exclude each other: noise "
                "would drive the copies of sender and receiver apart; use message_dtype = 'bf16', which has no copies."
            )
        for name in ("drop", "inactive") if self.delay else ():
            if getattr(self, name) is not None:
                raise InputError(
                    f"compress = {self.compress!r}, delay = {self.delay} and {name} = {getattr(self, name)!r} exclude "
                    "each other: a sender learns too late which messages were lost, so that its copies would differ "
                    "from the receiver's; leave out one of them, or use message_dtype = 'bf16', which needs no copies."
                )

    def _check_impairments(self) -> None:
        """Refuse texts that mean nothing."""
        if self.drop is not None or self.inactive is not None:
            from peerdescent.mixing.impairments import parse_drop, parse_inactive  # they load NumPy

            if self.drop is not None:
                parse_drop(self.drop)
            if self.inactive is not None:
                parse_inactive(self.inactive)

    @property
    def compresses(self) -> bool:
        """Whether messages are compressed; not known to be where that is left to the method."""
        return self.compress not in (None, UNCOMPRESSED)

    @property
    def impaired(self) -> bool:
        """Whether anything goes wrong on the network."""
        return self.drop is not None or self.inactive is not None or self.delay > 0 or self.message_noise > 0

    @property
    def interval(self) -> int:
        """Iterations between evaluations."""
        return self.eval_every or max(1, self.iterations // EVALUATIONS)

    @property
    def periods(self) -> Periods:
        """The iterations that exchange messages."""
        return Periods.parse(self.communication_period).seeded(self.seed)

    def evaluates_agents(self, agents: int) -> bool:
        """Whether each of so many agents is evaluated: that takes as long as evaluating their mean, for each one."""
        return agents <= PER_AGENT_UP_TO if self.per_agent is None else self.per_agent

    @property
    def recalibrates(self) -> bool:
        """Whether running statistics of the averaged model are computed anew on training samples."""
        return self.running_statistics == "recalibrate"

    @property
    def samples(self) -> int | None:
        """Samples per agent and iteration; None for exact gradients."""
        return None if self.batch_size == WHOLE_SHARDS else self.batch_size

    def place(self) -> tuple[torch.device, torch.dtype]:
        """The device and dtype, if this machine has them."""
        import torch

        dtype = {"float32": torch.float32, "float64": torch.float64}[self.dtype]
        try:
            device = torch.device(self.device)
            float(torch.zeros(1, device=device, dtype=dtype))  # some devices only pretend to hold numbers
            if device.type == "cpu" and device.index not in (None, 0):  # which torch ignores
                raise ValueError("the cpu has no number")
        except Exception as error:  # every backend that torch knows by name fails in a way of its own
            reason = (str(error).splitlines() or [type(error).__name__])[0].partition(". ")[0].rstrip(".")
            raise InputError(f"device = {self.device!r} cannot be used here: {reason}.") from error
        return device, dtype


def _kind(name: Literal["laplacian", "mixing"], value: Any) -> Any:
    """The kind of L or W; a matrix or a file of one becomes a text with all its numbers, which a run folder keeps."""
    if isinstance(value, str) and not value.startswith("file:"):
        return value
    from peerdescent.graphs.own_weights import as_kind

    return as_kind(name, value)
