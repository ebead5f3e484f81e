"""An experiment: problem, graph, methods and settings, as keys that files, flags and Python share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from peerdescent._util.schema import about, settings_of
from peerdescent._util.validation import described, did_you_mean
from peerdescent.errors import InputError
from peerdescent.training.settings import Settings

WHAT = "What is run"
PROBLEM = "problem"
"""The table of `set` that holds the problem's options."""


class Experiment(Settings, frozen=True, kw_only=True):
    """Everything that decides a run's result.

    Keys have the names of the command line's flags, with underscores. `set` holds hyperparameters: for all methods
    (`eta = 0.1`), for one of them (`dsgpa-f = {eta = 0.1}`) and for the problem (`problem = {start = "glorot"}`).

    >>> Experiment(problem="quadratic", graph="ring:4", algorithms=("d-sgd-1",), set={"eta": 0.05}).iterations
    3000
    """

    algorithms: Annotated[tuple[str, ...], about("Methods: see `peerdescent list algorithms`.", "NAME", WHAT)] = (
        "dsgpa-f-pb",
    )
    problem: Annotated[str, about("What is minimised: see `peerdescent list problems`.", "NAME", WHAT)] = "mnist-nn"
    graph: Annotated[
        str, about("Who talks to whom, such as ring:10 or er:10:0.4:seed=3: see `list graphs`.", "GRAPH", WHAT)
    ] = "er:10:0.4"
    partition: Annotated[
        str, about("How the data are split: iid, label, dirichlet:A, or by:KEY, such as by:speaker.", "SPLIT", WHAT)
    ] = "iid"
    powerball: Annotated[
        float | None, about("Raise every gradient to this power, for any method.", "G", WHAT, ge=0, le=1)
    ] = None
    transform: Annotated[
        str | None,
        about(
            "Transform every gradient, power:G, sign or clip:LIMIT; with @direction after the correction, for methods "
            "that have one.",
            "KIND",
            WHAT,
        ),
    ] = None
    set: Annotated[
        dict[str, Any],
        about("A hyperparameter (eta=.03), a schedule (eta=cosine:.1:3000, step:.1:.5:1000:2000, warmup:200:REST), one "
              "method's (dm-sgd.eta=.1) or the problem's (problem.start=glorot).", "KEY=VALUE", WHAT),
    ] = {}  # noqa: RUF012 (msgspec copies it)  # fmt: skip
    title: Annotated[str, about("A heading for figures and reports.", "TEXT", WHAT, max_length=300)] = ""
    load: Annotated[
        tuple[str, ...], about("A Python file that registers your own methods or problems; it is run.", "FILE", WHAT)
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.algorithms:
            raise InputError("an experiment needs an algorithm: see `peerdescent list algorithms`.")
        if repeated := [name for name, count in Counter(self.algorithms).items() if count > 1]:
            raise InputError(f"algorithms has {', '.join(repeated)} more than once: name every method once.")

    @property
    def problem_options(self) -> dict[str, Any]:
        """What is set for the problem."""
        given = self.set.get(PROBLEM, {})
        if not isinstance(given, Mapping):
            raise InputError(f"set.problem is {described(given)}: name what is set, such as problem.seed=3.")
        options = dict(given)
        for key, decided in {"name": "--problem", "agents": "--graph", "partition": "--partition"}.items():
            if key in options:
                raise InputError(f"problem.{key} cannot be set: {decided} decides it.")
        return options


def from_keys(keys: Mapping[str, Any], source: str = "the experiment", base: Experiment | None = None) -> Experiment:
    """An experiment from plain keys, the others taken from `base`; `algorithm` may stand for a list of one."""
    for key in keys:
        if "-" in key and key.replace("-", "_") in keys:
            raise InputError(f"{source} has both {key} and {key.replace('-', '_')}: keep one.")
    keys = {key.replace("-", "_"): value for key, value in keys.items()}
    if python := keys.pop("made_in_python", None):
        own = ", ".join(map(str, python)) if isinstance(python, list) else python
        raise InputError(f"{source} was made in Python with its own {own}: repeat it there.")
    if "algorithm" in keys:
        if "algorithms" in keys:
            raise InputError(f"{source} has both algorithm and algorithms: keep one.")
        keys["algorithms"] = [keys.pop("algorithm")]
    known = [setting.name for setting in settings_of(Experiment)]
    for key in keys:
        if key not in known:
            shown = key if len(key) <= 60 else f"{key[:60]}…"
            raise InputError(f"{source} has an unknown key {shown!r}{did_you_mean(key, known)}.")
    return (base or Experiment()).replace(**keys)


def override(experiment: Experiment, keys: Mapping[str, Any], values: Sequence[str] = ()) -> Experiment:
    """The experiment with flags in place of its keys; `values` are the texts of `--set`. Flags always win.

    >>> file = Experiment(algorithms=("d-sgd-1",), set={"d-sgd-1": {"eta": 0.1}})
    >>> override(file, {}, ["eta=.3"]).set
    {'d-sgd-1': {}, 'eta': 0.3}
    """
    chosen, held = dict(keys), {key: dict(v) if isinstance(v, dict) else v for key, v in experiment.set.items()}
    if "algorithms" in chosen:
        chosen["algorithms"] = [name for text in chosen["algorithms"] for name in text.split(",")]
        for unwanted in set(experiment.algorithms) - set(chosen["algorithms"]):
            held.pop(unwanted, None)  # the values of a method that is left out
    methods = [key for key, value in experiment.set.items() if isinstance(value, dict) and key != PROBLEM]
    for text in sorted(values, key=lambda text: "." in text.partition("=")[0]):  # a method's own value comes last
        _set(held, text, methods)
    return from_keys({**chosen, "set": held}, "the command line", experiment)


def _set(held: dict[str, Any], text: str, methods: Sequence[str]) -> None:
    """One `--set KEY=VALUE`; a value for all methods also replaces what the file sets for single ones."""
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise InputError(f"--set {text}: expected KEY=VALUE, such as eta=.03 or dm-sgd.eta=.1.")
    owner, dot, name = key.strip().rpartition(".")
    table = held.setdefault(owner, {}) if dot else held
    if not isinstance(table, dict) or isinstance(held.get(key.strip()), dict):
        raise InputError(f"--set {text}: a name holds one value or several values of its own, not both.")
    if not dot:
        for method in methods:
            held.get(method, {}).pop(name, None)
    table[name] = scalar(value.strip())


def scalar(text: str) -> Any:
    """The value that a text on the command line stands for; quotes enclose a text with commas.

    >>> scalar("3"), scalar(".5"), scalar("true"), scalar('"a,b"')
    (3, 0.5, True, 'a,b')
    """
    if "," in text and text[0] == text[-1] == '"':
        return text[1:-1]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)
