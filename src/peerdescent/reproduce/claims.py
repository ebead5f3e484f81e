"""The claims of the paper, how each is tested, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from peerdescent import algorithms
from peerdescent.problems import quadratic
from peerdescent.reproduce.results import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, Results, Verdict
from peerdescent.tracing.recording import vectors_sent
from peerdescent.training.train import train

SAME_SPEED = 1.25
"""Two methods are equally fast if their numbers of iterations differ by at most this factor."""
LEVELS = (0.5, 0.3)
NOT_ACCELERATED = ("DSGPA-T", "DSGPA-F", "D-SGD-1", "D-SGD-2", "D²", "D-SGT-1", "D-SGT-2")
ACCELERATED = ("DM-SGD", "D-ASG")
Studies = Mapping[str, Results]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and its test."""

    text: str
    how: str
    test: Callable[[Studies], Verdict]
    needs: str = ""
    """The study whose runs the test uses."""

    def judge(self, studies: Studies) -> Verdict:
        """Return the verdict; not testable if the study did not run."""
        if self.needs and self.needs not in studies:
            return Verdict(NOT_TESTABLE, f"`reproduce {self.needs}` was not run")
        if self.needs and any(result.shortened for result in studies[self.needs].values()):
            return Verdict(NOT_TESTABLE, "the runs were shortened")
        return self.test(studies)


def faster_than_plain(studies: Studies) -> Verdict:
    """T-PB reaches both levels before every non-accelerated method."""
    nn = studies["nn"]
    slower = [
        name for name in NOT_ACCELERATED if any(nn[name].reaches(r) <= nn["DSGPA-T-PB"].reaches(r) for r in LEVELS)
    ]
    times = "; ".join(
        f"R < {r}: {_k(nn['DSGPA-T-PB'].reaches(r))} against {_best(nn, NOT_ACCELERATED, r)}" for r in LEVELS
    )
    return Verdict(
        NOT_REPRODUCED if slower else REPRODUCED, f"{times}" + (f"; not faster than {', '.join(slower)}" * bool(slower))
    )


def as_fast_as_momentum(studies: Studies) -> Verdict:
    """T-PB needs no more iterations than DM-SGD and D-ASG, within a factor."""
    nn = studies["nn"]
    ours = {r: nn["DSGPA-T-PB"].reaches(r) for r in LEVELS}
    ratios = {f"{name}, R < {r}": ours[r] / nn[name].reaches(r) for name in ACCELERATED for r in LEVELS}
    if not all(math.isfinite(ratio) for ratio in ratios.values()):
        return Verdict(NOT_REPRODUCED, f"the risk does not fall below {min(LEVELS)} in these runs")
    shown = "; ".join(f"{name}: {ratio:.1f}×" for name, ratio in ratios.items())
    word = REPRODUCED if max(ratios.values()) <= SAME_SPEED else NOT_REPRODUCED
    return Verdict(word, f"iterations of T-PB over those of {shown}")


def better_than_asg(studies: Studies) -> Verdict:
    """F-PB's accuracy on the NN is above D-ASG's."""
    nn = studies["nn"]
    ours, other, zero = (nn[name].accuracy for name in ("DSGPA-F-PB", "D-ASG", "D-ASG, x₋₁ = 0"))
    reason = f"{ours:.2f} % against {other:.2f} %; D-ASG started from x₋₁ = 0 has {zero:.2f} %"
    return Verdict(REPRODUCED if ours > other else NOT_REPRODUCED, reason)


def best_on_cnn(studies: Studies) -> Verdict:
    """F-PB has the highest accuracy and the lowest loss of the paper's methods, with equal communication."""
    cnn = {label: result for label, result in studies["cnn"].items() if result.line.paper is not None}
    best = max(cnn, key=lambda label: cnn[label].accuracy)
    lowest = min(cnn, key=lambda label: cnn[label].loss if math.isfinite(cnn[label].loss) else math.inf)
    second = max((label for label in cnn if label != "DSGPA-F-PB"), key=lambda label: cnn[label].accuracy)
    margin = cnn["DSGPA-F-PB"].accuracy - cnn[second].accuracy
    reason = (
        f"best accuracy: {best}; lowest loss: {lowest}; {margin:+.2f} points to {second}, with messages every iteration"
    )
    return Verdict(REPRODUCED if best == lowest == "DSGPA-F-PB" else NOT_REPRODUCED, reason)


def gamma_matters(studies: Studies) -> Verdict:
    """The effect of γ with 50 agents; the paper has only curves, so there is no number to compare with."""
    shown = "; ".join(f"{label}: {result.accuracy:.2f} %" for label, result in studies["gamma"].items())
    return Verdict(NOT_TESTABLE, f"the paper's curves are lost and it prints no number; here: {shown}")


def gamma_one_is_plain(studies: Studies) -> Verdict:
    """γ = 1 gives bitwise the trajectory of DSGPA-F."""
    problem = quadratic(agents=5, dimension=20, noise=0.1)
    values = {"eta": 0.05, "alpha": 2.0, "beta": 1.0}
    ends = [
        train(problem, "ring:5", algorithms.make(name, **values, **more), iterations=200, batch_size=1).x
        for name, more in (("dsgpa-f", {}), ("dsgpa-f-pb", {"gamma": 1.0}))
    ]
    same = bool(torch.equal(*ends))
    return Verdict(
        REPRODUCED if same else NOT_REPRODUCED, "200 noisy iterations are bitwise equal" if same else "they differ"
    )


def only_x_is_sent(studies: Studies) -> Verdict:
    """One vector per edge and iteration is sent."""
    sent = {name: vectors_sent(algorithms.make(name)) for name in ("dsgpa-f-pb", "dsgpa-t-pb", "dm-sgd")}
    word = REPRODUCED if sent["dsgpa-f-pb"] == sent["dsgpa-t-pb"] == 1 else NOT_REPRODUCED
    return Verdict(word, f"vectors sent per edge and iteration: {sent['dsgpa-f-pb']} (DM-SGD: {sent['dm-sgd']})")


def all_do_well(studies: Studies) -> Verdict:
    """The accuracy of every distributed method is in the printed range, within the tolerance."""
    nn = {label: r for label, r in studies["nn"].items() if r.line.paper is not None and label != "C-SGD"}
    low = {label: r.accuracy for label, r in nn.items() if not r.accuracy >= 90.44 - r.tolerance()}
    worst = ", ".join(f"{label} {value:.2f} %" for label, value in low.items())
    return Verdict(
        NOT_REPRODUCED if low else REPRODUCED, f"below the range: {worst}" if low else "all are in the range"
    )


CLAIMS = (
    Claim("“DSGPA-T-PB converges faster” than the non-accelerated distributed algorithms (NN).",
          f"iterations until the risk is below {LEVELS[0]} and {LEVELS[1]}.", faster_than_plain, "nn"),
    Claim("“DSGPA-T-PB has exactly the same convergence rate as” DM-SGD and D-ASG (NN).",
          f"the same; a factor of {SAME_SPEED} counts as equal.", as_fast_as_momentum, "nn"),
    Claim("“DSGPA-F-PB has a better result than D-ASG” (NN accuracy).", "mean test accuracy.", better_than_asg, "nn"),
    Claim("“All the distributed algorithms can achieve a good accuracy result ranging from 90.44 % to 93.44 %” (NN).",
          "mean test accuracy, with the tolerance of the tables.", all_do_well, "nn"),
    Claim("“DSGPA-F-PB has the fastest convergence rate and highest accuracy among all compared algorithms” (CNN).",
          "mean test accuracy and training loss after 10 epochs, equal communication.", best_on_cnn, "cnn"),
    Claim("γ changes speed and accuracy (50 agents).", "final test accuracy per γ.", gamma_matters, "gamma"),
    Claim("“When γ = 1, the proposed algorithm is the same as DSGPA-F.”", "two runs, compared bit by bit.",
          gamma_one_is_plain),
    Claim("“Only the primal variable is shared with its neighbors.”", "counting vectors on one step.",
          only_x_is_sent),
)  # fmt: skip

ADDITIONAL_CLAIMS = {
    "speedup": "A linear speedup O(1/√(nT)) for general nonconvex costs.",
    "heterogeneous-data": "Theorem 1 does not require IID data.",
}
"""Claims that no experiment of the paper tests, by the study that tests them."""


def _k(iterations: float) -> str:
    return "never" if math.isinf(iterations) else f"{iterations:,.0f}"


def _best(results: Results, names: tuple[str, ...], level: float) -> str:
    first = min(names, key=lambda name: results[name].reaches(level))
    return f"{_k(results[first].reaches(level))} ({first})"
