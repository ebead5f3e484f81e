"""peerdescent: train one model among many agents with no centre.

>>> import peerdescent
>>> result = peerdescent.train("quadratic", "ring:5", "d-sgt-1", iterations=100, eval_every=50)
>>> result.x.shape
torch.Size([5, 10])
"""

from peerdescent import algorithms, graphs, optim, problems, schedules, theory, transforms
from peerdescent._version import __version__
from peerdescent.errors import DivergedError, InputError, PeerdescentError
from peerdescent.runs.metrics import Metrics
from peerdescent.training import Result, Settings, train

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
