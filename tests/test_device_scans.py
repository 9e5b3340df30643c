"""Contract: running sums of arrays in a GPU's memory read and write the right places, whatever the layouts.

The GPU is a pretended one, of PyTorch's tensors on the host and of launches
that find rows by the addresses and distances that they are given; so every
layout of x and out is tried without one.  tests/test_gpu_scan.py has the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pretended_offsets
import pytest
from bits import same

import tcu
from tcu.engines.cuda import offsets as device_segments
from tcu.engines.cuda import scans as device_scans
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats import get_format
from tcu.formats.tensor import host_view
from tcu.gpu import arrays
from tcu.gpu.column_scan import column_scan_recipe
from tcu.gpu.device import Gpu
from tcu.gpu.scans import scan_recipe
from tcu.gpu.segment_scans import segment_scan_recipe
from tcu.ops import OPERATIONS
from tcu.ops import offsets as segments
from tcu.ops.request import ScanRequest
from tcu.plan.scan import make_scan_plan

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)

DTYPES = ("float16", "bfloat16", "float32", "float64")


def memory(address: int, count: int, dtype: Any) -> Any:
    room = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(room, np.uint8).view(dtype)


def check_places(x: Any, x_size: int, out: Any, size: int) -> None:
    """Threads come in any order, so a result may lie on its own element, but on no other."""
    if not x.size or x.max() + x_size <= out.min() or out.max() + size <= x.min():
        return
    x_bytes, out_bytes = (
        (at.reshape(-1, 1) + np.arange(width)).reshape(-1) for at, width in ((x, x_size), (out, size))
    )
    _, mine, other = np.intersect1d(x_bytes, out_bytes, return_indices=True)
    assert np.array_equal(mine // x_size, other // size), "clash"


class Rows:
    """A launch that checks what it was told and computes by the model."""

    room = 0

    def __init__(self, plan: Any, rows: int, stride_in: int, stride_out: int, aligned_in: bool, aligned_out: bool,
                 target: Any, gpu: Any, *, exclusive: bool, reverse: bool) -> None:  # fmt: skip
        self.given = plan, rows, stride_in, stride_out, aligned_in, aligned_out, target
        self.options: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse, "dtype": target.name}

    def start(self, x: int, _: int, out: int, stream: int) -> None:
        plan, rows, stride_in, stride_out, aligned_in, aligned_out, target = self.given
        element = get_format(plan.input)
        starts, places = [], []
        for aligned, at, stride, fmt in (
            (aligned_in, x, stride_in, element),
            (aligned_out, out, stride_out, target),
        ):
            size = fmt.dtype.itemsize
            starts.append(at + size * stride * np.arange(rows))
            places.append(starts[-1][:, None] + size * np.arange(plan.n))
            assert aligned == (at % 16 == 0)
        check_places(places[0], element.dtype.itemsize, places[1], target.dtype.itemsize)
        for source, goal in zip(*starts, strict=True):
            sums = tcu.cumsum(memory(int(source), plan.n, element.dtype).copy(), **self.options)
            memory(int(goal), plan.n, target.dtype)[...] = sums


class Down:
    """The same of columns."""

    room = 0

    def __init__(self, plan: Any, columns: Any, results: Any, aligned: bool, target: Any, gpu: Any,
                 *, exclusive: bool, reverse: bool) -> None:  # fmt: skip
        self.given = plan, columns, results, aligned, target
        self.options: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse, "dtype": target.name}

    def start(self, x: int, _: int, out: int, stream: int) -> None:
        plan, columns, results, aligned, target = self.given
        element = get_format(plan.input)
        assert aligned == (x % 16 == out % 16 == 0)
        indices = np.ogrid[: columns.outer, : columns.inner, : plan.n]
        numbers, goals = (
            at + fmt.dtype.itemsize * (each.outer_stride * indices[0] + indices[1] + each.stride * indices[2])
            for at, each, fmt in ((x, columns, element), (out, results, target))
        )
        check_places(numbers, element.dtype.itemsize, goals, target.dtype.itemsize)
        for source, goal in zip(numbers.reshape(-1, plan.n), goals.reshape(-1, plan.n), strict=True):
            given = np.concatenate([memory(int(at), 1, element.dtype) for at in source])
            for at, each in zip(goal, tcu.cumsum(given, **self.options), strict=True):
                memory(int(at), 1, target.dtype)[0] = each
        DOWN.append(columns)


DOWN: list[Any] = []
"""Columns that have been scanned where they lie."""


class Segments:
    room = 0

    def __init__(
        self, n: int, segments: int, element: Any, target: Any, gpu: Any, *, exclusive: bool, reverse: bool
    ) -> None:
        self.n, self.element, self.target, self.count = n, element, target, segments
        self.options: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse, "dtype": target.name}

    def start(self, x: int, offsets: int, out: int, stream: int) -> None:
        edges = memory(offsets, self.count + 1, np.dtype(np.int64))
        assert edges[-1] <= self.n
        check_places(
            x + self.element.dtype.itemsize * np.arange(edges[-1]), self.element.dtype.itemsize,
            out + self.target.dtype.itemsize * np.arange(edges[-1]), self.target.dtype.itemsize,
        )  # fmt: skip
        numbers = memory(x, int(edges[-1]), self.element.dtype).copy()
        memory(out, int(edges[-1]), self.target.dtype)[...] = tcu.segment_cumsum(
            numbers, edges, **self.options
        )


class Pretended(type(arrays._TORCH)):  # type: ignore[misc]
    """PyTorch's tensors on the host, as if they were on a GPU."""

    def ordinal(self, label: str, array: Any) -> int:
        return 0

    def current_stream(self, ordinal: int) -> int:
        return 5


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    library = Pretended()
    state = SimpleNamespace(library=library, capturing=0, waited=0)

    def call(name: str, *given: Any) -> Any:
        if name == "cuStreamIsCapturing":
            return state.capturing
        if name == "cuStreamSynchronize":
            state.waited += 1
            return None
        assert name == "cuMemcpyHtoDAsync"
        address, source, size, stream = given
        assert stream == 5
        ctypes.memmove(address, source, size)
        return None

    monkeypatch.setattr(device_scans, "home_of", lambda given, out=None: (library, 0))
    monkeypatch.setattr(device_segments, "library_of", lambda x: library)
    monkeypatch.setattr(device_scans, "current", lambda ordinal: contextlib.nullcontext())
    monkeypatch.setattr(device_scans, "find_gpu", lambda ordinal: None)
    monkeypatch.setattr(device_segments, "lives_on_gpu", torch.is_tensor)
    monkeypatch.setattr(device_segments, "call", call)
    pretended_offsets.install(monkeypatch, state)
    monkeypatch.setattr(device_scans, "scan_recipe", Rows)
    monkeypatch.setattr(device_scans, "column_scan_recipe", Down)
    monkeypatch.setattr(device_scans, "segment_scan_recipe", Segments)
    monkeypatch.setattr(device_scans, "Launch", lambda launch, gpu: launch)
    for each in (device_scans._launch, device_scans._column_launch, device_scans._segment_launch):
        each.cache_clear()
    yield state
    for each in (device_scans._launch, device_scans._column_launch, device_scans._segment_launch):
        each.cache_clear()


def parameters(function: Callable[..., Any]) -> list[str]:
    """How many go by position, and the names of the others."""
    given = list(inspect.signature(function).parameters.values())
    by_name = [each.name for each in given if each.kind is each.KEYWORD_ONLY]
    return [str(len(given) - len(by_name)), *by_name]


def test_pretended_launches_take_what_the_real_ones_take() -> None:
    for pretended, real in ((Rows, scan_recipe), (Down, column_scan_recipe), (Segments, segment_scan_recipe)):
        assert parameters(pretended) == parameters(real)


def tensor(rng: Any, shape: tuple[int, ...], dtype: str, layout: int) -> Any:
    """A tensor of that shape that lies in memory in one of many ways."""
    order = [int(axis) for axis in rng.permutation(len(shape))] if layout % 2 else list(range(len(shape)))
    wide = [shape[axis] for axis in order]
    step = [1] * len(shape)
    if layout % 3 == 1 and shape:
        where = int(rng.integers(len(shape)))
        wide[where], step[where] = 2 * wide[where] + 3, 2
    room = torch.from_numpy(rng.standard_normal(int(np.prod(wide)) + layout % 5)).to(getattr(torch, dtype))
    x = room[layout % 5 :].reshape(wide)
    x = x[tuple(slice(0, s * shape[a], s) for s, a in zip(step, order, strict=True))]
    x = x.permute([order.index(axis) for axis in range(len(shape))])
    assert tuple(x.shape) == shape
    return x


def request(exclusive: bool, reverse: bool, dtype: Any) -> ScanRequest:
    given = {"exclusive": exclusive, "reverse": reverse, "dtype": dtype}
    return ScanRequest(*OPERATIONS["cumsum"].values(given))


def expected(x: Any, axis: Any, **options: Any) -> Any:
    return tcu.cumsum(host_view(x).copy(), axis, **options)


def test_every_layout_of_x_and_out() -> None:
    rng = np.random.default_rng(1)
    for case in range(600):
        shape = tuple(
            int(extent) for extent in rng.integers(0 if case % 11 == 0 else 1, 6, rng.integers(0, 5))
        )
        x = tensor(rng, shape, DTYPES[case % 4], int(rng.integers(30)))
        if case % 13 == 5 and shape:
            x = x[:1].expand(shape) if shape[0] else x
        axis = None if not shape or case % 5 == 0 else int(rng.integers(len(shape)))
        target = DTYPES[int(rng.integers(4))]
        exclusive, reverse = bool(rng.integers(2)), bool(rng.integers(2))
        wanted = expected(x, axis, exclusive=exclusive, reverse=reverse, dtype=target)
        out = None
        if case % 2:
            out = tensor(rng, wanted.shape, target, int(rng.integers(30)))
        result, info = device_scans.cumsum(x, axis, request(exclusive, reverse, target), out)
        assert out is None or result is out
        assert info.plan.n * info.rows == x.numel()
        same(result, wanted)


def test_more_dimensions_than_a_kernel_takes() -> None:
    x, out = (torch.arange(1024.0).reshape((2,) * 10).permute(*range(9, -1, -1)) for _ in range(2))
    for axis, place in ((None, None), (0, None), (4, None), (0, out), (4, out), (9, out)):
        same(device_scans.cumsum(x, axis, request(False, False, None), place)[0], expected(x, axis))


def test_in_place_and_overlapping(monkeypatch: pytest.MonkeyPatch) -> None:
    clash = device_scans._clash
    rng = np.random.default_rng(2)
    for case in range(400):
        shape = tuple(int(extent) for extent in rng.integers(1, 7, rng.integers(1, 4)))
        x = tensor(rng, shape, DTYPES[case % 4], int(rng.integers(30)))
        axis = int(rng.integers(len(shape)))
        wanted = expected(x, axis, dtype=DTYPES[case % 4])
        assert device_scans.cumsum(x, axis, request(False, False, None), x)[0] is x
        same(x, wanted)
    room = torch.from_numpy(rng.standard_normal(301))
    before = room.clone()
    for x, out in (
        (room[:-1], room[1:]),
        (room[1:], room[:-1]),
        (room[:-1].reshape(20, 15), room[:-1].reshape(15, 20).T),
        (room[:150].reshape(150, 1), room.view(torch.float32)[:300:2].reshape(150, 1)),
        (room[:150], room.view(torch.float32)[:150]),
    ):
        wanted = expected(x, x.dim() - 1, dtype=str(out.dtype).removeprefix("torch."))
        device_scans.cumsum(x, x.dim() - 1, request(False, False, None), out)
        same(out, wanted)
        room.copy_(before)
        if x.dim() == 1:
            device_scans.segment_cumsum(x, [0, 7, x.numel()], request(False, False, None), out, True)
            room.copy_(before)
            monkeypatch.setattr(device_scans, "_clash", lambda x, out: False)
            with pytest.raises(AssertionError, match="clash"):
                device_scans.cumsum(x, 0, request(False, False, None), out)
            monkeypatch.setattr(device_scans, "_clash", clash)


def test_rows_that_lie_well_are_not_copied(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("copied")

    monkeypatch.setattr(Pretended, "ordered", refuse)
    monkeypatch.setattr(Pretended, "assign", refuse)
    x = torch.ones(4, 5, 6)
    for axis in (2, None):
        device_scans.cumsum(x, axis, request(False, False, None), None)
    device_scans.cumsum(x[1:], 2, request(False, False, None), None)
    device_scans.cumsum(x.permute(2, 0, 1), 0, request(False, False, None), x.permute(2, 0, 1))
    device_scans.cumsum(x[..., None], 2, request(False, False, None), None)
    device_scans.segment_cumsum(x.reshape(-1), [0, 120], request(False, False, None), None, True)
    DOWN.clear()
    device_scans.cumsum(x, 0, request(False, False, None), None)
    device_scans.cumsum(torch.ones(4, 5, 8), 1, request(False, False, None), None)
    device_scans.cumsum(torch.ones(4, 5, 9)[:, :, 1:], 1, request(False, False, None), None)
    device_scans.cumsum(x, 1, request(False, False, None), None)  # no whole sectors, but no gaps
    assert [tuple(each) for each in DOWN] == [(1, 30, 0, 30), (4, 8, 40, 8), (4, 8, 45, 9), (4, 6, 30, 6)]
    for slim in (
        x[:, :, :5],
        torch.ones(4, 5, 16)[:, :, ::2],
    ):  # rows of less than a sector with gaps, and gaps in rows
        with pytest.raises(AssertionError, match="copied"):
            device_scans.cumsum(slim, 1, request(False, False, None), None)


def test_outs_that_do_not_fit() -> None:
    x = torch.ones(4, 5)
    with pytest.raises(
        ParameterError, match=r"out has shape \(5, 4\) and dtype float32: give an array of shape \(4, 5\)"
    ):
        device_scans.cumsum(x, 1, request(False, False, None), torch.ones(5, 4))
    with pytest.raises(
        ParameterError, match=r"dtype float32: give an array of shape \(20,\) and dtype float64"
    ):
        device_scans.cumsum(x, None, request(False, False, "float64"), torch.ones(20))
    with pytest.raises(ParameterError, match="out has several elements in one place"):
        device_scans.cumsum(x, 1, request(False, False, None), torch.ones(1, 5).expand(4, 5))
    with pytest.raises(DtypeError, match="x has dtype int32"):
        device_scans.cumsum(torch.ones(3, dtype=torch.int32), 0, request(False, False, None), None)


def test_segments_of_every_layout(gpu: Any) -> None:
    rng = np.random.default_rng(3)
    for case in range(200):
        edges = np.concatenate([[0], np.cumsum(rng.integers(0, 9, rng.integers(0, 9)))])
        x = tensor(rng, (int(edges[-1]),), DTYPES[case % 4], int(rng.integers(30)))
        target = DTYPES[int(rng.integers(4))]
        exclusive, reverse = bool(rng.integers(2)), bool(rng.integers(2))
        wanted = tcu.segment_cumsum(host_view(x), edges, exclusive=exclusive, reverse=reverse, dtype=target)
        spread = torch.zeros(2 * edges.size, dtype=torch.int64)
        spread[::2] = torch.from_numpy(edges)
        kinds = (
            edges.tolist(),
            edges.astype(np.int32),
            torch.from_numpy(edges),
            torch.from_numpy(edges).int(),
            spread[::2],
        )
        out = tensor(rng, wanted.shape, target, int(rng.integers(30))) if case % 2 else None
        for given in kinds:
            for check in (True, False):
                result = device_scans.segment_cumsum(
                    x, given, request(exclusive, reverse, target), out, check
                )
                assert out is None or result is out
                same(result, wanted)
    assert gpu.waited == 200 * 3


def test_offsets_that_are_refused(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(6)

    def scan(offsets: Any, check: bool = True) -> Any:
        return device_scans.segment_cumsum(x, offsets, request(False, False, None), None, check)

    for offsets, error, message in (
        (torch.tensor([0, 5]), ParameterError, "offsets end at 5, and x has 6 elements"),
        (torch.tensor([0, 4, 3, 6]).int(), ParameterError, "offsets decrease from 4 to 3"),
        ([0, 5], ParameterError, "offsets end at 5"),
        (torch.tensor([0.0, 6.0]), DtypeError, "offsets has dtype float32"),
        (torch.tensor([[0, 6]]), ShapeError, r"offsets has shape \(1, 2\)"),
        (torch.tensor([], dtype=torch.int64), ShapeError, "offsets is empty"),
    ):
        with pytest.raises(error, match=message):
            scan(offsets)
    with pytest.raises(DtypeError, match="offsets has dtype float32"):
        scan(torch.tensor([0.0, 6.0]), check=False)
    gpu.capturing = 1
    with pytest.raises(
        ParameterError, match="while a graph is captured, offsets are in the host's memory: copy them"
    ):
        scan([0, 6], check=False)
    with pytest.raises(
        ParameterError, match="while a graph is captured, offsets cannot be looked at: check them before"
    ):
        scan(torch.tensor([0, 6]))
    same(scan(torch.tensor([0, 6]), check=False), np.arange(1, 7, dtype=np.float32))
    gpu.capturing = 0
    other = SimpleNamespace(name="CuPy", ordinal=lambda label, array: 1)
    monkeypatch.setattr(device_segments, "library_of", lambda x: other)
    with pytest.raises(ParameterError, match="x is of PyTorch, offsets of CuPy: pass arrays of one library"):
        scan(torch.tensor([0, 6]))
    monkeypatch.setattr(Pretended, "ordinal", lambda self, label, array: int(label == "offsets"))
    monkeypatch.setattr(device_segments, "library_of", lambda x: gpu.library)
    with pytest.raises(ParameterError, match="x is on GPU 0, offsets on GPU 1: move both to one GPU"):
        scan(torch.tensor([0, 6]))


def test_offsets_on_a_gpu_and_numbers_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "lives_on_gpu", lambda x: True)
    with pytest.raises(ParameterError, match="offsets is on a GPU, x in the host's memory"):
        tcu.segment_cumsum(np.ones(6), torch.tensor([0, 6]))


def test_other_libraries_have_no_copies() -> None:
    other = arrays._OTHER
    with pytest.raises(
        ParameterError, match="along this axis come in another order: give an array that has the axis last"
    ):
        other.assign(np.ones(3), np.ones(3), (0,))


def test_more_than_one_launch_takes() -> None:
    plan = make_scan_plan(1 << 16, get_format("float16"))
    with pytest.raises(
        ParameterError, match=r"1073741824 rows of 65536 numbers are more .*: scan fewer rows"
    ):
        scan_recipe(
            plan, 1 << 30, 1 << 16, 1 << 16, True, True, get_format("float16"), Gpu(0, "H200", (9, 0)),
            exclusive=False, reverse=False,
        )  # fmt: skip
