"""Communication: every method on graphs over time and with compressed messages, how far it ends and what it sends."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from peerdescent import algorithms
from peerdescent._util.byte_units import human_bytes
from peerdescent._util.files import write_atomically
from peerdescent.errors import DivergedError, InputError
from peerdescent.experiments.pool import Report
from peerdescent.experiments.resolve import describe, resolve
from peerdescent.experiments.schema import Experiment, from_keys
from peerdescent.problems import Quadratic
from peerdescent.reproduce.studies import Line, Part
from peerdescent.training.added_updates import gradient_rate
from peerdescent.training.train import run_plan

OUTCOME = "outcome.json"
OVER_TIME, COMPRESSED, STEPS = "graphs", "compression", "consensus-steps"
"""The tables."""
GRAPHS = ("ring:16", "onepeer-exp:16", "matching:16")
ETAS = (0.05, 0.2)
COMPRESSORS = ("none", "qsgd:4", "topk:0.1", "topk:0.01")
CASES: tuple[tuple[str, tuple[float | None, ...]], ...] = (
    ("none", (1.0, 0.3)),
    ("qsgd:4", (1.0, 0.3)),
    ("topk:0.1", (1.0, 0.3, None)),
    ("topk:0.01", (0.3, 0.1, None)),
)
"""Compressors and consensus steps; None is the rule's."""
SHOWN = {"d-sgt-1": "d-sgt-1", "DSGPA": "dsgpa-f", "PB-exact 0.7": "dsgpa-f-pb-exact", "D²": "d2"}
"""The methods whose consensus step is varied."""
DIVERGED = 1e3
"""A relative error above this counts as divergence."""
BASE: Mapping[str, Any] = {
    "problem": "quadratic",
    "batch_size": 0,
    "dtype": "float64",
    "per_agent": False,
    "compress": "none",
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Args:
        error: the root mean square distance of the agents from the solution, relative to it; None if there is none.
        sent: the bytes that all agents have sent.
        refused: why it was not run, in one sentence.
    """

    error: float | None = None
    sent: int = 0
    refused: str = ""

    @property
    def diverged(self) -> bool:
        """Whether it ended far away."""
        return not self.refused and (self.error is None or not self.error <= DIVERGED)

    def __str__(self) -> str:
        if self.refused:
            return "refused"
        return f"{'diverges' if self.diverged else f'{self.error:.0e}'}, {human_bytes(self.sent)}"


def rates(name: str, eta: float, alpha: float, beta: float) -> dict[str, float]:
    """The step sizes of a method: η, and α and β where it has all three; schedules stay as they are.

    >>> rates("dsgpa-f", 0.05, 20, 5), rates("dm-sgd", 0.05, 20, 5), rates("d-sgd-2", 0.05, 20, 5)
    ({'eta': 0.05, 'alpha': 20, 'beta': 5}, {'eta': 0.05}, {})
    """
    known = algorithms.find(name).options()
    chosen = {gradient_rate(algorithms.make(name)): eta}
    if {"eta", "alpha", "beta"} <= set(known):
        chosen |= {"alpha": alpha, "beta": beta}
    return {key: value for key, value in chosen.items() if isinstance(known[key], (int, float))}


def parts(budget: float = 1.0) -> list[Part]:
    """All runs, for every registered method; a budget below 1 shortens them.

    >>> {part.study for part in parts()} == {OVER_TIME, COMPRESSED, STEPS}
    True
    """
    made = []
    for name in algorithms.PRESETS:
        for eta in ETAS:
            for graph in GRAPHS:
                keys = {"graph": graph, "iterations": 4000, "set": rates(name, eta, 1 / eta, 1 / (4 * eta))}
                made.append(_part(OVER_TIME, f"{name} on {graph} with {eta:g}", name, keys, budget))
        for compress in COMPRESSORS:
            made.append(_part(COMPRESSED, f"{name} with {compress}", name, _compressed(name, compress), budget))
    for label, name in SHOWN.items():
        for compress, steps in CASES:
            for c in steps:
                keys = _compressed(name, compress) | ({} if c is None else {"consensus_step": c})
                made.append(_part(STEPS, f"{label} with {compress} and {_step(c)}", name, keys, budget))
    return made


def _compressed(name: str, compress: str) -> dict[str, Any]:
    problem = {"dimension": 200, "condition": 3.0, "curvature": 1.5}
    values = {**rates(name, 0.05, 20.0, 1.0), "problem": problem}
    return {"graph": "ring:10", "iterations": 6000, "set": values, "compress": compress}


def _part(study: str, label: str, name: str, keys: Mapping[str, Any], budget: float) -> Part:
    iterations = max(1, round(keys["iterations"] * budget))
    known = {**BASE, **keys, "iterations": iterations, "eval_every": iterations, "algorithm": name}
    return Part(study, Line(label, known), 0, from_keys(known, label))


def _step(c: float | None) -> str:
    return "the rule's c" if c is None else f"c = {c:g}"


def outcome(experiment: Experiment, progress: Callable[[int], None] = lambda k: None) -> Outcome:
    """One run."""
    try:
        (plan,) = resolve(experiment)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what diverges is in the table
            result = run_plan(plan, callbacks=[Report(progress)])
    except DivergedError as error:
        return Outcome(sent=0 if error.result is None else error.result.metrics[-1]["bytes_sent"])
    except InputError as error:
        return Outcome(refused=str(error))
    assert isinstance(plan.problem, Quadratic)
    solution = plan.problem.optimum()
    far = float((result.x - solution).square().mean().sqrt() / solution.square().mean().sqrt())
    return Outcome(far if math.isfinite(far) else None, int(result.metrics[-1]["bytes_sent"]))


def measure(part: Part, folder: Path, progress: Callable[[int], None]) -> None:
    """One run's outcome, written down when it is there."""
    torch.set_num_threads(1)
    folder.mkdir(exist_ok=True)
    record = {**asdict(outcome(part.experiment, progress)), "fingerprint": _fingerprint(part)}
    write_atomically(folder / OUTCOME, json.dumps(record).encode())


def measured(part: Part, out: Path) -> bool:
    """Whether a run's outcome is there, under just these conditions."""
    return _record(part, out).get("fingerprint") == _fingerprint(part)


def _fingerprint(part: Part) -> str:
    """Of all that decides the outcome, the length of the run too."""
    known = describe(part.experiment, part.experiment.algorithms[0])
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()


def _record(part: Part, out: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads((part.folder(out) / OUTCOME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record


def collect(found: list[Part], out: Path) -> dict[tuple[str, str], Outcome]:
    """The outcomes, by table and label."""
    records = {(part.study, part.line.label): _record(part, out) for part in found}
    return {key: Outcome(*(record[name] for name in ("error", "sent", "refused"))) for key, record in records.items()}
