"""The norms of rows, compiled: the same order of summation as `peerdescent._util.row_norms`, hence the same bits."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import torch

from peerdescent.kernels.compiler import load

# Squares and sums are in double precision. Nothing is multiplied and added in one loop, where a compiler may leave out
# a rounding. The largest entry is found in the integers of the same order, where NaN is above infinity.
SOURCE = """\
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef {real} real;
typedef {integer} integer;

void row_norms(long first, long last, long p, const real *restrict rows, real *restrict out,
               double *restrict squares) {{
    for (long i = first; i < last; i++) {{
        const real *a = rows + i * p;
        integer most = 0;
        for (long c = 0; c < p; c++) {{
            integer bits;
            memcpy(&bits, a + c, sizeof bits);
            bits &= {mask};
            most = bits > most ? bits : most;
        }}
        real largest;
        memcpy(&largest, &most, sizeof largest);
        const double unit = largest > 0 ? (double)largest : 1.0;
        for (long c = 0; c < p; c++) squares[c] = (double)a[c] / unit;
        for (long c = 0; c < p; c++) squares[c] *= squares[c];
        for (long width = p; width > 1; width -= width / 2) {{
            const long half = width / 2;
#pragma GCC ivdep
            for (long c = 0; c < half; c++) squares[c] += squares[half + c];
            if (width % 2) squares[half] = squares[width - 1];
        }}
        out[i] = (real)((double)largest * sqrt(squares[0]));
    }}
}}
"""
KINDS = {
    torch.float32: {"real": "float", "integer": "int32_t", "mask": "0x7fffffff"},
    torch.float64: {"real": "double", "integer": "int64_t", "mask": "0x7fffffffffffffff"},
}


class CompiledNorms:
    """Writes the norms of the rows of an n×p array to another one, n×1.

    >>> out = torch.empty(2, 1)
    >>> CompiledNorms(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), out)()
    >>> out.flatten()
    tensor([5., 0.])
    """

    def __init__(self, rows: torch.Tensor, out: torch.Tensor, threads: int = 1) -> None:
        n, p = rows.shape
        self._function = load(SOURCE.format(**KINDS[rows.dtype]), "row_norms")
        self._function.restype = None
        squares = torch.empty(threads, p, dtype=torch.float64)
        self._kept = rows, out, squares  # the calls have their addresses
        bounds = [n * t // threads for t in range(threads + 1)]
        self._calls = [
            (*(ctypes.c_long(value) for value in (bounds[t], bounds[t + 1], p)),
             *(ctypes.c_void_p(array.data_ptr()) for array in (rows, out, squares[t])))
            for t in range(threads)
        ]  # fmt: skip
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __call__(self) -> None:
        if self._pool is None:
            self._function(*self._calls[0])
        else:
            list(self._pool.map(lambda call: self._function(*call), self._calls))
