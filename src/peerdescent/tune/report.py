"""The files of a tuning: the tuned experiment, tables, a figure, all numbers as JSON, and a page in Markdown."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from peerdescent._util import toml
from peerdescent._util.files import write_atomically
from peerdescent.report import blocks, drawing
from peerdescent.report.page import TableBlock
from peerdescent.report.tables import ABSENT, with_spread
from peerdescent.runs.folder import environment
from peerdescent.tune.results import Cost, Ends, Tuned, Tuning

QUANTITIES = {"loss": ("loss", 1.0), "accuracy": ("accuracy (%)", 100.0)}
"""The names of the metrics, and their factors."""
WIDE = 5.0
"""Losses that differ by more than this factor are drawn on a logarithmic axis."""


def write_report(tuning: Tuning, out: Path, command: str) -> None:
    """Write all files of the report into the folder of the tuning."""
    write_atomically(out / "tuned.toml", toml.dumps(tuned_experiment(tuning)))
    write_atomically(out / "results.json", (json.dumps(as_data(tuning), indent=2) + "\n").encode())
    write_atomically(out / "table.csv", _csv(tuning).encode())
    write_atomically(out / "table.md", (blocks.markdown(outcome_table(tuning)) + "\n").encode())
    drawing.save(figure(tuning), out / "figures" / "tuned")
    write_atomically(out / "README.md", page(tuning, command).encode())


def tuned_experiment(tuning: Tuning) -> dict[str, Any]:
    """Return the experiment with the best values of every method (its own values if none are better), for TOML."""
    experiment = tuning.experiment
    keys = experiment.resolved(*experiment.algorithms)
    for one in tuning.methods:
        keys["set"][one.name] |= one.best or {}
    return {**keys, "title": f"{experiment.title or experiment.problem}, tuned"}


def outcome_table(tuning: Tuning) -> TableBlock:
    """Return the results of the best and the own values of each method on the fresh seeds."""
    metric, seeds = tuning.budget.metric, len(tuning.fresh_seeds)
    shown = [key for key in QUANTITIES if any(math.isfinite(one.own_ends.mean(key)) for one in tuning.methods)]
    columns = ["method", "tuned values"]
    columns += [f"{QUANTITIES[key][0]}, {which}" for key in shown for which in ("tuned", "own")]
    rows = []
    for one in tuning.methods:
        ends = [text for key in shown for text in (show(one.best_ends, key), show(one.own_ends, key))]
        rows.append([one.name, values(one.best), *ends, change(one, metric), f"{one.seeds_better(metric)} of {seeds}"])
    return TableBlock("What came out", [*columns, f"change of {metric}", "seeds better"], rows)


def values_table(tuning: Tuning, which: Literal["tuned", "own"]) -> TableBlock:
    """Return the values of each method, as on the command line."""
    rows = [[one.name, values(one.best if which == "tuned" else one.own)] for one in tuning.methods]
    return TableBlock("", ("method", f"{which} values"), rows)


def cost_table(tuning: Tuning) -> TableBlock:
    """Return the cost of the trials of each method."""
    rows = [[one.name, str(one.rejected), *_cost(one.cost)] for one in tuning.methods]
    rows.append(["all trials", str(sum(one.rejected for one in tuning.methods)), *_cost(tuning.searching)])
    rows.append(["fresh seeds", ABSENT, *_cost(tuning.measuring)])
    columns = ("method", "left out as unstable", "runs", "iterations", "gradients", "seconds")
    return TableBlock("What it cost", columns, rows)


def verdict(tuning: Tuning) -> str:
    """Return the number of methods that tuning improved, as a sentence."""
    which = "lower mean loss" if tuning.budget.metric == "loss" else "higher mean accuracy"
    return (
        f"Tuned values are better for {len(tuning.better)} of {len(tuning.methods)} methods: {which} over "
        f"{_seeds(tuning.fresh_seeds)}, which the search has not seen."
    )


def page(tuning: Tuning, command: str) -> str:
    """Return the report in Markdown."""
    experiment, budget = tuning.experiment, tuning.budget
    batch = experiment.batch_size
    samples = f"{batch} sample{'s' * (batch > 1)}" if batch else "its whole shard"
    rounds = ", then ".join(f"{r.trials} of {r.iterations:,}" for r in budget.rounds(experiment.iterations))
    how = (
        f"Made by `{command}`. Every method had the same {budget.trials} trial runs ({rounds} iterations) with "
        f"{_seeds(tuning.tuning_seeds)}, beginning at its own values, and was then run for {experiment.iterations:,} "
        "iterations with the best of the last round and with its own values. Settings that are unstable on the graph "
        "were left out without a run. Loss is f(x̄) at the end, accuracy that of x̄ on test data, each mean ± standard "
        f"deviation over {_seeds(tuning.fresh_seeds)}. A gradient is one agent's in one iteration, of {samples}; "
        "seconds are those of computing, summed over the runs."
    )
    machine = [f"- {key}: {value}" for key, value in environment().items() if key != "command"]
    parts = [f"# Tuned: {experiment.title or experiment.problem}", how, verdict(tuning)]
    parts += ["![Final loss and accuracy of every method, tuned and with its own values](figures/tuned.png)"]
    parts += [blocks.markdown(outcome_table(tuning)), "## What it cost", blocks.markdown(cost_table(tuning))]
    parts += ["## Own values", blocks.markdown(values_table(tuning, "own")), "## Environment", "\n".join(machine)]
    return "\n\n".join(parts) + "\n"


def as_data(tuning: Tuning) -> dict[str, Any]:
    """Return all numbers, for other programs."""
    methods = {
        one.name: {
            "tuned": {"values": one.best, **_plain(one.best_ends)},
            "own": {"values": one.own, **_plain(one.own_ends)},
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
    """Draw a line per method from the result of its own values to that of the tuned values, ± one deviation."""
    keys = [key for key in QUANTITIES if any(math.isfinite(one.own_ends.mean(key)) for one in tuning.methods)]
    size = (4.6 * max(1, len(keys)) + 1.2, 0.32 * len(tuning.methods) + 1.6)
    drawn = Figure(figsize=size, layout="constrained")
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
    looks = ((own, "own values", drawing.COLOURS[1], "s"), (tuned, "tuned", drawing.COLOURS[0], "o"))
    for (middles, spreads), label, colour, marker in looks:
        axes.errorbar(middles, heights, xerr=spreads, fmt=marker, color=colour, label=label, capsize=2, markersize=5)
    axes.set_yticks(list(heights), [drawing.readable(one.name) for one in tuning.methods])
    axes.set_xlabel("loss f(x̄) at the end" if key == "loss" else f"test {name}")
    axes.grid(axis="x", color="#e6e6e6")
    axes.spines[["top", "right"]].set_visible(False)
    if not axes.yaxis_inverted():
        axes.invert_yaxis()
    shown = [value for value in (*own[0], *tuned[0]) if value > 0]
    if key == "loss" and shown and max(shown) > WIDE * min(shown):
        axes.set_xscale("log")


def _points(ends: Sequence[Ends | None], key: str, scale: float) -> tuple[list[float], list[float]]:
    """Return means, NaN if there is none, and deviations."""
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
    """Return the change of the mean: in percent for the loss, in points for the accuracy."""
    if one.best_ends is None:
        return "every trial diverged" if one.trials else "no stable setting was found"
    if one.best == one.own:
        return "own values are the best found"
    own, tuned = one.own_ends.mean(metric), one.best_ends.mean(metric)
    if not (math.isfinite(own) and math.isfinite(tuned) and own):
        return ABSENT
    return f"{100 * (tuned - own):+.2f} points" if metric == "accuracy" else f"{100 * (tuned / own - 1):+.1f} %"


def values(options: Mapping[str, Any] | None) -> str:
    """Return values as on the command line."""
    return ABSENT if options is None else " ".join(f"{key}={value}" for key, value in options.items())


def _seeds(seeds: Any) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _cost(cost: Cost) -> list[str]:
    seconds = f"{cost.seconds:.1f}" if cost.seconds < 100 else f"{cost.seconds:,.0f}"
    return [str(cost.runs), f"{cost.iterations:,}", f"{cost.gradients:,}", seconds]


def _plain(ends: Ends | None) -> dict[str, Any]:
    if ends is None:
        return {"loss": None, "accuracy": None}
    return {
        key: [value if math.isfinite(value) else None for value in getattr(ends, key)] for key in ("loss", "accuracy")
    }


def _csv(tuning: Tuning) -> str:
    """Return one line per method, with full precision."""
    rows = []
    for one in tuning.methods:
        row: dict[str, Any] = {"method": one.name, "tuned": values(one.best), "own": values(one.own)}
        for which, ends in (("tuned", one.best_ends), ("own", one.own_ends)):
            for key in QUANTITIES:
                row[f"{key}_{which}"] = _cell(None if ends is None else ends.mean(key))
                row[f"{key}_{which}_deviation"] = _cell(None if ends is None else ends.deviation(key))
        seeds = one.seeds_better(tuning.budget.metric)
        row |= {"better": one.better(tuning.budget.metric), "seeds_better": seeds, "unstable": one.rejected}
        rows.append(row | vars(one.cost))
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _cell(value: float | None) -> float | str:
    return value if value is not None and math.isfinite(value) else ""
