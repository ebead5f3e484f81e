"""How a method runs: exchange, gradients, update, loop, metrics, checkpoints."""

from peerdescent.engine.metrics import Metrics
from peerdescent.engine.result import Result
from peerdescent.engine.settings import Settings
from peerdescent.engine.train import train

__all__ = ["Metrics", "Result", "Settings", "train"]
