"""The simulated clock against real runs: four hosts (network namespaces) on a ring, at three bandwidths.

python benchmarks/clock.py                       # as root, on a quiet machine, about five minutes; prints one table
python benchmarks/clock.py --out clock.md        # and writes it
python benchmarks/clock.py --mbit 200 --dimension 100000 --iterations 6 --methods d-sgd-1

Each host hosts one agent of `peerdescent run` and sends through `tc tbf`. Measured are rank 0's seconds per iteration
between two evaluations. Predicted are those of `peerdescent.clock` with

- uplink: the rate of tbf, times the part of an Ethernet frame that is payload (1448 of 1514 bytes), shared by the
  messages to both neighbours;
- computing time: what an iteration of the same run takes on these hosts without any message (a communication period
  beyond the last iteration), so that four processes share the CPUs of this machine in both.

The bucket of tbf lets the first 64 kB of an iteration pass at once; vectors of 4 MB make that less than 1 %. There is
no latency to speak of (`tc netem` would add some).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from hosts import INTERFACE, Host, hosts, obstacle

from peerdescent import algorithms, clock, graphs
from peerdescent.clock.model import Access, Link, NetworkModel
from peerdescent.report.tables import Table

HOSTS, PORT, WARM = 4, 29631, 4
PAYLOAD = 1448 / 1514
METHODS = ("d-sgd-1", "d-sgt-1", "dsgpa-f", "d2")
COLUMNS = ("method", "Mbit/s", "computing (s)", "predicted (s)", "measured (s)", "measured / predicted")
ROOT = Path(__file__).parents[1]


def main() -> None:
    options = _options()
    reason = obstacle()
    if reason:
        print(f"skipped: {reason}")
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with hosts(HOSTS) as made:
            compute = {name: _seconds(made, name, options, Path(folder), local=True) for name in options.methods}
        for mbit in options.mbit:
            with hosts(HOSTS, mbit) as made:
                for name in options.methods:
                    measured = _seconds(made, name, options, Path(folder), local=False)
                    guess = predicted(name, options.dimension, mbit, compute[name])
                    numbers = f"{compute[name]:.3f}", f"{guess:.3f}", f"{measured:.3f}", f"{measured / guess:.2f}"
                    rows.append((name, f"{mbit:g}", *numbers))
                    print("  ".join(f"{cell:>8}" for cell in rows[-1]), file=sys.stderr, flush=True)
    title = f"ring:4, one agent per host, p = {options.dimension:,} in single precision"
    table = Table(title, COLUMNS, rows)
    text = f"{title}, seconds per iteration\n\n{table.to_markdown()}\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mbit", type=float, nargs="+", default=[50.0, 100.0, 200.0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--dimension", type=int, default=1_000_000)
    parser.add_argument("--iterations", type=int, default=14, help=f"the first {WARM} are not counted")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def predicted(name: str, dimension: int, mbit: float, compute: float) -> float:
    """Seconds per iteration on a ring of four, once the clock runs evenly."""
    model = NetworkModel(link=Link(latency_ms=0.1), agent=Access(uplink_mbit=mbit * PAYLOAD))
    step = clock.step_of(algorithms.make(name))
    sent = clock.on_graph(graphs.ring(HOSTS), step, vector_bytes=4 * dimension)
    ends = [times.max() for times in clock.finish_times(sent, model, [np.full(HOSTS, compute)] * 30, 30)]
    return float(ends[-1] - ends[9]) / 20


def _seconds(made: list[Host], name: str, options: argparse.Namespace, folder: Path, local: bool) -> float:
    """Seconds per iteration of a real run, one process per host; a local one sends no messages."""
    out = folder / f"run{len(list(folder.iterdir()))}"
    end = WARM + (options.iterations - WARM) // WARM * WARM  # evaluations come every WARM iterations
    words = ["-m", "peerdescent", "run", "-a", name, "--problem", "logistic-nonconvex", "--graph", f"ring:{HOSTS}"]
    words += ["--set", f"problem.dimension={options.dimension - 1}", "--set", "problem.samples=16", "--batch-size", "1"]
    words += ["--iterations", str(end), "--eval-every", str(WARM), "--no-per-agent", "--set", "eta=0.001", "--quiet"]
    words += ["--gradients", "stacked", "--out", str(out), "--communication-period", str(end + 1 if local else 1)]
    processes = []
    for rank, host in enumerate(made):
        env = {"GLOO_SOCKET_IFNAME": INTERFACE, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
        torchrun = f"-m torch.distributed.run --nnodes {HOSTS} --nproc-per-node 1 --node-rank {rank} --master-addr"
        command = host.command(sys.executable, *torchrun.split(), made[0].address, "--master-port", str(PORT), *words)
        log = open(folder / f"{out.name}-{rank}.log", "w")  # noqa: SIM115 (the process writes into it)
        processes.append(subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=subprocess.STDOUT))
    codes = [process.wait() for process in processes]
    if any(codes):
        logs = [(folder / f"{out.name}-{rank}.log").read_text()[-2000:] for rank in range(HOSTS)]
        raise SystemExit("\n".join(["a run failed:", *logs]))
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    (first,) = (row for row in rows if row["iteration"] == WARM)
    return float(rows[-1]["seconds"] - first["seconds"]) / (rows[-1]["iteration"] - WARM)


if __name__ == "__main__":
    main()
