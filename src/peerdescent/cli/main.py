"""The command line: thin. It parses, calls and prints; what it can do stands elsewhere."""

from __future__ import annotations

import io
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from peerdescent import algorithms, graphs, problems
from peerdescent._version import __version__
from peerdescent.cli import console
from peerdescent.cli import data as cli_data
from peerdescent.cli import reproduce as cli_reproduce
from peerdescent.cli import tune as cli_tune
from peerdescent.cli.flags import AsJson, Load, experiment_of, options_from_flags, with_flags
from peerdescent.cli.report import report
from peerdescent.distributed.launcher import torchrun
from peerdescent.errors import InputError, PeerdescentError
from peerdescent.experiments import library, load_methods
from peerdescent.experiments.explain import explain as facts_of

app = typer.Typer(
    name="peerdescent",
    help="Train one model among many agents with no centre.",
    epilog="Start with: peerdescent compare quickstart",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cli_data.app, name="data")
ClickException: type[Exception] = typer.BadParameter.__mro__[2]  # newer typers carry a click of their own
errors = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
FigureFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the graph into a .png, .svg or .pdf file.")]


@app.command(
    epilog="Examples: `peerdescent run --problem mnist-nn --graph er:10:0.4 --algorithm dsgpa-f-pb --set eta=.03 "
    "--set gamma=.7 --iterations 3000 --batch-size 20 --seed 1 --out runs/a` · "
    "`peerdescent run experiment.toml --seed 2` · `peerdescent run -a d-sgd-1 --powerball 0.7` · "
    "`peerdescent run --problem mnist-cnn --workers 2` · "
    "`torchrun --nnodes 4 --rdzv-backend c10d --rdzv-endpoint HOST:29400 -m peerdescent run experiment.toml`"
)
@with_flags
def run(**given: Any) -> None:
    """Run one method and keep its records. Exit code 2: wrong input; 3: it diverged."""
    with torchrun() as group:
        experiment = experiment_of(given)
        if len(experiment.algorithms) != 1:
            raise InputError(f"{len(experiment.algorithms)} algorithms are named: use `peerdescent compare`.")
        console.execute(experiment, options_from_flags(given), False, group)


@app.command(
    epilog="Examples: `peerdescent compare quickstart` · `peerdescent compare -a dsgpa-t-pb -a dm-sgd --graph ring:10` "
    "· `peerdescent compare experiment.toml --out runs/b --resume`"
)
@with_flags
def compare(**given: Any) -> None:
    """Run several methods under equal conditions: one table, one figure. Exit code 3 only if all of them diverge."""
    with torchrun() as group:
        console.execute(experiment_of(given), options_from_flags(given), True, group)


@app.command(
    epilog="Examples: `peerdescent explain quickstart` · `peerdescent explain -a dsgpa-f --graph star:10` "
    "· `peerdescent explain experiment.toml --json` · `peerdescent explain quickstart --figure graph.svg`"
)
@with_flags
def explain(*, figure: FigureFile = None, **given: Any) -> None:
    """Tell before a run: the graph's facts, traffic, stability and its cures, and whether Theorem 1 applies."""
    experiment = experiment_of(given)
    facts = [facts_of(experiment, name) for name in experiment.algorithms]
    if figure is not None:
        from peerdescent.experiments.runner import weighted_graph
        from peerdescent.report import drawing

        methods = [experiment.make_algorithm(name) for name in experiment.algorithms]
        drawn = weighted_graph(experiment.make_graph(), experiment.laplacian, experiment.mixing, methods)
        drawing.save_as(drawing.topology(drawn.graph, drawn.spectrum, drawn.kind), figure)
    if given["as_json"]:
        print(json.dumps(facts[0] if len(facts) == 1 else facts, indent=2))
        return
    console.show_graph(experiment.make_graph())
    for entry in facts:
        console.show_facts(entry)


@app.command(epilog=cli_tune.EPILOG)
@with_flags
def tune(
    trials: cli_tune.Trials = 24,
    seeds: cli_tune.Seeds = 3,
    tuning_seeds: cli_tune.TuningSeeds = 1,
    metric: cli_tune.Metric = "loss",
    jobs: cli_tune.Jobs = None,
    **given: Any,
) -> None:
    """Find good values for several methods at an equal budget, inside their stable regions; measure on fresh seeds."""
    from peerdescent.tune import Budget  # figures are slow to import

    budget = Budget(trials, seeds, tuning_seeds, metric)
    cli_tune.execute(experiment_of(given), options_from_flags(given), budget, jobs)


@app.command("list", epilog="Example: `peerdescent list algorithms`")
def list_(
    what: Annotated[Literal["algorithms", "graphs", "problems", "experiments"], typer.Argument(help="What to list.")],
    load: Load = None,
    as_json: AsJson = False,
) -> None:
    """Show what can be named: algorithms, graphs, problems, experiments."""
    for path in load or []:
        load_methods(path)
    entries = _entries(what)
    if as_json:
        print(json.dumps(entries, indent=2))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    columns = list(entries[0])
    for column in columns:
        table.add_column(column, no_wrap=column in ("name", "usage"), overflow="fold")
    for entry in entries:
        table.add_row(*(str(entry[column]) for column in columns))
    Console(markup=False, emoji=False).print(table)


app.command(epilog=cli_reproduce.EPILOG)(cli_reproduce.reproduce)
app.command(epilog="Example: `peerdescent report runs/quickstart --out report.html`")(report)


def _entries(what: str) -> list[dict[str, str]]:
    if what == "algorithms":
        presets = algorithms.PRESETS.items()
        return [{"name": name, "values": _text(p.options()), "what it is": p.summary} for name, p in presets]
    if what == "graphs":
        return [{"usage": t.usage, "what it is": t.summary} for t in graphs.TOPOLOGIES.values()]
    if what == "problems":
        named = problems.PROBLEMS.items()
        return [{"name": name, "options": _text(p.options()), "what it is": p.summary} for name, p in named]
    return [{"name": name, "what it is": title} for name, title in library().items()]


def _text(options: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in options.items())


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
        _fail(f"{error.filename or 'the run'}: {error.strerror or error}.", PeerdescentError.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _fail("stopped; a run goes on with --resume.", 130)


def _note_once() -> Callable[..., None]:
    """Shows warnings as notes, the same one once, however many methods it comes from."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            errors.print(f"note: {message}", markup=False)

    return show


def _fail(message: str, code: int) -> None:
    errors.print(f"peerdescent: {' '.join(message.split())}", markup=False)
    sys.exit(code)
