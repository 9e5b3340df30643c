"""Contract: on arrays of another library, a program stays there from its operands to its result.

Shown with arrays that refuse to become NumPy's or to mix with them; the
results are those of the same program on NumPy arrays, bit for bit.  Products
of integers begin and end as Python's, so only their digits are elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest
from device_stand_in import Elsewhere, ElsewhereExecutor

import tcu
from tcu.machine import ModelExecutor
from tcu.machine.executors import IdealExecutor

RNG = np.random.default_rng(11)
A, B = RNG.standard_normal((21, 34)), RNG.standard_normal((34, 13))
Z = RNG.standard_normal(60) + 1j * RNG.standard_normal(60)

PROGRAMS = {
    "matmul": (lambda m, a, b: m.matmul(a, b), (A, B)),
    "matmul, complex": (lambda m, a, b: m.matmul(a, b), (A + 1j, B)),
    "strassen": (lambda m, a, b: m.strassen(a, b), (A, B)),
    "laderman, integers": (lambda m, a, b: m.strassen(a, b, "laderman"), (A.astype(int), B.astype(int))),
    "sum": (lambda m, x: m.sum(x), (A,)),
    "chained sum": (lambda m, x: m.sum(x, "chained", chain=3), (A,)),
    "dft": (lambda m, x: m.dft(x), (Z,)),
    "dft of a batch, three products": (lambda m, x: m.dft(x.reshape(3, 20), product="three"), (Z,)),
    "embedded dft": (lambda m, x: m.dft(x, product="embedded"), (Z,)),
    "dft of a prime length": (lambda m, x: m.dft(x[:53]), (Z,)),
    "inverse": (lambda m, x: m.idft(x), (Z,)),
    "real": (lambda m, x: m.irdft(m.rdft(x.real), 60), (Z,)),
    "n-D": (lambda m, x: m.dftn(x.reshape(5, 12)), (Z,)),
    "polynomial": (lambda m, a, x: m.evaluate(a, x), (A.reshape(-1)[:90], np.linspace(-1, 1, 33))),
    "polynomial modulo a prime": (
        lambda m, a, x: m.evaluate(a, x, modulus=65537), (np.arange(90), np.arange(40)),
    ),
}  # fmt: skip


CASES = [
    (name, unit)
    for name in PROGRAMS
    for unit in ("ideal", "binary16", "binary64")
    # Polynomials need binary64, and a scheme's sums of integers more bits than an instruction has.
    if unit == "ideal" or not (("polynomial" in name and unit == "binary16") or "integers" in name)
]


@pytest.mark.slow(6)
@pytest.mark.parametrize(("name", "unit"), CASES)
def test_a_program_stays_where_its_arrays_are(name: str, unit: str) -> None:
    inside = IdealExecutor() if unit == "ideal" else ModelExecutor("H100", unit)
    program, operands = PROGRAMS[name]
    expected = program(tcu.Machine(16, 3, executor=inside), *operands)
    machine = tcu.Machine(16, 3, executor=ElsewhereExecutor(inside))
    got = program(machine, *(Elsewhere(x) for x in operands))
    assert isinstance(got, Elsewhere)
    assert got.get().dtype == expected.dtype
    assert got.get().tobytes() == expected.tobytes()


@pytest.mark.parametrize("algorithm", ["schoolbook", "karatsuba"])
def test_digits_of_integers_are_elsewhere(algorithm: str) -> None:
    a, b = 3**900, -(7**500)
    machine = tcu.Machine(16, 3, executor=ElsewhereExecutor(IdealExecutor()))
    assert machine.integer_multiply(a, b, algorithm=algorithm) == a * b
    assert machine.ledger.tensor_calls > 0


def test_the_stand_in_refuses_what_it_should() -> None:
    x = Elsewhere(np.ones(3))
    with pytest.raises(TypeError, match="use get"):
        np.asarray(x)
    with pytest.raises(TypeError, match="move it to the device first"):
        x + np.ones(3)
    with pytest.raises(TypeError, match="move it to the device first"):
        np.concatenate([x, np.ones(3)])
    assert (x + 1).get().tolist() == [2, 2, 2]
    with pytest.raises(AssertionError):
        ElsewhereExecutor(IdealExecutor()).multiply(np.ones((1, 1)), x)
