"""The league executed: what is not played yet side by side, then the page."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from peerdescent import problems
from peerdescent._util import extras, toml
from peerdescent._util.files import read_text, write_atomically
from peerdescent.data.datasets import find
from peerdescent.data.fetch import fetch
from peerdescent.errors import InputError
from peerdescent.experiments import pool
from peerdescent.experiments.schema import PROBLEM
from peerdescent.league import playing
from peerdescent.league.page import Standings, ranks_table, verdict, write_page
from peerdescent.league.standings import Result, complete_tasks
from peerdescent.league.tasks import DATA, Entry, League
from peerdescent.runs.contents import prepare_folder
from peerdescent.runs.folder import write_environment

SETTINGS = "league.toml"


def execute(league: League, out: Path, jobs: int, console: Console, so_far: bool = False) -> Path:
    """Play what is not played yet, and write the page; returns its path.

    Args:
        league: who plays on what.
        out: the folder for all files; what is finished there is not run again.
        jobs: entries side by side.
        console: where progress is shown.
        so_far: run nothing, and make the page from the tasks that are finished.
    """
    extras.require("matplotlib", "figures")  # now, not after hours of runs
    entries = league.entries
    if not so_far:
        _fetch(league, console)
        todo = [entry for entry in entries if not playing.played(entry, out)]
        for entry in {entry.task: entry for entry in todo}.values():
            playing.problem_of(entry.task)  # wrong input is found before anything is written
        with prepare_folder(out, resume=True, overwrite=False):
            _describe(league, out)
            _play(todo, len(entries), out, jobs, console)
    found = collect(league, entries, out)
    path = write_page(found, out)
    standings = found.by()
    console.print(ranks_table(found, standings).to_rich(("wins", "tasks diverged")))
    for one in standings:
        console.print(verdict(one), markup=False)
    return path


def collect(league: League, entries: Sequence[Entry], out: Path) -> Standings:
    """The results that are there, on the tasks that all methods have played."""
    results = {
        (str(entry.task), entry.method): Result.of(str(entry.task), entry.method, playing.read(entry, out))
        for entry in entries
        if playing.played(entry, out)
    }
    complete = complete_tasks(results, [str(task) for task in league.tasks], league.methods)
    tasks = [task for task in league.tasks if str(task) in complete]
    if not tasks:
        raise InputError(f"{out} has no task that all methods have finished: run the same command without --so-far.")
    found = Standings(league, {key: result for key, result in results.items() if key[0] in complete}, tasks)
    if len(found.ranked) < 2:
        raise InputError("fewer than two of the methods can be ranked here: name more, or other graphs.")
    return found


def _fetch(league: League, console: Console) -> None:
    """Fetch the data once, before workers want them."""
    for data in league.data:
        made = DATA[data]
        name = problems.dataset(made["problem"], **made["set"][PROBLEM])
        if name is not None and not find(name).bundled:
            fetch(name, announce=lambda text: console.print(text, markup=False))


def _describe(league: League, out: Path) -> None:
    """Write the settings that all entries share, or compare them with those in the folder."""
    path = out / SETTINGS
    keys = {"iterations": league.iterations, "trials": league.trials, "network": league.model.as_keys()}
    if path.is_file():
        known = toml.loads(read_text(path, "settings"), str(path))
        other = [key for key, value in keys.items() if known.get(key) != value]
        if other:
            raise InputError(
                f"{out} contains a league with other settings ({', '.join(other)}): give the same ones, or choose "
                "another --out."
            )
        return
    write_environment(out)
    write_atomically(path, toml.dumps(keys))


def _play(todo: Sequence[Entry], total: int, out: Path, jobs: int, console: Console) -> None:
    """Show one bar for all entries; where there is no terminal, one line for each that has ended."""
    columns = (TextColumn("league"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[state]}"))
    silent = console.quiet or not console.is_terminal
    lock, reached = threading.Lock(), dict[tuple[str, str], int]()
    finished = total - len(todo)
    with Progress(*columns, TimeRemainingColumn(compact=True), console=console, disable=silent) as bar:
        line = bar.add_task("league", total=sum(entry.planned for entry in todo) or None, state="")

        def report(entry: Entry, k: int) -> None:
            nonlocal finished
            with lock:
                reached[str(entry.task), entry.method] = min(k, entry.planned)
                state = f"{entry.method} on {entry.task}"
                bar.update(line, completed=sum(reached.values()), state=state)
                if k >= entry.planned and playing.played(entry, out):
                    finished += 1
                    if not console.is_terminal:
                        console.print(f"{finished} of {total}: {state}", markup=False, soft_wrap=True)

        pool.execute(todo, out, jobs, report, playing.play, playing.played)
