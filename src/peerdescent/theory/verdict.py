"""A verdict on stability from the spectral radii of a recursion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from peerdescent.theory.growth import Growth
from peerdescent.theory.radii import ROUNDING, Radii
from peerdescent.theory.recursion import Numbers


@dataclass(frozen=True)
class Stability:
    """Whether a method stays bounded, which mode decides, how fast disagreement dies out, how finely it settles."""

    stable: bool
    """From every starting point everything stays bounded, except a mean that `drifts`; without a power, disagreement
    also dies out."""
    radius: float
    """The largest spectral radius over all modes of disagreement, or the mean's if that is above 1."""
    eigenvalue: float
    """The eigenvalue of L (or of I−W) whose mode has that radius; 0 for the mean."""
    reason: str
    mean: float = 1.0
    """The spectral radius of the agents' mean; 1 for a mean that does not move by itself."""
    shrinkage: float = 0.0
    """The spectral radius with γ = 1: equal to `radius` unless a power matters."""
    chatter: float | None = None
    """The approximate size at which entries under a power keep oscillating; None without a power."""
    estimate: Growth | None = None
    """What `radius` was estimated from, on graphs that never repeat; None if it was computed."""
    drifts: bool = False
    """Whether the mean may move away without bound: with flat costs nothing pulls it back, and the powers of directions
    that sum to zero do not. Disagreement and memory stay bounded."""

    @property
    def decided(self) -> bool:
        """Whether the estimate, if it is one, is clearly below or above 1."""
        return self.estimate is None or not self.estimate.low <= 1 <= self.estimate.high

    @property
    def margin(self) -> float:
        """1 − radius; negative if unstable."""
        return 1 - self.radius

    @property
    def settles(self) -> bool:
        """Stable, and not merely oscillating where the method with γ = 1 would be unstable."""
        return self.stable and self.shrinkage < 1

    @property
    def tenfold(self) -> float:
        """Iterations until disagreement has shrunk tenfold; infinite if it does not."""
        if not self.settles:
            return math.inf
        return math.log(10) / -math.log(self.shrinkage) if self.shrinkage > 0 else 0.0


def decide(
    found: Radii, describe: Callable[[Numbers], tuple[float, float, str]], estimates: Sequence[Growth] = ()
) -> Stability:
    """The verdict for given radii, without `chatter`.

    Args:
        found: the radii.
        describe: the largest radius, its eigenvalue and the reason, given all radii.
        estimates: what the radii were estimated from, filled while they are computed.
    """
    mean, linear_mean = found.means(np.array([found.far, 1.0])).tolist()
    radii = found.deciding()
    linear = float((found.over(np.ones(1)) if found.equation.powers else radii).max(initial=0.0))
    shrinkage = max(linear, linear_mean) if linear_mean > 1 + ROUNDING else linear
    if mean > 1 + ROUNDING:
        return Stability(False, mean, 0.0, f"the agents' mean itself has spectral radius {mean:.6g}", mean, shrinkage)
    if not len(radii):
        common = found.equation.algorithm.common_start
        reason = "all agents hold the same x" if common else "one agent cannot disagree"
        return Stability(True, 0.0, 0.0, reason, mean, shrinkage)
    radius, value, reason = describe(radii)
    if found.equation.power_on_direction:
        reason += " far from the solution, where the power makes its direction small"
    estimate = estimates[0] if estimates else None
    drifts = radius < 1 and found.equation.power_on_direction and found.curvature == 0
    return Stability(radius < 1, radius, value, reason, mean, shrinkage, estimate=estimate, drifts=drifts)
