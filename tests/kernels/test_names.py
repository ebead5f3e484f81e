"""Names that a method's author may choose for arrays and numbers, C keywords included."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

NAMES = ("u", "g", "sent", "point", "t0", "t1", "t5", "c", "mean", "n", "double", "i", "c0", "columns")
SCRIPT = """
    import sys
    from dataclasses import dataclass
    from peerdescent.algorithms import Algorithm
    from peerdescent.testing import check_algorithm

    @dataclass(frozen=True)
    class Remembers(Algorithm):
        name: str = ""

        def memory(self):
            return {self.name: "zero"}

        def hyperparameters(self, k):
            return {"eta": 0.1, "other": 0.3}

        def step(self, s, net, h):
            old = getattr(s, self.name)
            mixed = net.mix(s.x - 0.25 * old)
            gradient = yield s.x + 0.1 * old
            return {"x": mixed - h.eta * gradient - 0.1 * h.other * old, self.name: 0.5 * old + gradient}

    @dataclass(frozen=True)
    class Named(Algorithm):
        name: str = ""

        def hyperparameters(self, k):
            return {self.name: 0.1 / (k + 1), "other": 0.3}

        def step(self, s, net, h):
            gradient = yield s.x
            return {"x": s.x - h.other * net.laplacian(s.x) - getattr(h, self.name) * gradient}

    for name in sys.argv[1:]:
        for kind in (Remembers, Named):
            try:
                check_algorithm(kind(name=name), graphs=("path:3",), iterations=4)
                print(kind.__name__, name, flush=True)
            except AssertionError as error:
                print(error, file=sys.stderr)
"""


@pytest.mark.e2e
def test_arrays_and_numbers_may_have_any_name() -> None:
    # In a separate process: a kernel with wrong pointers crashes its process.
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expected = [f"{kind} {name}" for name in NAMES for kind in ("Remembers", "Named")]
    assert done.stdout.splitlines() == expected, done.stderr
    assert done.returncode == 0
