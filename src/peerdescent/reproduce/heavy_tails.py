"""Heavy-tailed and skewed gradient noise: who is biased, who is fast, who diverges, with steps tuned alike."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from peerdescent import problems
from peerdescent.algorithms import DSGPA, Algorithm, make
from peerdescent.errors import DivergedError
from peerdescent.experiments.schema import Experiment, from_keys
from peerdescent.problems import Quadratic
from peerdescent.runs.folder import read_metrics
from peerdescent.runs.metrics import Metrics
from peerdescent.schedules import Inverse
from peerdescent.training.train import train
from peerdescent.tune.results import Tuned, Tuning
from peerdescent.tune.search import Budget
from peerdescent.tune.tuning import OnProgress, tune

Numbers = NDArray[np.float64]
NOISES = ("student-t:1.5", "exponential", "pareto:1.6")
WHAT = {
    "none": "no noise",
    "student-t:1.5": "Student's t with ν = 1.5: symmetric, infinite variance",
    "exponential": "centred exponential: skewed, light tails",
    "pareto:1.6": "centred Pareto with a = 1.6: skewed, infinite variance",
}
PLAIN, POWERED, EXACT, MENDED = "dsgpa-f", "dsgpa-f-pb", "dsgpa-f-pb-exact", "dsgpa-f-pb-exact-momentum"
TRACKING = "d-sgt-2"
OTHERS = ("powered-tracking", TRACKING, "clipped-d-sgd", "gt-nsgdm", "sclip-ef")
TRIALS = {"quadratic": 18, "mnist-nn": 8}
"""Trial runs of every method, by problem."""

# ---- The bias, with given steps that decrease ------------------------------------------------------------

AGENTS, INSTANCES, COPIES, ITERATIONS = 10, 10, 20, 5_000
GRAPH = f"ring:{AGENTS}"
GAMMA, THETA = 0.5, 0.05
ETA, DECAY, ALPHA, BETA = 0.1, 0.002, 5.0, 1.0


@dataclass(frozen=True)
class Bias:
    """How far from the optimum the agents' mean ends: what repeats, and its standard error."""

    method: str
    noise: str
    bias: float
    """The root mean square, over the instances, of the error's mean over the copies; infinite if it diverged."""
    error: float
    """The standard error of that mean, its root mean square over the instances."""

    @property
    def biased(self) -> bool:
        """Whether the error repeats: clearly above its standard error, and not tiny."""
        return self.bias > max(0.02, 3 * self.error)


def bias_methods() -> dict[str, Algorithm]:
    """The methods of the table of biases, with steps that decrease alike."""
    eta = Inverse(ETA, DECAY)
    found: dict[str, Algorithm] = {
        PLAIN: DSGPA(eta, ALPHA, BETA),
        POWERED: DSGPA(eta, ALPHA, BETA, GAMMA),
        EXACT: DSGPA(eta, ALPHA, BETA, GAMMA, power_on="direction"),
        MENDED: DSGPA(eta, ALPHA, BETA, GAMMA, power_on="direction", momentum=THETA),
    }
    root = math.sqrt(INSTANCES * COPIES)  # lengths of rows grow with their number of entries
    return found | {
        "powered-tracking": make("powered-tracking", eta=eta, gamma=GAMMA),
        TRACKING: make(TRACKING, eta=eta),
        "clipped-d-sgd": make("clipped-d-sgd", eta=eta, tau=root),
        "gt-nsgdm": make("gt-nsgdm", eta=Inverse(ETA * root, DECAY)),
        "sclip-ef": make("sclip-ef"),  # its schedules are part of it
    }


def costs(copies: int = COPIES) -> tuple[Quadratic, Numbers]:
    """Scalar quadratics with skewed centres, several instances and several copies of each as the entries of x.

    Returns them and the solution.
    """
    random = np.random.default_rng(5)
    a, c = random.uniform(0.5, 1.5, (AGENTS, INSTANCES)), random.standard_exponential((AGENTS, INSTANCES)) - 1
    solution = (a * c).sum(axis=0) / a.sum(axis=0)
    return Quadratic(A=np.repeat(a, copies, axis=1), c=np.repeat(c, copies, axis=1)), np.repeat(solution, copies)


def bias_of(name: str, method: Algorithm, noise: str, iterations: int = ITERATIONS, copies: int = COPIES) -> Bias:
    """One run: every copy is an independent trial of its instance."""
    problem, solution = costs(copies)
    given: dict[str, Any] = {} if noise == "none" else {"gradient_noise": noise}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = train(
                problem, GRAPH, method, x0=torch.zeros(AGENTS, len(solution)), iterations=iterations, batch_size=0,
                dtype="float64", eval_every=iterations, per_agent=False, progress=False, **given,
            )  # fmt: skip
    except DivergedError:
        return Bias(name, noise, math.inf, 0.0)
    errors = (result.x_mean.numpy() - solution).reshape(INSTANCES, copies)
    spread = errors.std(axis=1, ddof=1) / math.sqrt(copies)
    return Bias(name, noise, _root_mean_square(errors.mean(axis=1)), _root_mean_square(spread))


def _root_mean_square(values: Numbers) -> float:
    return float(np.sqrt(np.mean(values**2)))


# ---- Tuned at an equal budget ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A problem with a noise, and the methods that are tuned on it."""

    name: str
    title: str
    experiment: Experiment
    lowest: float = 0.0
    """f at the optimum, if it is known: losses are counted from there."""


def methods() -> tuple[str, ...]:
    """The methods that are compared."""
    return (PLAIN, POWERED, EXACT, MENDED, *OTHERS)


def settings(budget: float = 1.0) -> list[Setting]:
    """Quadratics and a network with each noise."""
    made = []
    options: dict[str, Any] = {"dimension": 20, "condition": 5.0}
    quadratics = problems.make("quadratic", AGENTS, **options)
    optimum = quadratics.optimum()
    assert optimum is not None
    lowest = quadratics.loss(optimum)
    for noise in NOISES:
        keys = {"problem": "quadratic", "graph": GRAPH, "batch_size": 0, "iterations": 2000, "gradient_noise": noise}
        made.append(_setting(f"quadratic-{_kind(noise)}", f"Quadratics, {WHAT[noise]}", keys, options, budget, lowest))
    for noise in NOISES:
        keys = {"problem": "mnist-nn", "graph": "ring:5", "partition": "label", "batch_size": 20, "iterations": 200}
        keys["gradient_noise"] = f"{noise}:0.01"
        title = f"Two-layer network, two digits per agent, 0.01 times {WHAT[noise]}"
        made.append(_setting(f"network-{_kind(noise)}", title, keys, {"start": "glorot"}, budget))
    return made


def _setting(
    name: str, title: str, keys: dict[str, Any], options: dict[str, Any], budget: float, lowest: float = 0.0
) -> Setting:
    iterations = max(10, round(keys["iterations"] * budget))
    chosen = {**keys, "iterations": iterations, "eval_every": max(1, iterations // 30), "algorithms": list(methods())}
    chosen["per_agent"] = False
    experiment = from_keys({**chosen, "set": {"problem": options, EXACT: {"beta": 3.0}}}, name)
    return Setting(name, title, experiment, lowest)


def _kind(noise: str) -> str:
    return noise.partition(":")[0]


@dataclass(frozen=True)
class Outcome:
    """One method in one setting, with tuned steps, on seeds that the search has not used."""

    method: str
    values: Mapping[str, Any]
    losses: Sequence[float]
    """The final loss per seed, above the lowest possible one; infinite where the run diverged."""
    curves: Sequence[Metrics]

    @property
    def loss(self) -> float:
        """The mean over the seeds; infinite if one diverged."""
        return statistics.fmean(self.losses)

    @property
    def diverged(self) -> int:
        """How many seeds diverged."""
        return sum(not math.isfinite(loss) for loss in self.losses)

    def reaches(self, level: float, lowest: float) -> float:
        """The mean over the seeds of the first evaluated iteration at which the loss is below a level; or infinite."""
        firsts = [
            next((row["iteration"] for row in run if (row["loss"] or math.inf) - lowest < level), math.inf)
            for run in self.curves
        ]
        return statistics.fmean(firsts)


def run_setting(setting: Setting, out: Path, seeds: int, jobs: int, progress: OnProgress) -> list[Outcome]:
    """Tune every method at the same budget, or go on with it; return how they ended on fresh seeds."""
    folder = out / setting.name
    found = tune(
        setting.experiment,
        folder,
        Budget(TRIALS[setting.experiment.problem], seeds),
        jobs,
        resume=True,
        progress=progress,
    )
    return [_outcome(setting, one, found, folder) for one in found.methods]


def _outcome(setting: Setting, one: Tuned, found: Tuning, folder: Path) -> Outcome:
    if one.best is None or one.best_ends is None:
        return Outcome(one.name, {}, [math.inf] * len(found.fresh_seeds), ())
    losses = [math.inf if math.isnan(loss) else loss - setting.lowest for loss in one.best_ends.loss]
    place = folder / ("own" if one.best == one.own else "tuned") / one.name
    curves = [read_metrics(place / f"seed-{seed}") for seed in found.fresh_seeds]
    return Outcome(one.name, one.best, losses, curves)


def level_of(outcomes: Sequence[Outcome], lowest: float) -> float:
    """The loss that counts as fast to reach: a tenth of the way from the best end to the start is left."""
    best = min(one.loss for one in outcomes)
    start = next((float(run["loss"][0]) for one in outcomes for run in one.curves), math.inf)
    return best + 0.1 * (start - lowest - best)
