"""How a problem prefers to compute its gradients: by rule, never by timing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from peerdescent import train
from peerdescent.problems import MnistNN, Problem, Ripples, logistic_nonconvex, quadratic, supervised

pytestmark = pytest.mark.usefixtures("own_cache")


def of(module: nn.Module, *shape: int, agents: int = 2, **options: str) -> Problem:
    inputs = torch.randn(40, *shape, generator=torch.Generator().manual_seed(0))
    data = inputs, torch.arange(40) % 2
    return supervised(module, nn.functional.cross_entropy, data, agents=agents, **options)


class Branching(nn.Module):
    """Its branch depends on values, which vmap cannot trace."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        return y if float(y.detach().sum()) > 0 else 2 * y


@pytest.mark.parametrize("problem", [quadratic(agents=3), Ripples(agents=3)])
def test_a_problem_with_one_strategy_prefers_it(problem: Problem) -> None:
    assert problem.preferred_strategy() == ("stacked", "the only way")


@pytest.mark.parametrize("problem", [MnistNN(agents=3), logistic_nonconvex(agents=3, samples=30)])
def test_gradients_written_by_hand_are_stacked(problem: Problem) -> None:
    assert problem.preferred_strategy() == ("stacked", "written by hand")


def test_a_module_is_stacked_by_vmap() -> None:
    assert of(nn.Linear(2, 2), 2).preferred_strategy() == ("stacked", "vmap over the agents")
    assert of(nn.Linear(2, 2), 2, agents=1).preferred_strategy()[0] == "stacked"
    assert of(nn.Linear(2, 2), 2, agents=40).preferred_strategy()[0] == "stacked"  # one sample each
    double = of(nn.Linear(2, 2), 2).to(torch.device("cpu"), torch.float64)
    assert double.preferred_strategy()[0] == "stacked"


def test_layers_that_need_two_samples_are_stacked_too() -> None:
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2))
    assert of(net, 2).preferred_strategy()[0] == "stacked"


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)), (1, 4, 4)),
        (nn.Sequential(nn.Sequential(nn.Conv1d(1, 2, 3)), nn.Flatten(), nn.Linear(4, 2)), (1, 4)),
        (nn.Sequential(nn.ConvTranspose1d(1, 1, 1), nn.Flatten(), nn.Linear(4, 2)), (1, 4)),
    ],
)
def test_convolutions_are_looped(net: nn.Module, shape: tuple[int, ...]) -> None:
    assert of(net, *shape).preferred_strategy() == ("loop", "convolutions are faster agent by agent")


def test_a_module_that_vmap_cannot_run_is_looped() -> None:
    problem = of(Branching(), 2)
    strategy, reason = problem.preferred_strategy()
    assert strategy == "loop"
    assert reason.startswith("vmap fails: ")
    assert 20 < len(reason) < 120
    assert "\n" not in reason
    assert train(problem, "ring:2", "d-sgd-1", iterations=5, batch_size=5).gradients.startswith("loop")


def test_the_answer_depends_on_nothing_but_the_problem() -> None:
    problem, before = of(Branching(), 2), torch.get_rng_state()
    assert len({problem.preferred_strategy() for _ in range(3)}) == 1
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(problem.start(0), problem.start(0))


@pytest.mark.parametrize("width", [3, 5, 13, 37])
def test_agents_have_the_same_gradients_in_any_block(width: int) -> None:
    """In memory, the rows and samples of an agent begin where the agents before it end."""
    torch.manual_seed(width)
    module = nn.Sequential(nn.Linear(width, width + 2), nn.Tanh(), nn.Linear(width + 2, 2))
    check_blocks(of(module, width, agents=5))
    check_blocks(logistic_nonconvex(agents=5, samples=100, dimension=width))


def check_blocks(problem: Problem) -> None:
    points = problem.start(0) + 0.1 * torch.randn(5, problem.dimension)
    every = torch.empty_like(points)
    for batch_size in (1, 3, 7, None):
        problem.oracle(batch_size, 0, True, range(5), "loop")(points, 0, every)
        for first in range(1, 5):
            own, out = points[first:].clone(), torch.empty_like(points[first:])
            problem.oracle(batch_size, 0, True, range(first, 5), "loop")(own, 0, out)
            assert torch.equal(out, every[first:]), (batch_size, first)
