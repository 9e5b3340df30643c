"""Contract: sums of segments, and exact sums along axes, of arrays in a GPU's memory find their operands.

The GPU is a pretended one, of PyTorch's tensors on the host and of launches
that find segments by the addresses that they are given.  The room that a real
launch asks for is enough for every list of long segments.  tests/test_gpu_segments.py
has the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import numpy as np
import pretended_offsets
import pytest

import tcu
from tcu.engines import cuda
from tcu.engines.cuda import offsets as device_offsets
from tcu.engines.cuda import rows as device_rows
from tcu.engines.cuda import segments as device_segments
from tcu.errors import ParameterError
from tcu.formats import get_format
from tcu.formats.tensor import host_view
from tcu.gpu import Gpu, arrays, exact_segments, segments
from tcu.gpu.columns import Columns
from tcu.gpu.launch import KernelChoice, Recipe
from tcu.ops import Call, find_operation
from tcu.ops.layout import Along, Layout, Ragged
from tcu.plan import OWN_VARIANTS
from tcu.plan.variants import loads_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)

DTYPES = ("float16", "bfloat16", "float32", "float64")
OPERATIONS: dict[str, Any] = {
    "sum": tcu.segment_sum, "mean": tcu.segment_mean, "fsum": tcu.segment_fsum, "fmean": tcu.segment_fmean,
}  # fmt: skip


def memory(address: int, count: int, dtype: Any) -> Any:
    room = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(room, np.uint8).view(dtype)


class Launch:
    """Computes by the model what it was told to."""

    operation = "sum"

    def __init__(
        self, n: int, count: int, element: Any, target: Any, gpu: Any, *, chain: int = 1, block: int = 256,
        mean: bool = False, mmas: bool = False,
    ) -> None:  # fmt: skip
        self.given = n, count, element, target
        self.name = self.operation.replace("sum", "mean") if mean else self.operation
        self.options: dict[str, Any] = {"dtype": target.dtype}
        if self.operation == "sum":
            self.options |= {"variant": "short-chain", "chain": chain} if mmas else {}
            self.options |= {"block": block}
        self.room = 6

    def start(self, x: int, offsets: int, out: int, stream: int, room: int) -> None:
        n, count, element, target = self.given
        assert stream == 5
        memory(room, 48, np.dtype(np.uint8))[...] = 0xEE
        numbers = memory(x, n, element.dtype)
        edges = memory(offsets, count + 1, np.dtype(np.int64))
        numbers = numbers[: edges[-1]]  # a copy of wrong offsets is zeros
        memory(out, count, target.dtype)[...] = OPERATIONS[self.name](numbers, edges, **self.options)


class Exact(Launch):
    operation = "fsum"


class ExactAxes:
    """Exact sums of rows, or of columns, by the host."""

    room = 0

    def __init__(
        self, shape: tuple[int, ...], strides: tuple[int, ...], axis: int, aligned: bool, element: Any, target: Any,
        mean: bool,
    ) -> None:  # fmt: skip
        self.given = shape, strides, axis, element, target
        self.aligned, self.function = aligned, tcu.fmean if mean else tcu.fsum

    def start(self, x: int, y: int, out: int, stream: int) -> None:
        shape, strides, axis, element, target = self.given
        assert (y, stream) == (x, 5)
        size = element.dtype.itemsize
        if self.aligned:
            assert x % 16 == 0
        if 0 in shape:
            numbers = np.zeros(shape, element.dtype)
        else:
            span = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 1
            steps = [step * size for step in strides]
            numbers = np.lib.stride_tricks.as_strided(memory(x, span, element.dtype), shape, steps)
        result = self.function(numbers, axis=axis, dtype=target.dtype)
        memory(out, result.size, target.dtype)[...] = result.reshape(-1)


def exact_rows(
    rows: int, length: int, stride: int, aligned: bool, element: Any, target: Any, gpu: Any, *, mean: bool
) -> ExactAxes:
    return ExactAxes((rows, length), (stride, 1), 1, aligned, element, target, mean)


def exact_columns(
    columns: Columns, length: int, aligned: bool, element: Any, target: Any, gpu: Any, *, mean: bool
) -> ExactAxes:
    outer, inner, outer_stride, stride = columns
    return ExactAxes((outer, length, inner), (outer_stride, stride, 1), 1, aligned, element, target, mean)


class Whole:
    """The exact sum of one row."""

    def __init__(self, n: int, element: Any, layout: str, target: Any, gpu: Any, *, divisor: int) -> None:
        self.given = n, element, target, divisor

    room = 0

    def start(self, x: int, y: int, out: int, stream: int) -> None:
        n, element, target, divisor = self.given
        assert (y, stream, divisor in (1, n)) == (x, 5, True)
        function = tcu.fsum if divisor == 1 else tcu.fmean
        memory(out, 1, target.dtype)[...] = function(memory(x, n, element.dtype), dtype=target.dtype)


class Pretended(type(arrays._TORCH)):  # type: ignore[misc]
    """PyTorch's tensors on the host, as if they were on a GPU."""

    def ordinal(self, label: str, array: Any) -> int:
        return 0

    def current_stream(self, ordinal: int) -> int:
        return 5


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    library = Pretended()
    for module in (device_segments, device_rows):
        monkeypatch.setattr(module, "home_of", lambda given, out=None: (library, 0))
        monkeypatch.setattr(module, "current", lambda ordinal: contextlib.nullcontext())
        monkeypatch.setattr(module, "find_gpu", lambda ordinal: Gpu(0, "H100", (9, 0)))
        monkeypatch.setattr(module, "Launch", lambda launch, gpu: launch)
        module._launch.cache_clear()
    monkeypatch.setattr(device_segments, "segments_recipe", Launch)
    monkeypatch.setattr(device_segments, "exact_segments_recipe", Exact)
    for name, recipe in (
        ("exact_recipe", Whole),
        ("exact_rows_recipe", exact_rows),
        ("exact_columns_recipe", exact_columns),
    ):
        monkeypatch.setattr(device_rows, name, recipe)
    device_rows._launch_columns.cache_clear()
    monkeypatch.setattr(device_offsets, "library_of", lambda x: library)
    monkeypatch.setattr(device_offsets, "lives_on_gpu", torch.is_tensor)
    monkeypatch.setattr(device_offsets, "call", lambda *given: 0)
    pretended_offsets.install(monkeypatch)
    yield library
    for cached in (device_segments._launch, device_rows._launch, device_rows._launch_columns):
        cached.cache_clear()


def execute(name: str, x: Any, layout: Layout, options: tuple[Any, ...], out: Any = None) -> Any:
    return cuda.execute(Call(find_operation(name), (x,), layout, options, out))[0]


def numbers(dtype: str, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(7).standard_normal(shape)).to(getattr(torch, dtype))


@pytest.mark.parametrize("variant", OWN_VARIANTS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_segments_of_every_layout(gpu: Any, operation: str, dtype: str, variant: str) -> None:
    exact = "f" in operation
    wide = numbers(dtype, 60, 3)
    offsets = torch.tensor([0, 3, 3, 40, 41, 60])
    for x in (wide[:, 0], wide.reshape(-1)[7:67], wide.flip(0)[:, 1].contiguous()):
        for edges in (offsets, offsets.int(), offsets.repeat_interleave(2)[::2]):
            options = (torch.float64,) if exact else (None, variant, None, 64, None, None, None)
            found = execute(operation, x, Ragged(edges), options)
            named = {"dtype": "float64"} if exact else {"variant": variant, "block": 64}
            expected = OPERATIONS[operation](host_view(x), offsets.numpy(), **named)
            assert np.array_equal(host_view(found), expected, equal_nan=True)
    out = torch.zeros(5)
    whole = (None,) if exact else (None, variant, None, None, None, None, None)
    named = {} if exact else {"variant": variant}
    assert execute(operation, wide[:, 0], Ragged(offsets, False), whole, out) is out
    expected = OPERATIONS[operation](host_view(wide[:, 0]), offsets.numpy(), dtype="float32", **named)
    assert np.array_equal(host_view(out), expected, equal_nan=True)


@pytest.mark.parametrize("operation", ["fsum", "fmean"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_every_layout(gpu: Any, operation: Any, dtype: str) -> None:
    whole = numbers(dtype, 6, 5, 8)
    many = numbers(dtype, *(2,) * 10).permute(*range(9, -1, -1))  # more dimensions than kernels take
    for x in (whole, whole.permute(2, 0, 1), whole[:, :3], whole[::2], whole[:1], whole[:, :, :0], many):
        for axes in ((0,), (2,), (1, 2), (0, 1, 2), (0, 2), ()):
            found = execute(operation, x, Along(axes, True), (None,))
            expected = getattr(tcu, operation)(host_view(x), axes, keepdims=True)
            assert np.array_equal(host_view(found), expected, equal_nan=True), (x.shape, axes)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_columns_are_not_copied(gpu: Any, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    whole = numbers(dtype, 6, 5, 8)
    monkeypatch.setattr(type(gpu), "ordered", lambda *given: pytest.fail("the array was copied"))
    for x, ways in (
        (whole, [(0,), (1,), (0, 1)]),
        (whole[:, :, 1:], [(1,), (0, 1)]),
        (whole[:, ::2, 3:], [(1,)]),
        (whole[::2], [(0,), (1,)]),
    ):
        for axes in ways:
            found = execute("fsum", x, Along(axes, False), (None,))
            assert np.array_equal(host_view(found), tcu.fsum(host_view(x), axes)), (x.shape, axes)


def test_what_is_refused(gpu: Any) -> None:
    x, offsets = numbers("float32", 60), torch.tensor([0, 20, 60])
    plain = (None, "short-chain", None, None, None, None, None)
    with pytest.raises(
        ParameterError, match="variant='single-pass' with segments on a GPU: leave variant out"
    ):
        execute("sum", x, Ragged(offsets), (None, "single-pass", *plain[2:]))
    with pytest.raises(ParameterError, match="offsets end at 60, and x has 59 elements"):
        execute("sum", x[:59], Ragged(offsets), plain)
    for out in (torch.zeros(3), torch.zeros(4)[::2]):
        with pytest.raises(ParameterError, match="give a contiguous array of shape"):
            execute("sum", x, Ragged(offsets), plain, out)
    with pytest.raises(ParameterError, match=r"computes .* otherwise than V100"):
        execute("sum", x.half(), Ragged(offsets), ("V100", *plain[1:]))
    assert execute("sum", x[:0], Ragged(torch.tensor([0])), plain).shape == (0,)


# The room of a launch.


H200 = Gpu(0, "H200", (9, 0))


@pytest.fixture(autouse=True)
def multiprocessors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gpu, "multiprocessors", 132)


def recipe_of(n: int, count: int, dtype: str, gpu: Gpu = H200, **options: Any) -> Recipe:
    fmt = get_format(dtype)
    return segments.segments_recipe(n, count, fmt, fmt, gpu, **options)


def short_of(recipe: Recipe) -> KernelChoice:
    """The kernel that goes through all segments."""
    return next(each for each in recipe.kernels if each.source in ("segments", "short_segments"))


RESTS = {False: "queue.slots", True: "limbs"}
"""What lies behind the items and their counts."""


def items_of(length: int, size: int, exact: bool, group: int) -> int:
    chunk = loads_of(length, group) * group
    if exact:
        chunk = exact_segments._LEAST_PART // size
        while 2 * chunk <= exact_segments.MOST_PART and length > exact_segments._MOST_PARTS * chunk:
            chunk *= 2
    return -(-length // chunk)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exact", [False, True])
def test_there_is_room_for_every_list(dtype: str, exact: bool) -> None:
    """As many segments of one length as there are elements for, and the shortest long ones with the rest."""
    fmt = get_format(dtype)
    size = fmt.dtype.itemsize
    per_load = 16 // size
    for n in (1, 5000, 10**6 + 7, 1 << 30):
        for count in sorted({1, 10, n // 3000 + 1, n}):
            for block in (256,) if exact else (256, 32):
                if exact:
                    recipe = exact_segments.exact_segments_recipe(n, count, fmt, fmt, H200)
                    most = recipe.kernels[0].problem.most
                    assert most * size >= exact_segments._LEAST_PART  # each long segment has several parts
                else:
                    recipe = recipe_of(n, count, dtype, block=block)
                    macros = short_of(recipe).macros
                    most = 8 * 32 * per_load if block == 256 else 0
                    if most and dtype == "float16" and "FRACTION_BITS" not in macros:
                        most = 1 << 13  # exact sums need no tree of tiles
                group = block * per_load
                for length in (most + 1, 16 * group, 16 * group + 1, 8 * group + 1, 10**6, n):
                    if not most < length <= n:
                        continue
                    long = min(count, n // length)
                    more = min(count - long, (n - long * length) // (most + 1))
                    items = sum(
                        each * items_of(numbers, size, exact, group)
                        for each, numbers in ((long, length), (more, most + 1))
                    )
                    first = recipe.kernels[0] if exact else short_of(recipe)
                    (_, arrived), (_, rest) = (first.takes[at] for at in ("queue.arrived", RESTS[exact]))
                    assert arrived >= ctypes.sizeof(segments.WorkItem) * items, (n, count, length, block)
                    assert rest >= arrived + 4 * items
                    assert len(recipe.kernels) == (4 if not exact and first.problem.listed else 2)
                assert block == 32 or 8 * recipe.room < n * size // 10 + 4096


def test_warps_have_enough_to_do_and_not_too_much() -> None:
    """Where there are many, the first ones have four times as many segments as the others, and four fifths of all."""
    for n, count, at_once, each, first, warps in (
        (1 << 28, 1 << 27, 32, 512, 52_428, 104_860),
        (1 << 28, 1 << 24, 32, 256, 13_107, 26_215),
        (1 << 28, 1 << 21, 32, 32, 13_107, 26_215),
        (1 << 28, 1 << 20, 16, 16, 13_107, 26_215),
        (1 << 28, 1 << 18, 8, 8, 0, 1 << 15),
        (100, 10, 8, 8, 0, 2),
        (0, 0, 8, 8, 0, 1),
    ):
        choice = short_of(recipe_of(n, count, "float64"))
        problem, macros = choice.problem, choice.macros
        assert (macros["AT_ONCE"], macros["MORE"]) == (at_once, 4), (n, count)
        assert (problem.per_warp, problem.first) == (each, first), (n, count)
        assert choice.blocks == warps, (n, count)  # a warp each
        # All segments are somebody's.
        assert 0 <= count - 4 * each * first <= each * (warps - first), (n, count)


def test_long_segments_may_be_listed_ahead_of_much() -> None:
    """On GPUs whose launches overlap, of many segments that may be long and are not short on average, by the usual plan.

    All kernels then prefer as much shared memory, or they would not run beside each other.
    """
    usual: dict[str, Any] = {"n": 1 << 25, "count": 1 << 13, "dtype": "float16", "gpu": H200, "block": 256}
    for change, listed in (
        ({}, True),
        ({"dtype": "float64"}, True),
        ({"count": 1 << 20}, True),
        ({"count": 1 << 22}, False),
        ({"count": 1 << 22, "dtype": "bfloat16"}, False),
        ({"count": 1 << 22, "dtype": "float64"}, True),
        ({"n": 1 << 24}, False),
        ({"count": (1 << 13) - 1}, False),
        ({"block": 128}, False),
        ({"gpu": Gpu(0, "A100", (8, 0))}, False),
    ):
        kernels = recipe_of(**(usual | change)).kernels
        assert len(kernels) == (4 if listed else 2), change
        assert [each.source for each in kernels[-2:]] in (
            ["segments", "long_chunks"], ["segments", "long_segments"], ["short_segments", "long_chunks"]
        )  # fmt: skip
        assert kernels[-2].problem.listed == listed, change
        longs = [each.problem.early for each in kernels if each.source.startswith("long")]
        assert longs == ([True, False] if listed else [False])
        assert {each.prefers_shared for each in kernels} == {listed}, change


def test_short_segments_have_a_kernel_where_the_unit_adds_so() -> None:
    """Up to 32 bits, short on average, by the plan of one block, and of binary16 a unit that adds 16 numbers at once, or no unit."""
    usual: dict[str, Any] = {"n": 1 << 20, "count": 1 << 17, "dtype": "float16", "gpu": H200, "block": 256}
    for change, fraction in (
        ({"gpu": Gpu(0, "a GPU to come", (99, 0))}, 25),
        ({"gpu": Gpu(0, "A100", (8, 0))}, None),
        ({"dtype": "bfloat16"}, 25),
        ({"dtype": "float32", "count": 1 << 18}, 41),
        ({"dtype": "float64"}, None),
        ({"block": 128}, None),
    ):
        assert recipe_of(**(usual | change)).kernels[0].macros.get("FRACTION_BITS") == fraction, change
    usual["mmas"] = True
    for change, fraction in (
        ({}, 25),
        ({"gpu": Gpu(0, "B200", (10, 0))}, 25),
        ({"n": 0, "count": 1}, 25),
        ({"count": 52_429}, 25),
        ({"count": 52_428}, None),
        ({"dtype": "bfloat16"}, None),
        ({"dtype": "float32"}, None),
        ({"block": 128}, None),
        ({"gpu": Gpu(0, "A100", (8, 0))}, None),
        ({"gpu": Gpu(0, "T4", (7, 5))}, None),
        ({"gpu": Gpu(0, "a GPU to come", (99, 0))}, None),
    ):
        macros = recipe_of(**(usual | change)).kernels[0].macros
        assert macros.get("FRACTION_BITS") == fraction, change
        assert ("AT_ONCE" in macros) == (fraction is None), change


def test_numbers_are_added_in_any_order_where_the_unit_does() -> None:
    """Those of 16 bits, by a unit whose MMA adds all 16 of a row at once; and where binary64 additions are exact."""
    for n, dtype, permuted_k in (
        (1 << 20, "float16", 1),
        ((1 << 32) + 1, "float16", 0),
        (1 << 20, "bfloat16", 0),
    ):
        for gpu in (H200, Gpu(0, "a GPU to come", (99, 0))):
            assert short_of(recipe_of(n, n >> 7, dtype, gpu)).macros["PERMUTED_K"] == permuted_k, (n, dtype)
    for dtype, gpu, permuted_k in (
        ("float16", H200, 1),
        ("bfloat16", H200, 1),
        ("float32", H200, 0),
        ("float64", H200, 0),
        ("bfloat16", Gpu(0, "B200", (10, 0)), 1),
        ("bfloat16", Gpu(0, "A100", (8, 0)), 0),
        ("bfloat16", Gpu(0, "T4", (7, 5)), 0),
        ("float16", Gpu(0, "a GPU to come", (99, 0)), 0),
    ):
        macros = short_of(recipe_of(1 << 20, 1 << 13, dtype, gpu, mmas=True)).macros
        assert macros["PERMUTED_K"] == permuted_k, (dtype, gpu)
