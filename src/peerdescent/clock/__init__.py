"""A network model and a simulated clock: how many seconds an iteration would take on machines that are far apart.

Names are imported when they are used: reading a network file needs neither torch nor NumPy.

>>> from peerdescent import clock
>>> model = clock.read("wan")
>>> model.link.latency_ms, model.agent.uplink_mbit
(20.0, 100.0)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerdescent.clock.communication import Communication, Step, on_graph, step_of
    from peerdescent.clock.files import library, read
    from peerdescent.clock.model import NetworkModel, from_keys
    from peerdescent.clock.pace import Forecast, forecast
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
    "on_graph",
    "read",
    "step_of",
]

_HOMES = {
    "Clock": "simulation",
    "Communication": "communication",
    "Forecast": "pace",
    "NetworkModel": "model",
    "Step": "communication",
    "all_reduce_seconds": "simulation",
    "finish_times": "simulation",
    "forecast": "pace",
    "from_keys": "model",
    "library": "files",
    "on_graph": "communication",
    "read": "files",
    "step_of": "communication",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
