"""Values that a theorem recommends, as points of a search."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from peerdescent.algorithms import DSGPA
from peerdescent.experiments.exact_variant import exact_start
from peerdescent.experiments.resolve import resolve
from peerdescent.experiments.schema import Experiment
from peerdescent.tune.space import Point, Space, rounded

SLACK = 0.99
"""α and β have a few digits only; so much below equality, rounding does not violate the theorem's conditions."""


def recommended(experiment: Experiment, spaces: Mapping[str, Space]) -> dict[str, Callable[[int], Point | None]]:
    """For each method a function from the length of a run to the recommended point, or to None.

    Theorem A covers the exact variant on quadratic costs with exact gradients, whose curvatures are known.

    >>> quadratic = Experiment(problem="quadratic", graph="ring:10", algorithms=("dsgpa-f-pb-exact",), batch_size=0)
    >>> spaces = {"dsgpa-f-pb-exact": Space.of("dsgpa-f-pb-exact", resolve(quadratic)[0].algorithm)}
    >>> recommended(quadratic, spaces)["dsgpa-f-pb-exact"](10_000)
    {'eta': 0.007057, 'alpha': 52.61, 'beta': 7.175, 'gamma': 0.7}
    """
    exact = {name for name, space in spaces.items() if _exact(space)}
    plans = {plan.name: plan for plan in resolve(experiment) if plan.name in exact} if exact else {}

    def function(name: str) -> Callable[[int], Point | None]:
        def point(iterations: int) -> Point | None:
            values = exact_start(plans[name], iterations) if name in plans else None
            return None if values is None else _point(spaces[name], values)

        return point

    return {name: function(name) for name in spaces}


def _exact(space: Space) -> bool:
    return isinstance(space.method, DSGPA) and space.method.power_on == "direction"


def _point(space: Space, values: Mapping[str, float]) -> Point:
    eta = rounded(values["eta"])
    alpha = rounded(SLACK * values["alpha"] * values["eta"] / eta)
    ell = values["beta"] ** 2 / values["alpha"]
    return {**space.own, "eta": eta, "alpha": alpha, "beta": rounded(math.sqrt(alpha * ell) * SLACK**-0.25)}
