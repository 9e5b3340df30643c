"""Contract of ``tcu.infer``: an executable model from answers alone, or *not identified*.

Every arithmetic of the catalogue, units drawn at random over the whole family
(``--units`` of them; ``make verify`` takes 300), and targets that no member
of the family is: those are never identified.  An identified unit is compared
with the target once more, on inputs that the inference did not see.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import tcu
from tcu.errors import ParameterError
from tcu.formats import get_format
from tcu.probes import Inference, infer
from tcu.probes.infer import interleaved
from tcu.probes.inputs import adversarial, near_zero, ordinary
from tcu.probes.target import Target, of_instruction
from tcu.units import CATALOGUE, AlignedSum, FusedChain, Instruction

DIFFERENT = {
    (row.a, row.output, row.k, row.arithmetic): (unit.name, row)
    for unit in reversed(CATALOGUE.values())
    for row in unit.instructions
    if row.a == row.b
}


def different_outputs(target: Target, found: Inference, outputs: int, seed: int) -> int:
    """Fresh outputs on which the inferred unit and the target differ."""
    assert found.unit is not None
    model = of_instruction("model", found.unit.instructions[0])
    rng = np.random.default_rng(seed)
    different = 0
    kinds = (adversarial, ordinary, near_zero) if target.input.is_float else (adversarial,)
    for number in range(-(-outputs // 4096)):
        q = kinds[number % len(kinds)](target, rng, 64, 64)
        different += int(np.count_nonzero(target(q.a, q.b, q.c) != model(q.a, q.b, q.c)))
    return different


@pytest.mark.parametrize(
    ("unit", "row"), DIFFERENT.values(), ids=[f"{unit} {row.signature}" for unit, row in DIFFERENT.values()]
)
def test_every_arithmetic_of_the_catalogue_is_identified(unit: str, row: Instruction) -> None:
    target = of_instruction("target", row)
    found = infer(target, seed=0, outputs=200_000)
    assert found.identified, found.conclusion
    assert found.counterexample is None
    assert different_outputs(target, found, 200_000, 1) == 0
    if isinstance(row.arithmetic, AlignedSum) and row.output == "binary32":
        # 11 bits of output hide where a sum of 8-bit inputs was cut, so this holds of binary32 only.
        assert isinstance(found.arithmetic, AlignedSum)
        names = ("fraction_bits", "rounding", "late_c", "order")
        assert [getattr(found.arithmetic, n) for n in names] == [getattr(row.arithmetic, n) for n in names]
        assert found.arithmetic.block == row.arithmetic.block


def random_unit(draw: random.Random) -> Instruction:
    """One member of the family: block 1 to 32, F 8 to 40, four roundings, and all the rest."""
    operand = draw.choice(["binary16", "bfloat16", "tf32", "e4m3", "e5m2"])
    narrow = operand in ("binary16", "e4m3", "e5m2") and draw.random() < 0.33
    output = "binary16" if narrow else "binary32"
    full = get_format(output).fraction_bits
    k = draw.choice([4, 8, 16, 32])
    emulated = k >= 8 and draw.random() < 0.15
    floors = [None, -21, -20, -14, -24] if narrow else [None, -133, -132, -126, -140]
    return Instruction("mma", operand, operand, output, (16, 8, k), AlignedSum(
        block=draw.choice([1, 2, 4, 8, 16, 32]) if draw.random() < 0.6 else draw.randint(1, 32),
        fraction_bits=draw.randint(8, 40),
        rounding=draw.choice(["RNE", "RZ", "RU", "RD"]),
        exponent_floor=draw.choice(floors),
        output_fraction_bits=draw.choice([None, None, draw.randint(8, full)]),
        order=interleaved(k, 4) if emulated else None,
        late_c=emulated or draw.random() < 0.3,
        normalized_products=draw.random() < 0.25,
        flush_inputs=draw.random() < 0.2,
        flush_outputs=draw.random() < 0.2,
    ), ())  # fmt: skip


def test_units_drawn_at_random_are_identified(request: pytest.FixtureRequest) -> None:
    count = request.config.getoption("--units")
    draw = random.Random(2026)
    missed = []
    for number in range(count):
        row = random_unit(draw)
        target = of_instruction(f"unit {number}", row)
        found = infer(target, seed=number)
        if not found.identified:
            assert found.counterexample is not None, f"{row}: neither identified nor refuted"
            missed.append(row)
            continue
        assert different_outputs(target, found, 100_000, number) == 0, f"{row} taken for {found.arithmetic}"
    assert len(missed) <= 0.03 * count, missed


def f64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Terms (M, N, k + 1) in binary64, c first."""
    with np.errstate(all="ignore"):
        products = a.astype(np.float64)[:, None, :] * b.astype(np.float64).T[None, :, :]
        return np.concatenate([c.astype(np.float64)[..., None], products], axis=-1)


def kahan(a, b, c):
    terms = f64(a, b, c)
    total, lost = np.zeros(c.shape, np.float32), np.zeros(c.shape, np.float32)
    with np.errstate(all="ignore"):
        for i in range(terms.shape[-1]):
            y = terms[..., i].astype(np.float32) - lost
            t = total + y
            lost = (t - total) - y
            total = t
    return total


def pairwise(a, b, c):
    terms = f64(a, b, c)
    with np.errstate(all="ignore"):
        level = [terms[..., i].astype(np.float32) for i in range(1, terms.shape[-1])]
        while len(level) > 1:
            level = [level[i] + level[i + 1] for i in range(0, len(level), 2)]
        return level[0] + c


class Noise:
    """Another answer at every call."""

    __name__ = "noise"

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, a, b, c):
        return self.rng.standard_normal(c.shape).astype(np.float32)


class Counting:
    """A function of how often it was called."""

    __name__ = "counting"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, a, b, c):
        self.calls += 1
        return tcu.mma(a, b, c, unit="H100" if self.calls % 7 else "V100")


def nearly(a, b, c):
    """The H100, but for one operand pattern."""
    d = tcu.mma(a, b, c, unit="H100")
    return np.where(c == np.float32(1.0), np.nextafter(d, np.float32(0)), d).astype(np.float32)


@pytest.mark.parametrize("function", [kahan, pairwise, Noise(), Counting(), nearly], ids=lambda f: f.__name__)
def test_foreign_targets_are_never_identified(function) -> None:
    found = infer(function, k=16, seed=0, outputs=300_000)
    assert not found.identified
    assert found.unit is None
    assert found.conclusion.startswith("not identified")


@pytest.mark.parametrize("function", [kahan, pairwise, nearly])
def test_a_counterexample_is_small_and_real(function) -> None:
    found = infer(function, k=16, seed=3)
    example = found.counterexample
    assert example is not None
    assert example.target != example.model
    a = np.array([example.a], np.uint16).view(np.float16)
    b = np.array([example.b], np.uint16).view(np.float16).T
    c = np.array([[example.c]], np.uint32).view(np.float32)
    assert int(np.asarray(function(a, b, c)).view(np.uint32)[0, 0]) == example.target
    used = [p for p, q in zip(example.a, example.b, strict=True) if p or q]
    assert len(used) <= 4


def test_an_inferred_unit_can_be_executed() -> None:
    found = infer("A100", input="tf32", seed=0, outputs=50_000)
    x = np.random.default_rng(0).standard_normal((20, 20)).astype(np.float32)
    assert found.unit is not None
    assert (tcu.mma(x, x, unit=found.unit) == tcu.mma(x, x, unit="A100")).all()


def test_what_was_compared_is_told() -> None:
    found = infer("V100", seed=0, outputs=30_000)
    assert found.tried >= 30_000
    assert found.different == 0
    assert [stage.parameters for stage in found.pinned] == [
        "alignment and rounding",
        "blocks and order",
        "floor and flushes",
    ]
    assert all(stage.candidates >= 1 and stage.dots > 1000 for stage in found.pinned)
    assert "block 4, F 23, rounding RZ" in found.conclusion
    stages: list[str] = []
    infer("A100", input="binary64", seed=0, outputs=1000, progress=stages.append)
    assert stages[-1] == "fresh adversarial inputs"
    assert isinstance(infer("A100", input="f64", seed=0, outputs=1000).arithmetic, FusedChain)


def test_a_bad_number_of_outputs() -> None:
    with pytest.raises(ParameterError, match="outputs=0"):
        infer("V100", outputs=0)


def test_two_models_that_no_input_tells_apart_count_as_one() -> None:
    """Blocks longer than k, and a floor that binary16 products never reach."""
    row = CATALOGUE["H100"].instructions[0]
    assert isinstance(row.arithmetic, AlignedSum)
    other = replace(row, arithmetic=replace(row.arithmetic, block=20, exponent_floor=None))
    target = of_instruction("other", other)
    found = infer(target, seed=0, outputs=100_000)
    assert found.identified
    assert different_outputs(target, found, 100_000, 2) == 0
