"""Neighbour exchange against all_reduce: one agent on each of four hosts (network namespaces), the paper's CNN.

python benchmarks/network.py            # as root; no limit and 100 Mbit, on a ring and on an Erdős–Rényi graph

The exchange is DSGPA's (one vector to each neighbour) against one all_reduce of the same vector; the step is a whole
iteration of `optim.DSGPA` against DistributedDataParallel with SGD. Hidden is the fraction of the exchange that
overlaps with computation, (local + exchange − step) / exchange; it cannot exceed local / exchange, so it is
meaningful only with the larger batch. The four processes share the CPUs of this machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from hosts import INTERFACE, Host, hosts, obstacle
from torch import nn

from peerdescent import algorithms, graphs, optim
from peerdescent.distributed.process_group import default_process_group
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.optim.bucket import Bucket
from peerdescent.problems import convolutional_net

HOSTS, ROUNDS, PORT = 4, 15, 29613
BATCHES = (20, 500)
GRAPHS = ("ring:4", "er:4:0.6:seed=1")
NUMBERS = {"alpha": 5.0, "beta": 1.0, "gamma": 0.7}


def main() -> None:
    reason = obstacle()
    if reason:
        print(f"skipped: {reason}")
        return
    print("bandwidth  batch            graph  exchange/all_reduce  step/DDP step  hidden  at most   ms")
    for mbit in (None, 100.0):
        with hosts(HOSTS, mbit) as made:
            for batch in BATCHES:
                for graph in GRAPHS:
                    print(_line(mbit, batch, graph, _measured(made, graph, batch)), flush=True)


def _line(mbit: float | None, batch: int, graph: str, ms: dict[str, float]) -> str:
    hidden = (ms["local"] + ms["exchange"] - ms["step"]) / ms["exchange"]
    most = min(1.0, ms["local"] / ms["exchange"])
    ratios = ms["exchange"] / ms["all_reduce"], ms["step"] / ms["ddp"]
    shown = ", ".join(f"{name} {value:.1f}" for name, value in ms.items())
    limit = "no limit" if mbit is None else f"{mbit:g} Mbit"
    numbers = f"{ratios[0]:>20.2f} {ratios[1]:>14.2f} {max(0.0, hidden):>7.0%} {most:>8.0%}"
    return f"{limit:>9} {batch:>6} {graph:>16} {numbers}   {shown}"


def _measured(made: list[Host], graph: str, batch: int) -> dict[str, float]:
    """Medians in milliseconds, of the slowest host."""
    processes = []
    for rank, host in enumerate(made):
        env = {"RANK": str(rank), "WORLD_SIZE": str(HOSTS), "MASTER_ADDR": made[0].address, "MASTER_PORT": str(PORT)}
        env |= {"GLOO_SOCKET_IFNAME": INTERFACE, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        words = host.command(sys.executable, __file__, graph, str(batch))
        processes.append(subprocess.Popen(words, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True))
    found = [json.loads(process.communicate()[0]) for process in processes]
    return {name: max(times[name] for times in found) for name in found[0]}


def worker(spec: str, batch: int) -> None:
    """The work of one host: every part in turn, all hosts together."""
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    torch.manual_seed(0)
    inputs, labels = torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
    method, graph = algorithms.DSGPA(0.1, **NUMBERS), graphs.parse(spec)

    def gradient(model: nn.Module) -> None:
        model.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()

    single = make_network(
        MixingWeights.build(graphs.ring(1), "metropolis", "metropolis", method), torch.float32, torch.device("cpu")
    )
    local_model = convolutional_net()
    bucket = Bucket(list(local_model.parameters()), method, single)

    def local() -> None:
        gradient(local_model)
        with torch.no_grad():
            bucket.step(method)

    weights = MixingWeights.build(graph, "metropolis", "metropolis", method)
    network = make_network(weights, torch.float32, torch.device("cpu"), group=default_process_group())
    size = sum(p.numel() for p in local_model.parameters())
    exchange = network.exchange(torch.empty(1, size), False)  # type: ignore[attr-defined]

    def swap() -> None:
        exchange.start()
        exchange.wait()

    vector = torch.randn(size)
    model = convolutional_net()
    opt = optim.DSGPA(model.parameters(), graph, lr=0.1, **NUMBERS)

    def step() -> None:
        gradient(model)
        opt.step()

    ddp = nn.parallel.DistributedDataParallel(convolutional_net())
    sgd = torch.optim.SGD(ddp.parameters(), lr=0.1)

    def ddp_step() -> None:
        gradient(ddp)
        sgd.step()

    parts: dict[str, Callable[[], object]] = {
        "local": local, "exchange": swap, "all_reduce": lambda: dist.all_reduce(vector), "step": step, "ddp": ddp_step
    }  # fmt: skip
    print(json.dumps({name: _median(part) for name, part in parts.items()}))
    opt.wait()
    dist.barrier()
    dist.destroy_process_group()


def _median(part: Callable[[], object]) -> float:
    """Milliseconds, after two warm-up rounds; all hosts begin together."""
    part()
    part()
    dist.barrier()
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        part()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        worker(sys.argv[1], int(sys.argv[2]))
    else:
        main()
