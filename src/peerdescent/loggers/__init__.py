"""Loggers: callbacks that write a run's numbers where other tools read them.

>>> import tempfile, peerdescent
>>> from peerdescent.loggers import CSV
>>> with tempfile.TemporaryDirectory() as folder:
...     result = peerdescent.train("quadratic", "ring:4", "d2", iterations=10, eval_every=10, per_agent=False,
...                                callbacks=[CSV(f"{folder}/a.csv")])
...     print(open(f"{folder}/a.csv").readline().strip())
iteration,loss,accuracy,consensus_error,gradient_norm,bytes_sent,seconds,evaluation_seconds

Without a place of their own they write into the run folder: `metrics.csv`, `tensorboard/`, `wandb/`. On the command
line, `--log csv --log tensorboard` does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from peerdescent._util.validation import check_choice
from peerdescent.errors import InputError

if TYPE_CHECKING:
    from peerdescent.loggers.table import CSV
    from peerdescent.loggers.tensorboard import TensorBoard
    from peerdescent.loggers.weights_and_biases import WandB
    from peerdescent.training.callbacks import Callback

__all__ = ["CSV", "TensorBoard", "WandB"]

KINDS = {"csv": "CSV", "tensorboard": "TensorBoard", "wandb": "WandB"}
"""The loggers by their names on the command line."""
_HOMES = {"CSV": "table", "TensorBoard": "tensorboard", "WandB": "weights_and_biases"}


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of loggers; unknown and repeated ones are refused."""
    for name in names:
        check_choice("--log", name, KINDS)
        if names.count(name) > 1:
            raise InputError(f"--log {name} is given more than once: once is enough.")
    return tuple(names)


def make(names: Sequence[str]) -> list[Callback]:
    """The loggers of these names, which write into the run folder.

    Raises:
        InputError: a package is missing; the message says how to install it.
    """
    return [getattr(import_module(f"{__name__}.{_HOMES[KINDS[name]]}"), KINDS[name])() for name in names]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
