"""The methods by name: what the command line, the experiment files and the conformance checks offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from peerdescent._util.validation import did_you_mean
from peerdescent.algorithms.base import Algorithm
from peerdescent.algorithms.corrected import D2, DSGT1, DSGT2
from peerdescent.algorithms.dsgpa import DSGPA
from peerdescent.algorithms.momentum import DASG, DMSGD
from peerdescent.algorithms.sgd import CSGD, DSGD1, DSGD2
from peerdescent.errors import InputError
from peerdescent.transforms import Powerball, Transform


@dataclass(frozen=True)
class Preset:
    """A class of methods, the values it has under this name, and one line about it."""

    kind: type[Algorithm]
    summary: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """Every hyperparameter that can be set, with its value under this name."""
        return self.kind(**self.values).parameters()


_PRESETS: dict[str, Preset] = {}
PRESETS = MappingProxyType(_PRESETS)
"""Every registered method, in the order of registration."""


def register(name: str, kind: type[Algorithm], summary: str = "", **values: Any) -> None:
    """Offer a method under a name everywhere: command line, experiments, conformance checks.

    >>> register("d-sgd-slow", DSGD1, "decentralized SGD with a tiny step", eta=1e-4)
    >>> make("d-sgd-slow")
    DSGD1(transform=Transform(), eta=0.0001)
    >>> unregister("d-sgd-slow")
    """
    if name in _PRESETS and _PRESETS[name].kind.__qualname__ != kind.__qualname__:
        raise InputError(f"a method named {name!r} is registered already; choose another name.")
    _PRESETS[name] = Preset(kind, summary or (kind.__doc__ or "").strip().split("\n")[0], values)


def unregister(name: str) -> None:
    """Take a name back."""
    _PRESETS.pop(name, None)


def make(name: str, powerball: float | None = None, **values: Any) -> Algorithm:
    """The method of that name, with some of its values replaced and, on request, a powered gradient.

    >>> make("dsgpa-f-pb", gamma=0.5).gamma
    0.5
    >>> make("d-sgd-1", powerball=0.7).transform.second
    Powerball(gamma=0.7)
    """
    preset = find(name)
    known = {f.name for f in fields(preset.kind)}
    for key in values:
        if key not in known:
            options = ", ".join(preset.options())
            raise InputError(f"{name} has no hyperparameter {key!r}: it has {options}.")
    if powerball is not None:
        if {**preset.values, **values}.get("gamma", 1.0) != 1:
            raise InputError(f"{name} has a power of its own: use --set gamma={powerball} instead of powerball.")
        values["transform"] = values.get("transform", Transform()).then(Powerball(powerball))
    return preset.kind(**{**preset.values, **_numbers(preset, values)})


def find(name: str) -> Preset:
    """The preset of that name, or a sentence with the nearest names."""
    if name not in _PRESETS:
        near = did_you_mean(name, _PRESETS)
        raise InputError(f"there is no algorithm {name!r}{near}: see `peerdescent list algorithms`.")
    return _PRESETS[name]


def _numbers(preset: Preset, values: Mapping[str, Any]) -> dict[str, Any]:
    """Texts such as "0.7" as numbers, except for rates, which read their own text."""
    return {key: value if key in preset.kind.rates else _number(value) for key, value in values.items()}


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


_GS = {"dual": "gauss-seidel"}
_F = {"eta": 0.03, "alpha": 5.0, "beta": 20.0, **_GS}
_T = {"eta": 0.08, "alpha": 4.0, "beta": 3.0, "epsilon": 1e-5, **_GS}
_PB = {"gamma": 0.7}
_EXACT = {"gamma": 0.7, "power_on": "direction"}
# The paper's table of NN values. It prints the jacobi order, in which its own F values diverge on every graph.
_NOTE = "dual first (gauss-seidel), since the printed order diverges with these values"
register("dsgpa-f", DSGPA, f"primal-dual SGD, fixed parameters; {_NOTE}", **_F)
register("dsgpa-t", DSGPA, "primal-dual SGD, parameters that vary with k", **_T)
register("dsgpa-f-pb", DSGPA, f"the paper's method: powered gradients, fixed parameters; {_NOTE}", **_F, **_PB)
register("dsgpa-t-pb", DSGPA, "the paper's method: powered gradients, parameters that vary with k", **_T, **_PB)
register("dsgpa-f-pb-exact", DSGPA, "power on the whole direction: unbiased on unlike data; fixed", **_F, **_EXACT)
register("dsgpa-t-pb-exact", DSGPA, "power on the whole direction: unbiased on unlike data; varying", **_T, **_EXACT)
register("dm-sgd", DMSGD, "momentum SGD that mixes the momentum too; sends two vectors")
register("d-sgd-1", DSGD1, "decentralized SGD: mix, then descend")
register("d-sgd-2", DSGD2, "decentralized SGD with decaying weights on disagreement and gradient")
register("d2", D2, "D²: unbiased on unlike data; needs λmin(W) > −1/3, else uses (I+W)/2")
register("d-sgt-1", DSGT1, "gradient tracking (GNSD); sends two vectors")
register("d-sgt-2", DSGT2, "gradient tracking (DSGT); sends two vectors")
register("d-asg", DASG, "Nesterov-accelerated decentralized SGD")
register("c-sgd", CSGD, "centralized SGD on the pooled data: the baseline with a centre")
