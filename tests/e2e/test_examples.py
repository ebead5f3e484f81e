"""The examples that start processes run as their first lines say, with few steps."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import PATIENCE

from peerdescent.data import fashion_mnist, sotu
from peerdescent.errors import InputError

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]


def example(name: str, data: Callable[[], object], folder: Path) -> tuple[str, dict[str, Any]]:
    """What a quick run of an example prints and writes; its data must be in reach."""
    try:
        data()
    except InputError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), "--quick", "--out", str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    return done.stdout, json.loads((folder / "results.json").read_text())


def test_speeches(tmp_path: Path) -> None:
    out, curves = example("speeches.py", sotu, tmp_path)
    gossip, ddp, isolated = (curves[method] for method in ("gossip every 4 steps", "DDP", "isolated"))
    assert "averaged model" in out
    for curve in curves.values():
        assert curve["averaged"][0] == gossip["averaged"][0]  # all start from the same parameters
        assert curve["averaged"][0] == pytest.approx(math.log(95), abs=0.5)  # and know nothing
        assert curve["averaged"][-1] < curve["averaged"][0] - 0.5
    assert len(set(ddp["own"][-1])) == 1
    assert len(set(isolated["own"][-1])) == 4

    block = 4 * 64 + (64 * 192 + 192) + (64 * 64 + 64) + (64 * 256 + 256) + (256 * 64 + 64)
    p = 95 * 64 + 16 * 64 + 2 * block + 2 * 64 + (64 * 95 + 95)
    assert ddp["megabytes"][-1] == pytest.approx(12 * 4 * p * 2 * 3 / 4 / 1e6)  # 12 all_reduces around a ring of four
    assert gossip["megabytes"][-1] == pytest.approx(3 * 4 * p * 2 / 1e6)  # 3 exchanges with two neighbours
    assert isolated["megabytes"][-1] == 0


def test_fashion_in_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    out, found = example("fashion_lightning.py", fashion_mnist, tmp_path)
    assert "averaged model" in out
    together, alone = found["decentralized"], found["isolated"]
    assert len(together["averaged"]) == len(together["own"]) == len(alone["own"]) == 2  # epochs
    assert sum(map(sum, found["counts"])) == 60_000
    p = (25 * 16 + 16) + 2 * 16 + (9 * 16 * 32 + 32) + 2 * 32 + (800 * 10 + 10)
    # six steps and the messages of the seventh, one vector to each of two neighbours
    assert together["megabytes"] == pytest.approx(7 * 2 * 4 * p / 1e6)
    assert len(set(alone["own"][-1])) > 1
