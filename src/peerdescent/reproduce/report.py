"""The report of the reproduction: one page, figures for a paper, tables in three formats, claims with verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from peerdescent.report import page
from peerdescent.report.formatting import with_spread
from peerdescent.report.layout import WeightedGraph
from peerdescent.report.page import Claim, Section
from peerdescent.report.tables import Table
from peerdescent.reproduce import writing
from peerdescent.reproduce.claims import ADDITIONAL_CLAIMS, CLAIMS
from peerdescent.reproduce.results import NOT_TESTABLE, LineResult, Results, verdict
from peerdescent.reproduce.studies import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Accelerated Primal-Dual Algorithm for Distributed Nonconvex Optimization: a reproduction"
RULE = "A number counts as reproduced if our mean is within max(1 point, 2 standard errors) of the printed one."
OPEN = "not stated"
COLUMNS = ("method", "paper (%)", "ours (%)", "seeds", "loss", "verdict", "why")


def write_report(studies: Sequence[Study], results: Mapping[str, Results], out: Path, command: str) -> Path:
    """Write all files of the report below `out`; return the path of the page."""
    judged = [(claim, claim.judge(results)) for claim in CLAIMS]
    claims = [Claim(claim.text, claim.how, verdict.word, verdict.reason) for claim, verdict in judged]
    chapters = [_chapter(study, results[study.name]) for study in studies]
    return writing.write(out, TITLE, command, RULE, claims + _additional_claims(out), chapters)


def _additional_claims(out: Path) -> list[Claim]:
    """Return the claims that need additional studies, with verdicts if these ran in the same folder."""
    found: list[Claim] = []
    for study, text in ADDITIONAL_CLAIMS.items():
        missing = [Claim(text, f"`reproduce {study}`.", NOT_TESTABLE, f"`reproduce {study}` was not run")]
        found += writing.recorded_claims(out / study) or missing
    return found


def _chapter(study: Study, results: Results) -> writing.Chapter:
    from peerdescent.report import drawing

    figures = {study.name: curves(study, results)}
    graph = {f"{study.name}-graph": drawing.topology(study.graph(), kind=study.lines[0].keys["laplacian"])}
    return writing.Chapter(_section(study, results), figures, {study.name: accuracy_table(study, results)}, graph)


def accuracy_table(study: Study, results: Results) -> Table:
    """The paper's table with our numbers and verdicts, and the lines that explain differences."""
    rows = [_row(label, results) for label in results]
    note = "Ours: mean ± standard deviation over the seeds, test accuracy of the averaged model."
    return Table(f"Test accuracy after {_last(results):,} iterations", COLUMNS, rows, note)


def _row(label: str, results: Results) -> tuple[str, ...]:
    result = results[label]
    judged = verdict(label, results)
    own = result.line.paper is None
    paper = "–" if own else f"{result.line.paper:.2f}"
    why = result.line.cause if result.line.explains else judged.reason
    return (label, paper, _accuracy(result), str(len(result.runs)), _loss(result), "–" if own else judged.word, why)


def _accuracy(result: LineResult) -> str:
    if any(result.diverged):
        return "diverged" if all(result.diverged) else f"diverged in {sum(result.diverged)} seeds"
    if not math.isfinite(result.accuracy):
        return "–"
    return with_spread(result.accuracies, 2)


def _loss(result: LineResult) -> str:
    return f"{result.loss:.4g}" if math.isfinite(result.loss) else "–"


def _last(results: Results) -> int:
    return max(int(run[-1]["iteration"]) for result in results.values() for run in result.runs if len(run))


def _section(study: Study, results: Results) -> Section:
    first = study.lines[0].keys
    settings = {key if key == OPEN else f"{key} (stated)": value for key, value in study.stated.items()}
    settings |= {f"{key} (used)": str(first[key]) for key in ("graph", "laplacian", "batch_size")}
    settings["iterations (used)"] = f"{max(result.planned for result in results.values()):,}"
    planned = {label: result.planned for label, result in results.items()}
    runs = {label: result.runs for label, result in results.items()}
    chart = page.Curves(study.title, runs, study.iterations_per_epoch, planned)
    graph = WeightedGraph.build(study.graph(), first["laplacian"])
    text = f"The {study.reading} reading. Charts show the mean over the seeds and one standard deviation."
    text = " ".join([text, *study.remarks])
    return Section(study.title, text, [chart], [graph], [accuracy_table(study, results)], settings)


def curves(study: Study, results: Results) -> Figure:
    """Mean curves over the seeds, without the lines that explain others."""
    from peerdescent.report.seeds import learning_curves

    shown = {label: result.runs for label, result in results.items() if not result.line.explains}
    shown = {label: runs for label, runs in shown.items() if all(len(run) for run in runs)}
    if study.name == "nn":
        return learning_curves(shown, ("loss",), title=study.title)
    return learning_curves(shown, per_epoch=study.iterations_per_epoch, title=study.title)
