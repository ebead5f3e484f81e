"""The two ways in which a run ends early, told apart by type and by exit code."""

from typing import Any


class PeerdescentError(Exception):
    """Anything peerdescent says to its user in one sentence."""

    exit_code = 1


class InputError(PeerdescentError, ValueError):
    """Wrong input: the message names the input, what was expected and what to do."""

    exit_code = 2


class DivergedError(PeerdescentError, ArithmeticError):
    """The loss or a state is no longer finite: the run stops and keeps what it recorded."""

    exit_code = 3

    result: Any = None
    """The `Result` up to then."""
