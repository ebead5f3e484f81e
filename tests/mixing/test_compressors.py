"""Compressors: literal NumPy transcriptions, the contraction that each one states, fixed sizes, independent rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from peerdescent.data.randomness import stream
from peerdescent.errors import InputError
from peerdescent.mixing.compressor import Compressor, Origin
from peerdescent.mixing.compressors import parse
from peerdescent.mixing.quantizers import BUCKET, QSGD

TEXTS = ("topk:0.1", "topk:0.01", "randk:0.1", "qsgd:2", "qsgd:4", "qsgd:8", "sign", "bf16", "none")
DTYPES = (torch.float32, torch.float64)
Array = NDArray[np.float64]


def applied(compressor: Compressor, rows: torch.Tensor, origin: Origin) -> torch.Tensor:
    """Q, through the bytes."""
    encoded = compressor.encode(rows, origin)
    p, dtype = rows.shape[1], rows.dtype
    assert encoded.dtype == torch.uint8
    assert encoded.shape == (len(rows), compressor.row_bytes(p, dtype))
    return compressor.decode(encoded, p, dtype, origin)


def top_k(a: Array, k: int) -> Array:
    """The k largest magnitudes; of equal ones, the first."""
    order = sorted(range(len(a)), key=lambda i: (-abs(a[i]), i))
    return np.array([a[i] if i in order[:k] else 0.0 for i in range(len(a))])


def quantized(a: Array, s: int, u: Array) -> Array:
    """QSGD entry by entry, with the maximum of each bucket, unscaled."""
    result = np.zeros_like(a)
    for start in range(0, len(a), BUCKET):
        M = max(abs(a[start : start + BUCKET]))
        for i in range(start, min(start + BUCKET, len(a))):
            level = math.floor(s * abs(a[i]) / M + u[i]) if M > 0 else 0
            result[i] = np.sign(a[i]) * level * M / s
    return result


@pytest.fixture
def rows() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(5).standard_normal((3, 300)))


def test_top_k_is_its_definition(rows: torch.Tensor) -> None:
    rows[0].round_()  # many ties
    for share, k in ((0.1, 30), (0.02, 6), (0.001, 1), (1.0, 300)):
        got = applied(parse(f"topk:{share}"), rows, Origin(0, [0, 1, 2], 0))
        for row, expected in zip(got.numpy(), rows.numpy(), strict=True):
            assert np.array_equal(row, top_k(expected, k))


def test_rand_k_sends_the_entries_that_the_receiver_draws(rows: torch.Tensor) -> None:
    got = applied(parse("randk:0.1"), rows, Origin(7, [4, 9, 0], 11, 1)).numpy()
    for row, a, agent in zip(got, rows.numpy(), (4, 9, 0), strict=True):
        drawn = stream(7, "compression 1", agent, 11).choice(300, 30, replace=False, shuffle=False)
        expected = np.zeros(300)
        expected[drawn] = a[drawn]
        assert np.array_equal(row, expected)


@pytest.mark.parametrize("bits", range(2, 9))
def test_qsgd_is_its_definition(rows: torch.Tensor, bits: int) -> None:
    rows[1, BUCKET : 2 * BUCKET] = 0
    quantizer = QSGD(bits)
    got = applied(quantizer, rows, Origin(3, [0, 1, 2], 6)).numpy()
    for agent, (row, a) in enumerate(zip(got, rows.numpy(), strict=True)):
        u = stream(3, "compression 0", agent, 6).random(300, dtype=np.float32).astype(float)
        tau = 1 if bits > 3 else 1 / (1 + quantizer.omega(300))
        assert np.allclose(row, tau * quantized(a, 2 ** (bits - 1) - 1, u), rtol=1e-14, atol=0)


def test_sign_is_its_definition(rows: torch.Tensor) -> None:
    rows[0, :5] = 0
    for row, a in zip(applied(parse("sign"), rows, Origin(0, [0, 1, 2], 0)).numpy(), rows.numpy(), strict=True):
        assert np.allclose(row, np.abs(a).sum() / 300 * np.where(a < 0, -1, 1), rtol=1e-14)


def test_bf16_is_torchs_rounding(rows: torch.Tensor) -> None:
    assert torch.equal(applied(parse("bf16"), rows, Origin(0, [0, 1, 2], 0)), rows.bfloat16().double())


vectors = st.integers(1, 40).flatmap(
    lambda p: arrays(np.float64, p, elements=st.integers(-(10**9), 10**9).map(lambda a: a / 1000))
)


@given(vectors, st.sampled_from(("topk:0.1", "topk:0.01", "topk:1", "sign", "bf16", "none")))
@settings(max_examples=40, deadline=None)
def test_the_contraction_holds_for_every_vector(a: Array, text: str) -> None:
    compressor = parse(text)
    rows = torch.from_numpy(a)[None]
    error = (applied(compressor, rows, Origin(0, [0], 0)) - rows).square().sum()
    assert float(error) <= (1 - compressor.delta(len(a)) + 1e-12) * float(rows.square().sum())


@given(vectors, st.sampled_from(("randk:0.1", "qsgd:2", "qsgd:3", "qsgd:4", "qsgd:8")))
@settings(max_examples=15, deadline=None)
def test_the_contraction_holds_on_average(a: Array, text: str) -> None:
    compressor, draws, square = parse(text), 100, float(np.square(a).sum())
    rows = torch.from_numpy(a).expand(draws, -1).contiguous()
    errors = (applied(compressor, rows, Origin(1, range(draws), 0)) - rows).square().sum(dim=1)
    spread = float(errors.std()) / math.sqrt(draws)
    assert float(errors.mean()) <= (1 - compressor.delta(len(a)) + 1e-9) * square + 6 * spread


@pytest.mark.parametrize("bits", [3, 4, 5])
def test_omega_is_attained_and_never_exceeded(bits: int) -> None:
    """The largest E‖Q(a) − a‖²/‖a‖² over buckets of one M and equal other entries, by a grid."""
    quantizer = QSGD(bits)
    s, u = quantizer.levels, np.linspace(0, 1, 200_001)
    f = s * u % 1
    ratio = (BUCKET - 1) * f * (1 - f) / s**2 / (1 + (BUCKET - 1) * u**2)
    assert quantizer.omega(1000) == pytest.approx(ratio.max(), rel=1e-6)


@pytest.mark.parametrize("text", ["topk:0.1", "topk:0.01", "randk:0.05", "qsgd:4", "qsgd:2"])
def test_a_normal_vector_is_compressed_as_expected(text: str) -> None:
    compressor, p = parse(text), 2000
    rows = torch.from_numpy(np.random.default_rng(0).standard_normal((20, p)))
    error = (applied(compressor, rows, Origin(0, range(20), 0)) - rows).square().sum() / rows.square().sum()
    assert 1 - compressor.typical_delta(p) == pytest.approx(float(error), rel=0.25)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("p", [1, 7, 129, 400])
def test_a_row_has_the_same_bytes_alone_and_among_others(text: str, dtype: torch.dtype, p: int) -> None:
    compressor = parse(text)
    rows = torch.from_numpy(np.random.default_rng(p).standard_normal((5, p)).round(1)).to(dtype)
    encoded = compressor.encode(rows, Origin(2, range(5), 8, 1))
    for agent in range(5):
        alone = compressor.encode(rows[agent : agent + 1], Origin(2, [agent], 8, 1))
        assert torch.equal(alone[0], encoded[agent])
        decoded = compressor.decode(alone, p, dtype, Origin(2, [agent], 8, 1))
        assert torch.equal(decoded[0], compressor.decode(encoded, p, dtype, Origin(2, range(5), 8, 1))[agent])


@pytest.mark.parametrize("text", ["randk:0.1", "qsgd:4"])
def test_every_agent_iteration_and_message_has_its_own_random_numbers(text: str) -> None:
    compressor, row = parse(text), torch.linspace(-1, 1, 400)[None]
    origins = [Origin(0, [0], 0), Origin(1, [0], 0), Origin(0, [1], 0), Origin(0, [0], 1), Origin(0, [0], 0, 1)]
    assert len({tuple(applied(compressor, row, origin)[0].tolist()) for origin in origins}) == 5


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_noticed(text: str, bad: float) -> None:
    rows = torch.ones(2, 50)
    rows[1] = bad if text.startswith("randk") else rows[1]  # it may not send a single entry
    rows[1, 33] = bad
    got = applied(parse(text), rows, Origin(0, [0, 1], 0))
    assert got[0].isfinite().all()
    assert not got[1].isfinite().all()


@pytest.mark.parametrize("text", TEXTS)
def test_zero_stays_zero(text: str) -> None:
    assert not applied(parse(text), torch.zeros(2, 200), Origin(0, [0, 1], 0)).any()


@pytest.mark.parametrize("k", [1, 10, 20])
def test_a_sparse_vector_is_sent_exactly(k: int) -> None:
    rows = torch.zeros(4, 200)
    for row in rows:
        row[torch.randperm(200)[:k]] = torch.randn(k)
    assert torch.equal(applied(parse("topk:0.1"), rows, Origin(0, range(4), 0)), rows)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("none", 4_000), ("bf16", 2_000), ("topk:0.1", 100 * 4 + 125), ("topk:0.01", 10 * 4 + 10 * 4),
        ("randk:0.1", 400), ("sign", 4 + 125), ("qsgd:4", 8 * 4 + 500), ("qsgd:3", 8 * 4 + 375),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse(text).row_bytes(1_000, torch.float32) == size


@pytest.mark.parametrize("text", TEXTS)
def test_texts_can_be_read_back(text: str) -> None:
    assert parse(parse(text).text) == parse(text)


@pytest.mark.parametrize(
    "text",
    ["", "topk", "topk:", "topk:0", "topk:1.5", "topk:nan", "topk:x", "randk:-1", "qsgd", "qsgd:1", "qsgd:9",
     "qsgd:4.5", "sign:1", "bf16:", "gzip", None, 5, ["sign"]],
)  # fmt: skip
def test_other_texts_are_refused(text: object) -> None:
    with pytest.raises(InputError, match=r"^compress = .*: expected .*\.$"):
        parse(text)
