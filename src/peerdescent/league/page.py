"""The page of the league: who is first, ranks with their uncertainty, losses on every task, what was cut."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerdescent._util.numbers import finite_or_none
from peerdescent.league.standings import (
    CRITERIA,
    LEVEL,
    Results,
    Standing,
    centralized,
    refused,
    standing,
)
from peerdescent.league.tasks import BATCH, DATA, SETTINGS, League, Task
from peerdescent.report.formatting import ABSENT, human_bytes, human_seconds, with_spread
from peerdescent.report.page import Section
from peerdescent.report.tables import Table
from peerdescent.reproduce import writing

TITLE = "League: every method, tuned at an equal budget, on the same tasks"
EQUAL = {"iterations": "iterations", "bytes": "bytes", "seconds": "simulated seconds"}


@dataclass(frozen=True)
class Standings:
    """All that the page shows.

    Args:
        league: the settings.
        results: of all entries that are there.
        tasks: those that all methods have played.
    """

    league: League
    results: Results
    tasks: Sequence[Task]

    @property
    def names(self) -> list[str]:
        """Of the tasks."""
        return [str(task) for task in self.tasks]

    @property
    def references(self) -> list[str]:
        """Centralized methods."""
        return centralized(self.results)

    @property
    def unranked(self) -> list[str]:
        """Methods that cannot run on some task."""
        return [name for name in refused(self.results) if name not in self.references]

    @property
    def ranked(self) -> list[str]:
        """All other methods."""
        return [name for name in self.league.methods if name not in (*self.references, *self.unranked)]

    def by(self) -> list[Standing]:
        """The standings by each criterion."""
        return [standing(criterion, self.results, self.names, self.ranked) for criterion in CRITERIA]


def write_page(found: Standings, out: Path) -> Path:
    """Write all files below `out`; return the path of the page."""
    from peerdescent.league import figures

    standings = found.by()
    iterations, _, seconds = standings
    best = [found.ranked[i] for i in seconds.order[: figures.HIGHLIGHTED]]
    others = [name for name in found.ranked if name not in best]
    differences = figures.critical_differences(standings)
    curves = figures.seconds_figure(found.results, found.tasks, best, others, found.references)
    table, winners = ranks_table(found, standings), winners_table(standings)
    chapters = [
        writing.Chapter(
            Section("Standings", "\n\n".join(verdict(one) for one in standings), tables=[table],
                    pictures={DIFFERENCES: differences}),
            {"critical-differences": differences}, {"ranks": table},
        ),
        writing.Chapter(Section("Winners", WINNERS, tables=[winners]), {}, {"winners": winners}),
        writing.Chapter(
            Section("Loss against simulated seconds", _curves_text(found), pictures={"Mean over the seeds.": curves}),
            {"seconds": curves},
        ),
        _losses(found, iterations),
        writing.Chapter(Section("How it was made", " ".join(_how(found)), settings=_settings(found))),
    ]  # fmt: skip
    _all_losses(found).write(out / "tables" / "all-losses", ("csv",))
    _values(found).write(out / "tables" / "values", ("csv",))
    spent = sum(result.seconds for result in found.results.values())
    time = {"processor time": f"{spent / 60:,.0f} minutes for all entries, without what was interrupted"}
    return writing.write(out, TITLE, found.league.command, RULE, [], chapters, time)


RULE = (
    "On every task the methods are ranked by the training loss of the averaged model, the mean over the fresh seeds; "
    "a method that diverged shares the last places. No method is called first, and none a winner, where the seeds "
    "disagree."
)
DIFFERENCES = (
    "Mean ranks over the tasks, the best on the left; a bar joins methods that Nemenyi's test does not tell apart "
    f"({100 * LEVEL:g} % level)."
)
WINNERS = (
    "The method with the smallest loss on a task under every seed. Where the seeds disagree, or methods are equal, "
    "there is no winner, and the number of seeds is given for each method that had the smallest loss."
)


def verdict(one: Standing) -> str:
    """Who is first by a criterion, whether the seeds agree, and what the tests say."""
    equal, first, rank = EQUAL[one.criterion], one.methods[one.order[0]], one.mean_ranks[one.order[0]]
    if one.leader is None:
        firsts = [f"{_name(one, i)} under seed {s}" for s, i in enumerate(one.first_by_seed(), start=1)]
        text = (
            f"At equal {equal} no method is first, because the seeds disagree: {', '.join(firsts)}, and {first} by the "
            f"mean loss, with mean rank {rank:.1f}."
        )
    else:
        text = f"At equal {equal} {first} is first under every seed, with mean rank {rank:.1f}."
    alike = [one.methods[i] for i in one.not_told_apart if i != one.order[0]]
    test = f"Wilcoxon's test over {len(one.tasks)} task{'s' * (len(one.tasks) > 1)}, corrected after Holm,"
    if 2.0 ** (1 - len(one.tasks)) * (len(one.methods) - 1) > LEVEL:
        text += f" {test} cannot tell so many methods apart on so few tasks."
    elif alike:
        text += f" {test} does not tell {first} apart from {_listed(alike)}."
    else:
        text += f" {test} tells {first} from all others."
    if (all_alike := one.friedman) is not None:
        text += f" Friedman's test that all are alike: χ² = {all_alike.statistic:.1f}, p = {all_alike.p:.1g}."
    return text


def _name(one: Standing, method: int | None) -> str:
    return "several" if method is None else one.methods[method]


def _listed(names: Sequence[str], most: int = 8) -> str:
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def ranks_table(found: Standings, standings: Sequence[Standing]) -> Table:
    """Mean ranks by all criteria, with their range over the seeds; references and methods without a rank below."""
    rows, data = [], []
    for i in standings[0].order:
        name = found.ranked[i]
        cells = [_rank(one, i) for one in standings]
        wins = sum(standings[0].winner(t) == i for t in range(len(found.tasks)))
        lost = sum(found.results[task, name].diverged for task in found.names)
        rows.append((name, *cells, str(wins), str(lost)))
        row: dict[str, Any] = {"method": name}
        for one in standings:
            row[f"rank_{one.criterion}"] = float(one.mean_ranks[i])
            row[f"error_{one.criterion}"] = float(one.errors[i])
            row[f"lowest_{one.criterion}"] = float(one.by_seed[:, i].min())
            row[f"highest_{one.criterion}"] = float(one.by_seed[:, i].max())
            row[f"holm_p_{one.criterion}"] = float(one.against_first[i])
        data.append(row | {"wins": wins, "diverged": lost})
    bests = {(standings[0].order.index(one.leader), j) for j, one in enumerate(standings, 1) if one.leader is not None}
    note = (
        "Mean rank over the tasks ± its standard error; = marks a method that Holm's Wilcoxon test does not tell apart "
        "from the first one. In bold: first under every seed. Wins are at equal iterations. The CSV has the lowest and "
        "the highest mean rank of a single seed, and Holm's probabilities."
    )
    heads = ("method", *(f"equal {EQUAL[one.criterion]}" for one in standings), "wins", "tasks diverged")
    return Table("Mean ranks", heads, rows, note, bests, {key: [row[key] for row in data] for key in data[0]})


def _rank(one: Standing, i: int) -> str:
    same = " =" if i in one.not_told_apart and i != one.order[0] else ""
    return f"{one.mean_ranks[i]:.1f} ± {one.errors[i]:.1f}{same}"


def winners_table(standings: Sequence[Standing]) -> Table:
    """The winner of every task by every criterion."""
    rows = []
    for t, task in enumerate(standings[0].tasks):
        rows.append((task, *(_winner(one, t) for one in standings)))
    return Table("Winners by task", ("task", *(f"equal {EQUAL[one.criterion]}" for one in standings)), rows)


def _winner(one: Standing, task: int) -> str:
    if (winner := one.winner(task)) is not None:
        return one.methods[winner]
    firsts = one.winners(task)
    counted = (f"{one.methods[i]} {firsts.count(i)}" for i in sorted(set(firsts), key=lambda i: -firsts.count(i)))
    return f"none ({', '.join(counted)})" if firsts else "none (all diverged)"


def _losses(found: Standings, one: Standing) -> writing.Chapter:
    """Losses at equal iterations, a table per data set, methods in the order of their mean rank."""
    order = [found.ranked[i] for i in one.order] + found.references + found.unranked
    tables = {}
    for data in dict.fromkeys(task.data for task in found.tasks):
        tasks = [task for task in found.tasks if task.data == data]
        rows = [(name, *(_loss(found, task, name) for task in tasks)) for name in order]
        best = {(order.index(one.methods[w]), j) for j, task in enumerate(tasks, 1)
                if (w := one.winner(found.names.index(str(task)))) is not None}  # fmt: skip
        heads = ("method", *(f"{task.partition}, {task.graph}" for task in tasks))
        tables[f"losses-{data}"] = Table(f"{data}: {_problem(data)}", heads, rows, best=best)
    text = (
        f"After {found.league.iterations:,} iterations; mean ± standard deviation over the fresh seeds, in bold where "
        "a method has the smallest loss under every seed. `tables/all-losses.csv` has the loss of every seed by all "
        "three criteria, `tables/values.csv` the tuned values."
    )
    return writing.Chapter(Section("Losses at equal iterations", text, tables=list(tables.values())), {}, tables)


def _loss(found: Standings, task: Task, name: str) -> str:
    result = found.results[str(task), name]
    if result.refused:
        return "refused"
    if not result.curves:
        return "no stable setting" if not result.trials else "every trial diverged"
    if result.diverged:
        return f"diverged in {sum(curve.diverged for curve in result.curves)} of {len(result.curves)}"
    return with_spread(result.losses("iterations", len(result.curves)))


def _problem(data: str) -> str:
    made = DATA[data]
    options = made["set"]["problem"]
    hidden = f" with {options['hidden']} hidden units" if "hidden" in options else ""
    return f"`{made['problem']}`{hidden}"


def _curves_text(found: Standings) -> str:
    ends = found.results[found.names[0], found.ranked[0]].budgets or {}
    return (
        f"Network `{found.league.network}`. A panel ends where one message per edge that travels during the gradient "
        f"has taken {found.league.iterations:,} iterations: {human_seconds(ends.get('seconds', math.nan))} s and "
        f"{human_bytes(ends.get('bytes', 0))} on {found.names[0]}. Runs that diverged are not drawn."
    )


def _how(found: Standings) -> Iterator[str]:
    """What was done, what methods needed, and what was cut, in sentences."""
    league = found.league
    rounds = ", then ".join(f"{r.trials} of {r.iterations:,}" for r in league.budget.rounds(league.iterations))
    yield (
        f"Every method has the same {league.trials} trial runs on every task ({rounds} iterations; seed 0), starting "
        "from its own values and inside its stable region where theory knows it, and then runs for "
        f"{league.iterations:,} iterations with seeds 1 to {league.seeds}, which the search did not use."
    )
    yield (
        "Equal bytes and equal simulated seconds are what one message per edge that travels during the gradient, as "
        "that of D-SGD, sends and takes in these iterations; a method that needs more is judged earlier, by "
        "interpolation, and one that needs less goes on for up to four times the iterations. Values are tuned for "
        "equal iterations."
    )
    yield from _about_methods(found)
    missing = len(league.tasks) - len(found.tasks)
    if missing:
        yield f"{missing} of {len(league.tasks)} tasks are not finished and are left out."
    yield (
        f"Cut for time: {league.iterations:,} iterations of {BATCH} samples per agent, {league.trials} trials with one "
        f"seed, {league.seeds} fresh seeds, small networks{_sampled(league)}. So few trials tune a method with one "
        "step size better than one with five values, and longer runs or larger networks may rank otherwise. The tasks "
        "share data sets: they are not independent, as the tests assume."
    )


def _sampled(league: League) -> str:
    """Which losses are those of some of the samples."""
    parts = {data: DATA[data]["set"]["problem"].get("evaluated") for data in league.data}
    return "".join(f", the loss on {count:,} samples of {data}" for data, count in parts.items() if count)


def _about_methods(found: Standings) -> Iterator[str]:
    yield from _own_settings(found.league)
    if found.references:
        yield f"Centralized, and therefore a reference that is not ranked: {', '.join(found.references)}."
    for name in found.unranked:
        reasons = {r.refused: task for (task, method), r in found.results.items() if method == name and r.refused}
        for reason, task in reasons.items():
            yield f"{name} is not ranked, because it cannot run on {task}: {reason}"
    every = [found.results[task, name] for task in found.names for name in found.ranked]
    by_note: dict[tuple[str, str], list[str]] = {}
    for result in every:
        for note in result.notes:
            by_note.setdefault((result.method, note), []).append(result.task.rpartition(", ")[2])
    for (name, note), graphs in by_note.items():
        yield f"{name} on {', '.join(dict.fromkeys(graphs))}: {note}"
    two = list(dict.fromkeys(result.method for result in every if result.gradients > 1))
    if two:
        yield f"Two gradients per iteration, which the clock counts and equal iterations do not: {', '.join(two)}."
    for criterion in ("bytes", "seconds"):
        short = dict.fromkeys(
            result.method
            for result in every
            if result.curves and result.budgets and not result.diverged
            and not all(curve.uses_up(criterion, result.budgets[criterion]) for curve in result.curves)
        )  # fmt: skip
        if short:
            yield f"Judged at the end, before the {EQUAL[criterion]} were used up: {', '.join(short)}."
    lost = [f"{result.method} on {result.task}" for result in every if result.diverged]
    if lost:
        yield f"Diverged, and therefore last: {'; '.join(lost)}."


def _own_settings(league: League) -> Iterator[str]:
    """The settings of methods that are made for them."""
    texts = {name: [f"{key} = {value}" for key, value in SETTINGS.get(name, {}).items()] for name in league.methods}
    for text in dict.fromkeys(text for each in texts.values() for text in each):
        names = [name for name, each in texts.items() if text in each]
        yield f"With {text}, which they are made for: {', '.join(names)}."


def _settings(found: Standings) -> dict[str, str]:
    league = found.league
    chosen = (league.data, league.partitions, league.graphs)
    rejected = sum(result.rejected for result in found.results.values())
    trials = sum(result.trials for result in found.results.values())
    return {
        "methods": f"{len(found.ranked)} ranked, {len(found.references)} for reference",
        "tasks": f"{len(found.tasks)}: {' × '.join(map(', '.join, chosen))}",
        "trials": f"{trials:,} runs; {rejected:,} settings were rejected as unstable without a run",
        "network": f"{league.network}: {league.model.title}",
    }


def _all_losses(found: Standings) -> Table:
    """Every loss at full precision."""
    rows: list[Mapping[str, Any]] = []
    for (task, method), result in found.results.items():
        for s, curve in enumerate(result.curves):
            losses = {f"loss_{c}": finite_or_none(result.losses(c, len(result.curves))[s]) for c in CRITERIA}
            rows.append({"task": task, "method": method, "seed": curve.seed, **losses, "accuracy": curve.accuracy})
    columns = ("task", "method", "seed", *(f"loss_{c}" for c in CRITERIA), "accuracy")
    return Table("", columns, [], data={key: [row[key] for row in rows] for key in columns})


def _values(found: Standings) -> Table:
    """The tuned values of every method on every task."""
    columns = ("task", "method", "values", "trials", "rejected")
    rows = [
        (r.task, r.method, ABSENT if r.values is None else " ".join(f"{k}={v}" for k, v in r.values.items()),
         str(r.trials), str(r.rejected))
        for r in found.results.values() if not r.refused
    ]  # fmt: skip
    return Table("", columns, rows)
