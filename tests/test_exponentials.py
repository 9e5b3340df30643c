"""Contract: exponentials and logarithms are what is stated, and what is made of a row of them depends on the row alone.

Every argument of binary32 has an exponential and a logarithm within the errors that tcu.model.elementary
states, against binary64 functions of NumPy, whose own errors are 2^-28 of that; binary64 ones are compared with
mpmath.  Softmax, its logarithm and the logarithm of the sum have the bits of a definition in Python's
whole numbers, whatever the order, the batch, the neighbours and the layout; NaN, inf and empty rows have what PyTorch says.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from bits import same

import tcu
from tcu.errors import ParameterError
from tcu.model import elementary, exponential_kernels
from tcu.ops import LOGSUMEXP, OPERATIONS, SOFTMAX
from tcu.ops.layout import Along
from tcu.plan.whole_sums import SCALE64
from tcu.streams.surface import run_on_files

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
EXP, LOG = 0.892, 0.501
"""In units in the last place."""
BLOCK = 1 << 22
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "exp": (elementary.exp, np.exp, EXP), "log": (elementary.log, np.log, LOG),
}  # fmt: skip


def largest_error(name: str, codes: npt.NDArray[np.uint32]) -> float:
    """Of the numbers of these codes, in units in the last place; results that are not finite must be the reference's."""
    function, reference, _ = FUNCTIONS[name]
    x = codes.view(np.float32)
    found = np.empty_like(x)
    function(x, found)
    with np.errstate(all="ignore"):
        wanted = reference(x.astype(np.float64))
        rounded = wanted.astype(np.float32)
    usual = np.isfinite(rounded)
    same(np.isnan(found), np.isnan(rounded))
    rest = ~usual & ~np.isnan(rounded)
    same(found[rest], rounded[rest])
    exponent = np.maximum(np.frexp(np.abs(wanted[usual]))[1] - 24, -149)
    return float(np.max(np.abs(found[usual] - wanted[usual]) / np.ldexp(1.0, exponent), initial=0))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_sample_of_all_arguments(name: str) -> None:
    codes = np.arange(0, 1 << 32, 4093, dtype=np.uint32)
    assert largest_error(name, codes) <= FUNCTIONS[name][2]


@pytest.mark.some(0)
@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument(name: str) -> None:
    """A minute each on one core."""
    worst = max(
        largest_error(name, np.arange(first, first + BLOCK, dtype=np.uint32))
        for first in range(0, 1 << 32, BLOCK)
    )
    assert FUNCTIONS[name][2] - 0.002 < worst <= FUNCTIONS[name][2]


def scaled32(x: npt.NDArray[np.float32]) -> Any:
    """2^44 · exp(x) of numbers from -104 to 0, from a row that begins with 0."""
    scaled = np.empty((1, x.size + 1), np.float32)
    row = np.concatenate([[np.float32(0)], x])[None]
    exponential_kernels.add_exponentials(row, np.zeros(1, np.float32), scaled, np.empty((1, 2), np.int64))
    return scaled[0, 1:]


def scaled64(x: npt.NDArray[np.float64]) -> Any:
    scaled = np.empty((1, x.size))
    exponential_kernels.add_exponentials64(x[None], np.zeros(1), scaled, np.empty((1, 4), np.int64))
    return scaled[0]


def test_scaled_exponentials_are_those_of_exp() -> None:
    """Wherever a result has all its bits; below, exp rounds once more."""
    x = -np.concatenate([np.geomspace(1e-9, 87, 100_000), np.linspace(0, 87, 100_000)]).astype(np.float32)
    found = np.empty_like(x)
    elementary.exp(x, found)
    same(scaled32(x), np.ldexp(found, 44))


@pytest.mark.slow
@pytest.mark.parametrize("count", [3000, 1_000_000])
def test_functions_of_binary64(count: int, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--all-cases"):
        count = min(count, 100_000)
    rng = np.random.default_rng(3)
    x = -np.concatenate([np.geomspace(1e-18, 745, count // 2), rng.uniform(0, 745, count - count // 2)])
    positive = np.concatenate(
        [np.geomspace(1e-300, 1e300, count // 2), 1 + rng.uniform(-0.4, 0.4, count // 2)]
    )
    logs = np.empty_like(positive)
    exponential_kernels.logarithms(positive, logs)
    with mpmath.workprec(120):
        for found, given, function, shift in (
            (scaled64(x), x, mpmath.exp, SCALE64), (logs, positive, mpmath.log, 0),
        ):  # fmt: skip
            for each, argument in zip(found.tolist(), given.tolist(), strict=True):
                wanted = mpmath.ldexp(function(mpmath.mpf(argument)), shift)
                assert abs(each - wanted) < math.ulp(each), argument


# Rows.


def definition(x: list[float], wide: bool) -> tuple[float, float]:
    """(1 / S, log S), S from exponentials that are added up as whole numbers of Python's."""
    kind: Any = np.float64 if wide else np.float32
    row = np.array(x, kind)
    deviations = np.maximum(row - row.max(), kind(-746 if wide else -104))
    scaled = scaled64(deviations) if wide else scaled32(deviations)
    if wide:
        above = [round(each * 2.0**-40) for each in scaled.tolist()]
        below = [round(each - high * 2.0**40) for each, high in zip(scaled.tolist(), above, strict=True)]
        total = float(math.ldexp(float(sum(above)), 40) + float(sum(below)))
    else:
        total = float(sum(round(each) for each in scaled.tolist()))
    logs = np.empty(1)
    exponential_kernels.logarithms(np.array([math.ldexp(total, -80 if wide else -44)]), logs)
    return 1 / total, float(logs[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000])
def test_rows_have_the_bits_of_the_definition(dtype: str, n: int) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    rng, wide = np.random.default_rng(n), dtype == "float64"
    work: Any = np.float64 if wide else np.float32
    for spread in (0.1, 3, 40):
        x = (spread * rng.standard_normal((3, n))).astype(kind)
        x[0, n // 2] = x[0].max()
        for row, shares, logs, log in zip(
            x.astype(work), tcu.softmax(x), tcu.log_softmax(x), tcu.logsumexp(x, -1), strict=True
        ):
            over, logarithm = definition(row.tolist(), wide)
            deviations = row - row.max()
            scaled = (scaled64 if wide else scaled32)(deviations)
            same(shares, (scaled * work(over)).astype(kind))
            same(logs, (deviations - work(logarithm)).astype(kind))
            assert log == log.dtype.type(float(row.max()) + logarithm)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_a_row_depends_on_its_numbers_alone(name: str, dtype: str) -> None:
    """Not on their order, the batch, the axis, the strides, the number of threads."""
    rng, function = np.random.default_rng(8), getattr(tcu, name)
    x = (4 * rng.standard_normal((70, 1300))).astype(dtype)
    found = function(x, -1)
    for row in (0, 33, 69):
        same(function(x[row], -1), found[row])
    same(function(x.T, 0), found if name == "logsumexp" else found.T)
    same(function(x[::-2, None], -1)[:, 0], found[::-2])
    order = rng.permutation(1300)
    same(function(np.asfortranarray(x)[:, order], 1), found if name == "logsumexp" else found[:, order])
    with pytest.MonkeyPatch.context() as patch:
        for threads in ("1", "3"):
            patch.setenv("TCU_NUM_THREADS", threads)
            same(function(x, 1), found)


def test_long_rows_fill_several_words() -> None:
    """A sum of 2^18 terms is the most that one word takes; a million equal numbers have a millionth each."""
    for dtype in (np.float32, np.float64):
        x = np.zeros(1 << 20, dtype)
        same(tcu.softmax(x), np.full(x.shape, 2.0**-20, dtype))
        assert tcu.logsumexp(x) == dtype(20 * math.log(2))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_what_is_not_finite_has_what_pytorch_gives_it(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    inf, nan = math.inf, math.nan
    rows = [
        [1, nan, 2],
        [inf, 1, 2],
        [-inf] * 3,
        [-inf, 0, 1],
        [inf, inf, -inf],
        [nan, inf, -inf],
        [-0.0, 0, 0],
    ]
    x = torch.tensor(rows, dtype=getattr(torch, dtype))
    for found, wanted in (
        (tcu.softmax(x), x.softmax(1)), (tcu.log_softmax(x), x.log_softmax(1)),
        (tcu.logsumexp(x, 1, dtype=x.dtype), x.logsumexp(1)),
    ):  # fmt: skip
        tolerance = 2 * torch.finfo(x.dtype).eps
        torch.testing.assert_close(found, wanted, rtol=tolerance, atol=0, equal_nan=True)
    for shape in ((0, 3), (3, 0), (2, 0, 5)):
        empty = x.new_empty(shape)
        for axis in range(len(shape)):
            assert tcu.softmax(empty, axis).shape == tcu.log_softmax(empty, axis).shape == shape
            found = tcu.logsumexp(empty, axis, dtype=x.dtype)
            assert torch.equal(found, empty.logsumexp(axis))


def test_results_reach_down_to_the_smallest_number() -> None:
    x = np.array([0, -80, -88, -95, -103, -104, -1e30], np.float32)
    wanted = np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum()
    assert (np.abs(tcu.softmax(x) - wanted) <= np.maximum(2.0**-22 * wanted, 2.0**-150)).all()
    x = np.array([0, -700, -720, -740, -745, -746, -1e300])
    assert (np.abs(tcu.softmax(x) - np.exp(x)) <= np.maximum(2.0**-50 * np.exp(x), 2.0**-1074)).all()


def test_outputs_and_dtypes() -> None:
    x = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
    same(tcu.softmax(x, dtype="float64"), tcu.softmax(x.astype(np.float64)))
    out = np.empty((3, 4), np.float16)
    assert tcu.softmax(x, out=out) is out
    same(out, tcu.softmax(x, dtype="float16"))
    same(tcu.softmax(x, dim=0), tcu.softmax(x, 0))
    with pytest.raises(ParameterError, match="axis=0 and dim=1: give one of them"):
        tcu.softmax(x, 0, dim=1)
    expected = tcu.log_softmax(x, 0)
    assert tcu.log_softmax(x, 0, out=x) is x
    same(x, expected)
    with pytest.raises(
        ParameterError, match="axis=None: give a whole number, the axis whose rows are mapped"
    ):
        tcu.softmax(x, None)
    with pytest.raises(ParameterError, match=r"axis 2 of an array with 2 axes: choose -2 to 1"):
        tcu.softmax(x, 2)
    with pytest.raises(
        ParameterError, match=r"out has shape \(3, 4\), the result shape \(3, 2\)|out has shape"
    ):
        tcu.softmax(x[:, :2], out=out)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_gradients(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x = torch.randn(3, 4, 2, dtype=torch.float64, requires_grad=True)
    axes: list[Any] = [0, -1] if name != "logsumexp" else [None, 1, (0, 2)]
    for axis in axes:
        assert torch.autograd.gradcheck(
            lambda x, axis=axis: getattr(tcu, name)(x, axis), x, check_forward_ad=True
        )
        assert torch.autograd.gradgradcheck(lambda x, axis=axis: getattr(tcu, name)(x, axis), x)
    own, theirs = getattr(tcu, name), getattr(torch, name)
    mine = torch.autograd.grad(own(x, 1).pow(2).sum(), x)[0]
    torch.testing.assert_close(mine, torch.autograd.grad(theirs(x, 1).pow(2).sum(), x)[0])
    half = x.detach().bfloat16().requires_grad_()
    assert torch.autograd.grad(own(half, 1).sum(), half)[0].dtype == torch.bfloat16
    nothing = torch.full((2, 3), -math.inf, dtype=torch.float64, requires_grad=True)
    if name == "logsumexp":
        same(torch.autograd.grad(tcu.logsumexp(nothing, 1).sum(), nothing)[0].numpy(), np.zeros((2, 3)))


def test_segments_are_rows() -> None:
    """Also without an element, in any number of segments, with what is not finite; with gradients of both modes."""
    rng = np.random.default_rng(4)
    lengths = np.concatenate([rng.integers(0, 40, 200), [0, 1000, 1, 129, 0]])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for kind in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        x = (4 * rng.standard_normal(offsets[-1])).astype(kind)
        x[3], x[50], x[90:120] = np.nan, np.inf, -np.inf
        parts = [x[a:b] for a, b in pairwise(offsets.tolist())]
        same(tcu.segment_softmax(x, offsets), np.concatenate([tcu.softmax(part) for part in parts]))
        wanted = np.array([tcu.logsumexp(part) for part in parts])
        same(tcu.segment_logsumexp(x, offsets), wanted)
        same(tcu.segment_softmax(x, offsets, dtype="float64")[-129:], tcu.softmax(parts[-2], dtype="float64"))
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    edges = torch.tensor([0, 3, 3, 9, 10])
    x = torch.randn(10, dtype=torch.float64, requires_grad=True)
    for function in (tcu.segment_softmax, tcu.segment_logsumexp):
        call = functools.partial(_times_itself, function, edges)
        assert torch.autograd.gradcheck(call, x, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(call, x)
        several = torch.randn(3, 10)
        found = torch.vmap(lambda x, f=function: f(x, edges))(several)
        assert torch.equal(found, torch.stack([function(each, edges) for each in several]))
        compiled = torch.compile(lambda x, f=function: f(2 * x, edges), backend="eager", fullgraph=True)
        assert torch.equal(compiled(several[0]), function(2 * several[0], edges))
    nothing = torch.full((3,), -math.inf, requires_grad=True)
    same(
        torch.autograd.grad(tcu.segment_logsumexp(nothing, [0, 3]).sum(), nothing)[0].numpy(),
        np.zeros(3, np.float32),
    )


def _times_itself(function: Any, edges: Any, x: Any) -> Any:
    """What has a second derivative."""
    found = function(x, edges)
    return found[found > -math.inf] ** 2


def test_under_vmap_and_compile() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x = torch.randn(3, 4, 5)
    for function in (tcu.softmax, tcu.log_softmax):
        assert torch.equal(torch.vmap(lambda x, f=function: f(x, 0), 1, 1)(x), function(x, 0))
        compiled = torch.compile(lambda x, f=function: f(2 * x), backend="eager", fullgraph=True)
        assert torch.equal(compiled(x), function(2 * x))
    assert torch.equal(torch.ops.tcu.softmax(x), tcu.softmax(x))
    assert torch.equal(torch.ops.tcu.softmax(x, 0, torch.float64), tcu.softmax(x, 0, dtype=torch.float64))
    torch.library.opcheck(torch.ops.tcu.softmax.default, (x, 1))
    with torch.device("meta"):
        assert torch.ops.tcu.softmax(torch.empty(2, 3, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_chunks_and_files_are_refused_in_words(tmp_path: Any) -> None:
    with pytest.raises(ParameterError, match=r"softmax takes whole rows: map the file, with numpy\.load"):
        run_on_files(SOFTMAX, (tmp_path / "x.npy",), Along(-1))
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    x = np.random.default_rng(1).standard_normal((4, 6))
    with pytest.raises(ParameterError, match=r"softmax of a Dask array takes whole rows: .*map_blocks"):
        tcu.softmax(da.from_array(x, chunks=(2, 3)))


WHOLE_ROWS = [each for each in OPERATIONS.values() if not each.in_parts]
ROWS_OF_CHUNKS: list[tuple[Any, dict[str, Any]]] = [
    *((each, {"axis": axis}) for each in WHOLE_ROWS for axis in (0, 1, -1)),
    *((each, {"axis": -2, "eps": 1e-3}) for each in WHOLE_ROWS if "eps" in each.options),
    (LOGSUMEXP, {"axis": (0, 2)}),
]


@pytest.mark.parametrize(("operation", "given"), ROWS_OF_CHUNKS, ids=str)
def test_what_is_said_of_a_dask_array_gives_the_bits_of_its_rows(
    operation: Any, given: dict[str, Any]
) -> None:
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    numbers = np.random.default_rng(1).standard_normal((4, 6, 3)).astype(np.float32)
    x, function = da.from_array(numbers, chunks=(2, 3, 1)), getattr(tcu, operation.name)
    with pytest.raises(
        ParameterError, match=f"{operation} of a Dask array takes whole rows: give its"
    ) as caught:
        function(x, **given)
    said = re.search(r"(x\.rechunk.*), or x\.compute\(\)$", str(caught.value))
    assert said
    lazy, wanted = eval(said[1], {"tcu": tcu, "x": x}), function(numbers, **given)
    assert lazy.shape == wanted.shape
    same(lazy.compute(), wanted)


@pytest.mark.parametrize(
    ("operation", "given"),
    [(LOGSUMEXP, {}), (LOGSUMEXP, {"axis": 0, "keepdims": True}), (SOFTMAX, {"dtype": "float64"})],
    ids=str,
)
def test_what_blocks_would_do_otherwise_is_left_to_arrays(operation: Any, given: dict[str, Any]) -> None:
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    with pytest.raises(ParameterError, match=rf"{operation} of a Dask array .*: call it of x\.compute\(\)$"):
        getattr(tcu, operation.name)(da.ones((4, 6), chunks=2), **given)


def test_losses_of_a_dask_array_are_refused_in_words() -> None:
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    with pytest.raises(ParameterError, match=r"pass x\.compute\(\) .* or parts of it .*, such as x\[:1000\]"):
        tcu.cross_entropy(da.ones((4, 6), chunks=2), np.zeros(4, int))


@pytest.mark.parametrize(("dtype", "digits", "far"), [(np.float32, 24, 80.0), (np.float64, 53, 700.0)])
def test_softmax_is_as_near_as_it_says(dtype: type, digits: int, far: float) -> None:
    """Differences just above a power of two are rounded worst: half of what their last place is there."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(300):
        anywhere, above_a_power = 2 ** rng.uniform(0, np.log2(far)), 2 ** rng.integers(0, 7) * 1.004
        x = np.array([rng.uniform(-3, 3), 0], dtype)
        x[1] = x[0] - dtype(anywhere if rng.random() < 0.5 else above_a_power)
        found = tcu.softmax(x)
        with mpmath.workprec(400):
            largest = mpmath.mpf(float(x.max()))
            terms = [mpmath.exp(mpmath.mpf(float(each)) - largest) for each in x]
            for each, term, given in zip(found, terms, x, strict=True):
                wanted = term / sum(terms)
                unit = mpmath.ldexp(1, -digits)
                most = (float(x.max()) - float(given) + 3) * unit + len(x) * mpmath.ldexp(1, -45)
                error = abs(mpmath.mpf(float(each)) - wanted) / wanted
                # The last rounding is another half of a last place.
                assert error <= most + unit, (x, each)
                worst = max(worst, float(error / most))
    assert digits == 53 or worst > 0.6, "the bound is not far off where the sum's error is small beside it"
