"""Modules of every kind: gradients and buffers are those of plain PyTorch, whichever way they are computed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from peerdescent import InputError, train
from peerdescent.problems import Supervised, supervised
from peerdescent.problems.base import buffers_of

CPU = torch.device("cpu")
TOKENS, LENGTH = 7, 4


class Model(nn.Module):
    """Layers and a function of the model and its input."""

    def __init__(
        self, forward: Callable[[Any, torch.Tensor], torch.Tensor], **layers: nn.Module | torch.Tensor
    ) -> None:
        super().__init__()
        self.compute = forward
        for name, layer in layers.items():
            if isinstance(layer, nn.Module):
                self.add_module(name, layer)
            else:
                self.register_buffer(name, layer)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.compute(self, inputs)


def tied() -> nn.Module:
    """A language model: embedding and output share one parameter, the causal mask is a constant buffer."""
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    model = Model(
        lambda m, t: m.out(m.encoder(m.embed(t), mask=m.mask)).transpose(1, 2),
        embed=nn.Embedding(TOKENS, 8),
        encoder=nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
        out=nn.Linear(8, TOKENS),
        mask=mask,
    )
    model.out.weight = model.embed.weight
    return model


def frozen() -> nn.Module:
    """A part that is not trained, with BatchNorm in eval mode: its statistics stay as they are."""
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2))
    for part in model[:2]:
        part.requires_grad_(False)
    model[1].running_mean.uniform_()
    model[1].eval()
    return model


def moving_average() -> nn.Module:
    """A buffer that forward assigns, attached to the graph, and another one that it changes in place."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(m.first(x))
        m.mean = 0.9 * m.mean.detach() + 0.1 * h.mean(0)
        m.calls += 1
        return m.last(h - m.mean)

    layers = {"first": nn.Linear(3, 5), "last": nn.Linear(5, 2)}
    return Model(forward, **layers, mean=torch.zeros(5), calls=torch.tensor(0))


def recomputing() -> nn.Module:
    """Activations are computed again in the backward pass."""
    return Model(
        lambda m, x: m.last(checkpoint(lambda z: torch.tanh(m.first(z)), x, use_reentrant=False)),
        first=nn.Linear(3, 5),
        last=nn.Linear(5, 2),
    )


def remembering() -> nn.Module:
    """It leaves its last activations in an attribute, as many models do for plots."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        m.seen = torch.tanh(m.first(x))
        return m.last(m.seen)

    return Model(forward, first=nn.Linear(3, 5), last=nn.Linear(5, 2))


def lazy_mask() -> nn.Module:
    """A buffer that the first call creates and later calls use."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        if m.scale is None:
            m.scale = torch.arange(x.shape[1], dtype=x.dtype)
        return m.last(x * m.scale)

    model = Model(forward, last=nn.Linear(3, 2))
    model.register_buffer("scale", None)
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "tied": tied,
    "frozen": frozen,
    "moving_average": moving_average,
    "recomputing": recomputing,
    "remembering": remembering,
    "lazy_mask": lazy_mask,
    "lstm": lambda: Model(lambda m, t: m.out(m.lstm(m.embed(t))[0]).transpose(1, 2), embed=nn.Embedding(TOKENS, 3),
                          lstm=nn.LSTM(3, 4, batch_first=True), out=nn.Linear(4, TOKENS)),
    "batch_norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)),
    "cumulative": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 2)),
    "instance_norm": lambda: nn.Sequential(nn.Unflatten(1, (1, 3)), nn.InstanceNorm1d(1, track_running_stats=True),
                                           nn.Flatten(), nn.Linear(3, 2)),
    "spectral_norm": lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(3, 4)), nn.Linear(4, 2)),
    "weight_norm": lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2)),
}  # fmt: skip
CHANGES = {
    "moving_average": {"mean", "calls"},
    "batch_norm": {f"1.{kind}" for kind in ("running_mean", "running_var", "num_batches_tracked")},
    "cumulative": {f"1.{kind}" for kind in ("running_mean", "running_var", "num_batches_tracked")},
    "instance_norm": {f"1.{kind}" for kind in ("running_mean", "running_var", "num_batches_tracked")},
    "spectral_norm": {"0.parametrizations.weight.0._u", "0.parametrizations.weight.0._v"},
}
every_model = pytest.mark.parametrize("name", MODELS)


def made(name: str) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return MODELS[name]()


def problem(name: str, agents: int = 2, **options: Any) -> Supervised:
    random = torch.Generator().manual_seed(1)
    if name in ("tied", "lstm"):
        tokens = torch.randint(0, TOKENS, (6 * agents, LENGTH), generator=random)
        data = tokens, tokens.roll(-1, dims=1)
    else:
        data = torch.randn(6 * agents, 3, generator=random), torch.arange(6 * agents) % 2
    return supervised(made(name), nn.functional.cross_entropy, data, agents=agents, **options)


def plainly(module: nn.Module, given: Supervised, x: torch.Tensor, agent: int, calls: int) -> torch.Tensor:
    """The gradient of the last of some calls on an agent's shard, by backward(); the module keeps its buffers."""
    inputs, targets = given.shard(agent)
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    nn.utils.vector_to_parameters(x, trained)
    for _ in range(calls):
        module.zero_grad()
        nn.functional.cross_entropy(module(inputs), targets).backward()
    return torch.cat([parameter.grad.flatten() for parameter in trained])  # type: ignore[union-attr]


@every_model
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.e2e)])
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_gradients_and_buffers_are_those_of_plain_torch(name: str, dtype: torch.dtype) -> None:
    given = problem(name).to(CPU, dtype)
    points = torch.stack([given.start(0)[0], 1.5 * given.start(0)[1]])
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-11}
    modules = [made(name).to(dtype) for _ in points]
    expected = torch.stack([plainly(modules[i], given, points[i], i, calls=3) for i in range(2)])
    for strategy in ["loop"] if name in {*CHANGES, "recomputing"} else ["loop", "stacked"]:
        oracle, out = given.oracle(None, 0, True, range(2), strategy), torch.empty_like(points)
        for k in range(3):
            oracle(points, k, out)
        torch.testing.assert_close(out, expected, **tolerance)
    rows = buffers_of(oracle)
    assert set(rows) == CHANGES.get(name, set())
    for i, module in enumerate(modules):
        buffers = dict(module.named_buffers())
        for key, row in rows.items():
            torch.testing.assert_close(row[i], buffers[key].detach(), **tolerance)
    view = given.with_buffers({key: row[1] for key, row in rows.items()})
    model = view.model(points[1])
    found, wanted = model.eval()(given.inputs), modules[1].eval()(given.inputs)
    torch.testing.assert_close(found, wanted, **tolerance)
    assert len(list(model.parameters())) == len(list(modules[1].parameters()))  # what is tied stays tied


@every_model
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_every_model_trains(name: str) -> None:
    given = problem(name)
    before = copy.deepcopy(given._pristine.state_dict())
    result = train(given, "ring:2", "d-sgd-1", iterations=6, batch_size=3, eval_every=3, kernel="plain")
    assert result.metrics[-1]["loss"] < result.metrics[0]["loss"]
    state = result.model().state_dict()
    assert result.x.isfinite().all()
    if name == "frozen":
        assert all(torch.equal(state[key], before[key]) for key in before if key[0] in "01")
    assert all(torch.equal(value, before[key]) for key, value in given._pristine.state_dict().items())


def test_new_parameters_for_each_agent_reach_attention() -> None:
    """Its layer resets itself by a method of another name."""
    given = problem("tied", start="independent")
    one, other = (given.unflatten(row) for row in given.start(0))
    fixed = {name for name in one if torch.equal(one[name], other[name])}
    assert all(name.endswith("bias") or "norm" in name for name in fixed)
    assert "encoder.layers.0.self_attn.in_proj_weight" not in fixed


def test_new_running_statistics_for_each_agent() -> None:
    model = made("batch_norm")
    model[1].running_mean.fill_(3.0)  # type: ignore[index]
    given, data = problem("batch_norm"), problem("batch_norm")
    for start, mean in (("shared", 3.0), ("independent", 0.0)):
        given = supervised(model, nn.functional.cross_entropy, (data.inputs, data.targets), agents=2, start=start)
        assert given.initial_buffers(0)["1.running_mean"].tolist() == [[mean] * 4] * 2


class Changing(nn.Module):
    """A buffer that some calls replace."""

    def __init__(self, change: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
        super().__init__()
        self.last, self.change, self.calls = nn.Linear(3, 2), change, 0
        self.register_buffer("held", torch.zeros(2))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.held = self.change(self.held, self.calls)
        result: torch.Tensor = self.last(inputs)
        return result


def growing(held: torch.Tensor, call: int) -> torch.Tensor:
    return torch.cat([held, held[:1]])


def late(held: torch.Tensor, call: int) -> torch.Tensor:
    return held + 1 if call > 20 else held


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (growing, r"'held' of the model Changing is float32\[2\] at first and float32\[4\] after a forward pass"),
        (late, "'held' of the model Changing has changed, but not in the first two forward passes"),
    ],
)
def test_buffers_that_cannot_belong_to_agents_are_refused(change: Any, words: str) -> None:
    data = torch.randn(8, 3), torch.arange(8) % 2
    given = supervised(Changing(change), nn.functional.cross_entropy, data, agents=2)
    with pytest.raises(InputError, match=words):
        train(given, "ring:2", "d-sgd-1", iterations=20, batch_size=2, kernel="plain", gradients="loop")


def test_layers_that_need_other_agents_are_refused() -> None:
    data = torch.randn(8, 3), torch.arange(8) % 2
    with pytest.raises(InputError, match=r"layer '1' is a SyncBatchNorm.*use BatchNorm"):
        supervised(nn.Sequential(nn.Linear(3, 2), nn.SyncBatchNorm(2)), nn.functional.cross_entropy, data, agents=2)
    lazy = nn.Sequential(nn.Linear(3, 2), nn.LazyBatchNorm1d(affine=False))
    with pytest.raises(InputError, match="lazy layers without shapes"):
        supervised(lazy, nn.functional.cross_entropy, data, agents=2)


def test_stacking_agents_with_running_statistics_is_refused() -> None:
    given = problem("batch_norm")
    assert given.preferred_strategy() == ("loop", "the forward pass changes buffers of the model")
    with pytest.raises(InputError, match=r"'stacked': the model Sequential changes its buffers.*gradients=loop"):
        train(given, "ring:2", "d-sgd-1", iterations=2, gradients="stacked")
    with pytest.raises(InputError, match=r"buffers has \{'a': \(2,\)\}; expected what the model Sequential changes"):
        given.with_buffers({"a": torch.zeros(2)})
