"""A tiny data set in the format of MNIST, a web server and an environment for the tests of fetching."""

import gzip
import hashlib
import http.server
import struct
import threading

import numpy as np
import pytest

from peerdescent.data import fetch as module
from peerdescent.data.datasets import MNIST, Dataset
from peerdescent.data.fetch import location
from peerdescent.data.files import idx_file

NAMES = [file.name for file in MNIST.files]
IMAGES, LABELS = NAMES[:2]


def idx_bytes(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def made(seed=0):
    """The four files of a data set of 6 + 3 images of 5×4."""
    draw = np.random.default_rng(seed)
    shapes = [(6, 5, 4), (6,), (3, 5, 4), (3,)]
    tops = [256, 10, 256, 10]
    both = zip(NAMES, shapes, tops, strict=True)
    return {name: idx_bytes(draw.integers(0, top, shape).astype(np.uint8)) for name, shape, top in both}


CONTENT = made()


def described(content, **places):
    shapes = [(6, 5, 4), (6,), (3, 5, 4), (3,)]
    files = (
        idx_file(name, shape, hashlib.sha256(content[name]).hexdigest(), 10 if "labels" in name else None)
        for name, shape in zip(NAMES, shapes, strict=True)
    )
    return Dataset("mnist", tuple(files), subfolders=MNIST.subfolders, **places)


TINY = described(CONTENT)


def put(folder, content=CONTENT, form="plain"):
    """Write the files into a folder: plain, gz, dotted or mixed."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, (name, data) in enumerate(content.items()):
        kind = ("plain", "gz", "dotted", "dotted gz")[i] if form == "mixed" else form
        spelling = name.replace("-idx", ".idx") if "dotted" in kind else name
        if "gz" in kind:
            (folder / f"{spelling}.gz").write_bytes(gzip.compress(data))
        else:
            (folder / spelling).write_bytes(data)
    return folder


def cached():
    """Return the contents of the cache, including temporary files."""
    folder = location()
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


@pytest.fixture(autouse=True)
def isolated_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PEERDESCENT_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    module._cached.cache_clear()


@pytest.fixture
def mirror():
    """A web server: `answers` maps a path to bytes, a status, or a function of the request handler."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            answer = answers.get(self.path, 404)
            if callable(answer):
                answer(self)
            elif isinstance(answer, int):
                self.send_error(answer)
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *_):
            pass

    answers = {f"/m/{name}.gz": gzip.compress(data) for name, data in CONTENT.items()}
    asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.answers, server.asked = answers, asked
    server.address = f"http://127.0.0.1:{server.server_port}/m"
    server.host = f"127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()
