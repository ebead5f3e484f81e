"""Damaged run folders: resumed, reported, repeated, overwritten. What exits with 0 must be right to the last bit."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.fuzz.bases import FLAGS, METHOD, RUNS, WHOLE, copy_cache, known_notes
from tests.support.fuzz.cases import Case, Ended, Place
from tests.support.fuzz.values import damaged, data

FILES = (
    *("checkpoint",) * 7,
    *("older checkpoint", "experiment.toml", "experiment.toml", "metrics.jsonl", "metrics.jsonl", "metrics.jsonl"),
    *("environment.json", "summary.json", "manifest.json", ".lock", "checkpoints", "figures", "table.csv"),
)
NESTED = b"[" * 100_000
LINES = (
    b"{}",
    b"5",
    b"[]",
    b"null",
    b"true",
    b'"x"',
    b"{",
    b"",
    b"\xff",
    NESTED,
    b'{"iteration": "x"}',
    b'{"iteration": 99}',
)
MINE = {
    "mine.txt": b"my notes",
    "checkpoints/mine.bin": b"my weights",
    ".mine": b"",
    "000000000099.safetensors": b"mine",
}
"""Files that are not the run's: they must survive whatever happens to it."""
Act = Callable[[random.Random, Path], None]


def make(r: random.Random) -> Case:
    """A command on a damaged copy of a run folder."""
    base = r.choice((*RUNS, *RUNS, *RUNS, "comparison", "tuned"))
    files = (*FILES, *("manifest.json",) * 5) if base == "workers" else FILES
    chosen = [(r.choice(files), r.choice(list(DAMAGES))) for _ in range(r.choice((1, 1, 1, 2)))]
    seed, mine = r.getrandbits(64), r.sample(list(MINE), r.choice((0, 1, 2)))
    in_order = [(file, _fitting(r, file, damage)) for file, damage in chosen]

    def prepare(place: Place) -> None:
        folder = place.here / "run"
        shutil.copytree(place.bases / base, folder)
        again = random.Random(seed)
        (place.here / "outside.txt").write_bytes(b"outside")
        for file, damage in in_order:
            if (path := _find(folder, file)) is not None:
                DAMAGES[damage](again, path)
        for name in mine:
            path = folder / name
            if path.parent.is_dir() and not path.exists():
                path.write_bytes(MINE[name])
        copy_cache(place)

    name, argv, check = r.choice(_actions(base))
    remark = f"{base}: " + ", ".join(f"{damage} of {file}" for file, damage in in_order)
    if name == "load":
        code = "from peerdescent import load; print(load('run').x.shape)"
        return Case("folders", code=code, prepare=prepare, remark=remark)
    return Case("folders", argv, prepare=prepare, check=_both(_keeps(mine), check), remark=remark)


def _actions(base: str) -> list[tuple[str, tuple[str, ...], Callable[[Ended], str | None]]]:
    """What is done with the folder, and what its result must be."""
    simple: list[tuple[str, tuple[str, ...], Callable[[Ended], str | None]]] = [
        ("report", ("report", "run", "--out", "page.html"), _fine),
        ("explain", ("explain", "run"), _fine),
        ("init", ("init", "new.toml", "--from", "run"), _fine),
        ("load", (), _fine),
    ]
    if base == "comparison":
        flags = ("--kernel", "plain", *FLAGS, "-a", "d-sgd-1", "-a", "d2", *WHOLE, "--out", "run")
        both = (("resume", ("compare", "run", "--resume"), _fine), ("again", ("compare", *flags, "--resume"), _fine))
        return [*both, ("overwrite", ("compare", *flags, "--overwrite"), _fine), *simple]
    if base == "tuned":
        flags = (*FLAGS, "--iterations", "10", "-a", "d-sgd-1", "--trials=2", "--seeds=1", "--jobs=1", "--out", "run")
        return [("resume", ("tune", *flags, "--resume"), _fine), *simple]
    whole, same = _right("run", any_experiment=True), _right("run")
    resumed = [
        ("resume", ("run", *FLAGS, *METHOD, *WHOLE, "--out", "run", "--resume"), whole),
        ("folder", ("run", "run", "--resume", *WHOLE), same),
        ("nothing named", ("run", "--out", "run", "--resume", *WHOLE), same),
    ]
    overwritten = [("overwrite", ("run", *FLAGS, *METHOD, *WHOLE, "--out", "run", "--overwrite"), whole)]
    return [*resumed * 3, *overwritten, ("repeat", ("run", "run", *WHOLE, "--out", "other"), _right("other")), *simple]


def _fine(ended: Ended) -> str | None:
    return None


def _both(*checks: Callable[[Ended], str | None]) -> Callable[[Ended], str | None]:
    return lambda ended: next((wrong for check in checks if (wrong := check(ended))), None)


def _keeps(mine: list[str]) -> Callable[[Ended], str | None]:
    """The user's own files are still there, unchanged."""

    def check(ended: Ended) -> str | None:
        names = [f"here/run/{name}" for name in mine] + ["here/outside.txt"]
        for name in names:
            if name in ended.before and ended.after.get(name) != ended.before[name]:
                return f"a file of the user is gone or changed: {name}"
        return None

    return check


def _right(name: str, any_experiment: bool = False) -> Callable[[Ended], str | None]:
    """A run that ends well has the undisturbed result, in its last state to the bit and in its metrics unless it warns.

    Args:
        name: the folder of the run.
        any_experiment: whether flags say all that is run; else a changed experiment.toml may ask for another run.
    """

    def check(ended: Ended) -> str | None:
        folder, whole = ended.place.here / name, ended.place.bases / "undisturbed"
        asked = ended.place.here / "run" / "experiment.toml"
        before = ended.before.get("here/run/experiment.toml")
        if ended.code or not (any_experiment or (before is not None and _unchanged(ended, asked, before))):
            return None
        if (wrong := _other_state(folder, whole)) is not None:
            return f"a wrong result without a word: {wrong}"
        if _rows(folder) != _rows(whole) and not ended.notes - known_notes(ended):
            return "other metrics without a word: metrics.jsonl differs from the undisturbed run"
        return None

    return check


def _unchanged(ended: Ended, asked: Path, before: str) -> bool:
    """Whether the experiment was whole when the case began."""
    originals = [ended.place.bases / base / "experiment.toml" for base in RUNS]
    return before in {hashlib.sha1(path.read_bytes()).hexdigest() for path in originals}


def _other_state(folder: Path, whole: Path) -> str | None:
    from safetensors.numpy import load_file

    try:
        found, wanted = (load_file(max((run / "checkpoints").glob("0*.safetensors"))) for run in (folder, whole))
    except Exception as error:
        return f"the last checkpoint cannot be read ({error})"
    for key, array in wanted.items():
        if key not in found or found[key].tobytes() != array.tobytes():
            return f"{key} differs from the undisturbed run"
    return None


def _rows(folder: Path) -> list[dict[str, Any]]:
    try:
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        return [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in rows]
    except (OSError, ValueError, AttributeError):
        return []


def _find(folder: Path, file: str) -> Path | None:
    """A file of the run by what it is."""
    if file in ("checkpoint", "older checkpoint", "manifest.json"):
        several = sorted(folder.rglob("checkpoints/0*"), reverse=True)
        if not several:
            return None
        path = several[0] if file != "older checkpoint" else several[-1]
        if path.is_dir() and file == "manifest.json":
            return path / file
        parts = sorted(path.glob("agents*")) if path.is_dir() else []
        return parts[-1] if parts else path
    found = sorted(folder.rglob(file))
    return found[0] if found else folder / file


def _fitting(r: random.Random, file: str, damage: str) -> str:
    """Another damage where this one needs another kind of file."""
    if "JSON" in damage and not file.endswith(("json", "jsonl")):
        return "header" if "checkpoint" in file else "bytes"
    if damage == "line" and not file.endswith("jsonl"):
        return "bytes"
    return damage if damage != "header" or "checkpoint" in file else "bytes"


def _bytes(r: random.Random, path: Path) -> None:
    if path.is_file():
        path.write_bytes(damaged(r, path.read_bytes()))


def _one_bit(r: random.Random, path: Path) -> None:
    """In the numbers of a checkpoint, where nothing but a digest tells."""
    if path.is_file() and (content := bytearray(path.read_bytes())):
        content[-1 - r.randrange(min(len(content), 96))] ^= 1 << r.randrange(8)
        path.write_bytes(bytes(content))


def _remove(r: random.Random, path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _replaced(make: Act) -> Act:
    def act(r: random.Random, path: Path) -> None:
        _remove(r, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        make(r, path)

    return act


def _link(r: random.Random, path: Path) -> None:
    steps = len(path.parts) - path.parts.index("here") - 2
    target = r.choice(("missing", path.name, "../" * steps + "outside.txt", "/dev/null", "/dev/zero", "."))
    path.symlink_to(target)


def _folder(r: random.Random, path: Path) -> None:
    path.mkdir()
    if r.random() < 0.5:
        (path / "x").write_bytes(b"x")


def _json(r: random.Random, path: Path) -> None:
    """Another value somewhere in a JSON file, or in one line of it."""
    if not path.is_file():
        return
    content = path.read_text(errors="replace")
    lines = content.split("\n") if path.suffix == ".jsonl" else [content]
    at = r.randrange(len(lines))
    try:
        lines[at] = json.dumps(_edited(r, json.loads(lines[at])))
    except ValueError:
        lines[at] = json.dumps(data(r))
    path.write_text("\n".join(lines))


def _edited(r: random.Random, value: Any) -> Any:
    keys: list[Any] = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    if not keys or r.random() < 0.1:
        return data(r)
    key = r.choice(keys)
    kind = r.random()
    if kind < 0.3 and isinstance(value, dict):
        del value[key]
    elif kind < 0.4 and isinstance(value, dict):
        value[r.choice(("lost", "x", "notes", "diverged", "parts", "peerdescent", ""))] = data(r)
    else:
        value[key] = _edited(r, value[key])
    return value


def _json_nested(r: random.Random, path: Path) -> None:
    if path.is_file():
        path.write_bytes(
            r.choice((NESTED, b'{"a":' * 50_000, b'{"notes": 5}', b'{"peerdescent": 5}', b"[]", b"5", b"NaN"))
        )


def _line(r: random.Random, path: Path) -> None:
    if path.is_file():
        lines = path.read_bytes().split(b"\n")
        lines.insert(r.randrange(len(lines) + 1), r.choice(LINES))
        path.write_bytes(b"\n".join(lines))


def _header(r: random.Random, path: Path) -> None:
    """Another value in what a safetensors file says of itself, the numbers untouched."""
    try:
        content = path.read_bytes() if path.is_file() else b""
        (size,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + size])
        held = dict(json.loads(header["__metadata__"]["peerdescent"]))
    except (struct.error, ValueError, KeyError, TypeError):  # an earlier damage has left no header
        return _bytes(r, path)
    known = {"lost": [False, [0], [True], ["x"], [99], 5, [-1]], "iteration": [0, 5, -1, 11, 10**9, "10", 1e308, None]}
    key = r.choice(("lost", "iteration", "seconds", "digest"))
    held[key] = r.choice(known.get(key, [data(r)]))
    header["__metadata__"]["peerdescent"] = json.dumps(held) if r.random() < 0.9 else "[]"
    new = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(new)) + new + content[8 + size :])
    return None


DAMAGES: dict[str, Act] = {
    "one bit": _one_bit,
    "bytes": _bytes,
    "header": _header,
    "JSON value": _json,
    "JSON type": _json_nested,
    "line": _line,
    "removal": _remove,
    "folder": _replaced(_folder),
    "fifo": _replaced(lambda r, path: os.mkfifo(path)),
    "link": _replaced(_link),
}
