"""Checkpoint files: plain safetensors and a JSON manifest, each with a checksum of itself. Nothing is unpickled.

The checksum is the SHA-256 of the whole file in which the checksum itself reads as 64 zeros. So it travels with the
file, the file stays one that anyone can read, and any change of it is noticed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from peerdescent._util.files import read_file
from peerdescent.algorithms.state import State
from peerdescent.runs.contents import MANIFEST, PART_NAME

_KEY = "peerdescent"
_BLANK = "0" * 64
_CHECKSUM = re.compile(rb'checksum[\\": ]+([0-9a-f]{64})\b')


class DamagedError(Exception):
    """A file is not as it was written, or not a checkpoint; the message says in what way."""


@dataclass
class Checkpoint:
    """The whole state of a run after some iterations, and what it had counted until then."""

    state: State
    iteration: int
    seconds: float
    digest: str
    """Tells whether a checkpoint belongs to the experiment that wants to go on."""
    lost: tuple[int, ...] = ()
    """The agents that the state has no rows of, since they were lost."""
    evaluations: int = 0
    """How many rows of metrics there were."""
    rows: str = ""
    """The digest of those rows."""

    def counts(self) -> dict[str, Any]:
        """All but the state."""
        return {
            "iteration": self.iteration,
            "seconds": self.seconds,
            "digest": self.digest,
            "lost": list(self.lost),
            "evaluations": self.evaluations,
            "rows": self.rows,
        }


@dataclass(frozen=True)
class Part:
    """One file of a checkpoint of several processes: the rows of some consecutive agents."""

    file: str
    first: int
    agents: int
    sha256: str


def encode(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as the content of a file."""
    counts = json.dumps({**checkpoint.counts(), "checksum": _BLANK})
    tensors = {name: array.detach().cpu().contiguous() for name, array in checkpoint.state.items()}
    return _with_checksum(save(tensors, metadata={_KEY: counts}))


def decode(content: bytes, agents: int) -> Checkpoint:
    """A checkpoint from the content of its file.

    Args:
        content: the file.
        agents: how many agents the run had at its start.

    Raises:
        DamagedError: it is not as it was written, or not a checkpoint of a run with so many agents.
    """
    _verify(content)
    try:
        size = int.from_bytes(content[:8], "little")
        counts = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][_KEY])
        state = load(content)
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise DamagedError(f"not a checkpoint ({error})") from error
    checkpoint = _counted(state, counts, agents)
    _check_rows(state, agents - len(checkpoint.lost))
    return checkpoint


def encode_manifest(checkpoint: Checkpoint, agents: int, parts: list[Part]) -> bytes:
    """What a checkpoint of several files consists of; `agents` are those that are left."""
    manifest = {**checkpoint.counts(), "agents": agents, "parts": [vars(part) for part in parts], "checksum": _BLANK}
    return _with_checksum(json.dumps(manifest, indent=2).encode())


def decode_manifest(content: bytes, agents: int) -> tuple[Checkpoint, list[Part]]:
    """The counts and the parts that a manifest names, in the agents' order.

    Raises:
        DamagedError: as for `decode`; also if the parts do not have the rows of all agents exactly once.
    """
    _verify(content)
    try:
        counts = json.loads(content)
        listed = counts["parts"]
        parts = [Part(**part) for part in listed]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"not a manifest ({error})") from error
    checkpoint = _counted({}, counts, agents)
    if not all(_is_part(part) for part in parts):
        raise DamagedError("its manifest names something that is not a part")
    parts = sorted(parts, key=lambda part: part.first)
    ends = [0, *(part.first + part.agents for part in parts)]
    left = agents - len(checkpoint.lost)
    if [part.first for part in parts] != ends[:-1] or ends[-1] != left or counts.get("agents") != left:
        raise DamagedError(f"its parts do not have the rows of all {left} agents once")
    return checkpoint, parts


def joined(checkpoint: Checkpoint, parts: list[Part], content: dict[str, bytes]) -> Checkpoint:
    """The counts of a manifest with the states of all its parts."""
    try:
        states = [load(content[part.file]) for part in parts]
    except SafetensorError as error:
        raise DamagedError(f"not a checkpoint ({error})") from error
    for part, state in zip(parts, states, strict=True):
        _check_rows(state, part.agents)
        if {name: array.shape[1:] for name, array in state.items()} != {
            name: array.shape[1:] for name, array in states[0].items()
        }:
            raise DamagedError(f"{part.file} does not fit the other parts")
    checkpoint.state = {name: torch.cat([state[name] for state in states]) for name in states[0]}
    return checkpoint


def read_intact(folder: Path, parts: list[Part]) -> dict[str, bytes]:
    """The content of those parts in a folder that are as they were written."""
    found = {}
    for part in parts:
        try:
            content = read_checkpoint(folder / part.file)
        except ValueError:
            continue
        if digest_of(content) == part.sha256:
            found[part.file] = content
    return found


def read_checkpoint(path: Path) -> bytes:
    """The content of a checkpoint, its manifest or one of its parts, of any size."""
    return read_file(path, "manifest" if path.name == MANIFEST else "checkpoint", sys.maxsize - 1)


def digest_of(content: bytes) -> str:
    """The SHA-256 of a whole file, as `sha256sum` shows it."""
    return hashlib.sha256(content).hexdigest()


def _with_checksum(content: bytes) -> bytes:
    first, last = _place(content)
    return content[:first] + _checksum(content).encode() + content[last:]


def _verify(content: bytes) -> None:
    first, last = _place(content)
    if content[first:last].decode() != _checksum(content):
        raise DamagedError("its checksum does not match its content")


def _checksum(content: bytes) -> str:
    first, last = _place(content)
    hashed = hashlib.sha256(memoryview(content)[:first])
    hashed.update(_BLANK.encode())
    hashed.update(memoryview(content)[last:])
    return hashed.hexdigest()


def _place(content: bytes) -> tuple[int, int]:
    """Where the checksum is: in JSON, which is all of a manifest and the header of a safetensors file."""
    header = len(content) if content[:1] == b"{" else 8 + int.from_bytes(content[:8], "little")
    places = [match.span(1) for match in _CHECKSUM.finditer(content, 0, min(header, len(content)))]
    if len(places) != 1:
        raise DamagedError("it has no checksum")
    return places[0]


def _counted(state: State, counts: Any, agents: int) -> Checkpoint:
    try:
        found = Checkpoint(
            state,
            counts["iteration"],
            counts["seconds"],
            counts["digest"],
            tuple(counts["lost"]),
            counts["evaluations"],
            counts["rows"],
        )
    except (KeyError, TypeError) as error:
        raise DamagedError(f"it does not say its {error}") from error
    if not (_is_count(found.iteration) and _is_count(found.evaluations) and isinstance(found.digest, str)):
        raise DamagedError("its counts are not whole numbers")
    if not isinstance(found.rows, str):
        raise DamagedError("its digest of the metrics is not a text")
    if not (isinstance(found.seconds, int | float) and math.isfinite(found.seconds) and found.seconds >= 0):
        raise DamagedError("its seconds are not a number")
    if not all(_is_count(agent) and agent < agents for agent in found.lost) or len(set(found.lost)) != len(found.lost):
        raise DamagedError(f"its lost agents are not some of 0, …, {agents - 1}")
    return found


def _check_rows(state: State, agents: int) -> None:
    if not state or any(array.dim() < 1 or len(array) != agents for array in state.values()):
        raise DamagedError(f"it does not have the rows of {agents} agents")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_part(part: Part) -> bool:
    if not (_is_count(part.first) and _is_count(part.agents) and part.agents and isinstance(part.file, str)):
        return False
    match = PART_NAME.fullmatch(part.file)
    named = match is not None and [int(number) for number in match.groups()]
    return named == [part.first, part.first + part.agents - 1] and isinstance(part.sha256, str)
