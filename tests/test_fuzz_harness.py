"""The fuzzer finds what it is there to find: each kind of fault, planted, is reported with its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.fuzz.cases import Case, Ended, Place
from tests.support.fuzz.verdicts import Report, faults

ROOT = Path(__file__).parent.parent
CODES = frozenset({0, 1, 2, 3})
PLANTED = {
    "fine": "print('fine')",
    "traceback": "def inner():\n    return {}['missing']\ninner()",
    "signal": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
    "hang": "import time\nwhile True:\n    time.sleep(0.05)",
    "exit code": "import os\nos._exit(77)",
    "temporary file": "open('out.part', 'w').close()",
    "temporary folder": "import tempfile\ntempfile.mkdtemp()",
    "process": "import subprocess\nsubprocess.Popen(['sleep', '60'])",
    "daemon": "import subprocess\nsubprocess.Popen(['sleep', '60'], start_new_session=True)",
    "memory": "bytearray(5 << 30)",
    "refusal": "from peerdescent.errors import InputError\nraise InputError('no.')",
    "wrong call": "len(1, 2, 3)",
    "struck": "import time\ntime.sleep(60)",
}
RUN = """
import json, sys
from pathlib import Path
from tests.support.fuzz import supervision, verdicts
from tests.support.fuzz.cases import Case
supervision.GRACE = 0.2
planted, arena = json.loads(sys.argv[1]), Path(sys.argv[2])
strikes = {"struck": (15, 0.3)}
cases = [(i, Case("planted", code=code, strike=strikes.get(name))) for i, (name, code) in enumerate(planted.items())]
found = {}
for i, case, ended in supervision.run_all(cases, arena, jobs=4, limit=float(sys.argv[3])):
    found[list(planted)[i]] = [fault.group for fault in verdicts.faults(case, ended, frozenset({0, 1, 2, 3}))]
print(json.dumps([found, sorted(path.name for path in arena.iterdir())]))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is said of each planted fault; all run in one process without torch, which forks cheaply."""
    if sys.platform != "linux":
        pytest.skip("cases are forked, limited and looked for in /proc")
    arena = tmp_path_factory.mktemp("arena")
    command = [sys.executable, "-c", RUN, json.dumps(PLANTED), str(arena), "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    groups, left = json.loads(done.stdout)
    assert left == []
    return dict(groups)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("traceback", "KeyError in <case>:inner"),
        ("signal", "SIGSEGV in <case>:<module>"),
        ("hang", "hangs in <case>:<module>"),
        ("exit code", "undocumented exit code 77"),
        ("temporary file", "leftovers: *.part"),
        ("temporary folder", "leftovers: tmp/*"),
        ("process", "processes that outlive the command"),
        ("daemon", "processes that outlive the command"),
        ("memory", "MemoryError in <case>:<module>"),
        ("struck", "SIGTERM in unknown place"),
    ],
)
def test_a_planted_fault_is_reported(found: dict[str, list[str]], planted: str, said: str) -> None:
    assert found[planted] == [said]


@pytest.mark.parametrize("planted", ["fine", "refusal", "wrong call"])
def test_what_is_right_is_not_reported(found: dict[str, list[str]], planted: str) -> None:
    assert found[planted] == []


def ended(tmp_path: Path, code: int, err: str = "", **more: object) -> Ended:
    return Ended(Place(tmp_path, tmp_path), code, err=err, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "err", "group"),
    [
        (2, "peerdescent: no.\nand more\n", "2 lines in place of one sentence"),
        (2, "", "0 lines in place of one sentence"),
        (1, "peerdescent: the run: No space left on device.\n", "a sentence that names no file"),
        (0, "[W] something\n", "stderr of a command that ends well: [W] something"),
        (2, "note: unstable\npeerdescent: no.\n", None),
        (0, "note: unstable\n", None),
    ],
)
def test_a_command_says_one_sentence(tmp_path: Path, code: int, err: str, group: str | None) -> None:
    groups = [fault.group for fault in faults(Case("planted", ("run",)), ended(tmp_path, code, err), CODES)]
    assert groups == ([group] if group else [])


def test_wrong_input_neither_makes_nor_takes_nor_changes_files(tmp_path: Path) -> None:
    before, after = {"here/a": "1", "here/b": "2", "here/.lock": ""}, {"here/b": "3", "here/c": "4"}
    refused = ended(tmp_path, 2, "peerdescent: no.\n", before=before, after=after)
    groups = [fault.group for fault in faults(Case("planted", ("run",)), refused, CODES)]
    assert groups == ["wrong input leaves files", "wrong input removes files", "wrong input changes files"]


def test_a_wrong_result_is_reported(tmp_path: Path) -> None:
    case = Case("planted", ("run",), check=lambda ended: "a wrong result: x differs")
    assert [fault.group for fault in faults(case, ended(tmp_path, 0), CODES)] == ["a wrong result"]


def test_the_report_groups_counts_and_says_how_to_repeat(tmp_path: Path) -> None:
    report = Report(7, CODES)
    for index in range(30):
        report.add(index, Case("planted", ("run", f"--flag-{index}")), ended(tmp_path, 4 if index < 5 else 100 + index))
    text = str(report)
    assert "seed 7: 30 of 30 cases failed" in text
    assert "5 × undocumented exit code 4 [planted]\n    peerdescent run --flag-0" in text
    assert "repeat: python -m tests.support.fuzz 7:0" in text
    assert "and 6 further groups" in text


def test_a_case_is_a_function_of_seed_and_number() -> None:
    from tests.support.fuzz import mix

    cases = [mix.make(3, index) for index in range(300)]
    assert {case.kind for case in cases} == set(mix.KINDS)
    assert [case.shown for case in cases] == [mix.make(3, index).shown for index in range(300)]
    assert any(case.real for case in cases)
    assert mix.documented_codes() >= {0, 1, 2, 3}
