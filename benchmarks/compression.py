"""What compressing a message costs, against the time that sending it whole would take on a slow link.

python benchmarks/compression.py [p]
"""

from __future__ import annotations

import sys

import torch
from measure import cpu_minima

from peerdescent.mixing.compressor import Compressor, Origin
from peerdescent.mixing.compressors import parse

DIMENSION = 326_880
LINK = 100e6 / 8
"""Bytes per second of a link of 100 Mbit/s."""
TEXTS = ("none", "bf16", "topk:0.1", "topk:0.01", "randk:0.1", "qsgd:4", "qsgd:2", "sign")


def round_trip(compressor: Compressor, row: torch.Tensor) -> None:
    """What one agent does in an iteration for each message that it sends or receives."""
    origin = Origin(0, [3], 7)
    compressor.decode(compressor.encode(row, origin), row.shape[1], row.dtype, origin)


def main() -> None:
    torch.set_num_threads(1)
    p = int(sys.argv[1]) if len(sys.argv) > 1 else DIMENSION
    row = torch.randn(1, p, generator=torch.Generator().manual_seed(0))
    whole = 4 * p / LINK
    times = cpu_minima({text: lambda text=text: round_trip(parse(text), row) for text in TEXTS}, rounds=5)
    print(f"p = {p:,}, float32, one thread; the whole row takes {1e3 * whole:.1f} ms at 100 Mbit/s")
    print("compressor       bytes  of whole   CPU, ms  CPU / sending whole  all / whole")
    for text, seconds in times.items():
        size = parse(text).row_bytes(p, torch.float32)
        total = seconds + size / LINK
        print(
            f"{text:<12}{size:>10,}{size / (4 * p):>10.3f}{1e3 * seconds:>10.2f}{seconds / whole:>21.3f}"
            f"{total / whole:>13.3f}"
        )


if __name__ == "__main__":
    main()
