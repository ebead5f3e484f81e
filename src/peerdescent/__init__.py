"""peerdescent: train one model among many agents, without a central server.

>>> import peerdescent
>>> result = peerdescent.train("quadratic", "ring:5", "d-sgt-1", iterations=100, eval_every=50)
>>> result.x.shape
torch.Size([5, 10])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from peerdescent._version import __version__
from peerdescent.errors import DivergedError, InputError, PeerdescentError

if TYPE_CHECKING:
    from peerdescent import algorithms, graphs, optim, problems, schedules, theory, transforms
    from peerdescent.runs.metrics import Metrics
    from peerdescent.training.result import Result
    from peerdescent.training.settings import Settings
    from peerdescent.training.train import train

__all__ = [
    "DivergedError",
    "InputError",
    "Metrics",
    "PeerdescentError",
    "Result",
    "Settings",
    "__version__",
    "algorithms",
    "graphs",
    "optim",
    "problems",
    "schedules",
    "theory",
    "train",
    "transforms",
]

_HOMES = {"Metrics": "runs.metrics", "Result": "training", "Settings": "training", "train": "training"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that reading a run folder does not load torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _HOMES:
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
