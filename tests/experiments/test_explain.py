"""`peerdescent explain` and the warning before a run."""

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import peerdescent
from peerdescent import algorithms, graphs, theory, train
from peerdescent._util.numbers import jsonable
from peerdescent.cli import main as cli
from peerdescent.problems import Quadratic, convolutional_net
from peerdescent.theory import prediction


def call(monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    monkeypatch.setattr(sys, "argv", ["peerdescent", *flags])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def facts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *flags: str) -> Any:
    capsys.readouterr()
    assert call(monkeypatch, "explain", *flags, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_the_papers_settings_as_printed_are_unstable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("dsgpa-f", "dsgpa-f-pb"):
        found = facts(monkeypatch, capsys, "nn-code", "-a", name, "--set", "dual=jacobi")
        assert found["stability"]["stable"] is False
        assert found["stability"]["margin"] < 0
        assert found["stability"]["up_to"] == 0
        assert found["stability"]["condition"] == "unstable on every connected graph for flat costs: ηβ² = 12 ≥ α = 5"
        assert "eigenvalue of L" in found["stability"]["reason"]
        assert found["stability"]["cures"]["alpha"] == pytest.approx(12, rel=1e-3)  # ηβ² = 12 must be below α
        assert found["theorem1"]["holds"] is False


@pytest.mark.parametrize("power", ["", "-pb"])
@pytest.mark.parametrize(
    ("name", "dual", "limit"),
    [("dsgpa-f", "gauss-seidel", 6.06), ("dsgpa-t", "jacobi", 6.87), ("dsgpa-t", "gauss-seidel", 5.73)],
)
def test_the_papers_settings_are_stable_up_to_a_known_eigenvalue(
    name: str, dual: str, limit: float, power: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("nn-code", "-a", name + power, "--set", f"dual={dual}")
    for graph, rho in (("authors10", 5.175), ("star:10", 10)):
        found = facts(monkeypatch, capsys, *flags, "--graph", graph)["stability"]
        assert found["up_to"] == pytest.approx(limit, abs=0.005)
        assert found["stable"] is (rho < limit)
        said = re.fullmatch(
            r"stable if and only if ρ\(L\) < ([0-9.]+); here ρ\(L\) = ([0-9.]+) \(flat costs\)", found["condition"]
        )
        assert said
        assert [float(number) for number in said.groups()] == pytest.approx([limit, rho], abs=0.005)


@pytest.mark.parametrize(("graph", "repaired"), [("hypercube:3", True), ("ring:4", True), ("authors10", False)])
def test_d2_is_repaired_where_it_would_diverge(
    graph: str, repaired: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = facts(monkeypatch, capsys, "-a", "d2", "--graph", graph)
    assert found["stability"]["stable"] is True
    assert "λmin(W) > -0.3333" in found["stability"]["condition"]
    assert any("(I+W)/2" in note for note in found["notes"]) is repaired


def test_facts_of_a_graph(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(monkeypatch, capsys, "-a", "dm-sgd", "--graph", "star:10", "--laplacian", "unit")
    graph = found["graph"]
    assert (graph["agents"], graph["edges"], graph["degrees"], graph["diameter"]) == (10, 9, [1, 9], 2)
    numbers = [graph[key] for key in ("rho", "rho2", "lambda_min", "gap")]
    assert numbers == pytest.approx([10, 1, 0, 0.1], abs=1e-9)
    assert found["stability"]["stable"] is True


@pytest.mark.parametrize(
    ("flags", "dimension", "size"),
    [
        (("--problem", "mnist-nn"), 20560, 4),
        (("--problem", "mnist-cnn", "--set", "problem.reading=text"), 0, 4),
        (
            (
                "--problem",
                "quadratic",
                "--set",
                "problem.dimension=7",
                "--dtype",
                "float64",
                "--communication-period",
                "2",
            ),
            7,
            8,
        ),
    ],
)
def test_traffic_is_what_a_run_counts(
    flags: tuple[str, ...],
    dimension: int,
    size: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sent = facts(monkeypatch, capsys, "-a", "dm-sgd", "--graph", "star:10", *flags)["traffic"]
    p = dimension or sum(p.numel() for p in convolutional_net("text").parameters())
    each = 2 * p * size / sent["communication_period"]
    assert sent["dimension"] == p
    assert sent["bytes_per_iteration"] == [each, 9 * each]
    if dimension == 7:  # cheap enough to be run
        result = train(
            Quadratic(A=np.ones((10, 7)), c=np.zeros((10, 7))),
            "star:10",
            "dm-sgd",
            iterations=4,
            communication_period=2,
            dtype="float64",
        )
        assert result.metrics[-1]["bytes_sent"] == 4 * (9 * each + 9 * 1 * each)


def test_the_traffic_of_a_schedule_is_the_mean_over_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("-a", "d-sgd-1", "--problem", "quadratic", "--graph", "ring:4", "--communication-period", "4,1@8")
    sent = facts(monkeypatch, capsys, *flags, "--iterations", "20")["traffic"]
    assert sent["communication_period"] == "4,1@8"
    assert sent["bytes_per_iteration"] == [2 * sent["dimension"] * 4 * (2 + 12) / 20] * 2


def test_theorem_1_holds_for_its_own_parameters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = theory.theorem1_parameters(graphs.ring(4), 1000)
    given = [f"--set={key}={values[key]!r}" for key in ("eta", "alpha", "beta")]
    flags = ("-a", "dsgpa-f-pb", "--graph", "ring:4", "--iterations", "1000", "--set", "dual=jacobi", *given)
    found = facts(monkeypatch, capsys, *flags)
    assert found["theorem1"]["holds"] is True
    assert found["theorem1"]["failing"] == []
    assert found["theorem1"]["parameters"] == pytest.approx(values)
    assert found["stability"]["stable"] is True


def test_several_methods_are_told_to_a_person(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "explain", "quickstart") == 0
    said = capsys.readouterr().out
    assert said.count("shrinks tenfold") == 4
    assert "diameter 6" in said


UNSTABLE = ("--problem", "quadratic", "--graph", "star:10", "--laplacian", "unit", "-a", "dsgpa-f", "--iterations", "5")


def test_an_unstable_run_warns_and_a_strict_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(monkeypatch, "run", *UNSTABLE, "--out", str(tmp_path / "a")) == 0
    assert "note: dsgpa-f is unstable on this graph" in capsys.readouterr().err
    assert call(monkeypatch, "run", *UNSTABLE, "--out", str(tmp_path / "b"), "--strict") == 2
    said = capsys.readouterr().err
    assert said.startswith("peerdescent: dsgpa-f is unstable on this graph")
    assert "would make it stable" in said
    assert not (tmp_path / "b").exists()


def test_infeasible_requests_get_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ("-a", "dsgpa-f-pb", "--graph", "ring:10", "--iterations", "1000")
    found = facts(monkeypatch, capsys, *flags)["theorem1"]
    assert found["parameters"] is None
    assert found["infeasible"] == "Theorem 1 needs more than n³ = 1000 iterations, not 1000."
    assert call(monkeypatch, "explain", *flags) == 0
    assert "more than n³ = 1000 iterations" in " ".join(capsys.readouterr().out.split())
    pieces = tmp_path / "pieces.txt"
    pieces.write_text("0 1\n2 3\n")
    assert call(monkeypatch, "explain", "--graph", f"file:{pieces}") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "it has 2 parts" in said


def test_ranges_and_cures_of_every_step_size(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = facts(monkeypatch, capsys, "nn-code", "-a", "dsgpa-t")
    assert set(found["ranges"]) == {"eta", "alpha", "beta"}
    assert found["stability"]["cures"] == {}
    for name, (low, high) in found["ranges"].items():
        assert low == 0
        beyond = facts(monkeypatch, capsys, "nn-code", "-a", "dsgpa-t", "--set", f"{name}={1.01 * high}")["stability"]
        assert beyond["stable"] is False
        assert beyond["cures"][name] == pytest.approx(high, rel=1e-3)


def test_a_graph_is_drawn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call(monkeypatch, "explain", "-a", "d-sgd-1", "--graph", "path:3", "--figure", str(tmp_path / "g.svg")) == 0
    said = capsys.readouterr().out
    assert " 1 ● · ●\n" in said
    drawing = (tmp_path / "g.svg").read_text()
    assert "<svg" in drawing
    call(monkeypatch, "explain", "-a", "d-sgd-1", "--graph", "path:3", "--figure", str(tmp_path / "h.svg"))
    assert (tmp_path / "h.svg").read_text() == drawing  # the same graph, the same bytes
    capsys.readouterr()
    assert call(monkeypatch, "explain", "--graph", "ring:30", "--figure", str(tmp_path / "g.PNG")) == 0
    assert "●" not in capsys.readouterr().out
    assert (tmp_path / "g.PNG").read_bytes().startswith(b"\x89PNG")
    assert call(monkeypatch, "explain", "--figure", str(tmp_path / "g.gif")) == 2
    assert "end it in .png, .svg or .pdf" in capsys.readouterr().err


def test_the_cure_that_is_suggested_cures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call(monkeypatch, "run", *UNSTABLE, "--out", str(tmp_path / "b"), "--strict")
    cure = capsys.readouterr().err.split("; ")[-1].split(" would")[0].replace(" ", "")
    assert call(monkeypatch, "run", *UNSTABLE, "--out", str(tmp_path / "b"), "--strict", "--set", cure) == 0


def test_a_cure_may_be_a_larger_value(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # ηβ² = 12 must be below α: rounding it down would not do
    flags = ("-a", "dsgpa-f", "--graph", "ring:5", "--laplacian", "unit:0.001", "--set", "dual=jacobi")
    found = facts(monkeypatch, capsys, *flags)["stability"]
    assert found["cures"]["alpha"] == pytest.approx(12, rel=1e-3)
    method = algorithms.make("dsgpa-f", dual="jacobi")

    def settles(changed: algorithms.Algorithm) -> bool:
        return theory.stability(changed, graphs.ring(5), "unit:0.001").settles

    suggested = prediction._suggestion(method, {"alpha": found["cures"]["alpha"]}, settles)
    assert suggested == "alpha = 13"
    assert facts(monkeypatch, capsys, *flags, "--set", "alpha=13")["stability"]["stable"] is True


CIRCLING = ("--problem", "quadratic", "--graph", "ring:5", "--laplacian", "unit", "-a", "dsgpa-f-pb-exact")


def test_a_method_that_only_circles_warns_and_a_strict_run_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = (*CIRCLING, "--set", "dual=jacobi", "--iterations", "5")
    found = facts(monkeypatch, capsys, *flags)["stability"]
    assert (found["stable"], found["settles"]) == (True, False)
    assert found["chatter"] > 1
    assert call(monkeypatch, "run", *flags, "--out", str(tmp_path / "a")) == 0
    assert "is bounded but does not settle" in capsys.readouterr().err
    assert call(monkeypatch, "run", *flags, "--out", str(tmp_path / "b"), "--strict") == 2
    assert not (tmp_path / "b").exists()
    assert facts(monkeypatch, capsys, *CIRCLING)["stability"]["settles"] is True


def test_python_explains_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = facts(
        monkeypatch, capsys, "-a", "dsgpa-f", "--graph", "star:10", "--laplacian", "unit", "--problem", "quadratic"
    )
    found = peerdescent.explain("quadratic", "star:10", "dsgpa-f", laplacian="unit")
    assert json.loads(json.dumps(jsonable(found.as_dict()))) == printed
    assert str(found).startswith("dsgpa-f is unstable on this graph")


def test_python_warns_of_instability_as_the_command_does() -> None:
    with pytest.warns(UserWarning, match=r"dsgpa-f is unstable on this graph.*eta = 0\.021 would make it stable"):
        train("quadratic", "star:10", "dsgpa-f", laplacian="unit", iterations=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train("quadratic", "ring:4", "dsgpa-f", iterations=3)


def test_what_theory_leaves_out_is_noted() -> None:
    noted = peerdescent.explain("quadratic", "ring:5", "d-sgd-1", weight_decay=0.1, clip_norm=1.0).notes
    assert noted == ["stability and Theorem 1 are judged without weight decay and clipping"]
    assert peerdescent.explain("quadratic", "ring:5", "d-sgd-1", ema=0.9).notes == []


def test_the_consensus_step_says_what_is_proved_and_what_is_a_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--problem", "quadratic", "--graph", "ring:10", "--compress", "topk:0.1")
    found = facts(monkeypatch, capsys, *flags, "-a", "d-sgd-1")["compression"]
    assert found["by_rule"] is True
    assert found["consensus_step"] == 0.21
    assert found["proved_below"] == pytest.approx(2 * (1 - 0.9**0.5) / ((1 + 0.9**0.5) * 4 / 3))  # small gain, δ = 1/10
    assert found["measured"].startswith("a flat run of 500 rounds")  # beyond what is proved
    given = facts(monkeypatch, capsys, *flags, "-a", "d-sgd-1", "--consensus-step", "0.03")["compression"]
    assert (given["by_rule"], given["measured"]) == (False, "")
    silent = facts(monkeypatch, capsys, *flags, "-a", "dsgpa-f")["compression"]
    assert silent["proved_below"] is None
    assert "no bound on c is known" in silent["theory"]
    pairs = facts(monkeypatch, capsys, *flags[:3], "onepeer-exp:8", *flags[4:], "-a", "d-sgd-1")["compression"]
    assert "own copy" in pairs["theory"]
    assert call(monkeypatch, "explain", *flags, "-a", "d-sgd-1") == 0
    assert "which is a heuristic" in " ".join(capsys.readouterr().out.split())
    assert facts(monkeypatch, capsys, *flags[:4], "-a", "d-sgd-1")["compression"] is None


def test_the_exact_variant_is_told_what_is_proved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = Quadratic(A=np.linspace(0.5, 1, 5)[:, None], c=np.arange(5.0)[:, None])
    values = theory.exact_parameters("ring:5", 0.5, 1.0, floor=0.01)
    method = algorithms.make("dsgpa-f-pb-exact", gamma=0.7, **values)
    found = peerdescent.explain(costs, "ring:5", method).exact
    assert found is not None
    assert found.holds is True
    assert found.guaranteed == pytest.approx(0.01)
    assert 0 < (found.expected or 0) < 0.01
    assert found.start == pytest.approx(float(costs.optimum()[0]))
    said = "in the end the distance from the optimum, root mean square over the agents, is at most 0.01"
    assert str(found).startswith(f"its conditions hold: {said}")
    far = algorithms.make("dsgpa-f-pb-exact", gamma=0.7, **{**values, "eta": 0.1, "alpha": 4.0, "beta": 2.0})
    assert "its bound is beyond the start and tells nothing" in str(peerdescent.explain(costs, "ring:5", far).exact)
    assert peerdescent.explain(costs, "ring:5", "d2").exact is None

    def failing(problem: Any = costs, changed: Any = method, **settings: Any) -> list[str]:
        facts = peerdescent.explain(problem, "ring:5", changed, **settings).exact
        assert facts is not None
        assert facts.holds is False
        return facts.failing

    noisy = Quadratic(A=np.ones((5, 1)), c=np.arange(5.0)[:, None], noise=1.0)
    flat = Quadratic(A=np.zeros((5, 1)), c=np.arange(5.0)[:, None])
    assert failing(noisy) == ["gradients are stochastic"]
    assert peerdescent.explain(noisy, "ring:5", method, batch_size=0).exact.holds  # type: ignore[union-attr]
    assert failing(flat) == ["some agent's costs are not strongly convex"]
    weak = algorithms.make("dsgpa-f-pb-exact", beta=0.1)
    assert failing(changed=weak) == ["αℓ = 5 is above β² = 0.01"]
    asked = peerdescent.explain(costs, "ring:5", weak).exact
    assert asked is not None
    assert asked.parameters is not None
    assert asked.parameters["eta"] == 0.03
    assert "satisfies them" in str(asked)
    assert peerdescent.explain(costs, "ring:5", algorithms.varied(weak, **asked.parameters)).exact.holds  # type: ignore[union-attr]
    assert failing(communication_period=2) == ["messages are not exchanged in every iteration"]
    assert failing(delay=1, clip_norm=1.0) == [
        "messages are late",
        "the step is changed by weight decay, clipping or global averages",
    ]
    unknown = ("-a", "dsgpa-f-pb-exact", "--problem", "mnist-nn", "--graph", "ring:5", "--batch-size", "0")
    assert call(monkeypatch, "explain", *unknown) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the curvatures μ and ℓ are not known here" in said
    assert "where the costs are flat, the mean may drift" in said


def test_what_theorem_1s_conditions_do_not_tell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = theory.theorem1_parameters(graphs.ring(4), 1000)
    given = [f"--set={key}={values[key]!r}" for key in ("eta", "alpha", "beta")]
    flags = ("-a", "dsgpa-f-pb", "--graph", "ring:4", "--iterations", "1000", "--set", "dual=jacobi", *given)
    assert "false in general" in facts(monkeypatch, capsys, *flags)["theorem1"]["caveat"]
    plain = facts(monkeypatch, capsys, *flags, "--set", "gamma=1")["theorem1"]
    assert plain["holds"] is True
    assert "its proof needs at least" in plain["caveat"]
