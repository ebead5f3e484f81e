"""Experiment files: valid ones with keys dropped, types changed, bytes flipped, nested, or of absurd size."""

from __future__ import annotations

import random
from typing import Any

import tomli_w
from tests.support.fuzz.cases import Case, Place
from tests.support.fuzz.commands import METHODS, PLAUSIBLE
from tests.support.fuzz.values import damaged, data, mutated, varied

VALID: tuple[dict[str, Any], ...] = (
    {"algorithm": "d-sgd-1", "problem": "quadratic", "graph": "ring:4", "iterations": 8, "seed": 3},
    {
        "algorithms": ["d-sgd-1", "d2"],
        "problem": "quadratic",
        "graph": "er:6:0.5:seed=1",
        "iterations": 8,
        "batch_size": 4,
        "title": "Two methods",
        "per_agent": False,
        "dtype": "float64",
        "set": {"eta": 0.05, "d2": {"eta": 0.1}, "problem": {"dimension": 5, "noise": 1.0}},
    },
    {
        "algorithms": ["dsgpa-f-pb"],
        "problem": "quadratic",
        "graph": "star:5",
        "iterations": 8,
        "laplacian": "unit",
        "eval_every": 2,
        "communication_period": 2,
        "message_dtype": "bf16",
        "kernel": "plain",
        "threads": 1,
        "set": {"eta": "cosine:0.1:20", "gamma": 0.7},
    },
)
UNFIT = ("iterations",)
"""Keys whose values the commands below replace by flags, so that every case stays small."""
LARGE = (
    "[" * 3000,
    "a = " + "[" * 3000 + "]" * 3000,
    "a = " + "{a=" * 2000 + "1" + "}" * 2000,
    "a" + ".a" * 50_000 + " = 1",
    "[" + "a." * 20_000 + "a]",
    "x" * 200_000 + " = 1",
    'title = "' + "x" * 1_000_000 + '"',
    "seed = " + "9" * 5000,
    "seed = 0x" + "f" * 5000,
    "seed = 1e" + "9" * 500,
    "set = {" + ", ".join(f"a{i} = 1" for i in range(20_000)) + "}",
    "algorithms = [" + '"d2",' * 50_000 + "]",
    "load = ['x.py']",
    "seed = 2020-01-01T00:00:00Z",
    "seed = 12:00:00",
    "seed = 1\nseed = 2",
    "[set]\n[set]",
    "set.eta = 1\nset.eta.x = 2",
    "'' = 1",
    '"a\\u0000b" = 1',
    "made_in_python = 5",
    "made_in_python = ['problem']",
    "x0 = 1",
)


def make(r: random.Random) -> Case:
    """A command that reads a damaged experiment file."""
    content = _content(r)
    name = r.choice(("experiment.toml",) * 8 + ("mine.toml", "experiment", "é.toml"))

    def write(place: Place) -> None:
        (place.here / name).write_bytes(content)

    small = ("--problem", "quadratic", "--iterations", "3", "--graph", "ring:4", "--kernel", "plain", "--out", "out")
    some = small if r.random() < 0.6 else ("--iterations", "3", "--kernel", "plain", "--out", "out")
    command = r.choice((
        *((("run", name, *some),) * 4),
        *((("explain", name),) * 4),
        ("compare", name, *small),
        ("init", "new.toml", "--from", name),
        ("tune", name, *small, "--trials", "2", "--seeds", "1", "--jobs", "1"),
    ))  # fmt: skip
    shown = content[:200].decode("utf-8", "replace")
    return Case("toml", command, prepare=write, remark=f"{name} ({len(content)} bytes) holds {shown!r}")


def _content(r: random.Random) -> bytes:
    keys = _copy(r.choice(VALID))
    kind = r.random()
    if kind < 0.12:
        return f"{r.choice(LARGE)}\n{tomli_w.dumps(keys) if r.random() < 0.5 else ''}".encode()
    for _ in range(r.choice((0, 1, 1, 2))):
        _edit(r, keys)
    content = tomli_w.dumps(keys).encode("utf-8", "surrogatepass")
    if kind < 0.4:
        return damaged(r, content)
    if kind < 0.5:
        lines = content.decode("utf-8", "replace").split("\n")
        at = r.randrange(len(lines))
        lines[at] = mutated(r, lines[at])
        return "\n".join(lines).encode("utf-8", "surrogateescape")
    if kind < 0.55:
        return content.decode("utf-8", "replace").encode(
            r.choice(("utf-16", "utf-8-sig", "utf-32", "utf-7")), "replace"
        )
    return content


def _copy(keys: dict[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in keys.items()}


def _edit(r: random.Random, keys: dict[str, Any]) -> None:
    """Drop, rename or replace a key, here or in a table."""
    tables = [value for value in keys.values() if isinstance(value, dict)]
    if tables and r.random() < 0.4:
        return _edit(r, r.choice(tables))
    if not keys:
        return None
    key, kind = r.choice(list(keys)), r.random()
    if kind < 0.2:
        del keys[key]
    elif kind < 0.3:
        keys[mutated(r, key).encode("utf-8", "replace").decode()] = keys.pop(key)
    elif kind < 0.6:
        keys[key] = _storable(data(r))
    elif kind < 0.9 and (known := PLAUSIBLE.get(key)):
        keys[key] = _storable(varied(r, known))
    else:
        added = r.choice(
            ("set", "threads", "device", "x", "out", "name", "powerball", "load", "algorithm", "gradients")
        )
        keys[added] = _storable(r.choice((data(r), r.choice(METHODS))))
    return None


def _storable(value: Any) -> Any:
    """The value without what TOML cannot hold."""
    if isinstance(value, dict):
        return {key: _storable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_storable(one) for one in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return "null" if value is None else value
