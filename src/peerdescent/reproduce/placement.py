"""Where a nonlinearity may stand: every method with a power, clip, sign or norm before or after its correction."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from rich.progress import Progress

from peerdescent import theory
from peerdescent.algorithms import PRESETS, Algorithm, varied
from peerdescent.errors import DivergedError, InputError
from peerdescent.problems import Quadratic
from peerdescent.reproduce.measured import Measured
from peerdescent.schedules import Step
from peerdescent.training.train import train
from peerdescent.transforms import Clip, Normalize, Powerball, Sign, Transform

AGENTS, DIMENSION = 5, 3
SETTLING, CIRCLING = 8_000, 24_000
"""Iterations of a method that settles at its fixed point, and of one that circles around it."""
GRAPH = f"er:{AGENTS}:0.6:seed=2"
ETA, ETA_ALPHA, ETA_BETA = 0.02, 0.25, 0.05
HALVINGS = 7
"""How often the step of a method that circles is halved: it circles ever closer."""
NOTHING, BEFORE, AFTER = "nothing", "before", "after"
TRANSFORMS: Mapping[str, Transform] = {
    "power 0.7": Powerball(0.7),
    "clip 0.3": Clip(0.3),
    "sign": Sign(),
    "unit length": Normalize(),
}


@dataclass(frozen=True)
class Cell:
    """A method with a transform: what theory predicts, and what a run measures."""

    predicted: float | None
    """The largest distance, over the coordinates, of the mean of the predicted fixed point from the optimum."""
    measured: float
    """The same for the mean of the agents at the end of the run; infinite if it diverged."""
    off: float | None
    """The largest distance of an agent from its prediction at the end of the run."""
    circles: bool
    """Whether it circles around its fixed point, or has none that is known, so that its step was halved."""

    def __str__(self) -> str:
        if math.isinf(self.measured):
            return "diverges"
        if self.predicted is None or self.off is None:
            return f"? {number(self.measured)}"
        return f"{number(self.predicted)} ({number(self.off)})"


def number(value: float) -> str:
    """A distance in two digits; what is rounding counts as 0."""
    return "0" if value < 1e-12 else f"{value:.1e}"


def costs() -> Quadratic:
    """f_i = Σ_j a_ij (x_j − c_ij)²/2 with other a and c for each agent."""
    random = np.random.default_rng(6)
    return Quadratic(A=random.uniform(0.5, 2, (AGENTS, DIMENSION)), c=random.standard_normal((AGENTS, DIMENSION)))


def methods() -> dict[str, Algorithm]:
    """Every registered method of this library, with steps that are stable here."""
    return {name: _with_steps(preset.kind, preset.values) for name, preset in PRESETS.items()}


def _with_steps(kind: type[Algorithm], given: Mapping[str, Any]) -> Algorithm:
    values = dict(given)
    known = {f.name: f.default for f in fields(kind)}
    if isinstance(known.get("eta", 0.0), (int, float)) or kind.times_eta:  # a schedule stays as it is
        values["eta"] = ETA
    if "eta" not in known:
        values |= {"alpha": ETA, "beta": 0.2}
        del values["eta"]
    if kind.times_eta:
        values |= {"alpha": ETA_ALPHA / ETA, "beta": ETA_BETA / ETA}
    return kind(**values)


def placed(method: Algorithm, transform: Transform, place: str) -> Algorithm | None:
    """The method with the transform; None if it corrects nothing and the transform is to act after the correction."""
    if place == AFTER and not method.corrects:
        return None
    return varied(method, transform=transform.on_direction() if place == AFTER else transform)


def cell(method: Algorithm, budget: float = 1.0) -> Cell:
    """What theory predicts of a method, and what a run measures."""
    problem = costs()
    optimum = problem.optimum().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what theory says of it is in the table
        try:
            found = theory.inspect_fixed_point(method, problem, GRAPH)
            predicted, circles = found.x, not found.attracting
        except InputError:
            predicted, circles = None, True
        try:
            x = _limit(method, problem, circles, budget)
        except DivergedError:
            return Cell(None, math.inf, None, circles)
    measured = float(np.abs(x.mean(axis=0) - optimum).max())
    if predicted is None:
        return Cell(None, measured, None, circles)
    bias = float(np.abs(predicted.mean(axis=0) - optimum).max())
    return Cell(bias, measured, float(np.abs(x - predicted).max()), circles)


def _limit(method: Algorithm, problem: Quadratic, circles: bool, budget: float) -> Any:
    iterations = max(100, round(budget * (CIRCLING if circles else SETTLING)))
    result = train(
        problem, GRAPH, _halved(method, iterations) if circles else method, x0=torch.zeros(AGENTS, DIMENSION),
        iterations=iterations, dtype="float64", batch_size=0, eval_every=iterations, per_agent=False, progress=False,
        compress="none",
    )  # fmt: skip
    return result.x.numpy()


def _halved(method: Algorithm, iterations: int) -> Algorithm:
    """Halve the step now and then; a schedule stays as it is."""
    places = tuple(k * iterations // (HALVINGS + 2) for k in range(1, HALVINGS + 1))
    name = "eta" if "eta" in method.rates else method.rates[0]
    own = getattr(method, name)
    return varied(method, **{name: Step(float(own), 0.5, places)}) if isinstance(own, (int, float)) else method


Key = tuple[str, str, str]
"""A method, a transform and its place."""
Cells = Mapping[Key, Cell]


def cells(known: Measured, budget: float, bar: Progress) -> dict[Key, Cell]:
    """All cells: those of an earlier run, and the rest."""
    variants: dict[Key, Algorithm | None] = {}
    for name, method in methods().items():
        variants[name, NOTHING, BEFORE] = method
        for what, transform in TRANSFORMS.items():
            for place in (BEFORE, AFTER):
                variants[name, what, place] = placed(method, transform, place)
    todo = {key: method for key, method in variants.items() if method is not None}
    task, found = bar.add_task("placement", total=len(todo), state=""), {}
    with bar:
        for key, method in todo.items():
            bar.update(task, state=", ".join(key))

            def measure(method: Algorithm = method) -> dict[str, Any]:
                return asdict(cell(method, budget))

            found[key] = Cell(**known.get((GRAPH, method, budget), measure))
            bar.advance(task)
    return found
