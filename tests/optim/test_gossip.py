"""Optimizers of torch inside `Gossip`, against the same agents one after the other in one process.

The references mix agent by agent, with the weights written out.
"""

from __future__ import annotations

import functools
import pickle
import re
from typing import Any

import pytest
import torch
from tests.support import gossip_loops as loops
from tests.support import process_runs
from tests.support.gossip_loops import AGENTS, ATC, CTA, INNER, STEPS, Model
from torch import nn

from peerdescent import InputError, algorithms, train
from peerdescent.distributed.launcher import workers
from peerdescent.optim import DSGD1, Gossip, Outer

pytestmark = pytest.mark.xdist_group("optim")
NEIGHBOURS = {0: [1], 1: [0, 2], 2: [1]}
WEIGHT = 1 / 3
"""Metropolis: 1/(1 + the larger degree), and every edge of the path of three agents ends at agent 1."""
TRAINED: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}),
    ("sgd", {"order": CTA}),
    ("momentum", {"every": 2}),
    ("adam", {"every": 3, "order": CTA}),
    ("adamw", {"every": 2, "outer": "nesterov"}),
    ("adamw", {"every": 3, "outer": "heavy", "order": CTA}),
    ("adamw", {"every": 2, "outer": "nesterov", "average_every": 3}),
    ("sgd", {"every": 2, "average_every": 4, "order": CTA}),
    ("sgd", {"message_dtype": "bf16"}),
]
SIMULATED: list[dict[str, Any]] = [
    {"inner": "gossip-sgd"},
    {"inner": "gossip-adam", "order": CTA, "message_dtype": "bf16"},
    {"inner": "gossip-adamw", "every": 3},
    {"inner": "gossip-adamw", "every": 2, "order": CTA},
    {"inner": "gossip-adamw", "every": 2, "outer": Outer(0.6, 0.8)},
    {"inner": "gossip-sgd", "every": 3, "order": CTA, "outer": Outer(0.6, 0.8)},
    {"inner": "gossip-sgd", "compress": "qsgd:4", "seed": 1},
    {"inner": "gossip-sgd", "every": 2, "order": CTA, "compress": "randk:0.3", "seed": 1, "consensus_step": 0.3},
    {"inner": "gossip-adamw", "every": 3, "order": CTA, "outer": Outer(0.6, 0.8), "compress": "topk:0.2"},
]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    *(("on_the_network", options) for options in SIMULATED),
    ("muon", {}),
    *(("same_batches", {"order": order, "every": every}) for order in (ATC, CTA) for every in (1, 3)),
    ("saved", {"order": ATC, "outer": "nesterov"}),
    ("saved", {"order": CTA, "outer": "nesterov"}),
    ("saved", {"order": CTA, "outer": "none"}),
    ("saved_compressed", {"order": ATC, "graph": "path:3"}),
    ("saved_compressed", {"order": CTA, "graph": "matching:3"}),
    ("joined", {}),
    ("scaled", {}),
    ("changed", {}),
    ("unlike", {}),
    ("alone_in_average", {}),
]


@functools.cache
def found() -> list[list[Any]]:
    """All jobs in one start of the processes."""
    jobs = [("trained", {"inner": inner, **options}) for inner, options in TRAINED] + OTHERS
    with workers(AGENTS, loops.in_workers, jobs) as group:
        return loops.in_workers(group, jobs)


def results(job: str, **options: Any) -> list[Any]:
    return found()[len(TRAINED) + OTHERS.index((job, options))]


def rows(results: list[Any], key: str = "x") -> torch.Tensor:
    return torch.tensor([result[key] for result in results], dtype=torch.float64)


def mixed(x: list[torch.Tensor]) -> list[torch.Tensor]:
    return [x[i] + sum(WEIGHT * (x[j] - x[i]) for j in NEIGHBOURS[i]) for i in range(AGENTS)]


def vector(model: Model) -> torch.Tensor:
    return model.values().clone()


@torch.no_grad()
def assign(model: Model, x: torch.Tensor) -> None:
    model.A.copy_(x[:12].reshape(4, 3))
    model.b.copy_(x[12:])


def reference(inner: str, every: int = 1, order: str = ATC, outer: str = "none", average_every: int = 0) -> Any:
    """Gossip, agent by agent."""
    models = [Model(i) for i in range(AGENTS)]
    opts = [INNER[inner](model) for model in models]
    anchors = [vector(model) for model in models]
    momenta = [torch.zeros_like(a) for a in anchors]
    chosen = loops.OUTERS[outer]
    for k in range(STEPS):
        before = [vector(model) for model in models]
        for i in range(AGENTS):
            loops.step(models[i], [opts[i]], i, k)
        x = [vector(model) for model in models]
        if (k + 1) % every == 0 and chosen is None:
            x = mixed(x) if order == ATC else [w + (b - a) for w, a, b in zip(mixed(before), before, x, strict=True)]
        elif (k + 1) % every == 0:
            deltas = [a - b for a, b in zip(anchors, x, strict=True)]
            momenta = [chosen.momentum * m + d for m, d in zip(momenta, deltas, strict=True)]
            ahead = zip(momenta, deltas, strict=True)
            moves = [chosen.lr * (d + chosen.momentum * m if chosen.nesterov else m) for m, d in ahead]
            if order == ATC:
                x = mixed([a - move for a, move in zip(anchors, moves, strict=True)])
            else:
                x = [w - move for w, move in zip(mixed(anchors), moves, strict=True)]
            anchors = [a.clone() for a in x]
        if average_every and (k + 1) % average_every == 0:
            x, anchors = ([sum(v) / AGENTS] * AGENTS for v in (x, anchors))
        for model, value in zip(models, x, strict=True):
            assign(model, value)
    return torch.stack([vector(model) for model in models])


@pytest.mark.parametrize("number", [n for n, (_, options) in enumerate(TRAINED) if "message_dtype" not in options])
def test_gossip_equals_the_agents_one_by_one(number: int) -> None:
    inner, options = TRAINED[number]
    torch.testing.assert_close(rows(found()[number]), reference(inner, **options), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("options", SIMULATED, ids=str)
def test_gossip_equals_the_simulator_on_the_same_minibatches(options: dict[str, Any]) -> None:
    name, outer = options["inner"], options.get("outer")
    values: dict[str, Any] = {"eta": 0.05, "momentum": 0.9}
    if name != "gossip-sgd":
        values = {"eta": 0.01, "beta1": 0.8, "beta2": 0.95, "weight_decay": 0.1}
    if outer is not None:
        name, values = f"{name}-outer", values | {"outer_lr": outer.lr, "outer_momentum": outer.momentum}
    simulated = train(
        process_runs.network(AGENTS),
        loops.GRAPH,
        algorithms.make(name, order=options.get("order", ATC), **values),
        iterations=STEPS,
        batch_size=4,
        seed=1,
        gradients="loop",
        communication_period=options.get("every", 1),
        message_dtype=options.get("message_dtype", "same"),
        compress=options.get("compress", "none"),
        consensus_step=options.get("consensus_step"),
    )
    found = rows(results("on_the_network", **options))
    rounding = 2e-3 if "message_dtype" in options else 2e-6  # a number may fall on either side of a rounding to bf16
    torch.testing.assert_close(found, simulated.x.double(), rtol=0, atol=rounding)


def test_sgd_inside_is_w_times_x_minus_eta_g() -> None:
    W = torch.tensor([[2, 1, 0], [1, 1, 1], [0, 1, 2]], dtype=torch.float64) / 3
    models = [Model(i) for i in range(AGENTS)]
    X = torch.stack([vector(model) for model in models])
    for k in range(STEPS):
        G = []
        for i, model in enumerate(models):
            assign(model, X[i])
            gradients = torch.autograd.grad(model.loss(i, k), [model.A, model.b])
            G.append(torch.cat([g.flatten() for g in gradients]))
        X = W @ (X - 0.1 * torch.stack(G))
    torch.testing.assert_close(rows(found()[0]), X, rtol=1e-11, atol=1e-12)


def test_outer_steps_on_a_complete_graph_are_diloco() -> None:
    """W(a − ηd) with W = 1/n, from a common start, is torch's Nesterov SGD on the mean difference."""
    outer, agents = Outer(lr=0.7, momentum=0.9), range(4)
    common = nn.Parameter(torch.ones(5, dtype=torch.float64))
    diloco = torch.optim.SGD([common], lr=0.7, momentum=0.9, nesterov=True)
    anchors, momenta = [common.detach().clone() for _ in agents], [torch.zeros(5, dtype=torch.float64) for _ in agents]
    for k in range(6):
        moved = [torch.sin(anchors[i] * (i + 1) + k) for i in agents]
        common.grad = sum(common.detach() - moved[i] for i in agents) / 4
        diloco.step()
        candidates = [anchors[i] - outer.direction(anchors[i], moved[i], momenta[i]) for i in agents]
        anchors = [sum(candidates) / 4 for _ in agents]
        torch.testing.assert_close(anchors[0], common.detach())


@pytest.mark.parametrize("order", [ATC, CTA])
@pytest.mark.parametrize("every", [1, 3])
def test_agents_with_the_same_batches_are_one_adamw_bit_by_bit(order: str, every: int) -> None:
    assert all(result["equal"] for result in results("same_batches", order=order, every=every))


def test_muon_for_matrices_and_adamw_for_the_rest() -> None:
    models = [Model(i) for i in range(AGENTS)]
    opts = [[torch.optim.Muon([m.A], lr=0.05), torch.optim.AdamW([m.b], lr=0.1)] for m in models]
    for k in range(STEPS):
        before = [vector(model) for model in models]
        for i in range(AGENTS):
            loops.step(models[i], opts[i], i, k)
        x = [vector(model) for model in models]
        combined = [w + (b - a) for w, a, b in zip(mixed(before), before, x, strict=True)]
        A = mixed(x) if k % 2 == 1 else x
        b = combined if k % 3 == 2 else x
        for model, one, other in zip(models, A, b, strict=True):
            assign(model, torch.cat([one[:12], other[12:]]))
    expected = torch.stack([vector(model) for model in models])
    torch.testing.assert_close(rows(results("muon")), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("order", "outer"), [(ATC, "nesterov"), (CTA, "nesterov"), (CTA, "none")])
def test_a_saved_run_continues_bitwise(order: str, outer: str) -> None:
    for result in results("saved", order=order, outer=outer):
        assert result["whole"] == result["continued"]


@pytest.mark.parametrize(("order", "graph"), [(ATC, "path:3"), (CTA, "matching:3")])
def test_copies_are_saved(order: str, graph: str) -> None:
    for result in results("saved_compressed", order=order, graph=graph):
        assert result["whole"] == result["continued"]
        assert result["sentence"].startswith("the state to load is of another optimizer")


def test_only_trainable_parameters_travel() -> None:
    degrees, vector_bytes = [1, 2, 1], 15 * 8
    for number, exchanges, size in ((0, STEPS, 1), (1, STEPS + 1, 1), (2, STEPS // 2, 1), (8, STEPS, 0.25)):
        expected = [degree * vector_bytes * exchanges * size for degree in degrees]
        assert [result["bytes"] for result in found()[number]] == expected
        assert [result["base"] for result in found()[number]] == [0, 1, 2]
    means = 2 * vector_bytes * 2 / 3 * (1 + 2)  # one at an exchange, one between two: parameters and anchors
    assert [result["bytes"] for result in found()[6]] == [degree * vector_bytes * 3 + means for degree in degrees]


def test_rounded_messages_keep_the_mean() -> None:
    exact, rounded = rows(found()[0]), rows(found()[8])
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0.03)
    assert not torch.allclose(rounded, exact, atol=1e-6)
    torch.testing.assert_close(rounded.mean(dim=0), exact.mean(dim=0), rtol=1e-12, atol=1e-12)


def test_finished_processes_go_on_mixing_and_the_mean_is_permanent() -> None:
    models = [Model(i) for i in range(AGENTS)]
    opts = [INNER["adamw"](model) for model in models]
    for k in range(6):
        for i in range(AGENTS):
            if k < 2 + 2 * i:
                loops.step(models[i], [opts[i]], i, k)
        for model, x in zip(models, mixed([vector(model) for model in models]), strict=True):
            assign(model, x)
    expected, joined = torch.stack([vector(model) for model in models]), results("joined")
    assert [result["steps"] for result in joined] == [6] * AGENTS
    torch.testing.assert_close(rows(joined, "before"), expected, rtol=1e-11, atol=1e-12)
    assert torch.equal(rows(joined, "after"), rows(joined, "before"))
    for key in ("within", "for good"):
        torch.testing.assert_close(rows(joined, key), expected.mean(dim=0).expand(3, -1), rtol=1e-11, atol=1e-12)


def test_all_skip_the_step_that_overflows_in_one() -> None:
    models = [Model(i) for i in range(AGENTS)]
    opts = [INNER["adamw"](model) for model in models]
    for k in range(STEPS):
        if k != 2:
            for i in range(AGENTS):
                loops.step(models[i], [opts[i]], i, k)
            for model, x in zip(models, mixed([vector(model) for model in models]), strict=True):
                assign(model, x)
        for opt in opts:
            for group in opt.param_groups:
                group["lr"] *= 0.9
    scaled = results("scaled")
    torch.testing.assert_close(rows(scaled), torch.stack([vector(m) for m in models]), rtol=1e-11, atol=1e-12)
    assert [result["scale"] for result in scaled] == [4.0] * AGENTS
    assert [result["lr"] for result in scaled] == pytest.approx([0.1 * 0.9**STEPS] * AGENTS)


def test_restart_sends_the_new_parameters() -> None:
    models = [Model(i) for i in range(AGENTS)]
    for i, model in enumerate(models):
        model.b.data.fill_(5.0 * i)
    before = [vector(model) for model in models]
    for i, model in enumerate(models):
        loops.step(model, [INNER["sgd"](model)], i, 0)
    after = [vector(model) for model in models]
    expected = [w + (b - a) for w, a, b in zip(mixed(before), before, after, strict=True)]
    torch.testing.assert_close(rows(results("changed")), torch.stack(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        ("unlike", r"process 1 on \S+ differs .* option every \(2"),
        ("alone_in_average", r"process 0 stopped after step 2 \(it called average\(\)\) while process.* called step"),
    ],
)
def test_processes_that_differ_are_refused(job: str, sentence: str) -> None:
    for text in results(job):
        assert isinstance(text, str), f"{job} ended without a refusal: {text}"
        assert re.search(sentence, text), text


def alone(**options: Any) -> tuple[Model, Gossip]:
    model = Model(0)
    return model, Gossip(INNER["adamw"](model), "ring:1", **options)


def test_it_is_an_optimizer_of_torch_with_the_inner_groups() -> None:
    model, opt = alone()
    assert isinstance(opt, torch.optim.Optimizer)
    assert opt.param_groups is opt.inner.param_groups
    assert opt.state is opt.inner.state
    called = []
    opt.register_step_post_hook(lambda *_: called.append(1))

    def closure() -> torch.Tensor:
        opt.zero_grad()
        loss = model.loss(0, 0)
        loss.backward()
        return loss

    loss: Any = opt.step(closure)
    assert loss.item() == Model(0).loss(0, 0).item()
    assert called == [1]
    opt.load_state_dict(opt.state_dict())
    assert opt.param_groups is opt.inner.param_groups
    assert opt.steps == 1


def test_a_pickled_optimizer_goes_on() -> None:
    model, opt = alone(every=3, outer=Outer(), order=CTA)
    for k in range(4):
        loops.step(model, [opt], 0, k)
    again, its = pickle.loads(pickle.dumps((model, opt)))
    assert its.inner is not opt.inner
    assert its.steps == 4
    for k in range(4, 8):
        loops.step(model, [opt], 0, k)
        loops.step(again, [its], 0, k)
    assert torch.equal(model.values(), again.values())


@pytest.mark.parametrize("order", [ATC, CTA])
def test_a_single_agent_is_its_inner_optimizer(order: str) -> None:
    model, opt = alone(order=order)
    other = Model(0)
    plain = INNER["adamw"](other)
    for k in range(4):
        step_both = ((model, opt), (other, plain))
        for one, its in step_both:
            loops.step(one, [its], 0, k)
    assert torch.equal(model.values(), other.values())


def test_replaced_values_are_used_and_another_dtype_is_refused() -> None:
    model, opt = alone()
    model.b.data = torch.zeros(3, dtype=torch.float64)
    loops.step(model, [opt], 0, 0)
    assert model.b.abs().max().item() == pytest.approx(0.1)
    model.float()
    for act in (opt.step, opt.average, opt.averaged().__enter__, opt.restart):
        with pytest.raises(InputError, match=r"parameter 1 is now \(4, 3\) of torch.float32 .* new optimizer"):
            act()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: Gossip(torch.optim.SGD(p, lr=0.1), "ring:3"), "3 agents and there is 1 process"),
        (lambda p: Gossip(torch.optim.SGD(p, lr=0.1), "ring:1", every=0), "every"),
        (lambda p: Gossip(torch.optim.SGD(p, lr=0.1), "ring:1", average_every=0), "average_every"),
        (lambda p: Gossip(torch.optim.SGD(p, lr=0.1), "ring:1", order="both"), "adapt-then-combine, combine"),
        (lambda p: Gossip(torch.optim.SGD(p, lr=0.1), "ring:1", outer=0.7), "Outer"),
        (lambda p: Gossip(torch.optim.SGD(p, lr=0.1), "ring:1", message_dtype="int4"), "same, bf16"),
        (lambda p: Gossip(torch.optim.SGD(p, lr=0.1), "ring:1", compress="topk:2"), "a share of the entries"),
        (
            lambda p: Gossip(torch.optim.SGD(p, lr=0.1), "ring:1", compress="sign", message_dtype="bf16"),
            "both decide how messages",
        ),
        (lambda p: Gossip(torch.optim.SGD(p, lr=0.1), "ring:1", seed=-1), "seed"),
        (lambda p: Gossip(torch.optim.LBFGS(p), "ring:1"), "LBFGS evaluates the loss several times"),
        (lambda p: Gossip(p, "ring:1"), "inner is"),
        (lambda p: Gossip(DSGD1(p, "ring:1"), "ring:1"), "inner is"),
        (lambda p: Outer(lr=0.0), "positive"),
        (lambda p: Outer(momentum=1.0), r"\[0, 1\)"),
        (lambda p: alone()[1].add_param_group({"params": p}), "new optimizer"),
        (lambda p: alone()[1].load_state_dict(torch.optim.SGD(p, lr=0.1).state_dict()), "another optimizer"),
    ],
)
def test_wrong_input_is_one_sentence(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        make(list(nn.Linear(2, 1).parameters()))
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_a_group_added_to_the_inner_optimizer_is_noticed() -> None:
    model, opt = alone()
    opt.inner.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    with pytest.raises(InputError, match="added later"):
        opt.step()
    assert model.base[0] == 0
