"""Contract: transforms, products of integers and polynomials on a GPU's tensor cores have the bits of the model.

And are right by themselves: transforms within their bound, integers as
Python's, polynomials within theirs.  Of arrays of CuPy, which stay on the GPU,
and of NumPy, which travel.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip

import tcu
from tcu.algorithms import dft_error_bound, evaluate_error_bound
from tcu.machine import GpuExecutor, ModelExecutor

pytestmark = pytest.mark.gpu


def machines(operand: str, m: int = 256, word_bits: int = 64) -> tuple[Any, Any]:
    gpu = gpu_or_skip()
    unit_or_skip(gpu)
    return (
        tcu.Machine(m, 64, word_bits=word_bits, executor=GpuExecutor(operand)),
        tcu.Machine(m, 64, word_bits=word_bits, executor=ModelExecutor(gpu.unit, operand)),
    )


@pytest.mark.parametrize("product", ["four", "three", "embedded"])
@pytest.mark.parametrize(
    ("operand", "parts"),
    [("binary16", 1), ("binary16", 2), ("binary16", 3), ("bfloat16", 1), ("tf32", 1), ("binary64", 1)],
)
def test_transforms(operand: str, parts: int, product: Any) -> None:
    cupy = library_or_skip("cupy")
    rng = np.random.default_rng(1)
    options = {"product": product, "parts": parts}
    for m, lengths in ((256, (16, 60, 1000, 4096, 97, 509, 2053)), (4096, (4096, 6000))):
        real, model = machines(operand, m)
        for n in lengths:
            x = rng.standard_normal((3, n)) + 1j * rng.standard_normal((3, n))
            x[1] *= 10.0 ** rng.uniform(-9, 9, n)
            wanted = model.dft(x, **options)
            got = real.dft(cupy.asarray(x), **options)
            assert isinstance(got, cupy.ndarray)
            assert got.get().tobytes() == wanted.tobytes(), (m, n)
            assert real.dft(x, **options).tobytes() == wanted.tobytes()
            exact = np.fft.fft(x)
            error = np.linalg.norm(wanted - exact, axis=1) / np.linalg.norm(exact, axis=1)
            assert (error <= dft_error_bound(real, n, **options)).all()
            half = real.rdft(cupy.asarray(x.real), **options)
            assert half.get().tobytes() == model.rdft(x.real, **options).tobytes()
            back = real.irdft(half, n, **options)
            assert back.get().tobytes() == model.irdft(half.get(), n, **options).tobytes()
    assert real.ledger == model.ledger


@pytest.mark.parametrize("algorithm", ["schoolbook", "karatsuba", "auto"])
@pytest.mark.parametrize(("operand", "word_bits"), [("u8", 32), ("binary16", 64), ("binary64", 64)])
def test_integers(operand: str, word_bits: int, algorithm: Any) -> None:
    source = random.Random(1)
    for m in (256, 65536):
        real, _ = machines(operand, m, word_bits)
        for bits in (1, 100, 5000, 60_000):
            for a in (source.getrandbits(bits), (1 << bits) - 1, 1 << bits):
                b = -source.getrandbits(bits // 2 + 1)
                assert real.integer_multiply(a, b, algorithm=algorithm) == a * b
        a = [source.getrandbits(3000) for _ in range(20)]
        assert real.integer_multiply(a, a[::-1], algorithm=algorithm).tolist() == [
            x * y for x, y in zip(a, a[::-1], strict=True)
        ]


def test_polynomials() -> None:
    cupy = library_or_skip("cupy")
    rng = np.random.default_rng(2)
    for m in (16, 256, 65536):
        real, model = machines("binary64", m)
        for n in (1, 5, 300, 5000):
            a, x = rng.standard_normal(n), rng.uniform(-1, 1, 100)
            got = real.evaluate(cupy.asarray(a), cupy.asarray(x))
            wanted = model.evaluate(a, x)
            assert got.get().tobytes() == wanted.tobytes()
            exact = np.polynomial.polynomial.polyval(x.astype(np.longdouble), a.astype(np.longdouble))
            slack = (
                2 * n * np.finfo(np.longdouble).eps * np.polynomial.polynomial.polyval(np.abs(x), np.abs(a))
            )
            assert (np.abs(wanted - exact) <= evaluate_error_bound(real, a, x) + slack).all()


@pytest.mark.parametrize("operand", ["u8", "binary16"])
def test_polynomials_modulo_an_integer(operand: str) -> None:
    rng = np.random.default_rng(3)
    real, _ = machines(operand)
    a, x = rng.integers(0, 998244353, (2, 700))
    points = x[:50]
    got = real.evaluate(a, points, modulus=998244353)
    wanted = np.zeros(50, object)
    for coefficient in a[::-1]:
        wanted = (wanted * points.astype(object) + int(coefficient)) % 998244353
    assert got.tolist() == wanted.tolist()
