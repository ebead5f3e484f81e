"""Tokens: where they come from, who may read them, and what is said if processes have different ones."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from torch.distributed import HashStore

from peerdescent.distributed import shared_memory
from peerdescent.distributed.authentication import NO_TOKEN, Token, authenticate, token_from_environment
from peerdescent.distributed.rendezvous import _wait_for_all
from peerdescent.distributed.signed_store import SignedStore
from peerdescent.distributed.token_agreement import PLACE, shared_token
from peerdescent.errors import InputError, PeerdescentError

LOCALHOST, SECRET = "127.0.0.1", "0123456789abcdef"
posix = pytest.mark.skipif(os.name != "posix", reason="files have no modes")


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEERDESCENT_TOKEN", raising=False)
    monkeypatch.delenv("PEERDESCENT_TOKEN_FILE", raising=False)


def token_file(folder: Path, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(mode)
    return path


# ---- Where a token comes from ---------------------------------------------------------------------------------


def test_a_token_from_the_environment_or_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert token_from_environment() is None
    monkeypatch.setenv("PEERDESCENT_TOKEN", SECRET)
    assert token_from_environment() == Token(SECRET.encode())
    monkeypatch.setenv("PEERDESCENT_TOKEN_FILE", str(token_file(tmp_path)))
    with pytest.raises(InputError, match="both set"):
        token_from_environment()
    monkeypatch.delenv("PEERDESCENT_TOKEN")
    assert token_from_environment() == Token(SECRET.encode())


@pytest.mark.parametrize("text", ["", "short", " " * 100, "x" * 5000])
def test_a_token_of_another_length_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_TOKEN", text)
    with pytest.raises(InputError, match="expected 16 to 4096") as refused:
        token_from_environment()
    assert not text.strip() or text not in str(refused.value)


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_token_that_others_can_read_is_refused(mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_TOKEN_FILE", str(token_file(tmp_path, mode)))
    with pytest.raises(InputError, match="chmod 600"):
        token_from_environment()


@posix
def test_a_token_file_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    for name, sentence in (("absent", "No such file"), ("", "not a file"), ("fifo", "not a file")):
        monkeypatch.setenv("PEERDESCENT_TOKEN_FILE", str(tmp_path / name))
        with pytest.raises(InputError, match=sentence):
            token_from_environment()
    if os.geteuid() == 0:
        theirs = token_file(tmp_path)
        os.chown(theirs, 12345, 12345)
        monkeypatch.setenv("PEERDESCENT_TOKEN_FILE", str(theirs))
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(InputError, match="another user"):
            token_from_environment()


# ---- The same token for all -----------------------------------------------------------------------------------


def new_store() -> HashStore:
    store = HashStore()
    store.set_timeout(timedelta(seconds=30))
    return store


def joined(*tokens: Token) -> list[object]:
    """What each of several processes gets when they join: hosts and key, or an error."""
    store, found = new_store(), [None] * len(tokens)

    def join(rank: int) -> None:
        try:
            found[rank] = _wait_for_all(
                store, rank, len(tokens), tokens[rank], timedelta(seconds=60), lambda: None, LOCALHOST
            )
        except PeerdescentError as error:
            found[rank] = error

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(len(tokens))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def test_processes_with_the_same_token_have_the_same_new_key() -> None:
    first, second = joined(*[Token(b"a")] * 3), joined(*[Token(b"a")] * 3)
    assert first[0] == first[1] == first[2]
    assert isinstance(first[0], tuple)
    assert first[0] != second[0]


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        ((Token(b"a"), Token(b"a"), Token(b"b")), "process 2 has another token than process 0"),
        ((Token(b"a"), NO_TOKEN, Token(b"a")), "process 1 has no token, but process 0 has one"),
        ((NO_TOKEN, NO_TOKEN, Token(b"a")), "process 0 has no token, but process 2 has one"),
    ],
)
def test_processes_with_different_tokens_end_with_one_sentence(tokens: tuple[Token, ...], sentence: str) -> None:
    for ended in joined(*tokens):
        assert isinstance(ended, InputError)
        assert str(ended).startswith(sentence)


@posix
def test_on_one_host_rank_zero_makes_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "MEMORY", tmp_path)
    store = new_store()
    with shared_token(store, 0, 2, one_host=True) as made, shared_token(store, 1, 2, one_host=True) as found:
        assert made == found
        assert len(made.secret) == 32
        path = Path(store.get(PLACE).decode())
        assert [each.stat().st_mode & 0o777 for each in (path, path.parent)] == [0o600, 0o700]
    assert not list(tmp_path.iterdir())


def test_over_several_hosts_a_note_says_that_there_is_no_token() -> None:
    store = new_store()
    with (
        pytest.warns(UserWarning, match="anyone on this network can read and disturb the heartbeat"),
        shared_token(store, 0, 2, one_host=False) as none,
        shared_token(store, 1, 2, one_host=False) as other,
    ):
        assert none == other == NO_TOKEN


def test_the_secret_is_not_in_the_store() -> None:
    store = new_store()
    _wait_for_all(store, 0, 1, Token(SECRET.encode()), timedelta(seconds=60), lambda: None, LOCALHOST)
    stored = store.get("token/0") + store.get("host/0")
    assert SECRET.encode() not in stored
    assert SECRET.encode().hex().encode() not in stored


# ---- Entries of the store -------------------------------------------------------------------------------------


def test_entries_of_strangers_do_not_count() -> None:
    store = new_store()
    ours, theirs = SignedStore(store, b"key"), SignedStore(store, b"another key")
    theirs.set("failure", {"rank": 1})
    store.set("garbage", "[" * 60_000)
    for name in ("failure", "garbage"):
        assert ours.find(name) is None
        with pytest.raises(PeerdescentError, match="does not come from this run"):
            ours.get(name)
    ours.set("a", 1)
    store.set("b", store.get("a"))  # a genuine entry under another name
    assert ours.find("b") is None


def test_parts_count_with_their_length() -> None:
    assert authenticate(b"key", b"ab", b"c") != authenticate(b"key", b"a", b"bc")
