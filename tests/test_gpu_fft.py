"""Contract of Fourier transforms on a GPU: the bits of the CPU, for every length, axis, stride and format.

Lengths of one pass, two and three, of every factor and with long primes; forward, inverse, of real numbers and to them; alone
and in batches, along any axis, of arrays with gaps, cut and padded; recorded in a graph; with two passes in one launch; of PyTorch, CuPy and JAX.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import bits
import numpy as np
import pytest
from bits import one_nan
from gpu_support import gpu_or_skip, library_or_skip

import tcu
from tcu import fft
from tcu.gpu import fft as recipes
from tcu.gpu import fft_passes

pytestmark = [
    pytest.mark.gpu,
    # PyTorch warns about its complex numbers of binary16, and about itself.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

DTYPES = ("complex32", "complex64", "complex128")
dtypes = pytest.mark.parametrize("dtype", DTYPES)
SMOOTH = [n for n in range(1, 1025) if all(n % p for p in range(11, n + 1))]


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    gpu_or_skip()
    return library_or_skip("torch")


def drawn(torch: Any, shape: tuple[int, ...], dtype: str, seed: int, *, wild: bool = False) -> Any:
    """On the GPU: of one scale, or of many."""
    real = {"complex32": torch.float16, "complex64": torch.float32, "complex128": torch.float64}[dtype]
    generator = torch.Generator("cuda").manual_seed(seed)
    x = torch.randn((*shape, 2), device="cuda", generator=generator, dtype=torch.float64)
    if wild:
        x *= 2.0 ** torch.randint(-12, 12, x.shape, device="cuda", generator=generator)
    return torch.view_as_complex(x.to(real))


def same(found: Any, wanted: Any) -> None:
    """Equal bits; any NaN stands for any other."""
    assert found.dtype == wanted.dtype
    bits.same(one_nan(found), one_nan(wanted))


def check(torch: Any, x: Any, name: str, **options: Any) -> None:
    same(
        getattr(fft, name)(x, **options).cpu().contiguous(),
        getattr(fft, name)(x.cpu(), **options).contiguous(),
    )


@dtypes
def test_lengths_to_1024(torch: Any, dtype: str) -> None:
    """Each is another kernel, and is compiled: other lengths for each format."""
    for n in sorted({*range(1 + DTYPES.index(dtype), 64, 3), *SMOOTH[DTYPES.index(dtype) :: 9]}):
        x = drawn(torch, (7, n), dtype, n, wild=n % 2 == 0)
        check(torch, x, "fft" if n % 4 < 2 else "ifft")
        if n % 3:
            check(torch, x.real.clone(), "rfft")
        else:
            check(torch, x, "irfft", n=n)


@dtypes
@pytest.mark.parametrize(
    "n",
    [4096, 8191, 8192, 10007, 16384, 16807, 17_500, 19683, 20_480, 32768, 100_000, 131_101, 1 << 18, 1 << 20],
)  # fmt: skip
def test_long_transforms(torch: Any, dtype: str, n: int) -> None:
    for rows in (1, 3):
        x = drawn(torch, (rows, n), dtype, n, wild=rows == 3)
        check(torch, x, "fft")
        check(torch, x, "ifft", norm="ortho")
    check(torch, x.real.clone(), "rfft")
    check(torch, x, "irfft", n=n)


@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("n", [1 << 22, 1 << 23, 1 << 24, 5**9 * 3, 1 << 25])
def test_transforms_of_three_passes(torch: Any, dtype: str, n: int) -> None:
    check(torch, drawn(torch, (n,), dtype, 1), "fft")


@pytest.mark.slow
@dtypes
def test_a_hundred_million_numbers(torch: Any, dtype: str) -> None:
    for n in (64, 1000, 4096, 1 << 15):
        rows = 35_000_000 // n
        x = drawn(torch, (rows, n), dtype, n)
        whole = fft.fft(x)
        for first in range(0, rows, max(1, (1 << 22) // n)):
            part = slice(first, first + max(1, (1 << 22) // n))
            same(whole[part].cpu(), fft.fft(x[part].cpu()))
        del x, whole


@dtypes
def test_neighbours_batches_and_repetitions_change_nothing(torch: Any, dtype: str) -> None:
    for n in (60, 1000, 4096, 16384, 1 << 16):
        x = drawn(torch, (1000 if n < 10_000 else 70, n), dtype, n)
        whole = fft.fft(x)
        for rows in (1, 2, 3, 17):
            same(fft.fft(x[:rows]), whole[:rows].contiguous())
        for _ in range(5):
            same(fft.fft(x), whole)


def test_axes_strides_and_lengths_at_random(torch: Any) -> None:
    rng = np.random.default_rng(11)
    for seed in range(150):
        ndim = int(rng.integers(1, 5))
        axis = int(rng.integers(ndim))
        shape = [int(rng.integers(1, 7)) for _ in range(ndim)]
        shape[axis] = int(rng.choice([1, 12, 31, 64, 1024, 20_000]))
        dtype = DTYPES[int(rng.integers(3))]
        order = rng.permutation(ndim)
        x = drawn(torch, tuple(shape[i] for i in order), dtype, seed)
        x = x.permute(*np.argsort(order).tolist())
        if rng.random() < 0.4:
            steps = tuple(slice(None, None, int(rng.integers(1, 3))) for _ in range(ndim))
            x = x[steps]
        count = x.shape[axis]
        n = max(1, count + int(rng.choice([-2, 4]))) if rng.random() < 0.4 else count
        name = str(rng.choice(["fft", "ifft", "rfft", "irfft"]))
        given = (x.real if rng.random() < 0.5 else x.real.clone()) if name == "rfft" else x
        check(torch, given, name, n=n, axis=axis, norm=str(rng.choice(["backward", "ortho", "forward"])))


def test_several_dimensions_cosines_and_convolutions(torch: Any) -> None:
    x = drawn(torch, (20, 30, 64), "complex64", 3)
    for name in ("fftn", "ifftn", "fft2"):
        check(torch, x, name)
    for name in ("rfftn", "dct", "dst", "idct"):
        check(torch, x.real.clone(), name)
    same(
        fft.convolve(x.real.clone(), x.real.flip(2).clone(), axis=2).cpu(),
        fft.convolve(x.real.cpu().clone(), x.real.flip(2).cpu().clone(), axis=2),
    )


def test_what_is_not_finite_stays_in_its_transform(torch: Any) -> None:
    for n in (1000, 1 << 16):
        for dtype in DTYPES:
            x = drawn(torch, (4, n), dtype, n)
            x[1, 5], x[2, 7] = complex(np.inf, 0), complex(0, np.nan)
            check(torch, x, "fft")
            assert torch.view_as_real(fft.fft(x)[3]).isfinite().all()


@pytest.fixture
def in_one_launch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The last two passes, however few numbers there are; and whether they were."""
    engine = import_module("tcu.engines.cuda.fft")
    monkeypatch.setattr(fft_passes, "_LEAST_TURNS", 0)
    made: list[str] = []
    kernel = fft_passes.passes_kernel
    monkeypatch.setattr(recipes, "passes_kernel", lambda *given: made.append("both") or kernel(*given))
    engine._launch.cache_clear()
    yield made
    engine._launch.cache_clear()


@pytest.mark.parametrize("lead", [0.02, 1.0])
@pytest.mark.parametrize(
    ("dtype", "n", "rows"),
    [
        ("complex64", 1 << 16, 40), ("complex64", 1 << 17, 12), ("complex64", 3 << 16, 5), ("complex64", 1 << 20, 6), ("complex64", 9 << 19, 2),
        ("complex64", 1 << 24, 1), ("complex32", 1 << 16, 40), ("complex32", 1 << 24, 2), ("complex128", 1 << 16, 9), ("complex128", 1 << 20, 3),
    ],
)  # fmt: skip
def test_two_passes_in_one_launch(
    torch: Any,
    dtype: str,
    n: int,
    rows: int,
    lead: float,
    in_one_launch: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Alone, again and again, in a graph that is replayed, and on streams beside each other."""
    monkeypatch.setattr(fft_passes, "_LEAD", lead)
    x = drawn(torch, (rows, n), dtype, n, wild=True)
    wanted = fft.fft(x.cpu()).cuda()
    found = [fft.fft(x) for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        found.append(fft.fft(x))
    for stream in [torch.cuda.Stream() for _ in range(3)] * 2:
        with torch.cuda.stream(stream):
            found.append(fft.fft(x))
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    for each in found:
        same(each, wanted)
    assert in_one_launch


def test_a_graph_that_is_replayed(torch: Any) -> None:
    for n in (1000, 10007, 1 << 18):
        x = drawn(torch, (3, n), "complex64", n)
        wanted = fft.fft(x)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            found = fft.fft(x)
        other = drawn(torch, (3, n), "complex64", n + 1)
        graph.replay()
        same(found, wanted)
        x.copy_(other)
        graph.replay()
        same(found, fft.fft(other))


def test_streams_and_threads(torch: Any) -> None:
    x = drawn(torch, (50, 1 << 16), "complex64", 1)
    wanted = fft.fft(x)
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    results = []
    for stream in streams * 3:
        with torch.cuda.stream(stream):
            results.append(fft.fft(x))
    torch.cuda.synchronize()
    for each in results:
        same(each, wanted)


def test_arrays_of_other_libraries(torch: Any) -> None:
    x = drawn(torch, (6, 360), "complex64", 5)
    host = x.cpu().numpy()
    cupy = library_or_skip("cupy")
    for name, given in (("fft", host), ("ifft", host), ("rfft", host.real.copy()), ("irfft", host)):
        for axis in (0, 1):
            found = getattr(fft, name)(cupy.asarray(given), axis=axis)
            assert isinstance(found, cupy.ndarray)
            same(cupy.asnumpy(found), np.ascontiguousarray(getattr(fft, name)(given, axis=axis)))
    jax = library_or_skip("jax")
    found = fft.fft(jax.numpy.asarray(host))
    same(np.asarray(found), fft.fft(host))
    assert tcu.fft is fft
