"""The inequalities of docs/convergence.md on 10,000 cases per dual order, drawn by hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as drawn
from tests.support.exact_cases import cases, check_one_step
from tests.support.exact_draws import ORDERS, Draw

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore:overflow")]


@pytest.mark.parametrize("dual", ORDERS)
def test_every_inequality_of_one_step(dual: str) -> None:
    count = 0

    @settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
    @drawn(case=cases(dual))
    def check(case: Draw) -> None:
        nonlocal count
        count += 1
        check_one_step(case)

    check()
    assert count >= 10_000
