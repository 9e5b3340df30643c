"""Contract: a call on tensors in a GPU's memory that is like one before finds its launch again, and nothing else.

What a launch depends on tells calls apart: another shape, layout, alignment,
dtype, operation or option is another call, as often as they take turns.  What
is copied first is copied again; what cannot be found goes the long way; errors
stay.

The GPU is a pretended one, of PyTorch's tensors on the host and of launches
that compute by the model what they were made for, and look at the addresses
that they are given.  tests/test_gpu_torch.py has the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pretended_offsets
import pytest
from bits import same

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats import get_format
from tcu.formats.tensor import host_view
from tcu.gpu import Gpu

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)

import test_device_scans as scans_on_paper  # noqa: E402
import test_device_segment_sums as segments_on_paper  # noqa: E402
from test_device_scans import memory  # noqa: E402

import tcu.gpu.device  # noqa: E402
from tcu.engines.cuda import offsets as device_offsets  # noqa: E402
from tcu.engines.cuda import rows as device_rows  # noqa: E402
from tcu.engines.cuda import scans as device_scans  # noqa: E402
from tcu.engines.cuda import segments as device_segments  # noqa: E402
from tcu.engines.cuda import sums as device_sums  # noqa: E402
from tcu.ops import SUM, Call, find_operation  # noqa: E402
from tcu.ops.layout import WHOLE, Along, Layout, Ragged  # noqa: E402
from tcu.ops.request import Request  # noqa: E402
from tcu.surfaces.torch import launch_cache, unwatched  # noqa: E402

DTYPES = ("float16", "bfloat16", "float32", "float64")
PLAN = ("H100", "short-chain", None, None, None, None)
SHAPES = ((6, 8), (8, 6), (2, 3, 8), (48,), (1, 48))
OFFSETS = ((0, 3, 3, 40, 48), (0, 48), (0, 0, 48), (0, 20, 30, 41, 48))
STREAM = 5


class RowSums:
    """The launch of sums of rows."""

    room = 0

    def __init__(
        self, plan: Any, rows: int, stride: int, aligned: bool, target: Any, gpu: Any, divisor: float
    ) -> None:
        self.given = plan, rows, stride, aligned, target
        self.function = tcu.sum if divisor == 1 else tcu.mean

    def start(self, x: int, _: int, out: int, stream: int) -> None:
        plan, rows, stride, aligned, target = self.given
        assert stream == STREAM
        dtype = get_format(plan.input).dtype
        starts = x + dtype.itemsize * stride * np.arange(rows)
        assert aligned == (not (starts[:2] % 16).any())
        for i, start in enumerate(starts.tolist()):
            row = memory(start, plan.n, dtype)
            total = self.function(row, unit="H100", chain=plan.chain, block=plan.block, dtype=target.dtype)
            memory(out + target.dtype.itemsize * i, 1, target.dtype)[...] = total


class ColumnSums:
    """The launch of sums of columns, which has room for the sums of chunks."""

    room = 5

    def __init__(self, plan: Any, columns: Any, aligned: bool, target: Any, gpu: Any, divisor: float) -> None:
        self.given = plan, columns, aligned, target
        self.function = tcu.sum if divisor == 1 else tcu.mean

    def start(self, x: int, _: int, out: int, stream: int, room: int) -> None:
        plan, columns, aligned, target = self.given
        assert stream == STREAM
        assert aligned == (x % 16 == 0)
        memory(room, self.room, np.dtype(np.float64))[...] = np.nan
        dtype = get_format(plan.input).dtype
        for i in range(columns.outer):
            firsts = [
                x + dtype.itemsize * (i * columns.outer_stride + j * columns.stride) for j in range(plan.n)
            ]
            steps = np.array([memory(first, columns.inner, dtype) for first in firsts])
            sums = self.function(steps, axis=0, unit="H100", block=plan.block, dtype=target.dtype)
            place = out + target.dtype.itemsize * i * columns.inner
            memory(place, columns.inner, target.dtype)[...] = sums


class Library(scans_on_paper.Pretended):  # type: ignore[misc]
    """Counts how often it is asked where an array lies, offsets apart."""

    asked = 0

    def ordinal(self, label: str, array: Any) -> int:
        return int(array.get_device())  # -1 on the host

    def view(self, label: str, array: Any, stream: int) -> Any:
        self.asked += label == "x"
        return super().view(label, array, stream)


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    library = Library()
    state = SimpleNamespace(library=library, capturing=0, waited=0)
    caches = (device_rows._launch, device_rows._launch_columns, device_segments._launch,
              device_scans._launch, device_scans._column_launch, device_scans._segment_launch)  # fmt: skip
    for module in (device_sums, device_rows, device_scans, device_segments):
        monkeypatch.setattr(module, "home_of", lambda given, out=None: (library, -1))
        monkeypatch.setattr(module, "find_gpu", lambda ordinal: Gpu(0, "H100", (9, 0)))
    for module in (device_sums, device_rows, device_scans, device_segments, tcu.gpu.device):
        monkeypatch.setattr(module, "current", lambda ordinal: contextlib.nullcontext())
    for module, name, launch in (
        (device_rows, "rows_recipe", RowSums),
        (device_rows, "columns_recipe", ColumnSums),
        (device_rows, "exact_recipe", segments_on_paper.Whole),
        (device_rows, "exact_rows_recipe", segments_on_paper.exact_rows),
        (device_rows, "exact_columns_recipe", segments_on_paper.exact_columns),
        (device_segments, "exact_segments_recipe", segments_on_paper.Exact),
        (device_segments, "segments_recipe", segments_on_paper.Launch),
        (device_scans, "scan_recipe", scans_on_paper.Rows),
        (device_scans, "column_scan_recipe", scans_on_paper.Down),
        (device_scans, "segment_scan_recipe", scans_on_paper.Segments),
    ):
        monkeypatch.setattr(module, name, launch)
        monkeypatch.setattr(module, "Launch", lambda launch, gpu: launch)
    monkeypatch.setattr(device_offsets, "library_of", lambda x: library)
    monkeypatch.setattr(device_offsets, "lives_on_gpu", torch.is_tensor)
    monkeypatch.setattr(device_offsets, "call", lambda name, *given: state.capturing)
    pretended_offsets.install(monkeypatch, state)
    monkeypatch.setattr(launch_cache, "_current_gpu", lambda: -1)  # as a tensor on the host says
    monkeypatch.setattr(launch_cache, "_raw_stream", lambda ordinal: STREAM)
    monkeypatch.setattr(launch_cache, "_capturing", lambda: state.capturing)
    monkeypatch.setattr(
        launch_cache, "_empty", lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype)
    )
    monkeypatch.setattr(launch_cache, "_calls", {})
    for cache in caches:
        cache.cache_clear()
    yield state
    for cache in caches:
        cache.cache_clear()


def quickly(name: str, arrays: tuple[Any, ...], layout: Layout, options: tuple[Any, ...]) -> Any:
    return unwatched.quickly(Call(find_operation(name), arrays, layout, options))


def along(name: str, x: Any, axis: Any, keepdims: bool = False, **options: Any) -> Any:
    given = {"block": None, "dtype": None, **options}
    exact = (given["dtype"],)
    plan = (*PLAN[:3], given["block"], *PLAN[4:], given["dtype"])
    return quickly(name, (x,), Along(axis, keepdims), exact if name[0] == "f" else plan)


def cumsum(x: Any, axis: Any, exclusive: bool = False, reverse: bool = False, dtype: Any = None) -> Any:
    return quickly("cumsum", (x,), Along(axis), scans_on_paper.request(exclusive, reverse, dtype))


def segments(name: str, x: Any, offsets: Any, check: bool = False, dtype: Any = None) -> Any:
    options = (
        scans_on_paper.request(False, False, dtype)
        if name == "cumsum"
        else (dtype,)
        if name[0] == "f"
        else (*PLAN, dtype)
    )
    return quickly(name, (x,), Ragged(offsets, check), options)


def numbers(dtype: str, count: int, seed: int = 7) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(count)).to(getattr(torch, dtype))


def same_tensor(found: Any, expected: Any) -> None:
    assert type(found) is torch.Tensor
    assert found.is_contiguous()
    same(found, np.asarray(expected))


CALLS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sum": (lambda x: along("sum", x, -1), lambda x: tcu.sum(x, -1)),
    "mean of columns": (lambda x: along("mean", x, (0,)), lambda x: tcu.mean(x, 0)),
    "fsum": (lambda x: along("fsum", x, 1, True), lambda x: tcu.fsum(x, 1, keepdims=True)),
    "fmean of all": (lambda x: along("fmean", x, None, True), lambda x: tcu.fmean(x, keepdims=True)),
    "cumsum": (lambda x: cumsum(x, None, True), lambda x: tcu.cumsum(x, exclusive=True)),
    "cumsum of rows": (lambda x: cumsum(x, 1, False, True), lambda x: tcu.cumsum(x, 1, reverse=True)),
    "segment_sum": (
        lambda x: segments("sum", x.reshape(-1), torch.tensor(OFFSETS[0])),
        lambda x: tcu.segment_sum(x.reshape(-1), OFFSETS[0]),
    ),
    "segment_fmean": (
        lambda x: segments("fmean", x.reshape(-1), torch.tensor(OFFSETS[0])),
        lambda x: tcu.segment_fmean(x.reshape(-1), OFFSETS[0]),
    ),
    "segment_cumsum": (
        lambda x: segments("cumsum", x.reshape(-1), torch.tensor(OFFSETS[0])),
        lambda x: tcu.segment_cumsum(x.reshape(-1), OFFSETS[0]),
    ),
    "fsum of columns": (lambda x: along("fsum", x, 0), lambda x: tcu.fsum(x, 0)),
    "sum of rows with gaps": (lambda x: along("sum", x[:, ::2], -1), lambda x: tcu.sum(x[:, ::2], -1)),
    "sum of three axes": (
        lambda x: along("sum", x.reshape(2, 3, 8), (0, 2)),
        lambda x: tcu.sum(x.reshape(2, 3, 8), (0, 2)),
    ),
    "cumsum of columns": (lambda x: cumsum(x, 0), lambda x: tcu.cumsum(x, 0)),
    "cumsum amid": (lambda x: cumsum(x.reshape(2, 3, 8), 1), lambda x: tcu.cumsum(x.reshape(2, 3, 8), 1)),
    "cumsum of a transposed": (lambda x: cumsum(x.T, 0), lambda x: tcu.cumsum(x.T, 0)),
    "cumsum of all, with gaps": (lambda x: cumsum(x[:, ::3], None), lambda x: tcu.cumsum(x[:, ::3])),
    "segment_sum of a column": (
        lambda x: segments("sum", x[:, 3], torch.tensor([0, 2, 6])),
        lambda x: tcu.segment_sum(x[:, 3], [0, 2, 6]),
    ),
    "segment_cumsum of a column": (
        lambda x: segments("cumsum", x[:, 3], torch.tensor([0, 2, 6])),
        lambda x: tcu.segment_cumsum(x[:, 3], [0, 2, 6]),
    ),
    "segment_sum by int32": (
        lambda x: segments("sum", x.reshape(-1), torch.tensor(OFFSETS[0]).int()),
        lambda x: tcu.segment_sum(x.reshape(-1), OFFSETS[0]),
    ),
    "segment_cumsum, looked at": (
        lambda x: segments("cumsum", x.reshape(-1), torch.tensor(OFFSETS[0]), True),
        lambda x: tcu.segment_cumsum(x.reshape(-1), OFFSETS[0]),
    ),
    "segment_cumsum of a line": (
        lambda x: segments("cumsum", x.reshape(-1), torch.tensor(OFFSETS[1])),
        lambda x: tcu.segment_cumsum(x.reshape(-1), OFFSETS[1]),
    ),
}
every_call = pytest.mark.parametrize("name", CALLS)


@every_call
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_second_call_of_a_kind_asks_nobody(gpu: Any, name: str, dtype: str) -> None:
    function, model = CALLS[name]
    for seed in range(3):
        x = numbers(dtype, 48, seed).reshape(6, 8)
        same_tensor(function(x), model(host_view(x)))
        if seed == 0:
            asked = gpu.library.asked
            assert asked
    assert gpu.library.asked == asked
    assert len(launch_cache._calls) == 1


def test_calls_of_all_kinds_that_take_turns() -> None:
    rng = np.random.default_rng(1)
    rooms = {dtype: numbers(dtype, 160) for dtype in DTYPES}
    for _ in range(3000):
        dtype, target = DTYPES[rng.integers(2)], [None, "float64"][rng.integers(2)]
        shape = SHAPES[rng.integers(len(SHAPES))]
        shift, step = int(rng.integers(3)), int(rng.integers(1, 4))
        if rng.integers(2):  # with gaps between rows, or between numbers
            x = rooms[dtype][shift:].as_strided(
                (*shape[:-1], shape[-1]), (17, 1) if len(shape) == 2 else (step,) * len(shape)
            )
        else:
            x = rooms[dtype][shift : shift + 48].reshape(shape)
        if rng.integers(4) == 0:
            x = x.transpose(0, -1)
        host = host_view(x)
        axis, flag = int(rng.integers(-len(shape), len(shape))), bool(rng.integers(2))
        which = rng.integers(4)
        if which == 0:
            name, block = str(rng.choice(["sum", "mean"])), [None, 64][rng.integers(2)]
            expected = getattr(tcu, name)(host, axis, keepdims=flag, unit="H100", block=block, dtype=target)
            same_tensor(along(name, x, axis, flag, block=block, dtype=target), expected)
        elif which == 1:
            name = str(rng.choice(["fsum", "fmean"]))
            expected = getattr(tcu, name)(host, axis, keepdims=flag, dtype=target)
            same_tensor(along(name, x, axis, flag, dtype=target), expected)
        elif which == 2:
            back, where = bool(rng.integers(2)), [None, axis][rng.integers(2)]
            expected = tcu.cumsum(host, where, exclusive=flag, reverse=back, dtype=target)
            same_tensor(cumsum(x, where, flag, back, target), expected)
        else:
            edges = OFFSETS[rng.integers(len(OFFSETS))]
            name = str(rng.choice(["sum", "mean", "fsum", "fmean", "cumsum"]))
            line = x if x.dim() == 1 else rooms[dtype][shift : shift + 48 * step : step]
            expected = getattr(tcu, f"segment_{name}")(host_view(line), edges, dtype=target)
            offsets = torch.tensor(edges, dtype=[torch.int32, torch.int64][rng.integers(2)])
            same_tensor(segments(name, line, offsets, flag, target), expected)


ROW = numbers("float32", 100)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: along("sum", x[1:], -1), lambda x: along("sum", x[:, 4:], -1), lambda x: along("sum", x.double(), -1),
        lambda x: along("sum", x.reshape(8, 6), -1), lambda x: along("sum", x, 0), lambda x: along("sum", x, -1, True),
        lambda x: along("sum", x.as_strided((6, 8), (9, 1)), -1), lambda x: along("mean", x, -1),
        lambda x: along("sum", x, -1, dtype="float64"), lambda x: along("sum", x, -1, block=64),
        lambda x: along("sum", x.as_strided((6, 8), (8, 1), 1), -1), lambda x: cumsum(x, -1),
        lambda x: segments("sum", x.reshape(-1), torch.tensor(OFFSETS[0])),
    ],
)  # fmt: skip
def test_what_a_launch_depends_on_tells_calls_apart(gpu: Any, other: Callable[[Any], Any]) -> None:
    x = ROW[:48].reshape(6, 8)
    along("sum", x, -1)
    asked = gpu.library.asked
    other(x)
    assert gpu.library.asked > asked
    asked = gpu.library.asked
    along("sum", x, -1)
    other(x)
    assert gpu.library.asked == asked


def test_negative_views_go_the_long_way(gpu: Any) -> None:
    x = ROW[:48].reshape(6, 8)
    negative = torch._neg_view(x)
    for function, expected in (
        (lambda: along("sum", negative, -1), tcu.sum(-host_view(x), -1)),
        (lambda: along("fsum", negative, 0), tcu.fsum(-host_view(x), 0)),
        (lambda: cumsum(negative, -1), tcu.cumsum(-host_view(x), -1)),
        (
            lambda: segments("sum", negative[0], torch.tensor([0, 2, 8])),
            tcu.segment_sum(-host_view(x)[0], [0, 2, 8]),
        ),
    ):
        for _ in range(3):
            asked = gpu.library.asked
            same_tensor(function(), expected)
            assert gpu.library.asked > asked
    assert not launch_cache._calls


@every_call
@pytest.mark.parametrize("reason", ["another GPU is current", "no context is current", "no alignment"])
def test_a_launch_that_cannot_be_is_made_the_long_way(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    function, model = CALLS[name]
    x = ROW[:48].reshape(6, 8)
    function(x)
    (call,) = launch_cache._calls.values()
    if reason == "another GPU is current":
        monkeypatch.setattr(launch_cache, "_current_gpu", lambda: 3)
    elif reason == "no context is current":

        def fail(*_: Any) -> None:
            raise RuntimeError(reason)

        call._start = fail
    else:
        monkeypatch.setattr(
            launch_cache, "_empty", lambda shape, strides, dtype: torch.empty(99, dtype=dtype)[1:].as_strided(shape, strides)
        )  # fmt: skip
    asked = gpu.library.asked
    same_tensor(function(x), model(host_view(x)))
    assert gpu.library.asked > asked


def test_no_more_calls_are_kept_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_cache, "_MOST", 3)
    for n in range(1, 9):
        cumsum(ROW[:n], None)
        assert 0 < len(launch_cache._calls) <= 3


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_errors_stay() -> None:
    x = ROW[:48].reshape(6, 8)
    for function in (lambda axis: along("sum", x, axis), lambda axis: cumsum(x, axis)):
        function(1)
        for axis, message in (
            (True, "axis=True: give a whole number"),
            (2, "axis 2 of an array with 2 axes"),
        ):
            with pytest.raises(ParameterError, match=message):
                function(axis)
    for function in (lambda **given: along("sum", x, -1, **given), lambda **given: along("fsum", x, -1, **given),
                     lambda **given: cumsum(x, -1, **given),
                     lambda **given: segments("sum", x[0], torch.tensor([0, 8]), **given),
                     lambda **given: segments("cumsum", x[0], torch.tensor([0, 8]), **given)):  # fmt: skip
        function()
        for dtype in ("int32", ["float32"]):  # the last of which cannot be hashed
            with pytest.raises(DtypeError, match="a result is rounded to"):
                function(dtype=dtype)
    with pytest.raises(DtypeError, match="a result is rounded to"):
        quickly("sum", (x,), WHOLE, (*PLAN, ["float32"]))
    for bad, message in (
        (x.long(), r"torch\.int64, none of float16"),
        (x.to_sparse(), "torch.sparse_coo tensor: make it dense"),
        (x.to(torch.complex64), "and only real numbers are taken"),
        (torch.nested.nested_tensor([x, x]), "nested tensor"),
    ):
        for function in (
            lambda x: along("sum", x, 0),
            lambda x: cumsum(x, 0),
            lambda x: segments("sum", x, torch.tensor([0, 6])),
        ):
            with pytest.raises(DtypeError, match=message):
                function(bad)
    with pytest.raises(ShapeError, match="segments are cut from one line"):
        segments("sum", x, torch.tensor([0, 6]))


@pytest.mark.parametrize("wrong", [64.0, True])
def test_what_equals_a_block_is_none(wrong: Any) -> None:
    """Whatever was asked before."""
    x = torch.ones(3, 40)
    for block in (64, None):
        along("sum", x, -1, block=block)
    with pytest.raises(ParameterError, match="choose a whole number"):
        along("sum", x, -1, block=wrong)
    assert Request(SUM, block=64) != Request(SUM, block=64.0)  # type: ignore[arg-type]


def test_address_0_is_not_read() -> None:
    """What has no memory has the layout and the alignment of what has."""
    x, offsets = ROW[:48].reshape(6, 8).clone(), torch.tensor(OFFSETS[0])
    functions = (
        lambda: along("sum", x, -1), lambda: along("fsum", x, 0), lambda: cumsum(x, -1),
        lambda: segments("sum", x.reshape(-1), offsets), lambda: segments("cumsum", x.reshape(-1), offsets),
    )  # fmt: skip
    for function in functions:
        function()
    offsets.untyped_storage().resize_(0)
    for check in (False, True):
        with pytest.raises(ParameterError, match="offsets has 5 elements and no memory"):
            segments("sum", x.reshape(-1), offsets, check)
    x.untyped_storage().resize_(0)
    for function in functions:
        with pytest.raises(ParameterError, match="x has 48 elements and no memory"):
            function()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_a_whole_tensor_that_has_no_numbers_of_its_own_finds_no_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def again(key: Any, *_: Any) -> None:
        assert key is None, "looked for a launch"

    monkeypatch.setattr(launch_cache, "again", again)
    x, freed = ROW[:48], ROW[:48].clone()
    freed.untyped_storage().resize_(0)
    nested = torch.nested.nested_tensor([ROW[:6], ROW[:42]])
    for bad, error, message in (
        (freed, ParameterError, "has 48 elements and no memory"),
        (nested, DtypeError, "is a nested tensor"),
    ):
        for operation, arrays, options in (
            ("sum", (bad,), (*PLAN, None)), ("fdot", (bad, x), (None,)), ("fdot", (x, bad), (None,)),
        ):  # fmt: skip
            with pytest.raises(error, match=message):
                quickly(operation, arrays, WHOLE, options)


@pytest.mark.parametrize("name", ["sum", "fmean", "cumsum"])
def test_the_callers_offsets_on_the_host_are_read_before_the_call_returns(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They may lie in pinned memory, which a GPU reads when it comes to it."""
    sources: list[int] = []

    def call(function: str, *given: int) -> int:
        if function == "cuMemcpyHtoDAsync":
            ctypes.memmove(*given[:3])
            sources.append(given[1])
        return 0

    monkeypatch.setattr(device_offsets, "call", call)
    x, offsets = ROW[:48], np.array(OFFSETS[0])
    for seen in range(1, 4):
        same_tensor(segments(name, x, offsets), getattr(tcu, f"segment_{name}")(host_view(x), offsets))
        assert len(sources) == seen
    assert offsets.ctypes.data not in sources


@pytest.mark.parametrize("name", ["sum", "fmean", "cumsum"])
@pytest.mark.parametrize("few", [True, False])
def test_offsets_are_looked_at_whenever_asked_for(gpu: Any, name: str, few: bool) -> None:
    """Many offsets before the sums by them; few, or what is copied, by a copy that is harmless."""
    gpu.few = few
    x = ROW[:48]
    model = getattr(tcu, f"segment_{name}")
    good, bad = torch.tensor(OFFSETS[0]), torch.tensor([0, 3, 2, 40, 48])
    spread = torch.stack([good, bad], 1)
    segments(name, x, good)
    asked = gpu.library.asked
    for offsets in (good, good.int(), spread[:, 0], torch._neg_view(-good)):
        for check in (False, True):
            waited = gpu.waited
            same_tensor(segments(name, x, offsets, check), model(host_view(x), OFFSETS[0]))
            assert gpu.waited == waited + check
    for offsets in (bad, bad.int(), spread[:, 1]):
        with pytest.raises(ParameterError, match="offsets decrease from 3 to 2 at index 2"):
            segments(name, x, offsets, True)
    with pytest.raises(ParameterError, match="offsets end at 48, and x has 47 elements"):
        segments(name, x[:47], good, True)
    assert gpu.asked == 0
    with pytest.raises(DtypeError, match="offsets has dtype float32"):
        segments(name, x, good.float())
    assert gpu.library.asked == asked + 1  # of 47 numbers
    gpu.capturing = 1
    with pytest.raises(ParameterError, match="while a graph is captured, offsets cannot be looked at"):
        segments(name, x, good, True)
    asked = gpu.library.asked
    same_tensor(segments(name, x, good), model(host_view(x), OFFSETS[0]))
    assert gpu.library.asked == asked
    gpu.capturing = 0
    for offsets, error, message in (
        (good.reshape(1, 5), ShapeError, r"offsets has shape \(1, 5\)"),
        (good[:0], ShapeError, "offsets is empty"),
    ):
        with pytest.raises(error, match=message):
            segments(name, x, offsets)


def known(call: Call) -> Any:
    """Asked as the functions ask."""
    x, other, axis, check = call.arrays[0], call.arrays[-1], None, False
    keepdims: bool | None = False
    if isinstance(call.layout, Ragged):
        keepdims, (other, check) = None, call.layout
    elif isinstance(call.layout, Along):
        axis, keepdims = call.layout
    return launch_cache.known(call.operation, x, other, axis, keepdims, call.options, check)


@pytest.fixture
def by_shortcut(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls as the public functions make them, by the shortcut first; counts the keys that are made."""
    state, key_of = SimpleNamespace(keys=0), launch_cache.key_of

    def counted(*given: Any) -> Any:
        state.keys += 1
        return key_of(*given)

    def call(name: str, arrays: tuple[Any, ...], layout: Layout, options: tuple[Any, ...]) -> Any:
        given = Call(find_operation(name), arrays, layout, options)
        found = known(given)
        if found is None:
            found = launch_cache.shortcut(*given[:4])
        return unwatched.quickly(given) if found is None else found

    monkeypatch.setattr(launch_cache, "_on_gpu", torch.is_tensor)
    monkeypatch.setattr(launch_cache, "key_of", counted)
    monkeypatch.setitem(globals(), "quickly", call)
    return state


@every_call
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_call_of_the_same_place_needs_no_key_unless_it_is_copied(
    by_shortcut: Any, name: str, dtype: str
) -> None:
    function, model = CALLS[name]
    for seed in range(4):
        x = numbers(dtype, 48, seed).reshape(6, 8)
        before = by_shortcut.keys
        same_tensor(function(x), model(host_view(x)))
    copied = any(call._order or call._back for call in launch_cache._calls.values())
    assert (by_shortcut.keys > before) == (copied or name == "segment_sum by int32")


def test_places_that_take_turns(by_shortcut: Any) -> None:
    test_calls_of_all_kinds_that_take_turns()


def test_without_guards_every_call_is_told_by_its_key(
    by_shortcut: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_cache, "_guards", launch_cache._NoGuards)
    x = ROW[:48].reshape(6, 8)
    for made in range(3, 6):
        same_tensor(along("sum", x, -1), tcu.sum(host_view(x), -1))
        assert by_shortcut.keys == made - 1


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_errors_stay_at_places_that_are_known(by_shortcut: Any) -> None:
    test_errors_stay()
    x = ROW[:48].reshape(6, 8)
    for _ in range(3):
        along("sum", x, (0, 1))
    with pytest.raises(ParameterError, match=r"axis=\(0, True\): give a whole number"):
        along("sum", x, (0, True))
    line = x.reshape(-1)
    for _ in range(3):
        along("sum", line, None)
    with pytest.raises(DtypeError, match="offsets has dtype float32"):
        segments("sum", line, line)


class Own(torch.Tensor):  # type: ignore[misc]
    pass


OTHERS: dict[str, Callable[[Any], Any]] = {
    "another dtype": lambda x: x.double(),
    "another shape": lambda x: x.reshape(8, 6),
    "other strides": lambda x: x.reshape(8, 6).T,
    "another alignment": lambda x: torch.cat([x.new_zeros(1), x.reshape(-1)])[1:].reshape(6, 8),
    "a negative view": torch._neg_view,
    "a gradient is wanted": lambda x: x.clone().requires_grad_(),
    "a parameter that wants one": lambda x: torch.nn.Parameter(x.clone()),
    "a class of the program's own": lambda x: x.as_subclass(Own),
    "no memory": lambda x: _freed(x.clone()),
    "no strides": lambda x: x.to_sparse(),
    "no numbers": lambda x: x.to("meta"),
}


def _freed(x: Any) -> Any:
    x.untyped_storage().resize_(0)
    return x


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("axis", [-1, None])
def test_what_differs_is_not_taken_for_what_a_place_had(
    by_shortcut: Any, kind: str, axis: int | None
) -> None:
    x = ROW[:48].reshape(6, 8)
    call = Call(find_operation("fsum"), (x,), Along(axis), find_operation("fsum").defaults)
    for _ in range(3):
        result = quickly(call.operation.name, *call[1:4])
    assert by_shortcut.keys == 3
    same_tensor(known(call), result.numpy())
    for ask in (known, lambda call: launch_cache.shortcut(*call[:4])):
        assert ask(call._replace(arrays=(OTHERS[kind](x),))) is None
    same_tensor(known(call), result.numpy())


def _transformed(transform: Callable[..., Any]) -> Callable[[Callable[[], None]], Any]:
    return lambda look: transform(lambda y: (look(), (y * y).sum())[1])(torch.ones(3))


def _dual(look: Callable[[], None]) -> None:
    with torch.autograd.forward_ad.dual_level():
        look()


def _in_mode(mode: Any) -> Callable[[Callable[[], None]], Any]:
    def run(look: Callable[[], None]) -> None:
        with mode():
            look()

    return run


def _modes() -> tuple[Any, Any]:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class OfFunctions(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    class OfDispatch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    return OfFunctions, OfDispatch


def _fake(look: Callable[[], None]) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        look()


WATCHERS: dict[str, Callable[[Callable[[], None]], Any]] = {
    "vmap": _transformed(torch.func.vmap),
    "grad": _transformed(torch.func.grad),
    "jvp": lambda look: torch.func.jvp(lambda y: (look(), y)[1], (torch.ones(3),), (torch.ones(3),)),
    "functionalize": _transformed(torch.func.functionalize),
    "forward mode": _dual,
    "a mode of functions": _in_mode(_modes()[0]),
    "a mode of dispatch": _in_mode(_modes()[1]),
    "fake tensors": _fake,
}


@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script` is deprecated:DeprecationWarning"
)  # which torch.func.jvp loads
@pytest.mark.parametrize("watcher", WATCHERS)
def test_who_watches_sees_a_call_of_a_known_place(by_shortcut: Any, watcher: str) -> None:
    x, seen = ROW[:48].reshape(6, 8), []
    call = Call(find_operation("fsum"), (x,), Along(-1), find_operation("fsum").defaults)
    for _ in range(3):
        quickly(call.operation.name, *call[1:4])
    WATCHERS[watcher](lambda: seen.extend((known(call), launch_cache.shortcut(*call[:4]))))
    assert seen
    assert all(each is None for each in seen)
    assert known(call) is not None
