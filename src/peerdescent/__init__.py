"""peerdescent: train one model on many agents without a central server.

>>> import peerdescent
>>> result = peerdescent.train("quadratic", "ring:5", "d-sgt-1", iterations=100, eval_every=50)
>>> result.x.shape
torch.Size([5, 10])

Names are imported when they are first used, so that `peerdescent --help` does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from peerdescent._version import __version__
from peerdescent.errors import DivergedError, InputError, PeerdescentError

if TYPE_CHECKING:
    from peerdescent import algorithms, graphs, loggers, optim, problems, report, schedules, testing, theory, transforms
    from peerdescent.experiments.compare import compare
    from peerdescent.experiments.comparison import Comparison
    from peerdescent.experiments.explain import explain
    from peerdescent.experiments.load import load
    from peerdescent.experiments.schema import Experiment
    from peerdescent.runs.metrics import Metrics
    from peerdescent.training.callbacks import Callback
    from peerdescent.training.result import Result
    from peerdescent.training.settings import Settings
    from peerdescent.training.train import train

_HOMES = {
    "Callback": "training.callbacks",
    "Comparison": "experiments.comparison",
    "Experiment": "experiments.schema",
    "Metrics": "runs.metrics",
    "Result": "training.result",
    "Settings": "training.settings",
    "compare": "experiments.compare",
    "explain": "experiments.explain",
    "load": "experiments.load",
    "train": "training.train",
}

__all__ = [
    "Callback",
    "Comparison",
    "DivergedError",
    "Experiment",
    "InputError",
    "Metrics",
    "PeerdescentError",
    "Result",
    "Settings",
    "__version__",
    "algorithms",
    "compare",
    "explain",
    "graphs",
    "load",
    "loggers",
    "optim",
    "problems",
    "report",
    "schedules",
    "testing",
    "theory",
    "train",
    "transforms",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'peerdescent' has no attribute {name!r}")
    if name not in _HOMES:
        return importlib.import_module(f"peerdescent.{name}")
    value = getattr(importlib.import_module(f"peerdescent.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
