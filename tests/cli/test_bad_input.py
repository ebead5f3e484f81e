"""Wrong input of every kind: one sentence that names it, exit code 2, no traceback, nothing left behind."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.support.commands import Command, Said
from typer.core import TyperGroup

import peerdescent
from peerdescent import InputError
from peerdescent.cli import main as cli
from peerdescent.errors import StoppedError

QUADRATIC = "--problem quadratic --graph ring:4 --batch-size 0 --iterations 2"
LOGISTIC = "--problem logistic-nonconvex --graph ring:4 --iterations 2"
RIPPLES = "--problem ripples --graph ring:4 --iterations 2"
HUGE, DIGITS = 10**30, "9" * 5000


def refused(said: Said, words: str) -> None:
    assert said.code == 2, said
    (sentence,) = said.sentences
    assert sentence.startswith("peerdescent: ")
    assert words in sentence
    assert "Traceback" not in said.err + said.out


def each(line: str, values: Iterable[object], words: str) -> list[tuple[str, str]]:
    """A line for every value, which stands for {}; it may be in the words too."""
    return [(line.replace("{}", str(value)), words.replace("{}", str(value))) for value in values]


NOT_COUNTS = ("1e12", "-1", "nan", "inf", HUGE, "''", "1.5", DIGITS)
DEVICES = ("hpu", "privateuseone", "cuda:99", "cuda:-1", "cpu:5", "meta", "xla", "vulkan", "nonsense", "cpu:x")
NUMBERS = [
    *each(f"run {QUADRATIC} --set eta={{}}", ("1e308", "1e31", "nan", "-1", DIGITS), "eta = "),
    *each(f"{{}} {QUADRATIC} --set eta=1e308", ("explain", "compare"), "eta = 1e+308: expected a step size of at most"),
    (f"run {QUADRATIC} --set alpha=1e308", "alpha = 1e+308: expected a step size of at most 1e+30"),
    (f"run {QUADRATIC} --set beta=inverse:1e308:1", "beta = inverse:1e+308"),
    (f"run {QUADRATIC} --set eta=warmup:3:power:1e308:1", "eta = warmup:3:power:1e+308"),
    (f"run {QUADRATIC} --set eta=inverse:1:-1", "eta = 'inverse:1:-1'"),
    (f"run {QUADRATIC} --set eta=cosine:1:{10**400}", "the length of a cosine schedule"),
    (f"run {QUADRATIC} --set eta=warmup:{10**400}:1", "the length of a warm-up"),
    (f"run {QUADRATIC} --set eta=step:1:.5:{10**400}", "a milestone of a step schedule"),
    (f"run {QUADRATIC} --set gamma=1e308", "gamma"),
    (f"run {QUADRATIC} --laplacian unit:1e308", "unit:1e308"),
    *each(
        f"run {QUADRATIC} --set problem.dimension={{}}", ("-1", "nan", "inf", "1.5", HUGE, 2**63, DIGITS), "dimension"
    ),
    (f"run {QUADRATIC} --set problem.dimension=1e308", "problem.dimension = 1e+308: expected an integer"),
    (f"run {QUADRATIC} --set problem.dimension=1e6", "1,000,000 parameters"),
    *each(f"{{}} {QUADRATIC} --set problem.dimension=1e12", ("run", "compare"), "of memory are free"),
    (f"run {QUADRATIC} --workers 2 --set problem.dimension=1e12", "of memory are free"),
    *each(f"run {LOGISTIC} --set problem.{{}}=1e12", ("samples", "dimension"), "of memory are free"),
    (f"run {LOGISTIC} --set problem.samples=1e308", "problem.samples = 1e+308: expected an integer"),
    (f"run {RIPPLES} --set problem.dimension=1e9", "of memory are free"),
    (f"run {RIPPLES} --set problem.noise=1e308", "noise = 1e+308: expected at most 1e+30"),
    *each(f"run {LOGISTIC} --batch-size {{}}", (10**12, 2**63 - 1), "minibatches"),
    ("run --graph ring:4 --iterations 2 --batch-size 1000000000", "minibatches"),
    *each(f"run {LOGISTIC} --batch-size {{}}", NOT_COUNTS, "batch"),
    *each(f"run {LOGISTIC} --iterations {{}}", NOT_COUNTS, "iterations"),
    *each(f"run {LOGISTIC} --seed {{}}", NOT_COUNTS, "seed"),
    *each(f"run {LOGISTIC} --workers {{}}", NOT_COUNTS, ""),
    *each(f"run {LOGISTIC} --threads {{}}", (*NOT_COUNTS, 0, 1025, 100_000, 2**63 - 1), "threads"),
    *each("tune --{} 1000000000000", ("trials", "seeds", "tuning-seeds", "jobs"), "{}"),
    *each(f"run {QUADRATIC} --device {{}}", DEVICES, "device = '{}' cannot be used here: "),
    (f"run {QUADRATIC} --device ''", "device = '' cannot be used here"),
]
EMPTY = ("-a", "--problem", "--graph", "--laplacian", "--mixing", "--load", "--on-loss", "--dtype")
NAMES = [
    ("run ''", "there is no experiment ''"),
    ("explain ' '", "there is no experiment ' '"),
    ("init ''", "the path is empty"),
    ("report . --out ''", "the path is empty"),
    (f"run {QUADRATIC} --out ''", "the path is empty"),
    (f"compare {QUADRATIC} --out ' '", "the path is empty"),
    *each(f"run {QUADRATIC} --out {'x' * 300} {{}}", ("", "--resume", "--overwrite"), "File name too long"),
    (f"run {QUADRATIC} --out {'x/' * 2500}", "File name too long"),
    (f"run --problem quadratic --out {'x' * 300} --resume", "File name too long"),
    *each(f"run {QUADRATIC} --out {{}}", ("/dev/null", "/dev/null/x", "/proc/x"), "{}"),
    (f"init {'x' * 300}", "File name too long"),
    ("init missing/x.toml", "missing/x.toml"),
    (f"run {'x' * 300}.toml", "File name too long"),
    (f"run {QUADRATIC} -a {DIGITS}", "there is no algorithm"),
    *each(f"run {QUADRATIC} {{}} ''", EMPTY, ""),
    (f"run {QUADRATIC} --set ''", "--set"),
    (f"run {QUADRATIC} --set problem.agents=5", "problem.agents cannot be set: --graph decides it"),
    (f"explain {QUADRATIC} --set problem.name=5", "problem.name cannot be set: --problem decides it"),
    ("init . --overwrite", "is a folder"),
    (f"run {QUADRATIC} --message-dtype \udcff", "message_dtype = "),  # what Python makes of a byte that is no text
    *each(f"run {QUADRATIC} --workers 2 --kill {{}}", ("''", "0", "0@", "@1", "-1@0", "99@1", f"{HUGE}@1"), "kill"),
    *each(f"run {QUADRATIC} --workers 2 --stall {{}}", ("0@1", "0@1:x", "0@1:-1", "0@1:nan", "0@1:inf"), "stall"),
]
COUNTS = (0, -1, "1e9", "nan", "1.5", DIGITS)
GRAPHS = [
    *(f"ring:{count}" for count in COUNTS),
    *(
        "complete:1e6",
        "er:10:nan",
        "er:5000000:0.5",
        "hypercube:64",
        "hypercube:1e3",
        "grid:1e5:1e5",
        "geometric:10:inf",
    ),
    *("ba:10:10", "ws:10:99:.5", f"er:10:.4:seed={DIGITS}", "edges:", "edges:0-0", "edges:0-999999999999"),
    *("edges:0-1=nan", f"edges:{DIGITS}-1", "file:", "file:/dev/null", "file:/dev/zero", "file:.", "file:fifo"),
    *("file:loop", "file:~nobody/x"),
]


@pytest.fixture
def fifo(here: Path) -> None:
    os.mkfifo(here / "fifo")
    os.mkfifo(here / "fifo.py")
    (here / "loop").symlink_to("loop")
    (here / "folder.toml").mkdir()


def shown(value: object) -> str:
    return str(value)[-40:]


@pytest.mark.parametrize(("line", "words"), [*NUMBERS, *NAMES], ids=shown)
def test_numbers_and_names(line: str, words: str, peerdescent_: Command, here: Path) -> None:
    refused(peerdescent_(*shlex.split(line)), words)
    assert os.listdir(here) == []


@pytest.mark.parametrize("graph", GRAPHS, ids=shown)
@pytest.mark.usefixtures("fifo")
def test_graphs(graph: str, peerdescent_: Command) -> None:
    refused(peerdescent_("explain", *shlex.split(QUADRATIC), "--graph", graph), "")


@pytest.mark.parametrize("source", ["fifo", "loop", "/dev/zero", "/dev/null", "folder.toml", "fifo.py"])
@pytest.mark.parametrize("command", ["explain {}", "init new.toml --from {}", f"explain {QUADRATIC} --load {{}}"])
@pytest.mark.usefixtures("fifo")
def test_what_is_not_a_regular_file(source: str, command: str, peerdescent_: Command) -> None:
    refused(peerdescent_(*shlex.split(command.format(source))), source)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a = " + b"[" * 100_000, "nests its values too deeply"),
        (b"a = " + b"{b=" * 50_000, "nests its values too deeply"),
        (b".".join([b"a"] * 100_000) + b" = 1", "a key of more than 32 parts"),
        (b"iterations = " + b"9" * 5000, "not valid TOML"),
        (b"set.eta = " + b"9" * 4000, "eta = "),
        (b"set.eta = " + b"9" * 400, "eta = "),
        (b"set.eta = 2020-01-01", "eta = "),
        (b"set.problem.seed = 2020-01-01\nproblem = 'quadratic'", "problem.seed = "),
        (b"set." + b".".join([b"a"] * 20) + b" = 1", "a"),
        (b"set = {a = {a = {a = 1}}}", "a"),
        (b"powerball = inf", "a.toml: powerball = inf: expected"),
        (b"iterations = -1", "a.toml: iterations = -1: expected a whole number, at least 0"),
        (b"made_in_python = 5", "made in Python with its own 5"),
        (b"made_in_python = ['x0']", "made in Python with its own x0"),
        (b"title = '\\ud800'\nx = 1", "x"),
        (b"\xff\xfe", "is not text"),
        (b"seed = 1\n\xff", "is not text"),
        (b"'' = 1", "unknown key ''"),
        (b"algorithms = ['']", "there is no algorithm ''"),
        (b"algorithms = [" + b"'d2'," * 60_000 + b"'d-sgd-1']", "algorithms has d2 more than once"),
        (b"batch-size = 1\nbatch_size = 2", "has both batch-size and batch_size"),
        (b"seed = 0x" + b"f" * 5000, "seed = an int"),
        (b"#" * ((64 << 20) + 1), "larger than 64 MiB"),
    ],
    ids=range(23),
)
def test_experiment_files(content: bytes, words: str, peerdescent_: Command) -> None:
    Path("a.toml").write_bytes(content)
    refused(peerdescent_("explain", "a.toml"), words)


def test_a_file_of_notepad_is_read(peerdescent_: Command) -> None:
    Path("a.toml").write_bytes(b"\xef\xbb\xbfproblem = 'quadratic'\ngraph = 'ring:3'\n")
    assert peerdescent_("explain", "a.toml").code == 0


@pytest.mark.parametrize("text", ["x", "nan", "inf", "-1", "1e400", " "])
def test_environment_variables(text: str, peerdescent_: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", text)
    refused(peerdescent_("run", *shlex.split(QUADRATIC), "--out", "a"), "PEERDESCENT_CHECKPOINT_SECONDS")
    assert not Path("a").exists()


@pytest.mark.usefixtures("undrawn")
def test_a_cache_of_nonsense_does_not_end_a_run(peerdescent_: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CACHE", "x" * 300)
    assert peerdescent_("run", *shlex.split(QUADRATIC), "--kernel", "plain", "--out", "a", "-q").code == 0


def _raise(error: Exception) -> Callable[..., None]:
    def app(**_: object) -> None:
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "not enough memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "not enough memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "not enough memory"),
        (OverflowError("Python int too large to convert to C long"), "a number is too large"),
    ],
)
def test_what_was_not_foreseen(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch, peerdescent_: Command
) -> None:
    monkeypatch.setattr(cli, "app", _raise(error))
    refused(peerdescent_(), words)


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "app", _raise(RuntimeError("a bug")))
    monkeypatch.setattr(sys, "argv", ["peerdescent"])
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main()


def test_python_has_the_same_limits() -> None:
    with pytest.raises(InputError, match=r"eta = 1e\+308: expected a step size of at most"):
        peerdescent.train("quadratic", "ring:4", peerdescent.algorithms.make("d2", eta=1e308))
    with pytest.raises(InputError, match=r"device = 'hpu' cannot be used here"):
        peerdescent.train("quadratic", "ring:4", "d2", device="hpu")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"run {QUADRATIC} --set problem.dimension=1e12", "of memory are free"),
        ("run /dev/zero", "is a device: expected a regular experiment file"),
        (f"run {QUADRATIC} --load mine.py", "'mine.py' failed in line 2: SystemExit"),
    ],
)
def test_the_real_command(line: str, words: str, process: Command, here: Path) -> None:
    (here / "mine.py").write_text("import sys\nsys.exit()")
    refused(process(*shlex.split(line)), words)


def test_a_sentence_about_long_input_is_short(peerdescent_: Command) -> None:
    said = peerdescent_("run", "--graph", "x" * 200_000)
    refused(said, "…")
    assert len(said.err) < 2100


def test_a_stop_before_the_command_has_begun_is_not_swallowed(
    peerdescent_: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise StoppedError(signal.SIGTERM)

    monkeypatch.setattr(TyperGroup, "make_context", stopped)
    said = peerdescent_("run", "--help")
    assert (said.code, said.err) == (143, "peerdescent: stopped.\n")


def test_what_cannot_fit_can_still_be_explained(peerdescent_: Command) -> None:
    said = peerdescent_("explain", *shlex.split(QUADRATIC), "--set", "problem.dimension=1e9")
    assert said.code == 0
    assert re.search(r"memory +about [0-9.]+ EB", said.out)
