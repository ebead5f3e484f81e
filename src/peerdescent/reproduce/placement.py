"""Where a nonlinearity may stand: every method with a power, clip or sign before or after its correction."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from peerdescent import theory
from peerdescent._util.files import write_atomically
from peerdescent.algorithms import PRESETS, Algorithm, varied
from peerdescent.errors import DivergedError, InputError
from peerdescent.problems import Quadratic
from peerdescent.report.tables import Table
from peerdescent.schedules import Step
from peerdescent.theory.recursion import Equation
from peerdescent.training.train import train
from peerdescent.transforms import Clip, Powerball, Sign, Transform

AGENTS, DIMENSION, ITERATIONS = 5, 3, 24_000
GRAPH = f"er:{AGENTS}:0.6:seed=2"
ETA, ETA_ALPHA, ETA_BETA = 0.02, 0.25, 0.05
HALVINGS = 7
"""How often the step of a method that circles is halved: it circles ever closer."""
TRANSFORMS: Mapping[str, Transform] = {"power 0.7": Powerball(0.7), "clip 0.3": Clip(0.3), "sign": Sign()}
AGREES = 1e-6
TITLE = "Where a nonlinearity may stand"
NOTE = (
    f"Heterogeneous quadratics with exact gradients on {GRAPH}. Each cell: the distance of the mean of the predicted "
    "fixed point from the optimum (0 is unbiased), and in brackets the largest distance of an agent from its "
    "prediction at the end of the run. Before: the transform acts on local gradients; after: on the corrected "
    "direction, only for methods that have one. Powers and signs make methods circle where what is under them "
    "vanishes: their η is halved now and then, after which signs, and the power on D², circle at about η; D² with "
    "signs after its correction does not come near its fixed point. Signs before the correction have no single fixed "
    "point: the cell has the distance of the measured mean from the optimum."
)


@dataclass(frozen=True)
class Cell:
    """A method with a transform: predicted bias, largest distance from the prediction, and both as text."""

    text: str
    bias: float | None = None
    off: float | None = None


def costs() -> Quadratic:
    """f_i = Σ_j a_ij (x_j − c_ij)²/2 with other a and c for each agent."""
    random = np.random.default_rng(6)
    return Quadratic(A=random.uniform(0.5, 2, (AGENTS, DIMENSION)), c=random.standard_normal((AGENTS, DIMENSION)))


def methods() -> dict[str, Algorithm]:
    """One method of each class that theory can treat, with steps that are stable here."""
    found: dict[str, Algorithm] = {}
    kinds = set[type[Algorithm]]()
    for name, preset in PRESETS.items():
        if preset.kind in kinds:
            continue
        kinds.add(preset.kind)
        try:
            method = _with_steps(preset.kind, preset.values)
            theory.heterogeneity_bias(method)
        except InputError:  # not linear, such as Adam
            continue
        found[name] = method
    return found


def _with_steps(kind: type[Algorithm], given: Mapping[str, Any]) -> Algorithm:
    values = dict(given)
    known = {f.name for f in fields(kind)}
    if "eta" in known:
        values["eta"] = ETA
    elif "alpha" in known:
        values["alpha"], values["beta"] = ETA, 0.2
    if kind.times_eta:
        values["alpha"], values["beta"] = ETA_ALPHA / ETA, ETA_BETA / ETA
    return kind(**values)


def placed(method: Algorithm, transform: Transform, after: bool) -> Algorithm | None:
    """The method with the transform; None if it corrects nothing and the transform is to act after the correction."""
    if after and not method.corrects:
        return None
    return varied(method, transform=transform.on_direction() if after else transform)


def cell(method: Algorithm, iterations: int) -> Cell:
    """What theory predicts of a method, and what a run measures."""
    problem = costs()
    optimum = problem.optimum().numpy()
    try:
        predicted = theory.fixed_point(method, problem, GRAPH)
    except InputError:
        predicted = None
    try:
        x = _limit(method, problem, iterations)
    except DivergedError:
        return Cell("diverges")
    if predicted is None:
        return Cell(f"– ({_number(np.abs(x.mean(axis=0) - optimum).max())})")
    bias = float(np.abs(predicted.mean(axis=0) - optimum).max())
    off = float(np.abs(x - predicted).max())
    return Cell(f"{_number(0.0 if bias < 1e-12 else bias)} ({_number(off)})", bias, off)


def _limit(method: Algorithm, problem: Quadratic, iterations: int) -> Any:
    nonlinear = Equation(method)
    gammas = [getattr(node, "gamma", 1.0) for node in nonlinear.powers]
    if 0 in gammas or (nonlinear.power_on_direction and min(gammas) < 1):
        method = _halved(method, iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what theory says of it is in the table
        result = train(
            problem, GRAPH, method, x0=torch.zeros(AGENTS, DIMENSION), iterations=iterations, dtype="float64",
            batch_size=0, eval_every=iterations, per_agent=False, progress=False,
        )  # fmt: skip
    return result.x.numpy()


def _halved(method: Algorithm, iterations: int) -> Algorithm:
    """Halve the step now and then."""
    places = tuple(k * iterations // (HALVINGS + 2) for k in range(1, HALVINGS + 1))
    name = "eta" if "eta" in method.rates else method.rates[0]
    return varied(method, **{name: Step(float(getattr(method, name)), 0.5, places)})


def rows(iterations: int) -> Iterator[tuple[str, ...]]:
    """The rows of the table, as soon as each is there."""
    for name, method in methods().items():
        variants = [placed(method, transform, after) for transform in TRANSFORMS.values() for after in (False, True)]
        cells = [cell(one, iterations).text if one is not None else "–" for one in (method, *variants)]
        yield (f"`{name}`", *cells)


def table(found: list[tuple[str, ...]], iterations: int) -> Table:
    """All of it."""
    heads = [f"{name} {place}" for name in TRANSFORMS for place in ("before", "after")]
    return Table(f"{TITLE}, {iterations:,} iterations", ("method", "nothing", *heads), found, NOTE)


def write_report(made: Table, out: Path, command: str) -> Path:
    """Write the table in all formats, and a page of Markdown; return the path of the page."""
    made.write(out / "tables" / "placement")
    page = f"# {TITLE}\n\nMade by `{command}`. {NOTE}\n\n{made.to_markdown()}\n"
    write_atomically(out / "README.md", page.encode())
    return out / "README.md"


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"
