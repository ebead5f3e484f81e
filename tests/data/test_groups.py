"""Natural partitions: whole groups stay at one agent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent.data import partition
from peerdescent.errors import InputError

JOBS = {"job": np.array(["cook"] * 5 + ["baker"] * 3 + ["nurse"] * 2), "sex": ["f", "m"] * 5}


def test_as_many_groups_as_agents_give_one_to_each_largest_first():
    shards = partition(10, 3, "by:job", groups=JOBS)
    assert [sorted(shard.tolist()) for shard in shards] == [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9]]
    assert {i % 2 for i in partition(10, 2, "by:sex", groups=JOBS)[0]} == {0}


def test_the_order_within_a_shard_is_a_function_of_the_seed():
    first, again, other = (partition(10, 2, "by:job", seed, groups=JOBS)[0].tolist() for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(first) == sorted(other)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=80), st.integers(1, 13), st.integers(0, 5))
def test_every_sample_once_and_every_group_whole(groups, agents, seed):
    known = len(set(groups))
    if agents > known:
        with pytest.raises(InputError, match=rf"there are only {known} groups for|no shard may be empty"):
            partition(len(groups), agents, "by:x", seed, groups={"x": groups})
        return
    shards = partition(len(groups), agents, "by:x", seed, groups={"x": groups})
    assert sorted(np.concatenate(shards).tolist()) == list(range(len(groups)))
    held = [{groups[i] for i in shard} for shard in shards]
    assert all(held)
    assert sum(map(len, held)) == known
    # as balanced as groups that are given to the emptiest agent can be: no agent exceeds another by more than a group
    largest = max(groups.count(group) for group in set(groups))
    assert max(map(len, shards)) - min(map(len, shards)) <= largest


@pytest.mark.parametrize(
    ("how", "groups", "message"),
    [
        ("by:jbo", JOBS, r"partition = 'by:jbo': these data have no 'jbo' \(did you mean 'job'\?\): .*by job, sex\.$"),
        ("by:job", None, r"no 'job' and no other groups; use iid, label or dirichlet:A\.$"),
        ("by:job", {"job": ["a"] * 9}, "have 9 members, expected one for each of 10 samples"),
        ("by:", JOBS, "partition = 'by:': expected"),
    ],
)
def test_wrong_keys_are_one_sentence(how, groups, message):
    with pytest.raises(InputError, match=message):
        partition(10, 2, how, groups=groups)
