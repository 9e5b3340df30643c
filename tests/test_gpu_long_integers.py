"""Contract of long integers in limbs on a GPU: the CPU's bits, of every length, batch and layout, and no overflow anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_support import gpu_or_skip, library_or_skip, on_gpu
from test_limbs_on_host import ONES, numbers_of_kinds
from test_long_integers import limb_arrays
from test_modular_powers_on_host import moduli

import tcu
from tcu.errors import ParameterError

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    gpu_or_skip()
    return library_or_skip("torch")


def same_product(torch: Any, a: Any, b: Any) -> None:
    x, y = on_gpu(torch, a), on_gpu(torch, b)
    found = tcu.integers.multiply_limbs(x, y)
    assert found.is_cuda
    assert np.array_equal(found.cpu().numpy(), tcu.integers.multiply_limbs(a, b))
    assert np.array_equal(tcu.integers.square_limbs(x).cpu().numpy(), tcu.integers.square_limbs(a))


LENGTHS = [
    1,
    7,
    8,
    9,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    129,
    255,
    256,
    257,
    511,
    513,
    1024,
    2047,
    2048,
    2049,
    4097,
    9000,
]


@pytest.mark.parametrize("length", LENGTHS)
def test_products_at_the_edges_of_tiles(torch: Any, length: int) -> None:
    for other in {1, length // 3 + 1, max(length - 1, 1), length}:
        a, b = numbers_of_kinds(15, length, other), numbers_of_kinds(15, other, length)
        a[0], b[0] = ONES, ONES
        same_product(torch, a, b)


def test_batches(torch: Any) -> None:
    for dtype in (np.uint32, np.uint64):
        for count, length in ((5000, 32), (1000, 64), (300, 300), (40, 3000)):
            a, b = limb_arrays(dtype, (count,), (length, length - 3), count)
            same_product(torch, a, b)
            same_product(torch, a, b[7])
        a, b = limb_arrays(dtype, (4, 1), (50, 30)), limb_arrays(dtype, (5,), (40, 3000))
        for x in a:
            for y in b:
                same_product(torch, x, y)


def test_gaps_and_streams(torch: Any) -> None:
    a, b = limb_arrays(np.uint32, (64,), (500, 400))
    x, y = on_gpu(torch, a), on_gpu(torch, b)
    wanted = tcu.integers.multiply_limbs(a[::2, 3::3], b[1::2])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = tcu.integers.multiply_limbs(x[::2, 3::3], y[1::2])
    stream.synchronize()
    assert np.array_equal(found.cpu().numpy(), wanted)


@pytest.mark.parametrize("bits", [1 << 17, (1 << 20) - 32, 1 << 20, (1 << 20) + 32, 1 << 24])
def test_long_products(torch: Any, bits: int) -> None:
    length = bits // 32
    for a, b in (
        limb_arrays(np.uint32, (), (length, length)),
        (np.full(length, ONES), np.full(length, ONES)),
        (np.full(length, 0x55555555, np.uint32), np.array([0x10002], np.uint32)),
    ):
        same_product(torch, a, b)


def test_python_s_integers(torch: Any) -> None:
    for bits in (1000, (1 << 17) - 1, 1 << 17, 1 << 20):
        a, b = (1 << bits) - 1, -(3 ** (bits * 5 // 8))
        assert tcu.integers.multiply(a, b, executor="gpu") == tcu.integers.multiply(a, b)
        assert tcu.integers.multiply(a, a, executor="gpu") == tcu.integers.square(a)


@pytest.mark.slow
def test_the_longest_product_has_the_remainders_that_it_must(torch: Any) -> None:
    a, b = limb_arrays(np.uint32, (), (1 << 22, 1 << 22))  # 2^27 bits
    found = tcu.integers.from_limbs(tcu.integers.multiply_limbs(on_gpu(torch, a), on_gpu(torch, b)).cpu())
    x, y = tcu.integers.from_limbs(a), tcu.integers.from_limbs(b)
    for prime in ((1 << 61) - 1, (1 << 31) - 1, 998_244_353):
        assert found % prime == x % prime * (y % prime) % prime


@pytest.mark.parametrize("levels", [0, 1, 5, 10, 11, 12, 13, 16, 19, 20, 22])
def test_transforms(torch: Any, levels: int) -> None:
    rows = max(1, min(5, 1 << 20 - levels)) if levels < 20 else 1
    x = np.random.default_rng(levels).integers(0, 1 << 64, (rows, 1 << levels), dtype=np.uint64)
    x[0, ::5] = tcu.integers.MODULUS - 1
    y = on_gpu(torch, x)
    transformed = tcu.integers.ntt(y)
    assert np.array_equal(transformed.cpu().numpy(), tcu.integers.ntt(x))
    assert np.array_equal(tcu.integers.intt(y).cpu().numpy(), tcu.integers.intt(x))
    assert np.array_equal(tcu.integers.intt(transformed).cpu().numpy(), x % np.uint64(tcu.integers.MODULUS))


@pytest.mark.parametrize("limbs", [1, 2, 31, 32, 33, 64, 65, 128, 255, 256])
def test_powers_and_products_modulo_odd_numbers(torch: Any, limbs: int) -> None:
    count = 9
    m = moduli(count, limbs)
    a, b = limb_arrays(np.uint32, (count,), (limbs, limbs), limbs)
    a[0], b[1], a[2] = ONES, ONES, 0
    x, y, z = (on_gpu(torch, each) for each in (a, b, m))
    integers = tcu.integers
    found = integers.multiply_mod_limbs(x, y, z)
    assert np.array_equal(found.cpu().numpy(), integers.multiply_mod_limbs(a, b, m))
    for n in (b[:, : min(limbs, 64)].copy(), np.array([0], np.uint32), np.array([65537, 0], np.uint32)):
        found = integers.powmod_limbs(x, on_gpu(torch, n), z, check=False)
        assert np.array_equal(found.cpu().numpy(), integers.powmod_limbs(a, n, m))


def test_many_powers(torch: Any) -> None:
    """Of 2,048 bits: signatures of one modulus, made and checked by Fermat's theorem for a prime."""
    prime = (1 << 2203) - 1
    a = limb_arrays(np.uint32, (500,), (68,))[0]
    m, n = (tcu.integers.to_limbs(each, 69, dtype=np.uint32) for each in (prime, prime - 1))
    found = tcu.integers.powmod_limbs(*(on_gpu(torch, each) for each in (a, n, m)))
    assert set(tcu.integers.from_limbs(found.cpu()).tolist()) == {1}


def test_graphs_capture_products(torch: Any) -> None:
    a, b = limb_arrays(np.uint32, (30,), (64, 5000))
    x, y = on_gpu(torch, a), on_gpu(torch, b)
    for left, right in ((x, x), (y, y)):
        wanted = tcu.integers.multiply_limbs(left, right)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = tcu.integers.multiply_limbs(left, right)
        found.view(torch.int32).zero_()
        graph.replay()
        assert torch.equal(found.view(torch.int32), wanted.view(torch.int32))


@pytest.mark.parametrize("name", ["cupy", "jax"])
def test_other_libraries(name: str) -> None:
    library = library_or_skip(name)
    place = library.asarray if name == "cupy" else library.numpy.asarray
    a, b = limb_arrays(np.uint32, (20,), (64, 3000))
    for x, y in ((a, a), (a, b), (a[0], b)):
        found = tcu.integers.multiply_limbs(place(x), place(y))
        assert type(found) is type(place(x))
        host = found.get() if name == "cupy" else np.asarray(found)
        assert np.array_equal(host, tcu.integers.multiply_limbs(x, y))


def test_errors(torch: Any) -> None:
    x = torch.ones(8, dtype=torch.uint32, device="cuda")
    with pytest.raises(ParameterError, match="give all of one"):
        tcu.integers.multiply_limbs(x, x.cpu())
    even = on_gpu(torch, np.full(8, 2, np.uint32))
    with pytest.raises(ParameterError, match=r"m is even, and on a GPU moduli are odd"):
        tcu.integers.powmod_limbs(x, x, even)
