"""Norms of rows: compiled and in torch they are the same bits, and independent of rows and threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent._util.row_norms import row_norms
from peerdescent.kernels.row_norms import CompiledNorms
from peerdescent.transforms import normalized

DTYPES = [torch.float32, torch.float64]


def compiled(rows: torch.Tensor, threads: int = 1) -> torch.Tensor:
    out = torch.empty(len(rows), 1, dtype=rows.dtype)
    CompiledNorms(rows, out, threads)()
    return out[:, 0]


@given(
    n=st.integers(1, 7),
    p=st.integers(1, 300),
    exponent=st.integers(-30, 30),
    dtype=st.sampled_from(DTYPES),
    threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_compiled_norms_are_those_of_torch(
    n: int, p: int, exponent: int, dtype: torch.dtype, threads: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    rows = torch.from_numpy(random.standard_normal((n, p)) * 10.0**exponent).to(dtype)
    found = compiled(rows, threads)
    assert torch.equal(found, row_norms(rows).to(dtype))
    np.testing.assert_allclose(found.numpy(), np.linalg.norm(rows.double().numpy(), axis=1), rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_rows(dtype: torch.dtype) -> None:
    big, small = 0.5 * torch.finfo(dtype).max, torch.finfo(dtype).tiny
    finite = torch.tensor([[0.0, 0.0, 0.0], [big, 0.0, big], [-small, 0.0, 0.0]], dtype=dtype)
    found = compiled(finite)
    assert torch.equal(found, row_norms(finite).to(dtype))
    assert found.isfinite().all()
    assert found[0] == 0
    assert found[2] == finite[2].abs().max()
    torch.testing.assert_close(normalized(finite)[:2].norm(dim=1), torch.tensor([0.0, 1.0], dtype=dtype))
    assert compiled(torch.tensor([[1.0, torch.nan, 1.0], [1.0, torch.inf, 2.0]], dtype=dtype)).isnan().all()
