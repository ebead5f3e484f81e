"""The methods by name: what the command line, the experiment files and the conformance checks offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from peerdescent._util.validation import described, did_you_mean
from peerdescent.algorithms.adaptive import DAdam
from peerdescent.algorithms.base import Algorithm
from peerdescent.algorithms.clipped import ClippedDSGD
from peerdescent.algorithms.compressed import BEER, ChocoSGD, MoTEF
from peerdescent.algorithms.d2 import D2
from peerdescent.algorithms.diffusion import EDM, NIDS, ExactDiffusion
from peerdescent.algorithms.dsgpa import DSGPA
from peerdescent.algorithms.global_momentum import MomentumTracking, QGDSGDm
from peerdescent.algorithms.gossip import GossipAdam, GossipSGD, OuterAdam, OuterSGD
from peerdescent.algorithms.gradient_tracking import DSGT1, DSGT2, AugDGM, PoweredTracking
from peerdescent.algorithms.heavy_tails import GTNSGDm, SClipEF
from peerdescent.algorithms.hybrid_tracking import GTHSGD
from peerdescent.algorithms.local_steps import KGT, LED, ProxSkip
from peerdescent.algorithms.momentum import DASG, DMSGD
from peerdescent.algorithms.primal_dual import EXTRA
from peerdescent.algorithms.push_sum import SGP, PushDIGing
from peerdescent.algorithms.sgd import CSGD, DSGD1, DSGD2
from peerdescent.errors import InputError
from peerdescent.transforms import Powerball, Transform


@dataclass(frozen=True)
class Preset:
    """A class of methods, its values under this name, a one-line summary, and other names for it."""

    kind: type[Algorithm]
    summary: str
    values: Mapping[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """Every hyperparameter that can be set, with its value under this name."""
        return self.kind(**self.values).parameters()


_PRESETS: dict[str, Preset] = {}
PRESETS = MappingProxyType(_PRESETS)
"""Every registered method, in the order of registration."""
_ALIASES: dict[str, str] = {}
ALIASES = MappingProxyType(_ALIASES)
"""Other names of registered methods, and the name that each one resolves to."""


def register(name: str, kind: type[Algorithm], summary: str = "", aliases: Sequence[str] = (), **values: Any) -> None:
    """Offer a method under a name, and under aliases: on the command line, in experiments, in conformance checks.

    >>> register("d-sgd-slow", DSGD1, "decentralized SGD with a tiny step", aliases=("slow",), eta=1e-4)
    >>> make("slow")
    DSGD1(transform=Transform(), eta=0.0001)
    >>> unregister("d-sgd-slow")
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"name is {described(name)}: expected the name of a method.")
    if not (isinstance(kind, type) and issubclass(kind, Algorithm)):
        raise InputError(f"kind is {described(kind)}: expected a subclass of Algorithm.")
    if isinstance(aliases, str) or not isinstance(aliases, Sequence) or not all(isinstance(a, str) for a in aliases):
        raise InputError(f"aliases is {described(aliases)}: expected a list of names.")
    taken = name in _ALIASES or (name in _PRESETS and _PRESETS[name].kind.__qualname__ != kind.__qualname__)
    clashes = [name] if taken else [a for a in aliases if a in _PRESETS or _ALIASES.get(a, name) != name]
    if clashes:
        raise InputError(f"a method named {clashes[0]!r} is already registered: choose another name.")
    unregister(name)
    summary = summary or (kind.__doc__ or "").strip().split("\n")[0]
    _PRESETS[name] = Preset(kind, summary, values, tuple(aliases))
    _ALIASES.update(dict.fromkeys(aliases, name))


def unregister(name: str) -> None:
    """Remove a method and its aliases."""
    preset = _PRESETS.pop(name, None)
    for alias in preset.aliases if preset else ():
        _ALIASES.pop(alias, None)


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
        given = values.get("transform", Transform())
        if not isinstance(given, Transform):
            raise InputError(f"transform is {described(given)}: expected one of peerdescent.transforms.")
        plain = preset.kind(**{**preset.values, **_numbers(preset, values)})  # refuses values of a wrong type
        if getattr(plain, "gamma", 1.0) != 1:
            raise InputError(f"{name} has a power of its own: use --set gamma={powerball} instead of powerball.")
        values["transform"] = given.then(Powerball(powerball))
    return preset.kind(**{**preset.values, **_numbers(preset, values)})


def find(name: str) -> Preset:
    """The preset with that name or alias, or an error with the nearest names."""
    return _PRESETS[canonical(name)]


def canonical(name: str) -> str:
    """The name of a preset, given that name or one of its aliases.

    >>> canonical("d-psgd"), canonical("d2")
    ('d-sgd-1', 'd2')
    """
    found = _ALIASES.get(name, name) if isinstance(name, str) else None
    if found not in _PRESETS:
        near = did_you_mean(name, [*_PRESETS, *_ALIASES])
        raise InputError(f"there is no algorithm {described(name)}{near}: see `peerdescent list algorithms`.")
    return found


def _numbers(preset: Preset, values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert texts such as "0.7" to numbers, except for rates, which parse their own texts."""
    return {key: value if key in preset.kind.rates else _number(value) for key, value in values.items()}


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


# The paper's values for its NN. It prints the jacobi order, in which its F values diverge for flat costs.
_F: dict[str, Any] = {"eta": 0.03, "alpha": 5.0, "beta": 20.0}
_T: dict[str, Any] = {"eta": 0.08, "alpha": 4.0, "beta": 3.0, "epsilon": 1e-5}
_PB: dict[str, Any] = {"gamma": 0.7}
_EXACT: dict[str, Any] = {"gamma": 0.7, "power_on": "direction"}
_NOTE = "dual first (gauss-seidel), since the printed order diverges with these values"
_UNBIASED = "power on the whole direction: unbiased on heterogeneous data without noise and under symmetric noise"
register("dsgpa-f", DSGPA, f"primal-dual SGD, fixed parameters; {_NOTE}", **_F)
register("dsgpa-t", DSGPA, "primal-dual SGD, parameters that vary with k", **_T)
register("dsgpa-f-pb", DSGPA, f"the paper's method: powered gradients, fixed parameters; {_NOTE}", **_F, **_PB)
register("dsgpa-t-pb", DSGPA, "the paper's method: powered gradients, parameters that vary with k", **_T, **_PB)
register("dsgpa-f-pb-exact", DSGPA, f"{_UNBIASED}; fixed parameters", **_F, **_EXACT)
register("dsgpa-t-pb-exact", DSGPA, f"{_UNBIASED}; parameters that vary with k", **_T, **_EXACT)
register(
    "dsgpa-f-pb-exact-momentum",
    DSGPA,
    "the same with momentum before the power, which removes most of the bias of skewed noise; fixed parameters",
    aliases=("pb-exact-m",),
    **{**_F, **_EXACT, "beta": 3.0, "momentum": 0.1},
)
register(
    "dm-sgd",
    DMSGD,
    "momentum SGD that mixes the momentum too; sends two vectors",
    aliases=("dmsgd", "d-momentum-sgd"),
)
register("d-sgd-1", DSGD1, "decentralized SGD: mix, then descend", aliases=("dgd", "dsgd", "d-sgd", "d-psgd", "dpsgd"))
register("d-sgd-2", DSGD2, "decentralized SGD with decaying weights on disagreement and gradient")
register(
    "d2",
    D2,
    "D²: unbiased on heterogeneous data; needs λmin(W) > −1/3, else uses (I+W)/2",
    aliases=("d-squared",),
)
register(
    "d-sgt-1",
    DSGT1,
    "gradient tracking (GNSD, DIGing); sends two vectors",
    aliases=("gnsd", "diging", "gt", "gradient-tracking", "non-atc-gt"),
)
register(
    "d-sgt-2", DSGT2, "gradient tracking (DSGT); sends two vectors", aliases=("dsgt", "semi-atc-gt", "next", "sonata")
)
register(
    "powered-tracking",
    PoweredTracking,
    "gradient tracking that moves by a power of the tracker; unbiased as dsgpa-f-pb-exact is; sends two vectors",
)
register("gt-hsgd", GTHSGD, "gradient tracking with variance reduction; two gradients per iteration, sends two vectors")
register("gt-nsgdm", GTNSGDm, "normalized gradient tracking with momentum, for heavy-tailed noise; sends two vectors")
register(
    "sclip-ef", SClipEF, "smooth clipping with error feedback, for heavy-tailed noise", aliases=("sclip-ef-network",)
)
register("sgp", SGP, "stochastic gradient push: SGD for directed graphs", aliases=("stochastic-gradient-push",))
register(
    "push-diging",
    PushDIGing,
    "gradient tracking for directed graphs: unbiased on heterogeneous data; sends two vectors",
    aliases=("push-sum-gt",),
)
register("d-asg", DASG, "Nesterov-accelerated decentralized SGD", aliases=("dasg",))
register(
    "c-sgd",
    CSGD,
    "centralized SGD on the pooled data: the baseline with a central server",
    aliases=("csgd", "sgd", "parallel-sgd", "c-psgd"),
)

# Colons in names of folders confuse scp, rsync and Windows: they are in the aliases only.
_ADAMW: dict[str, Any] = {"weight_decay": 0.01}
_OUTER = "and an outer Nesterov step, as in DiLoCo"
register("gossip-sgd", GossipSGD, "SGD with local momentum, then mix", aliases=("gossip:sgd",))
register(
    "gossip-adam",
    GossipAdam,
    "Adam with local moments, then mix; weight decay in the gradient",
    aliases=("gossip:adam",),
    decay_on="gradient",
)
register("gossip-adamw", GossipAdam, "AdamW with local moments, then mix", aliases=("gossip:adamw",), **_ADAMW)
register("gossip-sgd-outer", OuterSGD, f"SGD with local momentum, mix, {_OUTER}", aliases=("gossip:sgd-outer",))
register("gossip-adamw-outer", OuterAdam, f"AdamW with local moments, mix, {_OUTER}", ("gossip:adamw-outer",), **_ADAMW)

_UNBIASED_TOO = "unbiased on heterogeneous data"
register("extra", EXTRA, f"EXTRA: {_UNBIASED_TOO}; its message overlaps the gradient")
register("nids", NIDS, f"NIDS: {_UNBIASED_TOO}; step sizes do not depend on the network")
register("exact-diffusion", ExactDiffusion, f"exact diffusion: {_UNBIASED_TOO}; D² with (I+W)/2", aliases=("ed",))
register("edm", EDM, f"exact diffusion with momentum: {_UNBIASED_TOO}")
register(
    "aug-dgm",
    AugDGM,
    "gradient tracking that mixes after both steps; sends two vectors",
    aliases=("augdgm", "atc-diging", "atc-gt"),
)
register("momentum-tracking", MomentumTracking, "gradient tracking of momentum; sends two vectors")
register("qg-dsgdm", QGDSGDm, "D-SGD with quasi-global momentum", aliases=("qgm",))
register("d-adam", DAdam, "Adam with local moments: mix, then descend", aliases=("dadam",))
register(
    "clipped-d-sgd", ClippedDSGD, "D-SGD with clipped gradients, for heavy-tailed noise", aliases=("clipped-dsgd",)
)

_LOCAL = "local steps by communication_period"
_COMPRESSED = "compressed differences, topk:0.1 unless compress is given"
register("k-gt", KGT, f"K-GT: gradient tracking made for {_LOCAL}; sends two vectors", aliases=("kgt",))
register("led", LED, f"local exact diffusion: D² made for {_LOCAL}, unbiased with them too")
register(
    "proxskip",
    ProxSkip,
    "local steps with a control variate, exchanges at random by communication_period = random:P",
    aliases=("prox-skip",),
)
register("choco-sgd", ChocoSGD, f"CHOCO-SGD: D-SGD with {_COMPRESSED}", aliases=("choco",))
register("beer", BEER, f"BEER: gradient tracking with {_COMPRESSED}; sends two vectors")
register("motef", MoTEF, f"MoTEF: tracking of momentum with {_COMPRESSED}; sends two vectors")
