"""Contract: the kernels of polynomials' values give the CPU's bits, in every shape that a recipe may choose.

They run on the host as their recipes say (cuda_on_host.py): one point a thread and several, every number of tiles, coefficients and
points apart from each other, several polynomials, more than a chunk of coefficients, points that no thread has, values that only
Horner's rule has.  The engine finds arrays of every layout.  A planted change of each step makes a run fail.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import HostLibrary
from test_kernels_on_host import HostGpu, Result, alike
from test_polyval import numbers

import tcu
from tcu.formats import get_format
from tcu.gpu import polyval
from tcu.gpu.device import Gpu
from tcu.gpu.launch import Launch

engine: Any = importlib.import_module("tcu.engines.cuda.polyval")  # whose package has a function of that name


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    return HostGpu(monkeypatch, built)


def found(host: HostGpu, c: Any, x: Any, steps: tuple[int, int] = (1, 1)) -> Any:
    """Of coefficients (polynomials, n) and points that lie so far apart, with NaN between them and behind."""
    rows = np.full((len(c), (c.shape[1] + 16) * steps[0]), np.nan, c.dtype)
    rows[:, : c.shape[1] * steps[0] : steps[0]] = c
    places = np.full(x.size * steps[1], np.nan, x.dtype)
    places[:: steps[1]] = x
    result = Result(len(c) * x.size, x.dtype)
    name = "binary64" if x.dtype == np.float64 else "binary32"
    recipe = polyval.polyval_recipe(
        c.shape[1], len(c), x.size, (steps[0], rows.shape[1], steps[1]), get_format(name), host.gpu
    )
    Launch(recipe, host.gpu).start(rows.ctypes.data, places.ctypes.data, result.array.ctypes.data, 0)
    result.check()
    return result.array.reshape(len(c), x.size).copy()


def wanted(c: Any, x: Any) -> Any:
    return tcu.polyval(x, c.T)


def extreme(x: Any) -> Any:
    x[-4:] = np.inf, -3, np.nan, np.finfo(x.dtype).max
    return x


@pytest.mark.slow(6)
@pytest.mark.parametrize("per", [1, 2, 4, 8])
@pytest.mark.parametrize(("n", "dtype"), [(1, np.float64), (2, np.float32), (7, np.float64), (65, np.float32), (511, np.float64), (1008, np.float32), (1009, np.float32), (2049, np.float32)])  # fmt: skip
def test_chains(host: HostGpu, per: int, n: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polyval, "_PER", (per,))
    c, x = numbers(n, 128 * per + 9, dtype)
    assert alike(found(host, c[None], extreme(x)), wanted(c[None], x))


@pytest.mark.slow(8)
@pytest.mark.parametrize(("per", "group", "fill"), [(8, 2, 1), (4, 2, 1), (4, 8, 4), (2, 4, 1), (1, 4, 4)])
@pytest.mark.parametrize("n", [3, 64, 65, 112, 120, 257, 1008, 1009, 2049])
def test_shapes(
    host: HostGpu, per: int, group: int, fill: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many coefficients threads bring and load at a time, of two polynomials."""
    shape = {"PER": per, "GROUP": group, "FILL": fill, "RESIDENT": 8}
    monkeypatch.setattr(polyval, "_shape", lambda *_: shape)
    for dtype in (np.float32, np.float64) if n < 512 else (np.float32,):
        c, x = numbers(n, 128 * per + 9, dtype)
        assert alike(found(host, np.stack([c, -c]), extreme(x)), wanted(np.stack([c, -c]), x))


@pytest.mark.slow(6)
@pytest.mark.parametrize("tiles", [1, 2, 4])
@pytest.mark.parametrize("n", [576, 577, 640, 1024, 1025, 1100, 2500])
def test_blocks(host: HostGpu, tiles: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polyval, "_TILES", (tiles,))
    c, x = numbers(n, 32 * tiles + 9, np.float64)
    assert alike(found(host, c[None], extreme(x)), wanted(c[None], x))
    assert host.launches == ["blocked"]


@pytest.mark.parametrize("n", [70, 700])
@pytest.mark.parametrize("steps", [(1, 1), (3, 1), (1, 2), (2, 5)])
def test_several_polynomials_wherever_they_lie(host: HostGpu, n: int, steps: tuple[int, int]) -> None:
    c = np.stack([numbers(n, 1, np.float64, seed)[0] for seed in range(3)])
    x = numbers(n, 41, np.float64)[1]
    assert alike(found(host, c, x, steps), wanted(c, x))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "n", "change"),
    [
        ("horner", 90, ("CHAINS == 1 ? x[i] : times(x[i], x[i])", "x[i]")),
        ("horner", 90, ("sums[k % CHAINS][i]", "sums[(k + 1) % CHAINS][i]")),
        ("horner", 70, ("if (k < skipped) continue;", "if (k <= skipped) continue;")),
        ("horner", 70, ("at >= skipped && at", "at > skipped && at")),
        ("horner", 70, ("if (!again) return;", "return;")),
        ("blocked", 700, ("w * 4 * ROWS >= count", "(w + 1) * 4 * ROWS >= count")),
        ("blocked", 700, ("w % 2 ? points.step[tile].y : points.step[tile].x", "points.step[tile].x")),
        ("blocked", 700, ("fused(sum[r + (1 << i)], power[i], sum[r])", "fused(sum[r + (1 << i)], power[0], sum[r])")),
        ("blocked", 700, ("is_finite(y) ? y : by_horner(p, a, x)", "y")),
    ],
)  # fmt: skip
def test_planted_changes_are_seen(host: HostGpu, entry: str, n: int, change: tuple[str, str]) -> None:
    c, x = numbers(n, 50, np.float64)
    x = extreme(x)
    assert alike(found(host, c[None], x), wanted(c[None], x))
    host.changes = {entry: dict([change])}
    assert not alike(found(host, c[None], x), wanted(c[None], x))


@pytest.fixture
def by_engine(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostGpu]:
    """Arrays of NumPy stand for a GPU's."""
    library = HostLibrary()
    monkeypatch.setattr(engine, "home_of", lambda arrays, names: (library, 0))
    monkeypatch.setattr(engine, "current", lambda ordinal: nullcontext())
    monkeypatch.setattr(engine, "find_gpu", lambda ordinal: host.gpu)
    engine._launch.cache_clear()
    yield host
    engine._launch.cache_clear()


def test_arrays_of_every_layout(by_engine: HostGpu) -> None:
    rng = np.random.default_rng(1)
    x, c = rng.uniform(-1, 1, (6, 4)), rng.standard_normal((90, 2, 3))
    for points in (x, x[0, 0], x.T, x[::2, ::2], x[:, 1], x[:0], np.broadcast_to(x[0, 0], (3, 2))):
        for coefficients in (
            c,
            c[:, 0, 0],
            c[::-1],
            c[::5, :, ::2],
            c.transpose(0, 2, 1),
            c[:1],
            c[:, :0],
            c[:1, 0, 0],
        ):
            for dtype in (np.float64, np.float32):
                p, a = (np.asarray(each, dtype) for each in (points, coefficients))
                assert engine.polyval(p, a).tobytes() == tcu.polyval(p, a).tobytes()


def test_more_polynomials_than_a_launch_takes(by_engine: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_POLYNOMIALS", 3)
    c, x = np.random.default_rng(1).standard_normal((4, 7)), np.linspace(-1, 1, 5)
    assert engine.polyval(x, c).tobytes() == tcu.polyval(x, c).tobytes()
    assert by_engine.launches == ["horner"] * 3


def test_a_recipe_fills_the_gpu() -> None:
    """As many points a thread as leave no multiprocessor without work, and blocks that are done soonest."""
    gpu = Gpu(0, "H100", (9, 0))
    object.__setattr__(gpu, "multiprocessors", 132)

    def chosen(n: int, polynomials: int, points: int, name: str = "binary64") -> Any:
        return polyval.polyval_recipe(n, polynomials, points, (1, n, 1), get_format(name), gpu).kernels[0]

    for points, per in ((1, 1), (1 << 14, 1), (1 << 15, 2), (1 << 16, 4), (1 << 18, 4), (1 << 20, 8)):
        for name in ("binary32", "binary64"):
            kernel = chosen(64, 1, points, name)
            assert (kernel.macros["PER"], kernel.blocks) == (per, -(-points // (128 * per)))
    assert [chosen(n, 16, 1 << 16).macros["PER"] for n in (112, 113)] == [8, 4]
    assert [chosen(n, 1, 1 << 20, "binary32").macros["FILL"] for n in (112, 113)] == [1, 4]
    assert [chosen(300, 1, n, "binary32").macros["GROUP"] for n in (1 << 17, (1 << 17) + 9999)] == [4, 2]
    assert [chosen(n, 1, 1 << 16, "binary32").macros["RESIDENT"] for n in (1008, 1009)] == [8, 4]
    assert [chosen(n, 1, 9).macros["CHAINS"] for n in (1, 79, 80, 500)] == [1, 1, 2, 2]
    assert (chosen(1008, 1, 9).macros.get("LOOPS"), chosen(500, 1, 9).macros["LOOPS"]) == (None, 0)
    found = {points: chosen(4096, 1, points).macros for points in (1 << 10, 1 << 14, 1 << 16, 49152, 1 << 20)}
    assert {points: (each["TILES"], each["RESIDENT"]) for points, each in found.items()} == {
        1 << 10: (1, 6), 1 << 14: (2, 4), 49152: (4, 3), 1 << 16: (4, 2), 1 << 20: (4, 3),
    }  # fmt: skip
