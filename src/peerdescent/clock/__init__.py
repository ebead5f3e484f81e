"""A network model and a simulated clock: how many seconds an iteration would take on machines that are far apart.

>>> from peerdescent import clock
>>> model = clock.read("wan")
>>> model.link.latency_ms, model.agent.uplink_mbit
(20.0, 100.0)
"""

from peerdescent.clock.communication import Communication, Step, step_of
from peerdescent.clock.files import library, read
from peerdescent.clock.forecast import Forecast, forecast
from peerdescent.clock.model import NetworkModel, from_keys
from peerdescent.clock.simulation import Clock, all_reduce_seconds, finish_times

__all__ = [
    "Clock",
    "Communication",
    "Forecast",
    "NetworkModel",
    "Step",
    "all_reduce_seconds",
    "finish_times",
    "forecast",
    "from_keys",
    "library",
    "read",
    "step_of",
]
