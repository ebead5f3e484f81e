"""Data that are read as needed, in several processes: the trajectory of one process, also after a lost one."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from tests.support.datasets import FEATURES, Augmented, MaskedMean, NoisyStream, Plain, Sequences, padded
from torch import nn
from torch.utils.data import DataLoader

from peerdescent import InputError, Result, train
from peerdescent.problems import supervised

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("own_cache")]
LOSS = nn.functional.cross_entropy


def run(data: Any, model: nn.Module | None = None, **settings: Any) -> Result:
    torch.manual_seed(0)
    agents = None if isinstance(data, list) else 4
    problem = supervised(model or nn.Linear(FEATURES, 4), LOSS, data, agents, evaluated=8)
    chosen = {"iterations": 12, "eval_every": 6, "batch_size": 4, "gradients": "loop", **settings}
    return train(problem, "ring:4", "d-sgt-1", **chosen)


FORMS: dict[str, Any] = {
    "augmented": Augmented(),
    "one for each": [Augmented(), Plain(), Augmented(), Plain()],
    "stream": NoisyStream(),
    "streams": [NoisyStream() for _ in range(4)],
}


@pytest.mark.parametrize("form", FORMS)
def test_two_processes_are_one(form: str) -> None:
    alone, together = run(FORMS[form]), run(FORMS[form], workers=2)
    assert together.processes == 2
    assert torch.equal(alone.x, together.x)
    assert [row["agent_loss"] for row in alone.metrics] == [row["agent_loss"] for row in together.metrics]


def test_a_collate_fn_travels() -> None:
    loader = DataLoader(Sequences(), batch_size=4, shuffle=True, collate_fn=padded)
    model = MaskedMean()
    torch.testing.assert_close(run(loader, model).x, run(loader, model, workers=2).x, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("form", ["augmented", "stream"])
def test_the_agents_that_are_left_keep_their_samples(form: str) -> None:
    settings = {"on_loss": "continue", "kill": ["3@5"], "workers": 2}
    first, second = run(FORMS[form], **settings), run(FORMS[form], **settings)
    assert first.lost == (2, 3)
    assert torch.isfinite(first.x).all()
    assert torch.equal(first.x, second.x)


class Locked(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Odd(Plain):
    def __reduce__(self) -> Any:
        raise RuntimeError("this data set stays where it is")


@pytest.mark.parametrize(("data", "words"), [(Locked(), "lock"), (Odd(), "stays where it is")])
def test_a_data_set_that_cannot_be_sent_is_one_sentence(data: Any, words: str) -> None:
    with pytest.raises(InputError, match=f"cannot be sent to other processes .*{words}") as raised:
        run(data, workers=2)
    assert "\n" not in str(raised.value)
