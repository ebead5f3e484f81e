"""Three ways to train 32 machines that are 20 ms and 100 Mbit/s apart, against simulated seconds.

python examples/simulated_seconds.py                  # about three minutes; runs/seconds/seconds.png, report.html

A network with half a million parameters learns MNIST digits, 32 agents with 78 of them each. DSGPA sends its parameters
to two neighbours in every iteration, while the gradient is computed; gossip takes eight local steps between exchanges;
centralized SGD averages all gradients with an all_reduce in every iteration. Everything runs in this process; the clock
says when each iteration would have ended in the network `wan` that ships with peerdescent.
"""

import argparse
from pathlib import Path

import torch
from torch import nn

import peerdescent
from peerdescent.data import digits_split
from peerdescent.experiments.clock import clock_runs
from peerdescent.report import page, run_page
from peerdescent.report.drawing import save_as
from peerdescent.report.runs import find, group
from peerdescent.report.seeds import learning_curves

AGENTS, HIDDEN, PERIOD = 32, 1217, 8  # p = 401·1217 + 1218·10 = 500,197
ETA = 0.2  # the same for all three
RUNS = {
    "dsgpa": ("dsgpa-f", {"eta": ETA, "alpha": 1.25, "beta": 0.5}, 160, {}),
    "gossip": ("gossip-sgd", {"eta": ETA, "momentum": 0.0}, 400, {"communication_period": PERIOD}),
    "all_reduce": ("c-sgd", {"eta": ETA}, 40, {}),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", default="wan", help="a network file, or a name that `list networks` shows")
    parser.add_argument("--out", type=Path, default=Path("runs/seconds"))
    parser.add_argument("--quick", action="store_true", help="a few iterations only")
    options = parser.parse_args()

    torch.manual_seed(0)
    digits = digits_split()
    train, test = (
        [torch.from_numpy(part) for part in parts]
        for parts in ((digits.train_images, digits.train_labels), (digits.test_images, digits.test_labels))
    )
    net = nn.Sequential(nn.Flatten(), nn.Linear(400, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    problem = peerdescent.problems.supervised(net, nn.functional.cross_entropy, train, AGENTS, test=test)

    for name, (method, numbers, iterations, settings) in RUNS.items():
        algorithm = peerdescent.algorithms.make(method, **numbers)
        steps = PERIOD if options.quick else iterations
        more = {"iterations": steps, "eval_every": max(1, steps // 20), "batch_size": 10, "per_agent": False}
        result = peerdescent.train(
            problem, f"ring:{AGENTS}", algorithm, out=options.out / name, overwrite=True, **more, **settings
        )
        last = result.summary()
        print(f"{name}: loss {last['loss']:.3f}, accuracy {last['accuracy']:.1%} after {steps} iterations", flush=True)

    folders = [options.out / name for name in RUNS]
    print(clock_runs(folders, options.network).to_markdown())
    curves = {g.label: [run.metrics for run in g.runs] for g in group(find(folders))}
    print(save_as(learning_curves(curves, against=("simulated_seconds",)), options.out / "seconds.png"))
    page.write(run_page.page(folders, "python examples/simulated_seconds.py"), options.out / "report.html")


if __name__ == "__main__":
    main()
