"""Method cards: the committed page is the generated one, nothing is missing, and what they say of bias is so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.commands import Command

from peerdescent import InputError, algorithms, graphs, theory, train
from peerdescent.algorithms import PRESETS, Algorithm, make, register
from peerdescent.experiments.cards import card, page
from peerdescent.experiments.docstrings import read_docstring
from peerdescent.problems import Quadratic

DOCS = Path(__file__).parents[2] / "docs" / "methods.md"
GRAPH = graphs.parse("er:5:0.6:seed=2")


def heterogeneous() -> Quadratic:
    random = np.random.default_rng(3)
    return Quadratic(A=random.uniform(0.3, 2, (5, 2)), c=random.normal(size=(5, 2)))


def test_the_committed_page_is_what_the_code_says() -> None:
    assert DOCS.read_text(encoding="utf-8") == page(), "run `peerdescent card > docs/methods.md`"


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_card_is_complete(name: str) -> None:
    found = card(name)
    assert not found.missing(), f"{type(make(name)).__name__} lacks {' and '.join(found.missing())}"
    assert found.docs.title.endswith(".")
    assert found.stability


def steps(name: str) -> Algorithm:
    """The method with step sizes that suit these costs and are no schedules."""
    own = make(name)
    given: dict[str, Any] = {"eta": 0.05, "alpha": 5.0 if name.startswith("dsgpa") else 0.05}
    if name.startswith("dsgpa"):
        given |= {"beta": 3.0, "epsilon": 0.0}
    elif name == "d-sgd-2":
        given["beta"] = 0.2
    known = own.parameters()
    return make(name, **{key: value for key, value in given.items() if key in known})


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_method_is_biased_if_and_only_if_its_card_says_so(name: str) -> None:
    problem, method, known = heterogeneous(), steps(name), 1e-9
    try:
        x = theory.fixed_point(method, problem, GRAPH, "unit")
    except InputError:  # not linear: a long run, which may end with a small circle
        settings: dict[str, Any] = {"iterations": 800, "eval_every": 800, "per_agent": False, "dtype": "float64"}
        x, known = train(problem, GRAPH, method, kernel="plain", **settings).x.numpy(), 0.1
    off = np.abs(x - problem.optimum().numpy()).max()
    assert off > 1e-3 if card(name).bias else off < known


def test_a_docstring_is_read_as_it_is_written() -> None:
    found = read_docstring(
        "A title.\n\n.. math::\n    a = b\n    + c\n\n    d = e\n\nFirst `x`\nline.\n\nArgs:\n    x: hidden.\n\n"
        "Example:\n    >>> hidden\n\nSecond. References: A 2015; B 2016."
    )
    assert found.title == "A title."
    assert found.formulas == ("a = b + c", "d = e")
    assert found.text == "First `x` line.\n\nSecond."
    assert found.reference == "A 2015; B 2016"


def test_messages_are_named_by_the_equation() -> None:
    assert card("extra").sends == "1 vector per edge: `x`, while the gradient is computed"
    assert card("d-sgt-2").sends == (
        "2 vectors per edge: `y`, while the gradient is computed; `x − ηy⁺`, after the gradient"
    )
    assert card("dm-sgd").sends.endswith("`x − η(βu + g)`, after the gradient; `βu + g`, after the gradient")
    assert card("momentum-tracking").sends.endswith("`c − u⁺`, after the gradient")
    assert card("c-sgd").sends == "nothing over the graph"


@pytest.mark.parametrize(("name", "step"), [("d-sgd-1", 1), ("d-sgt-1", 0.5), ("d-sgt-2", 2), ("d2", 2), ("nids", 2)])
def test_the_largest_step(name: str, step: float) -> None:
    # For W between 0 and 1 and curvature 1: |w − η| < 1 for D-SGD, 2η < (1+w)² for tracking, and that of the mean.
    assert card(name).largest_step == pytest.approx(step, rel=0.02)


@dataclass(frozen=True)
class Bare(Algorithm):
    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Any:
        g = yield s.x
        return {"x": net.mix(s.x) - g.clone()}  # more than arithmetic


def test_a_card_of_your_own_method_says_what_is_known(peerdescent_: Command) -> None:
    register("bare", Bare, "mine")
    assert len(card("bare").missing()) == 4
    said = peerdescent_("card", "bare", "gnsd")
    assert said.code == 0
    assert "## bare" in said.out
    assert "1 vector per edge" in said.out
    assert "- **Heterogeneous data**: not known" in said.out
    assert "theory cannot analyse Bare" in said.out
    assert "## d-sgt-1" in said.out
    assert peerdescent_("card", "no-such").err.startswith("peerdescent: there is no algorithm 'no-such'")
    algorithms.unregister("bare")
