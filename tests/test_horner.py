"""Contract: the kernel that polynomials on a GPU are measured beside is Horner's rule, in every shape that takes part.

Compiled for the host (cuda_on_host.py) it gives at every point what the chains of its shape give, FMA by FMA, in exact rational
arithmetic rounded once each; and, of one chain, Horner's rule.  Points that no thread has are left alone.  NVRTC compiles each
shape without a local array.
"""

from __future__ import annotations

import ctypes
import sys
from fractions import Fraction
from pathlib import Path

import cuda_on_host
import numpy as np
import pytest
from test_gpu_compile import nvrtc_or_skip

from tcu.gpu.compiler import CompileTask, compile_cuda

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from gpu_polynomials import HORNER, HORNERS, horner_macros

ENTRY = """
namespace tcu {}
struct Horner { const double* a; const double* x; double* y; long long points; int n; };
static void horner_of(const Horner& p) { horner(p.a, p.n, p.x, p.y, p.points); }
"""


class Horner(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in "axy"), ("points", ctypes.c_longlong), ("n", ctypes.c_int),
    )  # fmt: skip


def fma(x: float, y: float, z: float) -> float:
    return float(Fraction(x) * Fraction(y) + Fraction(z))


def by_definition(a: list[float], x: float, split: int) -> float:
    """Chains of every split-th coefficient at x^split, and these by Horner's rule."""
    step = x
    for _ in range(split - 1):
        step *= x
    sums = []
    for chain in range(split):
        total = 0.0
        for coefficient in reversed(a[chain::split]):
            total = fma(total, step, coefficient)
        sums.append(total)
    total = sums[-1]
    for each in reversed(sums[:-1]):
        total = fma(total, x, each)
    return total


@pytest.mark.slow(4)
@pytest.mark.parametrize(("per", "split"), sorted({shape[:2] for shape in HORNERS}))
@pytest.mark.parametrize("n", [4, 64, 520])
def test_values_are_those_of_the_rule(
    per: int, split: int, n: int, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_on_host, "read_sources", lambda name: ((name, HORNER + ENTRY),))
    threads = 32
    macros = {name: str(value) for name, value in horner_macros(n, per, split, threads).items()}
    kernel = cuda_on_host.compiled_for_host("horner.cu", "horner_of", "Horner", macros, built)
    rng = np.random.default_rng(n)
    points = threads * per + 5
    a, x, y = rng.standard_normal(n), rng.uniform(-1.5, 1.5, points), np.full(points + 9, 7.0)
    problem = Horner(a.ctypes.data, x.ctypes.data, y.ctypes.data, points, n)
    kernel(problem, 2, threads)
    assert y[points:].tolist() == [7.0] * 9
    sample = [*range(0, points, 7), points - 1]
    assert [y[i] for i in sample] == [by_definition(a.tolist(), float(x[i]), split) for i in sample]


def test_every_shape_compiles() -> None:
    nvrtc_or_skip()
    for shape in HORNERS:
        options = tuple(
            f"--define-macro={name}={value}" for name, value in horner_macros(1024, *shape).items()
        )
        ptx = compile_cuda(CompileTask((("horner.cu", HORNER),), ("--std=c++17", *options), "sm_90")).ptx
        assert ".local" not in ptx
        assert "fma.rn.f64" in ptx
