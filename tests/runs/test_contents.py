"""Overwriting removes what a run has written, and nothing else."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.commands import Command

from peerdescent import InputError
from peerdescent.runs.contents import prepare_folder, remove_checkpoint
from peerdescent.runs.folder import RunFolder

SMALL = ["--problem", "quadratic", "--graph", "ring:4", "--iterations", "20"]


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


def written(folder: Path) -> dict[Path, int]:
    """When each file was written, without locks."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}


def test_a_run_is_overwritten_and_other_files_stay(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("run", *SMALL, "-a", "d2", "--out", "a").code == 0
    plain, victim = names(here / "a"), here / "victim"
    victim.mkdir()
    (victim / "000000000020.safetensors").write_text("precious")
    others = {"notes.txt", "film.part", "figures/mine.png", "checkpoints/mine.txt", "code/x.py", "README.md"}
    for name in others:
        (here / "a" / name).parent.mkdir(exist_ok=True)
        (here / "a" / name).write_text("mine")
    (here / "a" / "link").symlink_to(victim)
    (here / "a" / "metrics.jsonl").unlink()
    (here / "a" / "metrics.jsonl").symlink_to(victim / "000000000020.safetensors")
    said = peerdescent_("run", *SMALL, "-a", "d2", "--iterations", "10", "--out", "a", "--overwrite")
    assert said.code == 0
    assert "note: kept in a, since no run wrote it: README.md, checkpoints, code, …" in said.err
    assert names(here / "a") - {"link"} - others == plain - {"checkpoints/000000000020.safetensors"} | {
        "checkpoints/000000000010.safetensors"
    }
    assert others < names(here / "a")
    assert (victim / "000000000020.safetensors").read_text() == "precious"


@pytest.mark.usefixtures("undrawn")
def test_a_linked_folder_of_checkpoints_is_not_followed(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("run", *SMALL, "-a", "d2", "--out", "a").code == 0
    (here / "a" / "checkpoints").rename(here / "scratch")
    (here / "a" / "checkpoints").symlink_to(here / "scratch")
    assert peerdescent_("run", *SMALL, "-a", "d2", "--out", "a", "--overwrite", "--iterations", "30").code == 0
    assert [path.name for path in (here / "scratch").iterdir()] == ["000000000020.safetensors"]


@pytest.mark.usefixtures("undrawn")
def test_a_comparison_is_overwritten_and_other_files_stay(peerdescent_: Command, here: Path) -> None:
    compare = ["compare", *SMALL, "--out", "c", "-a"]
    assert peerdescent_(*compare, "d2,dm-sgd").code == 0
    assert peerdescent_("run", *SMALL, "-a", "d-sgd-1", "--out", "c/mine").code == 0
    (here / "c" / "d2" / "notes.txt").write_text("mine")
    (here / "c" / "notes.txt").write_text("mine")
    mine = names(here / "c" / "mine")
    assert peerdescent_(*compare, "d2,d-sgd-1", "--overwrite").code == 0
    assert names(here / "c" / "mine") == mine
    assert not (here / "c" / "dm-sgd").exists()
    assert {"d2/notes.txt", "notes.txt", "d2/summary.json", "d-sgd-1/summary.json", "comparison.toml"} < names(
        here / "c"
    )


@pytest.mark.usefixtures("undrawn")
def test_a_comparison_names_no_folder_elsewhere(peerdescent_: Command, here: Path) -> None:
    """A file that was tampered with must not lead to the removal of other runs."""
    assert peerdescent_("run", *SMALL, "-a", "d2", "--out", "precious").code == 0
    assert peerdescent_("compare", *SMALL, "-a", "d2,dm-sgd", "--out", "c").code == 0
    before = names(here / "precious")
    (here / "c" / "x").symlink_to(here / "precious")
    (here / "c" / "comparison.toml").write_text('algorithms = ["../precious", "..", "x", 5, "d2", "dm-sgd"]')
    assert peerdescent_("compare", *SMALL, "-a", "d2,dm-sgd", "--out", "c", "--overwrite").code == 0
    assert names(here / "precious") == before


@pytest.mark.usefixtures("undrawn")
def test_a_comparison_that_refuses_to_resume_keeps_its_description(peerdescent_: Command, here: Path) -> None:
    compare = ["compare", *SMALL, "-a", "d2,dm-sgd", "--out", "c"]
    assert peerdescent_(*compare).code == 0
    before = (here / "c" / "comparison.toml").read_bytes()
    assert peerdescent_(*compare, "--seed", "5", "--resume").code == 2
    assert (here / "c" / "comparison.toml").read_bytes() == before


def test_a_tuning_is_overwritten_and_other_files_stay(peerdescent_: Command, here: Path) -> None:
    tune = ["tune", *SMALL, "-a", "d-sgd-1", "--trials", "2", "--seeds", "1", "--jobs", "1", "-q", "--out", "t"]
    assert peerdescent_(*tune).code == 0
    plain = names(here / "t")
    (here / "t" / "notes.txt").write_text("mine")
    (here / "t" / "trials" / "mine").mkdir()
    (here / "t" / "trials" / "mine" / "x").write_text("mine")
    assert peerdescent_(*tune, "--overwrite").code == 0
    assert names(here / "t") == plain | {"notes.txt", "trials/mine/x"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text("x"), "is not a folder and is left unchanged"),
        (lambda path: path.symlink_to("nowhere"), "is not a folder and is left unchanged"),
        (lambda path: (path.mkdir(), (path / "x").touch()), "is not a run folder and is left unchanged"),
        (lambda path: (path.mkdir(), (path / "environment.json").mkdir()), "is not a run folder"),
        (lambda path: (path.mkdir(), os.mkfifo(path / "environment.json")), "is not a run folder"),
    ],
    ids=["file", "dangling", "foreign", "folder for environment", "pipe for environment"],
)
@pytest.mark.parametrize("overwrite", [True, False])
def test_what_is_not_a_run_folder_is_refused(
    make: Callable[[Path], object], words: str, overwrite: bool, tmp_path: Path
) -> None:
    make(tmp_path / "a")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=words):
        prepare_folder(tmp_path / "a", resume=False, overwrite=overwrite)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_in_place_of_a_file_is_noticed_before_anything_is_removed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a")
    folder.describe({"seed": 1})
    folder.finish({"iteration": 3})
    folder.close()
    (tmp_path / "a" / "metrics.jsonl").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=r"metrics\.jsonl is a folder where a file is expected"):
        RunFolder(tmp_path / "a", overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("flag", ["--resume", "--overwrite"])
@pytest.mark.parametrize(("name", "kind"), [("figures", "not a folder"), ("table.md", "a folder where a file")])
def test_what_could_not_be_written_at_the_end_is_noticed_before_the_run(
    name: str, kind: str, flag: str, peerdescent_: Command, here: Path
) -> None:
    command = ["run", *SMALL, "-a", "d2", "--out", "a"]
    folder = RunFolder(here / "a")
    folder.describe({"seed": 1})
    folder.close()
    (here / "a" / name).touch() if name == "figures" else (here / "a" / name).mkdir()
    before = written(here)
    said = peerdescent_(*command, flag)
    assert said.code == 2
    assert f"a/{name} is {kind}" in said.err
    assert written(here) == before


@pytest.mark.parametrize("flag", [[], ["--resume"], ["--overwrite"]])
@pytest.mark.parametrize("name", ["a" * 300, "file/below", "/proc/nothing/here"])
def test_an_impossible_folder_is_one_sentence(name: str, flag: list[str], peerdescent_: Command, here: Path) -> None:
    (here / "file").touch()
    said = peerdescent_("run", *SMALL, "-a", "d2", "-q", "--out", name, *flag)
    assert said.code == 2
    assert len(said.sentences) == 1
    assert name in said.sentences[0]


@pytest.mark.e2e
@pytest.mark.parametrize("part", ["000000000002/manifest.json", "000000000002.safetensors"])
def test_nothing_is_removed_if_a_part_of_a_checkpoint_is_a_folder(part: str, here: Path, peerdescent_: Command) -> None:
    flags = shlex.split("run --problem quadratic --graph ring:4 -a d2 --iterations 4 -q --out a")
    assert peerdescent_(*flags).code == 0
    (here / "a" / "checkpoints" / part).mkdir(parents=True)
    before = names(here)
    assert peerdescent_(*flags, "--overwrite").code == 2
    assert names(here) == before


def test_several_processes_remove_a_checkpoint_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "000000000010"
    folder.mkdir()

    def gone(path: Path) -> Iterator[Path]:
        folder.rmdir()
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    monkeypatch.setattr(Path, "iterdir", gone)
    remove_checkpoint(folder)
    assert not folder.exists()


def test_a_comparison_with_a_foreign_folder_in_place_of_a_run_is_left_alone(here: Path, peerdescent_: Command) -> None:
    flags = shlex.split("compare --problem quadratic --graph ring:4 -a d2,d-sgd-1 --iterations 4 -q --out c")
    assert peerdescent_(*flags).code == 0
    (here / "c" / "d2" / "environment.json").unlink()
    (here / "c" / "d2" / "environment.json").mkdir()
    before = names(here)
    assert peerdescent_(*flags, "--overwrite").code == 2
    assert names(here) == before
