"""Without a compiler, or with a broken one, the eager step runs and the result says why."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import peerdescent
from peerdescent._util import cache
from peerdescent.kernels import compiler, library_cache
from peerdescent.kernels.compiler import CompilerError, find_compiler

TEXT = "long thrice(long a) { return 3 * a; }"


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No kernel is loaded or cached before, and none is kept after."""
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path / "cache"))
    compiler._find.cache_clear()
    yield
    compiler._find.cache_clear()


def thrice(text: str = TEXT) -> int:
    """Load the function as a new process would, and call it."""
    compiler._find.cache_clear()
    return int(compiler.load(text, "thrice")(5))


def kept() -> list[Path]:
    return sorted(cache.private_cache("kernels").iterdir())


def script(folder: Path, text: str) -> str:
    path = folder / "compiler"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def without_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(folder))


def train(**settings: object) -> peerdescent.Result:
    return peerdescent.train("quadratic", "ring:5", "d-sgt-1", iterations=20, eval_every=20, **settings)


def test_cc_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = script(tmp_path, "#!/bin/sh\n")
    monkeypatch.setenv("CC", chosen)
    assert find_compiler() == chosen
    monkeypatch.setenv("CC", "no-such-compiler")
    assert find_compiler() != chosen


def test_a_missing_compiler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = train(kernel="plain").x
    without_compiler(tmp_path, monkeypatch)
    with pytest.raises(CompilerError, match="no C compiler found"):
        find_compiler()
    result = train()
    assert result.kernel == "plain (no C compiler found (looked for $CC, cc, gcc, clang))"
    assert torch.equal(result.x, expected)
    with pytest.raises(peerdescent.InputError, match=r"no C compiler found .* use kernel=plain"):
        train(kernel="compiled")
    assert train(kernel="plain").kernel == "plain"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\necho it hurts >&2\nexit 3\n", "it hurts"),
        ("#!/bin/sh\nexit 1\n", "it produced no output"),
        ("#!/bin/sh\nexit 0\n", ""),  # succeeds and makes nothing
        ('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho no library > "$2"\n', ""),
        ("#!/no/such/interpreter\n", ""),
        ("\x7fELF nothing that runs", ""),
    ],
    ids=["fails", "fails silently", "makes nothing", "makes garbage", "no interpreter", "no program"],
)
def test_a_broken_compiler_is_reported(text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", script(tmp_path, text))
    result = train()
    assert result.kernel.startswith("plain (")
    assert reason in result.kernel
    assert "\n" not in result.kernel
    with pytest.raises(peerdescent.InputError, match="use kernel=plain"):
        train(kernel="compiled")


def test_a_compile_error_is_reported() -> None:
    with pytest.raises(CompilerError, match="failed"):
        thrice("this is not C")
    assert not kept()


def test_a_compiler_that_does_not_finish_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    monkeypatch.setenv("CC", script(tmp_path, f"#!/bin/sh\nsleep 1000 &\necho $! > {pid}\nwait\n"))
    monkeypatch.setattr(compiler, "TIMEOUT", 2.0)
    assert "did not finish within 2 s" in train().kernel
    waits = 0
    while not _has_ended(int(pid.read_text())):  # what the compiler started
        time.sleep(0.1)
        waits += 1
        assert waits < 1000
    monkeypatch.setattr(compiler, "TIMEOUT", 1000.0)
    assert "did not finish" in train().kernel  # it is not waited for again
    assert not kept()


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_library_is_made_once_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert thrice() == 15
    (made,) = kept()
    before = made.stat().st_mtime_ns

    def never(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(compiler, "_compile", never)
    assert thrice() == 15
    assert made.stat().st_mtime_ns == before


def test_another_text_or_compiler_makes_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_compiler()
    assert thrice() == 15
    assert thrice(TEXT.replace("3", "4")) == 20
    monkeypatch.setenv("CC", script(tmp_path, f'#!/bin/sh\nexec {found} "$@"\n'))
    assert thrice() == 15
    assert len(kept()) == 3


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _put_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "notes.txt").write_text("kept")


def _link_elsewhere(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def _put_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _put_another_library(path: Path) -> None:
    """A whole library, under the name of another one."""
    thrice(TEXT.replace("3", "4"))
    (other,) = set(kept()) - {path}
    other.replace(path)


DAMAGE = {
    "truncated": _truncate,
    "empty": lambda path: path.write_bytes(b""),
    "a bit flipped": _flip_a_bit,
    "a folder": _put_a_folder,
    "a link": _link_elsewhere,
    "a pipe": _put_a_pipe,
    "another library": _put_another_library,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_library_is_compiled_again(damage: Callable[[Path], None]) -> None:
    assert thrice() == 15
    (path,) = kept()
    whole = path.read_bytes()
    damage(path)
    assert thrice() == 15
    assert path.is_file()
    assert not path.is_symlink()
    assert path.read_bytes() == whole
    assert [found.read_text() for found in path.parent.glob("*.found/notes.txt")] == ["kept"] * (
        damage is _put_a_folder
    )


@pytest.mark.e2e
def test_a_run_survives_a_truncated_library() -> None:
    """In a process of its own: a library that is cut off kills the process that loads it by SIGBUS."""
    code = "import peerdescent; print(peerdescent.train('quadratic', 'ring:5', 'd-sgt-1', iterations=20).kernel)"
    outputs = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
        outputs.append((done.returncode, done.stdout.strip()))
        for path in cache.cache_place().rglob("*"):
            if path.is_file():
                _truncate(path)
    assert outputs == [(0, "compiled (1 thread)")] * 2


def test_a_library_that_cannot_be_loaded_is_compiled_again() -> None:
    """A digest only shows that the file is what was written."""
    identity = "\n".join([TEXT, find_compiler(), *compiler.FLAGS, compiler._machine()])
    for library in (b"no library", compiler._compile(find_compiler(), "long other;")):
        library_cache.write(identity, library)
        assert thrice() == 15


def test_a_compiler_that_leaves_the_function_out_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.c").write_text("long other;")
    text = f"""#!/bin/sh
while [ "$1" != -o ]; do shift; done
{find_compiler()} -shared -fPIC -o "$2" {tmp_path}/other.c
"""
    monkeypatch.setenv("CC", script(tmp_path, text))
    assert "cannot be loaded" in train().kernel
    assert not kept()


def test_a_compiler_may_print_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", script(tmp_path, "#!/bin/sh\nhead -c 100000 /bin/sh >&2\nexit 1\n"))
    kernel = train().kernel
    assert kernel.startswith("plain (")
    assert kernel.isprintable()
    assert len(kernel) < 400


def _world_writable(folder: Path) -> None:
    folder.chmod(0o777)


def _of_another_user(folder: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder, 12345, 12345)


def _a_link(folder: Path) -> None:
    target = folder.with_name("target")
    folder.rename(target)
    folder.symlink_to(target)


@pytest.mark.parametrize("spoil", [_world_writable, _of_another_user, _a_link])
def test_a_folder_that_others_control_is_not_used(spoil: Callable[[Path], None]) -> None:
    expected = train(kernel="compiled").x
    (path,) = kept()
    folder = path.parent
    assert folder.stat().st_mode & 0o777 == 0o700
    path.write_bytes(b"would be loaded")
    spoil(folder)
    compiler._find.cache_clear()
    result = train(kernel="compiled")
    assert result.kernel.startswith("compiled (1 thread; not cached: ")
    assert str(folder) in result.kernel
    assert torch.equal(result.x, expected)
    assert path.read_bytes() == b"would be loaded"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_folder_is_private_whatever_the_umask(mask: int) -> None:
    before = os.umask(mask)
    try:
        assert thrice() == 15
    finally:
        os.umask(before)
    assert kept()[0].parent.stat().st_mode & 0o777 == 0o700


def test_a_full_cache_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written, neither into the cache nor, for the temporary folder, next to it."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(library_cache, "write_atomically", full)
    assert train(kernel="compiled").kernel.startswith("compiled")
    assert not kept()
    monkeypatch.setattr(compiler.tempfile, "TemporaryDirectory", full)
    compiler._find.cache_clear()
    assert train().kernel.startswith("plain (")
    with pytest.raises(peerdescent.InputError, match="use kernel=plain"):
        train(kernel="compiled")


def test_nothing_temporary_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    abandoned = cache.private_cache("kernels") / f"{library_cache.TEMPORARY}x"
    abandoned.mkdir()
    os.utime(abandoned, (0, 0))
    assert thrice() == 15
    assert [path.suffix for path in kept()] == [library_cache.SUFFIX]
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path / "file"))
    assert thrice() == 15
    assert not list((tmp_path / "tmp").iterdir())


def test_many_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: compiler._find.__wrapped__(TEXT, "thrice", find_compiler())(5), range(8)))
    assert results == [15] * 8
    assert len(kept()) == 1


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_cache_that_cannot_be_written_is_replaced(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file has the folder's name: not even root can write into it.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path / "file" / below))
    folder = cache.cache_folder()
    assert folder.is_dir()
    assert tmp_path not in folder.parents
    assert cache.cache_folder() == folder
    assert train(kernel="compiled").kernel.startswith("compiled (1 thread; not cached: ")


def test_the_temporary_cache_is_removed_at_exit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code = "from peerdescent._util.cache import cache_folder; print(cache_folder())"
    environment = {**os.environ, "PEERDESCENT_CACHE": str(tmp_path / "file")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip()
    assert not Path(done.stdout.strip()).exists()


def test_the_cache_is_made_at_the_given_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path / "a" / "b"))
    assert cache.cache_folder() == tmp_path / "a" / "b"
    assert not list(cache.cache_folder().iterdir())


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(peerdescent.InputError, match="kernel = 'fast': expected one of auto, compiled, torch, plain"):
        train(kernel="fast")


def test_both_kernels_of_a_run_agree() -> None:
    plain, fused = train(kernel="plain", dtype="float64"), train(kernel="auto", dtype="float64")
    assert fused.kernel == "compiled (1 thread)"
    torch.testing.assert_close(plain.x, fused.x, rtol=1e-12, atol=1e-14)
