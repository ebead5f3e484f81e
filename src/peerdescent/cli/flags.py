"""The flags that commands share, and what they ask for: an experiment, and a way to carry it out."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from peerdescent.cli import console
from peerdescent.errors import InputError
from peerdescent.experiments import Experiment, from_keys, read


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
CommunicationPeriod = Annotated[
    int | None,
    typer.Option(metavar="M", help=_help("Exchange messages in every M-th iteration only.", "communication_period")),
]
Wire = Annotated[
    str | None,
    typer.Option(
        help=_help("Messages: full (the precision of --dtype) or bf16 (rounded, a half or less).", "message_dtype")
    ),
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
    communication_period: CommunicationPeriod = None,
    message_dtype: Wire = None,
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


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes **given the flags above, besides its own."""
    shared, own = (inspect.signature(function, eval_str=True) for function in (experiment_flags, command))
    source, *rest = shared.parameters.values()
    named = [flag for flag in own.parameters.values() if flag.kind is not flag.VAR_KEYWORD]
    flags = [flag.replace(kind=flag.KEYWORD_ONLY) for flag in (*named, *rest)]
    command.__signature__ = shared.replace(parameters=[source, *flags])  # type: ignore[attr-defined]
    command.__annotations__ = {flag.name: flag.annotation for flag in (source, *flags)} | {"return": None}
    return command


def experiment_of(given: dict[str, Any]) -> Experiment:
    """The experiment of a file or name, with the flags that were given in place of its keys."""
    if given["quiet"]:
        warnings.simplefilter("ignore")  # notes are not errors
    experiment = read(given["source"]) if given["source"] else Experiment()
    flags = {"algorithm": "algorithms", "set_": "set"}
    not_keys = ("source", *console.RunOptions.__dataclass_fields__)
    keys = {flags.get(key, key): value for key, value in given.items() if key not in not_keys and value is not None}
    base = dict(experiment.set)
    if "algorithms" in keys:
        keys["algorithms"] = [name for text in keys["algorithms"] for name in text.split(",")]
        for unwanted in set(experiment.algorithms) - set(keys["algorithms"]):
            base.pop(unwanted, None)  # the values of a method that is left out
    keys["set"] = _merge(base, keys.get("set", []))
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


def options_from_flags(given: dict[str, Any]) -> console.RunOptions:
    """Where the records go and what is printed."""
    values = {name: given[name] for name in console.RunOptions.__dataclass_fields__}
    return console.RunOptions(**{**values, "kill": tuple(given["kill"] or ()), "stall": tuple(given["stall"] or ())})
