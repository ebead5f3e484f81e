"""Four hosts: network namespaces joined by a bridge, one torchrun node in each; then one of them is cut off."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.support.commands import Command, rows, until

from peerdescent import graphs
from peerdescent.algorithms.state import State
from peerdescent.experiments.resolve import resolve
from peerdescent.experiments.schema import from_keys
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.runs.folder import read_metrics

HOSTS, LOST = 4, 2
KEPT, END = 200, 400
EXPERIMENT = {
    "problem": "logistic-nonconvex", "graph": "ring:4", "batch_size": 4, "iterations": END, "eval_every": 100,
    "gradients": "loop", "dtype": "float64", "algorithms": ["dsgpa-f-pb"], "set": {"problem": {"samples": 100}},
}  # fmt: skip
RUN = shlex.split(
    f"run --problem logistic-nonconvex --graph ring:4 --set problem.samples=100 --batch-size 4 --iterations {END} "
    "--eval-every 100 --gradients loop --dtype float64 -a dsgpa-f-pb"
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="network namespaces need the command ip (iproute2)"),
]


def ip(words: str) -> str:
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"network namespaces cannot be made here: ip {words}: {done.stderr.strip()}")
    return done.stdout


class Hosts:
    """Machines 10.77.0.1 to 10.77.0.4, each with its own eth0, and the switch between them."""

    def __init__(self, name: str) -> None:
        self.switch, self.names = f"{name}s", [f"{name}h{i}" for i in range(HOSTS)]
        self.started: list[subprocess.Popen[str]] = []

    def build(self) -> None:
        ip(f"netns add {self.switch}")
        ip(f"-n {self.switch} link add br0 type bridge")
        ip(f"-n {self.switch} link set br0 up")
        for i, name in enumerate(self.names):
            ip(f"netns add {name}")
            ip(f"-n {self.switch} link add port{i} type veth peer name eth0 netns {name}")
            ip(f"-n {self.switch} link set port{i} master br0 up")
            ip(f"-n {name} addr add 10.77.0.{i + 1}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
            ip(f"-n {name} link set lo up")

    def remove(self) -> None:
        for name in [*self.names, self.switch]:
            self.kill(name)
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        for process in self.started:
            process.wait()

    def kill(self, name: str) -> None:
        """SIGKILL for every process of a host."""
        listed = subprocess.run(["ip", "netns", "pids", name], check=False, capture_output=True, text=True).stdout
        for pid in listed.split():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(int(pid), signal.SIGKILL)

    def start(self, here: Path, *flags: str, **variables: str) -> None:
        """The same command on every host, by torchrun."""
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", **variables}
        for i, name in enumerate(self.names):
            torchrun = (
                f"-m torch.distributed.run --nnodes {HOSTS} --nproc-per-node 1 --node-rank {i} "
                "--master-addr 10.77.0.1 --master-port 29500 -m peerdescent"
            )
            renamed = ["unshare", "--uts", "sh", "-c", f'hostname machine-{"abcd"[i]} && exec "$0" "$@"']
            command = ["ip", "netns", "exec", name, *renamed, sys.executable, *torchrun.split(), *RUN, *flags]
            log = open(here / f"{i}.log", "w")  # noqa: SIM115 (the process writes into it)
            self.started.append(
                subprocess.Popen(command, cwd=here, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True)
            )


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    machines = Hosts(f"pd{os.getpid()}")
    try:
        machines.build()
        yield machines
    finally:
        machines.remove()


def logs(here: Path) -> str:
    return "\n".join((here / f"{i}.log").read_text()[-3000:] for i in range(HOSTS))


def last_x(folder: Path) -> torch.Tensor:
    newest = max(path for path in (folder / "checkpoints").iterdir() if (path / "manifest.json").exists())
    manifest = json.loads((newest / "manifest.json").read_text())
    assert manifest["iteration"] == END
    parts = sorted(manifest["parts"], key=lambda part: part["first"])
    return torch.cat([load_file(newest / part["file"])["x"] for part in parts])


def survivors_alone(state: State) -> torch.Tensor:
    """The problem of the three that are left, from the last state that all four had kept, in this process."""
    stayed = [agent for agent in range(HOSTS) if agent != LOST]
    state = {name: array[stayed].clone() for name, array in state.items()}
    state["v"] -= state["v"].mean(dim=0)
    experiment = from_keys(EXPERIMENT)
    (plan,) = resolve(experiment)
    algorithm, problem = plan.algorithm, plan.problem
    path = graphs.Graph(3, ((0, 1), (0, 2)))  # the ring 0-1-2-3 without 2, its agent 3 numbered anew
    network = make_network(
        MixingWeights.build(path, "metropolis", "metropolis", algorithm), torch.float64, torch.device("cpu")
    )
    update = make_update(algorithm, state, network)
    oracle = problem.to(torch.device("cpu"), torch.float64).oracle(4, 0, True, range(HOSTS), "loop")
    points = torch.zeros(HOSTS, problem.dimension, dtype=torch.float64)
    gradients = torch.zeros_like(points)
    for k in range(KEPT, END):
        points[stayed] = update.begin(k)
        oracle(points, k, gradients)
        update.gradient.copy_(gradients[stayed])
        update.finish(k)
    return update.state["x"]


def test_four_hosts_equal_one_process(hosts: Hosts, process: Command, here: Path) -> None:
    assert process(*RUN, "--out", "one").code == 0
    hosts.start(here, "--out", "four")
    until(lambda: all(node.poll() is not None for node in hosts.started), lambda: logs(here))
    assert [node.returncode for node in hosts.started] == [0] * HOSTS, (here / "0.log").read_text()
    assert rows(here / "four") == rows(here / "one")


@pytest.mark.parametrize("blow", ["killed", "link down"])
def test_a_host_is_cut_off_and_the_others_finish(blow: str, hosts: Hosts, process: Command, here: Path) -> None:
    assert process(*RUN, "--out", "until", "--iterations", KEPT).code == 0
    stalls = ["--stall", f"{LOST}@{KEPT + 50}:60"]  # it waits there for the blow, and so do the others
    hosts.start(here, "--out", "four", "--on-loss", "continue", *stalls, PEERDESCENT_HEARTBEAT_SECONDS="10")
    until(lambda: read_metrics(here / "four")["iteration"][-1:] == [KEPT], lambda: logs(here))
    until(lambda: "waiting for agent 2 on machine-c" in (here / "0.log").read_text(), lambda: logs(here))
    if blow == "killed":
        hosts.kill(hosts.names[LOST])
    else:
        ip(f"-n {hosts.switch} link set port{LOST} down")
    until((here / "four" / "summary.json").exists, lambda: logs(here))
    notes = json.loads((here / "four" / "summary.json").read_text())["notes"]
    assert any("lost agent 2 on machine-c (process 2)" in note and f"iteration {KEPT}" in note for note in notes), notes
    state = load_file(here / "until" / "checkpoints" / f"{KEPT:012d}.safetensors")
    np.testing.assert_allclose(last_x(here / "four").numpy(), survivors_alone(state).numpy(), rtol=1e-10)
    if blow == "link down":  # the host that was cut off ends too, and says why
        until(lambda: "no heartbeat for" in (here / f"{LOST}.log").read_text(), lambda: logs(here))


def test_a_host_that_cannot_be_reached_is_named_with_its_address(hosts: Hosts, here: Path) -> None:
    """Two hosts between which everything is dropped; each reaches all others."""
    ip(f"-n {hosts.names[1]} neigh replace 10.77.0.3 lladdr 02:00:00:00:00:99 dev eth0 nud permanent")
    hosts.start(here, "--out", "four")
    until(lambda: all(node.poll() is not None for node in hosts.started), lambda: logs(here))
    assert all(node.returncode for node in hosts.started)
    sentence = "process 2 on machine-c (10.77.0.3) cannot be reached from process 1 on machine-b (10.77.0.2)"
    assert sentence in (here / "1.log").read_text(), logs(here)
    assert f"peerdescent: process 1: {sentence}" in (here / "0.log").read_text(), logs(here)
