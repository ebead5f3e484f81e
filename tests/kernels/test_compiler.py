"""Without a compiler, or with a broken one, the eager step runs and the result says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import peerdescent
from peerdescent.kernels import compiler
from peerdescent.kernels.compiler import CompilerError, cache_folder, find_compiler, load

TEXT = "long thrice(long a) { return 3 * a; }"


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No kernel is loaded or cached before, and none is kept after."""
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path / "cache"))
    load.cache_clear()
    yield
    load.cache_clear()


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
        load("this is not C")
    assert not list(cache_folder().iterdir())


def test_a_library_is_made_once_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(TEXT).thrice(5) == 15
    (made,) = cache_folder().iterdir()
    assert made.suffix == ".so"
    before = made.stat().st_mtime_ns
    load.cache_clear()

    def never(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(compiler, "_compile", never)
    assert load(TEXT).thrice(7) == 21
    assert made.stat().st_mtime_ns == before


def test_another_text_or_compiler_makes_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_compiler()
    load(TEXT)
    load(TEXT.replace("3", "4"))
    load.cache_clear()
    monkeypatch.setenv("CC", script(tmp_path, f'#!/bin/sh\nexec {found} "$@"\n'))
    load(TEXT)
    assert len(list(cache_folder().iterdir())) == 3


def test_a_damaged_library_in_the_cache_does_not_stop_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    right = compiler._compile
    seen: set[Path] = set()

    def damaged_at_first(found: str, text: str, target: Path) -> None:
        right(found, text, target)
        if target not in seen:
            target.write_bytes(b"")
        seen.add(target)

    monkeypatch.setattr(compiler, "_compile", damaged_at_first)
    result = train()
    assert seen
    assert result.kernel.startswith(("compiled", "plain ("))


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_cache_that_cannot_be_written_is_replaced(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file has the folder's name: not even root can write into it.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path / "file" / below))
    folder = cache_folder()
    assert folder.is_dir()
    assert tmp_path not in folder.parents
    assert cache_folder() == folder
    assert train(kernel="compiled").kernel == "compiled (1 thread)"


def test_the_cache_is_made_at_the_given_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path / "a" / "b"))
    assert cache_folder() == tmp_path / "a" / "b"
    assert not list(cache_folder().iterdir())


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(peerdescent.InputError, match="kernel = 'fast': expected one of auto, compiled, plain"):
        train(kernel="fast")


def test_both_kernels_of_a_run_agree() -> None:
    plain, fused = train(kernel="plain", dtype="float64"), train(kernel="auto", dtype="float64")
    assert fused.kernel == "compiled (1 thread)"
    torch.testing.assert_close(plain.x, fused.x, rtol=1e-12, atol=1e-14)
