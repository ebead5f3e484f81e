"""Entries of a store that only processes of the run can have made: each carries a MAC of its name and value."""

from __future__ import annotations

import hmac
import json
from typing import Any

from torch.distributed.distributed_c10d import Store

from peerdescent.distributed.authentication import MAC_SIZE, authenticate
from peerdescent.errors import PeerdescentError


class SignedStore:
    """JSON values in a store that others may be able to read and write.

    Args:
        store: where they are.
        key: the key of the session; an empty key proves nothing.

    >>> from torch.distributed import HashStore
    >>> entries = SignedStore(HashStore(), b"key")
    >>> entries.set("a", [1])
    >>> entries.get("a"), entries.find("b"), SignedStore(entries.store, b"another").find("a")
    ([1], None, None)
    """

    def __init__(self, store: Store, key: bytes = b"") -> None:
        self.store, self.key = store, key

    def set(self, name: str, value: Any) -> None:
        """Store a value."""
        self.store.set(name, self._signed(name, value))

    def set_once(self, name: str, value: Any) -> None:
        """Store a value unless there is one."""
        self.store.compare_set(name, "", self._signed(name, value))

    def has(self, name: str) -> bool:
        """Whether there is an entry, whoever has made it."""
        return bool(self.store.check([name]))

    def find(self, name: str) -> Any | None:
        """The value, if there is one that a process of the run has stored."""
        return self._verified(name, self.store.get(name)) if self.has(name) else None

    def get(self, name: str) -> Any:
        """The value; waits for it.

        Raises:
            PeerdescentError: someone who does not know the token has stored another one.
        """
        value = self._verified(name, self.store.get(name))
        if value is None:
            raise PeerdescentError(
                f"the entry {name!r} at the rendezvous address does not come from this run: "
                "someone else writes there, or a process was started with another token."
            )
        return value

    def _signed(self, name: str, value: Any) -> str:
        text = json.dumps(value)
        return authenticate(self.key, name.encode(), text.encode()).hex() + text

    def _verified(self, name: str, content: bytes) -> Any | None:
        mac, text = content[: 2 * MAC_SIZE], content[2 * MAC_SIZE :]
        expected = authenticate(self.key, name.encode(), text).hex().encode()
        return json.loads(text) if hmac.compare_digest(mac, expected) else None
