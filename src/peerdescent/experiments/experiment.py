"""An experiment: problem, graph, methods and settings, as flat keys for TOML and the command line alike."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from peerdescent import algorithms, graphs, problems
from peerdescent._util import toml
from peerdescent._util.validation import did_you_mean
from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.graphs import Graph
from peerdescent.problems import Problem
from peerdescent.training import Settings

WHOLE_SHARDS = 0
"""A batch size of 0 asks for exact gradients."""


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a run's result, and how it is carried out.

    Keys have the names of the command line's flags, with underscores. `set` holds hyperparameters: for all methods
    (`eta = 0.1`), for one of them (`dsgpa-f = {eta = 0.1}`) and for the problem (`problem = {start = "glorot"}`).

    >>> experiment = Experiment(problem="quadratic", graph="ring:4", algorithms=("d-sgd-1",), set={"eta": 0.05})
    >>> experiment.make_algorithm("d-sgd-1").eta
    0.05
    """

    algorithms: tuple[str, ...] = ("dsgpa-f-pb",)
    problem: str = "mnist-nn"
    graph: str = "er:10:0.4"
    partition: str = "iid"
    iterations: int = 3000
    batch_size: int = 20
    seed: int = 0
    laplacian: str = "metropolis"
    mixing: str = "metropolis"
    powerball: float | None = None
    replacement: bool = True
    communication_period: int = 1
    message_dtype: str = "full"
    eval_every: int | None = None
    per_agent: bool = True
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    kernel: str = "auto"
    gradients: str = "auto"
    title: str = ""
    load: tuple[str, ...] = ()
    set: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kinds, wanted in _KINDS:
            value = getattr(self, name)
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise InputError(f"{name} = {value!r}: expected {wanted}.")
        for name in ("algorithms", "load"):
            if not all(isinstance(item, str) for item in getattr(self, name)):
                raise InputError(f"{name} = {list(getattr(self, name))!r}: expected a list of texts.")
        if len(set(self.algorithms)) < len(self.algorithms):
            raise InputError(f"algorithms = {', '.join(self.algorithms)}: expected every method once.")
        if not self.algorithms:
            raise InputError("an experiment needs an algorithm: see `peerdescent list algorithms`.")

    def settings(self) -> Settings:
        """How the run is carried out."""
        shared = {f.name: getattr(self, f.name) for f in fields(Settings)}
        return Settings(**{**shared, "batch_size": None if self.batch_size == WHOLE_SHARDS else self.batch_size})

    def make_graph(self) -> Graph:
        """The graph, built."""
        return graphs.parse(self.graph)

    def make_problem(self, agents: int) -> Problem:
        """The problem for that many agents."""
        return problems.make(self.problem, agents, self.partition, **self.set.get("problem", {}))

    def make_algorithm(self, name: str) -> Algorithm:
        """A method with the values that are set for it, and for all."""
        known = algorithms.find(name).options()
        common = {key: value for key, value in self.set.items() if not isinstance(value, Mapping)}
        for key in common:
            if not any(key in algorithms.find(other).options() for other in self.algorithms):
                raise InputError(f"{name} has no hyperparameter {key!r}: it has {', '.join(known)}.")
        own = self.set.get(name, {})
        for key in own:
            if key not in known:
                raise InputError(f"{name} has no hyperparameter {key!r}: it has {', '.join(known)}.")
        values = {key: value for key, value in common.items() if key in known}
        return algorithms.make(name, self.powerball, **{**values, **own})

    def check(self) -> None:
        """Build everything once, so that wrong input is found before anything is written."""
        for path in self.load:
            load_methods(path)
        for key, value in self.set.items():
            if isinstance(value, Mapping) and key != "problem" and key not in self.algorithms:
                raise InputError(f"set.{key}: there is no such algorithm in this experiment.")
        self.settings().place()
        for name in self.algorithms:
            self.make_algorithm(name)

    def resolved(self, *names: str) -> dict[str, Any]:
        """The run of one method, or of several, with every choice explicit, ready for TOML."""
        flat = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("algorithms", "set")}
        flat = {key: list(value) if isinstance(value, tuple) else value for key, value in flat.items()}
        chosen = {key: value for key, value in flat.items() if value is not None and value not in ("", [])}
        own = {name: self.make_algorithm(name).parameters() for name in names}
        own |= {"problem": dict(self.set["problem"])} if "problem" in self.set else {}
        named = {"algorithm": names[0]} if len(names) == 1 else {"algorithms": list(names)}
        return {**named, **chosen, "set": own}


_TEXTS = (
    "problem",
    "graph",
    "partition",
    "laplacian",
    "mixing",
    "message_dtype",
    "device",
    "dtype",
    "kernel",
    "gradients",
    "title",
)
_KINDS: list[tuple[str, tuple[type, ...], str]] = [
    *((name, (str,), "a text") for name in _TEXTS),
    *(
        (name, (int,), "a whole number")
        for name in ("iterations", "batch_size", "seed", "communication_period", "threads")
    ),
    ("eval_every", (int, type(None)), "a whole number"),
    ("powerball", (int, float, type(None)), "a number in [0, 1]"),
    *((name, (bool,), "true or false") for name in ("replacement", "per_agent")),
    *((name, (tuple,), "a list of texts") for name in ("algorithms", "load")),
    ("set", (dict, Mapping), "a table"),
]


def load_methods(path: str) -> None:
    """Run a Python file that registers methods or problems of one's own."""
    spec = importlib.util.spec_from_file_location(f"peerdescent_user_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"load = {path!r}: expected a Python file.")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"load = {path!r}: there is no such file.") from None
    except (Exception, SystemExit) as error:  # anything can go wrong in a user's file; what and where is what they need
        raise InputError(f"load = {path!r} failed: {type(error).__name__}: {error}") from error


def read(source: str) -> Experiment:
    """An experiment from a TOML file, or from the library by name.

    >>> read("quickstart").graph
    'authors10'
    """
    path = Path(source)
    if source in library():
        text = files(__package__).joinpath("library").joinpath(f"{source}.toml").read_text(encoding="utf-8")
    elif path.suffix != ".toml" and not os.path.exists(source):  # unlike Path's, it is False for too long a name
        near = did_you_mean(source, library())
        raise InputError(
            f"there is no experiment {source!r}{near}: give a TOML file or see `peerdescent list experiments`."
        )
    else:
        text = _text(path)
    return from_keys(toml.loads(text, source), source)


def from_keys(keys: Mapping[str, Any], source: str = "the experiment", base: Experiment | None = None) -> Experiment:
    """An experiment from plain keys, the others taken from `base`; `algorithm` may stand for a list of one."""
    keys = {key.replace("-", "_"): value for key, value in keys.items()}
    if isinstance(keys.get("algorithm"), Mapping):
        raise InputError(f"{source} was written by a run made in Python, which only Python can repeat.")
    if "algorithm" in keys:
        if "algorithms" in keys:
            raise InputError(f"{source} has both algorithm and algorithms: keep one.")
        keys["algorithms"] = [keys.pop("algorithm")]
    known = [f.name for f in fields(Experiment)]
    for key in keys:
        if key not in known:
            raise InputError(f"{source} has an unknown key {key!r}{did_you_mean(key, known)}.")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in keys.items()}
    return replace(base or Experiment(), **values)


def library() -> dict[str, str]:
    """The experiments that ship with the package, by name, with their titles."""
    folder = files(__package__).joinpath("library")
    texts = {
        item.name[:-5]: item.read_text(encoding="utf-8") for item in folder.iterdir() if item.name.endswith(".toml")
    }
    return {name: str(toml.loads(text, name).get("title", "")) for name, text in sorted(texts.items())}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file: expected TOML.") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from None
