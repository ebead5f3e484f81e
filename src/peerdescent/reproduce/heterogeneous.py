"""Heterogeneous data: the bias of powered gradients, and where the power on the direction, "exact", removes it.

That variant is unbiased without noise and under symmetric noise; skewed noise biases it, see `heavy_tails`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from peerdescent.report import page
from peerdescent.report.formatting import with_spread
from peerdescent.report.layout import WeightedGraph
from peerdescent.report.page import Claim, Section
from peerdescent.report.tables import Table
from peerdescent.reproduce import writing
from peerdescent.reproduce.report import curves
from peerdescent.reproduce.results import NOT_REPRODUCED, REPRODUCED, LineResult, Results
from peerdescent.reproduce.studies import Study

TITLE = "Heterogeneous data: powered gradients, the exact variant, and the baselines"
RULE = (
    "Methods are compared by the training loss of the averaged model, the mean over the seeds; a tenth more counts as "
    "worse. The rule was fixed before the runs. “Exact” means unbiased on heterogeneous data without noise and under "
    "symmetric noise; skewed noise biases it, see `reproduce heavy-tails`."
)
PLAIN = "DSGPA-F, γ = 1"
GAMMAS = ("0.7", "0.5", "0")
BASELINES = ("D-SGD-1", "DM-SGD", "D²", "D-SGT-1", "C-SGD")
WORSE = 1.1
"""A loss counts as worse above this factor."""
COLUMNS = ("method", "loss", "test accuracy (%)", "‖∇f(x̄)‖", "consensus error", "seeds")


def write_report(studies: Sequence[Study], results: Mapping[str, Results], out: Path, command: str) -> Path:
    """Write all files of the report below `out`; return the path of the page."""
    chapters = [_chapter(study, results[study.name]) for study in studies]
    titles = {study.name: study.title for study in studies}
    return writing.write(out, TITLE, command, RULE, claims({titles[n]: r for n, r in results.items()}), chapters)


def claims(results: Mapping[str, Results]) -> list[Claim]:
    """Return the claims about heterogeneous data, over all settings (by title) and powers."""
    pairs = [(title, gamma) for title in results for gamma in GAMMAS]
    powered = {(t, g): results[t][f"PB, γ = {g}"] for t, g in pairs}
    exact = {(t, g): results[t][f"PB-exact, γ = {g}"] for t, g in pairs}
    plain = {(t, g): results[t][PLAIN] for t, g in pairs}
    best = {(t, g): _best([results[t][b] for b in BASELINES if b in results[t]]) for t, g in pairs}
    return [
        _compared("Theorem 1 does not require IID data: powered gradients end no higher than the exact "
                  "variant.", powered, exact),
        _compared("The exact variant repairs the bias: it ends no higher than powered gradients.", exact, powered),
        _compared("The exact variant ends no higher than DSGPA-F (γ = 1).", exact, plain),
        _compared("Powered gradients end no higher than DSGPA-F (γ = 1).", powered, plain),
        _compared("The exact variant ends no higher than the best baseline.", exact, best),
    ]  # fmt: skip


Pairs = Mapping[tuple[str, str], LineResult]


def _compared(text: str, ours: Pairs, others: Pairs) -> Claim:
    """Judge a claim: reproduced if the loss is worse in no setting; the evidence names the settings where it is."""
    worse = [key for key in ours if _loss(ours[key]) > WORSE * _loss(others[key])]
    if not worse:
        return Claim(text, "final training loss.", REPRODUCED, f"no worse in all {len(ours)} settings")
    named = (f"{t}, γ = {g}: {_number(ours[t, g])} against {_number(others[t, g])}" for t, g in worse)
    evidence = f"worse in {len(worse)} of {len(ours)} settings. {'; '.join(named)}"
    return Claim(text, "final training loss.", NOT_REPRODUCED, evidence)


def table(study: Study, results: Results) -> Table:
    """How every method ended."""
    rows = [_row(label, result) for label, result in results.items()]
    note = "Means over the seeds, ± one standard deviation, at the averaged model."
    return Table(f"{study.title}: after {study.lines[0].keys['iterations']:,} iterations", COLUMNS, rows, note)


def _row(label: str, result: LineResult) -> tuple[str, ...]:
    if any(result.diverged):
        return (label, "diverged", "–", "–", "–", str(len(result.runs)))
    slope, apart = (f"{statistics.fmean(result.final(key)):.3g}" for key in ("gradient_norm", "consensus_error"))
    loss, accuracy = with_spread(result.final("loss")), with_spread(result.accuracies, 2)
    return (label, loss, accuracy, slope, apart, str(len(result.runs)))


def _chapter(study: Study, results: Results) -> writing.Chapter:
    from peerdescent.report import drawing

    planned = {label: result.planned for label, result in results.items()}
    runs = {label: result.runs for label, result in results.items()}
    chart = page.Curves(study.title, runs, study.iterations_per_epoch, planned)
    block, first = table(study, results), study.lines[0].keys
    settings = {key: str(first[key]) for key in ("partition", "graph", "laplacian", "batch_size", "iterations")}
    weighted = WeightedGraph.build(study.graph(), first["laplacian"])
    section = Section(study.title, " ".join(study.remarks), [chart], [weighted], [block], settings)
    graph = {f"{study.name}-graph": drawing.topology(weighted.graph, weighted.spectrum, weighted.kind)}
    return writing.Chapter(section, {study.name: curves(study, results)}, {study.name: block}, graph)


def _best(results: Sequence[LineResult]) -> LineResult:
    return min(results, key=_loss)


def _loss(result: LineResult) -> float:
    """Return the final loss; infinite if the method diverged."""
    return result.loss if math.isfinite(result.loss) else math.inf


def _number(result: LineResult) -> str:
    return f"{result.loss:.3g}" if math.isfinite(result.loss) else "diverged"
