"""Contract: the catalogue's model returns, bit for bit, what real hardware returned.

Every output of every set of vectors, NaN bits included.  The checker is shown
to notice a planted one-bit error and every parameter moved by one: a test
that could not fail would prove nothing.  Where the vectors are not at hand
(``TCU_VECTORS`` names their folder) these tests skip and say so.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hardware import FOLDER, case, moved_chain, names

from tcu.formats import get_format
from tcu.model.definition import dot
from tcu.units import AlignedSum, FusedChain

NAMES = names()
needs_vectors = pytest.mark.skipif(not NAMES, reason=f"no hardware vectors in {FOLDER.name}/ (TCU_VECTORS)")
FOUND = [pytest.param(file, name, id=name) for file, name in NAMES] or [pytest.param("", "", id="none")]


@needs_vectors
def test_all_sets_are_here() -> None:
    assert len(NAMES) == 64 + 36
    assert sum(case(*name).d.size for name in NAMES) == 181_888 + 16_128


@needs_vectors
@pytest.mark.parametrize(("file", "name"), FOUND)
def test_every_output_matches(file: str, name: str) -> None:
    vectors = case(file, name)
    assert vectors.different() == 0


@needs_vectors
@pytest.mark.parametrize(("file", "name"), FOUND)
def test_the_definition_matches_too(file: str, name: str) -> None:
    vectors = case(file, name)
    shift = get_format(vectors.instruction.a).storage_shift
    step = max(1, len(vectors.d) // 40)
    for t in range(0, len(vectors.d), step):
        row, column = t % vectors.d.shape[1], t % vectors.d.shape[2]
        a = [int(code) >> shift for code in vectors.a[t, row]]
        b = [int(code) >> shift for code in vectors.b[t, :, column]]
        got = dot(a, b, int(vectors.c[t, row, column]), vectors.instruction)
        assert got == int(vectors.d[t, row, column]), f"MMA {t}, element {row}, {column}"


@needs_vectors
@pytest.mark.parametrize(("file", "name"), FOUND)
def test_a_planted_one_bit_error_is_noticed(file: str, name: str) -> None:
    vectors = case(file, name)
    wrong = vectors.d.copy()
    wrong[-1, 0, 0] ^= 1
    assert replace(vectors, d=wrong).different() == 1


def moved(arithmetic: AlignedSum) -> dict[str, AlignedSum]:
    """The same arithmetic with each parameter moved to its neighbour."""
    kept = arithmetic.output_fraction_bits
    other = {"RZ": "RNE", "RNE": "RZ"}[arithmetic.rounding]
    rows = {
        "F+1": replace(arithmetic, fraction_bits=arithmetic.fraction_bits + 1),
        "F-1": replace(arithmetic, fraction_bits=arithmetic.fraction_bits - 1),
        "rounding": replace(arithmetic, rounding=other),
        "normalized": replace(arithmetic, normalized_products=True),
        "flush_inputs": replace(arithmetic, flush_inputs=True),
        "flush_outputs": replace(arithmetic, flush_outputs=True),
        "late_c": replace(arithmetic, late_c=not arithmetic.late_c),
        "floor+1": replace(arithmetic, exponent_floor=arithmetic.exponent_floor + 1),
        "floor-1": replace(arithmetic, exponent_floor=arithmetic.exponent_floor - 1),
        "block-1": replace(arithmetic, block=arithmetic.block - 1),
    }
    if kept is not None:
        rows["output+1"] = replace(arithmetic, output_fraction_bits=kept + 1)
        rows["output-1"] = replace(arithmetic, output_fraction_bits=kept - 1)
    if arithmetic.order is not None:
        rows["order"] = replace(arithmetic, order=None)
    return rows


FLOOR = {"floor+1", "floor-1"}
WIDTH = {"F+1", "F-1", "normalized"}


def blind_spots(file: str, name: str) -> set[str]:
    """Parameters that a set of vectors cannot tell from their neighbours, and why: what it does not pin."""
    if file == "h200.npz":
        blind = set()
        if name.startswith(("f16_f32", "wg_f16", "e4m3", "e5m2", "wg_e")):
            blind |= FLOOR  # no product of these inputs comes near 2^-133: the floor cannot be seen at all
        if name in ("bf16_f32_k8", "tf32_f32_k8", "tf32_f32_k4", "f16_f16_k16"):
            blind.add("floor-1")  # the shipped part of the probes sees this side in the other sets only
        if (name.endswith("_k8") and not name.startswith("tf32")) or name.endswith("_k4"):
            blind.add("block-1")  # half a block of products: the cut at the full block is out of sight
        if name == "f16_f16_k16":
            blind |= {"F+1", "normalized"}  # 11 bits of output hide the 26th
        return blind
    # 400 ordinary dot products of one block each: nothing near the floor or the subnormal results.
    gpu, given, output = name.split("/")
    blind = FLOOR | {"flush_outputs"}
    if given != "E4M3":
        blind.add("flush_inputs")
    if given == "fp16" and output == "fp16":
        blind |= WIDTH
    if given in ("E4M3", "E5M2") and gpu in ("H100", "H200", "B200"):
        if output == "fp32" and gpu != "B200":
            blind.add("late_c")  # wgmma, collected with c = 0
        else:
            blind |= WIDTH  # products of 8-bit numbers leave 25 bits half empty
        if output == "fp32" and gpu == "B200":
            blind |= {"order", "block-1", "rounding"}
    if given == "tf32" and gpu in ("H100", "H200", "B200"):
        blind.add("block-1")  # four products where a block takes eight
    return blind


@needs_vectors
@pytest.mark.parametrize(("file", "name"), [each for each in FOUND if each.values[0] != "xeon-amx.npz"])
def test_every_parameter_moved_by_one_is_noticed(file: str, name: str) -> None:
    vectors = case(file, name)
    arithmetic = vectors.instruction.arithmetic
    if isinstance(arithmetic, FusedChain):  # its one parameter is the order
        assert replace(vectors, a=vectors.a[:, :, ::-1], b=vectors.b[:, ::-1]).different() > 0
        return
    assert isinstance(arithmetic, AlignedSum)
    unnoticed = {
        parameter
        for parameter, other in moved(arithmetic).items()
        if vectors.different(replace(vectors.instruction, arithmetic=other)) == 0
    }
    assert unnoticed == blind_spots(file, name)


@needs_vectors
@pytest.mark.parametrize(
    ("start", "blind"),
    [("tdpbf16ps_k32", set()), ("tdpbf16ps_k2", {"order"}), ("vdpbf16ps", set())],
)
def test_together_the_sets_of_the_xeon_pin_every_parameter(start: str, blind: set[str]) -> None:
    sets = [case(*name) for name in NAMES if name[1].split("/")[0] == start]
    row = sets[0].instruction
    unnoticed = {
        parameter
        for parameter, other in moved_chain(row).items()
        if not any(each.different(other) for each in sets)
    }
    assert unnoticed == blind


@needs_vectors
def test_together_the_h200_sets_pin_every_parameter() -> None:
    sets = [name for file, name in NAMES if file == "h200.npz" and not name.startswith("f64")]
    assert not set.intersection(*(blind_spots("h200.npz", name) for name in sets))
