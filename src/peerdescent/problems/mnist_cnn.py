"""The second experiment of the paper: a convolutional network on all of MNIST, in both readings of the text."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from peerdescent._util.validation import check_choice, check_integer
from peerdescent.data import mnist_full, stream
from peerdescent.data import partition as make_partition
from peerdescent.problems.supervised import Supervised

SIDE, KERNEL, FILTERS = 28, 3, 5
POOLED = (SIDE - KERNEL + 1) // 2
DENSE = (360, 60, 10)
READINGS = ("code", "text")
STARTS = ("glorot", "shared")


def convolutional_net(reading: str = "code") -> nn.Sequential:
    """Return the network of the authors' earlier code (one layer of five filters) or of the text (five layers).

    Convolutions of 3×3 with ReLU, a 2×2 mean pool, sigmoid layers of 360 and 60, ten outputs.

    >>> sum(p.numel() for p in convolutional_net("code").parameters())
    326880
    """
    check_choice("reading", reading, READINGS)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    depth = 1 if reading == "code" else 5
    for i in range(depth):
        layers[f"conv{i + 1}"] = nn.Conv2d(1 if i == 0 else FILTERS, FILTERS, KERNEL)
        layers[f"relu{i + 1}"] = nn.ReLU()
    side = (SIDE - (KERNEL - 1) * depth) // 2
    layers.update(pool=nn.AvgPool2d(2), flatten=nn.Flatten())
    sizes = (FILTERS * side * side, *DENSE)
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        layers[f"dense{i + 1}"] = nn.Linear(inputs, outputs)
        if outputs != DENSE[-1]:
            layers[f"sigmoid{i + 1}"] = nn.Sigmoid()
    return nn.Sequential(layers)


class MnistCNN(Supervised):
    """The network of the paper, trained on 60,000 digits and tested on 10,000.

    Args:
        agents: n; each has a part of the training images.
        partition: "iid", "label" or "dirichlet:A".
        reading: "code" (one convolution of five filters) or "text" (five convolutions).
        start: "glorot" (convolutions 0.1·N(0,1), dense layers Glorot-uniform, biases 0, independent) or "shared" (the
            same draw for all agents).
        sizes: "even" or "uneven".
        evaluated: training samples for evaluating loss and gradient norm, equally many from each agent; 0 for all
            60,000, which takes as long as an eighth of a training epoch.
        seed: determines the partition.
    """

    name = "mnist-cnn"

    def __init__(
        self,
        agents: int = 10,
        partition: str = "iid",
        reading: str = "code",
        start: str = "glorot",
        sizes: str = "even",
        evaluated: int = 10_000,
        seed: int = 0,
    ) -> None:
        module = convolutional_net(reading)
        check_choice("start", start, STARTS)
        check_integer("evaluated", evaluated, 0)
        data = mnist_full()
        shards = make_partition(data.train_labels, agents, partition, seed, sizes)
        images, test = (torch.from_numpy(part)[:, None] for part in (data.train_images, data.test_images))
        labels, test_labels = torch.from_numpy(data.train_labels), torch.from_numpy(data.test_labels)
        super().__init__(module, nn.functional.cross_entropy, images, labels, shards, (test, test_labels))
        self.reading, self.start_kind, self.evaluated = reading, start, evaluated
        self.by_hand = reading == "code"

    def start(self, seed: int) -> torch.Tensor:
        """Return the starting weights of the agents."""
        drawn_by = [self.number(agent) if self.start_kind == "glorot" else 0 for agent in range(self.agents)]
        rows = [self._draw(seed, agent) for agent in drawn_by]
        return torch.from_numpy(np.stack(rows)).to(self.device, self.dtype)

    def _draw(self, seed: int, agent: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        random = stream(seed, "start", agent)
        parts = []
        for name, shape in self.shapes.items():
            if name.endswith("bias"):
                parts.append(np.zeros(shape))
            elif name.startswith("conv"):
                parts.append(0.1 * random.standard_normal(shape))
            else:
                limit = (6 / sum(shape)) ** 0.5
                parts.append(random.uniform(-limit, limit, shape))
        return np.concatenate([part.ravel() for part in parts])

    def stacked_gradient(
        self, points: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Backpropagation by hand for one convolution, with all agents in each dense product; vmap for five."""
        if self.reading == "text":
            super().stacked_gradient(points, inputs, targets, out)
            return
        w, d = _Views(points, self), _Views(out, self)
        n, batch = targets.shape
        patches = _patches(inputs)
        convolved = torch.baddbmm(w.b0[:, :, None], w.w0, patches).relu_()
        x = _mean_pool(convolved.view(n, FILTERS, batch, 2 * POOLED, 2 * POOLED)).transpose(1, 2).reshape(n, batch, -1)
        h1 = torch.baddbmm(w.b1[:, None], x, w.w1.mT).sigmoid_()
        h2 = torch.baddbmm(w.b2[:, None], h1, w.w2.mT).sigmoid_()
        error = torch.baddbmm(w.b3[:, None], h2, w.w3.mT).softmax(dim=-1)
        error.scatter_add_(2, targets[:, :, None], error.new_full((1, 1, 1), -1.0).expand(n, batch, 1))
        error = _dense_gradient(d.w3, d.b3, error.div_(batch), h2, w.w3)
        error = _dense_gradient(d.w2, d.b2, error.mul_(h2).mul_(1 - h2), h1, w.w2)
        error = _dense_gradient(d.w1, d.b1, error.mul_(h1).mul_(1 - h1), x, w.w1)
        spread = _spread(error.mul_(0.25).view(n, batch, FILTERS, POOLED, POOLED).transpose(1, 2))
        slope = torch.ops.aten.threshold_backward(spread.view_as(convolved), convolved, 0)
        d.w0.copy_(torch.bmm(slope, patches.mT))
        torch.sum(slope, dim=2, out=d.b0)


class _Views:
    """The layers of the one-convolution network as views into stacked rows, agents first."""

    def __init__(self, rows: torch.Tensor, problem: MnistCNN) -> None:
        sizes = [shape.numel() for shape in problem.shapes.values()]
        w0, self.b0, w1, self.b1, w2, self.b2, w3, self.b3 = torch.split(rows, sizes, dim=1)
        n = len(rows)
        self.w0 = w0.view(n, FILTERS, KERNEL * KERNEL)
        self.w1, self.w2, self.w3 = (
            w.view(n, b.shape[1], -1) for w, b in ((w1, self.b1), (w2, self.b2), (w3, self.b3))
        )


def _dense_gradient(
    dw: torch.Tensor, db: torch.Tensor, error: torch.Tensor, x: torch.Tensor, w: torch.Tensor
) -> torch.Tensor:
    """Write the gradients of a dense layer; return the error of its input."""
    for i in range(len(dw)):  # directly into each agent's row: one batched product would need a copy
        torch.mm(error[i].mT, x[i], out=dw[i])
    torch.sum(error, dim=1, out=db)
    return torch.bmm(error, w)


def _patches(images: torch.Tensor) -> torch.Tensor:
    """Return the image patches for the nine entries of a filter, n × 9 × (batch · 26 · 26)."""
    n, batch, side = len(images), images.shape[1], SIDE - KERNEL + 1
    patches = images.new_empty(n, KERNEL * KERNEL, batch, side, side)
    for place in range(KERNEL * KERNEL):
        down, right = divmod(place, KERNEL)
        patches[:, place].copy_(images[:, :, 0, down : down + side, right : right + side])
    return patches.view(n, KERNEL * KERNEL, -1)


def _mean_pool(a: torch.Tensor) -> torch.Tensor:
    """Return the means of 2×2 windows in the last two dimensions."""
    rows = a[..., 0::2, :] + a[..., 1::2, :]
    return (rows[..., 0::2] + rows[..., 1::2]).mul_(0.25)


def _spread(a: torch.Tensor) -> torch.Tensor:
    """Repeat every entry of the last two dimensions over a 2×2 window."""
    wide = a.new_empty(*a.shape[:-1], 2 * POOLED)
    wide[..., 0::2], wide[..., 1::2] = a, a
    tall = a.new_empty(*a.shape[:-2], 2 * POOLED, 2 * POOLED)
    tall[..., 0::2, :], tall[..., 1::2, :] = wide, wide
    return tall
