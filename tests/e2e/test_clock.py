"""The clock as users meet it: a sweep, the example, and the benchmark that compares it with real runs on four hosts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.commands import PATIENCE, Command

from peerdescent.report.runs import read

ROOT = Path(__file__).parents[2]
SMALL = ["--problem", "quadratic", "--graph", "ring:4", "--iterations", "20"]
pytestmark = pytest.mark.e2e


def script(name: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / name), *words],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_sweep_has_a_clock_for_every_seed(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("run", *SMALL, "-a", "d2", "--seeds", "2", "--jobs", "1", "--out", "a").code == 0
    done = peerdescent_("clock", "a", "--network", "home", "--json")
    assert [row["method"] for row in json.loads(done.out)["runs"]] == ["d2 · seed 0", "d2 · seed 1"]
    one, other = (read(here / "a" / "d2" / f"seed-{s}").metrics[-1]["simulated_seconds"] for s in (0, 1))
    assert one != other  # computing times are drawn by the seed
    assert "simulated seconds" in (here / "a" / "table.md").read_text()


def test_the_example_draws_three_methods_against_simulated_seconds(tmp_path: Path) -> None:
    out = script("examples/simulated_seconds.py", "--quick", "--out", str(tmp_path / "a"))
    assert (tmp_path / "a" / "seconds.png").read_bytes().startswith(b"\x89PNG")
    assert "simulated_seconds" in (tmp_path / "a" / "report.html").read_text()
    runs = {name: read(tmp_path / "a" / name).metrics for name in ("dsgpa", "gossip", "all_reduce")}
    paces = {name: metrics[-1]["simulated_seconds"] / metrics[-1]["iteration"] for name, metrics in runs.items()}
    assert paces["gossip"] < paces["dsgpa"] < paces["all_reduce"]
    assert runs["dsgpa"][-1]["bytes_sent"] == 8 * 64 * 4 * 500_197
    assert "| dsgpa-f ·" in out


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.skipif(shutil.which("ip") is None or shutil.which("tc") is None, reason="needs ip and tc (iproute2)")
def test_the_benchmark_compares_predicted_and_measured_seconds(tmp_path: Path) -> None:
    words = ["--mbit", "100", "--dimension", "50000", "--iterations", "8", "--methods", "d-sgd-1"]
    out = script("benchmarks/clock.py", *words, "--out", str(tmp_path / "clock.md"))
    if out.startswith("skipped"):
        pytest.skip(out)
    (row,) = re.findall(r"^\| d-sgd-1 .*", (tmp_path / "clock.md").read_text(), flags=re.MULTILINE)
    _, mbit, compute, predicted, measured, ratio = [cell.strip() for cell in row.strip("|").split("|")]
    assert mbit == "100"
    assert float(predicted) == pytest.approx(2 * 8 * 200_000 / (100e6 * 1448 / 1514) + 1e-4, abs=1e-3)
    assert float(measured) > 0
    assert float(compute) >= 0
    assert float(ratio) > 0
