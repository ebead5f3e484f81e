"""The study of heavy-tailed and skewed noise, executed: what is measured already is read, the rest is run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from peerdescent.data.fetch import fetch
from peerdescent.reproduce import gradient_tails, heavy_tails, heavy_tails_report
from peerdescent.reproduce.gradient_tails import Tails
from peerdescent.reproduce.heavy_tails import Bias
from peerdescent.reproduce.measured import Measured
from peerdescent.tune.tuning import OnProgress, Trial


def run(seeds: int, budget: float, out: Path, jobs: int, console: Console, bar: Progress, command: str) -> Path:
    """Run what is not finished yet, with one line of progress per stage; return the report's path."""
    fetch("mnist", announce=lambda text: console.print(text, markup=False))
    known = Measured(out)
    with bar:
        found = _biases(known, budget, bar)
        results = [
            (setting, heavy_tails.run_setting(setting, out / "tuned", seeds, jobs, stages(bar, setting.name)))
            for setting in heavy_tails.settings(budget)
        ]
        tails = _tails(known, budget, bar)
    console.print(heavy_tails_report.bias_table(found).to_rich())
    for setting, outcomes in results:
        console.print(heavy_tails_report.tuned_table(setting, outcomes).to_rich(("tuned values",), setting.title))
    return heavy_tails_report.write_report(found, results, tails, out, command)


def _biases(known: Measured, budget: float, bar: Progress) -> list[Bias]:
    iterations = max(1, round(heavy_tails.ITERATIONS * budget))
    methods = heavy_tails.bias_methods()
    todo = [(noise, name) for noise in ("none", *heavy_tails.NOISES) for name in methods]
    task, found = bar.add_task("bias", total=len(todo), state=""), list[Bias]()
    for noise, name in todo:
        bar.update(task, state=f"{name}, {noise}")
        conditions = ("bias", noise, methods[name], heavy_tails.GRAPH, iterations, heavy_tails.COPIES)

        def measure(noise: str = noise, name: str = name) -> dict[str, Any]:
            return asdict(heavy_tails.bias_of(name, methods[name], noise, iterations))

        found.append(Bias(**known.get(conditions, measure)))
        bar.advance(task)
    return found


def _tails(known: Measured, budget: float, bar: Progress) -> list[Tails]:
    task, found = bar.add_task("gradients", total=len(gradient_tails.NETWORKS), state=""), list[Tails]()
    for network, minibatches in gradient_tails.NETWORKS.items():
        bar.update(task, state=network)
        conditions = ("tails", network, minibatches, gradient_tails.TRAINED[network], budget)

        def measure(network: str = network) -> list[dict[str, Any]]:
            return [asdict(one) for one in gradient_tails.measure(network, budget)]

        found += [Tails(**one) for one in known.get(conditions, measure)]
        bar.advance(task)
    return found


def stages(bar: Progress, setting: str) -> OnProgress:
    """For each stage of a tuning a line of its own in the progress display."""
    lock = threading.Lock()

    def stage_progress(stage: str, runs: Sequence[Trial]) -> Callable[[Trial, int], None]:
        total = sum(run.experiment.iterations for run in runs)
        task, done = bar.add_task(f"{setting}, {stage}", total=total, state=""), dict[str, int]()

        def report(run: Trial, k: int) -> None:
            with lock:
                done[run.place] = k
                bar.update(task, completed=sum(done.values()), state=run.experiment.algorithms[0])

        return report

    return stage_progress
