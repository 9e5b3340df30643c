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
    ExactBlock,
    ExactInteger,
    FlushedTree,
    FusedChain,
    GroupedSum,
    LateSum,
)
from tcu.units.instruction import Evidence, Instruction, Unit

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
_VOLTA_FLOOR = Evidence(
    "published model",
    "exponent floor -19 of binary16 results: two published models (MMA-Sim 2.1.1; MATLAB-tensor-core at b12b5a7, 2026), no "
    "outputs here; of binary32 results it cannot matter",
)
_TURING_FLOOR = Evidence(
    "published model", "exponent floor: one published model (MMA-Sim 2.1.1), no outputs here"
)
_AMPERE_FLOOR = Evidence(
    "published model",
    "exponent floors -132 and -20: two published models (MMA-Sim 2.1.1; MATLAB-tensor-core at b12b5a7, 2026), no outputs here",
)
_BLACKWELL_FLOOR = Evidence(
    "published model", "exponent floors: two published models, which agree with the H200; no outputs here"
)
_MIXED = Evidence("published model", "mixed pairs of formats: MMA-Sim 2.1.1; no outputs here")
_M8N8K4 = Evidence(
    "published model", "the instruction keeps Volta's arithmetic: MMA-Sim 2.1.1; no outputs here"
)
_MX = Evidence(
    "published model",
    "scales: MMA-Sim 2.1.1, compared by its authors with a B200 and an RTX PRO 6000; no outputs here",
)
_RTX = Evidence(
    "published model",
    "two published models (MMA-Sim 2.1.1; MATLAB-tensor-core, RTXPRO6000TC.m), no outputs here",
)
_RTX_DOUBLE = Evidence("published model", "MMA-Sim 2.1.1; the bits of a NaN are taken over from the H200")
_CDNA = Evidence(
    "published model",
    "two published models that agree (MMA-Sim 2.1.1; MATLAB-tensor-core, MI100MC.m, MI210MC.m, MI300MC.m at b4bf135), no "
    "outputs here; the bits of a NaN are not pinned",
)
_CDNA_ZEROS = Evidence("published model", "signs of zeros: MMA-Sim 2.1.1 alone")
_CDNA_FLUSH = Evidence(
    "specification",
    "AMD, MIOpen documentation, MI200 MFMA behavior specifics: binary16 and bfloat16 flush subnormal inputs and results",
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

_HALF_C = Evidence(
    "published model",
    "D is that of mma.m8n8k4 into binary32, but a subnormal C of binary16 keeps the exponent -14: MMA-Sim 2.1.1; no outputs here",
)

_Floors = tuple[int, int]
_VOLTA, _AMPERE, _HOPPER = (-131, -19), (-132, -20), (-133, -21)
"""Exponent floors of binary32 and of binary16 results, from each generation on; Turing has Ampere's."""
_SHAPES = {"mma": (16, 8), "mma.m8n8k4": (8, 8), "wgmma": (64, 8), "tcgen05": (128, 8)}
_Formats = tuple[str | tuple[str, str], ...]
"""Inputs, or pairs of them."""


def _aligned(block: int, fraction_bits: int, output: str, floors: _Floors) -> AlignedSum:
    if output == "binary32":
        return AlignedSum(block, fraction_bits, "RZ", floors[0])
    return AlignedSum(block, fraction_bits, "RNE", floors[1])


def _rows(
    name: str, formats: _Formats, output: str, k: int, arithmetic: Arithmetic, *evidence: Evidence
) -> tuple[Instruction, ...]:
    pairs = [(f, f) if isinstance(f, str) else f for f in formats]
    return tuple(Instruction(name, a, b, output, (*_SHAPES[name], k), arithmetic, evidence) for a, b in pairs)


def _half_rows(
    name: str, k: int, block: int, fraction_bits: int, floors: _Floors, *evidence: Evidence
) -> tuple[Instruction, ...]:
    single, half = (_aligned(block, fraction_bits, output, floors) for output in ("binary32", "binary16"))
    return (
        *_rows(name, ("binary16",), "binary32", k, single, *evidence),
        *_rows(name, ("binary16",), "binary16", k, half, *evidence),
    )


def _half_addend(*evidence: Evidence) -> tuple[Instruction, ...]:
    """mma.m8n8k4.f32.f16.f16.f16; of wmma with C and D of two formats, which PTX has too, no model was published."""
    rules = _aligned(4, 23, "binary32", _VOLTA)
    return (
        Instruction(
            "mma.f16c", "binary16", "binary16", "binary32", (8, 8, 4), rules, (*evidence, _HALF_C),
            addend="binary16",
        ),
    )  # fmt: skip


def _integer_rows(name: str, k: int) -> tuple[Instruction, ...]:
    m, n = _SHAPES[name]
    pairs = [(a, b) for a in ("u8", "s8") for b in ("u8", "s8")]
    return tuple(Instruction(name, a, b, "s32", (m, n, k), ExactInteger(), (_PTX,)) for a, b in pairs)


def _double_row(evidence: Evidence) -> tuple[Instruction, ...]:
    return (Instruction("mma", "binary64", "binary64", "binary64", (8, 8, 4), FusedChain(), (evidence,)),)


_FP8 = ("e4m3", "e5m2")
_MIXED_FP8 = (("e4m3", "e5m2"), ("e5m2", "e4m3"))

# mma.sync m16n8k32 on sm_90 and later has no instruction of its own: it runs as
# two binary16 MMAs from zero, k mod 4 in {0, 1} first, then {2, 3}; c comes last.
_EMULATED_ORDER = tuple(k for half in ((0, 1), (2, 3)) for k in range(32) if k % 4 in half)


def _emulated_fp8(formats: _Formats, *evidence: Evidence, mixed: bool = False) -> tuple[Instruction, ...]:
    return tuple(
        row
        for output in ("binary32", "binary16")
        for row in _rows(
            "mma", formats, output, 32,
            replace(_aligned(16, 25, output, _HOPPER), order=_EMULATED_ORDER, late_c=True, through_binary16=mixed),
            *evidence,
        )
    )  # fmt: skip


def _native_fp8(
    name: str, block: int, floors: _Floors, *evidence: Evidence, mixed: Evidence = _MIXED
) -> tuple[Instruction, ...]:
    single = replace(_aligned(block, 13, "binary32", floors), output_fraction_bits=13)
    half = _aligned(block, 13, "binary16", floors)
    return (
        *_rows(name, _FP8, "binary32", 32, single, *evidence),
        *_rows(name, _FP8, "binary16", 32, half, *evidence),
        *_rows(name, _MIXED_FP8, "binary32", 32, single, mixed),
        *_rows(name, _MIXED_FP8, "binary16", 32, half, mixed),
    )


def _ampere(*vectors: Evidence) -> tuple[Instruction, ...]:
    evidence = (*vectors, _SPLIT, _AMPERE_FLOOR)
    eight, four = (_aligned(block, 24, "binary32", _AMPERE) for block in (8, 4))
    return (
        *_half_rows("mma", 16, 8, 24, _AMPERE, *evidence),
        *_rows("mma", ("bfloat16",), "binary32", 16, eight, *evidence),
        *_rows("mma", ("tf32",), "binary32", 8, four, *evidence),
        *_integer_rows("mma", 32),
    )


def _hopper_mma(*vectors: Evidence) -> tuple[Instruction, ...]:
    return (
        *_half_rows("mma", 16, 16, 25, _HOPPER, *vectors),
        *_rows("mma", ("bfloat16",), "binary32", 16, _aligned(16, 25, "binary32", _HOPPER), *vectors),
        *_rows("mma", ("tf32",), "binary32", 8, _aligned(8, 25, "binary32", _HOPPER), *vectors),
    )


def _wide(name: str, *evidence: Evidence) -> tuple[Instruction, ...]:
    """f16, bf16 and tf32 of wgmma and tcgen05: one block of 32 bytes of K."""
    return (
        *_half_rows(name, 16, 16, 25, _HOPPER, *evidence),
        *_rows(name, ("bfloat16",), "binary32", 16, _aligned(16, 25, "binary32", _HOPPER), *evidence),
        *_rows(name, ("tf32",), "binary32", 8, _aligned(8, 25, "binary32", _HOPPER), *evidence),
        *_integer_rows(name, 32),
    )


def _hopper(*vectors: Evidence) -> tuple[Instruction, ...]:
    own = _H200 if _H200 in vectors else _SM90_LIKE
    return (
        *_hopper_mma(*vectors),
        *_emulated_fp8(_FP8, own),  # the published sets of FP8 went through wgmma
        *_emulated_fp8(_MIXED_FP8, own, mixed=True),
        *_double_row(own),
        *_integer_rows("mma", 32),
        *_wide("wgmma", own),
        *_native_fp8("wgmma", 32, _HOPPER, own, _KM, mixed=own),
    )


_F8F6F4 = tuple(
    (a, b) for a in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1") for b in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
)
"""Every pair of formats of 8, 6 and 4 bits."""


def _f8f6f4(name: str) -> tuple[Instruction, ...]:
    return tuple(
        row
        for output in ("binary32", "binary16")
        for row in _rows(
            name, _F8F6F4, output, 32, _aligned(32, 25, output, _HOPPER), _MMASIM, _BLACKWELL_FLOOR
        )
    )


def _scaled(m: int, n: int) -> tuple[Instruction, ...]:
    """Blocks with scales: mxf8f6f4 raises the products' exponents, mxf4 and mxf4nvf4 add up groups of 16 exactly."""
    raised, grouped = _aligned(32, 25, "binary32", _HOPPER), GroupedSum(64, 16, 35, -139)
    fours = (
        ("mxf4", "ue8m0", 32),
        ("mxf4nvf4", "ue8m0", 32),
        ("mxf4nvf4", "ue8m0", 16),
        ("mxf4nvf4", "ue4m3", 16),
    )
    return (
        *(
            Instruction("mxf8f6f4", a, b, "binary32", (m, n, 32), raised, (_MX,), "ue8m0", 32)
            for a, b in _F8F6F4
        ),
        *(
            Instruction(name, "e2m1", "e2m1", "binary32", (m, n, 64), grouped, (_MX,), scale, per_scale)
            for name, scale, per_scale in fours
        ),
    )


# With F = 13 no product of 8-bit numbers reaches below the cut at this floor, or at Hopper's: it cannot matter.
_ADA_FP8 = _native_fp8("mma", 16, _AMPERE, _KM, _SPLIT)
_L40S_FP8 = tuple(  # of an L40S no binary16 outputs of FP8 were published
    replace(row, evidence=(_SM89_LIKE, _SPLIT)) if row.output == "binary16" and row.a == row.b else row for row in _ADA_FP8
)  # fmt: skip


# AMD.  A row is named "mma", as v_mfma is the units' one instruction; a second row of the same formats has its own name.
def _mfma(
    name: str, formats: tuple[str, ...], shape: tuple[int, int, int], rules: Arithmetic, *evidence: Evidence
) -> tuple[Instruction, ...]:
    return tuple(Instruction(name, f, f, "binary32", shape, rules, evidence) for f in formats)


_CDNA_DOUBLE = (Instruction("mma", "binary64", "binary64", "binary64", (16, 16, 4), FusedChain(), (_CDNA,)),)
_CDNA1 = (
    *_mfma("mma", ("binary16",), (32, 32, 8), ExactBlock(4), _CDNA, _CDNA_ZEROS),
    *_mfma("mma", ("bfloat16",), (32, 32, 4), ExactBlock(2), _CDNA, _CDNA_ZEROS),
)
_CDNA2 = (
    *_mfma("mma", ("binary16", "bfloat16"), (32, 32, 8), FlushedTree(4), _CDNA, _CDNA_ZEROS, _CDNA_FLUSH),
    *_mfma("mfma.bf16", ("bfloat16",), (32, 32, 4), FlushedTree(2), _CDNA, _CDNA_ZEROS, _CDNA_FLUSH),
    *_CDNA_DOUBLE,
)
_CDNA3 = (
    *_mfma("mma", ("binary16", "bfloat16"), (32, 32, 8), LateSum(8, 24, 31), _CDNA, _CDNA_ZEROS),
    *_mfma("mma", ("tf32",), (16, 16, 8), LateSum(4, 24, 31), _CDNA, _CDNA_ZEROS),
    *(
        Instruction("mma", a, b, "binary32", (16, 16, 32), LateSum(16, 24, 31, 2, True), (_CDNA, _CDNA_ZEROS))
        for a in ("e4m3fnuz", "e5m2fnuz") for b in ("e4m3fnuz", "e5m2fnuz")
    ),
    *_mfma("mfma.4x4x4", ("binary16", "bfloat16"), (4, 4, 4), LateSum(4, 24, 31), _CDNA, _CDNA_ZEROS),
    *_CDNA_DOUBLE,
)  # fmt: skip

# Processors.  TDPBF16PS adds even and odd k apart, from zero, and c last; VDPBF16PS takes the odd k first.
_X86_CHAIN = FusedChain(flush_inputs=True, flush_outputs=True, nan_rule="x86")
_TDPBF16PS = replace(_X86_CHAIN, lanes=2, late_c=True)
_VDPBF16PS = replace(_X86_CHAIN, order=(1, 0))
_XEON = Evidence(
    "hardware vectors", "Intel Xeon with AMX and AVX512-BF16, twelve kinds of operands, 2026-11-23"
)
_XEON_5 = Evidence(
    "hardware vectors",
    "Intel Xeon of the fifth generation, every kind of question of tcu collect, 2026-11-28",
)
_EPYC = Evidence(
    "hardware vectors", "AMD EPYC 9005 (Zen 5), every kind of question of tcu collect, 2026-11-24"
)
_SDM = Evidence(
    "specification", "Intel, Software Developer's Manual: pseudocode and description of the instruction"
)
_TINY = Evidence(
    "specification",
    "x86 asks after the rounding whether a result is tiny, as VDPBF16PS and TDPBF16PS show; no output of TDPFP16PS does",
)
_ARM = Evidence(
    "specification",
    "Arm Architecture Reference Manual: BFDotAdd; QEMU's bfdotadd follows it; no outputs of hardware",
)
_ARM_CHAINS = {
    "Arm-BF16": FusedChain(
        rounded_products=True, rounding="RO", group=2, flush_inputs=True, flush_outputs=True, nan_rule="arm"
    ),
    "Arm-EBF16": FusedChain(group=2, nan_rule="arm"),
}
"""FPCR.EBF = 0, or a processor without FEAT_EBF16; FPCR.EBF = 1, the rest of FPCR being 0."""


def _tile_rows() -> tuple[Instruction, ...]:
    signs = {"ss": ("s8", "s8"), "su": ("s8", "u8"), "us": ("u8", "s8"), "uu": ("u8", "u8")}
    return (
        Instruction("tdpbf16ps", "bfloat16", "bfloat16", "binary32", (16, 16, 32), _TDPBF16PS, (_XEON, _XEON_5, _SDM)),
        Instruction(
            "tdpfp16ps", "binary16", "binary16", "binary32", (16, 16, 32), replace(_TDPBF16PS, flush_inputs=False),
            (_SDM, _TINY),
        ),
        *(
            Instruction(f"tdpb{sign}d", a, b, "s32", (16, 16, 64), ExactInteger(), (_XEON_5, _SDM))
            for sign, (a, b) in signs.items()
        ),
    )  # fmt: skip


def _arm_rows(chain: FusedChain) -> tuple[Instruction, ...]:
    return tuple(
        Instruction(name, "bfloat16", "bfloat16", "binary32", shape, chain, (_ARM,))
        for name, shape in (("bfmmla", (2, 2, 4)), ("bfdot", (1, 4, 2)))
    )


CATALOGUE: dict[str, Unit] = {
    unit.name: unit
    for unit in (
        Unit(
            "V100", "NVIDIA Tesla V100", "Volta", "7.0",
            (
                *_half_rows("mma", 16, 4, 23, _VOLTA, _P003, _KM, _VOLTA_FLOOR),
                *_half_rows("mma.m8n8k4", 4, 4, 23, _VOLTA, _P003, _KM, _VOLTA_FLOOR),
                *_half_addend(),
            ),
        ),
        Unit(
            "T4", "NVIDIA Tesla T4", "Turing", "7.5",
            (
                *_half_rows("mma", 8, 8, 24, _AMPERE, _P003, _MMASIM, _TURING_FLOOR),
                *_half_rows("mma.m8n8k4", 4, 4, 23, _VOLTA, _M8N8K4, _TURING_FLOOR),
                *_half_addend(),
                *_integer_rows("mma", 16),
            ),
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
                *_emulated_fp8(_FP8, _KM, Evidence("published model", "order of k taken over from the H200")),
                *_double_row(_MMASIM),
                *_integer_rows("mma", 32),
                *_wide("tcgen05", _MMASIM, _BLACKWELL_FLOOR),
                *_f8f6f4("tcgen05"),
                *_scaled(128, 8),
            ),
        ),
        Unit(
            "RTX-Blackwell", "NVIDIA RTX Blackwell generation (RTX 50, RTX PRO)", "RTX Blackwell", "12.0",
            (
                *_hopper_mma(_RTX),
                *_f8f6f4("mma"),
                *_double_row(_RTX_DOUBLE),
                *_integer_rows("mma", 32),
                *_scaled(16, 8),
            ),
        ),
        Unit("MI100", "AMD Instinct MI100", "CDNA1", "-", _CDNA1),
        Unit("MI250", "AMD Instinct MI210, MI250", "CDNA2", "-", _CDNA2),
        Unit("MI300", "AMD Instinct MI300", "CDNA3", "-", _CDNA3),
        Unit("AMX", "Intel AMX", "x86-64", "-", _tile_rows()),
        Unit(
            "AVX512-BF16", "Intel and AMD AVX512-BF16", "x86-64", "-",
            (
                Instruction("vdpbf16ps", "bfloat16", "bfloat16", "binary32", (1, 16, 2), _VDPBF16PS,
                            (_XEON, _EPYC, _SDM)),
            ),
        ),
        Unit(
            "AVX512-VNNI", "Intel and AMD AVX512-VNNI", "x86-64", "-",
            (Instruction("vpdpbusd", "u8", "s8", "s32", (1, 16, 4), ExactInteger(), (_EPYC, _SDM)),),
        ),
        Unit("Arm-BF16", "Arm FEAT_BF16, FPCR.EBF = 0", "Armv8.6-A", "-", _arm_rows(_ARM_CHAINS["Arm-BF16"])),
        Unit("Arm-EBF16", "Arm FEAT_EBF16, FPCR.EBF = 1", "Armv9.2-A", "-", _arm_rows(_ARM_CHAINS["Arm-EBF16"])),
    )
}  # fmt: skip
