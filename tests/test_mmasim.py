"""Contract: the model and the published simulator of MMA-Sim's authors (mmasim, 2.1.1 or newer) give the same bits.

Every instruction that both have, on adversarial operands; any NaN equals any
other.  Where they differ the place is listed here, with who is right and why:

- CDNA3, 8-bit formats: mmasim drops c where its exponent lies far below the
  products', and takes inf and NaN for numbers of exponent 0.  c = NaN, or a block
  before that gave NaN, then gives a number.  IEEE 754 has NaN and inf propagate, as mmasim does in every other case.

mmasim is not among the packages of any extra: put it on the path to run this.
``python tests/test_mmasim.py [UNIT ...]`` prints differences, and how processor times compare.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from adversarial import MODES, codes

from tcu.formats import decode, get_format
from tcu.model.mma import multiply_accumulate
from tcu.units import CATALOGUE, FusedChain, GroupedSum, Instruction, LateSum

torch = pytest.importorskip("torch", reason="mmasim needs PyTorch")
amd, nv_ptx = (
    pytest.importorskip(f"mmasim.{part}", reason="needs the published simulator mmasim, 2.1.1 or newer")
    for part in ("amd", "nv_ptx")
)

SIDE = 64
_NAMES = {
    "binary16": "f16",
    "bfloat16": "bf16",
    "binary32": "f32",
    "binary64": "f64",
    "e4m3fnuz": "fp8",
    "e5m2fnuz": "bf8",
}
_MMA = {
    "T4": "Turing",
    "A100": "Ampere",
    "Ada": "Ada Lovelace",
    "H200": "Hopper",
    "B200": "Blackwell",
    "RTX-Blackwell": "RTX Blackwell",
}
_CDNA = {"MI100": "CDNA1", "MI250": "CDNA2", "MI300": "CDNA3"}
_MFMA = {
    ("MI100", "mma", "binary16"): "f32_32x32x8f16", ("MI100", "mma", "bfloat16"): "f32_32x32x4bf16",
    ("MI250", "mma", "binary16"): "f32_32x32x8f16", ("MI250", "mma", "bfloat16"): "f32_32x32x8bf16_1k",
    ("MI250", "mfma.bf16", "bfloat16"): "f32_32x32x4bf16", ("MI250", "mma", "binary64"): "f64_16x16x4f64",
    ("MI300", "mma", "binary16"): "f32_32x32x8_f16", ("MI300", "mma", "bfloat16"): "f32_32x32x8_bf16",
    ("MI300", "mma", "tf32"): "f32_16x16x8_xf32", ("MI300", "mma", "binary64"): "f64_16x16x4_f64",
    ("MI300", "mfma.4x4x4", "binary16"): "f32_4x4x4_16b_f16", ("MI300", "mfma.4x4x4", "bfloat16"): "f32_4x4x4_16b_bf16",
}  # fmt: skip


def simulator(unit: str, row: Instruction) -> Callable[..., Any] | None:
    """mmasim's operation for an instruction; None where it has none."""
    a, b, d = (_NAMES.get(name, name) for name in (row.a, row.b, row.output))
    if row.output == "s32":
        return None
    if unit in _CDNA:
        suffix = _MFMA.get((unit, row.name, row.a), f"f32_16x16x32_{a}_{b}")
        return amd.MFMA(_CDNA[unit], suffix)
    if row.scale:
        pair = f"block{row.per_scale}.f32.{a}.{b}"
        if unit == "RTX-Blackwell":
            return nv_ptx.MMABlockScale(
                "RTX Blackwell", f"m16n8k{row.k}.kind::{row.name}.{pair}.f32.{row.scale}"
            )
        return nv_ptx.TCGen05MMABlockScale("Blackwell", f"m128n8k{row.k}.kind::{row.name}.{pair}.{row.scale}")
    if row.name == "tcgen05":
        kind = {16: "f16", 8: "tf32", 32: "f8f6f4"}[row.k]
        return nv_ptx.TCGen05MMA("Blackwell", f"m128n8k{row.k}.kind::{kind}.{d}.{a}.{b}")
    if row.name == "wgmma":
        return nv_ptx.WGMMA("Hopper", f"m64n8k{row.k}.{d}.{a}.{b}")
    if row.name in ("mma.m8n8k4", "mma.f16c"):
        return nv_ptx.MMA("Volta" if unit == "V100" else "Turing", f"m8n8k4.{d}.{a}.{b}.{_NAMES[row.c]}")
    if unit not in _MMA or (getattr(row.arithmetic, "late_c", False) and row.k == 32):
        return None  # mma.sync of 8-bit formats on Hopper and Blackwell is emulated by the compiler
    if unit == "RTX-Blackwell" and row.k == 32:
        return nv_ptx.MMA("RTX Blackwell", f"m16n8k32.kind::f8f6f4.{d}.{a}.{b}.{d}")
    m = "m8n8" if row.output == "binary64" else "m16n8"
    return nv_ptx.MMA(_MMA[unit], f"{m}k{row.k}.{d}.{a}.{b}.{d}")


def shared() -> Iterator[tuple[str, Instruction, Callable[..., Any]]]:
    """One row of every arithmetic that both have."""
    seen = set()
    for unit in CATALOGUE.values():
        for row in unit.instructions:
            key = (row.a, row.b, row.output, row.c, row.k, row.arithmetic, row.scale, row.per_scale)
            if key in seen or unit.name in ("L40S", "A30", "A2", "H100"):
                continue
            found = (
                simulator(unit.name, row) if unit.compute_capability != "-" or unit.name in _CDNA else None
            )
            if found is not None:
                seen.add(key)
                yield unit.name, row, found


def tensor(words: npt.NDArray[Any], name: str, packed: bool) -> Any:
    """Codes as mmasim takes them: those of six and four bits in the upper bits of six, or two in a byte."""
    fmt = get_format(name)
    if fmt.signed and fmt.bits < 8:
        if packed:
            return torch.from_numpy(np.ascontiguousarray(words[..., ::2] << 4 | words[..., 1::2]))
        return torch.from_numpy(words << np.uint8(5 - fmt.exponent_bits - fmt.fraction_bits))
    kind = {
        "binary16": torch.float16, "bfloat16": torch.bfloat16, "tf32": torch.float32, "binary32": torch.float32,
        "binary64": torch.float64, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
        "e4m3fnuz": torch.float8_e4m3fnuz, "e5m2fnuz": torch.float8_e5m2fnuz, "ue8m0": torch.float8_e8m0fnu,
        "ue4m3": torch.float8_e4m3fn,
    }[name]  # fmt: skip
    signed = words.view(f"i{words.dtype.itemsize}") if words.dtype.itemsize > 1 else words
    return torch.from_numpy(signed).view(kind)


@dataclass
class Comparison:
    dots: int = 0
    different: int = 0
    known: int = 0
    """Where inf or NaN in c, or in the result of the block before, is lost."""
    ours: float = 0.0
    theirs: float = 0.0
    example: str = ""


def compare(row: Instruction, simulated: Callable[..., Any], dots: int) -> Comparison:
    rng, found = np.random.default_rng(33), Comparison()
    x, y, z, own = (get_format(name) for name in (row.a, row.b, row.output, row.c))
    packed = isinstance(row.arithmetic, GroupedSum)
    for number in range(-(-dots // SIDE**2)):
        mode = MODES[number % len(MODES)]
        other = str(rng.choice([mode, rng.choice(MODES)]))
        a, b = codes(rng, row.a, (SIDE, row.k), mode), codes(rng, row.b, (row.k, SIDE), other)
        c = codes(rng, row.c, (SIDE, SIDE), str(rng.choice([mode, other])))
        views, extra = None, ()
        if row.scale:
            count, one = row.k // row.per_scale, {"ue8m0": 127, "ue4m3": 0x38}[row.scale]
            low, high = (0, 1 << get_format(row.scale).bits) if number % 4 == 0 else (one - 20, one + 20)
            scales = [rng.integers(low, high, s).astype(np.uint8) for s in ((SIDE, count), (count, SIDE))]
            if number % 4:
                field = rng.integers(0x60, 0x98, c.shape).astype(np.uint32) << 23
                c = (c & 0x807FFFFF | field).astype(np.uint32)
            views = tuple(each.view(get_format(row.scale).dtype) for each in scales)
            extra = tuple(tensor(each, row.scale, False) for each in scales)
        operands = a.view(x.dtype), b.view(y.dtype), c.view(own.dtype)
        start = time.process_time()
        ours = multiply_accumulate(*operands, row, scales=views).view(z.code_dtype)  # type: ignore[arg-type]
        middle = time.process_time()
        columns = tensor(np.ascontiguousarray(b.T), row.b, packed).T
        theirs = simulated(tensor(a, row.a, packed), columns, tensor(c.copy(), row.c, False), *extra)
        end = time.process_time()
        if number:  # the first call compiles
            found.ours, found.theirs = found.ours + middle - start, found.theirs + end - middle
        wide = theirs.view(getattr(torch, f"int{8 * z.dtype.itemsize}")).numpy().view(z.code_dtype)
        floats = ours.view(z.dtype), wide.view(z.dtype)
        differ = (ours != wide) & ~(np.isnan(floats[0]) & np.isnan(floats[1]))
        drops = isinstance(row.arithmetic, LateSum) and row.arithmetic.drops_small_c
        lost = differ & drops & ~np.isfinite(floats[0])
        found.dots += c.size
        found.known += int(lost.sum())
        differ &= ~lost
        found.different += int(differ.sum())
        if differ.any() and not found.example:
            i, j = map(int, np.argwhere(differ)[0])
            left = [float(decode(int(v) >> x.storage_shift, x)) for v in a[i]]
            right = [float(decode(int(v) >> y.storage_shift, y)) for v in b[:, j]]
            given = (
                ""
                if views is None
                else f" scales={[each.astype(float).tolist() for each in (views[0][i], views[1][:, j])]}"
            )
            found.example = (
                f"a={left} b={right} c={c[i, j]:#x}{given}: tcu {ours[i, j]:#x}, mmasim {wide[i, j]:#x}"
            )
    return found


BOTH = [pytest.param(row, found, id=f"{unit} {row.signature}") for unit, row, found in shared()]


@pytest.mark.slow(12)
@pytest.mark.parametrize(("row", "simulated"), BOTH)
def test_the_published_simulator_gives_the_same_bits(row: Instruction, simulated: Callable[..., Any]) -> None:
    found = compare(row, simulated, 50_000)
    assert found.dots >= 50_000
    assert found.different == 0, found.example


def test_what_the_simulator_loses_is_seen() -> None:
    """The listed difference exists; one that no longer does is to be taken off the list."""
    (row,) = [r for r in CATALOGUE["MI300"].instructions if (r.a, r.b) == ("e5m2fnuz", "e5m2fnuz")]
    simulated = simulator("MI300", row)
    assert simulated is not None
    assert compare(row, simulated, 50_000).known > 0


def test_both_have_most_of_the_catalogue() -> None:
    assert len(BOTH) > 100
    assert {type(each.values[0].arithmetic) for each in BOTH} >= {FusedChain, GroupedSum, LateSum}


def main(units: list[str]) -> None:
    torch.set_num_threads(2)
    total = Comparison()
    for unit, row, simulated in shared():
        if units and unit not in units:
            continue
        found = compare(row, simulated, 50_000)
        print(f"{unit} {row.signature}: {found.dots} dots, {found.different} different, {found.known} known, "
              f"{found.theirs / found.ours:.0f} times as fast {found.example}", flush=True)  # fmt: skip
        for name in ("dots", "different", "known", "ours", "theirs"):
            setattr(total, name, getattr(total, name) + getattr(found, name))
    print(total)


if __name__ == "__main__":
    main(sys.argv[1:])
