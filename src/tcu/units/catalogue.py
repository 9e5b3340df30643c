"""The catalogue: every instruction of every unit, each row with what pins it.

The numbers were established by replaying hardware outputs through the model
of :class:`~tcu.units.arithmetic.AlignedSum`.  A row says where its numbers
come from; where several chips share an arithmetic they share the object.
"""

from __future__ import annotations

from dataclasses import replace

from tcu.units.arithmetic import (
    AlignedSum,
    Arithmetic,
    Evidence,
    ExactInteger,
    FusedChain,
    Instruction,
    Unit,
)

__all__ = ["CATALOGUE"]

_H200 = Evidence("hardware vectors", "NVIDIA H200, mma.sync and wgmma on adversarial inputs, 2026-11-20")
_KM = Evidence(
    "hardware vectors",
    "F. A. Khattak and M. Mikaitis, north-numerical-computing/MATLAB-tensor-core (BSD-2-Clause)",
)
_P003 = Evidence(
    "paper", "003: Fasi, Higham, Mikaitis, Pranesh, Numerical behavior of NVIDIA tensor cores, 2021"
)
_MMASIM = Evidence(
    "published model", "MMA-Sim (microsoft/MMA-Sim), validated by its authors on this architecture"
)
_SPLIT = Evidence("published model", "how K falls into blocks: MMA-Sim; the hardware vectors cover one block")
_FLOOR = Evidence(
    "published model", "exponent floor taken over from the H200; published models differ by 1 or 2"
)
_GA100 = Evidence("specification", "the A30 is a part of the A100's chip (GA100); no vectors of its own")
_PTX = Evidence("specification", "PTX ISA: integer mma is exact, 32-bit accumulation wraps")
_SM89_LIKE = Evidence(
    "hardware vectors",
    "NVIDIA Ada generation (same architecture), of the same collection: F. A. Khattak and M. Mikaitis, "
    "north-numerical-computing/MATLAB-tensor-core (BSD-2-Clause)",
)
_SM90_LIKE = Evidence(
    "hardware vectors",
    "NVIDIA H200 (same architecture), mma.sync and wgmma on adversarial inputs, 2026-11-20",
)

_FLOOR32, _FLOOR16 = -133, -21


def _aligned(block: int, fraction_bits: int, output: str) -> AlignedSum:
    to_single = output == "binary32"
    return AlignedSum(block, fraction_bits, "RZ" if to_single else "RNE", _FLOOR32 if to_single else _FLOOR16)


def _rows(
    name: str, formats: tuple[str, ...], output: str, k: int, arithmetic: Arithmetic, *evidence: Evidence
) -> tuple[Instruction, ...]:
    m, n = {"mma": (16, 8), "wgmma": (64, 8), "tcgen05": (128, 8)}[name]
    return tuple(Instruction(name, f, f, output, (m, n, k), arithmetic, evidence) for f in formats)


def _half_rows(
    name: str, k: int, block: int, fraction_bits: int, *evidence: Evidence
) -> tuple[Instruction, ...]:
    single, half = _aligned(block, fraction_bits, "binary32"), _aligned(block, fraction_bits, "binary16")
    return (
        *_rows(name, ("binary16",), "binary32", k, single, *evidence),
        *_rows(name, ("binary16",), "binary16", k, half, *evidence),
    )


def _integer_rows(name: str, k: int) -> tuple[Instruction, ...]:
    m, n = {"mma": (16, 8), "wgmma": (64, 8), "tcgen05": (128, 8)}[name]
    pairs = [(a, b) for a in ("u8", "s8") for b in ("u8", "s8")]
    return tuple(Instruction(name, a, b, "s32", (m, n, k), ExactInteger(), (_PTX,)) for a, b in pairs)


def _double_row(evidence: Evidence) -> tuple[Instruction, ...]:
    return (Instruction("mma", "binary64", "binary64", "binary64", (8, 8, 4), FusedChain(), (evidence,)),)


_FP8 = ("e4m3", "e5m2")

# mma.sync m16n8k32 on sm_90 and later has no instruction of its own: it runs as
# two binary16 MMAs from zero, k mod 4 in {0, 1} first, then {2, 3}; c comes last.
_EMULATED_ORDER = tuple(k for half in ((0, 1), (2, 3)) for k in range(32) if k % 4 in half)


def _emulated_fp8(*evidence: Evidence) -> tuple[Instruction, ...]:
    return tuple(
        row
        for output in ("binary32", "binary16")
        for row in _rows(
            "mma", _FP8, output, 32,
            replace(_aligned(16, 25, output), order=_EMULATED_ORDER, late_c=True), *evidence,
        )
    )  # fmt: skip


def _native_fp8(name: str, block: int, *evidence: Evidence) -> tuple[Instruction, ...]:
    single = replace(_aligned(block, 13, "binary32"), output_fraction_bits=13)
    return (
        *_rows(name, _FP8, "binary32", 32, single, *evidence),
        *_rows(name, _FP8, "binary16", 32, _aligned(block, 13, "binary16"), *evidence),
    )


def _ampere(*vectors: Evidence) -> tuple[Instruction, ...]:
    return (
        *_half_rows("mma", 16, 8, 24, *vectors, _SPLIT, _FLOOR),
        *_rows("mma", ("bfloat16",), "binary32", 16, _aligned(8, 24, "binary32"), *vectors, _SPLIT, _FLOOR),
        *_rows("mma", ("tf32",), "binary32", 8, _aligned(4, 24, "binary32"), *vectors, _SPLIT, _FLOOR),
        *_integer_rows("mma", 32),
    )


def _hopper_mma(*vectors: Evidence) -> tuple[Instruction, ...]:
    return (
        *_half_rows("mma", 16, 16, 25, *vectors),
        *_rows("mma", ("bfloat16",), "binary32", 16, _aligned(16, 25, "binary32"), *vectors),
        *_rows("mma", ("tf32",), "binary32", 8, _aligned(8, 25, "binary32"), *vectors),
    )


def _wide(name: str, *evidence: Evidence) -> tuple[Instruction, ...]:
    """f16, bf16 and tf32 of wgmma and tcgen05: one block of 32 bytes of K."""
    return (
        *_half_rows(name, 16, 16, 25, *evidence),
        *_rows(name, ("bfloat16",), "binary32", 16, _aligned(16, 25, "binary32"), *evidence),
        *_rows(name, ("tf32",), "binary32", 8, _aligned(8, 25, "binary32"), *evidence),
        *_integer_rows(name, 32),
    )


def _hopper(*vectors: Evidence) -> tuple[Instruction, ...]:
    own = _H200 if _H200 in vectors else _SM90_LIKE
    return (
        *_hopper_mma(*vectors),
        *_emulated_fp8(own),  # the published sets of FP8 went through wgmma
        *_double_row(own),
        *_integer_rows("mma", 32),
        *_wide("wgmma", own),
        *_native_fp8("wgmma", 32, own, _KM),
    )


_TCGEN05_FP8 = tuple(
    row
    for output in ("binary32", "binary16")
    for row in _rows("tcgen05", _FP8, output, 32, _aligned(32, 25, output), _MMASIM, _FLOOR)
)
_ADA_FP8 = _native_fp8("mma", 16, _KM, _SPLIT, _FLOOR)
_L40S_FP8 = tuple(  # of an L40S no binary16 outputs of FP8 were published
    row if row.output == "binary32" else replace(row, evidence=(_SM89_LIKE, _SPLIT, _FLOOR)) for row in _ADA_FP8
)  # fmt: skip

CATALOGUE: dict[str, Unit] = {
    unit.name: unit
    for unit in (
        Unit("V100", "NVIDIA Tesla V100", "Volta", "7.0", _half_rows("mma", 16, 4, 23, _P003, _KM, _FLOOR)),
        Unit(
            "T4", "NVIDIA Tesla T4", "Turing", "7.5",
            (*_half_rows("mma", 8, 8, 24, _P003, _MMASIM, _FLOOR), *_integer_rows("mma", 16)),
        ),
        Unit("A100", "NVIDIA A100", "Ampere", "8.0", (*_ampere(_P003, _KM), *_double_row(_P003))),
        Unit("A30", "NVIDIA A30", "Ampere", "8.0", (*_ampere(_GA100), *_double_row(_GA100))),
        Unit("A2", "NVIDIA A2", "Ampere", "8.6", (*_ampere(_KM), *_double_row(_MMASIM))),
        Unit(
            "Ada", "NVIDIA Ada generation (RTX 40, RTX Ada)", "Ada Lovelace", "8.9",
            (*_ampere(_KM), *_ADA_FP8, *_double_row(_MMASIM)),
        ),
        Unit(
            "L40S", "NVIDIA L40S", "Ada Lovelace", "8.9",
            (*_ampere(_KM), *_L40S_FP8, *_double_row(_MMASIM)),
        ),
        Unit("H100", "NVIDIA H100", "Hopper", "9.0", _hopper(_KM)),
        Unit("H200", "NVIDIA H200", "Hopper", "9.0", _hopper(_H200, _KM)),
        Unit(
            "B200", "NVIDIA B200", "Blackwell", "10.0",
            (
                *_hopper_mma(_KM),
                *_emulated_fp8(_KM, Evidence("published model", "order of k taken over from the H200")),
                *_double_row(_MMASIM),
                *_integer_rows("mma", 32),
                *_wide("tcgen05", _MMASIM, _FLOOR),
                *_TCGEN05_FP8,
            ),
        ),
    )
}  # fmt: skip
