"""Wrong arguments of the Python API: each ends with one sentence that names the argument, never with a traceback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from peerdescent import InputError, algorithms, explain, graphs, load, problems, testing, theory, train
from peerdescent.algorithms import Algorithm
from peerdescent.data import partition
from peerdescent.transforms import Transform

pytestmark = pytest.mark.usefixtures("own_cache")
INPUTS = torch.linspace(-1, 1, 80).reshape(40, 2)
TARGETS, LABELS = INPUTS.sum(1, keepdim=True), torch.arange(40) % 2
PAIRS = TensorDataset(INPUTS, TARGETS)
QUADRATIC, METHOD, PRIMAL_DUAL = (
    problems.quadratic(agents=2, dimension=3),
    algorithms.make("d-sgd-1"),
    algorithms.make("dsgpa-f"),
)


def one_sentence(call: Callable[[], object], *words: str) -> InputError:
    with pytest.raises(InputError) as raised:
        call()
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 450
    assert all(word in message for word in words), message
    return raised.value


# Models, losses and data


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)


class Failing(Net):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        raise ValueError("a bug of the user\nwith details")


class Silent(Net):
    def forward(self, inputs: torch.Tensor) -> None:
        self.layer(inputs)


class Two(Net):
    def forward(self, inputs: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        return inputs + more


class Detached(Net):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(inputs).detach()
        return result


def run(model: Any, loss: Any, data: Any = (INPUTS, TARGETS), **settings: Any) -> object:
    problem = problems.supervised(model, loss, data, agents=2)
    return train(problem, "ring:2", METHOD, **{"iterations": 3, "batch_size": 0, **settings})


MODELS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "wrong width": (nn.Linear(3, 1), ("gradient of supervised", "RuntimeError", "shapes")),
    "a failing forward": (Failing(), ("ValueError: a bug of the user",)),
    "no return": (Silent(), ("gradient of supervised", "Error")),
    "two inputs": (Two(), ("TypeError", "more")),
    "detached": (Detached(), ("does not require grad",)),
    "lazy": (nn.LazyLinear(1), ("LazyLinear", "call it once on a batch")),
    "meta": (nn.Linear(2, 1, device="meta"), ("meta device",)),
    "None": (None, ("model is None", "torch.nn.Module")),
    "a class": (nn.Linear, ("model is a type", "torch.nn.Module")),
    "a function": (torch.sin, ("torch.nn.Module",)),
}
LOSSES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a vector": (lambda outputs, targets: (outputs - targets) ** 2, ("loss returned a Tensor of shape (2, 1)",)),
    "a float": (lambda outputs, targets: 1.0, ("loss returned 1.0", "tensor with one number")),
    "None": (lambda outputs, targets: None, ("loss returned None",)),
    "no function": ("mse", ("loss is 'mse'", "function")),
    "a class": (nn.MSELoss, ("loss and data",)),
    "one argument": (lambda outputs: outputs.mean(), ("TypeError",)),
    "failing": (lambda outputs, targets: 1 / 0, ("ZeroDivisionError: division by zero",)),
    "constant": (lambda outputs, targets: torch.tensor(1.0), ("does not require grad",)),
}


@pytest.mark.parametrize("gradients", ["auto", "loop", "stacked", "measure"])
@pytest.mark.parametrize(("model", "words"), MODELS.values(), ids=MODELS)
def test_models(model: Any, words: tuple[str, ...], gradients: str) -> None:
    one_sentence(lambda: run(model, nn.functional.mse_loss, gradients=gradients), *words)


@pytest.mark.parametrize("gradients", ["auto", "loop", "stacked", "measure"])
@pytest.mark.parametrize(("loss", "words"), LOSSES.values(), ids=LOSSES)
def test_losses(loss: Any, words: tuple[str, ...], gradients: str) -> None:
    one_sentence(lambda: run(nn.Linear(2, 1), loss, gradients=gradients), *words)


def test_the_error_of_the_user_is_the_cause() -> None:
    cause = one_sentence(lambda: run(Failing(), nn.functional.mse_loss)).__cause__
    assert isinstance(cause, ValueError)
    assert str(cause) == "a bug of the user\nwith details"


@pytest.mark.parametrize("gradients", ["auto", "loop", "stacked"])
def test_labels_out_of_range(gradients: str) -> None:
    """Only one label is wrong, which no look at the first samples shows."""
    labels = LABELS.clone()
    labels[30] = 7
    one_sentence(
        lambda: run(nn.Linear(2, 2), nn.functional.cross_entropy, (INPUTS, labels), gradients=gradients),
        "supervised",
        "out of bounds",
    )


class Ragged(Dataset[Any]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> Any:
        return torch.ones(i + 1), 0


class Single(Ragged):
    def __getitem__(self, i: int) -> Any:
        return torch.tensor(1.0)


class Texts(Ragged):
    def __getitem__(self, i: int) -> Any:
        return "text", 0


class Unreadable(Ragged):
    def __getitem__(self, i: int) -> Any:
        raise OSError("the disk is gone")


class Stream(IterableDataset[Any]):
    def __init__(self, length: int = 3) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return iter([(torch.ones(2), torch.ones(1))] * self.length)


class OneShot(Stream):
    def __init__(self) -> None:
        super().__init__()
        self.samples = super().__iter__()

    def __iter__(self) -> Iterator[Any]:
        return self.samples


DATA: dict[str, tuple[Any, tuple[str, ...]]] = {
    "ragged": (Ragged(), ("sample 1 has shape (2,) and sample 0 (1,)", "equal shapes")),
    "no pairs": (Single(), ("Single has no inputs",)),
    "texts": (Texts(), ("'text'", "cannot become a tensor")),
    "unreadable": (Unreadable(), ("Unreadable cannot be read: OSError: the disk is gone",)),
    "uneven inputs": (((INPUTS, INPUTS[:3]), TARGETS), ("inputs with [40, 3] samples",)),
    "no inputs": (({}, TARGETS), ("expected (inputs, targets)",)),
    "three parts": (TensorDataset(INPUTS, INPUTS, TARGETS), ("TensorDataset of 3 tensors", "((a, b), targets)")),
    "empty stream": (Stream(0), ("the stream Stream", "empty")),
    "one-shot stream": (OneShot(), ("the stream OneShot",)),
    "None": (None, ("None", "expected (inputs, targets)")),
    "a text": ("mnist", ("'mnist'", "expected (inputs, targets)")),
    "a dict": ({"inputs": INPUTS}, ("expected (inputs, targets)",)),
    "one number": (torch.tensor(1.0), ("expected (inputs, targets)",)),
    "one tensor": (INPUTS, ("expected (inputs, targets)",)),
    "numbers": ((1.0, 2.0), ("expected (inputs, targets)",)),
    "uneven": ((INPUTS, TARGETS[:3]), ("40 inputs and 3 targets",)),
}


@pytest.mark.parametrize("argument", ["data", "test"])
@pytest.mark.parametrize(("data", "words"), DATA.values(), ids=DATA)
def test_data(data: Any, words: tuple[str, ...], argument: str) -> None:
    if argument == "test" and data is None:
        return  # no test data
    given = {"data": PAIRS, argument: data}
    one_sentence(
        lambda: problems.supervised(nn.Linear(2, 1), nn.functional.mse_loss, agents=2, **given), argument, *words
    )


# Methods of the user


@dataclass(frozen=True)
class NoReturn(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        yield s.x


@dataclass(frozen=True)
class NoYield(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        return {"x": s.x}


@dataclass(frozen=True)
class Endless(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        while True:
            yield s.x


@dataclass(frozen=True)
class NoSecondPoint(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        g = yield s.x
        yield
        return {"x": s.x - g}


@dataclass(frozen=True)
class NoState(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        g = yield s.x
        return s.x - g


@dataclass(frozen=True)
class OtherName(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        g = yield s.x
        return {"y": s.x - g}


@dataclass(frozen=True)
class NoPoint(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        g = yield
        return {"x": s.x - g}


@dataclass(frozen=True)
class Raising(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        yield s.x
        raise KeyError("a bug")


@dataclass(frozen=True)
class UnknownNumber(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        g = yield s.x
        return {"x": s.x - h.rate * g}


@dataclass(frozen=True)
class WrongShape(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        g = yield s.x
        return {"x": (s.x - g)[:1]}


@dataclass(frozen=True)
class Number(Algorithm):
    def step(self, s: Any, net: Any, h: Any) -> Any:
        yield s.x
        return {"x": 1.0}


@dataclass(frozen=True)
class Memory(Algorithm):
    def memory(self) -> Any:
        return ["v"]


@dataclass(frozen=True)
class NoStep(Algorithm):
    pass


OWN: list[tuple[type[Algorithm], tuple[str, ...]]] = [
    (NoReturn, ("step of NoReturn returns None", "returns its new state")),
    (NoYield, ("step of NoYield is no generator", "yields each point")),
    (Endless, ("step of Endless yields more than 100 times",)),
    (NoSecondPoint, ("step of NoSecondPoint yields None",)),
    (NoState, ("step of NoState returns",)),
    (OtherName, ("declares ['x'] and returns ['y']",)),
    (NoPoint, ("yields None",)),
    (Raising, ("step of Raising failed: KeyError: 'a bug'",)),
    (UnknownNumber, ("step of UnknownNumber failed: AttributeError", "rate")),
    (WrongShape, ("Tensor of shape (1, 3) for x", "(2, 3)")),
    (Number, ("1.0 for x",)),
    (Memory, ("memory of Memory is ['v']", '{"v": "zero"}')),
    (NoStep, ("NoStep does not define step",)),
]


@pytest.mark.parametrize("kernel", ["auto", "plain"])
@pytest.mark.parametrize(("kind", "words"), OWN, ids=[kind.__name__ for kind, _ in OWN])
def test_methods_of_the_user(kind: type[Algorithm], words: tuple[str, ...], kernel: str) -> None:
    one_sentence(lambda: train(QUADRATIC, "ring:2", kind(), iterations=2, kernel=kernel), *words)


@pytest.mark.parametrize("kind", [kind for kind, _ in OWN], ids=[kind.__name__ for kind, _ in OWN])
def test_theory_of_methods_of_the_user(kind: type[Algorithm]) -> None:
    one_sentence(lambda: theory.stability(kind(), "ring:4"), kind.__name__)


# Single arguments: a call that works, and values of one argument that do not

NOTHING_LIKE_IT: tuple[Any, ...] = (None, 1.5, [], object(), np.zeros((2, 3)), torch.zeros(2, 3), b"text", int)
NO_NUMBER: tuple[Any, ...] = (None, "text", float("nan"), [], {}, np.zeros((2, 3)), torch.zeros(2, 3), int)
NO_COUNT: tuple[Any, ...] = (*NO_NUMBER, -1, 1.5, True)
NO_PATH: tuple[Any, ...] = (5, [], object())
TRAIN: dict[str, Any] = {"problem": QUADRATIC, "graph": "ring:2", "algorithm": METHOD, "iterations": 1}
GRAPH = graphs.ring(4)
CALLS: dict[str, tuple[Callable[..., object], dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "train": (
        train,
        TRAIN,
        {
            "problem": NOTHING_LIKE_IT,
            "algorithm": NOTHING_LIKE_IT,
            "graph": NOTHING_LIKE_IT,
            "x0": (
                "text",
                [["a"]],
                {},
                object(),
                torch.zeros(5),
                torch.zeros(3, dtype=torch.complex64),
                [[1.0], [1.0, 2]],
            ),
            "callbacks": (None, "text", 5, [5]),
            "out": (*NO_PATH, "\0"),
            "group": (5, "text"),
            "kill": (None, 5, object()),
            "stall": (None, 5, object()),
            "on_loss": NOTHING_LIKE_IT,
            "workers": NO_COUNT,
            "iterations": NO_COUNT,
            "batch_size": NO_COUNT,
            "kernel": NOTHING_LIKE_IT,
            "laplacian": NOTHING_LIKE_IT,
        },
    ),
    "explain": (
        explain,
        {"problem": "quadratic", "graph": "ring:4", "algorithm": "d2"},
        {"problem": NOTHING_LIKE_IT, "algorithm": NOTHING_LIKE_IT},
    ),
    "load": (load, {"path": "missing"}, {"path": (None, *NO_PATH)}),
    "quadratic": (
        problems.quadratic,
        {"agents": 2, "dimension": 2},
        {
            "agents": (*NO_COUNT, 10**30),
            "dimension": (*NO_COUNT, 10**12),
            "condition": NO_NUMBER,
            "spread": NO_NUMBER,
            "noise": NO_NUMBER,
        },
    ),
    "Quadratic": (
        problems.Quadratic,
        {"A": [[1.0]] * 3, "c": [[0.0]] * 3},
        {"A": NO_NUMBER, "c": NO_NUMBER, "noise": NO_NUMBER, "start": ("text", {}, [1.0, 2.0], [[1.0], [1.0, 2.0]])},
    ),
    "Ripples": (
        problems.Ripples,
        {"agents": 2, "dimension": 2},
        {"agents": (*NO_COUNT, 10**30), "dimension": NO_COUNT, "spread": NO_NUMBER, "noise": NO_NUMBER},
    ),
    "logistic_nonconvex": (
        problems.logistic_nonconvex,
        {"agents": 2, "samples": 20, "dimension": 2},
        {
            "samples": (*NO_COUNT, 10**30),
            "dimension": (*NO_COUNT, 10**12),
            "regularisation": NO_NUMBER,
            "source": NOTHING_LIKE_IT,
            "sizes": NOTHING_LIKE_IT,
            "partition": NOTHING_LIKE_IT,
        },
    ),
    "Supervised": (
        problems.Supervised,
        {
            "model": nn.Linear(2, 1),
            "loss": nn.functional.mse_loss,
            "inputs": INPUTS,
            "targets": TARGETS,
            "shards": [np.arange(20), np.arange(20, 40)],
        },
        {
            "inputs": (None, "text", [], torch.tensor(1.0)),
            "targets": (None, "text", [], TARGETS[:3]),
            "shards": (None, "text", [], [[]], [[0.5]], [[40]], [[-1]], 5),
            "start": NOTHING_LIKE_IT,
        },
    ),
    "problems.make": (
        problems.make,
        {"name": "quadratic", "agents": 3},
        {"name": NOTHING_LIKE_IT, "agents": NO_COUNT, "partition": NOTHING_LIKE_IT, "dimension": (None, "text", 1e308)},
    ),
    "problems.register": (
        problems.register,
        {"name": "n", "make": dict},
        {"name": (None, "", [], 5), "make": (None, 5)},
    ),
    "partition": (partition, {"labels": 10, "agents": 2}, {"labels": (None, 10**30), "sizes": NOTHING_LIKE_IT}),
    "algorithms.make": (
        algorithms.make,
        {"name": "dsgpa-f-pb"},
        {
            "name": NOTHING_LIKE_IT,
            "eta": (None, "text", [], np.zeros((2, 3)), lambda: 3, lambda k: "text", -1),
            "gamma": (None, "text", [], np.zeros((2, 3)), 2),
            "power_on": NOTHING_LIKE_IT,
            "momentum": (None, "text", [], 0, 1.5),
            "dual": NOTHING_LIKE_IT,
            "transform": (None, "text", Transform),
        },
    ),
    "algorithms.register": (
        algorithms.register,
        {"name": "n", "kind": type(METHOD)},
        {"name": (None, "", [], 5), "kind": (None, "text", int, METHOD), "aliases": (None, "text", 5, [5])},
    ),
    "check_algorithm": (
        testing.check_algorithm,
        {"algorithm": METHOD, "graphs": ["ring:1"], "iterations": 1},
        {"algorithm": (*NOTHING_LIKE_IT, "d2"), "iterations": NO_COUNT, "graphs": (None, "ring:4", 5)},
    ),
    "stability": (
        theory.stability,
        {"algorithm": PRIMAL_DUAL, "graph": "ring:6"},
        {
            "algorithm": (*NOTHING_LIKE_IT, "dsgpa-f"),
            "graph": NOTHING_LIKE_IT,
            "laplacian": NOTHING_LIKE_IT,
            "mixing": NOTHING_LIKE_IT,
            "curvature": NO_NUMBER,
            "communication_period": (*NO_COUNT, 0),
            "weights": ("text", 5, np.zeros((2, 3))),
        },
    ),
    "stable_up_to": (
        theory.stable_up_to,
        {"algorithm": PRIMAL_DUAL},
        {"algorithm": (*NOTHING_LIKE_IT, "dsgpa-f"), "curvature": NO_NUMBER, "communication_period": (*NO_COUNT, 0)},
    ),
    "recursion": (
        theory.recursion,
        {"algorithm": PRIMAL_DUAL, "laplacian": 1.0, "disagreement": 0.0},
        {
            "algorithm": (*NOTHING_LIKE_IT, "dsgpa-f"),
            "laplacian": NO_NUMBER,
            "disagreement": NO_NUMBER,
            "k": ("text", -1),
        },
    ),
    "fixed_point": (
        theory.fixed_point,
        {"algorithm": PRIMAL_DUAL, "problem": QUADRATIC, "graph": "ring:2"},
        {"algorithm": (*NOTHING_LIKE_IT, "dsgpa-f"), "problem": (*NOTHING_LIKE_IT, "quadratic")},
    ),
    "theorem1_parameters": (
        theory.theorem1_parameters,
        {"graph": "ring:3", "iterations": 1000},
        {"iterations": NO_COUNT, "kappa1": ("text", [], float("nan"), 1e308)},
    ),
    "theorem1_failing": (
        theory.theorem1_failing,
        {"algorithm": PRIMAL_DUAL, "rho": 4.0, "rho2": 2.0, "n": 4, "iterations": 50},
        {
            "algorithm": NOTHING_LIKE_IT,
            "rho": NO_NUMBER,
            "rho2": (*NO_NUMBER, 0),
            "n": NO_COUNT,
            "iterations": NO_COUNT,
        },
    ),
    "corrected_lemma1_bound": (
        theory.corrected_lemma1_bound,
        {"g": [0.1], "gamma": 0.5},
        {"g": ("text", {}, [1, "a"]), "gamma": (*NO_NUMBER, -1)},
    ),
    "from_edge_list": (graphs.from_edge_list, {"text": "0-1"}, {"text": NOTHING_LIKE_IT}),
    "from_file": (graphs.from_file, {"path": "missing"}, {"path": (None, *NO_PATH)}),
    "laplacian": (graphs.laplacian, {"graph": GRAPH}, {"graph": NOTHING_LIKE_IT}),
    "mixing": (graphs.mixing, {"graph": GRAPH}, {"graph": NOTHING_LIKE_IT}),
    "spectrum": (
        graphs.spectrum,
        {"laplacian": GRAPH.laplacian(), "mixing": GRAPH.mixing()},
        {"laplacian": NOTHING_LIKE_IT, "mixing": NOTHING_LIKE_IT},
    ),
    "Graph": (graphs.Graph, {"n": 2, "edges": ((0, 1),)}, {"n": NO_COUNT, "edges": (None, "text", 5, {}, [5])}),
    "subset": (GRAPH.subset, {"agents": [0, 1]}, {"agents": (None, "text", 5, [-1, 0], [0.5], [9])}),
    "ring": (graphs.ring, {"n": 3}, {"n": NO_COUNT}),
}


@pytest.mark.parametrize(
    ("name", "argument"), [(name, argument) for name, (_, _, wrong) in CALLS.items() for argument in wrong]
)
def test_a_wrong_argument(name: str, argument: str) -> None:
    call, right, wrong = CALLS[name]
    for value in wrong[argument]:
        one_sentence(lambda: call(**{**right, argument: value}))  # noqa: B023 (called at once)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("load", "from_file")])
def test_the_right_arguments_are_accepted(name: str) -> None:
    call, right, _ = CALLS[name]
    try:
        call(**right)
    finally:
        algorithms.unregister("n")
        problems.registry._PROBLEMS.pop("n", None)
