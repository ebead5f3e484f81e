"""Partitions: every sample in one shard, no shard empty, and the skew that was asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from peerdescent.data import partition
from peerdescent.errors import InputError

DIGITS = np.repeat(np.arange(10), 500)
SEEDS = st.integers(0, 2**63 - 1)
KINDS = ["iid", "label", "dirichlet:1e-9", "dirichlet:0.1", "dirichlet:1", "dirichlet:1e300"]


@st.composite
def problems(draw):
    labels = draw(st.lists(st.integers(-3, 6), min_size=1, max_size=60))
    return labels, draw(st.integers(1, len(labels)))


def class_counts(shards, labels=DIGITS):
    return np.array([np.bincount(labels[shard], minlength=10) for shard in shards])


@settings(deadline=None)
@given(problem=problems(), how=st.sampled_from(KINDS), seed=SEEDS, sizes=st.sampled_from(["even", "uneven"]))
def test_every_sample_is_in_exactly_one_shard_and_no_shard_is_empty(problem, how, seed, sizes):
    labels, agents = problem
    shards = partition(labels, agents, how, seed, sizes)
    assert len(shards) == agents
    assert min(map(len, shards)) >= 1
    assert sorted(np.concatenate(shards).tolist()) == list(range(len(labels)))
    assert all(shard.dtype == np.int64 for shard in shards)


@settings(deadline=None)
@given(problem=problems(), how=st.sampled_from(KINDS), seed=SEEDS, sizes=st.sampled_from(["even", "uneven"]))
def test_the_same_arguments_give_the_same_shards(problem, how, seed, sizes):
    labels, agents = problem
    first = partition(np.array(labels), agents, how, seed, sizes)
    again = partition(labels, agents, how, seed, sizes)
    assert [shard.tolist() for shard in first] == [shard.tolist() for shard in again]


@pytest.mark.parametrize("how", KINDS[:-1])
def test_another_seed_gives_other_shards(how):
    one, other = partition(DIGITS, 10, how, seed=1), partition(DIGITS, 10, how, seed=2)
    assert [shard.tolist() for shard in one] != [shard.tolist() for shard in other]


@settings(deadline=None)
@given(total=st.integers(1, 300), data=st.data())
def test_even_sizes_differ_by_at_most_one(total, data):
    agents = data.draw(st.integers(1, total))
    sizes = [len(shard) for shard in partition(total, agents)]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def test_uneven_sizes_follow_their_distribution():
    # 4 samples for 3 agents: (2,1,1), (1,2,1), (1,1,2) equally likely
    drawn = [tuple(map(len, partition(4, 3, seed=seed, sizes="uneven"))) for seed in range(600)]
    counts = [drawn.count(sizes) for sizes in [(2, 1, 1), (1, 2, 1), (1, 1, 2)]]
    assert sum(counts) == 600
    assert chisquare(counts).pvalue > 1e-3


def test_uneven_sizes_are_uneven():
    sizes = [len(shard) for shard in partition(5000, 10, sizes="uneven")]
    assert max(sizes) > 2 * min(sizes)


def test_iid_is_a_uniform_shuffle():
    # each sample lands on each agent equally often over seeds
    holders = np.array([[0 in shard for shard in partition(20, 4, seed=seed)] for seed in range(800)])
    assert chisquare(holders.sum(axis=0)).pvalue > 1e-3


def test_iid_shards_have_similar_class_counts():
    counts = class_counts(partition(DIGITS, 10))
    assert counts.min() > 25  # 50 expected, standard deviation below 7
    assert counts.max() < 75


def test_ten_agents_by_label_have_one_digit_each():
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(DIGITS)
    counts = class_counts(partition(shuffled, 10, "label"), shuffled)
    np.testing.assert_array_equal(counts, 500 * np.eye(10))


def test_by_label_shards_are_contiguous_in_the_sorted_labels():
    labels = np.array([3, 1, 2, 1, 3, 2, 1])
    for sizes in ("even", "uneven"):
        joined = labels[np.concatenate(partition(labels, 3, "label", sizes=sizes))]
        assert joined.tolist() == sorted(labels.tolist())


def largest_shares(concentration):
    counts = class_counts(partition(DIGITS, 10, f"dirichlet:{concentration}"))
    return counts.max(axis=0) / counts.sum(axis=0)


def test_small_dirichlet_is_skewed_and_large_is_nearly_uniform():
    assert largest_shares(0.1).mean() > 0.5
    assert largest_shares(1000).max() < 0.12
    assert largest_shares(0.1).mean() > largest_shares(1).mean() > largest_shares(1000).mean()


def test_dirichlet_shares_have_the_variance_of_the_distribution():
    # Var p = (1/n)(1 − 1/n)/(nA + 1) for Dirichlet(A, …, A) over n agents
    agents, concentration = 5, 2.0
    shares = np.concatenate(
        [class_counts(partition(DIGITS, agents, "dirichlet:2", seed)).ravel() / 500 for seed in range(60)]
    )
    expected = (1 / agents) * (1 - 1 / agents) / (agents * concentration + 1)
    assert shares.var() == pytest.approx(expected, rel=0.1)


def test_dirichlet_repairs_empty_shards_with_one_sample_from_the_largest():
    sizes = sorted(len(shard) for shard in partition(np.zeros(30, dtype=int), 6, "dirichlet:1e-12"))
    assert sizes == [1, 1, 1, 1, 1, 25]


def test_shards_do_not_share_memory():
    one, other = partition(10, 2)
    kept = other.copy()
    one[:] = -1
    assert other.tolist() == kept.tolist()


def test_a_single_agent_has_all_samples():
    for how in KINDS:
        assert sorted(partition(DIGITS, 1, how)[0].tolist()) == list(range(5000))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"agents": 0}, r"^agents is 0, expected an integer that is at least 1"),
        ({"agents": 2.5}, r"^agents is 2\.5"),
        ({"agents": 5001}, r"^agents is 5001, expected at most 5000, the number of samples"),
        ({"how": "idd"}, r"^partition = 'idd': expected 'iid', .*did you mean 'iid'\?"),
        ({"how": "labels"}, r"did you mean 'label'\?"),
        ({"how": "IID"}, r"did you mean 'iid'\?"),
        ({"how": "dirichelet:0.5"}, r"did you mean 'dirichlet:A'\?"),
        (
            {"how": "zebra"},
            r"^partition = 'zebra': expected 'iid', 'label', 'dirichlet:A' with a number A > 0, or 'by:KEY'.*\.$",
        ),
        ({"how": None}, r"^partition = None"),
        ({"how": "dirichlet"}, r"^partition = 'dirichlet': expected 'dirichlet:A' with a finite number A > 0"),
        ({"how": "dirichlet:"}, r"finite number A > 0"),
        ({"how": "dirichlet:0"}, r"finite number A > 0"),
        ({"how": "dirichlet:-1"}, r"finite number A > 0"),
        ({"how": "dirichlet:x"}, r"finite number A > 0"),
        ({"how": "dirichlet:nan"}, r"finite number A > 0"),
        ({"how": "dirichlet:inf"}, r"finite number A > 0"),
        ({"sizes": "odd"}, r"^sizes is 'odd', expected 'even' or 'uneven'"),
        ({"seed": -1}, r"^seed is -1"),
        ({"labels": 100, "how": "label"}, r"needs labels, and there are none"),
        ({"labels": 100, "how": "dirichlet:1"}, r"needs labels"),
        ({"labels": 0}, r"^the number of samples is 0"),
        ({"labels": 7.5}, r"^the number of samples is 7\.5"),
        ({"labels": []}, r"^labels has shape \(0,\)"),
        ({"labels": np.ones((2, 2), dtype=int)}, r"^labels has shape \(2, 2\)"),
        ({"labels": [0.5, 1.0]}, r"type float64, expected a one-dimensional array"),
    ],
)
def test_bad_inputs_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        partition(**{"labels": DIGITS, "agents": 3, **arguments})
