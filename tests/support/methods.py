"""Which methods `make test` takes through tests that cost much and find little more with each: `make e2e` takes all."""

from __future__ import annotations

from typing import Any

import pytest

from peerdescent.algorithms import PRESETS

ALWAYS = (
    *("dsgpa-f", "dsgpa-t", "dsgpa-f-pb", "dsgpa-t-pb", "dsgpa-f-pb-exact", "dsgpa-t-pb-exact"),
    *("dm-sgd", "d-sgd-1", "d-sgd-2", "d2", "d-sgt-1", "d-sgt-2", "d-asg", "c-sgd"),
    *("gossip-sgd", "gossip-adam", "gossip-adamw", "gossip-sgd-outer", "gossip-adamw-outer"),
)
"""They cover every kind of step: one and two messages, before and after the gradient, L and W, powers and moments."""
LATER = tuple(name for name in PRESETS if name not in ALWAYS)


def each_method() -> list[Any]:
    """All methods as parameters of a test; those of LATER are for `make e2e`."""
    return [pytest.param(name, marks=pytest.mark.e2e) if name in LATER else name for name in PRESETS]
