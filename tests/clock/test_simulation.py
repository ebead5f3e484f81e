"""The clock against closed forms and against a simulation event by event."""

from __future__ import annotations

from itertools import islice

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.clock.events import Events

from peerdescent import algorithms, clock, graphs
from peerdescent.clock.communication import Communication, Pairs, Send, Step, both_ways, every, on_graph
from peerdescent.clock.compute import compute_seconds
from peerdescent.clock.model import Access, Average, Between, Link, NetworkModel
from peerdescent.graphs import Graph

MB = 1e6
X, Y = Send("x"), Send("y")


def ends(sent: Communication, model: NetworkModel, compute: np.ndarray) -> np.ndarray:
    return np.array(list(clock.finish_times(sent, model, compute, len(compute))))


def pace(name: str, model: NetworkModel, compute: float, size: float, n: int = 6, **options: object) -> float:
    """Seconds per iteration of a method on a ring, once all goes evenly."""
    sent = on_graph(graphs.ring(n), clock.step_of(algorithms.make(name), **options), vector_bytes=size)  # type: ignore[arg-type]
    times = ends(sent, model, np.full((30, n), compute))[:, 0]
    return float(times[-1] - times[-2])


WAN = NetworkModel(link=Link(latency_ms=20, bandwidth_mbit=100))


@pytest.mark.parametrize("compute", [0.01, 0.05, 0.5])
def test_closed_forms_on_a_ring_of_equal_links(compute: float) -> None:
    one = 0.020 + 8 * MB / 100e6  # latency + bytes/bandwidth
    assert pace("dsgpa-f", WAN, compute, MB) == pytest.approx(max(compute, one))  # x leaves before the gradient
    assert pace("d2", WAN, compute, MB) == pytest.approx(compute + one)  # the message needs the gradient
    two = 0.020 + 2 * 8 * MB / 100e6  # x and y, one after the other on each link
    assert pace("d-sgt-1", WAN, compute, MB) == pytest.approx(max(compute, two))
    assert pace("dm-sgd", WAN, compute, MB) == pytest.approx(compute + two)
    assert pace("d-sgt-2", WAN, compute, MB) == pytest.approx(max(compute, one) + one)  # the second needs the first
    assert pace("gt-nsgdm", WAN, compute, MB) == pytest.approx(
        compute + 2 * one
    )  # the second needs the norm of the first
    assert pace("gt-hsgd", WAN, compute, MB) == pytest.approx(2 * compute + 2 * one)  # two gradients
    assert pace("gt-hsgd", WAN, compute, MB, overlap=False) == pytest.approx(2 * compute + 2 * one)
    assert pace("dsgpa-f", WAN, compute, MB, overlap=False) == pytest.approx(compute + one)  # the plain kernel


def test_an_uplink_is_shared_equally_by_the_messages_of_an_exchange() -> None:
    model = NetworkModel(agent=Access(uplink_mbit=100))
    star = on_graph(graphs.star(5), Step(early=(X,)), vector_bytes=MB)
    assert ends(star, model, np.zeros((1, 5)))[0] == pytest.approx([0.08, 0.32, 0.32, 0.32, 0.32])
    model = NetworkModel(agent=Access(downlink_mbit=100))
    assert ends(star, model, np.zeros((1, 5)))[0] == pytest.approx([0.32, 0.08, 0.08, 0.08, 0.08])


def test_a_site_shares_its_uplink_and_links_have_classes_and_names() -> None:
    sites = {"a": (0, 1), "b": (2, 3)}
    between = Between(latency_ms=50, uplink_mbit=10)
    model = NetworkModel(link=Link(latency_ms=1), sites=sites, between=between, within=Link(bandwidth_mbit=100))
    sent = on_graph(graphs.ring(4), Step(early=(X,)), vector_bytes=MB)  # 0-1 and 2-3 inside, 1-2 and 3-0 between
    assert ends(sent, model, np.zeros((1, 4)))[0] == pytest.approx([0.05 + 2 * 0.8] * 4)
    named = {(1, 2): Link(latency_ms=7000), (3, 0): Link(bandwidth_mbit=1)}
    times = ends(sent, NetworkModel(link=Link(latency_ms=1), links=named), np.zeros((1, 4)))[0]
    assert times == pytest.approx([0.001 + 8, 0.001, 7, 0.001])


def test_overhead_occupies_the_sender_once_per_message() -> None:
    model = NetworkModel(link=Link(overhead_ms=3))
    sent = on_graph(graphs.star(4), Step(early=(X, Y)), vector_bytes=MB)
    assert ends(sent, model, np.zeros((1, 4)))[0] == pytest.approx([0.006, 0.018, 0.018, 0.018])


def test_a_period_exchanges_in_its_last_iteration_only() -> None:
    sent = on_graph(graphs.ring(4), Step(late=(X,)), vector_bytes=MB, round_of=every(3))
    steps = np.diff(ends(sent, WAN, np.full((6, 4), 0.05))[:, 0], prepend=0)
    assert steps == pytest.approx([0.05, 0.05, 0.15] * 2)


def test_a_global_average_every_few_iterations() -> None:
    sent = on_graph(graphs.ring(4), Step(), mean_bytes=MB, averages=lambda k: 2 * ((k + 1) % 3 == 0))
    times = ends(sent, WAN, np.full((6, 4), 0.05))[:, 0]
    assert np.diff(times, prepend=0) == pytest.approx([0.05, 0.05, 0.05 + 2 * 6 * (0.020 + 8 * MB / 4 / 100e6)] * 2)


def test_one_peer_per_round_halves_what_shares_an_uplink() -> None:
    model = NetworkModel(agent=Access(uplink_mbit=100))
    for spec, messages in {"onepeer-exp:8": 1, "ring:8": 2, "hypercube:3": 3}.items():
        sent = on_graph(graphs.parse(spec), Step(late=(X,)), vector_bytes=MB)
        assert ends(sent, model, np.zeros((5, 8)))[-1] == pytest.approx(np.full(8, 5 * messages * 0.08))
    matching = on_graph(graphs.parse("matching:8"), Step(late=(X,)), vector_bytes=MB)  # never repeats
    assert ends(matching, model, np.zeros((5, 8)))[-1] == pytest.approx(np.full(8, 5 * 0.08))


def test_centralized_sgd_by_all_reduce_and_by_a_server() -> None:
    step = clock.step_of(algorithms.make("c-sgd"))
    sent = on_graph(graphs.ring(32), step, vector_bytes=2 * MB)
    compute = np.full((1, 32), 0.05)
    compute[0, 7] = 0.3  # all wait for the last
    assert ends(sent, WAN, compute)[0] == pytest.approx([0.3 + 62 * (0.020 + 8 * 2 * MB / 32 / 100e6)] * 32)
    server = Average(by="server", uplink_mbit=1600, downlink_mbit=3200)
    model = NetworkModel(link=Link(latency_ms=20, bandwidth_mbit=100), average=server)
    assert ends(sent, model, compute)[0] == pytest.approx([0.3 + 0.020 + 0.16 + 0.020 + 0.32] * 32)


def test_the_slowest_link_of_the_ring_sets_the_pace_of_an_all_reduce() -> None:
    model = NetworkModel(link=Link(latency_ms=20, bandwidth_mbit=100), links={(3, 4): Link(bandwidth_mbit=10)})
    assert clock.all_reduce_seconds(model, 8, 8 * MB) == pytest.approx(14 * (0.020 + 8 * MB / 10e6))
    assert clock.all_reduce_seconds(model, 1, MB) == 0


def test_an_agent_alone_only_computes() -> None:
    sent = on_graph(Graph(1, ()), Step(early=(X,), late=(Send("mean", True),)), vector_bytes=MB)
    assert ends(sent, WAN, np.full((3, 1), 0.1))[:, 0] == pytest.approx([0.1, 0.2, 0.3])


# Random networks, steps and graphs over time, against the events.


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Any order of messages, some of which need earlier ones, and a mean now and then."""
    parts: dict[str, list[Send]] = {"for_point": [], "early": [], "late": []}
    known: list[str] = []
    for sends in parts.values():
        for _ in range(draw(st.integers(0, 2))):
            mean = draw(st.integers(0, 4)) == 0
            needs = tuple(name for name in known if draw(st.booleans()))
            name = f"{'mean' if mean else 'm'}{len(known)}"
            sends.append(Send(name, mean, needs))
            known.append(name)
    return Step(*(tuple(part) for part in parts.values()), awaits_point=draw(st.booleans()))


def program(step: Step) -> list[tuple[object, ...]]:
    """The same step as a list of commands."""
    lines: list[tuple[object, ...]] = []
    so_far: list[str] = []

    def send(part: tuple[Send, ...]) -> None:
        for message in part:
            lines.extend([("wait", message.needs), ("send", message.array, message.all_agents)])
            so_far.append(message.array)

    send(step.for_point)
    if step.awaits_point:
        lines.append(("wait", tuple(so_far)))
    send(step.early)
    lines.append(("compute",))
    send(step.late)
    return [*lines, ("wait", tuple(so_far))]


seconds = st.floats(0.0, 2.0, allow_subnormal=False)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), steps(), st.integers(1, 3), st.data())
def test_equal_to_a_simulation_event_by_event(n: int, step: Step, period: int, data: st.DataObject) -> None:
    every = [(i, j) for i in range(n) for j in range(n) if i != j]
    draw = data.draw
    frames = [draw(st.lists(st.sampled_from(every), unique=True)) for _ in range(draw(st.integers(1, 2)))]
    latency = {pair: draw(seconds) for pair in every}
    mbit = {pair: draw(st.floats(1.0, 100.0)) for pair in every}
    links = {pair: Link(latency_ms=1e3 * latency[pair], bandwidth_mbit=mbit[pair]) for pair in every}
    compute = np.array(draw(st.lists(st.lists(seconds, min_size=n, max_size=n), min_size=7, max_size=7)))
    uplink = draw(st.sampled_from([None, 5.0, 40.0]))
    model = NetworkModel(links=links, agent=Access(uplink_mbit=uplink))

    def pairs(round_: int) -> Pairs:
        return np.array(frames[round_ % len(frames)], dtype=np.int64).reshape(-1, 2)

    union = np.array(sorted({p for frame in frames for p in frame}), dtype=np.int64).reshape(-1, 2)
    sent = Communication(
        n, step, Step(), MB, MB / 2, pairs, union, len(frames), lambda k: k // period if (k + 1) % period == 0 else None
    )

    def frame(k: int) -> list[tuple[int, int]]:
        return frames[(k // period) % len(frames)]

    def transfer(k: int, link: tuple[int, int]) -> float:
        share = float("inf") if uplink is None else uplink / sum(i == link[0] for i, _ in frame(k))
        return 8 / min(mbit[link], share)

    events = Events(
        n,
        lambda k: program(step if (k + 1) % period == 0 else Step()),
        lambda k, i: [j for s, j in frame(k) if s == i],
        lambda k, i: float(compute[k, i]),
        transfer,
        latency.__getitem__,
        2 * (n - 1) * max(latency[i, (i + 1) % n] + 4 / n / min(mbit[i, (i + 1) % n], uplink or 1e9) for i in range(n)),
    )
    np.testing.assert_allclose(ends(sent, model, compute), events.run(7), rtol=1e-12, atol=1e-12)


graphs_of_agents = st.integers(0, 10**6).map(lambda s: nx.gnp_random_graph(5, 0.7, seed=s)).filter(nx.is_connected)
rates = st.floats(0.1, 1e4)


@settings(max_examples=25, deadline=None)
@given(
    graphs_of_agents, st.sampled_from(sorted(algorithms.PRESETS)), rates, st.floats(1.0, 100.0), st.floats(0.0, 500.0)
)
def test_more_bandwidth_or_less_latency_never_takes_longer(
    drawn: nx.Graph, name: str, mbit: float, factor: float, ms: float
) -> None:
    sent = on_graph(graphs.from_networkx(drawn), clock.step_of(algorithms.make(name)), vector_bytes=MB)
    model = NetworkModel(link=Link(latency_ms=ms, bandwidth_mbit=mbit), agent=Access(uplink_mbit=mbit))
    compute = np.random.default_rng(0).random((8, 5))
    slow = ends(sent, model, compute)
    tolerance = 1e-9 * slow.max()
    assert (ends(sent, model.scaled(bandwidth=factor), compute) <= slow + tolerance).all()
    assert (ends(sent, model.scaled(latency=1 / factor), compute) <= slow + tolerance).all()
    assert (slow.min(axis=1) >= np.cumsum(compute, axis=0).min(axis=1) - tolerance).all()


@settings(max_examples=25, deadline=None)
@given(graphs_of_agents, st.permutations(range(5)), st.sampled_from(["dsgpa-f", "dm-sgd", "d-sgt-2", "d-asg"]))
def test_the_numbers_of_agents_do_not_matter(drawn: nx.Graph, order: list[int], name: str) -> None:
    random = np.random.default_rng(1)
    step, compute = clock.step_of(algorithms.make(name)), random.random((6, 5))
    pairs = both_ways(graphs.from_networkx(drawn)).tolist()
    links = {(i, j): Link(latency_ms=random.uniform(0, 900), bandwidth_mbit=random.uniform(5, 50)) for i, j in pairs}
    here = on_graph(graphs.from_networkx(drawn), step, vector_bytes=MB)
    there = on_graph(Graph(5, tuple((order[i], order[j]) for i, j in drawn.edges)), step, vector_bytes=MB)
    model = NetworkModel(links=links, agent=Access(uplink_mbit=40, downlink_mbit=30))
    renamed = NetworkModel(links={(order[i], order[j]): v for (i, j), v in links.items()}, agent=model.agent)
    moved = np.empty_like(compute)
    moved[:, order] = compute
    np.testing.assert_allclose(ends(there, renamed, moved)[:, order], ends(here, model, compute), rtol=1e-12)


def test_computing_times_depend_on_seed_agent_and_iteration_alone() -> None:
    keys = {"compute": {"seconds": 0.2, "spread": "lognormal", "deviation": 0.5, "factors": {"1": 3.0}}}
    model = clock.from_keys({**keys, "stragglers": {"probability": 0.1, "factor": 10, "agents": [0]}})
    few = np.array(list(islice(compute_seconds(model, 3, seed=4), 600)))
    many = np.array(list(islice(compute_seconds(model, 5, seed=4), 600)))
    np.testing.assert_array_equal(few, many[:, :3])
    assert not np.array_equal(few, np.array(list(islice(compute_seconds(model, 3, seed=5), 600))))
    assert not np.array_equal(few[:, 1], 3 * few[:, 2])


@pytest.mark.parametrize("spread", ["lognormal", "gamma"])
def test_computing_times_have_the_mean_and_the_deviation_that_were_asked_for(spread: str) -> None:
    model = clock.from_keys({"compute": {"seconds": 0.2, "spread": spread, "deviation": 0.5}})
    drawn = np.array(list(islice(compute_seconds(model, 100, seed=1), 512)))
    assert drawn.mean() == pytest.approx(0.2, rel=0.01)
    assert drawn.std() == pytest.approx(0.1, rel=0.02)


def test_stragglers_are_as_frequent_and_as_slow_as_asked_for() -> None:
    slow = {"probability": 0.25, "factor": 7, "agents": "0-49"}
    model = clock.from_keys({"compute": {"seconds": 1.0}, "stragglers": slow})
    drawn = np.array(list(islice(compute_seconds(model, 60, seed=1), 512)))
    assert set(np.unique(drawn)) == {1.0, 7.0}
    assert (drawn[:, :50] == 7).mean() == pytest.approx(0.25, abs=0.01)
    assert (drawn[:, 50:] == 1).all()
