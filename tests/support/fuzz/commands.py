"""Commands with random flags: the flags are those that the command line has, whatever they are today."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin

import typer
from tests.support.fuzz import graphs
from tests.support.fuzz.cases import Case, Place
from tests.support.fuzz.values import EDGES, HUGE, edged, number, text, varied

METHODS = ("d-sgd-1", "d-sgt-1", "d2", "dsgpa-f-pb", "dm-sgd", "dsgpa-t", "c-sgd", "d-asg")
RATES = ("0.1", ".03", "power:0.1:-0.5", "inverse:0.1:1", "inverse:1:1:2", "cosine:0.1:20", "step:0.1:0.5:5:10")
SET = (
    *(f"eta={rate}" for rate in (*RATES, "warmup:4:0.1", "warmup:4:cosine:0.1:20")),
    *("alpha=5", "beta=20", "beta=inverse:1:1:1", "gamma=.7", "gamma=0.2", "epsilon=1e-5", "d-sgd-1.eta=.2"),
    *("problem.dimension=5", "problem.noise=1", "problem.samples=30", "problem.seed=2", "power_on=direction"),
)
PLAUSIBLE: dict[str, Sequence[str]] = {
    "algorithms": METHODS,
    "problem": ("quadratic", "quadratic", "logistic-nonconvex", "ripples"),
    "partition": ("iid", "label", "dirichlet:0.3"),
    "laplacian": ("metropolis", "unit", "weighted", "metropolis:0.5", "matched"),
    "mixing": ("metropolis", "lazy", "max-degree", "uniform"),
    "set": SET,
    "set_": SET,
    "device": ("cpu", "cpu:0", "cuda", "meta", "hpu", "xpu", "mps", "cuda:99", "vulkan"),
    "title": ("A title", "η → 0"),
    "load": ("good.py", "raises.py", "missing.py", "exits.py", "broken.py", "fifo.py", "."),
    "out": ("out", "a/b/c", "out", "deep/" * 30 + "x", "x" * 300, "file.txt", "file.txt/x", "/dev/null", "/proc/x"),
    "on_loss": ("stop", "continue", "restart"),
    "kill": ("0@5", "9@5", "0@-1", "0", "@"),
    "stall": ("0@5:0", "9@5:1", "0@5", "0@5:-1", "0@5:nan"),
    "figure": ("graph.png", "graph.svg", "graph.pdf", "graph.txt", "no/graph.png", "file.txt/x.png"),
    "source": ("quickstart", "nn-code", "file.txt", "missing.toml", "fifo.toml", ".", "/dev/null", "/dev/zero"),
    "base": ("quickstart", "file.txt", "missing.toml", "fifo.toml", "."),
    "file": ("new.toml", "file.txt", "no/new.toml", "."),
    "runs": (".", "missing", "file.txt", "fifo.toml"),
    "folder": (".", "missing", "file.txt", "/dev/null"),
    "name": ("mnist", "cifar"),
    "powerball": ("0.7", "0", "1"),
    "budget": ("0", "-1", "2", "nan"),
    "message_dtype": ("same", "bf16"),
}
LONG_IF_LARGE = {"iterations", "trials", "seeds", "tuning_seeds", "jobs", "workers", "trial_iterations"}
"""Numbers that a command may rightly spend hours on."""
FEW = ("0", "1", "2", "3", "-1", "x", "1.5", "", "nan", "99999999999999999999")
KEYS = (
    *("eta", "eta", "alpha", "beta", "gamma", "epsilon", "problem.noise", "problem.condition", "problem.spread"),
    *("problem.dimension", "problem.dimension", "problem.samples", "problem.samples", "problem.regularisation"),
)
TINY = {"problem": "quadratic", "graph": "ring:4", "iterations": "8"}
NEVER = {"help", "version"}
OFTEN = {"set_": 9, "graph": 3, "batch_size": 2, "device": 2, "threads": 2, "load": 2, "out": 2, "source": 2}
"""Flags with much behind them."""
WEIGHTS = {"run": 36, "explain": 20, "compare": 10, "list": 4, "init": 8, "report": 6, "tune": 8, "reproduce": 4}
FILES: dict[str, bytes] = {
    "file.txt": b"0 1\n1 2\n",
    "good.py": b"from peerdescent import algorithms\n",
    "raises.py": b"raise ValueError('a\\nb')\n",
    "exits.py": b"import sys; sys.exit(7)\n",
    "broken.py": b"def (:\n",
}


class Flag(NamedTuple):
    """An option or argument of a command."""

    name: str
    words: tuple[str, ...]
    """How it is written; none for an argument."""
    kind: str
    choices: tuple[str, ...]


@cache
def commands() -> dict[str, tuple[Flag, ...]]:
    """Every command with its flags, as the command line itself describes them."""
    from peerdescent.cli.main import app

    group: Any = typer.main.get_command(app)
    found = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        for path, one in [((name, key), c) for key, c in inner.items()] if inner else [((name,), command)]:
            found[" ".join(path)] = tuple(_flag(p) for p in one.params if p.name not in NEVER)
    return found


def _flag(parameter: Any) -> Flag:
    words = (*parameter.opts, *parameter.secondary_opts) if parameter.param_type_name == "option" else ()
    kind = getattr(parameter, "type", None)  # as older versions of typer have it
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", kind)
    choices = getattr(kind, "choices", None) or (get_args(annotation) if get_origin(annotation) is Literal else ())
    metavar = parameter.metavar or ""
    given = tuple(map(str, choices)) or (tuple(metavar.split("|")) if "|" in metavar else ())
    named = "flag" if getattr(parameter, "is_flag", False) else str(getattr(annotation, "__name__", annotation)).lower()
    return Flag(parameter.name, words, named, given)


def value(r: random.Random, flag: Flag) -> str:
    """A value for a flag."""
    if flag.name in LONG_IF_LARGE:
        return r.choice(FEW if flag.name in ("iterations", "jobs", "workers") else FEW[:-1])
    if flag.name == "graph":
        return graphs.spec(r)
    if flag.name in ("set", "set_") and r.random() < 0.5:
        given = r.choice((edged(r, r.choice(RATES)), r.choice(EDGES), r.choice(HUGE)))
        return f"{r.choice(KEYS)}={given}"
    if known := PLAUSIBLE.get(flag.name) or flag.choices:
        return varied(r, known)
    return number(r) if flag.kind.startswith(("int", "float")) or r.random() < 0.2 else text(r)


def make(r: random.Random) -> Case:
    """A command with random flags."""
    names = [name for name in commands() if name.partition(" ")[0] != "data"]
    name = r.choices(names, [WEIGHTS.get(name, 3) for name in names])[0] if r.random() < 0.96 else _data_command(r)
    flags = {flag.name: flag for flag in commands()[name]}
    words = [*name.split(" "), *_fixed(r, name, flags)]
    many = [flag for flag in flags.values() for _ in range(OFTEN.get(flag.name, 1))]
    for flag in r.sample(many, min(len(flags), r.choice((0, 1, 1, 2, 2, 3, 4)))):
        if flag.name in TINY and r.random() < 0.7:
            continue
        words += _written(r, flag)
    if name == "reproduce":  # only what is refused: the studies take hours
        words += ["--seeds=1", "--jobs=1", r.choice(("--seeds=0", "--budget=0", "--jobs=0", "--budget=nan"))]
    if name == "league":  # likewise
        words += ["--jobs=1", r.choice(("--seeds=0", "--trials=0", "--jobs=0", "--data=x", "--iterations=0"))]
    if r.random() < 0.03:
        words.insert(r.randrange(len(words) + 1), text(r))
    return Case("flags", tuple(words), prepare=write_files, drawn=r.random() < 0.05)


def _data_command(r: random.Random) -> str:
    return r.choice([name for name in commands() if name.startswith("data")])


def _written(r: random.Random, flag: Flag) -> list[str]:
    if not flag.words:
        return [value(r, flag)]
    if flag.kind == "flag":
        return [r.choice(flag.words)]
    given, word = value(r, flag), r.choice(flag.words)
    return [f"{word}={given}"] if word.startswith("--") and r.random() < 0.3 else [word, given]


def _fixed(r: random.Random, name: str, flags: dict[str, Flag]) -> list[str]:
    """What keeps a command small, and away from the network."""
    words = []
    if "problem" in flags and "iterations" in flags:
        tiny = TINY | {"problem": r.choice(PLAUSIBLE["problem"])}
        words = [word for key, few in tiny.items() for word in (f"--{key}", few)]
        words += ["--kernel", "plain"] if r.random() < 0.6 else []
        names = r.sample(METHODS, 2 if name == "compare" else 1)
        words += [word for method in names for word in ("--algorithm", method)]
    if "out" in flags and name != "report" and r.random() < 0.7:
        words += ["--out", "out"]
    if name == "tune":
        words += ["--trials", "2", "--seeds", "1", "--jobs", "1"]
    if name == "reproduce":
        words += [r.choice(("nn", "gamma", "x", ""))]
    if name == "data fetch":
        words += ["--from", r.choice(("missing", "file.txt")), r.choice(("mnits", "cifar", "", "é"))]
    if name == "list":
        words += [r.choice(("algorithms", "graphs", "problems", "experiments"))]
    if name == "report":
        words += [r.choice(PLAUSIBLE["runs"])]
    return words


def write_files(place: Place) -> None:
    """The files that flags may name."""
    for name, content in FILES.items():
        (place.here / name).write_bytes(content)
    for name in ("fifo.toml", "fifo.py"):
        os.mkfifo(place.here / name)
