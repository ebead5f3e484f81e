"""A league of few methods: killed at random moments it ends with the same tables, and others may join later."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.commands import Command

KILLS = 4
GRAPHS = ("--graph", "ring:4", "--graph", "onepeer-exp:4")
SMALL = ("--data", "digits", *GRAPHS, "--iterations", "64", "--trials", "3", "--seeds", "2")
MINE = """
from dataclasses import dataclass
from peerdescent.algorithms import DSGD1, register

@dataclass(frozen=True)
class Mine(DSGD1):
    pass

register("mine", Mine, "a method of the user's own", eta={eta})
"""


def tables(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "tables").iterdir())}


def start(out: Path, *flags: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "peerdescent", "league", *SMALL, *flags, "--quiet", "--out", str(out)]
    variables = {**os.environ, "PEERDESCENT_CHECKPOINT_SECONDS": "0.1"}
    return subprocess.Popen(command, env=variables, start_new_session=True)


@pytest.mark.e2e
def test_kills_leave_the_same_tables_and_jobs_do_not_matter(tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    methods = ("-a", "d-sgd-1,gt-hsgd,dsgpa-f-pb")
    begin = time.monotonic()
    assert start(undisturbed, *methods, "--jobs", "1").wait() == 0
    whole = time.monotonic() - begin
    moments = random.Random(5)
    for _ in range(KILLS):
        process = start(killed, *methods, "--jobs", "2")
        time.sleep(moments.uniform(0.3, 0.7) * whole)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)  # its workers must die with it
        process.wait()
    assert start(killed, *methods, "--jobs", "2").wait() == 0
    assert tables(killed) == tables(undisturbed)
    figures = [folder / "figures" / "seconds.png" for folder in (killed, undisturbed)]
    assert figures[0].read_bytes() == figures[1].read_bytes()
    rows = list(csv.DictReader((killed / "tables" / "all-losses.csv").open()))
    assert len(rows) == 4 * 3 * 2  # tasks × methods × seeds


@pytest.mark.e2e
def test_other_methods_join_and_nothing_runs_twice(peerdescent_: Command, here: Path) -> None:
    common = ("league", *SMALL, "--partition", "iid", "--jobs", "1", "--quiet", "--out", "out")
    assert peerdescent_(*common, "-a", "d2,c-sgd,nids").code == 0
    before = {path: path.stat().st_mtime_ns for path in here.glob("out/runs/**/metrics.jsonl")}
    page = (here / "out" / "README.md").read_text()
    assert "a reference that is not ranked: c-sgd" in page
    assert "mixes with (I+W)/2" in page
    (here / "mine.py").write_text(MINE.format(eta=0.3))
    assert peerdescent_(*common, "-a", "d2,c-sgd,nids,mine", "--load", "mine.py").code == 0
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert "| mine |" in (here / "out" / "README.md").read_text()
    (here / "mine.py").write_text(MINE.format(eta=0.4))
    assert peerdescent_(*common, "-a", "d2,c-sgd,nids,mine", "--load", "mine.py").code == 0
    assert len(list(here.glob("out/runs/*/mine-*"))) == 2 * 2  # tasks × versions
    said = peerdescent_(*common, "-a", "d2,nids", "--trials", "4")
    assert said.code == 2
    assert "other settings (trials)" in said.err
    assert len(said.sentences) == 1


@pytest.mark.e2e
def test_a_method_without_a_stable_setting_is_last_and_one_that_cannot_run_is_not_ranked(
    peerdescent_: Command, here: Path
) -> None:
    (here / "wild.py").write_text(
        "from dataclasses import dataclass\n"
        "from peerdescent.algorithms import DSGD1, register\n"
        "@dataclass(frozen=True)\n"
        "class Wild(DSGD1):\n"
        "    def step(self, s, net, h):\n"
        "        Wx = net.mix(s.x)\n"
        "        g = yield s.x\n"
        "        return {'x': 5.0 * Wx - h.eta * g}\n"
        "register('wild', Wild, 'grows')\n"
    )
    flags = ("--data", "digits", "--partition", "iid", "--iterations", "64", "--trials", "2", "--seeds", "2")
    common = ("league", *flags, "--jobs", "1", "--quiet")
    said = peerdescent_(*common, "--graph", "ring:4", "-a", "d2,nids,wild", "--load", "wild.py", "--out", "a")
    assert said.code == 0, said.err
    rows = {row["method"]: row for row in csv.DictReader((here / "a" / "tables" / "ranks.csv").open())}
    assert float(rows["wild"]["rank_iterations"]) == 3
    assert rows["wild"]["diverged"] == "1"
    directed = ("--graph", "ring:4", "--graph", "directed-ring:4", "-a", "d2,sgp,push-diging")
    said = peerdescent_(*common, *directed, "--out", "b")
    assert said.code == 0, said.err
    page = (here / "b" / "README.md").read_text()
    assert "d2 is not ranked, because it cannot run on digits, iid, directed-ring:4:" in page
    records = [json.loads(path.read_text()) for path in here.glob("b/runs/*/d2/entry.json")]
    assert sorted(bool(record["refused"]) for record in records) == [False, True]
