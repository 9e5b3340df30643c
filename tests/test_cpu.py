"""Contract: the model of a processor's matrix instruction returns what the instruction itself returns, NaN bits included.

Fresh outputs of the processor at hand, where it has AMX, AVX512-BF16 or
AVX512-VNNI (else these tests skip and say what is missing); those of an AMD
EPYC and of an Intel Xeon in ``tests/data``, which pin every parameter.  What
cannot be run is refused with the reason and the next step.
"""

from __future__ import annotations

import ctypes
import json
import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from adversarial import MODES, codes
from hardware import moved_chain

import tcu
from tcu.cli import main
from tcu.cpu import Cpu, CpuError, device, find_cpu, multiply_accumulate, own_instruction
from tcu.cpu.kernels import assembly
from tcu.errors import DtypeError, ParameterError, ShapeError, TcuError
from tcu.formats import get_format
from tcu.model import mma as model
from tcu.model.definition import dot
from tcu.probes.inputs import ordinary
from tcu.probes.kinds import questions
from tcu.probes.target import as_target, of_instruction
from tcu.probes.vectors import Vectors, collect, verify
from tcu.units import CATALOGUE, AlignedSum, ExactInteger, Instruction, Unit, find_instruction

DATA = Path(__file__).parent / "data"
EPYC, XEON = DATA / "epyc-vectors.npz", DATA / "xeon-vectors.npz"
OF_PAIRS, OF_TILES = "vdpbf16ps-bfloat16-binary32-k2", "tdpbf16ps-bfloat16-binary32-k32"
X86 = platform.machine().lower() in ("x86_64", "amd64")
ROWS = [row for unit in CATALOGUE.values() for row in unit.instructions if row.name in device.FEATURES]
PAIRS = find_instruction("AVX512-BF16", "vdpbf16ps", "bfloat16", "bfloat16")
TILES = find_instruction("AMX", "tdpbf16ps", "bfloat16", "bfloat16")


def needs(row: Instruction) -> None:
    try:
        find_cpu().check(row)
    except CpuError as error:
        pytest.skip(str(error))


def bits(array: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(array).view(np.uint32)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_processor_answers_every_kind_of_question_as_the_model(row: Instruction) -> None:
    needs(row)
    for seed in range(3):
        for kind, q in questions(row, 256, seed + 100):
            a, b, c = (
                words.view(get_format(fmt).dtype)
                for words, fmt in ((q.a, row.a), (q.b, row.b), (q.c, row.output))
            )
            own = multiply_accumulate(a, b, c, row)
            assert np.array_equal(bits(own), bits(model.multiply_accumulate(a, b, c, row))), kind


@pytest.mark.parametrize("row", [row for row in ROWS if row.a != row.b], ids=lambda row: row.name)
def test_instructions_of_two_signednesses_are_identified(row: Instruction) -> None:
    """B was asked in A's format, and none of them was."""
    needs(row)
    found = tcu.infer("cpu", instruction=row.name, input=f"{row.a},{row.b}", seed=0, outputs=1000)
    assert found.arithmetic == ExactInteger(), found.conclusion
    assert found.identified


@pytest.mark.parametrize("row", [row for row in ROWS if get_format(row.a).is_float], ids=lambda row: row.name)
def test_the_processor_answers_hostile_numbers_as_the_model(row: Instruction) -> None:
    needs(row)
    rng = np.random.default_rng(8)
    x, z = get_format(row.a), get_format(row.output)
    for mode in MODES:
        for other in MODES:
            a = codes(rng, row.a, (3, 19, 2 * row.k + 1), mode).view(x.dtype)
            b = codes(rng, row.b, (2 * row.k + 1, 150), other).view(x.dtype)
            c = codes(rng, row.output, (19, 150), str(rng.choice(MODES))).view(z.dtype)
            own = multiply_accumulate(a, b, c, row)
            assert own.shape == (3, 19, 150)
            assert np.array_equal(bits(own), bits(model.multiply_accumulate(a, b, c, row))), (mode, other)


@pytest.mark.parametrize("row", [PAIRS, TILES], ids=lambda row: row.name)
@pytest.mark.parametrize("eighths", range(9))
def test_what_is_tiny_is_asked_after_the_rounding(eighths: int, row: Instruction) -> None:
    """2^-126 less a few eighths of its last place: from three on, rounded as if exponents went on, it is below 2^-126."""
    a, b = np.zeros((1, row.k), ml_dtypes.bfloat16), np.zeros((row.k, 1), ml_dtypes.bfloat16)
    first, then = (1, 0) if row == PAIRS else (0, 2)  # in the order in which the instruction adds them
    a[0, first] = b[first, 0] = 2.0**-63
    a[0, then], b[then, 0] = -eighths * 2.0**-76, 2.0**-76
    c = np.zeros((1, 1), np.float32)
    expected = 0.0 if eighths >= 3 else 2.0**-126
    assert model.multiply_accumulate(a, b, c, row) == expected
    needs(row)
    assert multiply_accumulate(a, b, c, row) == expected


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_machine_code_holds_the_instruction(row: Instruction) -> None:
    """Also where the processor lacks it: the code is made, not run."""
    if not X86:
        pytest.skip("the instructions are those of x86-64")
    code = [line.split() for line in assembly(row.name).splitlines()]
    assert sum(line[:1] == [row.name] for line in code) == 1
    tiles = ["ldtilecfg", "tileloadd", "tileloadd", "tileloadd", "tilestored", "tilerelease"]
    found = sorted(line[0] for line in code if line and line[0] in tiles)
    assert found == (sorted(tiles) if row.shape[0] == 16 else [])


# tcu.mma


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A processor without matrix instructions."""
    for module in ("tcu.cpu.mma", "tcu.engines.cpu", "tcu.cpu"):
        monkeypatch.setattr(f"{module}.find_cpu", lambda: Cpu("80386", frozenset()))
    return


A, B = np.ones((3, 5), ml_dtypes.bfloat16), np.full((5, 2), 2, ml_dtypes.bfloat16)


def test_mma_runs_the_instruction() -> None:
    needs(PAIRS)
    for given in (
        {},
        {"unit": "AVX512-BF16", "instruction": "vdpbf16ps"},
        {"unit": "avx512-bf16", "instruction": "vdpbf16ps"},
    ):
        d = tcu.mma(A, B, executor="cpu", **given)
        assert d.dtype == np.float32
        assert (d == np.full((3, 2), 10)).all()
    c = np.full((3, 2), 0.5, np.float32)
    assert (tcu.mma(A, B, c, executor="cpu") == 10.5).all()
    assert tcu.mma(A[:0], B, executor="cpu").shape == (0, 2)
    assert (tcu.mma(A[:, :0], B[:0], c, executor="cpu") == 0.5).all()
    with pytest.raises(ShapeError, match="a needs as many columns"):
        tcu.mma(A, B[:3], executor="cpu")
    with pytest.raises(DtypeError, match=r"has no mma of binary16 · binary16; it has: .*vdpbf16ps bfloat16"):
        tcu.mma(A.astype(np.float16), B.astype(np.float16), executor="cpu")


def test_tensors_are_multiplied_too() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    needs(PAIRS)
    a, b = torch.ones(3, 5, dtype=torch.bfloat16), torch.ones(5, 2, dtype=torch.bfloat16)
    assert torch.equal(tcu.mma(a, b, executor="cpu"), torch.full((3, 2), 5.0))


def test_another_arithmetic_of_the_same_name_is_refused() -> None:
    needs(PAIRS)
    row = replace(PAIRS, arithmetic=AlignedSum(2, 24, "RZ"))
    with pytest.raises(
        ParameterError, match=r"computes vdpbf16ps .* otherwise than mine: leave executor out"
    ):
        tcu.mma(A, B, unit=Unit("mine", "-", "-", "-", (row,)), instruction="vdpbf16ps", executor="cpu")


def test_what_the_processor_lacks_is_refused(nothing: None) -> None:
    with pytest.raises(
        CpuError, match=r"80386 lacks tdpbf16ps; it has: no matrix instruction. Leave executor out"
    ):
        tcu.mma(A, B, unit="AMX", instruction="tdpbf16ps", executor="cpu")
    with pytest.raises(
        DtypeError, match="80386 has no mma of bfloat16 · bfloat16; it has: no matrix instruction"
    ):
        tcu.mma(A, B, executor="cpu")
    with pytest.raises(DtypeError, match="80386 has no vdpbf16ps of bfloat16 · bfloat16"):
        tcu.probe("cpu", instruction="vdpbf16ps", input="bf16")
    with pytest.raises(
        CpuError, match="80386 has neither AMX nor AVX512-BF16 nor AVX512-VNNI: ask another machine"
    ):
        collect("cpu")


def test_instructions_are_found_by_features() -> None:
    cpu = Cpu("Xeon", frozenset({"amx-bf16", "amx-int8", "avx512bf16", "avx512vnni"}))
    names = [row.name for row in cpu.instructions]
    assert names == ["tdpbf16ps", "tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud", "vdpbf16ps", "vpdpbusd"]
    assert own_instruction(cpu, "mma", "bfloat16", "bfloat16") is TILES
    assert own_instruction(cpu, "vdpbf16ps", "bfloat16", "bfloat16", "binary32") is PAIRS
    assert own_instruction(cpu, "mma", "s8", "u8").name == "tdpbsud"


def test_tiles_need_the_kernel_s_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []

    class Kernel:
        def __init__(self, answer: int) -> None:
            self.answer = answer

        def syscall(self, *arguments: int) -> int:
            asked.append(arguments)
            return self.answer

    cpu = Cpu("Xeon", frozenset({"amx-bf16", "amx-tile"}))
    monkeypatch.setattr(device.sys, "platform", "linux")
    for answer in (0, -1):
        device._permit_tiles.cache_clear()
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, answer=answer, **__: Kernel(answer))
        if answer:
            with pytest.raises(CpuError, match=r"does not permit AMX tiles \(arch_prctl: errno .*Linux 5.16"):
                cpu.check(TILES)
        else:
            cpu.check(TILES)
    assert asked == [(158, 0x1023, 18)] * 2
    monkeypatch.setattr(device.sys, "platform", "win32")
    with pytest.raises(CpuError, match="on Linux only, not on win32"):
        cpu.check(TILES)
    device._permit_tiles.cache_clear()


# What an EPYC and a Xeon returned


@pytest.mark.parametrize(
    ("file", "name", "instructions", "unit"),
    [
        (EPYC, "AMD EPYC", "vdpbf16ps vpdpbusd", "AVX512-BF16 and AVX512-VNNI"),
        (
            XEON, "Intel(R) Xeon(R) Processor", "tdpbf16ps tdpbssd tdpbsud tdpbusd tdpbuud vdpbf16ps vpdpbusd",
            "AMX and AVX512-BF16 and AVX512-VNNI",
        ),
    ],
)  # fmt: skip
def test_recorded_processors_returned_the_models_bits(
    file: Path, name: str, instructions: str, unit: str
) -> None:
    vectors = Vectors.load(file)
    assert (vectors.machine.kind, vectors.machine.name) == ("cpu", name)
    assert [entry.row.name for entry in vectors.entries.values()] == instructions.split()
    result = verify(vectors)
    assert result.unit.name == unit
    assert (result.agrees, result.outputs) == (True, vectors.outputs)
    assert verify(vectors, "AVX512-BF16").outputs == vectors.entries[OF_PAIRS].outputs


@pytest.mark.parametrize("file", [EPYC, XEON], ids=lambda file: file.stem)
def test_a_flipped_bit_of_it_is_found(file: Path) -> None:
    vectors = Vectors.load(file)
    for name, entry in vectors.entries.items():
        d = entry.d.copy()
        d[-1, 3, 5] ^= 1
        assert verify(replace(vectors, entries={name: replace(entry, d=d)})).different == 1


@pytest.mark.parametrize(
    ("file", "which", "row"), [(EPYC, OF_PAIRS, PAIRS), (XEON, OF_PAIRS, PAIRS), (XEON, OF_TILES, TILES)]
)
def test_it_pins_every_parameter(file: Path, which: str, row: Instruction) -> None:
    entry = Vectors.load(file).entries[which]
    a, b, c = entry.a.view(ml_dtypes.bfloat16), entry.b.view(ml_dtypes.bfloat16), entry.c.view(np.float32)
    for name, moved in moved_chain(row).items():
        assert (bits(model.multiply_accumulate(a, b, c, moved)) != entry.d).any(), name


def test_it_pins_what_is_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The definition, too, and it would differ if it flushed what IEEE 754 rounds to a subnormal."""
    entry = Vectors.load(EPYC).entries[OF_PAIRS]

    def different() -> int:
        return sum(
            dot(entry.a[t, i].tolist(), entry.b[t, :, j].tolist(), int(entry.c[t, i, j]), PAIRS)
            != int(entry.d[t, i, j])
            for t, kind in enumerate(entry.kinds) if kind == "below the smallest normal"
            for i in range(16) for j in range(8)
        )  # fmt: skip

    assert different() == 0
    monkeypatch.setattr(
        "tcu.model.definition._is_tiny", lambda number, *_: abs(number.value) < 2.0**-126 - 2.0**-150
    )
    assert different() > 0


# Commands


def test_collect_and_verify_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs(PAIRS)
    file = str(tmp_path / "own.npz")
    assert main(["collect", "cpu", "-o", file, "--outputs", "1", "--instruction", "vdpbf16ps"]) == 0
    assert f"1 instruction of {find_cpu().name}" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", file, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["unit"], document["agrees"], document["machine"]["kind"]) == ("AVX512-BF16", True, "cpu")
    assert main(["verify", file]) == 0
    shown = capsys.readouterr().out
    assert "are those of AVX512-BF16, bit for bit" in shown
    assert "compute capability" not in shown


def test_collect_refuses_what_is_no_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "own.npz")
    assert main(["collect", "tpu", "-o", file]) == 2
    assert "unknown target 'tpu'" in capsys.readouterr().err
    assert main(["collect", "cpu", "--unit", "V100", "-o", file]) == 2
    assert "both cpu and --unit: give one of them" in " ".join(capsys.readouterr().err.split())


def test_the_target_cpu_is_the_processor() -> None:
    needs(PAIRS)
    target = as_target("cpu", instruction="vdpbf16ps", input="bf16")
    assert (target.name, target.k) == (f"{find_cpu().name} vdpbf16ps bfloat16 → binary32", 2)
    q = ordinary(target, np.random.default_rng(0), 16, 8)
    assert np.array_equal(target(q.a, q.b, q.c), of_instruction("model", PAIRS)(q.a, q.b, q.c))


@pytest.mark.slow
def test_probe_asks_the_processor() -> None:
    needs(PAIRS)
    found = {
        each.name: each.conclusion
        for each in tcu.probe("cpu", instruction="vdpbf16ps", input="bf16").findings
    }
    assert "nearest" in found["rounding mode"]
    assert found["NaN bits"] == "The payload of a NaN comes back."


def test_every_error_of_the_processor_is_one_of_tcu() -> None:
    assert issubclass(CpuError, TcuError)
    assert issubclass(CpuError, RuntimeError)
    assert {type(row.arithmetic) for row in ROWS if row.output == "s32"} == {ExactInteger}
