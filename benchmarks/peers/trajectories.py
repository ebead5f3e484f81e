"""Methods that decent-bench has too, on quadratics with exact gradients: how far their trajectories are from ours.

Costs are ½xᵀA_i x + b_iᵀx with random A_i and b_i, the graph is connected and irregular, W has Metropolis weights. Each
agent has its own starting point. decent-bench runs in its own environment, with Python 3.13.

python benchmarks/peers/trajectories.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

AGENTS, DIMENSION, ITERATIONS, ETA = 7, 4, 200, 0.05
EDGES = ((0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (3, 6), (1, 5))


@dataclass(frozen=True)
class Pair:
    """A method here and there.

    Args:
        ours: its name here.
        theirs: its class there.
        remark: what had to be made equal.
        values: its hyperparameters there, besides `step_size`.
        period: iterations of ours in one of theirs.
    """

    ours: str
    theirs: str
    remark: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    period: int = 1


PAIRS = (
    Pair("d-sgd-1", "DGD"),
    Pair("sgp", "ATC", "on an undirected graph"),
    Pair("d-sgt-2", "ATC_Tracking"),
    Pair("aug-dgm", "AugDGM"),
    Pair("extra", "EXTRA"),
    Pair("nids", "NIDS"),
    Pair("exact-diffusion", "ED"),
    Pair("k-gt", "KGT", "5 local steps", {"num_local_steps": 5, "aux_step_size": 1.0}, period=5),
    Pair("led", "LED", "5 local steps; their β is ours/τ", {"num_local_steps": 5, "aux_step_size": 0.2}, period=5),
    Pair("proxskip", "ProxSkip", "messages in every iteration", {"comm_probability": 1.0, "aux_step_size": 1.0}),
)


def peer() -> None:
    """In the peer's environment: the trajectory of each case of the input, one per line."""
    import networkx
    import numpy as np
    from decent_array import interoperability as iop
    from decent_array.types import Devices, Frameworks
    from decent_bench.agents import Agent
    from decent_bench.algorithms import p2p
    from decent_bench.benchmark import configure
    from decent_bench.costs import QuadraticCost
    from decent_bench.networks import P2PNetwork

    configure(Frameworks.NUMPY, Devices.CPU)
    for line in sys.stdin:
        case = json.loads(line)
        A, b, x0 = (np.array(case[key]) for key in ("A", "b", "x0"))
        agents = [
            Agent(QuadraticCost(iop.from_numpy(A[i]), iop.from_numpy(b[i])), state_snapshot_period=10**6)
            for i in range(len(A))
        ]
        network = P2PNetwork(networkx.Graph(map(tuple, case["edges"])), agents)
        start = {agent: iop.from_numpy(x0[i]) for i, agent in enumerate(agents)}
        method = getattr(p2p, case["theirs"])(x0=start, **case["values"])
        method.initialize(network)
        found = []
        for k in range(case["iterations"]):
            method.step(network, k)
            found.append([iop.to_numpy(agent.x).tolist() for agent in agents])
        print("trajectory", json.dumps(found), flush=True)


def our_trajectory(pair: Pair, A: Any, b: Any, x0: Any) -> list[Any]:
    """x after each of their iterations."""
    import torch

    from peerdescent import graphs
    from peerdescent.algorithms import make
    from peerdescent.algorithms.state import initial_state
    from peerdescent.kernels.update import make_update
    from peerdescent.mixing.network import make_network
    from peerdescent.mixing.periods import Periods
    from peerdescent.mixing.sequence_weights import make_weights
    from peerdescent.training.iteration import iterate

    periods = Periods.parse(pair.period)
    method = make(pair.ours, eta=ETA).with_periods(periods)
    weights = make_weights(graphs.Graph(AGENTS, EDGES), "metropolis", "metropolis", method)
    network = make_network(weights, torch.float64, torch.device("cpu"))
    update = make_update(method, initial_state(method, torch.from_numpy(x0)), network, communication_period=pair.period)

    def slope(x: torch.Tensor, k: int, out: torch.Tensor) -> None:
        torch.baddbmm(torch.from_numpy(b)[:, :, None], torch.from_numpy(A), x[:, :, None], out=out[:, :, None])

    found = []
    for k in range(pair.period * ITERATIONS):
        iterate(update, slope, {}, k)
        if (k + 1) % pair.period == 0:
            found.append(update.state["x"].numpy().copy())
    return found


def main() -> None:
    import numpy as np
    from peer_environment import decent_bench_python

    python = decent_bench_python()
    if isinstance(python, str):
        print(f"skipped: {python}")
        return
    random = np.random.default_rng(0)
    half = random.standard_normal((AGENTS, DIMENSION, DIMENSION))
    A = half @ half.transpose(0, 2, 1) / DIMENSION + 0.1 * np.eye(DIMENSION)
    b, x0 = random.standard_normal((2, AGENTS, DIMENSION))
    given = {"A": A.tolist(), "b": b.tolist(), "x0": x0.tolist(), "edges": EDGES, "iterations": ITERATIONS}
    print(f"{AGENTS} agents, {DIMENSION} variables, {ITERATIONS} iterations, double precision")
    print(f"{'here':<18}{'decent-bench':<16}{'largest difference':>20}{'largest entry':>16}  remark")
    command = [python, "-P", __file__, "peer"]  # a file next to this one has the name of the package
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        for pair in PAIRS:
            case = {**given, "theirs": pair.theirs, "values": {"step_size": ETA, **pair.values}}
            theirs = np.array(_answer(child, case))
            ours = np.array(our_trajectory(pair, A, b, x0))
            difference, size = np.abs(ours - theirs).max(), np.abs(ours).max()
            print(f"{pair.ours:<18}{pair.theirs:<16}{difference:>20.1e}{size:>16.2f}  {pair.remark}", flush=True)
        assert child.stdin is not None
        child.stdin.close()


def _answer(child: subprocess.Popen[str], case: dict[str, Any]) -> Any:
    assert child.stdin is not None
    assert child.stdout is not None
    print(json.dumps(case), file=child.stdin, flush=True)
    line = next(line for line in child.stdout if line.startswith("trajectory"))
    return json.loads(line.removeprefix("trajectory"))


if __name__ == "__main__":
    peer() if sys.argv[1:] == ["peer"] else main()
