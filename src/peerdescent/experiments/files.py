"""Where experiments come from: TOML files, run folders, the library; and the commented file that `init` writes."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from peerdescent._util import toml
from peerdescent._util.files import read_text
from peerdescent._util.schema import Setting, settings_of
from peerdescent._util.validation import did_you_mean
from peerdescent.errors import InputError
from peerdescent.experiments.schema import WHAT, Experiment, from_keys
from peerdescent.experiments.sweep import SWEEP_KEY, Sweep
from peerdescent.experiments.user_code import check_trust
from peerdescent.training.settings import COMPUTE, NETWORK, RUN

PANELS = (WHAT, RUN, NETWORK, COMPUTE)
"""The groups of settings, in the order in which people think of them."""
RUN_FILES = ("experiment.toml", "comparison.toml", "sweep.toml", "tuned.toml")
"""What a folder may hold that can be run again."""


def read(source: str, trust: bool = False) -> Experiment:
    """An experiment from a TOML file, from a run folder, or from the library by name.

    Args:
        source: the file, folder or name.
        trust: whether the file may name Python files to `load`, which are run with the experiment.

    >>> read("quickstart").graph
    'authors10'
    """
    experiment, sweep = read_with_sweep(source, trust)
    if sweep:
        raise InputError(f"{source} is a sweep over seeds or values, which run and compare take: name one run instead.")
    return experiment


def read_with_sweep(source: str, trust: bool = False) -> tuple[Experiment, Sweep]:
    """The same for what may have a table [sweep], with seeds and grid."""
    if source in library():
        text = files(__package__).joinpath("library").joinpath(f"{source}.toml").read_text(encoding="utf-8")
        return from_keys(toml.loads(text, source), source), Sweep()
    path = Path(source)
    if os.path.isdir(source):
        path = run_file(path)
    elif path.suffix != ".toml" and not os.path.exists(source):
        near = did_you_mean(source, library())
        raise InputError(
            f"there is no experiment {source!r}{near}: give a TOML file, a run folder, or a name that "
            "`peerdescent list experiments` shows."
        )
    keys = toml.loads(read_text(path, "experiment file"), str(path))
    try:
        sweep = Sweep.from_keys(keys.pop(SWEEP_KEY, {}), str(path))
        experiment = from_keys(keys, str(path))
    except InputError as error:
        named = str(error).startswith(str(path))
        raise InputError(str(error) if named else f"{path}: {error}") from None
    check_trust(experiment.load, str(path), trust)
    return experiment, sweep


def run_file(folder: Path) -> Path:
    """The file in a run folder that says what was run."""
    for name in RUN_FILES:
        if os.path.isfile(folder / name):  # unlike Path's, it is False for too long a name
            return folder / name
    raise InputError(f"{folder} holds no run: expected one of {', '.join(RUN_FILES)} in it.")


def library() -> dict[str, str]:
    """The experiments that ship with the package, by name, with their titles."""
    folder = files(__package__).joinpath("library")
    texts = {
        item.name[:-5]: item.read_text(encoding="utf-8") for item in folder.iterdir() if item.name.endswith(".toml")
    }
    return {name: str(toml.loads(text, name).get("title", "")) for name, text in sorted(texts.items())}


def commented(experiment: Experiment | None = None) -> str:
    """An experiment file with every key, its meaning and its default; what differs from the default is active.

    >>> print(commented().splitlines()[0])
    # An experiment for peerdescent: `peerdescent run THIS_FILE`, or compare, explain, tune.
    """
    chosen = experiment or Experiment()
    lines = [
        "# An experiment for peerdescent: `peerdescent run THIS_FILE`, or compare, explain, tune.",
        "# Every key has a flag of the same name (--batch-size for batch_size); flags win over this file.",
        "# Only a file that names Python files to `load` can run code, and it is refused without --trust.",
    ]
    panel = ""
    settings = [setting for setting in settings_of(Experiment) if setting.name != "set"]
    for setting in sorted(settings, key=lambda setting: PANELS.index(setting.panel)):
        if setting.panel != panel:
            panel = setting.panel
            lines += ["", f"# ---- {panel} ----"]
        lines += _entry(setting, getattr(chosen, setting.name))
    lines += ["", *_SET_COMMENT]
    if chosen.set:
        lines += ["", toml.dumps({"set": chosen.set}).decode().rstrip()]
    return "\n".join(lines) + "\n"


_SET_COMMENT = (
    "# Hyperparameters: for all methods, for one of them, and the problem's options.",
    "# [set]",
    "# eta = 0.03",
    "# [set.dm-sgd]",
    '# eta = "cosine:0.1:3000"   # a schedule: power:, inverse:, cosine:, step:, warmup:',
    "# [set.problem]",
    '# start = "glorot"',
)


_EXAMPLES: dict[str, Any] = {
    "compress": "topk:0.1",
    "consensus_step": 0.3,
    "eval_every": 60,
    "per_agent": True,
    "powerball": 0.7,
    "transform": "power:0.7@direction",
    "gradient_noise": "student-t:1.5",
    "weight_decay": 0.0001,
    "decay": "decoupled",
    "clip_norm": 1.0,
    "ema": 0.999,
    "patience": 10,
    "monitor": "test_loss",
    "average_every": 100,
    "final_average": True,
    "drop": "0.1",
    "inactive": "markov:0.05:0.2",
}
"""What is shown for settings that have no value by default."""


def _entry(setting: Setting, value: Any) -> list[str]:
    """A key with its comment; commented out where it has its default."""
    choices = f" One of {setting.metavar.replace('|', ', ')}." if "|" in setting.metavar else ""
    shown = value if value not in (None, "", ()) else _EXAMPLES.get(setting.name, value)
    text = f"{setting.name} = {json.dumps(shown, ensure_ascii=False)}"  # what JSON writes of these kinds is TOML too
    active = value != setting.default or setting.name in ("algorithms", "problem", "graph", "iterations", "batch_size")
    return [f"# {setting.help}{choices}", text if active else f"# {text}"]
