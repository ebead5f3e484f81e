"""Who hears whom: L·a, W·a and the mean for the agents of this process, all of them or a block."""

from __future__ import annotations

import ctypes
import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from peerdescent.algorithms import Algorithm
from peerdescent.engine.exchange import Exchange
from peerdescent.engine.group import Group
from peerdescent.engine.placement import Placement, Plan, everyone_plan, neighbour_plan
from peerdescent.errors import InputError
from peerdescent.graphs import Graph, Spectrum, spectrum

DENSE_UP_TO = 64
"""Agents up to which the eager product uses a dense matrix."""


MATCHED = "matched"
"""The Laplacian (I−W)/(αη), with which ηαL = I−W."""


class MatrixStruct(ctypes.Structure):
    """A sparse matrix as the compiled kernels read it."""

    _fields_ = (("start", ctypes.c_void_p), ("column", ctypes.c_void_p), ("value", ctypes.c_void_p))


class Matrix:
    """A matrix with zero row sums, L or I−W, ready for tensors of one dtype and device, and for compiled kernels.

    Its product is taken over differences of rows, Σ_j m_ij (a_j − a_i): rounding is then relative to the
    disagreement, not to a itself, and equal rows give exactly zero. With a plan it is the part for the agents
    hosted here, on the rows that the plan holds; sums are taken in the same order as over all agents.
    """

    def __init__(
        self, csr: scipy.sparse.csr_array, dtype: torch.dtype, device: torch.device, plan: Plan | None = None
    ) -> None:
        others = scipy.sparse.csr_array(scipy.sparse.diags_array(csr.diagonal()) - csr)
        others.eliminate_zeros()
        others.sort_indices()
        columns: NDArray[Any] = others.indices
        if plan is not None:
            own = slice(plan.own.start, plan.own.stop)
            csr, others = csr[own][:, list(plan.rows)], others[own]
            columns = np.searchsorted(plan.rows, others.indices) - plan.first  # counted from the first own row
        self._operator = _operator(csr, dtype, device)
        real = np.float64 if dtype == torch.float64 else np.float32
        self._parts = (others.indptr.astype(np.int32), columns.astype(np.int32), others.data.astype(real))
        self.struct = MatrixStruct(*(part.ctypes.data for part in self._parts))

    def __matmul__(self, a: torch.Tensor) -> torch.Tensor:
        return self._operator @ (a - a[:1])


class Everyone:
    """All agents' rows, as compiled kernels read them for the mean: numbered from the first own one."""

    def __init__(self, agents: int, first: int = 0) -> None:
        self._parts = np.array([0, agents], dtype=np.int32), np.arange(agents, dtype=np.int32) - np.int32(first)
        self.struct = MatrixStruct(*(part.ctypes.data for part in self._parts), None)


def _operator(csr: scipy.sparse.csr_array, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if csr.shape[1] <= DENSE_UP_TO:
        return torch.tensor(csr.toarray(), dtype=dtype, device=device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # torch calls its sparse matrices a beta
        csr = scipy.sparse.csr_array(csr)
        start, column = torch.from_numpy(csr.indptr), torch.from_numpy(csr.indices)
        value = torch.from_numpy(csr.data).to(dtype)
        return torch.sparse_csr_tensor(start, column, value, csr.shape, device=device)


@dataclass
class MemoryNetwork:
    """All agents in one process: a message is a row of the same matrix."""

    laplacian_matrix: Matrix
    disagreement_matrix: Matrix
    everyone: Everyone
    rounded: bool = False
    """Messages travel in half the bits; an agent compares what it hears with what it says, so sums stay zero."""
    silent: bool = False
    """No message travels: L = 0 and W = I."""

    def silenced(self) -> MemoryNetwork:
        """The same agents, each by itself."""
        return replace(self, silent=True)

    def begin(self) -> None:
        """A new iteration begins."""

    def laplacian(self, a: torch.Tensor) -> torch.Tensor:
        """L·a."""
        return torch.zeros_like(a) if self.silent else self.laplacian_matrix @ self._heard(a)

    def disagreement(self, a: torch.Tensor) -> torch.Tensor:
        """(I−W)·a."""
        return torch.zeros_like(a) if self.silent else self.disagreement_matrix @ self._heard(a)

    def mix(self, a: torch.Tensor) -> torch.Tensor:
        """W·a."""
        return a - self.disagreement(a)

    def mean(self, a: torch.Tensor) -> torch.Tensor:
        """The mean of all rows, in every row."""
        return self._all(a).mean(dim=0, keepdim=True).expand_as(a)

    def _heard(self, a: torch.Tensor) -> torch.Tensor:
        """The rows that the matrices are for, as they travel."""
        return a.to(torch.bfloat16).to(a.dtype) if self.rounded else a

    def _all(self, a: torch.Tensor) -> torch.Tensor:
        """The rows of all agents."""
        return a


@dataclass
class BlockNetwork(MemoryNetwork):
    """The agents of one process among several: rows of others come by exchange.

    Given a group and the plans, it makes the exchanges that compiled updates drive themselves; asked for L·a, W·a
    or the mean of a tensor, it exchanges at once and waits.
    """

    group: Group = field(kw_only=True)
    neighbours: Plan = field(kw_only=True)
    others: Plan = field(kw_only=True)
    """The plan for the mean: everyone hears everyone."""

    def __post_init__(self) -> None:
        self._exchanges: list[Exchange] = []
        self._done: dict[tuple[int, bool], tuple[torch.Tensor, torch.Tensor]] = {}

    def exchange(self, like: torch.Tensor, everyone: bool) -> Exchange:
        """A new exchange for rows like these, with all agents or with neighbours."""
        plan = self.others if everyone else self.neighbours
        wire = torch.bfloat16 if self.rounded and not everyone else None
        tag = self.group.tag()
        make = partial(Exchange, plan, like.shape[1], like.dtype, tag, wire, self.group.traffic)
        if shelf := self.group.shelf(tag):
            shared: Exchange | None = None
            with suppress(OSError):  # not enough memory for it, which all must know
                shared = make(shelf)
            if self.group.all(shared is not None) and shared is not None:
                return shared
        return make()

    def begin(self) -> None:
        """A new iteration begins: its messages are the same as those of the one before, with new rows."""
        self._done.clear()

    def _heard(self, a: torch.Tensor) -> torch.Tensor:
        return self._exchanged(super()._heard(a), a, False)

    def _all(self, a: torch.Tensor) -> torch.Tensor:
        return self._exchanged(a, a, True)

    def _exchanged(self, sent: torch.Tensor, a: torch.Tensor, everyone: bool) -> torch.Tensor:
        """The rows of a and of those heard; what was sent once in an iteration is not sent again."""
        if (id(a), everyone) not in self._done:
            if len(self._exchanges) == len(self._done):
                self._exchanges.append(self.exchange(a, everyone))
            exchange = self._exchanges[len(self._done)]
            exchange.own.copy_(sent)
            exchange.start()
            exchange.wait()
            self._done[id(a), everyone] = a, exchange.rows  # a is kept alive, so that its id stays its own
        return self._done[id(a), everyone][1]


@dataclass(frozen=True)
class Wiring:
    """A graph with the L and W that a run uses, and their spectrum."""

    graph: Graph
    laplacian: scipy.sparse.csr_array
    mixing: scipy.sparse.csr_array
    spectrum: Spectrum
    notes: tuple[str, ...] = ()
    """What had to be changed for the method to work, in sentences."""

    @classmethod
    def build(cls, graph: Graph, laplacian: str, mixing: str, algorithm: Algorithm) -> Wiring:
        """L and W of the kinds asked for, L = (I−W)/(αη) for "matched"; (I+W)/2 where the method needs it."""
        W = graph.mixing(mixing)
        L = _matched(W, algorithm) if laplacian == MATCHED else graph.laplacian(laplacian)
        spectral = spectrum(L, W)
        if algorithm.mixing(spectral.lambda_min) == "as-is":
            return cls(graph, L, W, spectral)
        note = (
            f"λmin(W) = {spectral.lambda_min:.3f} is too low for {type(algorithm).__name__}: "
            "it mixes with (I+W)/2 instead of W."
        )
        lazy = scipy.sparse.csr_array((scipy.sparse.eye_array(graph.n) + W) / 2)
        lazy.sort_indices()
        return cls(graph, L, lazy, spectrum(L, lazy), (note,))

    def network(
        self,
        dtype: torch.dtype,
        device: torch.device,
        wire: str = "full",
        group: Group | None = None,
        placement: Placement | None = None,
    ) -> MemoryNetwork:
        """The exchange for tensors of this dtype and device: of all agents, or of this process's part of them."""
        L, n = self.laplacian, self.graph.n
        disagreement = scipy.sparse.csr_array(scipy.sparse.eye_array(n) - self.mixing)
        rounded = wire == "bf16"
        if group is None or group.size == 1:
            matrices = Matrix(L, dtype, device), Matrix(disagreement, dtype, device)
            return MemoryNetwork(*matrices, Everyone(n), rounded)
        placement = placement or Placement(n, group.size)
        plan = neighbour_plan(placement, group.rank, self.graph.edges)
        return BlockNetwork(
            Matrix(L, dtype, device, plan),
            Matrix(disagreement, dtype, device, plan),
            Everyone(n, plan.own.start),
            rounded,
            group=group,
            neighbours=plan,
            others=everyone_plan(placement, group.rank),
        )


def _matched(W: scipy.sparse.csr_array, algorithm: Algorithm) -> scipy.sparse.csr_array:
    """(I−W)/(αη), with αη as at the start; I−W for methods that have no such product."""
    h = algorithm.hyperparameters(0)
    step = h["alpha"] * h["eta"] if "alpha" in h and "eta" in h else 1.0
    if step == 0:
        raise InputError("laplacian = 'matched' divides by αη, which is 0: set alpha and eta above 0, or another kind.")
    return scipy.sparse.csr_array((scipy.sparse.eye_array(W.shape[0]) - W) / step)
