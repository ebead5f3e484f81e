"""One president per agent: four processes train one language model without a central server.

python examples/speeches.py
torchrun --nnodes 4 --node-rank R --master-addr HOST --master-port 29500 --nproc-per-node 1 examples/speeches.py

Each process reads the State of the Union addresses of one president, and no other, and trains a small transformer to
predict the next character. Three ways to train are compared, on the same batches: DDP, which averages the gradients of
all processes in every step; gossip, where each process takes AdamW steps of its own and averages its parameters with
its two neighbours on a ring every 20 steps; and isolated processes, which never talk. The loss is measured on passages
of all four presidents that no process has read. `--every 20 5` adds gossip every 5 steps.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import nn

from peerdescent.data import sotu, stream
from peerdescent.errors import InputError
from peerdescent.optim import Gossip
from peerdescent.problems import CharacterTransformer, next_character_loss
from peerdescent.problems.texts import encoded

PRESIDENTS = ("George Washington", "Abraham Lincoln", "Franklin D Roosevelt", "Barack Obama")


def loss_on(model: nn.Module, windows: torch.Tensor) -> torch.Tensor:
    return next_character_loss(model(windows[:, :-1]), windows[:, 1:])


def read(president: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The first nine tenths of what a president said, for training, and the rest, as numbers of characters."""
    numbers = torch.from_numpy(encoded(" ".join(speech.text for speech in sotu()[president])))
    end = len(numbers) * 9 // 10
    return numbers[:end], numbers[end:]


@dataclass
class Curve:
    """What is measured during training, at the same steps for all methods."""

    steps: list[int] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    """Sent by one process."""
    seconds: list[float] = field(default_factory=list)
    """Of training, without the measurements."""
    averaged: list[float] = field(default_factory=list)
    """The loss of the mean of the agents' models."""
    own: list[list[float]] = field(default_factory=list)
    """The loss of each agent's own model."""


class Agent:
    """This process: its president, its batches, and the held-out passages of all presidents."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.rank, self.agents, self.options = dist.get_rank(), dist.get_world_size(), options
        self.window = torch.arange(options.context + 1)
        texts = [read(president) for president in PRESIDENTS[: self.agents]]
        self.text = texts[self.rank][0]
        self.held_out = torch.cat([self.passages(rest, options.passages) for _, rest in texts])

    def passages(self, text: torch.Tensor, count: int) -> torch.Tensor:
        starts = torch.linspace(0, len(text) - len(self.window), count).long()
        return text[starts[:, None] + self.window]

    def batch(self, step: int) -> torch.Tensor:
        """A function of the seed, the agent and the step, so all methods see the same."""
        draw = stream(self.options.seed, "speeches", self.rank, step)
        starts = torch.from_numpy(draw.integers(len(self.text) - len(self.window), size=self.options.batch))
        return self.text[starts[:, None] + self.window]

    def train(self, method: str, every: int, advance: Callable[[], None]) -> Curve:
        torch.manual_seed(self.options.seed)  # all agents start from the same parameters
        model = CharacterTransformer(context=self.options.context)
        trained: nn.Module = model
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=self.options.lr)
        if method == "DDP":
            trained = nn.parallel.DistributedDataParallel(model)
        if every:  # all that decentralized training needs
            optimizer = Gossip(optimizer, f"ring:{self.agents}", every=every)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(warm_up_and_decay, self.options.steps))

        curve = Curve()
        self.measure(curve, 0, 0.0, model, optimizer, method)
        for first in range(0, self.options.steps, self.options.measure):
            last = min(first + self.options.measure, self.options.steps)
            dist.barrier()
            started = time.perf_counter()
            for step in range(first, last):
                optimizer.zero_grad()
                loss_on(trained, self.batch(step)).backward()
                optimizer.step()
                schedule.step()
                advance()
            dist.barrier()
            self.measure(curve, last, time.perf_counter() - started, model, optimizer, method)
        if isinstance(optimizer, Gossip):
            optimizer.wait()
        return curve

    @torch.no_grad()
    def measure(
        self, curve: Curve, step: int, seconds: float, model: nn.Module, optimizer: torch.optim.Optimizer, method: str
    ) -> None:
        own = torch.zeros(self.agents)
        own[self.rank] = loss_on(model, self.held_out)
        dist.all_reduce(own)
        if isinstance(optimizer, Gossip):
            with optimizer.averaged(model):  # in here, the model is the mean over all agents
                averaged = loss_on(model, self.held_out)
            sent = optimizer.bytes_sent()
        else:
            averaged = loss_on(mean_over_agents(model), self.held_out)
            size = sum(p.numel() * p.element_size() for p in model.parameters())
            # what a ring all_reduce sends for each gradient
            sent = round(2 * size * (self.agents - 1) / self.agents) * step if method == "DDP" else 0
        curve.steps.append(step)
        curve.megabytes.append(sent / 1e6)
        curve.seconds.append(seconds + (curve.seconds[-1] if curve.seconds else 0.0))
        curve.averaged.append(averaged.item())
        curve.own.append(own.tolist())


def warm_up_and_decay(steps: int, step: int) -> float:
    """Linear for a twentieth of the steps, then half a cosine down to a tenth."""
    return min(1.0, 20 * (step + 1) / steps) * (0.55 + 0.45 * math.cos(math.pi * step / steps))


def mean_over_agents(model: nn.Module) -> nn.Module:
    mean = copy.deepcopy(model)
    for parameter in mean.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()
    return mean


def table(curves: dict[str, Curve]) -> Table:
    """The state after the last step."""
    shown = Table(
        title="After the last step: loss on unread passages of all presidents", box=None, title_justify="left"
    )
    for column in ("method", "averaged model", "agents' own models", "MB sent by an agent", "seconds"):
        shown.add_column(column, justify="left" if column == "method" else "right")
    for method, curve in curves.items():
        own = f"{min(curve.own[-1]):.3f} to {max(curve.own[-1]):.3f}"
        sent, seconds = f"{curve.megabytes[-1]:,.1f}", f"{curve.seconds[-1]:.1f}"
        shown.add_row(method, f"{curve.averaged[-1]:.3f}", own, sent, seconds)
    return shown


def draw(curves: dict[str, Curve], path: Path) -> None:
    """Loss against steps, megabytes and seconds; `isolated` is the mean over the agents' own models."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False}
    gossip = zip((m for m in curves if m not in ("DDP", "isolated")), itertools.cycle(["#0072B2", "#56B4E9"]))
    colours = dict(gossip) | {"DDP": "#D55E00", "isolated": "#777777"}
    figure, panels = plt.subplots(1, 3, figsize=(12, 4.2), sharey=True, layout="constrained")
    for method, curve in curves.items():
        loss = [sum(own) / len(own) for own in curve.own] if method == "isolated" else curve.averaged
        style = {"color": colours[method], "linewidth": 2.2}
        panels[0].plot([], [], **style, label=f"{method}: {loss[-1]:.2f}")
        for panel, x, unit in zip(panels, (curve.steps, curve.megabytes, curve.seconds), ("", "MB", "s"), strict=True):
            if any(x):
                panel.plot(x[1:], loss[1:], **style)
            else:  # it sends nothing, so only its last loss can be shown
                panel.axhline(loss[-1], **style, linestyle=(0, (4, 2)))
                place = {"xytext": (4, -16), "textcoords": "offset points", "xycoords": ("axes fraction", "data")}
                panel.annotate("send nothing", (0, loss[-1]), color=colours[method], **place)
            if unit == "MB" and any(x):
                place = {"xytext": (0, -16), "textcoords": "offset points", "ha": "center"}
                panel.annotate(f"{x[-1]:,.0f} MB", (x[-1], loss[-1]), color=colours[method], **place)
    for panel, label in zip(panels, ("steps", "megabytes sent by each agent", "seconds of training"), strict=True):
        panel.set_xlabel(label)
        panel.grid(alpha=0.25)
        panel.margins(y=0.1)
    panels[1].set_xscale("log")
    panels[1].xaxis.set_major_formatter("{x:g}")
    panels[1].xaxis.set_minor_formatter("")
    panels[1].margins(x=0.12)
    panels[0].set_ylabel("loss on unread passages")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        labelcolor="linecolor",
    )
    figure.suptitle("Four agents read one president each and train one language model")
    figure.savefig(path, dpi=150)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--every", type=int, nargs="+", default=[20], help="steps between two exchanges of gossip")
    parser.add_argument("--lr", type=float, default=6e-3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=64, help="characters that the model sees")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/speeches"))
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it works")
    options = parser.parse_args()
    if min(options.steps, options.batch, options.context, *options.every) < 1 or options.lr <= 0:
        parser.error("--steps, --every, --batch and --context must be at least 1, and --lr positive")
    if options.quick:
        options.steps, options.every, options.context = 12, [4], 16
    options.measure, options.passages = 4 if options.quick else 40, 2 if options.quick else 12
    return options


def run(options: argparse.Namespace) -> None:
    """What each process does."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if dist.get_world_size() != len(PRESIDENTS):
        sys.exit(f"There are {dist.get_world_size()} processes: expected {len(PRESIDENTS)}, one for each president.")
    agent, curves = Agent(options), {}
    methods = {f"gossip every {every} steps": every for every in options.every} | {"DDP": 0, "isolated": 0}
    with Progress(disable=agent.rank > 0) as progress:
        for method, every in methods.items():
            task = progress.add_task(method, total=options.steps)
            curves[method] = agent.train(method, every, partial(progress.advance, task))
    if agent.rank == 0:
        options.out.mkdir(parents=True, exist_ok=True)
        found = {method: asdict(curve) for method, curve in curves.items()}
        (options.out / "results.json").write_text(json.dumps(found, indent=1))
        draw(curves, options.out / "figure.png")
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
        sotu(print)  # fetched once, before four processes want it
        stream(options.seed, "speeches")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    sys.stdout.flush()
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(len(PRESIDENTS))]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # several processes share the cores
    os.execve(sys.executable, [sys.executable, *torchrun, *sys.argv], environment)


if __name__ == "__main__":
    sys.exit(main())
