"""The linear speedup of Theorem 1 in n and T, measured on costs with known gradients and noise.

Promised, for η = √(n/T):  (1/T) Σ_k E‖∇f(x̄_k)‖² = O(1/√(nT)) + O(n/T)  and  (1/T) Σ_k E (1/n) Σ_i ‖x_i − x̄‖² = O(n/T).
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import torch

from peerdescent import graphs, theory
from peerdescent._util.files import write_atomically
from peerdescent.errors import DivergedError, InputError
from peerdescent.experiments.resolve import describe, resolve
from peerdescent.experiments.schema import Experiment, from_keys
from peerdescent.graphs import Graph
from peerdescent.reproduce.results import NOT_REPRODUCED, REPRODUCED
from peerdescent.reproduce.studies import Line, Part, read_keys
from peerdescent.runs.fingerprint import fingerprint
from peerdescent.training.callbacks import Callback
from peerdescent.training.loop import Run
from peerdescent.training.train import run_plan

STUDY, AVERAGES = "runs", "averages.json"
PARAMETERS = ("theorem", "practical")
QUANTITIES = {"gradient": ("nT", -0.5), "consensus": ("T/n", -1.0)}
"""The fitted quantities: the axis of the fit, and the promised slope."""
CONFIDENCE = 0.95
EVERY = 8


@dataclass(frozen=True)
class Cell:
    """One combination of settings: a point of the fit."""

    parameters: str
    data: str
    gamma: float
    agents: int
    iterations: int

    @property
    def promised(self) -> bool:
        """Whether Theorem 1 applies: T > n³; below, O(n/T) dominates O(1/√(nT))."""
        return self.iterations > self.agents**3

    @property
    def label(self) -> str:
        """A name for the files of this cell."""
        return f"{self.parameters} {self.data} γ {self.gamma:g} n {self.agents} T {self.iterations}"


@dataclass(frozen=True)
class Fit:
    """A slope on logarithmic axes with its confidence interval, and the separate exponents of n and T."""

    quantity: str
    slope: float
    low: float
    high: float
    exponent_n: float
    exponent_t: float
    points: int

    @property
    def promised(self) -> float:
        """The slope of the bound."""
        return QUANTITIES[self.quantity][1]

    @property
    def word(self) -> str:
        """The verdict: a bound fails if the decay is slower than promised by more than the interval."""
        return REPRODUCED if self.low <= self.promised else NOT_REPRODUCED


def read() -> dict[str, Any]:
    """Read the settings of the study."""
    return read_keys("beyond/speedup.toml")


def cells(keys: Mapping[str, Any], budget: float = 1.0) -> list[Cell]:
    """Return all feasible cells; the parameters of Theorem 1 need two agents and T > n³.

    >>> found = cells(read())
    >>> len(found), max(cell.agents for cell in found if cell.parameters == "theorem")
    (330, 64)
    """
    made = []
    for parameters in PARAMETERS:
        for n in keys["agents"]:
            longer = keys[parameters].get("longer", {}).get(str(n), [])
            for T in (max(2, round(T * budget)) for T in (*keys["iterations"], *longer)):
                if parameters == "theorem" and (n < 2 or n**3 >= T):
                    continue
                made += [Cell(parameters, data, gamma, n, T) for data in keys["data"] for gamma in keys["gammas"]]
    return made


def parts(keys: Mapping[str, Any], seeds: int, budget: float = 1.0) -> list[Part]:
    """Return all runs."""
    return [_part(cell, keys, seed) for cell in cells(keys, budget) for seed in range(seeds)]


def _part(cell: Cell, keys: Mapping[str, Any], seed: int) -> Part:
    experiment = {
        **keys["base"],
        "graph": graph_of(cell.agents).spec,
        "iterations": cell.iterations,
        "seed": seed,
        "set": {
            **step_sizes(cell, keys),
            "gamma": cell.gamma,
            "dual": keys[cell.parameters]["dual"],
            "problem": {"spread": keys["data"][cell.data]},
        },
    }
    return Part(STUDY, Line(cell.label, experiment), seed, from_keys(experiment, cell.label))


def graph_of(agents: int) -> Graph:
    """Return the hypercube with this many agents: its gap shrinks slowly with n, and all agents are equivalent."""
    dimension = int(math.log2(agents))
    if 2**dimension != agents:
        raise InputError(f"agents = {agents}: a hypercube needs a power of two, 1, 2, 4, 8, … agents.")
    return graphs.hypercube(dimension)


def step_sizes(cell: Cell, keys: Mapping[str, Any]) -> dict[str, float]:
    """Return η = √(n/T), and α and β of Theorem 1 or the practical ones."""
    if cell.parameters == "theorem":
        found = theory.theorem1_parameters(graph_of(cell.agents), cell.iterations, keys["base"]["laplacian"])
        return {name: found[name] for name in ("eta", "alpha", "beta")}
    eta = math.sqrt(cell.agents / cell.iterations)
    return {"eta": eta, "alpha": keys["practical"]["eta_alpha"] / eta, "beta": keys["practical"]["eta_beta"] / eta}


class Averages(Callback):
    """The means over all iterations k < T of ‖∇f(x̄_k)‖² and of the consensus error.

    The descent takes about 1/η iterations, weighs much and is measured in every one of them; the long rest, where
    x̄ hardly moves from one iteration to the next, in every `EVERY`-th.
    """

    def __init__(self, progress: Callable[[int], None] = lambda k: None) -> None:
        self._sums, self._progress, self._dense = torch.zeros(2, dtype=torch.float64), progress, 0

    def on_start(self, run: Run) -> None:
        """Measure the starting points."""
        self._dense = math.ceil(10 / run.algorithm.hyperparameters(0)["eta"] / EVERY) * EVERY
        self.on_iteration(run)

    def on_iteration(self, run: Run) -> None:
        """Add the point that the next iteration starts from."""
        k, iterations = run.k, run.settings.iterations
        if k < iterations and (k < self._dense or k % EVERY == 0):
            x = run.state["x"]
            mean = x.mean(dim=0)
            weight = 1 if k < self._dense else min(EVERY, iterations - k)
            self._sums[0] += weight * run.problem.gradient(mean).square().sum()
            self._sums[1] += weight * (x - mean).square().sum() / run.graph.n
        if k % 1000 == 0:
            self._progress(k)

    def means(self, iterations: int) -> dict[str, float]:
        """Both means, by the name of the quantity."""
        return dict(zip(QUANTITIES, (self._sums / iterations).tolist(), strict=True))


def averages(experiment: Experiment, progress: Callable[[int], None] = lambda k: None) -> dict[str, float]:
    """What `Averages` measures in the run of an experiment; not finite if it diverged."""
    (plan,) = resolve(experiment.replace(eval_every=max(1, experiment.iterations), per_agent=False))
    found = Averages(progress)
    with contextlib.suppress(DivergedError):
        run_plan(plan, callbacks=[found])
    return found.means(experiment.iterations)


def measure(part: Part, folder: Path, progress: Callable[[int], None]) -> None:
    """One run's averages, written down when it is complete."""
    folder.mkdir(exist_ok=True)
    record = {**averages(part.experiment, progress), "fingerprint": _fingerprint(part)}
    write_atomically(folder / AVERAGES, json.dumps(record).encode())


def measured(part: Part, out: Path) -> bool:
    """Whether a run's averages are there, under just these conditions."""
    return _record(part, out).get("fingerprint") == _fingerprint(part)


def _fingerprint(part: Part) -> str:
    """Averages depend on the length of a run too."""
    description = describe(part.experiment, part.experiment.algorithms[0])
    return fingerprint(description, iterations=str(part.experiment.iterations))


def _record(part: Part, out: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads((part.folder(out) / AVERAGES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record


def collect(found: Sequence[Part], out: Path) -> dict[str, list[dict[str, float]]]:
    """Read the averages of every cell, one per seed, by label."""
    values: dict[str, list[dict[str, float]]] = {}
    for part in found:
        own = {quantity: float(_record(part, out)[quantity]) for quantity in QUANTITIES}
        values.setdefault(part.line.label, []).append(own)
    return values


def across(quantity: str, cell: Cell) -> float:
    """Return the position of a cell on the axis of a fit: nT or T/n."""
    return cell.agents * cell.iterations if quantity == "gradient" else cell.iterations / cell.agents


def fit(quantity: str, points: Sequence[Cell], values: Sequence[float]) -> Fit:
    """Fit logarithms by least squares, with Student's interval for the slope.

    >>> grid = [Cell("practical", "iid", 1.0, n, T) for n in (1, 2, 4) for T in (100, 1000)]
    >>> exact = fit("gradient", grid, [3 / math.sqrt(c.agents * c.iterations) for c in grid])
    >>> round(exact.slope, 6), round(exact.exponent_n, 6), exact.word
    (-0.5, -0.5, 'reproduced')
    """
    x, y = np.log([across(quantity, cell) for cell in points]), np.log(values)
    line = scipy.stats.linregress(x, y)
    half = float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, len(points) - 2) * line.stderr)
    logs = [[1.0, math.log(cell.agents), math.log(cell.iterations)] for cell in points]
    _, of_n, of_t = np.linalg.lstsq(np.array(logs), y, rcond=None)[0]
    slope = float(line.slope)
    return Fit(quantity, slope, slope - half, slope + half, float(of_n), float(of_t), len(points))


@dataclass(frozen=True)
class Setting:
    """One combination of parameters, data and γ: its cells with their means over the seeds, and both fits.

    Cells with a diverged run are excluded; `diverged` counts those to which Theorem 1 applies.
    """

    parameters: str
    data: str
    gamma: float
    cells: Sequence[Cell]
    means: Mapping[str, Sequence[float]]
    fits: Mapping[str, Fit]
    diverged: int = 0


def settings(
    keys: Mapping[str, Any], found: Sequence[Cell], values: Mapping[str, Sequence[Mapping[str, float]]]
) -> Iterator[Setting]:
    """Yield all settings with enough points for their slopes."""
    for parameters in PARAMETERS:
        for data in keys["data"]:
            for gamma in keys["gammas"]:
                asked = [c for c in found if (c.parameters, c.data, c.gamma) == (parameters, data, gamma)]
                own = [cell for cell in asked if all(math.isfinite(v[q]) for v in values[cell.label] for q in v)]
                means = {q: [float(np.mean([v[q] for v in values[c.label]])) for c in own] for q in QUANTITIES}
                fitted = {q: [i for i, cell in enumerate(own) if counts(q, cell)] for q in QUANTITIES}
                if all(_enough([own[i] for i in places]) for places in fitted.values()):
                    fits = {q: fit(q, [own[i] for i in fitted[q]], [means[q][i] for i in fitted[q]]) for q in fitted}
                    diverged = sum(cell.promised and cell not in own for cell in asked)
                    yield Setting(parameters, data, gamma, own, means, fits, diverged)


def counts(quantity: str, cell: Cell) -> bool:
    """Return whether a cell is part of a fit: Theorem 1 applies, and the consensus error needs two agents."""
    return cell.promised and (quantity == "gradient" or cell.agents > 1)


def _enough(cells: Sequence[Cell]) -> bool:
    """Return whether there are three points with two sizes and two lengths."""
    return len(cells) >= 3 and len({c.agents for c in cells}) > 1 and len({c.iterations for c in cells}) > 1
