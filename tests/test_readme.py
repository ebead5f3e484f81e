"""The README's first Python block runs and prints the numbers that the README shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
EXAMPLE = re.compile(r"```python\n(import .*?)```\n\n```text\n(.*?)```", re.DOTALL)
TWO_DIGITS = 0.01
"""The relative tolerance: rounding may differ between machines."""


def numbers(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


@pytest.mark.e2e
def test_the_example_prints_what_the_readme_shows() -> None:
    found = EXAMPLE.search(README.read_text(encoding="utf-8"))
    assert found
    code, shown = found.groups()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert len(printed) == len(shown.splitlines()) == 4
    for got, expected in zip(printed, shown.splitlines(), strict=True):
        assert got.split()[0] == expected.split()[0]
        assert numbers(got) == pytest.approx(numbers(expected), rel=TWO_DIGITS)


def test_the_corrected_methods_win() -> None:
    found = EXAMPLE.search(README.read_text(encoding="utf-8"))
    assert found
    loss = {line.split()[0]: numbers(line)[0] for line in found.group(2).splitlines()}
    assert max(loss["d2"], loss["d-sgt-2"]) < 0.5 * loss["d-sgd"]
