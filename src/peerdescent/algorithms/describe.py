"""A method as an experiment file names it: the nearest preset, and every value."""

from __future__ import annotations

from typing import Any

from peerdescent.algorithms.base import Algorithm
from peerdescent.algorithms.registry import PRESETS
from peerdescent.transforms import Chain, Powerball, Transform


def describe(algorithm: Algorithm, name: str = "") -> dict[str, Any]:
    """The keys `algorithm`, `set` and `powerball` that make this method again, under `name` or the nearest preset.

    What has no text, such as a class that is not registered, is listed under `made_in_python`.

    >>> from peerdescent.algorithms import DSGD1
    >>> describe(DSGD1(eta=0.2))
    {'algorithm': 'd-sgd-1', 'set': {'d-sgd-1': {'eta': 0.2}}}
    """
    name, python = name or name_of(algorithm), list[str]()
    if name not in PRESETS:
        python.append("algorithm")
    found: dict[str, Any] = {"algorithm": name, "set": {name: algorithm.parameters()}}
    gamma = _powerball(algorithm.transform)
    if gamma is not None:
        found["powerball"] = gamma
    elif algorithm.transform != Transform():
        found["transform"] = str(algorithm.transform)
        python.append("transform")
    return {**found, **({"made_in_python": python} if python else {})}


def name_of(algorithm: Algorithm) -> str:
    """The preset of the method's class that shares most values with it; the class's name if there is none.

    >>> from peerdescent.algorithms import DSGPA
    >>> name_of(DSGPA(eta=0.1, alpha=1, beta=1, gamma=0.7, power_on="direction"))
    'dsgpa-f-pb-exact'
    """
    values = algorithm.parameters()
    shared = {
        name: sum(preset.options()[key] == value for key, value in values.items())
        for name, preset in PRESETS.items()
        if preset.kind is type(algorithm)
    }
    return max(shared, key=lambda name: shared[name]) if shared else type(algorithm).__name__


def _powerball(transform: Transform) -> float | None:
    """γ, if the transform is just what `--powerball` makes."""
    match transform:
        case Powerball(gamma) | Chain(Transform(), Powerball(gamma)) if _plain_first(transform):
            return gamma
    return None


def _plain_first(transform: Transform) -> bool:
    return not isinstance(transform, Chain) or type(transform.first) is Transform
