"""The command line: thin. It parses, calls and prints; what it can do stands elsewhere."""

from __future__ import annotations

import inspect
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

from peerdescent import algorithms, cli_data, cli_reproduce, cli_tune, console, graphs, problems
from peerdescent._version import __version__
from peerdescent.cli_report import report
from peerdescent.engine.workers import torchrun
from peerdescent.errors import InputError, PeerdescentError
from peerdescent.experiments import Experiment, from_keys, library, load_methods, read
from peerdescent.explain import explain as facts_of

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


def _help(text: str, key: str) -> str:
    """A flag's help with the value that an experiment has unless it says otherwise."""
    default = getattr(Experiment(), key)
    return f"{text} Default: {', '.join(default) if isinstance(default, tuple) else default}."


SET_HELP = "A hyperparameter (eta=.03), one method's (dm-sgd.eta=.1) or the problem's (problem.start=glorot)."
Source = Annotated[
    str | None, typer.Argument(metavar="EXPERIMENT", help="A TOML file, or a name of `list experiments`.")
]
Several = Annotated[
    list[str] | None, typer.Option("--algorithm", "-a", help=_help("Method; may be given several times.", "algorithms"))
]
Problem = Annotated[str | None, typer.Option(help=_help("What is minimised: see `list problems`.", "problem"))]
GraphSpec = Annotated[
    str | None, typer.Option("--graph", help=_help("Who talks to whom, e.g. ring:10, er:10:0.4:seed=3.", "graph"))
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help=SET_HELP),
]  # fmt: skip
Iterations = Annotated[int | None, typer.Option(help=_help("How many iterations.", "iterations"))]
BatchSize = Annotated[
    int | None, typer.Option(help=_help("Samples per agent and iteration; 0 takes whole shards.", "batch_size"))
]
Seed = Annotated[int | None, typer.Option(help=_help("Decides starts and minibatches.", "seed"))]
Partition = Annotated[
    str | None, typer.Option(help=_help("How data are split: iid, label or dirichlet:A.", "partition"))
]
Laplacian = Annotated[
    str | None,
    typer.Option(
        help=_help("L: metropolis, unit, weighted, perhaps with :SCALE; or matched, (I−W)/(αη).", "laplacian")
    ),
]
Mixing = Annotated[str | None, typer.Option(help=_help("W: metropolis, lazy, max-degree or uniform.", "mixing"))]
Powerball = Annotated[
    float | None, typer.Option(metavar="G", help="Raise every gradient to this power, for any method.")
]
Replacement = Annotated[bool | None, typer.Option(help="Draw minibatches with replacement, or in epochs.")]
MixEvery = Annotated[
    int | None, typer.Option(metavar="M", help=_help("Exchange messages in every M-th iteration only.", "mix_every"))
]
Wire = Annotated[
    str | None,
    typer.Option(help=_help("Messages: full (the precision of --dtype) or bf16 (rounded, a half or less).", "wire")),
]
EvalEvery = Annotated[int | None, typer.Option(metavar="K", help="Iterations between evaluations.")]
PerAgent = Annotated[bool | None, typer.Option(help="Measure every agent too, not only the average.")]
Device = Annotated[str | None, typer.Option(help=_help("cpu, cuda, …", "device"))]
Dtype = Annotated[str | None, typer.Option(help=_help("float32 or float64.", "dtype"))]
Threads = Annotated[int | None, typer.Option(help=_help("Processor threads.", "threads"))]
Kernel = Annotated[str | None, typer.Option(help=_help("The update: auto, compiled or plain.", "kernel"))]
Gradients = Annotated[str | None, typer.Option(help=_help("The gradients: auto, stacked or loop.", "gradients"))]
Load = Annotated[
    list[str] | None, typer.Option(metavar="FILE", help="A Python file that registers methods of your own.")
]
Out = Annotated[Path | None, typer.Option(help="The run folder; a new one below runs/ unless given.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a method that is unstable or only circles.")]
Workers = Annotated[int, typer.Option(metavar="N", help="Share the agents among N local processes: the same result.")]
OnLoss = Annotated[
    str,
    typer.Option(
        metavar="stop|continue|restart",
        help="When a process is lost: stop; continue with the agents that are left; or restart from the last "
        "checkpoint (under torchrun, --max-restarts does that).",
    ),
]
Kill = Annotated[
    list[str] | None,
    typer.Option(metavar="AGENT@ITERATION", help="A fault on purpose: the process that hosts the agent kills itself."),
]
Stall = Annotated[
    list[str] | None,
    typer.Option(metavar="AGENT@ITERATION:SECONDS", help="A fault on purpose: it sleeps for so long."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
FigureFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the graph into a .png, .svg or .pdf file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def experiment_flags(
    source: Source = None,
    algorithm: Several = None,
    problem: Problem = None,
    graph: GraphSpec = None,
    set_: Set = None,
    iterations: Iterations = None,
    batch_size: BatchSize = None,
    seed: Seed = None,
    partition: Partition = None,
    laplacian: Laplacian = None,
    mixing: Mixing = None,
    powerball: Powerball = None,
    replacement: Replacement = None,
    mix_every: MixEvery = None,
    wire: Wire = None,
    eval_every: EvalEvery = None,
    per_agent: PerAgent = None,
    device: Device = None,
    dtype: Dtype = None,
    threads: Threads = None,
    kernel: Kernel = None,
    gradients: Gradients = None,
    load: Load = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    strict: Strict = False,
    workers: Workers = 1,
    on_loss: OnLoss = "stop",
    kill: Kill = None,
    stall: Stall = None,
) -> None:
    """The flags that every command shares which carries out an experiment."""


def _with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes **given the flags above, besides its own."""
    shared, own = (inspect.signature(function, eval_str=True) for function in (experiment_flags, command))
    source, *rest = shared.parameters.values()
    named = [flag for flag in own.parameters.values() if flag.kind is not flag.VAR_KEYWORD]
    flags = [flag.replace(kind=flag.KEYWORD_ONLY) for flag in (*named, *rest)]
    command.__signature__ = shared.replace(parameters=[source, *flags])  # type: ignore[attr-defined]
    command.__annotations__ = {flag.name: flag.annotation for flag in (source, *flags)} | {"return": None}
    return command


@app.command(
    epilog="Examples: `peerdescent run --problem mnist-nn --graph er:10:0.4 --algorithm dsgpa-f-pb --set eta=.03 "
    "--set gamma=.7 --iterations 3000 --batch-size 20 --seed 1 --out runs/a` · "
    "`peerdescent run experiment.toml --seed 2` · `peerdescent run -a d-sgd-1 --powerball 0.7` · "
    "`peerdescent run --problem mnist-cnn --workers 2` · "
    "`torchrun --nnodes 4 --rdzv-backend c10d --rdzv-endpoint HOST:29400 -m peerdescent run experiment.toml`"
)
@_with_flags
def run(**given: Any) -> None:
    """Run one method and keep its records. Exit code 2: wrong input; 3: it diverged."""
    with torchrun() as group:
        experiment = _experiment(given)
        if len(experiment.algorithms) != 1:
            raise InputError(f"{len(experiment.algorithms)} algorithms are named: use `peerdescent compare`.")
        console.carry_out(experiment, _way(given), False, group)


@app.command(
    epilog="Examples: `peerdescent compare quickstart` · `peerdescent compare -a dsgpa-t-pb -a dm-sgd --graph ring:10` "
    "· `peerdescent compare experiment.toml --out runs/b --resume`"
)
@_with_flags
def compare(**given: Any) -> None:
    """Run several methods under equal conditions: one table, one figure. Exit code 3 only if all of them diverge."""
    with torchrun() as group:
        console.carry_out(_experiment(given), _way(given), True, group)


@app.command(
    epilog="Examples: `peerdescent explain quickstart` · `peerdescent explain -a dsgpa-f --graph star:10` "
    "· `peerdescent explain experiment.toml --json` · `peerdescent explain quickstart --figure graph.svg`"
)
@_with_flags
def explain(*, figure: FigureFile = None, **given: Any) -> None:
    """Tell before a run: the graph's facts, traffic, stability and its cures, and whether Theorem 1 applies."""
    experiment = _experiment(given)
    facts = [facts_of(experiment, name) for name in experiment.algorithms]
    if figure is not None:
        from peerdescent.report import drawing

        drawing.save_as(drawing.topology(experiment.make_graph()), figure)
    if given["as_json"]:
        print(json.dumps(facts[0] if len(facts) == 1 else facts, indent=2))
        return
    console.show_graph(experiment.make_graph())
    for entry in facts:
        console.show_facts(entry)


@app.command(epilog=cli_tune.EPILOG)
@_with_flags
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
    cli_tune.carry_out(_experiment(given), _way(given), budget, jobs)


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


def _experiment(given: dict[str, Any]) -> Experiment:
    """The experiment of a file or name, with the flags that were given in place of its keys."""
    if given["quiet"]:
        warnings.simplefilter("ignore")  # notes are not errors
    experiment = read(given["source"]) if given["source"] else Experiment()
    flags = {"algorithm": "algorithms", "set_": "set"}
    not_keys = ("source", *console.Way.__dataclass_fields__)
    keys = {flags.get(key, key): value for key, value in given.items() if key not in not_keys and value is not None}
    if "set" in keys:
        keys["set"] = _merge(experiment.set, keys["set"])
    if "algorithms" in keys:
        keys["algorithms"] = [name for text in keys["algorithms"] for name in text.split(",")]
    changed = from_keys(keys, "the command line", experiment)
    changed.check()
    return changed


def _merge(base: Any, texts: list[str]) -> dict[str, Any]:
    """`--set` texts over the experiment's own values."""
    merged = {key: dict(value) if isinstance(value, dict) else value for key, value in base.items()}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise InputError(f"--set {text}: expected KEY=VALUE, such as eta=.03 or dm-sgd.eta=.1.")
        owner, dot, name = key.strip().rpartition(".")
        place = merged.setdefault(owner, {}) if dot else merged
        if not isinstance(place, dict) or isinstance(merged.get(key.strip()), dict):
            raise InputError(f"--set {text}: a name holds one value or several values of its own, not both.")
        place[name] = _scalar(value.strip())
    return merged


def _scalar(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _way(given: dict[str, Any]) -> console.Way:
    """Where the records go and what is printed."""
    values = {name: given[name] for name in console.Way.__dataclass_fields__}
    return console.Way(**{**values, "kill": tuple(given["kill"] or ()), "stall": tuple(given["stall"] or ())})


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
