"""Numbers that a study has measured, so that the same command continues where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peerdescent._util.files import write_atomically

MEASURED = "measured.json"


class Measured:
    """Numbers by what they depend on, in a file that is complete after every one of them."""

    def __init__(self, out: Path) -> None:
        self.path = out / MEASURED
        try:
            self.known: dict[str, Any] = dict(json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            self.known = {}

    def get(self, conditions: Sequence[object], measure: Callable[[], Any]) -> Any:
        """What was measured under these conditions, now or before.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first = Measured(Path(folder)).get(["eta", 0.1], lambda: 5)
        ...     again = Measured(Path(folder)).get(["eta", 0.1], lambda: 6)
        >>> first, again
        (5, 5)
        """
        key = json.dumps([str(each) for each in conditions])
        if key not in self.known:
            self.known[key] = measure()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, json.dumps(self.known).encode())
        return self.known[key]
