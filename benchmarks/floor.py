"""The floor of the exact variant against the step size, beside the exponents of docs/convergence.md.

python benchmarks/floor.py [--out docs/images/floor.png]      # half a minute; prints the fitted exponents as a table

Ten agents on the authors' graph have quadratic costs with curvatures between 1/2 and 1. On the left α and β are fixed
and the root mean square of the entries of w = βv + g is shown; on the right α = 1/(2ηρ), β² = αℓ, and the distance of
the agents from the optimum. All step sizes of one γ run together; the last tenth of the run is measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from peerdescent import graphs
from peerdescent.report.drawing import finalize_layout, new_figure, save_as

GAMMAS = (0.3, 0.5, 0.7)
STEPS = np.geomspace(0.002, 0.02, 6)
ITERATIONS = 60_000
MU, ELL, WIDTH = 0.5, 1.0, 4
ALPHA, BETA = 2.0, 2.0**0.5
COLOURS = ("#0072b2", "#d55e00", "#009e73")


def floors(gamma: float, matched: bool) -> tuple[np.ndarray, np.ndarray]:
    """For every step size the root mean square of w, and of the distance from the optimum, in the end."""
    L = graphs.authors10().laplacian().toarray()
    n, rho = len(L), float(np.linalg.eigvalsh(L)[-1])
    random = np.random.default_rng(0)
    h = random.uniform(MU, ELL, (n, WIDTH))
    c = random.standard_normal((n, WIDTH))
    optimum = (h * c).sum(axis=0) / h.sum(axis=0)
    eta = STEPS[:, None, None]
    alpha = 1 / (2 * eta * rho) if matched else ALPHA
    beta = np.sqrt(alpha * ELL) if matched else BETA
    x, v = np.zeros((len(STEPS), n, WIDTH)), np.zeros((len(STEPS), n, WIDTH))
    sums = np.zeros((2, len(STEPS)))
    first = ITERATIONS - ITERATIONS // 10
    for k in range(ITERATIONS):
        y = L @ x
        v = v + eta * beta * y
        w = beta * v + h * (x - c)
        x = x - eta * (alpha * y + np.sign(w) * np.abs(w) ** gamma)
        if k >= first:
            sums += (w**2).mean(axis=(1, 2)), ((x - optimum) ** 2).sum(axis=2).mean(axis=1)
    residual, distance = np.sqrt(sums / (ITERATIONS - first))
    return residual, distance


def measure() -> dict[str, dict[str, object]]:
    """Both quantities and their fitted exponents for every γ."""
    found = {}
    for gamma in GAMMAS:
        residual, distance = floors(gamma, matched=False)[0], floors(gamma, matched=True)[1]
        fits = [float(np.polyfit(np.log(STEPS), np.log(values), 1)[0]) for values in (residual, distance)]
        found[f"{gamma:g}"] = {
            "predicted": 1 / (1 - gamma),
            "exponent of w": fits[0],
            "exponent of the distance": fits[1],
            "w": residual.tolist(),
            "distance": distance.tolist(),
        }
    return found


def draw(found: dict[str, dict[str, object]], out: Path) -> None:
    figure = new_figure(9.2, 4.4)
    axes = figure.subplots(1, 2)
    titles = {
        "w": "entries of w = βv + g, α and β fixed",
        "distance": "distance from the optimum, α = 1/(2ηρ), β² = αℓ",
    }
    for place, (key, title) in zip(axes, titles.items(), strict=True):
        for colour, (gamma, values) in zip(COLOURS, found.items(), strict=True):
            measured = np.array(values[key])
            predicted = float(values["predicted"])  # type: ignore[arg-type]
            line = np.exp(np.log(measured).mean()) * (STEPS / np.exp(np.log(STEPS).mean())) ** predicted
            place.loglog(STEPS, measured, "o", color=colour, label=f"γ = {gamma}")
            place.loglog(STEPS, line, "--", color=colour, lw=1, label=f"exponent 1/(1−γ) = {predicted:.2f}")
        place.set_title(title, fontsize=10)
        place.set_xlabel("step size η")
        place.set_xticks([0.002, 0.005, 0.01, 0.02], ["0.002", "0.005", "0.01", "0.02"])
        place.set_xticks([], minor=True)
        place.grid(color="#e6e6e6")
        place.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("root mean square in the end")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    finalize_layout(figure)
    save_as(figure, out)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("docs/images/floor.png"))
    options = parser.parse_args()
    found = measure()
    draw(found, options.out)
    print("| γ | predicted 1/(1−γ) | exponent of w | exponent of the distance |\n|---|---|---|---|")
    for gamma, values in found.items():
        numbers = (f"{values[key]:.2f}" for key in ("predicted", "exponent of w", "exponent of the distance"))
        print(f"| {gamma} | {' | '.join(numbers)} |")


if __name__ == "__main__":
    main()
