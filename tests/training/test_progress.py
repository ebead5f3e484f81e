"""Progress bars and what a notebook shows of a result."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest

import peerdescent
from peerdescent.errors import InputError
from peerdescent.report.notebook import result_html, sparkline, table_html
from peerdescent.report.tables import Table
from peerdescent.runs.metrics import Metrics
from peerdescent.training import progress

RUN: dict[str, Any] = {"iterations": 20, "kernel": "plain", "eval_every": 10}


def test_scripts_and_tests_are_silent_unless_they_ask(capfd: pytest.CaptureFixture[str]) -> None:
    peerdescent.train("quadratic", "ring:4", "d2", **RUN)
    assert capfd.readouterr() == ("", "")
    peerdescent.train("quadratic", "ring:4", "d2", progress=True, **RUN)
    out, err = capfd.readouterr()
    assert out == ""  # what a script prints stays whole
    assert "d2" in err
    assert "20/20" in err
    with pytest.raises(InputError, match="progress"):
        peerdescent.train("quadratic", "ring:4", "d2", progress="yes", **RUN)  # type: ignore[arg-type]


def test_a_notebook_shows_a_bar_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    handle = SimpleNamespace(update=lambda bundle, raw: shown.append(bundle))

    def display(bundle: dict[str, str], raw: bool, display_id: bool) -> Any:
        shown.append(bundle)
        return handle

    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    assert progress.automatic()
    peerdescent.train("quadratic", "ring:4", "d2", **RUN)
    assert shown[0]["text/plain"].startswith("d2: 0/20")
    assert "20/20  loss" in shown[-1]["text/plain"]
    assert 'value="20" max="20"' in shown[-1]["text/html"]


class Checked(HTMLParser):
    """Counts tags, and fails where they do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_result_as_html_shows_its_numbers_and_escapes_texts() -> None:
    result = peerdescent.train("quadratic", "ring:4", "d2", **RUN)
    result.notes.append("<script>alert(1)</script>")
    text = result._repr_html_()
    assert "script" not in Checked(text).seen
    assert f"{result.metrics[-1]['loss']:.4g}" in text
    assert "polyline" in text
    assert "ring:4" in text
    evil = Table("<i>", ("<b>method",), [("<img src=x>",)])
    assert not {"i", "img"} & set(Checked(table_html(evil)).seen)
    assert "<x>" not in result_html("<x>", {"<x>": "<x>"}, Metrics())


def test_a_small_curve_leaves_out_what_is_not_finite() -> None:
    assert "nan" not in sparkline([1.0, float("nan"), 0.1, float("inf"), None, 1e-9])
    assert sparkline([1.0, 1.0]).count("<polyline") == 1
    assert sparkline([]) == sparkline([float("nan"), None]) == ""


def test_a_figure_of_a_result_shows_itself() -> None:
    result = peerdescent.train("quadratic", "ring:4", "d2", **RUN)
    figure = result.plot("A title")
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert figure._suptitle.get_text() == "A title"  # type: ignore[attr-defined]
