"""Networks of the named problems: a perceptron, a small residual network, a transformer of characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from peerdescent._util.validation import check_integer
from peerdescent.errors import InputError

CHARACTERS = "".join(map(chr, range(32, 127)))
"""What the transformer reads; all other characters are read as a space."""
_CHANNELS = 8  # in a group of the group normalisation


def perceptron(sizes: Sequence[int]) -> nn.Sequential:
    """Return dense layers of these sizes, with ReLU between them.

    >>> sum(p.numel() for p in perceptron([64, 32, 10]).parameters())
    2410
    """
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class ResidualBlock(nn.Module):
    """y = ReLU(x + GN(conv(ReLU(GN(conv(x)))))); x goes through a 1×1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), _norm(outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), _norm(outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), _norm(outputs))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the pictures after the block."""
        inner = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


class ResNet(nn.Module):
    """The residual network of He et al. (2016) for 32×32 pictures, of 6·blocks + 2 layers, with group normalisation.

    Group normalisation (Wu and He, 2018) has no running statistics, which agents with different data would disagree
    about.

    Args:
        blocks: residual blocks in each of the three stages.
        width: channels of the first stage, a multiple of 8; the other two have twice and four times as many.
        classes: outputs.

    >>> ResNet()(torch.zeros(2, 3, 32, 32)).shape, sum(p.numel() for p in ResNet().parameters())
    (torch.Size([2, 10]), 78042)
    """

    def __init__(self, blocks: int = 1, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        resnet_parameters(blocks, width, classes)
        stages: list[nn.Module] = []
        inputs = width
        for stage in range(3):
            for block in range(blocks):
                outputs = width << stage
                stages.append(ResidualBlock(inputs, outputs, 2 if stage and not block else 1))
                inputs = outputs
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), _norm(width), nn.ReLU())
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(inputs, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return a number for each class."""
        outputs: torch.Tensor = self.head(self.stages(self.stem(images)).mean(dim=(2, 3)))
        return outputs


class TransformerBlock(nn.Module):
    """Attention to earlier characters, and a network for each character."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the characters' vectors after the block."""
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.shape[-1] ** 0.5  # written out, since vmap has no rule for the fused attention
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        seen = scores.masked_fill(later, -torch.inf).softmax(dim=-1) @ v
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        outputs: torch.Tensor = x + self.mlp(self.norm2(x))
        return outputs


class CharacterTransformer(nn.Module):
    """Predicts each next character from those before it.

    Args:
        width: the length of a character's vector, a multiple of heads.
        layers: blocks of attention.
        heads: of each block.
        context: the longest text.

    >>> CharacterTransformer(context=8)(torch.zeros(2, 5, dtype=torch.int64)).shape
    torch.Size([2, 5, 95])
    """

    def __init__(self, width: int = 64, layers: int = 2, heads: int = 4, context: int = 64) -> None:
        super().__init__()
        transformer_parameters(width, layers, heads, context)
        self.context = context
        self.characters, self.places = nn.Embedding(len(CHARACTERS), width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, len(CHARACTERS)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw small embeddings; the layers have drawn theirs."""
        nn.init.normal_(self.characters.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return a number for each character that may come next, at every place of the texts."""
        outputs: torch.Tensor = self.head(self.blocks(self.characters(text) + self.places.weight[: text.shape[1]]))
        return outputs


def resnet_parameters(blocks: int, width: int, classes: int = 10) -> int:
    """Check the options of a `ResNet`, and return how many parameters it has.

    >>> resnet_parameters(1, 16)
    78042
    """
    check_integer("blocks", blocks, 1, 201)
    if check_integer("width", width, _CHANNELS, 1025) % _CHANNELS:
        raise InputError(f"width = {width}: expected a multiple of {_CHANNELS}.")
    total, inputs = 27 * width + 2 * width, width
    for stage in range(3):
        c = width << stage
        total += 9 * inputs * c + 9 * c * c + 4 * c + (blocks - 1) * (18 * c * c + 4 * c)
        total += inputs * c + 2 * c if stage else 0
        inputs = c
    return total + (inputs + 1) * classes


def transformer_parameters(width: int, layers: int, heads: int, context: int) -> int:
    """Check the options of a `CharacterTransformer`, and return how many parameters it has.

    >>> transformer_parameters(64, 2, 4, 64)
    116447
    """
    for name, value in {"width": width, "layers": layers, "heads": heads, "context": context}.items():
        check_integer(name, value, 1, 4097)
    if width % heads:
        raise InputError(f"width = {width}: expected a multiple of heads = {heads}.")
    known = len(CHARACTERS)
    return (known + context) * width + layers * (12 * width + 13) * width + 2 * width + (width + 1) * known


def next_character_loss(outputs: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of the next characters, averaged over places and texts."""
    return functional.cross_entropy(outputs.flatten(0, 1), following.flatten())


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(channels // _CHANNELS, channels)
