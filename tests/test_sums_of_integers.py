"""Contract: integers and truth values are summed exactly as integers, against Python's own; a result that its dtype does
not hold is an error on the CPU, and has its lowest 64 bits on a GPU, in a graph and in Dask's chunks.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from gpu_support import gpu_or_skip

import tcu
from tcu.engines import library_integers
from tcu.engines.host import integers
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, UnknownNameError
from tcu.ops import OPERATIONS
from tcu.ops.layout import WHOLE, Along, Ragged
from tcu.ops.operation import Call

DTYPES = ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "<i8", ">i8", "<u8", ">u8", ">i2"]
EDGES = [0, 3, 3, 17, 24]


def drawn(dtype: str, shape: tuple[int, ...] = (2, 3, 4)) -> Any:
    """Numbers of every size that the dtype has, its ends among them, the sum of any of which 64 bits hold."""
    rng = np.random.default_rng(sum(map(ord, dtype)))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    bounds = np.iinfo(np.dtype(dtype))
    shrink = 64 if np.dtype(dtype).itemsize == 8 else 1
    low, high = int(bounds.min) // shrink, int(bounds.max) // shrink
    values = [
        int(rng.integers(low, high, dtype=np.int64 if low else np.uint64)) >> int(rng.integers(0, 60))
        for _ in range(24)
    ]
    values[:2] = [low, high]
    return np.array(values, dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sum", "fsum"])
def test_sums_are_pythons(name: str, dtype: str) -> None:
    x, function = drawn(dtype), getattr(tcu, name)
    wide = np.uint64 if np.dtype(dtype).kind == "u" else np.int64
    whole = function(x)
    assert (int(whole), whole.dtype) == (sum(x.ravel().tolist()), wide)
    for axis in (0, -1, (0, 2), (0, 1, 2), ()):
        got = function(x[::-1, :, ::-1], axis=axis, keepdims=True)
        objects = np.vectorize(int, otypes=[object])(x[::-1, :, ::-1])
        assert got.dtype == wide
        assert np.array_equal(got.astype(object), objects.sum(axis=axis, keepdims=True))
    line = x.reshape(-1)
    segments = getattr(tcu, f"segment_{name}")(line, EDGES)
    assert segments.tolist() == [sum(map(int, line[a:b].tolist())) for a, b in pairwise(EDGES)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_are_pythons(dtype: str, exclusive: bool, reverse: bool) -> None:
    def running(values: list[int]) -> list[int]:
        values = [int(each) for each in (values[::-1] if reverse else values)]
        sums = list(accumulate(values, initial=0))[:-1] if exclusive else list(accumulate(values))
        return sums[::-1] if reverse else sums

    x = drawn(dtype)
    given: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse}
    assert tcu.cumsum(x, **given).tolist() == running(x.ravel().tolist())
    along = tcu.cumsum(x, axis=1, **given)
    assert [along[i, :, j].tolist() for i in range(2) for j in range(4)] == [
        running(x[i, :, j].tolist()) for i in range(2) for j in range(4)
    ]
    line = x.reshape(-1)
    assert tcu.segment_cumsum(line, EDGES, **given).tolist() == [
        each for a, b in pairwise(EDGES) for each in running(line[a:b].tolist())
    ]
    options = OPERATIONS["cumsum"].values(given)
    for call, expected in (
        (Call(OPERATIONS["cumsum"], (line,), Along(None), options), tcu.cumsum(line, **given)),
        (Call(OPERATIONS["cumsum"], (line,), Ragged(EDGES), options), tcu.segment_cumsum(line, EDGES, **given)),
    ):  # fmt: skip
        native = call._replace(arrays=(line.astype(line.dtype.newbyteorder("=")),))
        assert np.array_equal(library_integers.execute(native, np, expected.dtype), expected)


def test_no_number_is_rounded_on_its_way() -> None:
    x = np.array([2**53 + 1, 2, -(2**63), 2**63 - 1])
    assert int(tcu.sum(x)) == 2**53 + 2, "binary64 has no 2^53 + 1"
    assert tcu.cumsum(x[:2]).tolist() == [2**53 + 1, 2**53 + 3]
    assert tcu.sum([1, 2, 3]) == 6
    assert tcu.sum(7) == 7
    assert tcu.sum([]) == 0.0
    assert tcu.sum(np.empty((0, 2), np.int8), axis=0).tolist() == [0, 0]


def test_more_numbers_than_64_bits_add_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = drawn("<i8")
    expected = tcu.sum(x), tcu.sum(x, axis=(0, 2))
    monkeypatch.setattr(integers, "_MOST", 3)
    assert tcu.sum(x) == expected[0]
    assert np.array_equal(tcu.sum(x, axis=(0, 2)), expected[1])
    with pytest.raises(ParameterError, match="running sums of 24 integers: cut the array into parts of 3"):
        tcu.cumsum(x)


@pytest.mark.parametrize("name", ["mean", "fmean"])
def test_means_are_rounded_once(name: str) -> None:
    function, segments = getattr(tcu, name), getattr(tcu, f"segment_{name}")
    x = np.array([2**62 + 1, 2**62 + 513, 5])
    assert function(x) == float(Fraction(sum(x.tolist()), 3))
    assert function(x[2:], dtype=np.float16).dtype == np.float16
    assert function(np.array([[1, 2], [2, 2]]), axis=1).tolist() == [1.5, 2.0]
    means = segments(np.array([1, 2, 2**60 + 1]), [0, 2, 2, 3])
    assert means[[0, 2]].tolist() == [1.5, float(2**60)]
    assert np.isnan(means[1])
    third = function(np.array([1, 0, 0]), dtype=np.float32)
    assert third == np.float32(1 / 3)
    with pytest.raises(DtypeError, match="a result is rounded to float16"):
        function(x, dtype=np.int64)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, "bfloat16"])
def test_a_float_result_is_rounded_once_from_the_exact_sum(dtype: Any) -> None:
    half = 2**60 + 2**31  # beside the middle of two numbers of binary32 by less than binary64 sees
    x = np.array([half, 2**28 + 2**35, 1])
    from tcu.formats.scalar import Number
    from tcu.ops.result import round_number, rounding_target

    for values in (x, np.array([3, 4]), np.array([2**11 + 1, 0])):
        expected = round_number(Number.of(sum(values.tolist())), rounding_target(dtype))
        got = tcu.sum(values, dtype=dtype)
        assert got.tobytes() == expected.tobytes()
    assert tcu.cumsum(x, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("x", "given", "message"),
    [
        (np.array([2**63 - 1, 1]), {}, "the sum is 9223372036854775808, which int64 does not hold: pass a wider dtype"),
        (np.array([[1, 2**63 - 1], [-(2**63), -1]]), {"axis": 1}, r"the sum at \(0,\) is 9223372036854775808"),
        (np.array([2**64 - 1, 1], np.uint64), {}, "the sum is 18446744073709551616, which uint64"),
        (np.array([100, 28], np.int8), {"dtype": np.int8}, "the sum is 128, which int8 does not hold"),
        (np.array([-1]), {"dtype": np.uint64}, "the sum is -1, which uint64"),
    ],
)  # fmt: skip
def test_a_sum_that_does_not_fit_is_an_error(x: Any, given: Any, message: str) -> None:
    with pytest.raises(InvalidOperationError, match=message):
        tcu.sum(x, **given)
    assert tcu.sum(x, **{**given, "dtype": np.float64}).dtype == np.float64


def test_ends_of_the_dtypes_fit() -> None:
    assert tcu.sum(np.array([2**63 - 2, 1])) == 2**63 - 1
    assert tcu.sum(np.array([-(2**63) + 1, -1])) == -(2**63)
    assert tcu.sum(np.array([2**64 - 2, 1], np.uint64)) == 2**64 - 1
    assert tcu.sum(np.array([100, 27], np.int8), dtype="int8") == 127


def test_options_have_no_say_and_are_looked_at() -> None:
    x = np.arange(5)
    assert tcu.sum(x, unit="V100", variant="split") == 10
    with pytest.raises(UnknownNameError, match="V101"):
        tcu.sum(x, unit="V101")
    with pytest.raises(UnknownNameError, match="unknown variant 'splt'"):
        tcu.sum(x, variant="splt")
    with pytest.raises(ParameterError, match="return_info tells of the order of additions, which integers"):
        tcu.sum(x, return_info=True)
    with pytest.raises(DtypeError, match="dtype='complex64': a sum of integers is an integer, or rounded to"):
        tcu.sum(x, dtype="complex64")
    with pytest.raises(DtypeError, match="masked"):
        tcu.sum(np.ma.masked_array([1, 2], [True, False]))
    seen: list[int] = []
    tcu.sum(x, progress=seen.append)
    assert seen == [5]


def test_an_accumulator_takes_integers_of_any_size() -> None:
    x = np.array([2**63 - 1, 2**63 - 1, 5])
    total = tcu.ExactSum().add(x).add([0.5]).add([True, True])
    assert (total.n, total.value()) == (6, float(Fraction(sum(x.tolist()) + 2) + Fraction(1, 2)))
    assert tcu.ExactSum().add(np.array([2**64 - 1], np.uint64)).add([-(2.0**64)]).value() == -1
    assert tcu.ExactSum().add(np.array([-(2**63)])).add([2.0**63]) == tcu.ExactSum().add([0, 0])
    seen: list[int] = []
    tcu.ExactSum().add(x, seen.append)
    assert seen == [3]


def test_out_takes_the_result() -> None:
    out = np.empty(2, np.int64)
    assert tcu.sum(np.array([[1, 2], [3, 4]]), axis=0, out=out) is out
    assert out.tolist() == [4, 6]
    x = np.arange(4)
    assert tcu.cumsum(x, out=x).tolist() == [0, 1, 3, 6]
    with pytest.raises(ParameterError, match="out has dtype int64, the result float32"):
        tcu.sum(x, dtype=np.float32, out=np.empty((), np.int64))
    with pytest.raises(ParameterError, match="the result shape"):
        tcu.sum(np.ones((2, 2), int), axis=0, out=np.empty(3, np.int64))


def test_norms_products_and_variances_are_asked_for_floats() -> None:
    for call in (lambda x: tcu.norm(x), lambda x: tcu.dot(x, x), lambda x: tcu.var(x)):
        with pytest.raises(DtypeError, match="convert it first"):
            call(np.arange(3))


# PyTorch, Dask, and what stands for a GPU.


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_tensors(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    x = torch.from_numpy(drawn(dtype))
    plain = x.numpy()
    for got, expected in (
        (tcu.sum(x), plain.sum(dtype=np.int64)), (tcu.fsum(x, axis=(0, 2)), plain.sum((0, 2), dtype=np.int64)),
        (tcu.cumsum(x, axis=2), plain.cumsum(2, dtype=np.int64)),
        (tcu.segment_sum(x.reshape(-1), torch.tensor(EDGES)), [plain.ravel()[a:b].sum(dtype=np.int64) for a, b in pairwise(EDGES)]),
    ):  # fmt: skip
        assert got.dtype == torch.int64
        assert np.array_equal(got.numpy(), expected)
    out = torch.empty(3, 4, dtype=torch.int64)
    assert tcu.sum(x, axis=0, out=out) is out
    assert torch.equal(out, x.sum(0))
    with pytest.raises(ParameterError, match=r"out has dtype torch\.int64, the result torch\.float32"):
        tcu.sum(x, axis=0, dtype=torch.float32, out=out)
    assert torch.equal(tcu.mean(x, axis=0), x.double().mean(0)) or dtype == "int64"


@pytest.mark.filterwarnings("ignore:torch.searchsorted")  # of offsets in columns
@pytest.mark.parametrize("name", ["segment_sum", "segment_cumsum"])
def test_segments_of_a_batch(name: str) -> None:
    """Of lines, of offsets or of both, that torch.vmap maps once or twice; wrong offsets are refused there, too."""
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    function = getattr(tcu, name)
    x = torch.arange(48).reshape(2, 2, 12) * 5 - 70
    edges = torch.tensor([[[0, 3, 12], [0, 5, 12]], [[0, 0, 12], [0, 12, 12]]])
    one, line = edges[0, 0], x[0, 0]
    of_lines = torch.stack([function(each, one) for each in x[0]])
    of_edges = torch.stack([function(line, each) for each in edges[0]])
    assert torch.vmap(lambda x: function(x, one))(x[0]).equal(of_lines)
    assert torch.vmap(lambda e: function(line, e))(edges[0]).equal(of_edges)
    assert torch.vmap(lambda e: function(line, e), in_dims=1)(edges[0].T.contiguous()).equal(of_edges)
    assert torch.vmap(lambda e: function(line, e, check=False))(edges[0]).equal(of_edges)
    of_both = torch.stack(
        [
            torch.stack([function(*each) for each in zip(*both, strict=True)])
            for both in zip(x, edges, strict=True)
        ]
    )
    assert torch.vmap(torch.vmap(function))(x, edges).equal(of_both)
    assert torch.vmap(torch.vmap(function, in_dims=(0, 0)), in_dims=(1, 1))(x, edges).equal(
        of_both.movedim(1, 0)
    )
    wrong = edges.clone()
    wrong[1, 0, 1] = 13
    with pytest.raises(ParameterError, match="offsets decrease from 13 to 12 at index 2"):
        torch.vmap(torch.vmap(function))(x, wrong)


@pytest.mark.parametrize("layout", [WHOLE, Along((0, 2), True), Along(1), Ragged(EDGES)])
def test_a_graph_and_a_gpu_give_the_librarys_own_sums(layout: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    x = torch.from_numpy(drawn("<i8")) * 64  # which int64 does not hold
    x = x.reshape(-1) if isinstance(layout, Ragged) else x
    call = Call(OPERATIONS["sum"], (x,), layout, OPERATIONS["sum"].defaults)
    got = library_integers.execute(call, torch, torch.int64)
    plain = x.numpy()
    if isinstance(layout, Ragged):
        expected = np.array([plain[a:b].sum() for a, b in pairwise(EDGES)])
    else:
        expected = plain.sum(axis=layout[0] if layout else None, keepdims=bool(layout and layout[1]))
    assert np.array_equal(got.numpy(), expected)
    with pytest.raises(DtypeError, match=r"sums of integers are torch\.int64 outside of the host's memory"):
        library_integers.execute(
            call._replace(options=(*call.options[:-1], torch.float32)), torch, torch.int64
        )
    assert library_integers.execute(
        call._replace(options=(*call.options[:-1], "int64")), torch, torch.int64
    ).equal(got)
    with pytest.raises(DtypeError, match="means of integers are rounded in the host's memory alone"):
        library_integers.execute(
            call._replace(operation=OPERATIONS["mean"], options=OPERATIONS["mean"].defaults),
            torch,
            torch.int64,
        )
    out = torch.empty(1, 2, 3, dtype=torch.int32)
    with pytest.raises(ParameterError, match=r"out has shape \(1, 2, 3\) and dtype torch\.int32, the result"):
        library_integers.execute(call._replace(out=out), torch, torch.int64)


def test_a_compiled_function_sums_integers() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    x = torch.arange(12).reshape(3, 4)
    compiled = torch.compile(
        lambda x: tcu.sum(x, axis=0) + tcu.cumsum(x, axis=0)[-1], backend="eager", fullgraph=True
    )
    assert torch.equal(compiled(x), 2 * x.sum(0))


def test_dask_arrays_are_summed_lazily() -> None:
    da = pytest.importorskip("dask.array", reason="needs Dask")
    x = drawn("<i8")
    lazy = da.from_array(x, chunks=(1, 2, 3))
    for name, given in (("sum", {}), ("fsum", {"axis": (0, 1)}), ("cumsum", {"axis": 2, "reverse": True})):
        got = getattr(tcu, name)(lazy, **given)
        assert isinstance(got, da.Array)
        assert np.array_equal(got.compute(scheduler="synchronous"), getattr(tcu, name)(x, **given))


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_arrays_on_a_gpu(library: str) -> None:
    gpu_or_skip()
    home = pytest.importorskip(library, reason=f"needs {library}")
    x = drawn("<i8")
    there = home.from_numpy(x).cuda() if library == "torch" else home.asarray(x)
    for name, given in (("sum", {}), ("fsum", {"axis": 1}), ("cumsum", {"axis": 0, "exclusive": True})):
        got = getattr(tcu, name)(there, **given)
        assert type(got) is type(there)
        assert np.array_equal(
            got.cpu().numpy() if library == "torch" else got.get(), getattr(tcu, name)(x, **given)
        )
    line = there.reshape(-1)
    offsets = home.tensor(EDGES).cuda() if library == "torch" else home.asarray(EDGES)
    for check in (True, False):
        got = tcu.segment_sum(line, offsets, check=check)
        assert got.tolist() == tcu.segment_sum(x.reshape(-1), EDGES).tolist()
    assert sys.modules[library]
