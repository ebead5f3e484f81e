"""Partitions of a data set into one shard per agent."""

from __future__ import annotations

import difflib
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerdescent._util.memory import check_fits
from peerdescent._util.validation import check_integer, described
from peerdescent.data.groups import BY, Groups, by_group
from peerdescent.data.randomness import stream
from peerdescent.errors import InputError

Indices = NDArray[np.int64]


def partition(
    labels: ArrayLike,
    agents: int,
    how: str = "iid",
    seed: int = 0,
    sizes: str = "even",
    groups: Groups | None = None,
) -> list[Indices]:
    """Assign each of the samples 0, …, N−1 to one agent, and at least one sample to each agent.

    `how` decides which samples a shard contains:

    - `iid`: a uniform shuffle, cut into shards; all shards have the same distribution.
    - `label`: sorted by label (shuffled within a label) and cut into shards; with 10 agents and balanced digits
      every agent has one digit.
    - `dirichlet:A`: class c, with N_c samples, is cut in proportions p_c ~ Dirichlet(A, …, A) over the
      agents, at the rounded points N_c·(p_c1 + … + p_ci). Small A concentrates each class on few agents,
      large A spreads it evenly. While a shard is empty, the last sample of the largest shard (the first of them)
      moves to the first empty one.
    - `by:KEY`: whole groups, such as all samples of one speaker under `by:speaker`: the largest group first, each to
      the agent that has fewest samples yet. With as many groups as agents, every agent has one.

    `sizes` decides how many samples a shard has under `iid` and `label`; under `dirichlet:A` the draw decides, and
    under `by:KEY` the groups do:

    - `even`: equal up to one sample; the first shards are the larger ones.
    - `uneven`: drawn uniformly from all ways to write N as an ordered sum of positive sizes (distinct
      uniform cut points), so a size has mean N/agents and about the spread of an exponential variable.

    Args:
        labels: the integer label of every sample, or only the number of samples (`iid` only).
        agents: the number of shards.
        how: `iid`, `label`, `dirichlet:A` with a number A > 0, or `by:KEY` with a key of `groups`.
        seed: the seed; the shards are a pure function of it and the other arguments.
        sizes: `even` or `uneven`.
        groups: for `by:KEY`, the group of every sample as a number or a text, by key.

    Returns:
        One array of sample indices for each agent, class by class under `label` and `dirichlet:A`, otherwise shuffled.

    >>> [shard.tolist() for shard in partition([2, 0, 1, 0, 2, 1], agents=3, how="label", seed=2)]
    [[1, 3], [5, 2], [4, 0]]
    >>> [len(shard) for shard in partition(5000, agents=3)]
    [1667, 1667, 1666]
    """
    kind, concentration = _parse(how)
    known = _labels(labels, kind)
    total = check_integer("the number of samples", labels, 1) if known is None else len(known)
    check_fits(f"a partition of {total:,} samples", 8 * total)
    agents = check_integer("agents", agents, 1)
    if agents > total:
        raise InputError(
            f"agents is {agents}, expected at most {total}, the number of samples, because no shard may be empty."
        )
    if not isinstance(sizes, str) or sizes not in ("even", "uneven"):
        raise InputError(f"sizes is {described(sizes)}, expected 'even' or 'uneven'.")

    if kind == BY:
        return by_group(groups or {}, how.removeprefix(BY), total, agents, seed)
    order = stream(seed, "partition").permutation(total)
    if known is not None and kind != "iid":
        order = order[np.argsort(known[order], kind="stable")]
    if known is not None and kind == "dirichlet":
        return _dirichlet(order, known[order], agents, concentration, seed)
    return _split(order, _cuts(total, agents, sizes, seed))


def _parse(how: str) -> tuple[str, float]:
    """Split `how` into its kind and, for Dirichlet, its concentration A."""
    if isinstance(how, str) and how in ("iid", "label"):
        return how, math.nan
    if isinstance(how, str) and how.startswith(BY) and how != BY:
        return BY, math.nan
    kind, colon, number = how.partition(":") if isinstance(how, str) else ("", "", "")
    if kind != "dirichlet":
        near = difflib.get_close_matches(kind.lower(), ["iid", "label", "dirichlet"], n=1)
        hint = {"dirichlet": "dirichlet:A"}.get(near[0], near[0]) if near else ""
        suggestion = f"; did you mean '{hint}'?" if hint else "."
        raise InputError(
            f"partition = {described(how)}: expected 'iid', 'label', 'dirichlet:A' with a number A > 0, or 'by:KEY', "
            f"such as 'by:speaker'{suggestion}"
        )
    try:
        concentration = float(number)
    except ValueError:
        concentration = math.nan
    if not (colon and 0 < concentration < math.inf):
        raise InputError(
            f"partition = {described(how)}: expected 'dirichlet:A' with a finite number A > 0, such as 'dirichlet:0.5'."
        )
    return kind, concentration


def _labels(labels: ArrayLike, kind: str) -> NDArray[np.integer] | None:
    """Check the labels; return None if only the number of samples is given."""
    array = np.asarray(labels)
    if array.ndim == 0:
        if kind not in ("iid", BY):
            raise InputError(f"partition = {kind!r} needs labels, and there are none: use 'iid'.")
        return None
    if array.ndim != 1 or len(array) == 0 or not np.issubdtype(array.dtype, np.integer):
        raise InputError(
            f"labels has shape {array.shape} and type {array.dtype}, "
            "expected a one-dimensional array of at least one integer."
        )
    return array


def _cuts(total: int, agents: int, sizes: str, seed: int) -> Indices:
    """Return the agents − 1 points at which 0, …, total is cut into nonempty shards."""
    if sizes == "even":
        size, larger = divmod(total, agents)
        first = np.arange(1, agents)
        return first * size + np.minimum(first, larger)
    drawn = stream(seed, "partition sizes").choice(total - 1, size=agents - 1, replace=False)
    return np.sort(drawn + 1)


def _split(order: Indices, cuts: Indices) -> list[Indices]:
    """Cut `order` into shards that do not share memory."""
    return [piece.copy() for piece in np.split(order, cuts)]


def _dirichlet(
    order: Indices, ordered_labels: NDArray[np.integer], agents: int, concentration: float, seed: int
) -> list[Indices]:
    """Cut each class of the label-sorted `order` in separate Dirichlet proportions."""
    draw = stream(seed, "partition dirichlet")
    pieces: list[list[Indices]] = [[] for _ in range(agents)]
    for members in np.split(order, np.flatnonzero(np.diff(ordered_labels)) + 1):
        cuts = np.rint(len(members) * np.cumsum(_proportions(draw, agents, concentration))[:-1])
        for shard, piece in zip(pieces, _split(members, cuts.astype(np.int64)), strict=True):
            shard.append(piece)
    return _fill_empty([np.concatenate(shard) for shard in pieces])


def _proportions(draw: np.random.Generator, agents: int, concentration: float) -> NDArray[np.float64]:
    """Draw from Dirichlet(A, …, A); above A = 1e12 return the limit, equal shares, which agrees to 6 digits."""
    if concentration > 1e12:  # larger values overflow in the sampler
        return np.full(agents, 1 / agents)
    return draw.dirichlet(np.full(agents, max(concentration, 1e-12)))  # smaller values underflow; one agent takes all


def _fill_empty(shards: list[Indices]) -> list[Indices]:
    """While a shard is empty, move the last sample of the largest shard into it."""
    for i, shard in enumerate(shards):
        if len(shard) == 0:
            largest = max(range(len(shards)), key=lambda j: len(shards[j]))
            shards[i] = shards[largest][-1:].copy()
            shards[largest] = shards[largest][:-1].copy()
    return shards
