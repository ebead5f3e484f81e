"""The first experiment of the paper: a 400-50-10 sigmoid network on 5,000 MNIST digits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from peerdescent._util.validation import check_choice
from peerdescent.data import digits_split, stream
from peerdescent.data import partition as make_partition
from peerdescent.problems.supervised import Supervised

PIXELS, HIDDEN, CLASSES = 400, 50, 10
FIRST = HIDDEN * (PIXELS + 1)
STARTS = ("normal", "uniform", "glorot")


class SigmoidNet(nn.Module):
    """y = Sig(Z² [1, Sig(Z¹ [1, x])]), with the bias in column 0 of each weight matrix as in the paper.

    Returns the argument of the last sigmoid, which ranks the classes alike and gives a numerically stable loss.

    >>> sum(p.numel() for p in SigmoidNet().parameters())
    20560
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(HIDDEN, PIXELS + 1))
        self.second = nn.Parameter(torch.zeros(CLASSES, HIDDEN + 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return ten numbers for each image of 400 pixels, which may have a leading 1 for the bias."""
        if images.shape[-1] == PIXELS:
            images = nn.functional.pad(images, (1, 0), value=1.0)
        hidden = torch.sigmoid(images @ self.first.mT)
        return nn.functional.pad(hidden, (1, 0), value=1.0) @ self.second.mT


def risk(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The empirical risk of the paper: −Σ_k t_k ln y_k + (1−t_k) ln(1−y_k), averaged over the samples."""
    target = (labels[..., None] == torch.arange(CLASSES, device=labels.device)).to(outputs.dtype)
    entropy = nn.functional.binary_cross_entropy_with_logits(outputs, target, reduction="none")
    return entropy.sum(dim=-1).mean()


@dataclass
class _Buffers:
    """Buffers for one minibatch shape, so that an iteration allocates nothing."""

    hidden: torch.Tensor
    output: torch.Tensor
    slope: torch.Tensor
    back: torch.Tensor
    first: torch.Tensor
    second: torch.Tensor


class MnistNN(Supervised):
    """The 400-50-10 network with stacked gradients written by hand: batched products instead of a loop over agents.

    Args:
        agents: n; each has a part of the 2,500 training images.
        partition: "iid", "label" or "dirichlet:A".
        start: "normal" (N(0,1), independent), "uniform" (U(−1,1)/√fan-in, shared) or "glorot" (independent).
        sizes: "even" or "uneven".
        seed: determines the split into training and test images and the partition.
    """

    name = "mnist-nn"
    by_hand = True

    def __init__(
        self, agents: int = 10, partition: str = "iid", start: str = "normal", sizes: str = "even", seed: int = 0
    ) -> None:
        check_choice("start", start, STARTS)
        split = digits_split(seed)
        shards = make_partition(split.train_labels, agents, partition, seed, sizes)
        test = (_with_bias(split.test_images), torch.from_numpy(split.test_labels))
        labels = torch.from_numpy(split.train_labels)
        super().__init__(SigmoidNet(), risk, _with_bias(split.train_images), labels, shards, test)
        self.start_kind = start
        self._work: dict[tuple[int, int], _Buffers] = {}

    def start(self, seed: int) -> torch.Tensor:
        """Return the starting weights of the agents."""
        numbers = [self.number(agent) for agent in range(self.agents)]
        if self.start_kind == "uniform":
            rows = [_uniform(seed, 0, (PIXELS + 1) ** -0.5, (HIDDEN + 1) ** -0.5)] * self.agents
        elif self.start_kind == "glorot":
            limits = ((6 / (PIXELS + HIDDEN)) ** 0.5, (6 / (HIDDEN + CLASSES)) ** 0.5)
            rows = [_uniform(seed, i, *limits) for i in numbers]
        else:
            rows = [stream(seed, "start", i).standard_normal(self.dimension) for i in numbers]
        x = torch.from_numpy(np.stack(rows)).to(self.device, self.dtype)
        if self.start_kind == "glorot":
            x[:, : FIRST : PIXELS + 1] = 0  # biases
            x[:, FIRST :: HIDDEN + 1] = 0
        return x

    def stacked_gradient(
        self, points: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Backpropagation by hand, with all agents in each product.

        h = Sig(Z¹x), o = Z²[1,h], δ² = (Sig(o) − t)/B, δ¹ = (Z²ᵀδ²)·h(1−h), dZ² = δ²[1,h]ᵀ, dZ¹ = δ¹xᵀ.
        """
        n, batch = targets.shape
        first = points[:, :FIRST].view(n, HIDDEN, PIXELS + 1)
        second = points[:, FIRST:].view(n, CLASSES, HIDDEN + 1)
        work = self._buffers(n, batch)
        hidden = work.hidden[:, :, 1:]
        torch.bmm(inputs, first.mT, out=work.back)
        torch.sigmoid(work.back, out=hidden)
        torch.bmm(work.hidden, second.mT, out=work.output)
        error = work.output.sigmoid_()
        error.scatter_add_(2, targets[:, :, None], _MINUS_ONE.to(error).expand(n, batch, 1))
        error.div_(batch)
        torch.bmm(error.mT, work.hidden, out=work.second)
        torch.bmm(error, second[:, :, 1:], out=work.back)
        torch.mul(hidden, hidden, out=work.slope)
        torch.sub(hidden, work.slope, out=work.slope)
        work.back.mul_(work.slope)
        torch.bmm(work.back.mT, inputs, out=work.first)
        out[:, :FIRST].copy_(work.first.view(n, -1))
        out[:, FIRST:].copy_(work.second.view(n, -1))

    def _buffers(self, n: int, batch: int) -> _Buffers:
        key = (n, batch)
        if key not in self._work:
            wide, narrow, classes = (n, batch, HIDDEN + 1), (n, batch, HIDDEN), (n, batch, CLASSES)
            gradients = (n, HIDDEN, PIXELS + 1), (n, CLASSES, HIDDEN + 1)
            spaces = [
                torch.ones(s, dtype=self.dtype, device=self.device) for s in (wide, classes, narrow, narrow, *gradients)
            ]
            self._work[key] = _Buffers(*spaces)
        return self._work[key]

    def to(self, device: torch.device, dtype: torch.dtype) -> MnistNN:
        """Return the problem on another device, in another precision."""
        new = super().to(device, dtype)
        assert isinstance(new, MnistNN)
        new._work = {}
        return new


_MINUS_ONE = torch.tensor(-1.0)


def _with_bias(images: NDArray[np.float32]) -> torch.Tensor:
    flat = torch.from_numpy(images).flatten(1)
    return nn.functional.pad(flat, (1, 0), value=1.0)


def _uniform(seed: int, agent: int, first: float, second: float) -> NDArray[np.float64]:
    """Return weights of both layers, uniform in ±first and ±second."""
    random = stream(seed, "start", agent)
    rest = CLASSES * (HIDDEN + 1)
    return np.concatenate([random.uniform(-first, first, FIRST), random.uniform(-second, second, rest)])
