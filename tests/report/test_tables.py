import csv
import io
import math
import re

import pytest
from rich.console import Console

from peerdescent import train
from peerdescent.report import Table, summary_table

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


def records(table):
    return list(csv.DictReader(io.StringIO(table.to_csv())))


def test_csv_holds_plain_numbers():
    assert records(summary_table(results()))[0] == {
        "method": "slow",
        "iterations": "20000",
        "loss": "0.25",
        "accuracy_percent": "90.0",
        "consensus_error": "0.0002",
        "bytes_sent": "542784000",
        "seconds": "99.0",
        "note": "W was repaired",
    }


@pytest.mark.parametrize("key", ["loss", "consensus_error", "gradient_norm"])
@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_number_that_is_not_finite_means_divergence(key, value):
    (row,) = records(summary_table({"bad": summary(**{key: value}, notes=["η is large"])}))
    assert row.get(key, "") == ""
    assert row["note"] == "diverged; η is large"


def test_the_summary_of_a_real_run_fits():
    run = train("quadratic", "ring:4", "d-sgd-1", iterations=20)
    (row,) = records(summary_table({"d-sgd-1": run.summary()}))
    assert (row["iterations"], float(row["loss"]), row["note"]) == ("20", run.metrics[-1]["loss"], "")


def test_markdown_shows_the_best_of_those_that_compete_in_bold():
    head, _, slow, good, central, bad = markdown_cells(summary_table(results()).to_markdown())
    assert head == TITLES
    assert slow == ["slow", "20,000", "0.25", "90.00", "2.00e-04", "**543 MB**", "99.00", "W was repaired"]
    assert good == ["good", "20,000", "**0.125**", "**95.00**", "2.00e-04", "1.09 GB", "12.50", ""]
    # a method that sends nothing does not compete, and neither does wall time
    assert central == ["c-sgd", "20,000", "0.25", "90.00", "0", "0 B", "12.50", ""]
    assert bad == ["bad", "400", "–", "99.00", "2.00e-04", "5 B", "0.01", "diverged"]


def test_values_with_the_same_text_are_all_the_best():
    runs = {"a": summary(loss=0.125), "b": summary(loss=0.12500001), "c": summary()}
    assert [line[2] for line in markdown_cells(summary_table(runs).to_markdown())[2:]] == [
        "**0.125**",
        "**0.125**",
        "0.25",
    ]


def test_a_single_method_is_not_the_best():
    assert "**" not in summary_table({"only": summary()}).to_markdown()


def test_columns_without_any_value_are_left_out_for_readers_and_kept_for_programs():
    table = summary_table({"a": summary(accuracy=None)})
    assert list(table.columns) == [t for t in TITLES if t not in ("test accuracy (%)", "note")]
    (line,) = records(table)
    assert (line["accuracy_percent"], line["note"]) == ("", "")


def test_a_table_without_rows_is_a_head():
    table = summary_table({})
    assert table.to_markdown().splitlines()[0] == "| method |"
    assert table.to_csv().count("\n") == 1
    assert table.to_rich().row_count == 0
    assert r"\toprule" in table.to_latex()


def test_csv_keeps_every_digit():
    values = summary(loss=0.1 + 0.2, bytes_sent=123_456_789_012)
    (line,) = records(summary_table({'say "hi", you': values}))
    assert line["method"] == 'say "hi", you'
    assert float(line["loss"]) == 0.1 + 0.2
    assert int(line["bytes_sent"]) == 123_456_789_012


def test_without_data_csv_holds_the_texts():
    assert Table("", ("a", "b"), [("1", "x, y")]).to_csv() == 'a,b\n1,"x, y"\n'


def test_rich_emphasises_and_takes_names_literally():
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system="standard")
    console.print(summary_table({"[red]a[/red]": summary(), "b": summary(loss=0.125)}, "ends").to_rich())
    text = console.file.getvalue()
    assert "[red]a[/red]" in text
    bold = {found.strip() for found in re.findall("\x1b\\[1m([^\x1b]*)\x1b", text)}
    assert "0.125" in bold
    assert "0.25" not in bold
    assert "ends" in text


def test_a_narrow_terminal_keeps_numbers_whole():
    console = Console(file=io.StringIO(), width=80)
    console.print(summary_table({"dsgpa-f-pb-exact": summary(), "d2": summary(loss=1234.5)}).to_rich())
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["dsgpa-f-pb-exact", "20,000", "0.25", "90.00", "2.00e-04", "543", "MB", "12.50"] in lines
    assert any("iterations" in line for line in lines)


def test_rich_can_leave_out_columns():
    console = Console(file=io.StringIO(), width=80)
    console.print(Table("own", ("a", "b", "c"), [("1", "2", "3")]).to_rich(without=["b"], title="other"))
    assert console.file.getvalue().split()[:3] == ["other", "a", "c"]
    assert "2" not in console.file.getvalue()


def test_markdown_escapes_what_would_break_the_table():
    table = summary_table({"a|b*c_d\n<e>": summary(), "\\": summary(loss=0.5)})
    assert r"| a\|b\*c\_d \<e\> |" in table.to_markdown()
    assert len(table.to_markdown().splitlines()) == 4


def test_markdown_keeps_code():
    assert r"| run \<a\> `b_c <d>` \| |" in Table("", ("x",), [("run <a> `b_c <d>` |",)]).to_markdown()


def test_latex_is_a_booktabs_tabular_with_powers_of_ten():
    lines = summary_table(results()).to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrrl}"
    assert [lines[1], lines[3], lines[-2], lines[-1]] == [r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}"]
    assert r"test accuracy (\%)" in lines[2]
    assert r"\textbf{0.125} & \textbf{95.00} & $2.00 \times 10^{-4}$" in lines[5]
    assert all(line.count(" & ") == 7 and line.endswith(r" \\") for line in (lines[2], *lines[4:-2]))


def test_latex_emphasises_powers_of_ten():
    table = summary_table({"a": summary(), "b": summary(consensus_error=3e-12)})
    assert r"$\mathbf{3.00 \times 10^{-12}}$" in table.to_latex()


def test_latex_escapes_names():
    name = r"50% & $x_1$ #{a}~^\ <|> λ Ω −"
    expected = (
        r"50\% \& \$x\_1\$ \#\{a\}\textasciitilde{}\textasciicircum{}\textbackslash{} "
        r"\textless{}\textbar{}\textgreater{} \ensuremath{\lambda} \ensuremath{\Omega} \ensuremath{-}"
    )
    assert summary_table({name: summary()}).to_latex().splitlines()[4].startswith(expected + " & ")


def test_all_formats_are_written_next_to_each_other(tmp_path):
    table = Table("", ("a",), [("1",)])
    table.write(tmp_path / "new" / "v1.2")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["v1.2.csv", "v1.2.md", "v1.2.tex"]
    assert (tmp_path / "new" / "v1.2.md").read_text() == table.to_markdown() + "\n"
