"""One iteration of decentralized gradient descent on a 784-50-10 network: decent-bench's DGD over ours, side by side.

Both run on one thread, in turns, each in its own process: decent-bench needs Python 3.13 and gets its own environment.

python benchmarks/peers/decent_bench.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

CASES = ((10, 32, 5.0), (50, 32, 4.0), (10, 1, 15.0))
"""n, B, and the factor to reach."""
ROUNDS, ITERATIONS, SAMPLES = 12, 20, 200
WAYS = ("auto", "compiled")


def peer() -> None:
    """In the peer's environment: for each n, B on a line of the input, the CPU time of an iteration."""
    import networkx
    import torch
    from decent_array.types import Devices, Frameworks
    from decent_bench.agents import Agent
    from decent_bench.algorithms.p2p import DGD
    from decent_bench.benchmark import configure
    from decent_bench.costs import PyTorchCost
    from decent_bench.networks import P2PNetwork
    from torch import nn

    torch.set_num_threads(1)
    configure(Frameworks.PYTORCH, Devices.CPU)
    networks = {}
    for line in sys.stdin:
        n, batch = map(int, line.split())
        if (n, batch) not in networks:
            agents = []
            for _ in range(n):
                model = nn.Sequential(nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10))
                data = list(zip(torch.randn(SAMPLES, 784), torch.randint(10, (SAMPLES,)), strict=True))
                cost = PyTorchCost(data, model, nn.CrossEntropyLoss(), batch_size=batch)
                agents.append(Agent(cost, state_snapshot_period=10**6))
            networks[n, batch] = P2PNetwork(networkx.cycle_graph(n), agents)
            DGD(step_size=0.1).run(networks[n, batch], 2)
        begin = time.process_time()
        DGD(step_size=0.1).run(networks[n, batch], ITERATIONS)
        print("seconds", (time.process_time() - begin) / ITERATIONS, flush=True)


def our_step(n: int, batch: int, way: str) -> Callable[[], None]:
    from modules import dense, make_problem, ours

    problem = make_problem(dense, n)
    return ours(problem, batch, problem.preferred_strategy()[0] if way == "auto" else way)


def compare(child: subprocess.Popen[str], n: int, batch: int, target: float) -> None:
    steps = {way: our_step(n, batch, way) for way in WAYS}
    best = dict.fromkeys(("decent-bench", *WAYS), float("inf"))
    assert child.stdin is not None
    assert child.stdout is not None
    for _ in range(ROUNDS):
        print(n, batch, file=child.stdin, flush=True)
        answer = next((line for line in child.stdout if line.startswith("seconds")), "seconds nan")
        best["decent-bench"] = min(best["decent-bench"], float(answer.split()[1]))
        for way, step in steps.items():
            begin = time.process_time()
            for _ in range(ITERATIONS):
                step()
            best[way] = min(best[way], (time.process_time() - begin) / ITERATIONS)
    columns = "".join(f"{1e3 * value:>12.2f} ms" for value in best.values())
    factors = "".join(f"{best['decent-bench'] / best[way]:>10.1f}×" for way in WAYS)
    print(f"{n:>4}{batch:>4}{columns}{factors}{target:>8.0f}×", flush=True)


def main() -> None:
    import torch
    from peer_environment import decent_bench_python

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    torch.set_num_threads(1)
    python = decent_bench_python()
    if isinstance(python, str):
        print(f"skipped: {python}")
        return
    print("one iteration, one thread, least CPU time; the last columns: decent-bench over ours, and the target")
    print(f"   n   B{'decent-bench':>15}" + "".join(f"{way:>15}" for way in WAYS) + "".join(f"{w:>11}" for w in WAYS))
    command = [python, "-P", __file__, "peer"]  # this file has the name of the package
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        for case in CASES:
            compare(child, *case)
        assert child.stdin is not None
        child.stdin.close()


if __name__ == "__main__":
    peer() if sys.argv[1:] == ["peer"] else main()
