"""What a run needs to know before it starts, and how it is written down."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from peerdescent import algorithms
from peerdescent._version import __version__
from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.graphs import Graph
from peerdescent.problems import Problem
from peerdescent.runs.folder import read_experiment
from peerdescent.training.settings import GRADIENTS, Settings


def describe(problem: Problem, graph: Graph, algorithm: Algorithm, settings: Settings) -> dict[str, Any]:
    """A run made in Python, written down as an experiment."""
    chosen = {name: value for name, value in vars(settings).items() if value is not None}
    method = {"class": type(algorithm).__name__, **algorithm.parameters(), "transform": str(algorithm.transform)}
    edges = {"edges": [list(edge) for edge in graph.edges], "weights": list(graph.weights or ())}
    return {"problem": problem.name, "graph": graph.spec or edges, "algorithm": method, **chosen}


def facts(problem: Problem, graph: Graph, algorithm: Algorithm, settings: Settings, start: str) -> dict[str, str]:
    """What all processes of a run must have in common, by name."""
    free = ("threads", "gradients")
    method = {"class": type(algorithm).__name__, **algorithm.parameters(), "transform": str(algorithm.transform)}
    edges = hashlib.sha256(repr((graph.n, graph.edges, graph.weights)).encode()).hexdigest()[:12]
    return {
        "version": __version__,
        "problem": f"{problem.name} of dimension {problem.dimension}",
        "graph": f"{graph.spec or 'graph'} {edges}",
        "method": json.dumps(method),
        **{name: str(value) for name, value in vars(settings).items() if name not in free},
        "starting points": start[:12],
    }


def as_before(settings: Settings, out: Path) -> Settings:
    """The choice between equal ways that the run in `out` made by measuring, for the same bits after a resume."""
    before = str(read_experiment(out).get("gradients", "auto")) if (out / "experiment.toml").is_file() else "auto"
    return replace(settings, gradients=before) if settings.gradients == "auto" and before in GRADIENTS else settings


def digest(experiment: dict[str, Any], start: str) -> str:
    """Equal for experiments whose runs can continue each other: same description, same starting points."""
    free = ("iterations", "eval_every", "out", "name", "title", "gradients")
    fixed = {**{key: value for key, value in experiment.items() if key not in free}, "start": start}
    return hashlib.sha256(json.dumps(fixed, sort_keys=True, default=str).encode()).hexdigest()


def fits(saved: dict[str, torch.Tensor], names: Collection[str], shape: tuple[int, int]) -> bool:
    """Whether a saved state has these arrays: problems made in Python share names."""
    return set(saved) == set(names) and all(array.shape == shape for array in saved.values())


def make_settings(given: dict[str, Any]) -> Settings:
    """Settings from keyword arguments; an unknown one is refused."""
    known = Settings.__dataclass_fields__
    for name in given:
        if name not in known:
            raise InputError(f"train has no argument {name!r}: it has {', '.join(known)}.")
    return Settings(**given)


def make_algorithm(algorithm: Algorithm | str) -> Algorithm:
    """A method, perhaps by its name."""
    return algorithms.make(algorithm) if isinstance(algorithm, str) else algorithm


def start_points(x0: torch.Tensor, problem: Problem) -> torch.Tensor:
    """The agents' starting points from one row or n of them."""
    shape = (problem.agents, problem.dimension)
    try:
        return torch.as_tensor(x0).detach().to(problem.device, problem.dtype).expand(shape).contiguous()
    except RuntimeError:
        raise InputError(f"x0 has shape {tuple(x0.shape)}: expected {shape} or one row of it.") from None


@contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Torch's thread count, set for the run and put back."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
