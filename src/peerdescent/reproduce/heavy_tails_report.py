"""The report on heavy-tailed and skewed noise: biases, tuned ends, tails of real gradients, verdicts, figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from peerdescent.report.formatting import with_spread
from peerdescent.report.page import Claim, Section
from peerdescent.report.tables import Table
from peerdescent.reproduce import writing
from peerdescent.reproduce.gradient_tails import Tails
from peerdescent.reproduce.heavy_tails import (
    ALPHA,
    BETA,
    DECAY,
    ETA,
    EXACT,
    GAMMA,
    GRAPH,
    MENDED,
    NOISES,
    PLAIN,
    POWERED,
    THETA,
    TRIALS,
    WHAT,
    Bias,
    Outcome,
    Setting,
    level_of,
)  # fmt: skip
from peerdescent.runs.metrics import Metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Heavy-tailed and skewed gradient noise"
RULE = (
    "A bias counts if it is above 0.02 and above three standard errors. A tuned method counts as worse than another if "
    "its mean final loss over the seeds is more than a tenth higher. A method counts as diverging if one of its seeds "
    "does. The rules were fixed before the runs."
)
WORSE = 1.1
TRUE, FALSE = "holds", "does not hold"
Results = Sequence[tuple[Setting, Sequence[Outcome]]]


def write_report(found: Sequence[Bias], results: Results, tails: Sequence[Tails], out: Path, command: str) -> Path:
    """Write all files of the report below `out`; return the path of the page."""
    chapters = [_bias_chapter(found), *(_tuned_chapter(*result) for result in results), _tails_chapter(tails)]
    return writing.write(out, TITLE, command, RULE, claims(found, results, tails), chapters)


# ---- Verdicts ------------------------------------------------------------------------------------------------


def claims(found: Sequence[Bias], results: Results, tails: Sequence[Tails]) -> list[Claim]:
    """What holds of our variants, and what does not."""
    by = {(one.method, one.noise): one for one in found}
    skewed = ("exponential", "pareto:1.6")
    return [
        _biased(f"A power on local gradients ({POWERED}) is biased on heterogeneous data, without any noise.",
                [by[POWERED, "none"]], True),
        _biased(f"A power on the direction ({EXACT}) is unbiased without noise and under symmetric noise.",
                [by[EXACT, "none"], by[EXACT, "student-t:1.5"]], False),
        _biased(f"It is unbiased under skewed noise too ({EXACT}).", [by[EXACT, noise] for noise in skewed], False),
        _repaired([(by[EXACT, noise], by[MENDED, noise]) for noise in skewed]),
        _biased(f"With momentum nothing of the bias is left ({MENDED}).",
                [by[MENDED, noise] for noise in NOISES], False),
        _ends(f"{MENDED}, tuned, ends no higher than any other method.", results, MENDED),
        _ends(f"{EXACT}, tuned, ends no higher than any other method.", results, EXACT),
        _ends(f"{MENDED}, tuned, ends no higher than {EXACT}.", results, MENDED, (EXACT,)),
        _ends(f"Powers pay: {EXACT} ends no higher than the plain {PLAIN}.", results, EXACT, (PLAIN,)),
        _stays(results),
        _fastest(results),
        *_gradients(tails),
    ]  # fmt: skip


def _biased(text: str, found: Sequence[Bias], expected: bool) -> Claim:
    shown = "; ".join(f"{one.noise}: {_bias(one)}" for one in found)
    holds = all(one.biased == expected for one in found)
    return Claim(text, "RMS bias of x̄ ± standard error, quadratics.", TRUE if holds else FALSE, shown)


def _repaired(pairs: Sequence[tuple[Bias, Bias]]) -> Claim:
    shown = "; ".join(f"{one.noise}: {_bias(one)} without, {_bias(other)} with" for one, other in pairs)
    holds = all(other.bias < one.bias / 2 for one, other in pairs)
    text = "Momentum before the power removes most of the bias of skewed noise: more than half of it."
    return Claim(text, "RMS bias of x̄ ± standard error, quadratics.", TRUE if holds else FALSE, shown)


def _ends(text: str, results: Results, ours: str, others: Sequence[str] = ()) -> Claim:
    lost, count = [], 0
    for setting, outcomes in results:
        by = {one.method: one for one in outcomes}
        best = min((by[name] for name in (others or by) if name != ours), key=lambda one: one.loss)
        count += 1
        if not by[ours].loss <= WORSE * best.loss:
            lost.append(f"{setting.name}: {_loss(by[ours])} against {_loss(best)} of {best.method}")
    evidence = f"loses in {len(lost)} of {count} settings. {'; '.join(lost)}" if lost else f"in all {count} settings"
    return Claim(text, "mean final loss on fresh seeds, above the optimum where it is known.", FALSE if lost else TRUE,
                 evidence)  # fmt: skip


def _stays(results: Results) -> Claim:
    gone = [f"{one.method} in {setting.name} ({one.diverged} seeds)" for setting, outcomes in results
            for one in outcomes if one.diverged]  # fmt: skip
    text = "No tuned method diverges on a seed that its search has not used."
    return Claim(text, "runs on fresh seeds.", FALSE if gone else TRUE, "; ".join(gone) or "none did")


def _fastest(results: Results) -> Claim:
    shown, won = [], True
    for setting, outcomes in results:
        level = level_of(outcomes, setting.lowest)
        times = {one.method: one.reaches(level, setting.lowest) for one in outcomes}
        first = min(times, key=lambda name: times[name])
        won &= first in (EXACT, MENDED)
        shown.append(f"{setting.name}: {first} ({_iterations(times[first])}; {MENDED} {_iterations(times[MENDED])})")
    text = "Our variants are the first to come within a tenth of the way from the best end to the start."
    return Claim(text, "mean first evaluated iteration over the seeds.", TRUE if won else FALSE, "; ".join(shown))


def _gradients(tails: Sequence[Tails]) -> list[Claim]:
    heavy = all(one.index < 2 for one in tails)
    skewed = all(one.skewness > 1 for one in tails)
    indices = "; ".join(f"{one.network}, {one.point}: {one.index:.1f}" for one in tails)
    medians = "; ".join(f"{one.network}, {one.point}: {one.skewness:.2f} (by chance {one.chance:.2f})" for one in tails)
    return [
        Claim("Minibatch gradients of our networks have infinite variance: Hill's tail index is below 2.",
              "the largest hundredth of the entries.", TRUE if heavy else FALSE, indices),
        Claim("They are clearly skewed: the median of |skewness| over the entries is above 1.",
              "minibatches of 20 at a fixed point.", TRUE if skewed else FALSE, medians),
    ]  # fmt: skip


# ---- Tables and figures ----------------------------------------------------------------------------------------


def bias_table(found: Sequence[Bias]) -> Table:
    """Methods × noises."""
    names, noises = list(dict.fromkeys(b.method for b in found)), list(dict.fromkeys(b.noise for b in found))
    by = {(one.method, one.noise): one for one in found}
    rows = [(f"`{name}`", *(_bias(by[name, noise]) for noise in noises)) for name in names]
    note = (
        f"Scalar heterogeneous quadratics on {GRAPH}, exact gradients plus noise of scale 1: RMS over ten instances of "
        f"the bias of x̄, ± its standard error from 20 copies of each. η = {ETA}/(1 + {DECAY}k), α = {ALPHA:g}, "
        f"β = {BETA:g}, γ = {GAMMA}, θ = {THETA}. `sclip-ef` "
        "has its own schedules. `clipped-d-sgd` (τ = √200) and `gt-nsgdm` (η√200) see all copies as one vector."
    )
    return Table("Bias with given steps", ("method", *noises), rows, note)


def _bias_chapter(found: Sequence[Bias]) -> writing.Chapter:
    block = bias_table(found)
    text = "The noises: " + "; ".join(f"`{name}`: {what}" for name, what in WHAT.items()) + "."
    figure = _bias_figure(found)
    section = Section("Who is biased", text, tables=[block], pictures={"Bias by noise": figure})
    return writing.Chapter(section, {"bias": figure}, {"bias": block})


def _bias_figure(found: Sequence[Bias]) -> Figure:
    from peerdescent.report.drawing import finalize_layout, new_figure
    from peerdescent.report.style import COLOURS

    names, noises = list(dict.fromkeys(b.method for b in found)), list(dict.fromkeys(b.noise for b in found))
    figure = new_figure(8.4, 4.2)
    axes = figure.subplots()
    for number, name in enumerate(names):
        own = [one for one in found if one.method == name]
        heights = [min(one.bias, 10.0) for one in own]
        places = [noises.index(one.noise) + 0.8 * (number + 0.5) / len(names) - 0.4 for one in own]
        hatch = "///" if number >= len(COLOURS) else None
        colour = COLOURS[number % len(COLOURS)]
        axes.bar(places, heights, 0.8 / len(names), color=colour, hatch=hatch, edgecolor="white", label=name)
        axes.errorbar(places, heights, [one.error for one in own], fmt="none", ecolor="0.3", elinewidth=0.8)
    axes.set(yscale="symlog", ylabel="RMS bias of x̄", xticks=range(len(noises)), xticklabels=noises)
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    finalize_layout(figure)
    return figure


def tuned_table(setting: Setting, outcomes: Sequence[Outcome]) -> Table:
    """How the tuned methods ended in one setting."""
    level = level_of(outcomes, setting.lowest)
    best = min(one.loss for one in outcomes)
    rows = [
        (
            f"`{one.method}`",
            _loss(one),
            "–" if one.diverged or not one.losses else f"{max(one.losses):.3g}",
            str(one.diverged),
            _iterations(one.reaches(level, setting.lowest)) if one.curves else "never",
            " ".join(f"{key}={value}" for key, value in one.values.items()) or "–",
            _word(one, best),
        )
        for one in outcomes
    ]
    above = " above the optimum" if setting.lowest else ""
    note = (
        f"Every method had {TRIALS[setting.experiment.problem]} trials on one seed; "
        f"losses{above} are means ± one standard deviation over fresh "
        "seeds. "
        f"Figures show losses{above}. Fast: the first evaluated iteration with a loss{above} below {level:.3g}."
    )
    columns = ("method", "final loss", "worst seed", "diverged", "fast", "tuned values", "verdict")
    return Table(setting.title, columns, rows, note)


def _word(one: Outcome, best: float) -> str:
    if one.diverged:
        return "diverges"
    return "among the best" if one.loss <= WORSE * best else f"{one.loss / best:.1f}× the best loss"


def _tuned_chapter(setting: Setting, outcomes: Sequence[Outcome]) -> writing.Chapter:
    from peerdescent.report.page import Curves
    from peerdescent.report.seeds import learning_curves

    curves: Mapping[str, Sequence[Metrics]] = {
        one.method: [_above(run, setting.lowest) for run in one.curves]
        for one in outcomes
        if one.curves and not one.diverged
    }
    quantities = ("loss", "accuracy") if setting.experiment.problem != "quadratic" else ("loss",)
    figures = {setting.name: learning_curves(curves, quantities, title=setting.title)} if curves else {}
    block, e = tuned_table(setting, outcomes), setting.experiment
    used = {key: str(getattr(e, key)) for key in ("problem", "graph", "partition", "batch_size", "gradient_noise")}
    chart = [Curves(setting.title, curves)] if curves else []
    section = Section(setting.title, "", chart, tables=[block], settings={**used, "iterations": f"{e.iterations:,}"})
    return writing.Chapter(section, figures, {setting.name: block})


def _above(run: Metrics, lowest: float) -> Metrics:
    return Metrics([{**row, "loss": (row["loss"] or 0.0) - lowest} for row in run]) if lowest else run


def tails_table(tails: Sequence[Tails]) -> Table:
    """What real minibatch gradients are like."""
    rows = [
        (
            f"`{one.network}`, {one.point}", f"{one.skewness:.2f}", f"{one.chance:.2f}", f"{100 * one.skewed:.0f} %",
            f"{one.index:.1f}", f"{one.gaussian_index:.1f}", f"{one.norm_index:.1f}",
        )
        for one in tails
    ]  # fmt: skip
    columns = ("network", "median skewness", "by chance", "entries above 1", "tail index", "of a Gaussian", "of norms")
    note = (
        "Minibatches of 20 samples at a fixed point, 400 entries of each of five agents. Skewness: median over the "
        "entries of |E ξ³|/(E ξ²)^1.5. Tail index: Hill's estimate from the largest hundredth, entries divided by "
        "their standard deviations; below 2 the variance would be infinite. A finite sample of a Gaussian has the "
        "values beside it."
    )
    return Table("Minibatch gradients", columns, rows, note)


def _tails_chapter(tails: Sequence[Tails]) -> writing.Chapter:
    block = tails_table(tails)
    return writing.Chapter(Section("Real minibatch gradients", tables=[block]), {}, {"tails": block})


def _bias(one: Bias) -> str:
    return "diverged" if math.isinf(one.bias) else f"{one.bias:.3f} ± {one.error:.3f}"


def _loss(one: Outcome) -> str:
    return "diverged" if one.diverged else with_spread(one.losses)


def _iterations(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:,.0f}"
