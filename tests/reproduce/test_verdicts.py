"""Verdicts from made-up tables whose answer is plain."""

import math
from dataclasses import replace

import pytest

from peerdescent.reproduce import claims
from peerdescent.reproduce.results import LineResult, verdict
from peerdescent.reproduce.studies import Line
from peerdescent.runs.metrics import Metrics


def result(label: str, *finals: float, paper: float | None = None, speed: int = 100, **more: str) -> LineResult:
    """Seeds whose loss halves every `speed` iterations and whose accuracy ends as given, in percent."""
    runs = [
        Metrics([{"iteration": k, "loss": 0.5 ** (k / speed), "accuracy": final / 100} for k in range(0, 1001, 10)])
        for final in finals
    ]
    return LineResult(Line(label, {}, paper, **more), runs, [False] * len(finals))


@pytest.mark.parametrize(
    ("finals", "word"),
    [
        ((92.0, 92.2, 92.1), "reproduced"),
        ((91.0,), "reproduced"),  # one point off is within
        ((90.9,), "not reproduced"),
        ((90.0, 97.0, 93.0), "reproduced"),  # two standard errors are 4 points
        ((11.0, 94.0, 93.0), "not testable"),  # and here 55: anything would be within
        ((86.0, 86.1, 86.2), "not reproduced"),
    ],
)
def test_a_number_is_reproduced_within_a_point_or_two_standard_errors(finals: tuple[float, ...], word: str) -> None:
    assert verdict("A", {"A": result("A", *finals, paper=92.0)}).word == word


def test_a_difference_is_explained_by_the_line_that_matches_the_number() -> None:
    lines = {
        "A": result("A", 97.0, paper=92.0),
        "far": result("far", 80.0, explains="A", cause="a bad idea"),
        "near": result("near", 92.3, explains="A", cause="less communication"),
    }
    reason = verdict("A", lines).reason
    assert "less communication: 92.30 %, which matches the printed number" in reason


def test_a_line_without_a_printed_number_cannot_be_judged() -> None:
    assert verdict("A", {"A": result("A", 92.0)}).word == "not testable"


def test_a_diverged_line_is_not_reproduced() -> None:
    good, broken = result("A", 92.0).runs[0], Metrics([{"iteration": 0, "loss": None, "accuracy": 0.1}])
    mixed = LineResult(Line("A", {}, 92.0), [good, broken], [False, True])
    assert verdict("A", {"A": mixed}).word == "not reproduced"
    assert "1 of 2 seeds" in verdict("A", {"A": mixed}).reason
    assert math.isnan(mixed.accuracy)  # the accuracy of a model that is no number is none


def test_a_shortened_run_proves_nothing() -> None:
    short = replace(result("A", 50.0, paper=92.0), planned=10, shortened=True)
    assert verdict("A", {"A": short}).word == "not testable"
    assert all(
        claim.judge({"nn": {"A": short}}).word == "not testable" for claim in claims.CLAIMS if claim.needs == "nn"
    )


def nn(t_pb_speed: int) -> dict[str, LineResult]:
    names = ("DSGPA-F-PB", *claims.NOT_ACCELERATED, *claims.ACCELERATED, "D-ASG, x₋₁ = 0")
    plain = {
        name: result(name, 92.0, paper=92.0, speed=200 if name in claims.NOT_ACCELERATED else 100) for name in names
    }
    return {**plain, "DSGPA-T-PB": result("DSGPA-T-PB", 92.0, paper=92.0, speed=t_pb_speed)}


def test_speed_claims_follow_the_iterations_needed() -> None:
    assert claims.faster_than_plain({"nn": nn(100)}).word == "reproduced"
    assert claims.as_fast_as_momentum({"nn": nn(100)}).word == "reproduced"
    assert claims.faster_than_plain({"nn": nn(300)}).word == "not reproduced"
    assert claims.as_fast_as_momentum({"nn": nn(180)}).word == "not reproduced"


def test_iterations_until_a_level() -> None:
    assert result("A", 92.0, speed=100).reaches(0.5) == 110  # 0.5 itself is not below
    assert math.isinf(result("A", 92.0, speed=100).reaches(1e-9))


def test_best_on_the_cnn_needs_accuracy_and_loss() -> None:
    good = {
        "DSGPA-F-PB": result("DSGPA-F-PB", 98.0, paper=98.0, speed=50),
        "DM-SGD": result("DM-SGD", 97.0, paper=94.0),
    }
    assert claims.best_on_cnn({"cnn": good}).word == "reproduced"
    worse = {**good, "DM-SGD": result("DM-SGD", 98.5, paper=94.0)}
    assert claims.best_on_cnn({"cnn": worse}).word == "not reproduced"


def test_claims_that_need_no_runs() -> None:
    assert claims.gamma_one_is_plain({}).word == "reproduced"
    assert claims.only_x_is_sent({}).word == "reproduced"


def test_claims_of_a_study_that_was_not_run_are_not_testable() -> None:
    needing = [claim for claim in claims.CLAIMS if claim.needs]
    assert needing
    assert {claim.judge({}).word for claim in needing} == {"not testable"}
