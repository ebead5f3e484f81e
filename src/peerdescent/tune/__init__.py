"""Good parameters for several methods at an equal budget: where to seek, how, what came out and what it cost."""

from peerdescent.tune.results import Tuned, Tuning
from peerdescent.tune.search import Budget
from peerdescent.tune.tuning import tune

__all__ = ["Budget", "Tuned", "Tuning", "tune"]
