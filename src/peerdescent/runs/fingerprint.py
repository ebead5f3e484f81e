"""When two runs are the same: one definition, for resuming, repeating, skipping what is done and grouping seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

IGNORED = ("iterations", "patience", "monitor", "eval_every", "per_agent", "title", "load", "threads", "out", "name")
"""Keys that do not decide the trajectory: how long it is followed, what is recorded of it, names, threads."""

NEWER = {"running_statistics": '"average"', "final_average": "false", "momentum": "1.0"}
"""Keys that earlier versions did not have, with how those ran: such a value leaves fingerprints as they were."""


def identity(description: Mapping[str, Any]) -> dict[str, str]:
    """What decides the trajectory, flat: tables become dotted keys, values JSON texts.

    >>> identity({"seed": 1, "title": "a", "set": {"d-sgd-1": {"eta": 0.1}}})
    {'seed': '1', 'd-sgd-1.eta': '0.1'}
    """
    flat: dict[str, str] = {}
    for key, value in description.items():
        if key in IGNORED:
            continue
        if isinstance(value, Mapping):
            owner = "" if key == "set" else f"{key}."  # hyperparameters by the names under which they are set
            flat.update({f"{owner}{name}": text for name, text in identity(value).items()})
        else:
            flat[key] = json.dumps(value, sort_keys=True, default=str)
    return {key: text for key, text in flat.items() if NEWER.get(key) != text}


def fingerprint(description: Mapping[str, Any], **more: str) -> str:
    """Equal for runs that can continue or replace each other; `more` are facts that no description holds.

    >>> fingerprint({"seed": 1, "iterations": 10}) == fingerprint({"iterations": 20, "seed": 1})
    True
    >>> fingerprint({"seed": 1}) == fingerprint({"seed": 2})
    False
    """
    text = json.dumps(sorted({**identity(description), **more}.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """In what two runs differ, each as "key = this there and that here".

    >>> differences({"seed": 1}, {"seed": 2})
    ['seed = 1 there and 2 here']
    """
    one, other = identity(known), identity(wanted)
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return [f"{key} = {one.get(key, 'nothing')} there and {other.get(key, 'nothing')} here" for key in keys]
