"""Several hosts on one machine: network namespaces on a bridge, each with an address and an optional bandwidth."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

BRIDGE, NET = "pdbench", "10.213.77"
INTERFACE = "eth0"


@dataclass(frozen=True)
class Host:
    """A network namespace with one interface."""

    name: str
    address: str

    def command(self, *words: str) -> list[str]:
        """The words that run a command on this host."""
        return ["ip", "netns", "exec", self.name, *words]


def obstacle() -> str:
    """Why hosts cannot be created here; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    return f"{', '.join(missing)} is missing (install iproute2)" if missing else ""


@contextmanager
def hosts(count: int, mbit: float | None = None) -> Iterator[list[Host]]:
    """Create hosts, each with an outgoing bandwidth of `mbit` megabits per second, and remove them at the end."""
    made = [Host(f"{BRIDGE}{i}", f"{NET}.{i + 1}") for i in range(count)]
    _remove(made)
    try:
        _run(f"ip link add {BRIDGE} type bridge")
        _run(f"ip link set {BRIDGE} up")
        for i, host in enumerate(made):
            _run(f"ip netns add {host.name}")
            _run(f"ip link add {BRIDGE}v{i} type veth peer name {INTERFACE} netns {host.name}")
            _run(f"ip link set {BRIDGE}v{i} master {BRIDGE} up")
            _run(*host.command("ip", "addr", "add", f"{host.address}/24", "dev", INTERFACE))
            _run(*host.command("ip", "link", "set", INTERFACE, "up"))
            _run(*host.command("ip", "link", "set", "lo", "up"))
            if mbit is not None:
                limit = f"tc qdisc add dev {INTERFACE} root tbf rate {mbit}mbit burst 64kb latency 50ms"
                _run(*host.command(*limit.split()))
        yield made
    finally:
        _remove(made)


def _run(*words: str) -> None:
    subprocess.run(words[0].split() if len(words) == 1 else list(words), check=True, capture_output=True)


def _remove(made: Sequence[Host]) -> None:
    for host in made:
        subprocess.run(["ip", "netns", "del", host.name], check=False, capture_output=True)
    subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)
