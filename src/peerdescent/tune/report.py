"""The files of a tuning: the tuned experiment, tables, a figure, all numbers as JSON, and a page in Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from peerdescent._util import toml
from peerdescent._util.files import write_atomically
from peerdescent._util.numbers import finite_or_none, jsonable
from peerdescent.experiments.resolve import describe
from peerdescent.report import drawing
from peerdescent.report.formatting import ABSENT, with_spread
from peerdescent.report.style import COLOURS
from peerdescent.report.tables import Table
from peerdescent.runs.folder import environment
from peerdescent.tune.results import Cost, Ends, Tuned, Tuning

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUANTITIES = {"loss": ("loss", 1.0), "accuracy": ("accuracy (%)", 100.0)}
"""Key → the name of the quantity, and the factor to the unit that is shown."""
WIDE = 5.0
"""Losses that differ by more than this factor are drawn on a logarithmic axis."""


def write_report(tuning: Tuning, out: Path, command: str) -> None:
    """Write all files of the report to the folder of the tuning."""
    write_atomically(out / "tuned.toml", toml.dumps(tuned_experiment(tuning)))
    write_atomically(out / "results.json", (json.dumps(as_data(tuning), indent=2) + "\n").encode())
    outcome_table(tuning).write(out / "table", ("csv", "md"))
    drawing.save(figure(tuning), out / "figures" / "tuned")
    write_atomically(out / "README.md", page(tuning, command).encode())


def tuned_experiment(tuning: Tuning) -> dict[str, Any]:
    """The experiment with the best values of every method (its own where none are better), ready for TOML."""
    experiment = tuning.experiment
    keys = describe(experiment, *experiment.algorithms)
    for one in tuning.methods:
        keys["set"][one.name] |= one.best or {}
    return {**keys, "title": f"{experiment.title or experiment.problem}, tuned"}


def outcome_table(tuning: Tuning) -> Table:
    """Each method with its tuned and with its own values, on the fresh seeds."""
    metric, seeds = tuning.budget.metric, len(tuning.fresh_seeds)
    shown = [key for key in QUANTITIES if any(math.isfinite(one.own_ends.mean(key)) for one in tuning.methods)]
    columns = ["method", "tuned values"]
    columns += [f"{QUANTITIES[key][0]}, {which}" for key in shown for which in ("tuned", "own")]
    rows = []
    for one in tuning.methods:
        ends = [text for key in shown for text in (show(one.best_ends, key), show(one.own_ends, key))]
        rows.append([one.name, values(one.best), *ends, change(one, metric), f"{one.seeds_better(metric)} of {seeds}"])
    heads = [*columns, f"change of {metric}", "seeds better"]
    return Table("Results", heads, rows, data=_numbers(tuning))


def values_table(tuning: Tuning, which: Literal["tuned", "own"]) -> Table:
    """The values of each method, as on the command line."""
    rows = [[one.name, values(one.best if which == "tuned" else one.own)] for one in tuning.methods]
    return Table("", ("method", f"{which} values"), rows)


def cost_table(tuning: Tuning) -> Table:
    """What the trials of each method cost."""
    rows = [[one.name, str(one.rejected), *_cost(one.cost)] for one in tuning.methods]
    rows.append(["all trials", str(sum(one.rejected for one in tuning.methods)), *_cost(tuning.searching)])
    rows.append(["fresh seeds", ABSENT, *_cost(tuning.measuring)])
    columns = ("method", "rejected as unstable", "runs", "iterations", "gradients", "seconds")
    return Table("Cost", columns, rows)


def verdict(tuning: Tuning) -> str:
    """How many methods are better with tuned values, in one sentence."""
    which = "lower mean loss" if tuning.budget.metric == "loss" else "higher mean accuracy"
    return (
        f"Tuned values are better for {len(tuning.better)} of {len(tuning.methods)} methods: {which} over "
        f"{_seeds(tuning.fresh_seeds)}, which the search did not use."
    )


def page(tuning: Tuning, command: str) -> str:
    """Return the report in Markdown."""
    experiment, budget = tuning.experiment, tuning.budget
    batch = experiment.batch_size
    samples = f"{batch} sample{'s' * (batch > 1)}" if batch else "its full shard"
    rounds = ", then ".join(f"{r.trials} of {r.iterations:,}" for r in budget.rounds(experiment.iterations))
    how = (
        f"Made by `{command}`. Every method has the same {budget.trials} trial runs ({rounds} iterations) with "
        f"{_seeds(tuning.tuning_seeds)}, starting from its own values, and then runs for {experiment.iterations:,} "
        "iterations with the best values of the last round and with its own. Settings that are unstable on the graph "
        "are rejected without a run. Loss is f(x̄) at the end, accuracy that of x̄ on test data, each as mean ± standard "
        f"deviation over {_seeds(tuning.fresh_seeds)}. A gradient is that of one agent in one iteration, of {samples}; "
        "seconds are computing time, summed over the runs."
    )
    machine = [f"- {key}: {value}" for key, value in environment().items() if key != "command"]
    parts = [f"# Tuned: {experiment.title or experiment.problem}", how, verdict(tuning)]
    parts += ["![Final loss and accuracy of every method, tuned and with its own values](figures/tuned.png)"]
    parts += [outcome_table(tuning).to_markdown(), "## Cost", cost_table(tuning).to_markdown()]
    parts += ["## Own values", values_table(tuning, "own").to_markdown(), "## Environment", "\n".join(machine)]
    return "\n\n".join(parts) + "\n"


def as_data(tuning: Tuning) -> dict[str, Any]:
    """All numbers, for other programs."""
    methods = {
        one.name: {
            "tuned": {"values": one.best, **_final(one.best_ends)},
            "own": {"values": one.own, **_final(one.own_ends)},
            "better": one.better(tuning.budget.metric),
            "trials": one.trials,
            "unstable": one.rejected,
            "cost": vars(one.cost),
        }
        for one in tuning.methods
    }
    seeds = {"tuning_seeds": list(tuning.tuning_seeds), "fresh_seeds": list(tuning.fresh_seeds)}
    cost = {"searching": vars(tuning.searching), "measuring": vars(tuning.measuring)}
    what = {"metric": tuning.budget.metric, "trials": tuning.budget.trials, "iterations": tuning.experiment.iterations}
    return {**what, **seeds, "better": tuning.better, "results": methods, "cost": cost}


def figure(tuning: Tuning) -> Figure:
    """A line per method from the result of its own values to that of the tuned ones, ± one standard deviation."""
    keys = [key for key in QUANTITIES if any(math.isfinite(one.own_ends.mean(key)) for one in tuning.methods)]
    drawn = drawing.new_figure(4.6 * max(1, len(keys)) + 1.2, 0.32 * len(tuning.methods) + 1.6)
    for axes, key in zip(drawn.subplots(1, max(1, len(keys)), sharey=True, squeeze=False)[0], keys, strict=False):
        _panel(axes, tuning, key)
    handles, labels = drawn.axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    drawing.finalize_layout(drawn)
    return drawn


def _panel(axes: Axes, tuning: Tuning, key: str) -> None:
    name, scale = QUANTITIES[key]
    heights = range(len(tuning.methods))
    own = _points([one.own_ends for one in tuning.methods], key, scale)
    tuned = _points([one.best_ends for one in tuning.methods], key, scale)
    axes.hlines(heights, own[0], tuned[0], colors="0.75", zorder=1)
    looks = ((own, "own values", COLOURS[1], "s"), (tuned, "tuned", COLOURS[0], "o"))
    for (middles, spreads), label, colour, marker in looks:
        axes.errorbar(middles, heights, xerr=spreads, fmt=marker, color=colour, label=label, capsize=2, markersize=5)
    axes.set_yticks(list(heights), [drawing.label_text(one.name) for one in tuning.methods])
    axes.set_xlabel("loss f(x̄) at the end" if key == "loss" else f"test {name}")
    axes.grid(axis="x", color="#e6e6e6")
    axes.spines[["top", "right"]].set_visible(False)
    if not axes.yaxis_inverted():
        axes.invert_yaxis()
    shown = [value for value in (*own[0], *tuned[0]) if value > 0]
    if key == "loss" and shown and max(shown) > WIDE * min(shown):
        axes.set_xscale("log")


def _points(ends: Sequence[Ends | None], key: str, scale: float) -> tuple[list[float], list[float]]:
    """Means, NaN where there is none, and standard deviations."""
    means = [math.nan if one is None else scale * one.mean(key) for one in ends]
    spreads = [0.0 if one is None else scale * one.deviation(key) for one in ends]
    middles = [mean if math.isfinite(mean) else math.nan for mean in means]
    return middles, [spread if math.isfinite(spread) else 0.0 for spread in spreads]


def show(ends: Ends | None, key: str) -> str:
    """Return mean ± standard deviation over the seeds."""
    if ends is None:
        return ABSENT
    if not math.isfinite(ends.mean(key)):
        broken = sum(map(math.isnan, ends.loss))
        return f"diverged in {broken} of {len(ends.loss)}" if broken else ABSENT
    if key == "accuracy":
        return with_spread([QUANTITIES[key][1] * value for value in ends.accuracy], 2)
    return with_spread(ends.loss)


def change(one: Tuned, metric: str) -> str:
    """The change of the mean: loss in percent, accuracy in points."""
    if one.best_ends is None:
        return "every trial diverged" if one.trials else "no stable setting found"
    if one.best == one.own:
        return "own values are best"
    own, tuned = one.own_ends.mean(metric), one.best_ends.mean(metric)
    if not (math.isfinite(own) and math.isfinite(tuned) and own):
        return ABSENT
    return f"{100 * (tuned - own):+.2f} points" if metric == "accuracy" else f"{100 * (tuned / own - 1):+.1f} %"


def values(options: Mapping[str, Any] | None) -> str:
    """Values as on the command line."""
    return ABSENT if options is None else " ".join(f"{key}={value}" for key, value in options.items())


def _seeds(seeds: Any) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _cost(cost: Cost) -> list[str]:
    seconds = f"{cost.seconds:.1f}" if cost.seconds < 100 else f"{cost.seconds:,.0f}"
    return [str(cost.runs), f"{cost.iterations:,}", f"{cost.gradients:,}", seconds]


def _final(ends: Ends | None) -> dict[str, Any]:
    return {key: None if ends is None else jsonable(list(getattr(ends, key))) for key in ("loss", "accuracy")}


def _numbers(tuning: Tuning) -> dict[str, list[Any]]:
    """By column, one number at full precision per method; None where it is absent or not finite."""
    rows = []
    for one in tuning.methods:
        row: dict[str, Any] = {"method": one.name, "tuned": values(one.best), "own": values(one.own)}
        for which, ends in (("tuned", one.best_ends), ("own", one.own_ends)):
            for key in QUANTITIES:
                row[f"{key}_{which}"] = None if ends is None else finite_or_none(ends.mean(key))
                row[f"{key}_{which}_deviation"] = None if ends is None else finite_or_none(ends.deviation(key))
        seeds = one.seeds_better(tuning.budget.metric)
        row |= {"better": one.better(tuning.budget.metric), "seeds_better": seeds, "unstable": one.rejected}
        rows.append(row | vars(one.cost))
    return {key: [row[key] for row in rows] for key in rows[0]}
