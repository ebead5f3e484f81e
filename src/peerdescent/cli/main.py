"""The command line. Commands import what they need when they run, so that help and wrong flags need no torch."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from peerdescent._util.signals import terminable
from peerdescent._util.validation import shortened
from peerdescent._version import __version__
from peerdescent.cli import (
    cards,
    clock,
    data,
    explain,
    export,
    initialize,
    league,
    listing,
    report,
    reproduce,
    run,
    tune,
)
from peerdescent.errors import InputError, PeerdescentError, StoppedError


class _Interruption(Exception):
    """Carries KeyboardInterrupt past typer, which would end the program without a word."""

    def __init__(self, stop: KeyboardInterrupt) -> None:
        super().__init__()
        self.stop = stop


class _Commands(TyperGroup):
    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _carried():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _carried():
            return super().invoke(ctx)


@contextlib.contextmanager
def _carried() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stop:
        raise _Interruption(stop) from None


app = typer.Typer(
    cls=_Commands,
    name="peerdescent",
    help="Train one model on many agents without a central server.",
    epilog="Start with: peerdescent compare quickstart",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run.run)
app.command()(run.compare)
app.command()(explain.explain)
app.command()(tune.tune)
app.command()(report.report)
app.command()(export.export)
app.command()(clock.clock)
app.command("list")(listing.list_)
app.command()(cards.card)
app.command()(initialize.init)
app.command()(reproduce.reproduce)
app.command()(league.league)
app.add_typer(data.app, name="data")
OUT_OF_MEMORY = ("can't allocate memory", "out of memory")
"""What torch says of the CPU and of other devices."""
LONGEST_SENTENCE = 2000
"""Characters; the middle of a sentence that repeats longer input is left out."""
ClickException: type[Exception] = typer.BadParameter.__mro__[2]  # newer typers carry a click of their own


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"peerdescent {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line: one sentence instead of a traceback, and an exit code that says what happened."""
    warnings.showwarning = _note_once()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters shows ? in their place
    try:
        with terminable():
            code = app(prog_name="peerdescent", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except PeerdescentError as error:
        _fail(str(error), error.exit_code)
    except ClickException as error:
        message = error.format_message()  # type: ignore[attr-defined]
        if not message:  # no command was given, and the help is on the screen
            sys.exit(2)
        _fail(message, 2)
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}.", PeerdescentError.exit_code)
    except (MemoryError, OverflowError, RuntimeError) as error:
        if not (reason := _too_large(error)):
            raise
        _fail(reason, InputError.exit_code)
    except _Interruption as interruption:
        _end_stopped(interruption.stop)
    except (KeyboardInterrupt, typer.Abort) as stop:
        _end_stopped(stop)


def _end_stopped(stop: BaseException) -> None:
    """One line says where the run has stopped and how to go on; of several processes, one says it."""
    code = stop.exit_code if isinstance(stop, StoppedError) else 130
    if os.environ.get("RANK", "0") != "0":
        sys.exit(code)
    _fail(str(stop) or "stopped.", code)


def _too_large(error: Exception) -> str:
    """The sentence for what was not foreseen to be too large; empty for other errors, which are bugs."""
    message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, OverflowError):
        return f"a number is too large to compute with ({message}): choose smaller numbers."
    if isinstance(error, MemoryError) or any(words in message.lower() for words in OUT_OF_MEMORY):
        return f"there is not enough memory ({message}): use fewer agents, a smaller problem or a smaller batch_size."
    return ""


def _note_once() -> Callable[..., None]:
    """Shows warnings as notes, the same one once, however many methods it comes from."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            print(f"note: {message}", file=sys.stderr, flush=True)

    return show


def _fail(message: str, code: int) -> None:
    print(f"peerdescent: {shortened(' '.join(message.split()), LONGEST_SENTENCE)}", file=sys.stderr)
    sys.exit(code)
