"""Contract: the kernels of Fourier transforms have the bits of the model, without a GPU.

They run on the host as their recipes say (cuda_on_host.py): transforms that a block has in hand, of two and of three passes,
of lengths of every factor and of primes, forward and inverse, of complex and of real numbers in every format; along any axis,
of strided and short arrays, with numbers of every size; in binary16, too; and with two passes in one launch.  An error in a kernel's
text is seen.
"""

from __future__ import annotations

import contextlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import HostLibrary, KernelFailed
from test_kernels_on_host import HostGpu

from tcu.engines import host as model
from tcu.gpu import GpuError, fft, fft_pass, fft_passes, fft_tiles
from tcu.model.fft import convolution_kernel
from tcu.ops.fft import FftCall
from tcu.plan import fft as plans

engine = import_module("tcu.engines.cuda.fft")  # a module whose name is its function's, too
AT_ONCE = {"binary16": 256, "binary32": 256, "binary64": 128}
"""So few numbers that transforms of a few thousand take three passes."""


class Table:
    """On the host."""

    def __init__(self, values: Any, gpu: Any) -> None:
        self.values = np.ascontiguousarray(values)
        self.address = self.values.ctypes.data


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    found, library = HostGpu(monkeypatch, built), HostLibrary()
    monkeypatch.setattr(engine, "library_of", lambda x: library)
    monkeypatch.setattr(engine, "find_gpu", lambda ordinal: found.gpu)
    monkeypatch.setattr(engine, "current", lambda gpu: contextlib.nullcontext())
    for module in (engine, fft, fft_pass):
        monkeypatch.setattr(module, "DeviceTable", Table)
    caches = [engine._launch, fft_pass._twiddles, fft_pass._coarse, engine._chirp, fft._half_turn]
    for each in caches:
        each.cache_clear()
    yield found
    for each in caches:
        each.cache_clear()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plans of more passes; what is kept of them, chirps that they transformed among it, goes with them."""
    monkeypatch.setattr(plans, "_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(plans, "_FIRST", {"binary16": 16, "binary32": 32, "binary64": 32})
    monkeypatch.setattr(plans, "IN_BINARY16", (1 << 20, 1 << 20))
    yield from planned_anew()


@pytest.fixture
def in_binary16(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same of what is computed in binary16, where less is divided by so much that it shows."""
    monkeypatch.setattr(plans, "IN_BINARY16", (16, 1 << 14))
    monkeypatch.setattr(plans, "_LANES_AT_ONCE", 256)
    monkeypatch.setattr(plans, "_LANES_WIDEST", 64)
    monkeypatch.setitem(plans._FIRST, "binary16", 64)
    monkeypatch.setattr(plans, "_ROOM", 7)
    monkeypatch.setitem(fft_tiles._TILE, "binary16", 512)
    yield from planned_anew()


def planned_anew() -> Any:
    caches = [plans.fft_plan, convolution_kernel]
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, *, wild: bool = False) -> Any:
    """Of one scale or of many, some zeros of either sign."""
    x = rng.standard_normal((*shape, 2))
    if wild:
        x = np.ldexp(x, rng.integers(-20, 12, x.shape)) * rng.choice([1, 1, 1, 0, -0.0], x.shape)
    if np.dtype(dtype).kind == "c":
        return np.ascontiguousarray(x).view(np.complex128)[..., 0].astype(dtype)
    return x.astype(dtype)


def check(host: HostGpu, call: FftCall) -> None:
    wanted, found = model.fft(call), engine.fft(call)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    a, b = (np.ascontiguousarray(x).view(f"u{wanted.real.itemsize}") for x in (found, wanted))
    nan = np.isnan(np.ascontiguousarray(wanted).view(wanted.real.dtype))
    assert np.array_equal(np.isnan(np.ascontiguousarray(found).view(wanted.real.dtype)), nan)
    assert np.array_equal(a[~nan], b[~nan])


def check_error(host: HostGpu, source: str, right: str, wrong: str, run: Any) -> None:
    """That an error in a kernel's text is seen."""
    run()
    engine._launch.cache_clear()
    host.changes = {source: {right: wrong}}
    with pytest.raises((AssertionError, KernelFailed)):
        run()


LENGTHS = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
    14,
    15,
    16,
    17,
    21,
    22,
    32,
    34,
    49,
    60,
    64,
    97,
    100,
    128,
    243,
    256,
)
LONG = (320, 502, 512, 625, 1000, 1024, 1031, 2048, 2187, 4096, 8192)


@pytest.mark.some(10)
@pytest.mark.parametrize("kind", ["forward", "inverse"])
@pytest.mark.parametrize(
    "dtype", [np.float16, np.complex64, np.complex128], ids=["binary16", "binary32", "binary64"]
)
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.slow(1)
def test_transforms_that_a_block_has_in_hand(host: HostGpu, n: int, dtype: Any, kind: Any) -> None:
    rng = np.random.default_rng(n)
    for rows, factor in ((1, 1.0), (5, 1 / n)):
        x = numbers(rng, (rows, n), dtype, wild=rows == 5)
        check(host, FftCall(x, kind, n, 1, factor, pairs=dtype == np.float16))


@pytest.mark.some(8)
@pytest.mark.parametrize("kind", ["forward", "inverse"])
@pytest.mark.parametrize(
    "dtype", [np.float16, np.complex64, np.complex128], ids=["binary16", "binary32", "binary64"]
)
@pytest.mark.parametrize("n", LONG)
@pytest.mark.slow(1)
@pytest.mark.usefixtures("short")
def test_transforms_of_several_passes(host: HostGpu, n: int, dtype: Any, kind: Any) -> None:
    rng = np.random.default_rng(n)
    for rows, factor in ((1, 1.0), (3, 1 / 3)):
        x = numbers(rng, (rows, n), dtype, wild=rows == 3)
        check(host, FftCall(x, kind, n, 1, factor, pairs=dtype == np.float16))
    assert len(host.launches) >= 4


@pytest.mark.some(12)
@pytest.mark.parametrize("kind", ["from_real", "to_real"])
@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64], ids=["binary16", "binary32", "binary64"]
)
@pytest.mark.parametrize("n", [*LENGTHS[1:], *LONG[:8]])
@pytest.mark.slow(1)
@pytest.mark.usefixtures("short")
def test_transforms_of_real_numbers(host: HostGpu, n: int, dtype: Any, kind: Any) -> None:
    rng = np.random.default_rng(n)
    for rows, factor in ((1, 1.0), (3, 1 / n)):
        if kind == "from_real":
            x = numbers(rng, (rows, n), dtype)[..., 0]
            for given in (x, np.ascontiguousarray(x)):
                check(host, FftCall(given, kind, n, 1, factor))
        else:
            check(host, FftCall(numbers(rng, (rows, n // 2 + 1), dtype), kind, n, 1, factor, pairs=True))


@pytest.mark.some(6)
@pytest.mark.parametrize("kind", ["forward", "inverse", "from_real", "to_real"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("n", [12, 16, 15, 13, 512])
@pytest.mark.slow(1)
@pytest.mark.usefixtures("short")
def test_any_axis_strides_and_lengths(host: HostGpu, n: int, axis: int, kind: Any) -> None:
    rng = np.random.default_rng(n + axis)
    for count in (n, n + 3, n - 5, n // 2):
        shape = [3, 4, 5]
        shape[axis] = count
        x = numbers(rng, tuple(shape), np.complex64)
        for given in (
            x,
            np.asfortranarray(x),
            x[::-1, ::2],
            np.repeat(x, 2, axis)[(slice(None),) * axis + (slice(None, None, 2),)],
        ):
            check(
                host,
                FftCall(
                    np.ascontiguousarray(given.real) if kind == "from_real" else given, kind, n, axis, 0.5
                ),
            )
            if kind != "to_real":
                check(host, FftCall(given.real, kind, n, axis, 0.5))


@pytest.fixture
def in_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last two passes, however few their tiles are."""
    monkeypatch.setattr(fft_passes, "_LEAST_TURNS", 0)
    monkeypatch.setattr(fft_passes, "_MOST_OF_CACHE", 1e9)


@pytest.mark.some(8)
@pytest.mark.parametrize("kind", ["forward", "inverse", "from_real", "to_real"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=["binary32", "binary64"])
@pytest.mark.parametrize("n", [*LONG, 2 * 3 * 5 * 7 * 16])
@pytest.mark.slow(2)
@pytest.mark.usefixtures("short", "in_one_launch")
def test_two_passes_in_one_launch(
    host: HostGpu, n: int, dtype: Any, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(n)
    for rows, lead in ((1, 1), (7, 0.1), (5, 2)):
        monkeypatch.setattr(fft_passes, "_LEAD", lead)
        x = numbers(rng, (rows, n), dtype, wild=True)
        if kind == "from_real":
            check(host, FftCall(np.ascontiguousarray(x.real), kind, n, 1))
        else:
            check(host, FftCall(x[:, : n // 2 + 1] if kind == "to_real" else x, kind, n, 1, 1 / n))
        check(host, FftCall(np.ascontiguousarray(x.T), "forward", n, 0))
    assert not host._workspaces.get("fft", np.zeros(1)).any(), "the next launch finds arrivals"
    assert "fft_passes" in host.launches or n not in (512, 1024, 2048, 4096, 8192)


@pytest.mark.some(4)
@pytest.mark.parametrize("n", [512, 1024, 3072, 4096])
@pytest.mark.slow(1)
@pytest.mark.usefixtures("in_binary16", "in_one_launch")
def test_two_passes_of_binary16_in_one_launch(host: HostGpu, n: int) -> None:
    rng = np.random.default_rng(n)
    for count, factor in ((n, 1.0), (n - 5, 1 / n)):
        x = of_many_sizes(rng, 5, count)
        check(host, FftCall(x, "forward", n, 1, factor, pairs=True))
        check(host, FftCall(np.ascontiguousarray(x.transpose(1, 0, 2)), "inverse", n, 0, factor, pairs=True))
    assert not host._workspaces["fft"].any(), "the next launch finds arrivals"
    assert "fft_passes" in host.launches


HALVED = (16, 18, 48, 70, 100, 252, 256)
IN_PASSES = (270, 450, 512, 1000, 2048, 4096, 8192, 10290)
"""Of two passes and three; of an odd number of columns, too."""


def of_many_sizes(rng: np.random.Generator, rows: int, n: int) -> Any:
    """Pairs of binary16: rows of many scales, the first of one, the second of least numbers, the third of small and large ones in turns."""
    x = numbers(rng, (rows, n), np.float16, wild=True)
    x[:2] = np.ldexp(rng.standard_normal((2, n, 2)), np.array([0, -22])[:, None, None])
    x[2] = np.ldexp(rng.standard_normal((n, 2)), np.where(np.arange(n) % 2, 13, -12)[:, None])
    return x


@pytest.mark.some(10)
@pytest.mark.slow(2)
@pytest.mark.parametrize("kind", ["forward", "inverse"])
@pytest.mark.parametrize("n", [*HALVED, *IN_PASSES])
@pytest.mark.usefixtures("in_binary16")
def test_transforms_in_binary16(host: HostGpu, n: int, kind: Any) -> None:
    rng = np.random.default_rng(n)
    for count, factor in ((n, 1.0), (n - 5, 1 / n), (n + 4, 1.0)):
        x = of_many_sizes(rng, 3, count)
        check(host, FftCall(x, kind, n, 1, factor, pairs=True))
        check(host, FftCall(x[..., 0], kind, n, 1, factor))
        check(host, FftCall(np.repeat(x, 2, 1)[:, ::2], kind, n, 1, factor, pairs=True))
        check(host, FftCall(np.ascontiguousarray(x.transpose(1, 0, 2)), kind, n, 0, factor, pairs=True))
        beyond = np.zeros((x.size + 2,), np.float16)[2:].reshape(x.shape)
        beyond[:] = x
        check(host, FftCall(beyond, kind, n, 1, factor, pairs=True))
    assert {macros["WORK"] for macros in host.macros} == {"BINARY16"}
    two = [(macros["TWO_IN"], macros["TWO_OUT"]) for macros in host.macros]
    assert (0, 0) in two
    assert n % 4 or two.count((0, 0)) < len(two)


@pytest.mark.slow(1)
@pytest.mark.parametrize("n", [256, 4096])
@pytest.mark.usefixtures("in_binary16")
def test_transforms_in_binary16_of_what_is_not_finite(host: HostGpu, n: int) -> None:
    x = of_many_sizes(np.random.default_rng(n), 6, n)
    x[3, 5, 1], x[4, 7, 0], x[5] = np.inf, np.nan, 0
    check(host, FftCall(x, "forward", n, 1, pairs=True))
    found = engine.fft(FftCall(x, "forward", n, 1, 1 / n, pairs=True))
    assert np.isfinite(found[[0, 1, 2, 5]]).all()


@pytest.mark.usefixtures("in_binary16")
def test_parts_of_lanes_take_turns_where_there_is_little_shared_memory(host: HostGpu) -> None:
    rng = np.random.default_rng(8)
    object.__setattr__(host.gpu, "shared_memory", fft_tiles._STATIC + 600)
    for n in (256, 4096):
        check(host, FftCall(of_many_sizes(rng, 3, n), "forward", n, 1, pairs=True))
    assert {macros["IN_PARTS"] for macros in host.macros} == {1}


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", ["forward", "inverse", "from_real", "to_real"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=["binary32", "binary64"])
def test_multiprocessors_of_little_shared_memory(host: HostGpu, dtype: Any, kind: Any) -> None:
    """Real and imaginary parts take turns, half a transform of real numbers is unfolded by a launch of its own; with less, a pass
    is two launches.
    """
    size, n = np.dtype(dtype).itemsize, 512
    x = numbers(np.random.default_rng(5), (3, n // 2 + 1 if kind == "to_real" else n), dtype)
    call = FftCall(x.real.copy() if kind == "from_real" else x, kind, n, 1)
    object.__setattr__(
        host.gpu, "shared_memory", fft_tiles._STATIC + n * size * (3 if kind == "from_real" else 5) // 8
    )
    check(host, call)
    assert ("fft_unfold" in host.launches) == (kind == "from_real")
    engine._launch.cache_clear()
    launches = len(host.launches)
    object.__setattr__(host.gpu, "shared_memory", fft_tiles._STATIC + n * size // 8)
    check(host, call)
    assert len(host.launches) - launches == (
        3 if kind == "from_real" else 2
    )  # the first level is a launch of its own


def test_more_transforms_than_a_launch_numbers(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_ROWS", 5)
    x = numbers(np.random.default_rng(1), (6, 8), np.complex64)
    check(host, FftCall(x[:5], "forward", 8, 1))
    with pytest.raises(
        GpuError, match=r"x holds 6 transforms, of which a launch takes at most 2\^31: cut it"
    ):
        engine.fft(FftCall(x, "forward", 8, 1))


def test_fewer_columns_where_there_is_little_shared_memory(host: HostGpu) -> None:
    x = numbers(np.random.default_rng(2), (64, 40), np.complex64)
    object.__setattr__(host.gpu, "shared_memory", fft_tiles._STATIC + 4 * 64 * 10)
    check(host, FftCall(x, "forward", 64, 0))


@pytest.mark.slow(4)
@pytest.mark.parametrize("kind", ["forward", "inverse", "from_real", "to_real"])
@pytest.mark.parametrize(("n", "blocks"), [(2048, 4), (1000, 2), (729, 3), (960, 2), (500, 5)])
def test_blocks_of_a_cluster_share_a_transform(
    host: HostGpu, n: int, blocks: int, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a length that is even, of which 20 columns of 25 are left, too."""
    monkeypatch.setattr(fft_tiles, "_MOST", {"binary32": 256, "binary64": 256})
    monkeypatch.setitem(fft_tiles._TILE, "binary32", 512)
    whole = n * (2 if kind in ("from_real", "to_real") else 1)
    rng = np.random.default_rng(n)
    for rows, count in ((1, whole), (3, whole - 5), (3, whole + 4)):
        x = numbers(rng, (rows, count // 2 + 1 if kind == "to_real" else count), np.complex64, wild=rows == 3)
        check(host, FftCall(x.real if kind == "from_real" else x, kind, whole, 1, 1 / n))
    assert {macros["CLUSTER"] for macros in host.macros if "RADICES" in macros} == {blocks}


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", ["forward", "inverse", "from_real", "to_real"])
def test_a_pass_that_no_cluster_has_room_for_is_two_launches(
    host: HostGpu, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fft_tiles, "_MOST", {"binary32": 256, "binary64": 256})
    object.__setattr__(host.gpu, "compute_capability", (8, 0))
    rng = np.random.default_rng(5)
    for n, count in ((1024, 1024), (686, 680), (750, 760)):
        x = numbers(rng, (3, count // 2 + 1 if kind == "to_real" else count), np.complex64, wild=True)
        check(host, FftCall(x.real if kind == "from_real" else x, kind, n, 1, 1 / n))
    assert len(host.launches) == 3 * (3 if kind == "from_real" else 2)
    beside = numbers(rng, (1024 // 2 + 1 if kind == "to_real" else 1024, 5), np.complex64)
    check(host, FftCall(beside.real if kind == "from_real" else beside, kind, 1024, 0))


@pytest.mark.usefixtures("short")
def test_numbers_of_every_size(host: HostGpu) -> None:
    rng = np.random.default_rng(7)
    for scale in (2.0**-14, 1.0, 6e4):
        with np.errstate(over="ignore"):
            x = (numbers(rng, (2, 512), np.float16) * scale).astype(np.float16)
        check(host, FftCall(x, "forward", 512, 1, pairs=True))
    x = numbers(rng, (4, 512), np.float16)
    x[0], x[1, 5], x[2, 7] = 0, np.inf, np.nan
    check(host, FftCall(x, "forward", 512, 1, pairs=True))
    assert np.isfinite(engine.fft(FftCall(x, "forward", 512, 1, pairs=True))[3]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("for (u32 k = 1; k < L::RADIX; ++k) level.x", "for (u32 k = 2; k < L::RADIX; ++k) level.x"),
        (
            "+ level.column[j]]));\n            if constexpr (TURNED == BY_TABLE)",
            "+ level.column[j] + 1]));\n            if constexpr (TURNED == BY_TABLE)",
        ),
        ("if constexpr (AT > 0) __syncthreads();", ""),
        ("if constexpr (SWAP_IN) x", "if constexpr (!SWAP_IN) x"),
        ("max(most, max(re, im))", "max(most, re)"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("short")
def test_an_error_in_the_kernel_is_seen(host: HostGpu, right: str, wrong: str) -> None:
    rng = np.random.default_rng(3)
    # Three passes of one level each, and one of three.
    calls = [FftCall(numbers(rng, (2, n), np.float16), "forward", n, 1, pairs=True) for n in (4096, 245)]

    def check_all() -> None:
        for call in calls * 4:
            check(host, call)

    check_error(host, "fft_pass", right, wrong, check_all)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("{0xbc003c00}, low_of(x.re.codes)", "{0x3c003c00}, low_of(x.re.codes)"),
        ("highs(0, w)}", "highs(w, w)}"),
        ("most[1] = max(most[1], high_power", "most[1] = max(most[1], low_power"),
        ("max(most[0], most[1]), inside", "most[0], inside"),
        ("if (fmaxf(down, too) > MOST)", "if (false)"),
        ("times(times(x, once), again)", "times(x, once)"),
        ("if (part > 0) __syncthreads();", ""),
        ("k * (column + second)", "k * column"),
    ],
)
@pytest.mark.usefixtures("in_binary16")
def test_an_error_in_the_kernel_of_lanes_is_seen(host: HostGpu, right: str, wrong: str) -> None:
    rng = np.random.default_rng(3)
    calls = [FftCall(of_many_sizes(rng, 3, n), "forward", n, 1, pairs=True) for n in (64, 256, 2048, 8192)]

    def check_all() -> None:
        for little in (0, 600):
            engine._launch.cache_clear()
            object.__setattr__(host.gpu, "shared_memory", fft_tiles._STATIC + little if little else 227 << 10)
            for call in calls:
                check(host, call)

    check_error(host, "fft_pass", right, wrong, check_all)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if (!was_ready) grid::wait_for_arrivals<GROUP_BLOCKS>(p.arrived + before);", ""),
        ("if (!was_ready) arrive();", ""),
        ("if (found == 2 * COUNT - 1) *arrived = 0;", ""),
        ("forget(p.second, tile);", "forget(p.second, tile ^ 1);"),
        ("if (was_ready && i == 0) arrive();", "if (was_ready) arrive();"),
        ("blockIdx.x * FIRST_TILES + i", "blockIdx.x * FIRST_TILES"),
    ],
)
@pytest.mark.usefixtures("short", "in_one_launch")
def test_an_error_between_two_passes_is_seen(
    host: HostGpu, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    monkeypatch.setattr(fft_passes, "_LEAD", 0.1)
    # Of an even number of tiles, so that there is another beside each.
    calls = [FftCall(numbers(rng, (10, n), np.complex64), "forward", n, 1) for n in (1024, 1536, 4096, 6144)]

    def check_all() -> None:
        for call in calls * 4:
            check(host, call)

    check_error(host, "fft_passes", right, wrong, check_all)
    shapes = {
        (macros["FIRST_TILES"], macros["SECOND_TILES"]) for macros in host.macros if "FIRST_TILES" in macros
    }
    assert any(first > 1 for first, _ in shapes)
    assert any(second > 1 for _, second in shapes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["            fourier::first_pass::run", "        // What the first pass has written"]
)
@pytest.mark.usefixtures("in_binary16", "in_one_launch")
def test_a_barrier_between_two_tiles_that_is_missing_is_seen(host: HostGpu, what: str) -> None:
    call = FftCall(of_many_sizes(np.random.default_rng(5), 9, 3072), "forward", 3072, 1, pairs=True)

    def check_often() -> None:
        for _ in range(8):
            check(host, call)

    check_error(host, "fft_passes", f"if (i > 0) __syncthreads();\n{what}", what, check_often)
    assert (host.macros[-1]["FIRST_TILES"], host.macros[-1]["SECOND_TILES"]) == (4, 3)
