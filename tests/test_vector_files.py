"""Contract of ``tcu collect`` and ``tcu verify``.

A file gives back what was collected, bit for bit; the same seed asks the same
questions; every kind of question holds what its name says.  A file that a
unit's model answered has no difference to that unit; one flipped bit is found
and named; every parameter of the arithmetic moved by one is noticed.  A file
that is damaged, foreign or inconsistent is refused with what is wrong and the
next step.  Exit code 0: equal; 1: different; 2: bad input.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu_support import gpu_or_skip

from tcu import gpu
from tcu.cli import main
from tcu.cli.vectors import _listed
from tcu.errors import DataFileError, DtypeError, ParameterError, UnknownNameError
from tcu.formats import decode_array, get_format
from tcu.gpu import KERNELS
from tcu.model.mma import multiply_accumulate
from tcu.probes import inputs
from tcu.probes.kinds import kinds_of
from tcu.probes.vectors import Entry, Vectors, collect, collection, verify
from tcu.probes.vectors.collection import replay
from tcu.units import CATALOGUE, AlignedSum, Instruction, Unit, find_instruction, units_with

RECORDED = Path(__file__).parent / "data" / "h200-vectors.npz"
ASKED_SINCE = {
    "ties of sums", "differences of the smallest", "c alone", "c beside a smallest product", "small products alone",
    "ties beside c", "cancelled products", "zeros by place",
}  # fmt: skip
"""Kinds of questions that are younger than the recorded file."""
NAME = "mma-bfloat16-binary32-k16"


@pytest.fixture(scope="module")
def h200() -> Vectors:
    return collect("H200")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "some.npz"
    collect("H200", instruction="mma", input="bf16").save(path)
    return path


# Collecting and saving


def equal(one: Vectors, other: Vectors) -> bool:
    return list(one.entries) == list(other.entries) and all(
        one.entries[name].kinds == other.entries[name].kinds
        and all(
            np.array_equal(getattr(one.entries[name], part), getattr(other.entries[name], part))
            and getattr(one.entries[name], part).dtype == getattr(other.entries[name], part).dtype
            for part in "abcd"
        )
        for name in one.entries
    )


@pytest.mark.slow
def test_a_file_gives_back_what_was_collected(h200: Vectors, tmp_path: Path) -> None:
    h200.save(tmp_path / "x.npz")
    back = Vectors.load(str(tmp_path / "x.npz"))
    assert equal(back, h200)
    assert (back.machine, back.seed, back.date, back.tcu) == (h200.machine, 0, h200.date, h200.tcu)
    first, second = (next(iter(v.entries.values())).row for v in (back, h200))
    assert (first.signature, first.shape) == (second.signature, second.shape)


def test_the_file_is_what_its_documentation_says(saved: Path) -> None:
    with np.load(saved, allow_pickle=False) as archive:
        about = json.loads(str(archive["about"]))
        a, b, c, d = (archive[f"{NAME}/{part}"] for part in "abcd")
    assert (about["format"], about["version"], about["seed"]) == ("tcu vectors", 2, 0)
    assert about["machine"] == {
        "kind": "model", "name": "H200", "compute_capability": "9.0", "driver": None, "cuda": None, "nvrtc": None,
    }  # fmt: skip
    row = about["instructions"][NAME]
    count = len(row.pop("kinds"))
    assert row == {
        "instruction": "mma", "a": "bfloat16", "b": "bfloat16", "output": "binary32", "shape": [16, 8, 16],
    }  # fmt: skip
    assert [(x.dtype, x.shape) for x in (a, b, c, d)] == [
        (np.uint16, (count, 16, 16)), (np.uint16, (count, 16, 8)),
        (np.uint32, (count, 16, 8)), (np.uint32, (count, 16, 8)),
    ]  # fmt: skip


@pytest.mark.slow
def test_the_seed_decides_the_operands(h200: Vectors) -> None:
    assert equal(collect("H200"), h200)
    chosen = collect("h200", instruction="mma", input="bf16").entries
    assert list(chosen) == [NAME]
    assert np.array_equal(chosen[NAME].a, h200.entries[NAME].a)
    other = collect("H200", input="bf16", seed=1).entries[NAME]
    assert not np.array_equal(other.a, h200.entries[NAME].a)
    again = collect("A100", input="bf16").entries[NAME]
    assert all(np.array_equal(getattr(again, part), getattr(chosen[NAME], part)) for part in "abc")
    assert not np.array_equal(again.d, chosen[NAME].d)


def test_outputs_are_at_least_as_many_of_each_kind() -> None:
    entry = collect("H200", instruction="mma", input="bf16", outputs=129).entries[NAME]
    counts = {kind: entry.kinds.count(kind) for kind in entry.kinds}
    assert counts.pop("all zeros") == 1
    assert set(counts.values()) == {2}


def test_choices(h200: Vectors) -> None:
    assert {row.row.name for row in collect("H200", instruction="wgmma").entries.values()} == {"wgmma"}
    assert {e.row.output for e in collect("H200", output="f16").entries.values()} == {"binary16"}
    assert {e.row.a for e in collect("H200", input="f32").entries.values()} == {"tf32"}
    assert len(h200.entries) == len(CATALOGUE["H200"].instructions)
    told: list[tuple[int, int]] = []
    collect("H200", input="u8", instruction="mma", progress=lambda *at: told.append(at))
    assert told == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"unit": "H300"}, UnknownNameError, "did you mean"),
        ({"unit": "V100", "input": "e4m3"}, DtypeError, "V100 has no e4m3; it has: mma binary16"),
        ({"unit": "V100", "instruction": "wgmma", "output": "f32"}, DtypeError, "no wgmma → binary32"),
        ({"unit": "V100", "input": "f99"}, UnknownNameError, "unknown format"),
        ({"unit": "V100", "outputs": 0}, ParameterError, "at least one output"),
        ({"unit": "V100", "seed": -1}, ParameterError, "seed=-1: give a whole number of 0 or more"),
        (
            {"unit": "V100", "seed": None},
            ParameterError,
            "seed=None: give a whole number of 0 or more, by which others",
        ),
    ],
)
def test_refused_choices(arguments: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        collect(**arguments)


# A GPU, played by the model


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Put a GPU in place whose instructions compute what the H200's do."""

    def install(name: str, capability: tuple[int, int], kernels: Any = KERNELS) -> None:
        def execute(a: Any, b: Any, c: Any, row: Instruction) -> Any:
            unit_row = find_instruction("H200", row.name, row.a, row.b, row.output)
            return multiply_accumulate(a, b, c, unit_row)

        found = SimpleNamespace(name=name, compute_capability=capability, kernels=kernels)
        (tmp_path / "version").write_text(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Release\n"
        )
        monkeypatch.setattr(gpu, "find_gpu", lambda: found)
        monkeypatch.setattr(gpu, "multiply_accumulate", execute)
        monkeypatch.setattr(collection, "call", lambda function: 13000)
        monkeypatch.setattr(collection, "compiler_version", lambda: (13, 2))
        monkeypatch.setattr(collection, "_DRIVER_FILE", tmp_path / "version")

    return install


@pytest.mark.slow
def test_all_instructions_of_a_gpu_fit_a_small_file(play: Callable[..., None], tmp_path: Path) -> None:
    play("NVIDIA H200", (9, 0))
    vectors = collect()
    assert len(vectors.entries) == len(KERNELS) == 42
    assert (vectors.machine.kind, vectors.machine.name) == ("gpu", "NVIDIA H200")
    assert (vectors.machine.driver, vectors.machine.cuda, vectors.machine.nvrtc) == (
        "580.95.05",
        "13.0",
        "13.2",
    )
    vectors.save(tmp_path / "x.npz")
    assert (tmp_path / "x.npz").stat().st_size < 1_100_000  # 1.04 MB with 42 kinds of questions
    result = verify(vectors)
    assert (result.unit.name, result.different, result.others) == ("H200", 0, ())
    assert [one.missing for one in result.replays] == [None] * 42
    assert {one.entry.row.k for one in result.replays} == {4, 8, 16, 32}


@pytest.mark.parametrize(
    ("name", "capability", "unit"),
    [("NVIDIA A100-SXM4-80GB", (8, 0), "A100"), ("NVIDIA A30", (8, 0), "A30"), ("NVIDIA L40S", (8, 9), "L40S"),
     ("NVIDIA GeForce RTX 4090", (8, 9), "Ada"), ("Tesla V100-SXM2-16GB", (7, 0), "V100")],
)  # fmt: skip
def test_the_unit_is_found_by_name_and_capability(
    play: Callable[..., None], name: str, capability: tuple[int, int], unit: str
) -> None:
    play(name, capability, KERNELS[:1])
    assert verify(collect()).unit.name == unit


def test_an_unknown_gpu_is_compared_with_every_unit(play: Callable[..., None]) -> None:
    play("NVIDIA RTX 9090", (19, 0), KERNELS[:9])
    told: list[tuple[int, int]] = []
    result = verify(collect(), progress=lambda *at: told.append(at))
    assert result.agrees
    assert result.unit.name in ("H100", "H200", "B200")
    assert {name for name, _, _ in result.others} == set(units_with("mma"))
    assert result.others[0] == (result.unit.name, result.outputs, 0)
    assert result.others[-1][2] > 0
    assert told[-1][0] == told[-1][1] == 9 * len(result.others)


def test_the_drivers_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(collection, "_DRIVER_FILE", tmp_path / "none")
    monkeypatch.setattr(collection.shutil, "which", lambda name: None)
    assert collection._driver_version() is None
    monkeypatch.setattr(collection.shutil, "which", lambda name: "/bin/smi")
    answer = SimpleNamespace(stdout="580.95.05\n580.95.05\n")
    monkeypatch.setattr(collection.subprocess, "run", lambda *given, **options: answer)
    assert collection._driver_version() == "580.95.05"

    def refuse(*given: Any, **options: Any) -> None:
        raise OSError

    monkeypatch.setattr(collection.subprocess, "run", refuse)
    assert collection._driver_version() is None


# The questions are what their names say

FLOATS = [row for row in CATALOGUE["H200"].instructions if get_format(row.a).is_float]


def fields(words: Any, name: str) -> tuple[Any, Any]:
    """Exponent fields and fractions of words."""
    fmt = get_format(name)
    code = words.astype(np.uint64) >> np.uint64(fmt.storage_shift)
    fraction = code & np.uint64((1 << fmt.fraction_bits) - 1)
    return code >> np.uint64(fmt.fraction_bits) & np.uint64((1 << fmt.exponent_bits) - 1), fraction


def values(words: Any, name: str) -> Any:
    fmt = get_format(name)
    return decode_array(words >> np.array(fmt.storage_shift, words.dtype), fmt)


def part_of(vectors: Vectors, row: Instruction, kind: str) -> tuple[Any, Any, Any]:
    entry = next(e for e in vectors.entries.values() if e.row is row)
    t = entry.kinds.index(kind)
    return entry.a[t], entry.b[t], entry.c[t]


@pytest.mark.parametrize("row", CATALOGUE["H200"].instructions, ids=lambda row: row.signature)
def test_all_kinds_are_there(h200: Vectors, row: Instruction) -> None:
    entry = next(e for e in h200.entries.values() if e.row is row)
    assert tuple(dict.fromkeys(entry.kinds)) == kinds_of(row)
    assert len(set(entry.kinds)) == (5 if row.output == "s32" else 42)
    if row.output == "s32":
        return
    named = " ".join(entry.kinds)
    assert all(mode in named for mode in (*inputs.CODE_MODES, "ordinary", "near zero"))


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row.signature)
def test_targeted_kinds_hold_what_they_claim(h200: Vectors, row: Instruction) -> None:
    x, y, z = (get_format(name) for name in _formats(row))

    a, b, c = (
        values(w, f) for w, f in zip(part_of(h200, row, "zero times large"), _formats(row), strict=True)
    )
    product_is_zero = (a[:, 1:, None] == 0) | (b[None, 1:, :] == 0)
    assert product_is_zero.all()
    assert np.abs(a).max() >= 2.0 ** (x.emax - 4) or np.abs(b).max() >= 2.0 ** (y.emax - 4)
    assert (c != 0).all()

    a, b, c = (values(w, f) for w, f in zip(part_of(h200, row, "tiny products"), _formats(row), strict=True))
    assert (c == 0).all()
    low = np.log2(np.abs(a)).min() + np.log2(np.abs(b)).min()
    assert low < max(z.emin + 8, x.emin + y.emin + 8)
    _, _, words = part_of(h200, row, "tiny products and c")
    field, fraction = fields(words, row.output)
    assert ((field == 0) & (fraction != 0)).any()
    assert (field <= 5).all()

    for words, name in zip(part_of(h200, row, "powers near the limit"), _formats(row), strict=True):
        value = np.abs(values(words, name))
        mantissa, _ = np.frexp(value[value > 0])
        assert (mantissa == 0.5).all()
    assert ((value > 0) & (value < z.min_normal)).any()

    a, b, c = part_of(h200, row, "subnormal inputs")
    field, fraction = fields(a, row.a)
    assert ((field == 0) & (fraction > 0)).all()
    field, _ = fields(b, row.b)
    assert (field[:, :4] == 0).all()
    assert (field[:, 4:] > 0).all()
    field, fraction = fields(c, row.output)
    assert ((field == 0) & (fraction > 0)).any()

    a, b, c = part_of(h200, row, "signed zeros")
    assert set(np.signbit(values(c, row.output)).ravel()) == {True, False}
    assert (values(a, row.a) @ values(b, row.b) == 0).all()
    assert (values(a, row.a)[:8] != 0).any()


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row.signature)
def test_special_kinds_hold_what_they_claim(h200: Vectors, row: Instruction) -> None:
    def specials(kind: str) -> list[bool]:
        parts = zip(part_of(h200, row, kind), _formats(row), strict=True)
        return [not np.isfinite(values(words, name)).all() for words, name in parts]

    assert specials("special c") == [False, False, True]
    assert specials("special a") == [True, False, False]
    assert specials("special all")[2]
    assert any(specials("special all")[:2])
    assert not any(words.any() for words in part_of(h200, row, "all zeros"))
    _, _, c = part_of(h200, row, "special c")
    assert np.isinf(values(c, row.output)).any()
    assert np.isnan(values(c, row.output)).any()


def _formats(row: Instruction) -> tuple[str, str, str]:
    return row.a, row.b, row.output


def test_what_binary64_adds(h200: Vectors) -> None:
    row = find_instruction("H200", "mma", "binary64", "binary64")
    a, b, c = (w.view(np.float64) for w in part_of(h200, row, "inf times zero"))
    assert ((np.isinf(a)[:, :, None] & (b == 0)) | ((a == 0)[:, :, None] & np.isinf(b))).any()
    a, b, c = (w.view(np.float64) for w in part_of(h200, row, "inf minus inf"))
    with np.errstate(invalid="ignore"):
        assert (np.isinf(c) & np.isinf(a @ b) & (np.sign(c) != np.sign(a @ b))).any()
    words = part_of(h200, row, "NaN pairs")
    a, b, c = (np.isnan(w.view(np.float64)) for w in words)
    in_row, in_column = a.any(axis=1)[:, None], b.any(axis=0)[None, :]
    assert (in_row & in_column & c).any()
    assert (in_row & in_column & ~c).any()
    assert (in_row & ~in_column & c).any()
    assert (~in_row & in_column & c).any()
    payloads = np.concatenate([w[np.isnan(w.view(np.float64))] for w in words])
    assert len(set(payloads.tolist())) == len(payloads)
    quiet = payloads >> np.uint64(51) & np.uint64(1)
    assert set(quiet.tolist()) == {0, 1}


def test_tf32_words_have_the_bits_that_the_unit_drops(h200: Vectors) -> None:
    row = find_instruction("H200", "mma", "tf32", "tf32")
    a, b, _ = part_of(h200, row, "adversarial bits")
    assert (a & 0x1FFF).any()
    assert (b & 0x1FFF).any()


def test_integer_extremes(h200: Vectors) -> None:
    row = find_instruction("H200", "mma", "u8", "s8")
    a, b, c = part_of(h200, row, "extremes")
    assert set(a.ravel()) == set(b.ravel()) == {0, 1, 0x7F, 0x80, 0xFF}
    assert set(c.ravel()) == {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF}


# Verifying


@pytest.mark.some(9)
@pytest.mark.slow(2)
@pytest.mark.parametrize("unit", CATALOGUE)
def test_a_models_own_answers_have_no_difference(unit: str) -> None:
    vectors = collect(unit, outputs=1)
    result = verify(vectors)
    assert (result.unit.name, result.different, result.agrees) == (unit, 0, True)
    assert result.outputs == vectors.outputs == sum(one.outputs for one in result.replays)


def moved(arithmetic: AlignedSum) -> Iterator[AlignedSum]:
    """The arithmetic with each parameter moved to its neighbour."""
    for step in (-1, 1):
        yield replace(arithmetic, fraction_bits=arithmetic.fraction_bits + step)
        if arithmetic.exponent_floor is not None:
            yield replace(arithmetic, exponent_floor=arithmetic.exponent_floor + step)
    yield replace(arithmetic, block=arithmetic.block - 1)
    yield replace(arithmetic, rounding={"RZ": "RNE", "RNE": "RZ"}[arithmetic.rounding])
    for flag in ("late_c", "normalized_products", "flush_inputs", "flush_outputs"):
        yield replace(arithmetic, **{flag: not getattr(arithmetic, flag)})


def test_every_parameter_moved_by_one_is_noticed(h200: Vectors) -> None:
    entry = h200.entries[NAME]
    row = find_instruction("H200", "mma", "bfloat16", "bfloat16")
    assert isinstance(row.arithmetic, AlignedSum)
    assert np.array_equal(replay(entry.a, entry.b, entry.c, row), entry.d)
    for other in moved(row.arithmetic):
        answer = replay(entry.a, entry.b, entry.c, replace(row, arithmetic=other))
        assert not np.array_equal(answer, entry.d), other


def with_a_flipped_bit(vectors: Vectors, name: str, at: tuple[int, int, int]) -> Vectors:
    entry = vectors.entries[name]
    d = entry.d.copy()
    d[at] ^= 1
    return replace(vectors, entries={**vectors.entries, name: replace(entry, d=d)})


def test_one_flipped_bit_is_found_and_named(h200: Vectors) -> None:
    at = (5, 3, 2)
    result = verify(with_a_flipped_bit(h200, NAME, at))
    assert (result.different, result.agrees) == (1, False)
    (wrong,) = [one for one in result.replays if one.different]
    entry, first = wrong.entry, wrong.first
    assert first is not None
    assert entry.name == NAME
    assert (first.t, first.row, first.column) == at
    assert wrong.kinds == (first.kind,) == (entry.kinds[5],)
    assert first.recorded ^ first.model == 1
    assert first.a == tuple(entry.a[5, 3].tolist())
    assert first.b == tuple(entry.b[5, :, 2].tolist())
    assert first.c == int(entry.c[at])


def test_another_unit_differs_and_lacks_instructions(h200: Vectors) -> None:
    result = verify(h200, "A100")
    assert result.unit.name == "A100"
    assert 0 < result.different < result.outputs
    reasons = [one.missing for one in result.replays if one.missing]
    assert any("wgmma" in reason for reason in reasons)
    nothing = verify(collect("H200", instruction="wgmma", outputs=1), "V100")
    assert (nothing.outputs, nothing.different, nothing.agrees) == (0, 0, False)


def test_a_unit_of_ones_own() -> None:
    row = replace(find_instruction("V100", "mma", "binary16", "binary16"), arithmetic=AlignedSum(4, 20, "RZ"))
    unit = Unit("mine", "my unit", "mine", "-", (row,))
    vectors = collect(unit)
    assert verify(vectors, unit).agrees
    assert verify(vectors).others
    assert not verify(vectors).agrees


# Files that are refused


def archive_of(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def about_with(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    def edit(arrays: dict[str, Any]) -> None:
        about = json.loads(str(arrays["about"]))
        change(about)
        arrays["about"] = np.array(json.dumps(about))

    return edit


def put(key: str, value: Callable[[Any], Any]) -> Callable[[dict[str, Any]], Any]:
    def edit(arrays: dict[str, Any]) -> None:
        arrays[key] = value(arrays.get(key))

    return edit


def in_row(key: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return about_with(lambda about: about["instructions"][NAME].update({key: value}))


REFUSED = [
    (lambda x: x.pop("about"), "has no 'about', so it is no file of vectors"),
    (put("about", lambda _: np.zeros(3)), "float64 (3,), not one text"),
    (put("about", lambda _: np.array("{")), "is no JSON"),
    (put("about", lambda _: np.array("[1]")), "not that of tcu vectors"),
    (about_with(lambda about: about.update(format="other")), "not that of tcu vectors"),
    (about_with(lambda about: about.update(version=3)), "format version 3, this tcu reads 1 and 2: update tcu"),
    (about_with(lambda about: about.pop("version")), "'version' of 'about' is missing"),
    (about_with(lambda about: about.update(seed=True)), "'seed' of 'about' is True, not a whole number"),
    (about_with(lambda about: about.update(date=5)), "'date' of 'about' is 5, not a text"),
    (about_with(lambda about: about.pop("machine")), "'machine' of 'about' is missing"),
    (about_with(lambda about: about["machine"].pop("name")), "'name' of 'machine' is missing"),
    (about_with(lambda about: about["machine"].update(kind="toy")), "'toy', not gpu, cpu or model"),
    (about_with(lambda about: about["machine"].update(driver=3)), "'driver' of 'machine' is 3, not a text"),
    (about_with(lambda about: about.update(instructions={})), "lists no instruction"),
    (about_with(lambda about: about.update(instructions=[])), "is [], not an object"),
    (about_with(lambda about: about["instructions"].update({NAME: 1})), "is not an object"),
    (in_row("kinds", []), "not a list of texts"),
    (in_row("kinds", [1]), "not a list of texts"),
    (in_row("kinds", ["ordinary"]), "the rest of the file asks for (1, 16, 16)"),
    (in_row("shape", [16, 8]), "is [16, 8], not [m, n, k]"),
    (in_row("shape", [16, 8, 0]), "is [16, 8, 0], not [m, n, k]"),
    (in_row("shape", [16, 8, 8]), "is described as 'mma-bfloat16-binary32-k8'"),
    (in_row("a", "binary128"), "has the format 'binary128', unknown to this tcu: update tcu"),
    (in_row("output", "binary16"), "is described as 'mma-bfloat16-binary16-k16'"),
    (lambda x: x.pop(f"{NAME}/c"), f"it has no array {NAME}/c"),
    (put("extra", lambda _: np.zeros(3)), "holds 'extra', which its text does not list"),
    (put(f"{NAME}/a", lambda a: a.astype(np.uint32)), "/a has dtype uint32, bfloat16 words have uint16"),
    (put(f"{NAME}/d", lambda d: d.view(np.float32)), "/d has dtype float32"),
    (put(f"{NAME}/b", lambda b: b[:, :8]), "/b has shape (42, 8, 8), the rest of the file asks for (42, 16, 8)"),
    (put(f"{NAME}/c", lambda c: c[:-1]), "/c has shape (41, 16, 8)"),
    (put(f"{NAME}/d", lambda d: d[0]), "/d has shape (16, 8), not [T, M, N]"),
    (put(f"{NAME}/d", lambda d: d[:, :0]), "not [T, M, N]"),
]  # fmt: skip


@pytest.mark.slow(10)
@pytest.mark.parametrize(("spoil", "words"), REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_an_inconsistent_file_is_refused(saved: Path, spoil: Callable[..., Any], words: str) -> None:
    arrays = archive_of(saved)
    spoil(arrays)
    np.savez_compressed(saved, **arrays)
    with pytest.raises(DataFileError) as caught:
        Vectors.load(saved)
    message = str(caught.value)
    assert words in message
    assert message.startswith(str(saved))
    assert any(step in message for step in ("collect", "update tcu"))


def test_a_damaged_or_foreign_file_is_refused(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    for end in (3, 200, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:end])
        with pytest.raises(DataFileError, match="damaged or not complete"):
            Vectors.load(saved)
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF
    saved.write_bytes(bytes(broken))
    with pytest.raises(DataFileError, match="damaged or not complete"):
        Vectors.load(saved)
    saved.write_bytes(b"")
    with pytest.raises(DataFileError, match=r"not a \.npz file"):
        Vectors.load(saved)
    objects = io.BytesIO()
    np.savez(objects, about=np.array([{}], dtype=object))
    saved.write_bytes(objects.getvalue())
    with pytest.raises(DataFileError, match="damaged or not complete"):
        Vectors.load(saved)
    with pytest.raises(DataFileError, match="cannot read it: No such file"):
        Vectors.load(tmp_path / "none.npz")
    with pytest.raises(DataFileError, match="check the path"):
        Vectors.load(tmp_path)


def test_no_damage_escapes_as_another_error(saved: Path) -> None:
    before, whole, rng = Vectors.load(saved), saved.read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[int(rng.integers(len(whole) - 600, len(whole)))] ^= int(rng.integers(1, 256))
        damaged[int(rng.integers(0, len(whole)))] ^= int(rng.integers(1, 256))
        saved.write_bytes(bytes(damaged))
        try:
            assert equal(Vectors.load(saved), before)
        except DataFileError:
            refused += 1
    assert refused > 100


def test_words_of_the_other_byte_order_are_read(saved: Path) -> None:
    before, arrays = Vectors.load(saved), archive_of(saved)
    arrays = {key: x if key == "about" else x.astype(x.dtype.newbyteorder(">")) for key, x in arrays.items()}
    np.savez_compressed(saved, **arrays)
    assert equal(Vectors.load(saved), before)


def test_saving_where_one_cannot(h200: Vectors, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="choose another place"):
        h200.save(tmp_path / "no" / "x.npz")


# The command line


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_collect_then_verify(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = run("collect", "-o", "x.npz", "--unit", "T4", "--seed", "7", "--outputs", "100")
    assert (code, err) == (0, "")
    assert out.startswith("x.npz: ")
    assert "of 8 instructions of the model of T4" in out
    assert "tcu verify x.npz" in out
    code, out, err = run("verify", "x.npz")
    assert (code, err) == (0, "")
    assert "outputs are those of T4, bit for bit." in out
    assert "mma f16 → f32" in out
    code, out, _ = run("verify", "x.npz", "--unit", "V100")
    assert code == 1
    assert "4 instructions are not in the catalogue's V100, so not compared." in out
    assert "First: mma f16 → f32 with k = 8, matrix " in out
    assert "outputs differ from V100." in out


def test_one_instruction_that_the_unit_lacks(run: Callable[..., tuple[int, str, str]]) -> None:
    run(
        "collect",
        "-o",
        "x.npz",
        "--unit",
        "H200",
        "--input",
        "bf16",
        "--instruction",
        "mma",
    )
    code, out, _ = run("verify", "x.npz", "--unit", "V100")
    assert code == 1
    assert "1 instruction is not in the catalogue's V100" in out
    assert "Nothing could be compared." in out


def test_an_unknown_gpu_on_the_screen(
    play: Callable[..., None], run: Callable[..., tuple[int, str, str]]
) -> None:
    play("NVIDIA RTX 9090", (19, 0), KERNELS[:9])
    assert run("collect", "--out", "x.npz")[0] == 0
    code, out, _ = run("verify", "x.npz")
    assert code == 0
    assert "The catalogue does not have NVIDIA RTX 9090 (compute capability 19.0)" in out
    assert "driver 580.95.05, CUDA 13.0, NVRTC 13.2" in out
    code, out, _ = run("verify", "x.npz", "--json")
    document = json.loads(out)
    assert code == 0
    assert len(document["units"]) == len(units_with("mma"))
    assert document["units"][0] == {
        "unit": document["unit"], "outputs": document["outputs"], "different": 0,
    }  # fmt: skip


def test_json(run: Callable[..., tuple[int, str, str]], h200: Vectors, tmp_path: Path) -> None:
    with_a_flipped_bit(h200, NAME, (13, 1, 2)).save(tmp_path / "x.npz")
    code, out, err = run("verify", "x.npz", "--json")
    assert (code, err) == (1, "")
    document = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert list(document) == [
        "file", "machine", "date", "tcu", "seed", "unit", "outputs", "different", "agrees", "instructions", "units",
    ]  # fmt: skip
    assert (document["unit"], document["different"], document["agrees"]) == ("H200", 1, False)
    rows = {row["name"]: row for row in document["instructions"]}
    assert sum(row["outputs"] for row in rows.values()) == document["outputs"]
    first = rows[NAME]["first"]
    assert (first["t"], first["row"], first["column"], first["kind"]) == (13, 1, 2, rows[NAME]["kinds"][0])
    assert int(first["recorded"]["bits"], 16) ^ int(first["model"]["bits"], 16) == 1
    assert len(first["a"]) == len(first["b"]) == rows[NAME]["k"] == 16
    assert all(row["first"] is None and row["different"] == 0 for name, row in rows.items() if name != NAME)


def test_long_lists_of_kinds_are_cut() -> None:
    assert _listed(("pair", "near zero")) == "pair, near zero"
    assert _listed(("pair", "near zero", "ordinary")) == "pair, near zero and 1 more"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("verify", "none.npz"), "cannot read it: No such file"),
        (("verify", "here.npz"), "not a .npz file"),
        (("verify",), "missing argument"),
        (("collect", "--unit", "V100"), "missing option"),
        (("collect", "-o", "no/x.npz", "--unit", "V100"), "there is no folder no"),
        (("collect", "-o", ".", "--unit", "V100"), "it is a folder"),
        (("collect", "-o", "x.npz", "--unit", "V1"), "unknown unit"),
        (("collect", "-o", "x.npz", "--unit", "V100", "--outputs", "0"), "--outputs"),
    ],
)
def test_bad_input_gives_one_line(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "here.npz").write_text("1 2 3")
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


# Real hardware


@pytest.mark.gpu
def test_a_gpu_returns_what_its_unit_does(tmp_path: Path) -> None:
    found = gpu_or_skip()
    if not found.units:
        pytest.skip(f"the catalogue has no unit of compute capability {found.compute_capability}")
    vectors = collect(outputs=512, seed=1)
    assert len(vectors.entries) == len(found.kernels)
    assert vectors.machine.name == found.name
    vectors.save(tmp_path / "x.npz")
    result = verify(Vectors.load(tmp_path / "x.npz"))
    assert result.unit == found.units[0]
    assert {one.entry.name: one.first for one in result.replays if one.different} == {}
    assert result.agrees


@pytest.mark.skipif(not RECORDED.is_file(), reason=f"no {RECORDED.name} in tests/data")
def test_the_recorded_h200_returned_the_models_bits() -> None:
    vectors = Vectors.load(RECORDED)
    machine = vectors.machine
    assert (machine.kind, machine.compute_capability) == ("gpu", "9.0")
    assert "H200" in machine.name
    assert all(version is not None for version in (machine.driver, machine.cuda, machine.nvrtc))
    assert len(vectors.entries) == len(KERNELS)
    for entry in vectors.entries.values():
        assert {*entry.kinds} == {*kinds_of(entry.row)} - ASKED_SINCE
    result = verify(vectors)
    assert result.unit.name == "H200"
    assert {one.entry.name: one.first for one in result.replays if one.different} == {}
    assert {one.missing for one in result.replays} == {None}
    assert result.agrees


@pytest.mark.skipif(not RECORDED.is_file(), reason=f"no {RECORDED.name} in tests/data")
def test_a_flipped_bit_in_the_recorded_file_is_found() -> None:
    vectors = Vectors.load(RECORDED)
    for name in vectors.entries:
        assert verify(with_a_flipped_bit(only(vectors, name), name, (0, 15, 7))).different == 1


def only(vectors: Vectors, name: str) -> Vectors:
    entry: Entry = vectors.entries[name]
    return replace(vectors, entries={name: entry})
