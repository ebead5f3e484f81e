"""How a method runs: exchange, gradients, update, loop, metrics, checkpoints."""

from peerdescent.runs.metrics import Metrics
from peerdescent.training.result import Result
from peerdescent.training.settings import Settings
from peerdescent.training.train import train

__all__ = ["Metrics", "Result", "Settings", "train"]
