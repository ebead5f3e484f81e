"""Flags, made from the schema of experiments: what is given on the command line wins over files."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_origin

import typer

from peerdescent._util.schema import Setting, settings_of
from peerdescent.distributed.torchrun import under_torchrun
from peerdescent.errors import InputError
from peerdescent.experiments.files import PANELS, RUN_FILES, read, read_with_sweep
from peerdescent.experiments.schema import WHAT, Experiment, override
from peerdescent.experiments.sweep import Sweep, override_sweep
from peerdescent.experiments.user_code import UntrustedError

RECORDS, PROCESSES, OUTPUT, SWEEP = "Records", "Processes", "Output", "Seeds and grids"
T = TypeVar("T")
NAMES = {"algorithms": ("--algorithm", "-a"), "set": ("--set",)}
"""Flags that are not called like their key."""
HIDDEN = ("title",)
"""Keys that only files have."""

Source = Annotated[
    str | None,
    typer.Argument(metavar="EXPERIMENT", help="A TOML file, a run folder, or a name that `list experiments` shows."),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run the Python files that EXPERIMENT itself names under `load`; read them first. Those of --load are run "
        "without asking.",
        rich_help_panel=WHAT,
    ),
]


def path_of(text: str | Path) -> Path:
    """A path that is given on the command line; an empty one would mean the current folder."""
    if not str(text).strip() or text == Path():
        raise typer.BadParameter("the path is empty: name a file or folder.")
    return Path(text)


Out = Annotated[
    Path | None,
    typer.Option(
        parser=path_of,
        metavar="PATH",
        help="The run folder; a new one below runs/ unless given.",
        rich_help_panel=RECORDS,
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.", rich_help_panel=RECORDS)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.", rich_help_panel=RECORDS)]
Workers = Annotated[
    int,
    typer.Option(metavar="N", help="Share the agents among N local processes: same result.", rich_help_panel=PROCESSES),
]
OnLoss = Annotated[
    str,
    typer.Option(
        metavar="stop|continue|restart",
        help="When a process is lost: stop; continue with the agents that are left; or restart from the last "
        "checkpoint (under torchrun, --max-restarts does that).",
        rich_help_panel=PROCESSES,
    ),
]
Kill = Annotated[
    list[str] | None,
    typer.Option(
        metavar="AGENT@ITERATION",
        help="Inject a fault: the process that hosts the agent kills itself.",
        rich_help_panel=PROCESSES,
    ),
]
Stall = Annotated[
    list[str] | None,
    typer.Option(
        metavar="AGENT@ITERATION:SECONDS", help="Inject a fault: it sleeps for so long.", rich_help_panel=PROCESSES
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(
        metavar="N|S1,S2,…",
        help="Run for N seeds, from --seed on, or for these seeds. --set KEY=A,B,… runs for every value, and several "
        "such keys for all combinations (quotes keep a comma in a text). The runs go to METHOD/KEY=VALUE/seed-S below "
        "the folder; --resume does what is missing.",
        rich_help_panel=SWEEP,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(metavar="N", help="Runs side by side; all processors unless given.", rich_help_panel=SWEEP),
]
Log = Annotated[
    list[str] | None,
    typer.Option(
        metavar="csv|tensorboard|wandb",
        help="Also write the numbers for other tools: metrics.csv, tensorboard/ or wandb/ in the run folder (offline "
        "unless WANDB_MODE says online). May be given several times; a resumed run goes on with those it had.",
        rich_help_panel=RECORDS,
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Refuse a method that is unstable or does not settle.", rich_help_panel=OUTPUT),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.", rich_help_panel=OUTPUT)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]


def record_flags(
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    strict: Strict = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The flags of commands that keep records."""


def process_flags(workers: Workers = 1, on_loss: OnLoss = "stop", kill: Kill = None, stall: Stall = None) -> None:
    """The flags of commands that run agents in several processes."""


def log_flags(log: Log = None) -> None:
    """The flag of commands that log."""


def loggers_from(given: dict[str, Any]) -> tuple[str, ...]:
    """The loggers that were asked for; one whose package is missing is refused before anything is run."""
    from peerdescent import loggers

    names = loggers.check_names(given["log"] or ())
    loggers.make(names)
    return names


def sweep_flags(seeds: Seeds = None, jobs: Jobs = None) -> None:
    """The flags of commands that run an experiment for several seeds and over a grid."""


def with_flags(*others: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command that takes **given the experiment's flags, those of other functions, and its own."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        functions = (command, *others)
        named = [flag for each in functions for flag in inspect.signature(each, eval_str=True).parameters.values()]
        more = [flag.replace(kind=flag.KEYWORD_ONLY) for flag in named if flag.kind is not flag.VAR_KEYWORD]
        every = [_SOURCE, *_experiment_flags(), _TRUST, *more]
        command.__signature__ = own.replace(parameters=every)  # type: ignore[attr-defined]
        command.__annotations__ = {flag.name: flag.annotation for flag in every} | {"return": None}
        return command

    return decorate


_SOURCE = inspect.Parameter("source", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Source)
_TRUST = inspect.Parameter("trust", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Trust)


def _experiment_flags() -> list[inspect.Parameter]:
    """A flag for every setting, panel by panel."""
    settings = [setting for setting in settings_of(Experiment) if setting.name not in HIDDEN]
    return [_parameter(setting) for setting in sorted(settings, key=lambda setting: PANELS.index(setting.panel))]


def _parameter(setting: Setting) -> inspect.Parameter:
    """A setting as a flag that is None unless given."""
    several = get_origin(setting.type) is tuple or setting.type is dict
    kind: Any = list[str] if several else setting.type if setting.type in (int, float, bool) else str
    option = typer.Option(
        *NAMES.get(setting.name, ()),
        metavar=setting.metavar if kind is not bool else None,
        help=_help(setting, several),
        rich_help_panel=setting.panel,
        show_default=False,
    )
    name = "set_" if setting.name == "set" else setting.name
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _help(setting: Setting, several: bool) -> str:
    repeated = " May be given several times." if several else ""
    if setting.default in (None, (), {}):
        return f"{setting.help}{repeated}"
    shown = ", ".join(setting.default) if isinstance(setting.default, tuple) else setting.default
    return f"{setting.help}{repeated} Default: {str(shown).lower() if isinstance(shown, bool) else shown}."


def experiment_from(given: dict[str, Any]) -> Experiment:
    """The experiment of a file, folder or name, with the flags that were given in place of its keys.

    With --resume and nothing else named, it is the one that the run folder holds.
    """
    source = source_of(given)
    experiment = Experiment() if source is None else trusted(read, source, given)
    return override(experiment, keys_from(given), given["set_"] or ())


def sweep_from(given: dict[str, Any]) -> tuple[Experiment, Sweep]:
    """The same for commands that also take several seeds and a grid of values."""
    source = source_of(given)
    experiment, sweep = (Experiment(), Sweep()) if source is None else trusted(read_with_sweep, source, given)
    return override_sweep(experiment, sweep, keys_from(given), given["set_"] or (), given["seeds"])


def source_of(given: dict[str, Any]) -> str | None:
    """What names the experiment: with --resume, the run folder too."""
    source: str | None = given["source"]
    out = given.get("out")
    if source is None and given.get("resume") and out and any(os.path.isfile(out / name) for name in RUN_FILES):
        return str(out)
    return source


def keys_from(given: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given as flags."""
    known = {setting.name for setting in settings_of(Experiment)} - {"set"}
    return {key: value for key, value in given.items() if key in known and value is not None}


def trusted(reader: Callable[[str, bool], T], source: str, given: dict[str, Any]) -> T:
    """What a file holds; the Python files that it loads need --trust, or --load in their place."""
    try:
        return reader(source, given["trust"] or given["load"] is not None)
    except UntrustedError as error:
        if not (_at_a_terminal() and typer.confirm(f"{error} Run it now?", err=True)):
            raise
        return reader(source, True)


def _at_a_terminal() -> bool:
    """Whether a person can answer a question; under torchrun all processes would ask."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not under_torchrun()


def folder_from(given: dict[str, Any]) -> Path | None:
    """Where the records go: `run FOLDER --resume` continues in that folder."""
    source, out = given["source"], given["out"]
    if out is None and given["resume"] and source is not None and os.path.isdir(source):
        return Path(source)
    return None if out is None else Path(out)


def silence(quiet: bool) -> None:
    """With --quiet, notes are not shown: they are not errors."""
    if quiet:
        warnings.simplefilter("ignore")


def check_one_method(experiment: Experiment) -> None:
    """`run` is for one method."""
    if len(experiment.algorithms) != 1:
        raise InputError(f"{len(experiment.algorithms)} algorithms are named: use `peerdescent compare`.")
