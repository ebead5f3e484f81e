"""Placement: every agent in one process, and plans of any two processes that match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent import InputError
from peerdescent.distributed.placement import Placement, all_agents_plan, neighbour_plan


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    agents = draw(st.integers(1, 60))
    return Placement(agents, draw(st.integers(1, agents)))


@st.composite
def placed_edges(draw: st.DrawFn) -> tuple[Placement, list[tuple[int, int]]]:
    placement = draw(placements())
    agent = st.integers(0, placement.agents - 1)
    pairs = draw(st.lists(st.tuples(agent, agent).filter(lambda pair: pair[0] != pair[1]), max_size=80))
    return placement, pairs


@given(placements())
def test_every_agent_is_in_exactly_one_process(placement: Placement) -> None:
    blocks = [placement.block(process) for process in range(placement.processes)]
    assert [agent for block in blocks for agent in block] == list(range(placement.agents))
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
    for process, block in enumerate(blocks):
        assert [placement.owner(agent) for agent in block] == [process] * len(block)
        assert [placement.local(agent) for agent in block] == list(range(len(block)))


@given(placed_edges())
def test_plans_of_any_two_processes_match(case: tuple[Placement, list[tuple[int, int]]]) -> None:
    placement, pairs = case
    plans = [neighbour_plan(placement, process, pairs) for process in range(placement.processes)]
    for process, plan in enumerate(plans):
        for peer in plan.peers:
            assert plan.sent.get(peer) == plans[peer].received.get(process)
            assert plan.received.get(peer) == plans[peer].sent.get(process)
            assert process in plans[peer].peers


@given(placed_edges())
def test_a_process_holds_exactly_what_its_agents_receive(case: tuple[Placement, list[tuple[int, int]]]) -> None:
    placement, pairs = case
    for process in range(placement.processes):
        plan = neighbour_plan(placement, process, pairs)
        own = placement.block(process)
        assert set(plan.rows) == {*own} | {sender for receiver, sender in pairs if receiver in own}
        assert list(plan.rows) == sorted(plan.rows)
        assert list(plan.rows[plan.own_rows]) == list(own)
        for agents in plan.received.values():
            assert isinstance(plan.rows_of(agents), slice)  # rows from one process are contiguous


@given(placements())
def test_for_the_mean_every_agent_receives_from_all(placement: Placement) -> None:
    for process in range(placement.processes):
        plan = all_agents_plan(placement, process)
        assert plan.rows == tuple(range(placement.agents))
        assert plan.peers == tuple(peer for peer in range(placement.processes) if peer != process)


def test_more_processes_than_agents_are_rejected() -> None:
    with pytest.raises(InputError, match=r"11 processes for 10 agents.*at most 10"):
        Placement(10, 11)
