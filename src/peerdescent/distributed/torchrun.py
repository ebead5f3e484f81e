"""What torchrun tells a process that it starts, through environment variables; needs no torch."""

from __future__ import annotations

import os


def under_torchrun() -> bool:
    """Whether this process was started as one of several."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def restarts_of_torchrun() -> int:
    """How often torchrun has restarted this process."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
