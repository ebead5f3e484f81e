"""Tune the hyperparameters of several methods with equal budgets, and report results and costs."""

from peerdescent.tune.results import Tuned, Tuning
from peerdescent.tune.search import Budget
from peerdescent.tune.tuning import tune

__all__ = ["Budget", "Tuned", "Tuning", "tune"]
