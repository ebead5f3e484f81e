"""The reproduction's report: one page, figures for a paper, tables in three formats, the claims with verdicts."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from peerdescent.engine.folder import environment
from peerdescent.files import write_atomically
from peerdescent.report import drawing, page
from peerdescent.report.page import Page, Section, TableBlock
from peerdescent.report.seeds import learning_curves
from peerdescent.reproduce.claims import CLAIMS
from peerdescent.reproduce.results import LineResult, Results, Verdict, verdict
from peerdescent.reproduce.studies import Study

TITLE = "Accelerated Primal-Dual Algorithm for Distributed Nonconvex Optimization: a reproduction"
RULE = "A number counts as reproduced if our mean is within max(1 point, 2 standard errors) of the printed one."
OPEN = "not stated"
COLUMNS = ("method", "paper (%)", "ours (%)", "seeds", "loss", "verdict", "why")


def write_report(studies: Sequence[Study], results: Mapping[str, Results], out: Path, command: str) -> Path:
    """All files of the report below `out`; returns the page's path."""
    for study in studies:
        table = accuracy_table(study, results[study.name])
        _write_table(table, out / "tables" / study.name)
        _draw(study, results[study.name], out / "figures")
    claims = [page.Claim(c.text, c.how, *_word(c.judge(results))) for c in CLAIMS]
    block = TableBlock("Claims", ("claim", "how it is tested", "verdict", "evidence"), [_cells(c) for c in claims])
    _write_table(block, out / "tables" / "claims")
    sections = [_section(study, results[study.name]) for study in studies]
    known = {key: str(value) for key, value in environment().items() if key != "command"}
    whole = Page(TITLE, command, claims, sections, known, [RULE])
    page.write(whole, out / "report.html")
    write_atomically(out / "README.md", _summary(whole, block, studies).encode())
    return out / "report.html"


def _summary(whole: Page, claims: TableBlock, studies: Sequence[Study]) -> str:
    """The report in Markdown, with the figures and tables beside it."""
    parts = [f"# {whole.title}", f"Made by `{whole.command}`. {RULE}", "## Claims", _markdown(claims)]
    for study, section in zip(studies, whole.sections, strict=True):
        (table,) = section.tables
        stated = [f"- {key}: {value}" for key, value in section.settings.items()]
        parts += [f"## {study.title}", f"![{study.title}](figures/{study.name}.png)", f"{table.title}. {table.note}"]
        remarks = [f"- remark: {remark}" for remark in study.remarks]
        parts += [_markdown(table), "\n".join([*stated, *remarks])]
    machine = "\n".join(f"- {key}: {value}" for key, value in whole.environment.items())
    return "\n\n".join([*parts, "## Environment", machine]) + "\n"


def accuracy_table(study: Study, results: Results) -> TableBlock:
    """The paper's table with our numbers and verdicts, and the lines that explain differences."""
    rows = [_row(label, results) for label in results]
    note = "Ours: mean ± standard deviation over the seeds, test accuracy of the averaged model."
    return TableBlock(f"Test accuracy after {_last(results):,} iterations", COLUMNS, rows, note)


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
    spread = f" ± {result.deviation:.2f}" if len(result.runs) > 1 else ""
    return f"{result.accuracy:.2f}{spread}"


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
    chart = page.Curves(study.title, {label: r.runs for label, r in results.items()}, _per_epoch(study), planned)
    graph = study.graph()
    text = f"The {study.reading} reading. Charts show the mean over the seeds and one standard deviation."
    text = " ".join([text, *study.remarks])
    return Section(study.title, text, [chart], [graph], [accuracy_table(study, results)], settings)


def _per_epoch(study: Study) -> float:
    return study.samples_per_agent / float(study.lines[0].keys["batch_size"])


def _draw(study: Study, results: Results, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shown = {label: result.runs for label, result in results.items() if not result.line.explains}
    shown = {label: runs for label, runs in shown.items() if all(len(run) for run in runs)}
    if study.name == "nn":
        figure = learning_curves(shown, ("loss",), title=study.title)
    else:
        figure = learning_curves(shown, per_epoch=_per_epoch(study), title=study.title)
    drawing.save(figure, folder / study.name)
    drawing.save(drawing.topology(study.graph()), folder / f"{study.name}-graph")


def _write_table(table: TableBlock, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    latex = pd.DataFrame(table.rows, columns=list(table.columns)).to_latex(index=False, escape=True)
    for suffix, content in ((".csv", text.getvalue()), (".md", _markdown(table) + "\n"), (".tex", latex)):
        write_atomically(path.with_suffix(suffix), content.encode())


def _markdown(table: TableBlock) -> str:
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _word(judged: Verdict) -> tuple[str, str]:
    return judged.word, judged.reason


def _cells(claim: page.Claim) -> tuple[str, ...]:
    return claim.text, claim.how, claim.verdict, claim.evidence
