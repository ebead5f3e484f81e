"""Running statistics of one model, recomputed on training samples.

The mean over the agents of their running statistics is not what the averaged model would have kept, since statistics
are not linear in the parameters. Recalibration lets the averaged model see some training samples again.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils._pytree import tree_leaves

from peerdescent.data import trees
from peerdescent.data.trees import Tree
from peerdescent.problems.base import Buffers
from peerdescent.problems.module_calls import call

SAMPLES, BATCH = 2048, 256
"""At most so many samples, in batches of about this size."""


def recalibrated_statistics(module: nn.Module, inputs: Tree, order: NDArray[np.integer]) -> Buffers:
    """Return the running means and variances that the normalizing layers of a module have on these samples.

    They are the plain averages of the statistics of B batches, μ = (1/B) Σ μ_b and σ² = (1/B) Σ σ²_b. Only these
    layers are in training mode, so that dropout does not change what they see.

    Args:
        module: changes; layers that are not in training mode keep their statistics.
        inputs: samples.
        order: the first of these rows of `inputs` are used, in this order.

    >>> data = torch.tensor([[0.0], [2.0], [4.0], [6.0]])
    >>> recalibrated_statistics(nn.BatchNorm1d(1), data, np.arange(4))
    {'running_mean': tensor([3.]), 'running_var': tensor([6.6667])}
    """
    layers = {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, _NormBase) and layer.training and layer.running_mean is not None
    }
    if not layers:
        return {}
    module.eval()
    chosen, device = order[:SAMPLES], tree_leaves(inputs)[0].device
    with torch.no_grad():
        for layer in layers.values():
            layer.train()
            layer.reset_running_stats()
        for seen, rows in enumerate(np.array_split(chosen, max(1, len(chosen) // BATCH))):
            for layer in layers.values():
                layer.momentum = 1 / (seen + 1)
            call(module, trees.take(inputs, torch.from_numpy(rows).to(device)))
    kept = {f"{name}." if name else "": layer for name, layer in layers.items()}
    return {
        f"{prefix}{kind}": getattr(layer, kind)
        for prefix, layer in kept.items()
        for kind in ("running_mean", "running_var")
    }
