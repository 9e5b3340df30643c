"""Contract of ``tcu.segment_matmul``: the rows of each segment times its matrix, with the bits of ``tcu.matmul``, of
arrays and of tensors with gradients; and an error for what cannot be.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from bits import codes, same

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError

# PyTorch warns about itself: of torch.jit.script in forward mode, of what torch.compile imports.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

RNG = np.random.default_rng(8)
EDGES = [0, 3, 3, 10, 29, 30]
X, WEIGHTS = RNG.standard_normal((30, 400)), RNG.standard_normal((5, 400, 7))
HALF = X.astype(np.float16), WEIGHTS.astype(np.float16)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_each_segment_has_the_bits_of_its_product(dtype: Any) -> None:
    x, weights = (X * 9).astype(dtype), (WEIGHTS * 9).astype(dtype)
    for options in ({}, {"plan": "chain"}, {"dtype": "bfloat16", "unit": "A100"}):
        found = tcu.segment_matmul(x, weights, EDGES, **options)
        for i, (first, last) in enumerate(itertools.pairwise(EDGES)):
            same(found[first:last], tcu.matmul(x[first:last], weights[i], **options))
    same(tcu.segment_matmul(x[::-1], weights, np.array([0, 0, 0, 0, 0, 30])), tcu.matmul(x[::-1], weights[4]))


def test_out_and_nothing_at_all() -> None:
    out = np.empty((30, 7), np.float16)
    assert tcu.segment_matmul(*HALF, EDGES, out=out) is out
    same(out, tcu.segment_matmul(*HALF, EDGES, dtype="float16"))
    assert tcu.segment_matmul(HALF[0][:0], HALF[1][:0], [0]).shape == (0, 7)
    assert (tcu.segment_matmul(HALF[0][:, :0], HALF[1][:, :0], EDGES) == np.zeros((30, 7))).all()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: tcu.segment_matmul(X, WEIGHTS[0], EDGES), ShapeError, r"give x \(rows, K\) and weights \(segments, K, N\)"),
        (lambda: tcu.segment_matmul(X[:, 1:], WEIGHTS, EDGES), ShapeError, "x needs as many columns as a matrix of weights has rows"),
        (lambda: tcu.segment_matmul(X, WEIGHTS[1:], EDGES), ShapeError, "offsets name 5 segments, and weights has 4 matrices"),
        (lambda: tcu.segment_matmul(X, WEIGHTS, [0, 1, 2, 3, 4, 5]), ParameterError, "offsets end at 5, and x has 30 rows: the last offset is 30"),
        (lambda: tcu.segment_matmul(X, WEIGHTS, [0.0] * 6), DtypeError, "offsets"),
        (lambda: tcu.segment_matmul(X, WEIGHTS, EDGES, unit="V100"), DtypeError, "V100 does not compute binary64"),
        (lambda: tcu.segment_matmul(X, WEIGHTS, EDGES, out=np.empty((30, 6))), ParameterError, r"out has shape \(30, 6\)"),
        (lambda: tcu.segment_matmul(X, WEIGHTS, EDGES, out=np.empty((30, 7), np.float32), dtype="f64"), ParameterError, "out has dtype float32"),
        (lambda: tcu.segment_matmul(OnGpu(), WEIGHTS, EDGES), ParameterError, "make x one, with torch.from_dlpack"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


class OnGpu:
    """Looks like an array in a GPU's memory."""

    __cuda_array_interface__ = {"shape": (30, 400), "typestr": "<f8", "data": (0, True), "version": 3}  # noqa: RUF012


def test_dask_arrays_are_not_computed() -> None:
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    with pytest.raises(
        ParameterError, match="x is a Dask array, which this function would compute as a whole"
    ):
        tcu.segment_matmul(da.ones((30, 400)), WEIGHTS, EDGES)


# Tensors.


def reference(torch: Any, x: Any, weights: Any) -> Any:
    pieces = itertools.pairwise(EDGES)
    return torch.cat([x[first:last] @ weights[i] for i, (first, last) in enumerate(pieces)])


def tensors() -> tuple[Any, Any, Any, Any]:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x, weights = (torch.from_numpy(each.copy()).requires_grad_() for each in (X[:, :6], WEIGHTS[:, :6]))
    return torch, x, weights, torch.tensor(EDGES)


def test_tensors_and_their_gradients() -> None:
    torch, x, weights, edges = tensors()
    found, expected = tcu.segment_matmul(x, weights, edges), reference(torch, x, weights)
    assert np.array_equal(
        codes(found), codes(tcu.segment_matmul(x.detach().numpy(), weights.detach().numpy(), EDGES))
    )
    torch.testing.assert_close(found, expected)
    given = torch.from_numpy(RNG.standard_normal(found.shape))
    for ours, theirs in zip(
        *(torch.autograd.grad(y, [x, weights], given) for y in (found, expected)), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    small = x[:4, :2].detach().requires_grad_(), weights[:3, :2, :2].detach().requires_grad_()
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda x, w: tcu.segment_matmul(x, w, [0, 3, 3, 4]), small)


def test_operators_transforms_and_compilation() -> None:
    torch, x, weights, edges = tensors()
    plain = x.detach(), weights.detach()
    torch.library.opcheck(torch.ops.tcu.segment_matmul, (x, weights, edges))
    g = torch.from_numpy(RNG.standard_normal((30, 7)))
    torch.library.opcheck(torch.ops.tcu.segment_matmul_of_rows, (x, g, edges))
    batch = torch.stack([plain[0], 2 * plain[0]])
    found = torch.func.vmap(lambda x: tcu.segment_matmul(x, plain[1], edges))(batch)
    same(found[1], tcu.segment_matmul(batch[1], plain[1], edges))
    of_none = torch.func.vmap(lambda x, edges: tcu.segment_matmul(x, plain[1], edges))
    assert of_none(batch[:0], torch.empty((0, len(edges)), dtype=torch.int64)).shape == (0, *found[1].shape)
    tangents = (batch[1], plain[1] - 1)
    ours = torch.func.jvp(lambda x, w: tcu.segment_matmul(x, w, edges), plain, tangents)
    torch.testing.assert_close(ours, torch.func.jvp(lambda x, w: reference(torch, x, w), plain, tangents))
    compiled = torch.compile(
        lambda x, w: tcu.segment_matmul(x, w, edges).relu(), fullgraph=True, backend="aot_eager"
    )
    result = compiled(x, weights)
    same(result.detach(), tcu.segment_matmul(x, weights, edges).relu().detach())
    assert all(
        each.shape == of.shape
        for each, of in zip(torch.autograd.grad(result.sum(), [x, weights]), (x, weights), strict=True)
    )


def test_out_of_tensors_and_what_cannot_be() -> None:
    torch, x, weights, edges = tensors()
    half, out = [each.detach().half() for each in (x, weights)], torch.empty(30, 7, dtype=torch.bfloat16)
    assert tcu.segment_matmul(*half, edges, out=out) is out
    same(out[3:10], tcu.matmul(half[0][3:10], half[1][2], dtype=torch.bfloat16))
    with pytest.raises(ParameterError, match="weights is a ndarray beside tensors"):
        tcu.segment_matmul(x, WEIGHTS, edges)
    with pytest.raises(ParameterError, match="x is on cpu, weights on meta"):
        tcu.segment_matmul(x, weights.to("meta"), edges)
    with pytest.raises(ShapeError, match="offsets name 4 segments"):
        tcu.segment_matmul(x, weights, edges[[0, 2, 3, 4, 5]])
    with pytest.raises(ShapeError, match="give matrices with a row for each"):
        torch.ops.tcu.segment_matmul_of_rows(x, weights, edges)
