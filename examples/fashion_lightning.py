"""PyTorch Lightning without a central server: four processes train a BatchNorm network on Fashion-MNIST.

python examples/fashion_lightning.py   # or, on several machines, torchrun as for examples/speeches.py

Each process has the pictures of a shop that sells few kinds of clothes: the classes are spread over the four agents by
a Dirichlet distribution. The agents talk to their two neighbours on a ring, through the optimizer alone; the same
network is then trained without talking, for comparison. Needs `pip install "peerdescent[examples]"`.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import sys
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import SingleDeviceStrategy
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from peerdescent.data import FASHION_CLASSES, fashion_mnist, partition
from peerdescent.errors import InputError
from peerdescent.optim import DSGPA

AGENTS = 4
METHODS = ("decentralized", "isolated")


@dataclass
class Curve:
    """Accuracies on the test pictures after each epoch."""

    averaged: list[float] = field(default_factory=list)
    """Of the mean of the agents' models."""
    own: list[list[float]] = field(default_factory=list)
    """Of each agent's own model; with BatchNorm's statistics of its own pictures, it lags behind the mean."""
    megabytes: float = 0.0
    """Sent by one agent."""


class Classifier(lightning.LightningModule):
    """A LightningModule as usual: only its optimizer knows that there are other processes."""

    def __init__(self, method: str, options: argparse.Namespace, test: TensorDataset) -> None:
        super().__init__()
        self.method, self.options, self.test, self.curve = method, options, test, Curve()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 10),
        )  # fmt: skip

    def configure_optimizers(self) -> Any:
        if self.method == "decentralized":
            optimizer: torch.optim.Optimizer = DSGPA(
                self.parameters(), f"ring:{dist.get_world_size()}", self.options.lr, alpha=5, beta=1, gamma=0.7,
                power_on="direction",
            )  # fmt: skip
        else:
            optimizer = torch.optim.SGD(self.parameters(), self.options.lr, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.options.epochs)]

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        images, labels = batch
        return functional.cross_entropy(self.net(images), labels)

    def on_train_epoch_end(self) -> None:
        own = torch.zeros(dist.get_world_size())
        own[dist.get_rank()] = self.accuracy()
        dist.all_reduce(own)
        self.curve.own.append(own.tolist())
        optimizer = self.optimizers(use_pl_optimizer=False)
        if isinstance(optimizer, DSGPA):
            with optimizer.averaged(self):  # the mean over the agents, BatchNorm's running statistics included
                self.curve.averaged.append(self.accuracy())
            self.curve.megabytes = optimizer.bytes_sent() / 1e6

    def on_fit_end(self) -> None:
        optimizer = self.optimizers(use_pl_optimizer=False)
        if isinstance(optimizer, DSGPA):
            optimizer.wait()  # for the messages of a step that will not come

    @torch.no_grad()
    def accuracy(self) -> float:
        self.eval()
        images, labels = self.test.tensors
        right = (self.net(images).argmax(dim=1) == labels).float().mean().item()
        self.train()
        return right


def trainer(options: argparse.Namespace) -> lightning.Trainer:
    """Lightning trains in this process alone, and leaves the process group to the optimizer.

    The strategy is the point. "ddp" would wrap the model and average its gradients, which is what decentralized
    methods replace. A SingleDeviceStrategy neither wraps the model nor starts processes nor touches the process group
    that exists, and it puts no DistributedSampler into the data loader, since each agent has its own data.
    Lightning then believes that every process is the first, so only one may show a progress bar or write files.
    """
    return lightning.Trainer(
        accelerator="cpu",
        strategy=SingleDeviceStrategy("cpu"),
        max_epochs=options.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=dist.get_rank() == 0,
    )


def loader(shard: TensorDataset, options: argparse.Namespace) -> DataLoader[Any]:
    """As many batches for all agents, whatever the sizes of their shards: an exchange needs a step of all."""
    draw = torch.Generator().manual_seed(1000 * options.seed + dist.get_rank())
    sampler = RandomSampler(shard, replacement=True, num_samples=options.steps * options.batch, generator=draw)
    return DataLoader(shard, options.batch, sampler=sampler)


def table(curves: dict[str, Curve]) -> Table:
    shown = Table(title="Accuracy on test pictures of all classes", box=None, title_justify="left")
    for column in ("method", "averaged model", "agents' own models", "MB sent by an agent"):
        shown.add_column(column, justify="left" if column == "method" else "right")
    for method, curve in curves.items():
        averaged = f"{curve.averaged[-1]:.1%}" if curve.averaged else "–"
        own = f"{min(curve.own[-1]):.1%} to {max(curve.own[-1]):.1%}"
        shown.add_row(method, averaged, own, f"{curve.megabytes:.1f}")
    return shown


def draw(curves: dict[str, Curve], counts: np.ndarray, path: Path) -> None:
    """Left, what each agent has; right, the accuracy after each epoch."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False}
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained", width_ratios=(1.15, 1))
    left.imshow(counts, cmap="Blues", aspect="auto", vmax=1.4 * counts.max())
    for (agent, label), count in np.ndenumerate(counts):
        left.text(label, agent, f"{count:,}" if count else "", ha="center", va="center", fontsize=9)
    left.set_xticks(range(10), FASHION_CLASSES, rotation=40, ha="right")
    left.set_yticks(range(len(counts)), [f"agent {agent}" for agent in range(len(counts))])
    left.tick_params(length=0)
    left.spines[:].set_visible(False)
    left.set_title("training pictures of each agent", fontsize=12)

    colours = {"decentralized": "#0072B2", "isolated": "#777777"}
    for method, curve in curves.items():
        epochs = range(1, len(curve.own) + 1)
        for agent in zip(*curve.own, strict=True):
            right.plot(epochs, [100 * a for a in agent], color=colours[method], linewidth=1, alpha=0.8)
    right.plot(epochs, [100 * a for a in curves["decentralized"].averaged], color="#0072B2", linewidth=3.5)
    for y, colour, label in line_labels(curves, colours):
        place = {"xytext": (10, 0), "textcoords": "offset points", "va": "center", "color": colour}
        right.annotate(label, (len(epochs), y), annotation_clip=False, **place)
    right.set_xticks(epochs)
    right.set_xlabel("epoch")
    right.set_ylabel("test accuracy in %")
    right.grid(alpha=0.25)
    figure.suptitle("Four agents with different clothes, one network")
    figure.savefig(path, dpi=150)


def line_labels(curves: dict[str, Curve], colours: dict[str, str]) -> list[tuple[float, str, str]]:
    """What is written at the ends of the lines, and at which height, at least a sixth of the axis apart."""
    together, alone = curves["decentralized"], curves["isolated"]
    texts = [("decentralized", f"averaged model\n{together.averaged[-1]:.0%}", together.averaged[-1:])]
    texts.append(("decentralized", "agents on the ring\n", together.own[-1]))
    texts.append(("isolated", "isolated agents\n", alone.own[-1]))
    every = [a for curve in curves.values() for accuracies in curve.own for a in accuracies]
    gap, placed, height = (max(every) - min(every)) / 6, [], math.inf
    for method, text, ends in texts:
        height = min(height - gap, sum(ends) / len(ends))
        span = f"{min(ends):.0%} to {max(ends):.0%}" if len(ends) > 1 else ""
        placed.append((100 * height, colours[method], text + span))
    return placed


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=80, help="steps of an epoch")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--split", default="dirichlet:0.3", help="how the classes are spread over the agents")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/fashion"))
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it works")
    options = parser.parse_args()
    if min(options.epochs, options.steps, options.batch) < 1 or options.lr <= 0:
        parser.error("--epochs, --steps and --batch must be at least 1, and --lr positive")
    if options.quick:
        options.epochs, options.steps, options.batch = 2, 3, 8
    options.test = 200 if options.quick else 5000
    return options


def run(options: argparse.Namespace) -> None:
    """What each process does."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", ".*does not have many workers.*")  # the data are in memory
    warnings.filterwarnings("ignore", ".*LeafSpec.*is deprecated.*")  # Lightning's own use of torch
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    agent, agents = dist.get_rank(), dist.get_world_size()

    data = fashion_mnist()
    shards = partition(data.train_labels, agents, options.split, options.seed)
    rows = shards[agent]
    shard = TensorDataset(torch.from_numpy(data.train_images[rows, None]), torch.from_numpy(data.train_labels[rows]))
    images, labels = (torch.from_numpy(part[: options.test]) for part in (data.test_images, data.test_labels))
    counts = np.array([np.bincount(data.train_labels[rows], minlength=10) for rows in shards])
    del data

    curves = {}
    for method in METHODS:
        torch.manual_seed(options.seed)  # all agents start from the same parameters
        model = Classifier(method, options, TensorDataset(images[:, None], labels))
        trainer(options).fit(model, loader(shard, options))
        curves[method] = model.curve
    if agent == 0:
        options.out.mkdir(parents=True, exist_ok=True)
        found = {method: asdict(curve) for method, curve in curves.items()}
        (options.out / "results.json").write_text(json.dumps(found | {"counts": counts.tolist()}, indent=1))
        draw(curves, counts, options.out / "figure.png")
        Console().print(table(curves))
        print(f"figure: {options.out / 'figure.png'}")
    dist.barrier()
    dist.destroy_process_group()


def main() -> int:
    options = parsed()
    if "RANK" in os.environ:  # torchrun has started this process
        run(options)
        return 0
    try:
        labels = fashion_mnist(print).train_labels  # fetched once, before four processes want it
        partition(labels, AGENTS, options.split, options.seed)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    sys.stdout.flush()
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(AGENTS)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # several processes share the cores
    os.execve(sys.executable, [sys.executable, *torchrun, *sys.argv], environment)


if __name__ == "__main__":
    sys.exit(main())
