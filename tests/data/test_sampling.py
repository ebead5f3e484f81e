"""Minibatches: independent of placement and access order; epochs are permutations."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from peerdescent.data import Minibatches, sampling
from peerdescent.errors import InputError

SEEDS = st.integers(0, 2**63 - 1)


@st.composite
def settings_of_a_run(draw):
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=6))
    replacement = draw(st.booleans())
    largest = 50 if replacement else min(sizes)
    return {
        "shard_sizes": sizes,
        "batch_size": draw(st.integers(1, largest)),
        "seed": draw(SEEDS),
        "replacement": replacement,
    }


@settings(deadline=None)
@given(run=settings_of_a_run(), ks=st.lists(st.integers(0, 3000), min_size=1, max_size=4), data=st.data())
def test_equal_for_every_split_of_the_agents_into_blocks(run, ks, data):
    n = len(run["shard_sizes"])
    cut = data.draw(st.integers(0, n))
    complete = Minibatches(**run)
    left = Minibatches(**run, agents=range(cut))
    right = Minibatches(**run, agents=range(cut, n))
    for k in ks:
        assert torch.equal(torch.cat([left.batches(k), right.batches(k)]), complete.batches(k))


@settings(deadline=None)
@given(run=settings_of_a_run(), ks=st.lists(st.integers(0, 3000), min_size=1, max_size=8))
def test_equal_for_every_access_order(run, ks):
    one = Minibatches(**run)
    for k in ks:
        assert torch.equal(one.batches(k), Minibatches(**run).batches(k))


@settings(deadline=None)
@given(run=settings_of_a_run(), k=st.integers(0, 10**12))
def test_batches_are_valid_local_indices(run, k):
    batch = Minibatches(**run).batches(k)
    assert batch.dtype == torch.int64
    assert batch.shape == (len(run["shard_sizes"]), run["batch_size"])
    assert batch.is_contiguous()
    assert (batch >= 0).all()
    assert (batch < torch.tensor(run["shard_sizes"])[:, None]).all()


@settings(deadline=None)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4), seed=SEEDS, data=st.data())
def test_without_replacement_an_epoch_visits_no_sample_twice(sizes, seed, data):
    batch_size = data.draw(st.integers(1, min(sizes)))
    minibatches = Minibatches(sizes, batch_size, seed, replacement=False)
    for agent, size in enumerate(sizes):
        length = size // batch_size
        for epoch in range(3):
            ks = range(epoch * length, (epoch + 1) * length)
            visited = torch.cat([minibatches.batches(k)[agent] for k in ks]).tolist()
            assert len(set(visited)) == len(visited) == size - size % batch_size


def test_epochs_longer_than_a_chunk_visit_every_sample_once():
    size = 700  # of one sample each: more iterations than are drawn at once
    minibatches = Minibatches([size, 3], batch_size=1, seed=4, replacement=False)
    for epoch in (0, 1, 2, 9):
        visited = [int(minibatches.batches(epoch * size + j)[0, 0]) for j in range(size)]
        assert sorted(visited) == list(range(size))


def test_every_epoch_has_a_fresh_permutation():
    minibatches = Minibatches([40], batch_size=40, seed=0, replacement=False)
    epochs = {tuple(minibatches.batches(k)[0].tolist()) for k in range(300)}
    assert len(epochs) == 300


def test_the_remainder_of_an_epoch_changes_from_epoch_to_epoch():
    minibatches = Minibatches([7], batch_size=3, seed=0, replacement=False)
    dropped = []
    for epoch in range(700):
        visited = torch.cat([minibatches.batches(2 * epoch)[0], minibatches.batches(2 * epoch + 1)[0]])
        dropped.extend(set(range(7)) - set(visited.tolist()))
    assert len(dropped) == 700
    assert chisquare(np.bincount(dropped, minlength=7)).pvalue > 1e-3


def test_with_replacement_samples_are_uniform_and_repeat():
    minibatches = Minibatches([8, 8], batch_size=16, seed=5)
    drawn = torch.stack([minibatches.batches(k) for k in range(600)])
    for agent in range(2):
        counts = torch.bincount(drawn[:, agent].flatten(), minlength=8)
        assert chisquare(counts.numpy()).pvalue > 1e-3
    assert not torch.equal(drawn[:, 0], drawn[:, 1])


@pytest.mark.parametrize("replacement", [True, False])
def test_agents_and_seeds_have_different_batches(replacement):
    one = Minibatches([100] * 3, 10, seed=1, replacement=replacement)
    other = Minibatches([100] * 3, 10, seed=2, replacement=replacement)
    rows = torch.cat([one.batches(0), other.batches(0), one.batches(1)]).tolist()
    assert len(set(map(tuple, rows))) == 9


def test_a_batch_stays_as_it_was_when_later_ones_are_drawn():
    minibatches = Minibatches([30] * 2, 5, seed=3)
    kept = minibatches.batches(0)
    copy = kept.clone()
    for k in range(0, 5000, 100):
        minibatches.batches(k)
    assert torch.equal(kept, copy)


def test_batches_do_not_depend_on_other_shards():
    one = Minibatches([10, 20, 30], 5, seed=3, replacement=False, agents=range(1, 2))
    other = Minibatches([99, 20, 5], 5, seed=3, replacement=False, agents=range(1, 2))
    assert all(torch.equal(one.batches(k), other.batches(k)) for k in range(20))


def test_batches_larger_than_what_is_drawn_at_once():
    minibatches = Minibatches([6000], batch_size=5000, seed=0)
    assert minibatches.batches(3).shape == (1, 5000)
    assert not torch.equal(minibatches.batches(3), minibatches.batches(4))


def test_a_process_may_host_no_agent():
    assert Minibatches([5, 5], 2, seed=0, agents=range(0)).batches(7).shape == (0, 2)


def test_a_shard_smaller_than_the_batch_is_named_in_every_process():
    message = r"batch_size is 4 but agent 1 has a shard of 3 .*at most 3.*replacement=True"
    with pytest.raises(InputError, match=message):
        Minibatches([5, 3], 4, seed=0, replacement=False, agents=range(1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, r"^batch_size is 0, expected an integer that is at least 1"),
        ({"batch_size": 1.5}, r"^batch_size is 1\.5"),
        ({"seed": -1}, r"^seed is -1"),
        ({"shard_sizes": [5, 0]}, r"^the shard size of agent 1 is 0"),
        ({"shard_sizes": []}, r"^shard_sizes is empty"),
        ({"agents": range(1, 4)}, r"^agents contains 3, expected agents between 0 and 2"),
        ({"agents": range(-1, 2)}, r"^agents contains -1"),
    ],
)
def test_bad_inputs_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        Minibatches(**{"shard_sizes": [5, 6, 7], "batch_size": 2, "seed": 0, **arguments})


def test_a_negative_iteration_is_named():
    with pytest.raises(InputError, match=r"^k is -1, expected an integer that is at least 0"):
        Minibatches([5], 2, seed=0).batches(-1)


def test_a_batch_larger_than_a_shard_warns_once():
    sampling._warn_of_repeats.cache_clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for seed in range(3):  # one per method
            Minibatches([9, 3, 2], 5, seed=seed)
        Minibatches([9, 3, 2], 5, seed=0, agents=range(1, 3))  # another process of the run
    (warning,) = seen
    assert str(warning.message).startswith("agent 1 has a shard of 3 samples and a batch_size of 5, so")


def test_a_batch_as_large_as_the_shard_does_not_warn():
    sampling._warn_of_repeats.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Minibatches([5, 6], 5, seed=0)
        Minibatches([5, 3], 4, seed=0, agents=range(1, 2))
