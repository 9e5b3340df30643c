"""Contract of ``dot``, ``norm``, ``fdot`` and ``fnorm`` along axes and of segments.

Each result has the bits of its row or segment alone, whatever is in the array
beside it: numbers of every size, inf, NaN; short rows, which go many at a time,
and long ones.  Rows with inf and -inf, and no NaN, raise where whole arrays do,
and say which they are.  A root is given only where it is proved: next to halfway
points it is left to exact integers.  Options are those of sums along axes.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import same
from numbers_of_all_kinds import KINDS, draw
from test_exact_products import check_norm

import tcu
from tcu.engines.host import exact, planned, terms
from tcu.errors import InvalidOperationError, ParameterError, ShapeError
from tcu.formats import get_format

# PyTorch warns about itself: of torch.jit.script in forward mode, of what torch.compile imports.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
FUNCTIONS = ("dot", "norm", "fdot", "fnorm")


def alone(name: str, *rows: Any, **given: Any) -> Any:
    with np.errstate(all="ignore"):
        return getattr(tcu, name)(*rows, **given)


def operands(name: str, x: Any, y: Any) -> tuple[Any, ...]:
    return (x, y) if "dot" in name else (x,)


@every_dtype
@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_their_own_bits(dtype: Any, kind: str) -> None:
    rng = np.random.default_rng(3)
    for length in (0, 1, 2, 7, 33, 200):
        rows = [tuple(draw(rng, length, dtype, kind) for _ in "xy") for _ in range(9)]
        x, y = (np.stack(each).reshape(9, length) for each in zip(*rows, strict=True))
        for name in FUNCTIONS:
            found, kept = [], []
            for i, row in enumerate(rows):
                try:
                    found.append(alone(name, *operands(name, *row)))
                    kept.append(i)
                except InvalidOperationError:
                    pass
            arrays = operands(name, x[kept], y[kept])
            same(np.asarray(alone(name, *arrays, axis=1)), np.array(found), name, kind, length)
            transposed = [np.asfortranarray(each).T for each in arrays]
            same(np.asarray(alone(name, *transposed, axis=0)), np.array(found), name, kind, length)
            if len(kept) < 9:
                with pytest.raises(InvalidOperationError, match=r"row \(\d,\) holds inf and -inf"):
                    alone(name, *operands(name, x, y), axis=1)


@pytest.mark.parametrize(
    "target", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64], ids=lambda t: np.dtype(t).name
)
def test_roots_next_to_halfway_points_are_left_to_integers(target: Any) -> None:
    fmt, double = get_format(np.dtype(target).name), get_format("binary64")
    bits = fmt.fraction_bits
    middle = np.float64((1 << (bits + 1)) + 1) if target is not np.float64 else np.float64(3.0)
    just = np.float64(2.0**-60)
    rows = np.array([[middle, 0, 0], [middle, just, 0], [3, 4, 0], [middle, just, just], [0, 0, 0]])
    found = tcu.fnorm(rows, axis=1, dtype=np.dtype(target).name)
    for row, value in zip(rows, found, strict=True):
        check_norm(row, target)
        assert value == tcu.fnorm(row, dtype=np.dtype(target).name)
    starts = 3 * np.arange(5)
    _, _, left = terms.roots_of(terms.terms_of([rows.reshape(-1)], double, starts, starts + 3), fmt)
    assert not left[4]
    if target is not np.float64:
        assert left[[0, 1, 3]].all()


def test_most_roots_and_products_are_proved() -> None:
    """Integers would take a hundred times as long."""
    x, y = np.random.default_rng(4).standard_normal((2, 500 * 40))
    starts = 40 * np.arange(500)
    for fmt in ("binary32", "binary64"):
        lines = [each.astype(get_format(fmt).dtype) for each in (x, y)]
        products = terms.terms_of(lines, get_format(fmt), starts, starts + 40)
        assert not products.left.any()
        squares = terms.terms_of(lines[:1], get_format(fmt), starts, starts + 40)
        for target in ("binary16", "binary32", "binary64"):
            assert np.count_nonzero(terms.roots_of(squares, get_format(target))[2]) <= 1


@pytest.mark.parametrize("fault", ["errors", "half", "wild"])
def test_faults_of_the_quick_way_are_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((300, 50))
    if fault == "wild":
        rows = rows * 2.0**-530
        monkeypatch.setattr(terms, "_SMALLEST", 0.0)
    elif fault == "errors":
        monkeypatch.setattr(terms, "_errors", lambda x, y, products: np.zeros_like(products))
    else:
        exactly = terms._errors
        monkeypatch.setattr(terms, "_errors", lambda x, y, products: exactly(x, y, products) / 2)
    expected = [tcu.fnorm(row) for row in rows]
    assert (tcu.fnorm(rows, axis=1) != expected).any()


@every_dtype
def test_long_rows_and_segments_have_their_own_bits(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (exact, planned):
        monkeypatch.setattr(module, "_LONG", 500)
        monkeypatch.setattr(module, "_PIECE", 1000)
    rng = np.random.default_rng(6)
    x, y = (draw(rng, 3000, dtype, "spread") for _ in "xy")
    offsets = [0, 0, 3, 499, 999, 1499, 1500, 3000]
    for name in FUNCTIONS:
        lines = operands(name, x, y)
        found = getattr(tcu, f"segment_{name}")(*lines, offsets)
        pieces = [tuple(line[a:b] for line in lines) for a, b in pairwise(offsets)]
        same(found, np.array([alone(name, *piece) for piece in pieces]), name)
        rows = [line.reshape(5, 600) for line in lines]
        same(
            alone(name, *rows, axis=-1),
            np.array([alone(name, *row) for row in zip(*rows, strict=True)]),
            name,
        )


def test_options_and_errors_are_those_of_sums_along_axes() -> None:
    x, y = np.random.default_rng(7).standard_normal((2, 4, 5, 6)).astype(np.float32)
    assert tcu.dot(x, y, axis=(0, 2), keepdims=True).shape == (1, 5, 1)
    same(tcu.dot(x, y, dim=1, keepdim=True), tcu.dot(x, y, 1, keepdims=True))
    same(
        tcu.norm(x, axis=1, block=64),
        tcu.dot(x, x, axis=1, block=64, dtype="float64").__pow__(0.5).astype(np.float32),
    )
    out = np.empty((4, 6), np.float64)
    assert tcu.fdot(x, y, 1, out=out) is out
    same(out, tcu.fdot(x, y, 1, dtype="float64"))
    result, info = tcu.dot(x, y, axis=0, return_info=True)
    assert (info.bits, info.plan.n, result.shape) == (None, 4, (5, 6))
    assert tcu.norm(x[:0], 0).tolist() == np.zeros((5, 6)).tolist()
    with pytest.raises(ShapeError, match=r"x has shape .* and y"):
        tcu.dot(x, y[0], axis=0)
    with pytest.raises(ParameterError, match="axis 3 of an array with 3 axes: choose -3 to 2"):
        tcu.fnorm(x, 3)
    with pytest.raises(ParameterError, match=re.escape("axis=0 and dim=1: give one of them")):
        tcu.fdot(x, y, 0, dim=1)
    with pytest.raises(ParameterError, match="out has shape"):
        tcu.norm(x, 0, out=np.empty(3))
    with pytest.raises(ShapeError, match="segments are cut from one line"):
        tcu.segment_dot(x, y, [0, 3])


def test_gradients_flow_through_rows_and_segments() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x, y = torch.randn(2, 3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x, y = x.requires_grad_(), y.requires_grad_()
    lines, offsets = (
        (x.detach().reshape(-1).requires_grad_(), y.detach().reshape(-1).requires_grad_()),
        torch.tensor([0, 7, 7, 60]),
    )
    for name in FUNCTIONS:
        function, segments = getattr(tcu, name), getattr(tcu, f"segment_{name}")
        for given in ({"axis": 1}, {"axis": (0, 2), "keepdims": True}, {"dim": -1}):
            assert torch.autograd.gradcheck(
                lambda *each, f=function, g=given: f(*each, **g), operands(name, x, y), check_forward_ad=True
            )
        assert torch.autograd.gradcheck(
            lambda *each, f=segments: f(*each, offsets), operands(name, *lines), check_forward_ad=True
        )
    assert torch.autograd.gradgradcheck(lambda a, b: tcu.dot(a, b, 1), (x, y))
    batch = torch.func.vmap(lambda a, b: tcu.dot(a, b, 0))(x.detach(), y.detach())
    assert torch.equal(batch, tcu.dot(x.detach(), y.detach(), 1))
    assert torch.equal(
        torch.func.vmap(lambda a: tcu.fdot(a, y.detach()[0], 1))(x.detach())[0],
        tcu.fdot(x[0], y[0], 1).detach(),
    )


@pytest.mark.slow
def test_products_of_rows_go_through_torch_compile() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x = torch.randn(4, 6, requires_grad=True)
    loss = torch.compile(
        lambda a: (tcu.dot(a, a * 2, 1) + tcu.norm(a, -1)).sum(), backend="aot_eager", fullgraph=True
    )
    loss(x).backward()
    wanted, x.grad = x.grad, None
    (tcu.dot(x, x * 2, 1) + tcu.norm(x, -1)).sum().backward()
    torch.testing.assert_close(wanted, x.grad)


def test_what_has_no_kernel_is_refused_on_a_gpu() -> None:
    from tcu.engines import load_cuda
    from tcu.ops import FDOT, Call
    from tcu.ops.layout import Along

    with pytest.raises(
        ParameterError, match=r"fdot along axes has no kernel for GPUs: pass an array in the host's memory"
    ):
        load_cuda().execute(Call(FDOT, (np.ones(3), np.ones(3)), Along(0), (None,)))
