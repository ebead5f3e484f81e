"""A compiled pass over arrays: C source, its library, and the pointers for the call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import torch

from peerdescent.expressions import Expression, Mixed, walk
from peerdescent.kernels.codegen import Source, generate, power_table
from peerdescent.kernels.compiler import load
from peerdescent.mixing.matrix import AllAgents, CurrentMatrix
from peerdescent.mixing.network import MemoryNetwork

CACHE_BYTES = 192 * 1024
"""The size of a block of columns of all arrays and scratch: less than a common second-level cache."""


class Kernel:
    """A compiled pass over named arrays, split by columns among threads."""

    def __init__(
        self,
        outputs: Mapping[str, Expression],
        arrays: Mapping[str, torch.Tensor],
        network: MemoryNetwork,
        threads: int,
    ) -> None:
        x = arrays["x"]
        n, p = x.shape
        real, c_real = ("double", ctypes.c_double) if x.dtype == torch.float64 else ("float", ctypes.c_float)
        self._source: Source = generate(outputs, real)
        self._function = load(self._source.text, "kernel")
        self._function.restype = None
        per_column = n * x.element_size() * (len(self._source.arrays) + self._source.scratch_rows)
        width = max(64, min(p, CACHE_BYTES // per_column) // 32 * 32)
        tables = [number for gamma in self._source.gammas for number in power_table(gamma, real)]
        self._numbers = (ctypes.c_double * max(1, len(self._source.scalars)))()
        self._kept = [arrays[name] for name in self._source.arrays], network
        pointers = (ctypes.c_void_p * len(self._source.arrays))(*(a.data_ptr() for a in self._kept[0]))
        common = (pointers, self._numbers, (c_real * max(1, len(tables)))(*tables))
        listed: dict[str, CurrentMatrix | AllAgents] = {
            "laplacian": network.laplacian_matrix,
            "disagreement": network.disagreement_matrix,
            "mean": network.all_agents,
        }
        kinds = {node.kind for node in walk(*outputs.values()) if isinstance(node, Mixed)}
        matrices = tuple(ctypes.byref(each.struct) if kind in kinds else None for kind, each in listed.items())
        self._scratch = torch.empty(threads, max(1, self._source.scratch_rows) * n * width, dtype=x.dtype)
        bounds = [min(p, (p * t // threads + width - 1) // width * width) for t in range(threads)] + [p]
        self._calls = [
            (*(ctypes.c_long(value) for value in (n, p, bounds[t], bounds[t + 1], width)), *common, *matrices,
             ctypes.c_void_p(self._scratch[t].data_ptr()))
            for t in range(threads)
        ]  # fmt: skip
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __call__(self, numbers: dict[str, float]) -> None:
        for i, name in enumerate(self._source.scalars):
            self._numbers[i] = numbers[name]
        if self._pool is None:
            self._function(*self._calls[0])
        else:
            list(self._pool.map(lambda call: self._function(*call), self._calls))
