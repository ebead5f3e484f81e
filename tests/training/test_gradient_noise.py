"""Noise on gradients: its distributions, that it is a function of (seed, agent, iteration), and wrong texts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from peerdescent import InputError, Settings, train
from peerdescent.data import stream
from peerdescent.problems import Quadratic
from peerdescent.training.gradient_noise import MOST_AT_ONCE, GradientNoise, noisy

DISTRIBUTIONS = {
    "gaussian": scipy.stats.norm(),
    "student-t:1.5": scipy.stats.t(1.5),
    "exponential": scipy.stats.expon(loc=-1),
    "pareto:1.6": scipy.stats.pareto(1.6, loc=-1.6 / 0.6),
    "pareto:3:0.1": scipy.stats.pareto(3, loc=-0.15, scale=0.1),
    "student-t:3:2": scipy.stats.t(3, scale=2),
}


@pytest.mark.parametrize("text", list(DISTRIBUTIONS))
def test_the_distribution_is_the_named_one_and_has_mean_zero(text: str) -> None:
    drawn = GradientNoise.parse(text).draw(np.random.default_rng(1), (20, 1000)).ravel()
    assert scipy.stats.kstest(drawn, DISTRIBUTIONS[text].cdf).pvalue > 1e-3
    assert abs(DISTRIBUTIONS[text].mean()) < 1e-12


def zero(points: torch.Tensor, k: int, out: torch.Tensor) -> None:
    out.zero_()


@pytest.mark.parametrize("p", [3, MOST_AT_ONCE + 1])
def test_it_is_a_function_of_seed_agent_and_iteration(p: int) -> None:
    def at(k: int, agents: list[int], oracle: object = None) -> torch.Tensor:
        out = torch.empty(len(agents), p, dtype=torch.float64)
        (oracle or noisy(zero, "exponential", 7, agents))(out, k, out)  # type: ignore[operator]
        return out

    shared = noisy(zero, "exponential", 7, [0, 1, 2])
    for k in (5, 0, 2000, 5):  # in any order
        every = at(k, [0, 1, 2], shared)
        assert torch.equal(every[[2]], at(k, [2]))  # in any process
        together = max(1, MOST_AT_ONCE // p)
        block, place = divmod(k, together)
        expected = stream(7, "gradient noise", 2, block).standard_exponential((together, p))[place] - 1
        np.testing.assert_array_equal(every[2].numpy(), expected)
    assert not torch.equal(at(5, [0]), at(6, [0]))


def test_a_run_adds_it_to_exact_gradients_before_clipping() -> None:
    flat = Quadratic(A=np.zeros((2, 4)), c=np.zeros((2, 4)))
    noise = [stream(3, "gradient noise", i).standard_t(1.5, (MOST_AT_ONCE // 4, 4)) for i in range(2)]
    settings = {"gradient_noise": "student-t:1.5", "seed": 3, "batch_size": 0, "dtype": "float64", "clip_norm": 0.5}
    found = train(flat, "ring:2", "c-sgd", iterations=3, **settings)
    g = [np.stack([noise[i][k] * min(1, 0.5 / np.linalg.norm(noise[i][k])) for i in range(2)]) for k in range(3)]
    np.testing.assert_allclose(found.x[0].numpy(), -0.1 * sum(rows.mean(axis=0) for rows in g), atol=1e-12)


@pytest.mark.parametrize(
    "text",
    ["", "cauchy", "student-t", "student-t:1", "pareto:0.5", "exponential:-1", "pareto:2:3:4", "gaussian:x", "x:nan"],
)
def test_other_texts_are_one_sentence(text: str) -> None:
    with pytest.raises(InputError, match=r"^gradient_noise = .*expected gaussian, student-t:NU[^\n]*\.$"):
        Settings(gradient_noise=text)
