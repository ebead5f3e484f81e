"""The update against the memory limit (three copies of an n×p float32 array) and against the eager expression.

python benchmarks/update.py
"""

from __future__ import annotations

import torch
from measure import medians

from peerdescent.algorithms import PRESETS, Algorithm, make
from peerdescent.algorithms.state import initial_state
from peerdescent.graphs import authors10
from peerdescent.kernels.update import Update, make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights

AGENTS = 10


def updates(algorithm: Algorithm, p: int) -> tuple[Update, Update]:
    network = make_network(
        MixingWeights.build(authors10(), "metropolis", "metropolis", algorithm), torch.float32, torch.device("cpu")
    )
    x, g = torch.randn(AGENTS, p), 0.01 * torch.randn(AGENTS, p)
    compiled, plain = (
        make_update(algorithm, initial_state(algorithm, x), network, kernel) for kernel in ("auto", "plain")
    )
    compiled.gradient.copy_(g)
    plain.gradient.copy_(g)
    return compiled, plain


def one(update: Update) -> None:
    update.begin(0)
    update.finish(0)


def row(name: str, algorithm: Algorithm, p: int) -> None:
    compiled, plain = updates(algorithm, p)
    source, target = ([torch.randn(AGENTS, p) for _ in range(3)] for _ in range(2))

    def copies() -> None:
        for a, b in zip(target, source, strict=True):
            a.copy_(b)

    t = medians({"copies": copies, "update": lambda: one(compiled), "eager": lambda: one(plain)})
    print(
        f"{name:<18}{p:>9,}{1e6 * t['copies']:>13.0f}{t['update'] / t['copies']:>17.2f}"
        f"{t['eager'] / t['update']:>16.1f}   {compiled.description}"
    )


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("n = 10, one thread, float32; update/copies: target ≤ 1.7")
    print(f"{'method':<18}{'p':>9}{'3 copies, µs':>13}{'update / copies':>17}{'eager / update':>16}   kernel")
    for p in (20_560, 326_880):
        for gamma in (1.0, 0.5, 0.7):
            row(f"dsgpa γ={gamma:g}", make("dsgpa-f-pb", gamma=gamma, eta=1e-6), p)
    for name in PRESETS:
        if not name.startswith("dsgpa"):
            rates = dict.fromkeys(PRESETS[name].kind.rates, 1e-6)
            row(name, make(name, **rates), 20_560)


if __name__ == "__main__":
    main()
