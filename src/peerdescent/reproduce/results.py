"""The results of a study, compared with the numbers in the paper."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from peerdescent.reproduce.studies import Line, Part, Study
from peerdescent.runs.folder import read_metrics, read_summary
from peerdescent.runs.metrics import Metrics, Row, diverged

REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE = "reproduced", "not reproduced", "not testable"
WIDEST = 5.0
"""If two standard errors exceed this many points, there is no verdict."""
TOLERANCE = 1.0
"""A number counts as reproduced within this many points of accuracy, or two standard errors if that is more."""


@dataclass(frozen=True)
class LineResult:
    """The results of one line of a study, over its seeds."""

    line: Line
    runs: Sequence[Metrics]
    diverged: Sequence[bool]
    planned: int = 0
    """The number of iterations of a run."""
    shortened: bool = False
    """Whether that is less than in the study."""

    def final(self, key: str) -> list[float]:
        """Return the last value of a column per seed; NaN if there is none or the run diverged."""
        values = [run[-1].get(key) if len(run) else None for run in self.runs]
        pairs = zip(values, self.diverged, strict=True)
        return [math.nan if value is None or broken else float(value) for value, broken in pairs]

    @property
    def accuracies(self) -> list[float]:
        """Final test accuracy in percent, per seed."""
        return [100 * value for value in self.final("accuracy")]

    @property
    def accuracy(self) -> float:
        """Mean final accuracy, in percent."""
        return statistics.fmean(self.accuracies)

    @property
    def deviation(self) -> float:
        """Standard deviation over the seeds, in points; 0 for one seed."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0

    @property
    def loss(self) -> float:
        """Mean final loss."""
        return statistics.fmean(self.final("loss"))

    def reaches(self, level: float) -> float:
        """Return the mean number of iterations until the loss is below a level; infinite if a seed never reaches it."""
        return statistics.fmean(_first_below(run, level) for run in self.runs)

    def tolerance(self) -> float:
        """Return max(1 point, 2 standard errors)."""
        return max(TOLERANCE, 2 * self.deviation / math.sqrt(len(self.runs)))

    def matches(self, paper: float) -> bool:
        """Return whether the mean is within the tolerance of a printed number."""
        return abs(self.accuracy - paper) <= self.tolerance()


@dataclass(frozen=True)
class Verdict:
    """A word and its reason."""

    word: str
    reason: str


Results = Mapping[str, LineResult]


def collect(study: Study, parts: Sequence[Part], out: Path) -> dict[str, LineResult]:
    """Read the results of a study from the run folders, by label."""
    results = {}
    for line in study.lines:
        own = [part for part in parts if part.study == study.name and part.line.label == line.label]
        folders = [part.folder(out) for part in own]
        tables = [read_metrics(folder) for folder in folders]
        broken = [diverged(_summary(folder)) for folder in folders]
        planned = own[0].experiment.iterations
        results[line.label] = LineResult(line, tables, broken, planned, planned < line.keys["iterations"])
    return results


def verdict(label: str, results: Results) -> Verdict:
    """Return whether a printed accuracy is reproduced, and what may explain a difference."""
    result = results[label]
    paper = result.line.paper
    if paper is None:
        return Verdict(NOT_TESTABLE, "the paper prints no number for it")
    if result.shortened:
        return Verdict(NOT_TESTABLE, f"a shortened run of {result.planned:,} iterations")
    if any(result.diverged):
        seeds = f"{sum(result.diverged)} of {len(result.diverged)} seeds"
        return Verdict(NOT_REPRODUCED, f"diverges under these settings ({seeds})")
    if result.tolerance() > WIDEST:
        low, high = min(result.accuracies), max(result.accuracies)
        return Verdict(
            NOT_TESTABLE, f"the seeds lie too far apart, from {low:.1f} to {high:.1f} %{_tried(label, results)}"
        )
    within = f"{result.accuracy - paper:+.2f} points, tolerance ±{result.tolerance():.2f}"
    if result.matches(paper):
        return Verdict(REPRODUCED, within)
    return Verdict(NOT_REPRODUCED, f"{within}{_tried(label, results)}")


def _tried(label: str, results: Results) -> str:
    """Return the outcome of the closest line that tries to explain a difference."""
    paper = results[label].line.paper or math.nan
    tried = [other for other in results.values() if other.line.explains == label and not any(other.diverged)]
    if not tried:
        return ""
    nearest = min(tried, key=lambda other: abs(other.accuracy - paper))
    fits = "matches the printed number" if nearest.matches(paper) else "does not match it either"
    return f"; {nearest.line.cause}: {nearest.accuracy:.2f} %, which {fits}"


def _first_below(run: Metrics, level: float) -> float:
    return next((row["iteration"] for row in run if row["loss"] is not None and row["loss"] < level), math.inf)


def _summary(folder: Path) -> Row:
    try:
        return read_summary(folder)
    except (OSError, ValueError):
        return {}
