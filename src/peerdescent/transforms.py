"""Transforms: powerball, sign, clip, norms, on the gradient or on the corrected direction. Every method accepts them.

A transform works on tensors, NumPy arrays and recorded equations with one row per agent: entry by entry, which suits
numbers too, or with the norm of an agent's row.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from peerdescent._util.row_norms import row_norms
from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.expressions import Clamp, Expression, Maximum, Power, RowNorm, lift

SMALLEST = 2.0**-126
"""The smallest normal number of single precision: it changes no norm but zero, which it makes harmless to divide by."""


def power(a: Any, gamma: float) -> Any:
    """The powerball σ(a, γ) = sign(a)|a|^γ, entry by entry; γ = 0 is the sign.

    >>> power(torch.tensor([-4.0, 0.0, 9.0]), 0.5)
    tensor([-2.,  0.,  3.])
    """
    if gamma == 1:
        return a
    if isinstance(a, Expression):
        return Power(a, gamma)
    if not isinstance(a, torch.Tensor):
        return np.sign(a) if gamma == 0 else np.sign(a) * np.abs(a) ** gamma
    if gamma == 0:
        return torch.where(a.isnan(), a, torch.sign(a))  # sign(NaN) would be 0 and hide a divergence
    magnitude = a.abs()
    magnitude = magnitude.sqrt_() if gamma == 0.5 else magnitude.pow_(gamma)
    return magnitude.copysign_(a)


def maximum(a: Any, b: Any) -> Any:
    """The larger entries of two arrays; NaN where one of them is.

    >>> maximum(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 3.0]))
    tensor([2., 4.])
    """
    if isinstance(a, Expression) or isinstance(b, Expression):
        return Maximum(lift(a), lift(b))
    return torch.maximum(a, b) if isinstance(a, torch.Tensor) else np.maximum(a, b)


def norm(a: Any) -> Any:
    """‖a_i‖, the Euclidean norm of each agent's row, as a column: one number for all entries of the row.

    It is summed in double precision and in a fixed order, so that it does not depend on processes and threads.

    >>> norm(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[5.],
            [0.]])
    """
    if isinstance(a, Expression):
        return RowNorm(a)
    if isinstance(a, torch.Tensor):
        return row_norms(a).to(a.dtype)[:, None]
    return np.linalg.norm(a, axis=-1, keepdims=True)


def normalized(a: Any) -> Any:
    """Each agent's row divided by its norm; a row of zeros stays zero.

    >>> normalized(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return a / (norm(a) + SMALLEST)


def check_gamma(gamma: float) -> None:
    """Refuse γ outside [0, 1]; warn below 1/2, which the paper's theory does not cover."""
    if not (isinstance(gamma, (int, float)) and 0 <= gamma <= 1):
        raise InputError(
            f"gamma = {described(gamma)} is outside [0, 1]: 1 keeps the gradient unchanged, 0 only its sign."
        )
    if gamma < 0.5:
        warnings.warn(f"gamma = {gamma:g} is below 1/2, which the paper's theory does not cover.", stacklevel=3)


@dataclass(frozen=True)
class Transform:
    """The identity, and the base class of all transforms; `a.then(b)` applies a first."""

    def __call__(self, g: Any) -> Any:
        """The gradient as the method receives it."""
        return g

    @property
    def before(self) -> Transform:
        """The part that acts on the gradient, before a method corrects it."""
        return self

    @property
    def after(self) -> Transform:
        """The part that acts on the corrected direction: the identity, unless `on_direction` placed it there."""
        return Transform()

    def on_direction(self) -> Transform:
        """This transform after the correction: on βv + g of DSGPA, on the tracker y, on g + v/η of D².

        There it leaves the fixed point where it is: what it acts on is zero at the solution. Before the correction it
        acts on local gradients, which are not, and biases every method on heterogeneous data.

        >>> Powerball(0.7).on_direction()(4.0)
        4.0
        """
        return OnDirection(self)

    def then(self, after: Transform) -> Transform:
        """This transform, then another one.

        >>> float(Clip(1.0).then(Powerball(0.5))(torch.tensor(9.0)))
        1.0
        """
        return Chain(self, after)


@dataclass(frozen=True)
class Powerball(Transform):
    """σ(g, γ) = sign(g)|g|^γ with γ in [0, 1]."""

    gamma: float

    def __post_init__(self) -> None:
        check_gamma(self.gamma)

    def __call__(self, g: Any) -> Any:
        return power(g, self.gamma)


@dataclass(frozen=True)
class Sign(Transform):
    """sign(g), the limit γ → 0 of the powerball."""

    def __call__(self, g: Any) -> Any:
        return power(g, 0.0)


@dataclass(frozen=True)
class Clip(Transform):
    """Each entry of g, clipped to ±limit."""

    limit: float

    def __post_init__(self) -> None:
        if not (isinstance(self.limit, (int, float)) and math.isfinite(self.limit) and self.limit > 0):
            raise InputError(f"clip limit = {described(self.limit)}: expected a positive number.")

    def __call__(self, g: Any) -> Any:
        if isinstance(g, Expression):
            return Clamp(g, self.limit)
        return g.clamp(-self.limit, self.limit) if isinstance(g, torch.Tensor) else np.clip(g, -self.limit, self.limit)


@dataclass(frozen=True)
class ClipNorm(Clip):
    """g_i · min(1, limit/‖g_i‖): each agent's gradient, scaled down to the length `limit` if it is longer.

    >>> ClipNorm(1.0)(torch.tensor([[3.0, 4.0], [0.3, 0.4]]))
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """

    def __call__(self, g: Any) -> Any:
        return g * Clip(1.0)(self.limit / (norm(g) + SMALLEST))


@dataclass(frozen=True)
class Normalize(Transform):
    """g_i/‖g_i‖: each agent's gradient, scaled to the length 1; zero stays zero.

    >>> Normalize()(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """

    def __call__(self, g: Any) -> Any:
        return normalized(g)


@dataclass(frozen=True)
class Chain(Transform):
    """One transform after another."""

    first: Transform
    second: Transform

    def __call__(self, g: Any) -> Any:
        return self.second(self.first(g))

    @property
    def before(self) -> Transform:
        """What both do to the gradient."""
        return chained(self.first.before, self.second.before)

    @property
    def after(self) -> Transform:
        """What both do to the corrected direction."""
        return chained(self.first.after, self.second.after)


@dataclass(frozen=True)
class OnDirection(Transform):
    """Another transform, after the correction: the gradient itself stays as it is."""

    inner: Transform

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Transform) or self.inner.after != Transform():
            raise InputError(
                f"on_direction has {described(self.inner)}: expected one of peerdescent.transforms, on the gradient."
            )

    @property
    def before(self) -> Transform:
        """Nothing."""
        return Transform()

    @property
    def after(self) -> Transform:
        """The other transform."""
        return self.inner


def chained(first: Transform, second: Transform) -> Transform:
    """One after another, without identities."""
    if second == Transform():
        return first
    return second if first == Transform() else Chain(first, second)


KINDS = {"power": Powerball, "sign": Sign, "clip": Clip, "clip-norm": ClipNorm, "normalize": Normalize}
"""The transforms that have a text."""
USAGE = (
    "expected power:GAMMA, sign, clip:LIMIT, clip-norm:LIMIT or normalize, each with @direction to act after the "
    "correction, joined by +"
)


def parse(text: object) -> Transform:
    """The transform that a text names.

    >>> parse("power:0.7@direction")
    OnDirection(inner=Powerball(gamma=0.7))
    >>> parse("clip:1+sign")
    Chain(first=Clip(limit=1.0), second=Sign())
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"transform = {described(text)}: {USAGE}.")
    made = Transform()
    for part in text.split("+"):
        made = chained(made, _parse_one(part.strip(), text))
    return made


def _parse_one(part: str, text: str) -> Transform:
    what, at, place = part.partition("@")
    kind, _, number = what.partition(":")
    if kind not in KINDS or (at and place != "direction") or (kind in ("sign", "normalize")) != (not number):
        raise InputError(f"transform = {described(text)}: {USAGE}.")
    try:
        values = [float(number)] if number else []
    except ValueError:
        raise InputError(f"transform = {described(text)}: {described(number)} is no number; {USAGE}.") from None
    made: Transform = KINDS[kind](*values)
    return made.on_direction() if at else made
