"""Compressed messages: how far each method ends from the solution, and what it sends."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from peerdescent._util.byte_units import human_bytes
from peerdescent._util.files import write_atomically
from peerdescent.algorithms import D2, DSGPA, DSGT1, Algorithm
from peerdescent.errors import DivergedError
from peerdescent.problems import Problem, Quadratic
from peerdescent.report.tables import Table
from peerdescent.training.train import train

AGENTS, DIMENSION, ITERATIONS = 10, 200, 6000
GRAPH = f"ring:{AGENTS}"
CASES: tuple[tuple[str, tuple[float | None, ...]], ...] = (
    ("none", (1.0, 0.3)),
    ("qsgd:4", (1.0, 0.3)),
    ("topk:0.1", (1.0, 0.3, None)),
    ("topk:0.01", (0.3, 0.1, None)),
)
"""Compressors and consensus steps; None is the default."""
TITLE = "Compressed messages"
NOTE = (
    f"Heterogeneous quadratics with {DIMENSION} variables, exact gradients, η = 0.05, DSGPA with α = 20 and β = 1. "
    "Each cell: the root mean square distance of the agents from the solution, relative to the solution, and what all "
    "agents have sent. D² is refused if messages are compressed: with sparse ones it diverges whatever c is."
)


@dataclass(frozen=True)
class Cell:
    """How a method ended: its relative error, None if it diverged or was not run, and the bytes sent."""

    text: str
    error: float | None = None


def methods() -> Mapping[str, Algorithm]:
    """The methods of the table by name."""
    eta, alpha, beta = 0.05, 20.0, 1.0
    return {
        "d-sgt-1": DSGT1(eta=eta),
        "DSGPA": DSGPA(eta=eta, alpha=alpha, beta=beta),
        "PB-exact 0.7": DSGPA(eta=eta, alpha=alpha, beta=beta, gamma=0.7, power_on="direction"),
        "D²": D2(eta=eta),
    }


def quadratics() -> tuple[Problem, torch.Tensor]:
    """f_i = Σ_j a_ij (x_j − c_ij)²/2 with other a and c for each agent, and the solution."""
    random = np.random.default_rng(0)
    a, c = random.uniform(0.5, 1.5, (AGENTS, DIMENSION)), random.standard_normal((AGENTS, DIMENSION))
    return Quadratic(A=a, c=c), torch.from_numpy((a * c).sum(axis=0) / a.sum(axis=0))


def cell(method: Algorithm, compress: str, c: float | None, iterations: int) -> Cell:
    """One run."""
    if compress != "none" and method.not_compressible:
        return Cell("refused")
    problem, solution = quadratics()
    start = torch.zeros(AGENTS, DIMENSION)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what diverges is in the table
            result = train(
                problem, GRAPH, method, x0=start, iterations=iterations, dtype="float64", batch_size=0,
                compress=compress, consensus_step=c, per_agent=False, progress=False,
            )  # fmt: skip
    except DivergedError:
        return Cell("diverges")
    error = float((result.x - solution).square().mean().sqrt() / solution.square().mean().sqrt())
    sent = human_bytes(result.metrics[-1]["bytes_sent"])
    return Cell("diverges" if error > 1e3 else f"{error:.0e}, {sent}", error)


def rows(iterations: int) -> Iterator[tuple[str, ...]]:
    """The rows of the table, as soon as each is there."""
    for compress, steps in CASES:
        for c in steps:
            cells = [cell(method, compress, c, iterations).text for method in methods().values()]
            yield (f"`{compress}`", "default" if c is None else f"{c:g}", *cells)


def table(found: list[tuple[str, ...]], iterations: int) -> Table:
    """All of it."""
    return Table(f"{TITLE}, {GRAPH}, {iterations:,} iterations", ("compress", "c", *methods()), found, NOTE)


def write_report(made: Table, out: Path, command: str) -> Path:
    """Write the table in all formats, and a page of Markdown; return the path of the page."""
    made.write(out / "tables" / "compression")
    page = f"# {TITLE}\n\nMade by `{command}`. {made.title}. {NOTE}\n\n{made.to_markdown()}\n"
    write_atomically(out / "README.md", page.encode())
    return out / "README.md"
