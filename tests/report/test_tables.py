import csv
import io
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from peerdescent import train
from peerdescent.errors import InputError
from peerdescent.report import human_bytes, summary_rows, to_csv, to_latex, to_markdown, to_rich
from peerdescent.report.tables import UNITS

TITLES = ["method", "iterations", "final risk", "test accuracy (%)", "consensus error", "sent", "seconds", "note"]


def summary(**changes):
    values = {"iteration": 20000, "loss": 0.25, "accuracy": 0.9, "consensus_error": 2e-4, "gradient_norm": 0.1}
    return {**values, "bytes_sent": 542_784_000, "seconds": 12.5, **changes}


def results():
    return {
        "slow": summary(seconds=99.0, notes=["W was repaired"]),
        "good": summary(loss=0.125, accuracy=0.95, bytes_sent=1_085_568_000),
        "c-sgd": summary(consensus_error=0.0, bytes_sent=0),
        "bad": summary(iteration=400, loss=None, accuracy=0.99, seconds=0.01, bytes_sent=5, diverged=True),
    }


def markdown_cells(text):
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()]


def test_rows_hold_plain_numbers():
    row = summary_rows(results())[0]
    assert row == {
        "method": "slow",
        "iterations": 20000,
        "loss": 0.25,
        "accuracy_percent": 90.0,
        "consensus_error": 2e-4,
        "bytes_sent": 542_784_000,
        "seconds": 99.0,
        "note": "W was repaired",
    }


@pytest.mark.parametrize("loss", [None, math.nan, math.inf])
def test_a_risk_that_is_not_finite_means_divergence(loss):
    (row,) = summary_rows({"bad": summary(loss=loss, notes=["η is large"])})
    assert row["loss"] is None
    assert row["note"] == "diverged; η is large"


def test_the_summary_of_a_real_run_fits():
    run = train("quadratic", "ring:4", "d-sgd-1", iterations=20)
    (row,) = summary_rows({"d-sgd-1": run.summary()})
    assert (row["iterations"], row["loss"], row["note"]) == (20, run.metrics[-1]["loss"], "")


def test_markdown_shows_the_best_of_those_that_compete_in_bold():
    head, _, slow, good, central, bad = markdown_cells(to_markdown(summary_rows(results())))
    assert head == TITLES
    assert slow == ["slow", "20,000", "0.25", "90.00", "2.00e-04", "**543 MB**", "99.00", "W was repaired"]
    assert good == ["good", "20,000", "**0.125**", "**95.00**", "2.00e-04", "1.09 GB", "**12.50**", ""]
    # who sends nothing does not win by it, and values that read the same share the honour
    assert central == ["c-sgd", "20,000", "0.25", "90.00", "0", "0 B", "**12.50**", ""]
    assert bad == ["bad", "400", "–", "99.00", "2.00e-04", "5 B", "0.01", "diverged"]


def test_one_method_alone_is_not_the_best():
    assert "**" not in to_markdown(summary_rows({"only": summary()}))


def test_columns_without_any_value_are_left_out_for_readers_and_kept_for_programs():
    rows = summary_rows({"a": summary(accuracy=None)})
    assert markdown_cells(to_markdown(rows))[0] == [t for t in TITLES if t not in ("test accuracy (%)", "note")]
    (line,) = csv.DictReader(io.StringIO(to_csv(rows)))
    assert (line["accuracy_percent"], line["note"]) == ("", "")


def test_a_table_without_rows_is_a_head():
    assert to_markdown([]).splitlines()[0] == "| method |"
    assert to_csv([]).count("\n") == 1
    assert to_rich([]).row_count == 0
    assert r"\toprule" in to_latex([])


def test_csv_keeps_every_digit():
    values = summary(loss=0.1 + 0.2, bytes_sent=123_456_789_012)
    (line,) = csv.DictReader(io.StringIO(to_csv(summary_rows({'say "hi", you': values}))))
    assert line["method"] == 'say "hi", you'
    assert float(line["loss"]) == 0.1 + 0.2
    assert int(line["bytes_sent"]) == 123_456_789_012


def test_rich_emphasises_and_takes_names_literally():
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system="standard")
    console.print(to_rich(summary_rows({"[red]a[/red]": summary(), "b": summary(loss=0.125)}), title="ends"))
    text = console.file.getvalue()
    assert "[red]a[/red]" in text
    bold = {found.strip() for found in re.findall("\x1b\\[1m([^\x1b]*)\x1b", text)}
    assert "0.125" in bold
    assert "0.25" not in bold
    assert "ends" in text


def test_a_narrow_terminal_keeps_numbers_whole():
    console = Console(file=io.StringIO(), width=80)
    console.print(to_rich(summary_rows({"dsgpa-f-pb-exact": summary(), "d2": summary(loss=1234.5)})))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["dsgpa-f-pb-exact", "20,000", "0.25", "90.00", "2.00e-04", "543", "MB", "12.50"] in lines
    assert any("iterations" in line for line in lines)


def test_markdown_escapes_what_would_break_the_table():
    rows = summary_rows({"a|b*c_d\n<e>": summary(), "\\": summary(loss=0.5)})
    assert r"| a\|b\*c\_d \<e\> |" in to_markdown(rows)
    assert len(to_markdown(rows).splitlines()) == 4


def test_latex_is_a_booktabs_tabular_with_powers_of_ten():
    lines = to_latex(summary_rows(results())).splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrrl}"
    assert [lines[1], lines[3], lines[-2], lines[-1]] == [r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}"]
    assert r"test accuracy (\%)" in lines[2]
    assert r"\textbf{0.125} & \textbf{95.00} & $2.00 \times 10^{-4}$" in lines[5]
    assert all(line.count(" & ") == 7 and line.endswith(r" \\") for line in (lines[2], *lines[4:-2]))


def test_latex_emphasises_powers_of_ten():
    rows = summary_rows({"a": summary(), "b": summary(consensus_error=3e-12)})
    assert r"$\mathbf{3.00 \times 10^{-12}}$" in to_latex(rows)


def test_latex_escapes_names():
    name = r"50% & $x_1$ #{a}~^\ <|> λ Ω −"
    expected = (
        r"50\% \& \$x\_1\$ \#\{a\}\textasciitilde{}\textasciicircum{}\textbackslash{} "
        r"\textless{}\textbar{}\textgreater{} \ensuremath{\lambda} \ensuremath{\Omega} \ensuremath{-}"
    )
    assert to_latex(summary_rows({name: summary()})).splitlines()[4].startswith(expected + " & ")


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_999, "1.00 MB"),
        (1_085_568_000, "1.09 GB"),
        (2.5e12, "2.50 TB"),
        (1e22, "10000 EB"),
    ],
)
def test_bytes_read_well(n, text):
    assert human_bytes(n) == text


@given(st.integers(0, 10**20))
def test_bytes_are_right_to_three_digits(n):
    number, unit = human_bytes(n).split()
    assert float(number) * 1000 ** UNITS.index(unit) == pytest.approx(n, rel=5.1e-3)
    assert len(number.replace(".", "")) <= 3


@pytest.mark.parametrize("n", [-1, math.nan, math.inf])
def test_impossible_bytes_are_refused(n):
    with pytest.raises(InputError, match="number of bytes"):
        human_bytes(n)
