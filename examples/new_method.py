"""Your own method: decentralized SGD with an exponential moving average of the gradient, in about twenty lines.

peerdescent compare --load examples/new_method.py -a d-sgd-ema -a d-sgd-1 --iterations 2000
python examples/new_method.py        # check the properties that every method must have
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

from peerdescent.algorithms import Algorithm, Network, Step, make, register
from peerdescent.testing import check_algorithm


@dataclass(frozen=True)
class DSGDEma(Algorithm):
    """m⁺ = θm + (1−θ)g,  x⁺ = Wx − ηm⁺: the gradient is averaged over time, and only x is sent."""

    eta: float = 0.1
    theta: float = 0.9
    rates: ClassVar[tuple[str, ...]] = ("eta", "theta")
    momenta: ClassVar[tuple[str, ...]] = ("theta",)  # tuning searches it by its distance from 1

    def memory(self) -> Mapping[str, str]:
        return {"m": "zero"}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        Wx = net.mix(s.x)
        g = yield s.x
        m = h.theta * s.m + (1 - h.theta) * g
        return {"x": Wx - h.eta * m, "m": m}


register("d-sgd-ema", DSGDEma, "decentralized SGD with a moving average of the gradient")

if __name__ == "__main__":
    print(check_algorithm(make("d-sgd-ema")))
