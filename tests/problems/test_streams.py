"""IterableDatasets: who reads which samples, what happens at the end, and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.support.datasets import Counting, NoisyStream, net, tensors
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from peerdescent import InputError, Result, train
from peerdescent.data.shards import Draw
from peerdescent.problems import supervised
from peerdescent.problems.given_data import as_shards

pytestmark = pytest.mark.usefixtures("own_cache")
LOSS = nn.functional.cross_entropy


def run(data: Any, agents: int = 3, evaluated: int = 9, **settings: Any) -> Result:
    problem = supervised(net(), LOSS, data, agents, evaluated=evaluated)
    return train(
        problem, f"ring:{agents}", "d-sgd-1", **{"iterations": 6, "batch_size": 4, "kernel": "plain", **settings}
    )


@hypothesis_settings(max_examples=40)
@given(
    agents=st.integers(1, 5),
    batch=st.integers(1, 4),
    length=st.one_of(st.none(), st.integers(1, 20)),
    order=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    hosted=st.integers(0, 4),
    each=st.booleans(),
)
def test_positions(agents: int, batch: int, length: int | None, order: list[int], hosted: int, each: bool) -> None:
    """Sample j of agent i is element j of its stream, or i + jn of the stream for all, repeated end to end."""
    data = as_shards([Counting(length, 100.0 * i) for i in range(agents)] if each else Counting(length), agents)
    block = range(min(hosted, agents - 1), agents)
    batches = data.batches(Draw(batch, 0, True, block, range(agents), False))
    for k in order:  # also back, as after the loss of a process
        inputs, _ = batches.of(k)
        for place, agent in enumerate(block):
            counted = [k * batch + j for j in range(batch)]
            wanted = [p if each else agent + p * agents for p in counted]
            wanted = [p if length is None else p % length for p in wanted]
            offset = 100.0 * agent if each else 0.0
            assert inputs[place][:, 0].tolist() == [offset + p for p in wanted]


def test_one_stream_dealt_is_one_stream_for_each() -> None:
    class Every(IterableDataset[Any]):
        def __init__(self, agent: int) -> None:
            self.agent = agent

        def __iter__(self) -> Any:
            return (sample for i, sample in enumerate(Counting(30)) if i % 3 == self.agent)

    dealt, own = run(Counting(30)), run([Every(i) for i in range(3)])
    assert torch.equal(dealt.x, own.x)
    assert dealt.metrics[-1]["loss"] == own.metrics[-1]["loss"]


@pytest.mark.parametrize(
    ("data", "gradients"),
    [(NoisyStream(), "stacked"), ([NoisyStream() for _ in range(3)], "loop")],
    ids=["dealt", "own"],
)
def test_noise_and_shuffling_follow_the_seed_and_resume_bitwise(data: Any, gradients: str, tmp_path: Path) -> None:
    whole = run(data, gradients=gradients, iterations=11)
    assert torch.equal(whole.x, run(data, gradients=gradients, iterations=11).x)
    assert not torch.equal(whole.x, run(data, gradients=gradients, iterations=11, seed=1).x)
    run(data, gradients=gradients, iterations=7, out=tmp_path / "a")
    resumed = run(data, gradients=gradients, iterations=11, out=tmp_path / "a", resume=True)
    assert torch.equal(whole.x, resumed.x)


def test_noise_does_not_depend_on_who_is_hosted() -> None:
    for data in (NoisyStream(), [NoisyStream() for _ in range(3)]):
        sharded = as_shards(data, 3)
        every = sharded.batches(Draw(4, 0, True, range(3), range(3), False)).of(5)
        last = sharded.batches(Draw(4, 0, True, range(2, 3), range(3), False)).of(5)
        survivors = sharded.subset([0, 2]).batches(Draw(4, 0, True, range(1, 2), (0, 2), False)).of(5)
        assert torch.equal(every[0][2], last[0][0])
        assert torch.equal(every[0][2], survivors[0][0])


def test_f_is_evaluated_on_the_first_samples_of_each_agent() -> None:
    problem = supervised(net(), LOSS, Counting(), agents=2, evaluated=6)
    stream = Counting(6)
    inputs, labels = (torch.stack([torch.as_tensor(sample[part]) for sample in stream]) for part in (0, 1))
    expected = float(LOSS(net()(inputs), labels).detach())
    assert problem.loss(problem.start(0)[0]) == pytest.approx(expected, rel=1e-6)


def test_a_loader_of_a_stream_gives_batches_by_its_collate_fn() -> None:
    def doubled(samples: list[Any]) -> Any:
        return torch.stack([2 * a for a, _ in samples]), torch.tensor([b for _, b in samples])

    data = as_shards(DataLoader(Counting(), batch_size=3, collate_fn=doubled), 1)
    assert data.batch_size == 3
    inputs, _ = data.batches(Draw(3, 0, True, range(1), range(1), False)).of(1)
    assert inputs[0][:, 0].tolist() == [6.0, 8.0, 10.0]


class Finite(Counting):
    def __len__(self) -> int:
        return 12


def test_a_stream_with_a_length_is_test_data() -> None:
    problem = supervised(net(), LOSS, tensors(), agents=2, test=Finite(12))
    inputs, labels = (torch.stack([torch.as_tensor(sample[part]) for sample in Finite(12)]) for part in (0, 1))
    x = problem.start(0)[0]
    assert problem.accuracy(x) == float((net()(inputs).argmax(1) == labels).double().mean())
    with pytest.raises(InputError, match="Counting without a length"):
        supervised(net(), LOSS, tensors(), agents=2, test=Counting(12))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partition": "iid"}, "data is a stream, which agents read in turn, so partition would have no effect"),
        ({"sizes": "uneven", "seed": 1}, "sizes and seed would have no effect"),
        ({"shards": [[0], [1]]}, "shards would have no effect"),
        ({"evaluated": 0}, "evaluated = 0: the data are streams"),
        ({"agents": 0}, "agents"),
    ],
)
def test_what_a_stream_cannot_do(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        supervised(net(), LOSS, Counting(), **{"agents": 2, **options})


def test_a_stream_has_no_exact_gradients() -> None:
    with pytest.raises(InputError, match="batch_size = 0: the data are streams, which have no whole shards"):
        run(Counting(), batch_size=0)


class Failing(Counting):
    def __iter__(self) -> Any:
        for i, sample in enumerate(super().__iter__()):
            if i == 14:
                raise OSError("the connection is gone")
            yield sample


def test_a_stream_that_breaks_is_one_sentence() -> None:
    with pytest.raises(InputError, match="the stream Failing cannot be read: OSError: the connection is gone"):
        run(Failing(), evaluated=3)
