"""Which methods the quick tests run; the end-to-end tests run all."""

from __future__ import annotations

import pytest

from peerdescent.algorithms import PRESETS

SOME = ("dsgpa-t-pb-exact", "d2", "d-sgt-2", "c-sgd", "gossip-adamw-outer", "gt-hsgd", "gt-nsgdm")
"""One of each kind."""
EVERY_METHOD = [name if name in SOME else pytest.param(name, marks=pytest.mark.e2e) for name in PRESETS]
"""All as parameters of a test, those that are not in `SOME` for the end-to-end run."""
NOT_LINEAR = ("clipped-d-sgd", "gt-nsgdm", "sclip-ef")
"""Besides those of Adam: theory does not predict their stability."""
LINEAR = tuple(name for name in PRESETS if "adam" not in name and name not in NOT_LINEAR)
"""Those whose step is linear, apart from powers."""
