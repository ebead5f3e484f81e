"""The ways in which a run ends early, told apart by type and by exit code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BREAKS = frozenset(map(chr, (*range(32), 127, 0x85, 0x2028, 0x2029)))


class PeerdescentError(Exception):
    """An error that peerdescent reports to its user in one sentence."""

    exit_code = 1


class InputError(PeerdescentError, ValueError):
    """Wrong input: the message names the input, what was expected and what to do."""

    exit_code = 2

    def __str__(self) -> str:
        """The message in one line: a line break or control character of a file's name is shown as its escape.

        >>> str(InputError("there is no file a\\nb: check its name."))
        'there is no file a\\\\nb: check its name.'
        """
        text = super().__str__()
        return "".join(repr(c)[1:-1] if c in _BREAKS else c for c in text)


class DivergedError(PeerdescentError, ArithmeticError):
    """The loss or a state is no longer finite: the run stops and keeps what it recorded."""

    exit_code = 3

    result: Any = None
    """The `Result` up to then."""


class RecordError(PeerdescentError, OSError):
    """The records of a run cannot be written, for example on a full disk: RecordError(errno, reason, file)."""

    def __str__(self) -> str:
        return (
            f"cannot write {self.filename}: {self.strerror}; what was recorded before is intact: "
            "make room there, then continue with --resume."
        )


class StoppedError(KeyboardInterrupt):
    """The user has stopped a run, with Ctrl-C or SIGTERM; it is a KeyboardInterrupt, as Python expects.

    Args:
        signal: the number of the signal.
        sentence: the message.
        iteration: how far the run is, if it has saved its state.
    """

    def __init__(self, signal: int, sentence: str = "", iteration: int | None = None) -> None:
        super().__init__(sentence)
        self.signal, self.iteration = signal, iteration

    @property
    def exit_code(self) -> int:
        """128 + the signal, as shells count."""
        return 128 + self.signal


class PeerLostError(PeerdescentError):
    """Other processes of the run can no longer be reached.

    Args:
        reasons: why, by the rank of the process.
        sentence: the message, if it is known who is lost; without it the message names whose connection broke.
    """

    def __init__(self, reasons: Mapping[int, str], sentence: str = "") -> None:
        self.reasons = dict(reasons)
        self.named = bool(sentence)
        """Whether the message names who is lost, or only whose connection broke."""
        names = ", ".join(str(rank) for rank in self.reasons)
        first = next(iter(self.reasons.values()), "")
        super().__init__(sentence or f"the connection to process {names} is lost: {first}")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The processes that are lost."""
        return tuple(self.reasons)


class RankError(PeerdescentError):
    """Another process of the run ended with an error: its message and its exit code."""

    def __init__(self, rank: int, message: str, exit_code: int) -> None:
        super().__init__(f"process {rank}: {message}")
        self.exit_code = exit_code
