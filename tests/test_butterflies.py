"""Contract of tcu.plan.butterflies: each program computes the discrete Fourier transform, with as many operations as are
written down here, and none errs more than its error says.

Programs are run with exact fractions beside mpmath's roots, and rounded step by step by tests/fft_definition.py.  A
wrong step, wherever it stands, is seen.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import fft_definition
import numpy as np
import numpy.typing as npt
import pytest

from tcu.errors import ParameterError
from tcu.plan.butterflies import LENGTHS, Butterfly, Step, butterfly
from tcu.plan.fft import fft_plan
from tcu.plan.roots import DIGITS

STEPS = {2: 4, 3: 12, 4: 16, 5: 32, 6: 36, 7: 60, 8: 52, 9: 88, 10: 84, 12: 96, 14: 148, 15: 156, 16: 144, 20: 208, 25: 384, 27: 436, 32: 376}  # fmt: skip
"""Operations of each: more of them would be a loss of speed, fewer another program and other bits."""


def matrix(program: Butterfly) -> npt.NDArray[np.complex128]:
    """What a program makes of each complex number, in float64."""
    inputs = np.eye(2 * program.length)
    values = list(inputs)
    for step in program.steps:
        x, c = values[step.x], step.constant / (1 << DIGITS)
        y = values[step.y] if step.y >= 0 else 0 * x
        values.append({"add": x + y, "sub": x - y, "mul": c * x, "fma": c * x + y}[step.kind])
    found = np.array([values[place] for place in program.results])
    return found[::2] + 1j * found[1::2]


def expected(n: int) -> npt.NDArray[np.complex128]:
    """Columns of real and imaginary parts in turns."""
    roots = np.exp(-2j * np.pi * (np.outer(np.arange(n), np.arange(n)) % n) / n)
    return np.stack([roots, 1j * roots], -1).reshape(n, 2 * n)


def is_right(program: Butterfly) -> bool:
    return bool(np.abs(matrix(program) - expected(program.length)).max() < 1e-12)


@pytest.mark.parametrize("n", LENGTHS)
def test_a_program_is_the_transform_to_the_last_digit_of_its_constants(n: int) -> None:
    mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")
    program = butterfly(n)
    drawn = np.random.default_rng(n).integers(-(2**20), 2**20, 2 * n).tolist()
    values = [Fraction(each) for each in drawn]
    for step in program.steps:
        c = Fraction(step.constant, 1 << DIGITS)
        x, y = values[step.x], values[step.y] if step.y >= 0 else Fraction(0)
        values.append({"add": x + y, "sub": x - y, "mul": c * x, "fma": c * x + y}[step.kind])
    with mpmath.workprec(250):
        for k in range(n):
            exact = sum(
                mpmath.mpc(drawn[2 * j], drawn[2 * j + 1]) * mpmath.expjpi(mpmath.mpf(-2 * j * k) / n)
                for j in range(n)
            )
            for place, part in zip(program.results[2 * k : 2 * k + 2], (exact.real, exact.imag), strict=True):
                found = mpmath.mpf(values[place].numerator) / values[place].denominator
                assert abs(found - part) < mpmath.mpf(2) ** -110


@pytest.mark.parametrize("n", LENGTHS)
def test_a_program_has_as_many_steps_as_are_known(n: int) -> None:
    assert len(butterfly(n).steps) == STEPS[n]
    assert butterfly(n).results == tuple(dict.fromkeys(butterfly(n).results)), (
        "each result has a place of its own"
    )
    assert all(step.x < 2 * n + at and step.y < 2 * n + at for at, step in enumerate(butterfly(n).steps))


@pytest.mark.slow(1)
@pytest.mark.parametrize("n", LENGTHS)
def test_a_wrong_step_is_seen(n: int) -> None:
    """Every step in turn: another operation, another operand, a constant that is off in its 40th digit."""
    program = butterfly(n)
    assert is_right(program)
    for at, step in enumerate(program.steps):
        others = [step._replace(x=(step.x + 1) % (2 * n))]
        if step.kind in ("add", "sub"):
            others += [Step("sub" if step.kind == "add" else "add", step.x, step.y)]
        else:
            others += [
                step._replace(constant=step.constant + (1 << DIGITS - 36)),
                step._replace(constant=-step.constant),
            ]
        for other in others:
            if other == step:
                continue
            steps = (*program.steps[:at], other, *program.steps[at + 1 :])
            assert not is_right(replace(program, steps=steps)), (at, step, other)
    results = (program.results[2], program.results[1], program.results[0], *program.results[3:])
    assert not is_right(replace(program, results=results))


def errors(n: int, x: npt.NDArray[Any], work: str) -> npt.NDArray[np.float64]:
    """Of each line of x, relative to the exact results, in unit roundoffs."""
    numbers = fft_definition.Arithmetic(work)
    found = np.array(
        [fft_definition._butterfly([(float(a), float(b)) for a, b in line], numbers) for line in x]
    )
    exact = (x[..., 0] + 1j * x[..., 1]).astype(np.clongdouble) @ np.exp(
        -2j * np.pi * np.longdouble(1) * (np.outer(np.arange(n), np.arange(n)) % n) / n
    )
    off = np.linalg.norm(found[..., 0] + 1j * found[..., 1] - exact, axis=1) / np.linalg.norm(exact, axis=1)
    return np.asarray(off / 2.0**-24, np.float64)


@pytest.mark.slow(4)
@pytest.mark.parametrize("n", LENGTHS)
def test_no_program_errs_more_than_it_says(n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((60, n, 2)) * 2.0 ** rng.integers(-3, 4, (60, n, 1))
    alternating = np.exp(
        2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    )  # whose results are one number each
    x = np.concatenate([x, np.stack([alternating.real, alternating.imag], -1)]).astype(np.float32)
    found = errors(n, x.astype(np.float64), "binary32")
    bound = butterfly(n).error
    assert found.max() <= bound, (n, found.max(), bound)
    assert found.max() > bound / 20, "the bound says nothing"


def test_the_error_is_that_of_what_is_rounded() -> None:
    """Of two numbers: each result is rounded once, and no constant is there."""
    assert butterfly(2).error == pytest.approx(1, rel=1e-5)
    assert butterfly(2).error < butterfly(4).error < butterfly(16).error < 8


def test_a_length_that_is_too_long_is_said_in_words() -> None:
    with pytest.raises(ParameterError, match=r"a transform of 2,147,483,649 numbers: give at most 2\^31"):
        fft_plan((1 << 31) + 1, "binary32")
    with pytest.raises(
        ParameterError, match="of which 1,073,741,827 has no prime factor up to 7, needs one of"
    ):
        fft_plan(1073741827, "binary32")
