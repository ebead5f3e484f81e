"""The linear speedup: what Theorem 1 promises of n and T, measured on costs whose gradients and noise are known.

Promised, for η = √(n/T):  (1/T) Σ_k E‖∇f(x̄_k)‖² = O(1/√(nT)) + O(n/T)  and  (1/T) Σ_k E (1/n) Σ_i ‖x_i − x̄‖² = O(n/T).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from peerdescent import graphs, theory
from peerdescent.engine.folder import read_metrics
from peerdescent.engine.metrics import Metrics
from peerdescent.errors import InputError
from peerdescent.experiments import from_keys
from peerdescent.graphs import Graph
from peerdescent.reproduce.results import NOT_REPRODUCED, REPRODUCED
from peerdescent.reproduce.studies import Line, Part, read_keys

STUDY = "runs"
PARAMETERS = ("theorem", "practical")
QUANTITIES = {"gradient": ("nT", -0.5), "consensus": ("T/n", -1.0)}
"""What is fitted: against what, and the slope that is promised."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Cell:
    """One choice of everything: a point of the fit."""

    parameters: str
    data: str
    gamma: float
    agents: int
    iterations: int

    @property
    def label(self) -> str:
        """A name for its files."""
        return f"{self.parameters} {self.data} γ {self.gamma:g} n {self.agents} T {self.iterations}"


@dataclass(frozen=True)
class Fit:
    """A slope on logarithmic axes with its confidence interval, and the exponents of n and T by themselves."""

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
        """A bound holds unless the decay is slower than promised beyond the interval."""
        return REPRODUCED if self.low <= self.promised else NOT_REPRODUCED


def read() -> dict[str, Any]:
    """The study's data."""
    return read_keys("beyond/speedup.toml")


def cells(keys: Mapping[str, Any], budget: float = 1.0) -> list[Cell]:
    """Every feasible choice; Theorem 1's parameters need two agents and T > n³.

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
    """All runs."""
    return [_part(cell, keys, seed) for cell in cells(keys, budget) for seed in range(seeds)]


def _part(cell: Cell, keys: Mapping[str, Any], seed: int) -> Part:
    experiment = {
        **keys["base"],
        "graph": graph_of(cell.agents).spec,
        "iterations": cell.iterations,
        "eval_every": max(1, cell.iterations // keys["evaluations"]),
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
    """The hypercube with so many corners: its gap shrinks slowly with n, and every agent is alike."""
    dimension = int(math.log2(agents))
    if 2**dimension != agents:
        raise InputError(f"agents = {agents}: a hypercube has 1, 2, 4, 8, … corners.")
    return graphs.hypercube(dimension)


def step_sizes(cell: Cell, keys: Mapping[str, Any]) -> dict[str, float]:
    """η = √(n/T), and α and β as Theorem 1 or practice has them."""
    if cell.parameters == "theorem":
        found = theory.theorem1_parameters(graph_of(cell.agents), cell.iterations, keys["base"]["laplacian"])
        return {name: found[name] for name in ("eta", "alpha", "beta")}
    eta = math.sqrt(cell.agents / cell.iterations)
    return {"eta": eta, "alpha": keys["practical"]["eta_alpha"] / eta, "beta": keys["practical"]["eta_beta"] / eta}


def averages(run: Metrics) -> dict[str, float]:
    """Means over the run of ‖∇f(x̄_k)‖² and of the consensus error, at evenly spread iterations k < T."""
    rows = run[:-1]
    return {
        "gradient": float(np.mean([row["gradient_norm"] ** 2 for row in rows])),
        "consensus": float(np.mean([row["consensus_error"] for row in rows])),
    }


def collect(found: Sequence[Part], out: Path) -> dict[str, list[dict[str, float]]]:
    """The averages of every cell, one per seed, by label; runs that diverged are left out."""
    values: dict[str, list[dict[str, float]]] = {}
    for part in found:
        run = read_metrics(part.folder(out))
        finite = all(row["loss"] is not None and math.isfinite(row["loss"]) for row in run)
        values.setdefault(part.line.label, []).extend([averages(run)] if finite else [])
    return values


def across(quantity: str, cell: Cell) -> float:
    """Where a cell stands on the axis of a fit: nT or T/n."""
    return cell.agents * cell.iterations if quantity == "gradient" else cell.iterations / cell.agents


def fit(quantity: str, points: Sequence[Cell], values: Sequence[float]) -> Fit:
    """Least squares on logarithms, with Student's interval for the slope.

    >>> grid = [Cell("practical", "like", 1.0, n, T) for n in (1, 2, 4) for T in (100, 1000)]
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
    """One combination of parameters, data and γ: its cells with their means over the seeds, and both fits."""

    parameters: str
    data: str
    gamma: float
    cells: Sequence[Cell]
    means: Mapping[str, Sequence[float]]
    fits: Mapping[str, Fit]


def settings(keys: Mapping[str, Any], found: Sequence[Cell], values: Mapping[str, Any]) -> Iterator[Setting]:
    """All settings that have enough points for a slope: three, over two sizes and two lengths."""
    for parameters in PARAMETERS:
        for data in keys["data"]:
            for gamma in keys["gammas"]:
                own = [c for c in found if (c.parameters, c.data, c.gamma) == (parameters, data, gamma)]
                own = [cell for cell in own if values[cell.label]]
                if len(own) < 3 or len({c.agents for c in own}) < 2 or len({c.iterations for c in own}) < 2:
                    continue
                means = {q: [float(np.mean([v[q] for v in values[c.label]])) for c in own] for q in QUANTITIES}
                talking = [i for i, cell in enumerate(own) if cell.agents > 1]  # one agent cannot disagree
                fits = {"gradient": fit("gradient", own, means["gradient"])}
                disagreeing = [own[i] for i in talking], [means["consensus"][i] for i in talking]
                fits["consensus"] = fit("consensus", *disagreeing)
                yield Setting(parameters, data, gamma, own, means, fits)
