"""The command line from outside: what it prints, how it ends, what it leaves behind."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
from pathlib import Path

import pytest
import torch
from tests.support.chosen_methods import EVERY_METHOD
from tests.support.commands import Command, Said, rows

from peerdescent import algorithms, graphs, problems
from peerdescent.cli.run import run
from peerdescent.data.datasets import find
from peerdescent.experiments.files import library, read
from peerdescent.experiments.resolve import make_algorithm, resolve
from peerdescent.tracing.recording import vectors_sent

SMALL = "--problem quadratic --graph ring:4 --batch-size 0 --iterations 20"
SPLIT = "--problem logistic-nonconvex --graph ring:4 --set problem.samples=100 --iterations 20"
COLUMNS = ["iteration", "loss", "accuracy", "consensus_error", "gradient_norm", "bytes_sent", "seconds"]
METHOD = """\
from __future__ import annotations
from dataclasses import dataclass
from peerdescent.algorithms import Algorithm, register
from peerdescent.schedules import Rate


@dataclass(frozen=True)
class Lonely(Algorithm):
    eta: Rate = 0.1
    rates = ("eta",)

    def step(self, s, net, h):
        g = yield s.x
        return {"x": s.x - h.eta * g}


register("lonely", Lonely, "everyone for himself")
"""


def refused(said: Said, here: Path, *words: str, leaves: tuple[str, ...] = ()) -> None:
    """One sentence that names the input, exit code 2, and nothing left behind."""
    assert said.code == 2, said
    (sentence,) = said.sentences
    assert sentence.startswith("peerdescent: ")
    assert len(sentence) > len("peerdescent: ") + 10
    assert "Traceback" not in said.err + said.out
    for word in words:
        assert word in sentence
    assert sorted(os.listdir(here)) == sorted(leaves)


# Wrong input


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("bogus", "bogus"),
        ("run --bogus", "--bogus"),
        ("run bogus", "bogus"),
        ("run quickstar", "quickstart"),
        ("run missing.toml", "missing.toml"),
        (f"run {'a' * 300}", "aaa"),
        ("run .", "."),
        ("list", "algorithms"),
        ("list bogus", "bogus"),
        ("list algorithms --load missing.py", "missing.py"),
        (f"run {SMALL} -a bogus", "bogus"),
        (f"run {SMALL} -a dsgpa-f -a d2", "compare"),
        (f"compare {SMALL} -a dsgpa-f -a dsgpa-f", "once"),
        (f"compare {SMALL} -a dsgpa-f,bogus", "bogus"),
        (f"compare {SMALL} --kernel x", "kernel"),
        (f"compare {SMALL} --partition label", "label"),
        (f"compare {SPLIT} --no-replacement --batch-size 21", "batch_size"),
        ("run --graph bogus", "bogus"),
        ("run --graph ring:x", "ring:x"),
        ("run --graph x:ring:4", "x:ring:4"),
        ("run --graph er:10:0.01:seed=1", "connected"),
        ("run --graph file:missing.txt", "missing.txt"),
        ("run --problem bogus", "bogus"),
        ("run --problem mnist-nn --graph ring:2501", "2500"),
    ],
)
def test_unknown_names_are_refused(line: str, word: str, peerdescent_: Command, here: Path) -> None:
    refused(peerdescent_(*shlex.split(line)), here, word)


@pytest.mark.parametrize(
    "flags",
    [
        "--iterations x",
        "--iterations -1",
        "--iterations 1e3",
        "--batch-size -3",
        "--seed -1",
        "--seed 1.5",
        f"--seed {2**63}",
        "--eval-every 0",
        "--threads 0",
        "--dtype float16",
        "--device cuda",
        "--device meta",
        "--device bogus",
        "--kernel x",
        "--gradients x",
        "--gradients loop",
        "--laplacian x",
        "--laplacian unit:-1",
        "--mixing x",
        "--partition x",
        "--partition label",
        "--powerball 2",
        "--powerball nan",
        "--powerball x",
        "--set nonsense",
        "--set =1",
        "--set eta=",
        "--set bogus=1",
        "--set eta=abc",
        "--set eta=-1",
        "--set eta=nan",
        "--set eta=inf",
        "--set eta=power:1",
        "--set gamma=2",
        "--set gamma=x",
        "--set dual=x",
        "--set epsilon=nan",
        "--set eta=.1 --set eta.x=1",
        "--set dsgpa-f-pb.eta=.1 --set dsgpa-f-pb=1",
        "--set dsgpa-f-pb.bogus=1",
        "--set dsgpa-f-pb.transform=1",
        "--set dm-sgd.eta=1",
        "--set problem=1",
        "--set problem.bogus=1",
        "--set problem.dimension=1.5",
        "--set problem.dimension=0",
        "--set problem.dimension=x",
        "--set problem.condition=inf",
        "--set problem.noise=nan",
        "--set problem.seed=-1",
        "--load missing.py",
        "--load .",
        "--resume --overwrite",
        "--workers 0",
        "--workers 5",
        "--workers x",
        "--message-dtype x",
    ],
)
def test_bad_values_are_refused(flags: str, peerdescent_: Command, here: Path) -> None:
    if flags == "--device cuda" and torch.cuda.is_available():
        pytest.skip("this machine has it")
    refused(peerdescent_("run", *shlex.split(SMALL), *shlex.split(flags)), here)


@pytest.mark.parametrize(
    "flags",
    [
        "--partition x",
        "--partition dirichlet:-1",
        "--partition dirichlet:x",
        "--batch-size 21 --no-replacement",
        "--graph ring:81",
        "--set problem.samples=-2",
        "--set problem.dimension=-2",
        "--set problem.regularisation=nan",
        "--set problem.regularisation=-1",
        "--set problem.source=x",
        "--set problem.sizes=x",
    ],
)
def test_bad_splits_are_refused(flags: str, peerdescent_: Command, here: Path) -> None:
    refused(peerdescent_("run", *shlex.split(SPLIT), *shlex.split(flags)), here)


@pytest.mark.parametrize(
    "text",
    [
        "algorithm = ",
        "iterations = 1e3",
        "iterations = true",
        "iterations = '10'",
        "replacement = 1",
        "title = 3",
        "powerball = 'x'",
        "bogus = 1",
        "algorithm = 3",
        "algorithm = ['d2']",
        "algorithm = {class = 'DSGPA'}",
        "algorithms = 'd2'",
        "algorithms = []",
        "algorithms = [1]",
        "algorithm = 'd2'\nalgorithms = ['d2']",
        "load = 'a.py'",
        "load = [1]",
        "set = 3",
        "set = {eta = [1, 2]}",
        "set = {eta = true}",
        "set = {problem = {start = [1]}}",
        "set = {problem = {seed = true}}",
        "set = {bogus = {eta = 1}}",
        "graph = 'ring:4'\ngraph = 'ring:5'",
        b"\x00\xff\xfe\x80binary",
    ],
)
def test_bad_files_are_refused(text: str | bytes, peerdescent_: Command, here: Path) -> None:
    Path("a.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(peerdescent_("run", "a.toml"), here, leaves=("a.toml",))


@pytest.mark.parametrize(
    "edges",
    ["0 1\n2 3\n", "0 0\n", "0 1 -1\n", "0 1 nan\n", "0 1\n1 3\n", "a b\n", "", "0 1\n1 2\n2 1\n", b"\x00\xff\x80"],
)
def test_bad_edge_lists_are_refused(edges: str | bytes, peerdescent_: Command, here: Path) -> None:
    Path("edges.txt").write_bytes(edges if isinstance(edges, bytes) else edges.encode())
    refused(peerdescent_("run", "--graph", "file:edges.txt"), here, "edges.txt", leaves=("edges.txt",))


@pytest.mark.parametrize(
    "code", ["1/0", "raise ValueError('a\\nb')", "def", "import sys; sys.exit(0)", "import nothing_of_that_name"]
)
def test_a_failing_method_file_is_named(code: str, peerdescent_: Command, here: Path) -> None:
    Path("mine.py").write_text(code)
    said = peerdescent_("run", *shlex.split(SMALL), "--load", "mine.py")
    leaves = [name for name in os.listdir(here) if name == "__pycache__"]
    refused(said, here, "mine.py", leaves=("mine.py", *leaves))


def test_a_method_file_cannot_take_a_known_name(peerdescent_: Command, here: Path) -> None:
    Path("mine.py").write_text(METHOD.replace('"lonely"', '"d2"'))
    said = peerdescent_("run", *shlex.split(SMALL), "--load", "mine.py")
    assert said.code == 2
    assert "d2" in said.err


@pytest.mark.parametrize("command", ["run", "compare"])
def test_an_unwritable_folder_is_refused(command: str, peerdescent_: Command, here: Path) -> None:
    Path("file").touch()
    refused(peerdescent_(command, *shlex.split(SMALL), "--out", "file/a"), here, "file/a", leaves=("file",))
    for flags in ("", "--overwrite", "--resume"):
        refused(peerdescent_(command, *shlex.split(SMALL), "--out", "file", *flags.split()), here, leaves=("file",))


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize("flag", ["", "--overwrite", "--resume"])
@pytest.mark.parametrize("name", ["thesis.tex", "experiment.toml", "comparison.toml"])
def test_a_folder_of_another_kind_is_left_alone(
    command: str, flag: str, name: str, peerdescent_: Command, here: Path
) -> None:
    Path(name).write_text("seed = 1")  # experiments are kept in such files, so the name alone proves nothing
    refused(peerdescent_(command, *shlex.split(SMALL), "--out", ".", *flag.split()), here, leaves=(name,))
    assert Path(name).read_text() == "seed = 1"


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("command", ["run", "compare"])
def test_wrong_input_does_not_cost_the_old_run(command: str, peerdescent_: Command, here: Path) -> None:
    assert peerdescent_(command, *shlex.split(SMALL), "--out", "a").code == 0
    before = {path: path.read_bytes() for path in Path("a").rglob("*") if path.is_file()}
    refused(peerdescent_(command, *shlex.split(SMALL), "--out", "a"), here, "--overwrite", leaves=("a",))
    wrong = [*shlex.split(SMALL), "--out", "a", "--overwrite"]
    for flags in ("--partition label", "--kernel x", "--set eta=-1", "--laplacian x"):
        refused(peerdescent_(command, *wrong, *flags.split()), here, leaves=("a",))
    assert {path: path.read_bytes() for path in Path("a").rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("undrawn")
def test_overwrite_replaces_a_run(peerdescent_: Command, here: Path) -> None:
    peerdescent_("run", *shlex.split(SMALL), "--out", "a")
    Path("a/notes.txt").touch()
    assert peerdescent_("run", *shlex.split(SMALL), "--out", "a", "--overwrite", "--iterations", 10).code == 0
    assert rows(Path("a"))[-1]["iteration"] == 10
    assert Path("a/notes.txt").exists()  # no run wrote it


def test_a_full_disk_is_one_sentence(peerdescent_: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    said = peerdescent_("run", *shlex.split(SMALL), "--out", "a")
    assert said.code == 1
    (sentence,) = said.sentences
    assert "No space left" in sentence


# Divergence


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("method", ["dsgpa-f-pb", "d-sgd-1", "dm-sgd", "d-sgt-1", "d2"])
def test_divergence_keeps_the_records(method: str, peerdescent_: Command) -> None:
    flags = f"{SMALL} --iterations 300 -a {method} --set eta=100 --out a --eval-every 5"
    said = peerdescent_("run", *shlex.split(flags))
    assert said.code == 3
    (sentence,) = said.sentences
    assert "diverged" in sentence
    assert "Traceback" not in said.err
    table = rows(Path("a"))
    assert [row["iteration"] for row in table] == list(range(0, table[-1]["iteration"] + 1, 5))
    assert table[0]["loss"] > 0
    assert table[-1]["loss"] is None  # JSON has no infinity
    summary = json.loads(Path("a/summary.json").read_text())
    assert summary["diverged"] is True
    assert summary["iteration"] == table[-1]["iteration"]
    again = peerdescent_("run", "a/experiment.toml", "--out", "b")
    assert again.code == 3
    assert rows(Path("b")) == table


@pytest.mark.usefixtures("undrawn")
def test_divergence_on_the_network(peerdescent_: Command) -> None:
    said = peerdescent_("run", "-a", "dsgpa-f-pb", "--set", "eta=100", "--iterations", 100, "--out", "a", "--json")
    assert said.code == 3
    assert json.loads(said.out)["results"]["dsgpa-f-pb"]["diverged"] is True


def test_a_comparison_survives_one_that_diverges(peerdescent_: Command) -> None:
    flags = f"{SMALL} --iterations 300 -a d-sgd-1 -a dm-sgd --set dm-sgd.eta=100 --set eta=.05 --out a"
    said = peerdescent_("compare", *shlex.split(flags))
    assert said.code == 0
    assert "diverged" in said.out
    assert "diverged" in Path("a/table.md").read_text()
    assert json.loads(Path("a/dm-sgd/summary.json").read_text())["diverged"] is True
    assert json.loads(Path("a/d-sgd-1/summary.json").read_text())["diverged"] is False
    assert picture(Path("a/figures/comparison.png"))


def test_a_comparison_in_which_all_diverge_fails(peerdescent_: Command) -> None:
    said = peerdescent_("compare", *shlex.split(f"{SMALL} --iterations 300 -a d-sgd-1 -a dm-sgd --set eta=100"))
    assert said.code == 3
    assert len(said.sentences) == 1


# Good input


def picture(path: Path) -> bool:
    """Whether a PNG has more than one colour."""
    import matplotlib.image

    pixels = matplotlib.image.imread(path)
    return bool(pixels.std() > 0.01) and min(pixels.shape[:2]) > 200


def example() -> list[str]:
    """The long example of the help page."""
    text = re.findall(r"`(.+?)`", str(run.__doc__))[0]
    return shlex.split(text)[1:]


@pytest.mark.e2e
def test_the_example_of_the_help_page(peerdescent_: Command) -> None:
    said = peerdescent_(*example(), "--iterations", 40, "--eval-every", 15)
    assert said.code == 0
    assert said.err == ""
    assert "runs/a" in said.out
    folder = Path("runs/a")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [0, 15, 30, 40]
    for line in lines:
        assert list(line)[:4] == [*COLUMNS[:3], "test_loss"]
        assert set(COLUMNS) <= set(line)
        assert 0 < line["accuracy"] < 1  # a fraction
        assert len(line["agent_loss"]) == len(line["agent_accuracy"]) == 10
    edges = len(graphs.parse("er:10:0.4").edges)
    assert lines[-1]["bytes_sent"] == 1 * 20560 * 4 * 2 * edges * 40
    assert lines[-1]["loss"] < lines[0]["loss"]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["diverged"] is False
    assert {key: summary[key] for key in COLUMNS} == {key: lines[-1][key] for key in COLUMNS}
    for name in ("comparison", "topology"):
        assert picture(folder / "figures" / f"{name}.png")
        page = (folder / "figures" / f"{name}.pdf").read_bytes()
        assert page.startswith(b"%PDF")
        assert len(page) > 4000
    again = peerdescent_("run", folder / "experiment.toml", "--out", "again")
    assert again.code == 0
    assert rows(Path("again")) == rows(folder)
    assert Path("again/experiment.toml").read_text() == (folder / "experiment.toml").read_text()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("method", EVERY_METHOD)
def test_every_method_can_be_run_again_from_its_record(method: str, peerdescent_: Command) -> None:
    power = "--set gamma=.9" if "-pb" in method or method.startswith("powered") else "--powerball .9"
    flags = f"{SMALL} -a {method} --set problem.dimension=3 --set problem.noise=.1 --batch-size 4 {power} -q"
    flags += " --compress none"
    assert peerdescent_("run", *shlex.split(flags), "--seed", 3, "--out", "a", "--dtype", "float64").code == 0
    assert peerdescent_("run", "a/experiment.toml", "--out", "b", "-q").code == 0
    assert rows(Path("a")) == rows(Path("b"))
    sent = vectors_sent(algorithms.make(method)) * 3 * 8 * 2 * 4 * 20
    assert rows(Path("a"))[-1]["bytes_sent"] == sent


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("problem", list(problems.PROBLEMS))
def test_every_problem_can_be_named(problem: str, peerdescent_: Command) -> None:
    if (name := problems.dataset(problem)) and not find(name).bundled:
        pytest.skip("its data are fetched from the network")
    said = peerdescent_("run", "--problem", problem, "--graph", "ring:3", "--iterations", 2, "--json")
    assert said.code == 0
    assert json.loads(said.out)["results"]["dsgpa-f-pb"]["iteration"] == 2


@pytest.mark.usefixtures("undrawn")
def test_schedules_can_be_set(peerdescent_: Command) -> None:
    flags = f"{SMALL} -a d-sgd-1 --set eta=inverse:.1:.5 --out a -q"
    assert peerdescent_("run", *shlex.split(flags)).code == 0
    assert 'eta = "inverse:0.1:0.5:1.0"' in Path("a/experiment.toml").read_text()
    peerdescent_("run", "a/experiment.toml", "--out", "b", "-q")
    assert rows(Path("a")) == rows(Path("b"))


@pytest.mark.usefixtures("undrawn")
def test_flags_override_the_file(peerdescent_: Command) -> None:
    Path("a.toml").write_text(
        "problem = 'quadratic'\ngraph = 'ring:4'\nalgorithm = 'd-sgd-1'\niterations = 10\nbatch-size = 0\n"
        "[set]\neta = 0.5\n[set.problem]\ndimension = 3\nspread = 2.0\n"
    )
    flags = "--iterations 5 --set problem.dimension=2 --set eta=.25 --seed 7 --graph path:3 --out r -q"
    assert peerdescent_("run", "a.toml", *shlex.split(flags)).code == 0
    written = read("r/experiment.toml")
    assert (written.iterations, written.seed, written.graph, written.problem) == (5, 7, "path:3", "quadratic")
    assert dict(written.set["problem"]) == {"dimension": 2, "spread": 2.0}
    assert make_algorithm(written, "d-sgd-1") == algorithms.make("d-sgd-1", eta=0.25)


@pytest.mark.usefixtures("undrawn")
def test_a_method_of_its_own_value_wins_over_the_common_one(peerdescent_: Command) -> None:
    flags = f"{SMALL} -a d-sgd-1,dm-sgd --set eta=.03 --set dm-sgd.eta=.01 --out a -q"
    assert peerdescent_("compare", *shlex.split(flags)).code == 0
    assert make_algorithm(read("a/d-sgd-1/experiment.toml"), "d-sgd-1").eta == 0.03
    assert make_algorithm(read("a/dm-sgd/experiment.toml"), "dm-sgd").eta == 0.01


@pytest.mark.usefixtures("undrawn")
def test_a_value_that_only_some_methods_have(peerdescent_: Command) -> None:
    flags = f"{SMALL} -a d-sgd-1,dsgpa-f-pb --set gamma=.5 --out a -q"
    assert peerdescent_("compare", *shlex.split(flags)).code == 0
    assert make_algorithm(read("a/dsgpa-f-pb/experiment.toml"), "dsgpa-f-pb").gamma == 0.5


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("command", ["run", "compare"])
def test_json_is_all_that_is_printed(command: str, peerdescent_: Command) -> None:
    said = peerdescent_(command, *shlex.split(SMALL), "--json", "--out", "a")
    assert said.code == 0
    result = json.loads(said.out)
    assert result["out"] == "a"
    assert set(COLUMNS) <= set(result["results"]["dsgpa-f-pb"])


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("command", ["run", "compare"])
def test_quiet_prints_nothing(command: str, peerdescent_: Command) -> None:
    jacobi = [*shlex.split(SMALL), "--set", "dual=jacobi"]
    assert peerdescent_(command, *jacobi, "--out", "a").err.startswith("note: ")
    assert peerdescent_(command, *jacobi, "--out", "b", "--quiet") == Said(0, "", "")


@pytest.mark.usefixtures("undrawn")
def test_brackets_and_colons_are_printed_as_they_are(peerdescent_: Command) -> None:
    said = peerdescent_("run", *shlex.split(SMALL), "--out", "[/bold]:ring:[red]")
    assert said.code == 0
    assert "run folder: [/bold]:ring:[red]" in said.out


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("algorithms", list(algorithms.PRESETS)),
        ("graphs", [entry.usage for entry in graphs.TOPOLOGIES.values()]),
        ("problems", list(problems.PROBLEMS)),
        ("experiments", ["quickstart", "nn-code", "one-digit-each"]),
    ],
)
def test_list(what: str, names: list[str], peerdescent_: Command) -> None:
    said = peerdescent_("list", what)
    assert said.code == 0
    assert all(name in said.out for name in names)
    entries = json.loads(peerdescent_("list", what, "--json").out)
    listed = [entry.get("name", entry.get("usage")) for entry in entries]
    assert set(names) <= set(listed)
    assert all(entry["what it is"] for entry in entries)


@pytest.mark.parametrize("name", list(library()))
def test_the_library_can_be_read(name: str) -> None:
    experiment = read(name)
    assert experiment.title
    assert [plan.description["algorithm"] for plan in resolve(experiment)] == list(experiment.algorithms)


@pytest.mark.parametrize("command", ["", "run", "compare", "tune", "list"])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_has_an_example(command: str, flag: str, peerdescent_: Command) -> None:
    said = peerdescent_(*command.split(), flag)
    assert said.code == 0
    assert said.err == ""
    assert f"peerdescent {command or 'compare quickstart'}" in re.sub(r"\s+", " ", said.out)


def test_no_command_shows_the_help(peerdescent_: Command) -> None:
    said = peerdescent_()
    assert "Usage: peerdescent" in said.out
    assert said.err == ""


def test_version(peerdescent_: Command) -> None:
    said = peerdescent_("--version")
    assert said.code == 0
    assert re.fullmatch(r"peerdescent \d+\.\d+\.\d+\S*\n", said.out)


@pytest.mark.usefixtures("undrawn")
def test_some_of_a_files_methods_can_be_chosen(peerdescent_: Command, here: Path) -> None:
    Path("a.toml").write_text(
        "problem = 'quadratic'\ngraph = 'ring:4'\nalgorithms = ['d-sgd-1', 'dm-sgd']\niterations = 5\n"
        "[set.d-sgd-1]\neta = 0.5\n[set.dm-sgd]\neta = 0.25\n"
    )
    assert peerdescent_("run", "a.toml", "-a", "dm-sgd", "--out", "r", "-q").code == 0
    assert make_algorithm(read("r/experiment.toml"), "dm-sgd").eta == 0.25
    said = peerdescent_("run", "a.toml", "-a", "dm-sgd", "--set", "d-sgd-1.eta=.1", "--out", "s")
    refused(said, here, "d-sgd-1", leaves=("a.toml", "r"))


@pytest.mark.usefixtures("undrawn")
def test_a_method_of_ones_own(peerdescent_: Command) -> None:
    Path("mine.py").write_text(METHOD)
    listed = json.loads(peerdescent_("list", "algorithms", "--load", "mine.py", "--json").out)
    assert {"name": "lonely", "also called": "", "values": "eta=0.1", "what it is": "everyone for himself"} in listed
    flags = f"{SMALL} -a lonely --load mine.py --set eta=.2 --out a --json"
    said = peerdescent_("run", *shlex.split(flags))
    assert said.code == 0
    assert json.loads(said.out)["results"]["lonely"]["bytes_sent"] == 0
    algorithms.unregister("lonely")
    again = ("run", "a/experiment.toml", "--trust", "--out", "b", "-q")
    assert peerdescent_(*again).code == 0  # it says what to load
    assert rows(Path("a")) == rows(Path("b"))


# In a process of its own


@pytest.mark.e2e
def test_the_real_command(process: Command, here: Path) -> None:
    said = process("run", *shlex.split(SMALL), "--out", "a", "--json")
    assert said.code == 0
    assert said.err == ""
    assert json.loads(said.out)["results"]["dsgpa-f-pb"]["iteration"] == 20
    refused(process("run", *shlex.split(SMALL), "--out", "a"), here, "a is not empty", leaves=("a",))


@pytest.mark.e2e
def test_the_real_command_refuses_and_diverges(process: Command, here: Path) -> None:
    refused(process("run", "--set", "eta=abc"), here, "eta")
    said = process("run", *shlex.split(SMALL), "--iterations", 300, "--set", "eta=100", "--out", "a")
    assert said.code == 3
    assert len(said.sentences) == 1


@pytest.mark.e2e
def test_terminals_without_greek_letters(process: Command) -> None:
    said = process("run", *shlex.split(SMALL), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert said.code == 0
    assert said.err == ""
