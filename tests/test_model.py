"""Contract: the fast model equals the definition, bit for bit, for every arithmetic.

Every different instruction of the catalogue on adversarial dot products
(``--dots`` each, 20,000 at most where tests/test_sums_in_arrays.py takes more), and units drawn at random
over the whole family of parameters, chains among them.  Narrow sums in 32-bit
words equal the same sums in 64, across the tiles that they are cut into.
"""

from __future__ import annotations

import itertools
import os
import pkgutil
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from adversarial import MODES, codes
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from sums_in_arrays import dots_by_definition

import tcu.model
from tcu.errors import ParameterError
from tcu.formats import Format, get_format
from tcu.formats.scalar import ROUNDINGS
from tcu.model import vector_expressions
from tcu.model.blocks import is_block_sum
from tcu.model.definition import dot
from tcu.model.mma import is_narrow, multiply_accumulate
from tcu.model.narrow_steps import plain_from
from tcu.model.threads import worker_count
from tcu.units import CATALOGUE, AlignedSum, FusedChain, Instruction
from tcu.units.arithmetic import NAN_RULES

AVX512 = vector_expressions.has_rounding(cpu_target.target_context)
DIFFERENT: dict[tuple[object, ...], tuple[str, Instruction]] = {}
for _unit in CATALOGUE.values():
    for _row in _unit.instructions:
        key = (_row.a, _row.b, _row.output, _row.k, _row.arithmetic)
        if not is_block_sum(_row):  # tests/test_blocks.py
            DIFFERENT.setdefault(key, (_unit.name, _row))
ROWS = [pytest.param(row, id=f"{unit} {row.signature}") for unit, row in DIFFERENT.values()]
NARROW = [
    pytest.param(row, id=f"{unit} {row.signature}") for unit, row in DIFFERENT.values() if is_narrow(row)
]


def differing(
    row: Instruction,
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    c: npt.NDArray[Any],
    every: tuple[int, int] = (1, 1),
) -> list[str]:
    """Elements of A·B + C in which the fast model and the definition differ, of every so many rows and columns."""
    x, y, z = get_format(row.a), get_format(row.b), get_format(row.output)
    fast = multiply_accumulate(a.view(x.dtype), b.view(y.dtype), c.view(z.dtype), row).view(z.code_dtype)
    rows = [[int(code) >> x.storage_shift for code in line] for line in a]
    columns = [[int(code) >> y.storage_shift for code in line] for line in b.T]
    found = []
    for i, left in list(enumerate(rows))[:: every[0]]:
        for j, right in list(enumerate(columns))[:: every[1]]:
            slow = dot(left, right, int(c[i, j]), row)
            if slow != int(fast[i, j]):
                found.append(f"{row}: a={left} b={right} c={c[i, j]:#x}: {slow:#x}, fast {fast[i, j]:#x}")
    return found


def adversarial_products(row: Instruction, count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    found: list[str] = []
    side = 12
    for number in range(-(-count // side**2)):
        mode, other = MODES[number % len(MODES)], rng.choice(MODES)
        k = row.k if number % 3 else int(rng.integers(1, 2 * row.k + 2))
        a = codes(rng, row.a, (side, k), mode)
        b = codes(rng, row.b, (k, side), str(rng.choice([mode, other])))
        c = codes(rng, row.output, (side, side), str(rng.choice([mode, other])))
        found += differing(row, a, b, c)
    return found


def _job(arguments: tuple[Instruction, int, int]) -> list[str]:
    os.environ["TCU_NUM_THREADS"] = "1"
    return adversarial_products(*arguments)


@pytest.mark.some(72)
@pytest.mark.slow(2)
@pytest.mark.parametrize("row", ROWS)
def test_fast_model_equals_definition(row: Instruction, request: pytest.FixtureRequest) -> None:
    count = dots_by_definition(row, request.config.getoption("--dots"))
    if count <= 20_000:
        assert adversarial_products(row, count, 0) == []
        return
    pieces = [(row, 10_000, seed) for seed in range(-(-count // 10_000))]
    with ProcessPoolExecutor(worker_count()) as pool:
        for found in pool.map(_job, pieces):
            assert found == []


def test_every_aligned_sum_of_the_catalogue_is_narrow() -> None:
    for _, row in DIFFERENT.values():
        aligned = isinstance(row.arithmetic, AlignedSum) and not row.arithmetic.through_binary16
        assert is_narrow(row) == aligned, row


@pytest.mark.parametrize(
    "changes",
    [
        {"fraction_bits": 26},
        {"block": 64},
        {"block": 3},
        {"rounding": "RNE"},
        {"normalized_products": True},
        {"flush_inputs": True},
        {"flush_outputs": True},
    ],
)
def test_what_does_not_fit_the_words_is_not_narrow(changes: dict[str, Any]) -> None:
    row = CATALOGUE["H100"].instructions[0]
    assert is_narrow(row)
    assert not is_narrow(replace(row, arithmetic=replace(row.arithmetic, **changes)))


@pytest.mark.some(24)
@pytest.mark.slow
@pytest.mark.parametrize("row", NARROW)
def test_narrow_sums_equal_wide_ones_across_tiles(row: Instruction, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million adversarial dot products a row."""
    rng = np.random.default_rng(5)
    x, y, z = get_format(row.a), get_format(row.b), get_format(row.output)
    for mode, other in itertools.product(MODES, MODES):
        m, n = int(rng.integers(130, 140)), int(rng.integers(160, 170))
        k = int(rng.integers(64, 128 + 2 * row.k))
        a = codes(rng, row.a, (m, k), mode).view(x.dtype)
        b = codes(rng, row.b, (k, n), other).view(y.dtype)
        c = codes(rng, row.output, (m, n), str(rng.choice(MODES))).view(z.dtype)
        result = multiply_accumulate(a, b, c, row)
        with monkeypatch.context() as patch:
            patch.setattr("tcu.model.mma.is_narrow", lambda row: False)
            wide = multiply_accumulate(a, b, c, row)
        assert result.tobytes() == wide.tobytes(), (mode, other, m, n, k)


@pytest.mark.slow(20)
@pytest.mark.parametrize("row", NARROW)
def test_plain_sums_at_the_ends_of_what_is_plain(row: Instruction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products from 2^-64 to 2^62, most of them zero, beside C around the least for which a kernel takes care of nothing."""
    rng = np.random.default_rng(9)
    x, y, z = get_format(row.a), get_format(row.b), get_format(row.output)
    assert isinstance(row.arithmetic, AlignedSum)
    least = int(np.log2(plain_from(row.arithmetic.fraction_bits)))

    def numbers(fmt: Format, shape: tuple[int, int], low: int, high: int, zeros: float) -> npt.NDArray[Any]:
        low, high = (int(np.clip(exponent, fmt.emin, fmt.emax - 1)) for exponent in (low, high))
        exponents = rng.integers(low, high + 1, shape)
        numbers = (exponents + fmt.bias << fmt.fraction_bits) + rng.integers(0, 1 << fmt.fraction_bits, shape)
        numbers[rng.random(shape) < zeros] = 0
        numbers += rng.choice([0, fmt.sign_code], shape)
        return (numbers << fmt.storage_shift).astype(fmt.code_dtype).view(fmt.dtype)

    for shift, zeros, c_low, c_high in itertools.product((0, 17), (0.5, 0.97), (0, 1, -2), (0, 70)):
        a = numbers(x, (67, 96), -32 - shift, 31 - shift, zeros)
        b = numbers(y, (96, 70), -32 + shift, 31 + shift, zeros)
        c = numbers(z, (67, 70), least + c_low, least + c_low + c_high, 0.3)
        result = multiply_accumulate(a, b, c, row)
        with monkeypatch.context() as patch:
            patch.setattr("tcu.model.mma.is_narrow", lambda row: False)
            wide = multiply_accumulate(a, b, c, row)
        assert result.tobytes() == wide.tobytes(), (shift, zeros, c_low, c_high)


@pytest.mark.slow(20)
@pytest.mark.parametrize("row", NARROW)
def test_zeros_and_subnormal_numbers_beside_those_of_every_exponent(
    row: Instruction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their exponents have no say in those of sums, in matrices where the largest are looked at."""
    rng = np.random.default_rng(11)
    x, y, z = get_format(row.a), get_format(row.b), get_format(row.output)

    def tiny(fmt: Format, shape: tuple[int, int], largest: int) -> npt.NDArray[Any]:
        numbers = rng.integers(0, largest + 1, shape) + rng.choice([0, fmt.sign_code], shape)
        return (numbers << fmt.storage_shift).astype(fmt.code_dtype).view(fmt.dtype)

    def wide(fmt: Format, shape: tuple[int, int], low: int, high: int) -> npt.NDArray[Any]:
        """Of exponents from ``low`` to ``high``, as far as the format has them."""
        fields = np.clip(rng.integers(low, high + 1, shape), fmt.emin, fmt.emax - 1) + fmt.bias
        numbers = (fields << fmt.fraction_bits) + rng.integers(0, 1 << fmt.fraction_bits, shape)
        return (numbers << fmt.storage_shift).astype(fmt.code_dtype).view(fmt.dtype)

    for subnormal, (low, high) in itertools.product((0, 1), ((-127, 127), (63, 127), (-127, -65))):
        small = [
            tiny(fmt, shape, subnormal * ((1 << fmt.fraction_bits) - 1))
            for fmt, shape in ((x, (40, 64)), (y, (64, 48)))
        ]
        large = [wide(fmt, shape, low, high) for fmt, shape in ((x, (40, 64)), (y, (64, 48)))]
        c = wide(z, (40, 48), -100, 100)
        for a, b in ((small[0], large[1]), (large[0], small[1]), small):
            result = multiply_accumulate(a, b, c, row)
            with monkeypatch.context() as patch:
                patch.setattr("tcu.model.mma.is_narrow", lambda row: False)
                expected = multiply_accumulate(a, b, c, row)
            assert result.tobytes() == expected.tobytes(), (subnormal, low, high)


@pytest.mark.slow(20)
@pytest.mark.parametrize("row", NARROW)
def test_the_largest_sums_fit_the_words(row: Instruction) -> None:
    """All significands largest, all exponents equal, all signs equal: nothing cancels."""

    def largest(name: str, shape: tuple[int, int]) -> npt.NDArray[Any]:
        fmt = get_format(name)
        code = (fmt.sign_code >> 1) - 1 << fmt.storage_shift
        return np.full(shape, code, fmt.code_dtype)

    a, b, c = largest(row.a, (2, row.k)), largest(row.b, (row.k, 3)), largest(row.output, (2, 3))
    a[1] |= get_format(row.a).sign_code << get_format(row.a).storage_shift
    c[1] |= get_format(row.output).sign_code
    assert differing(row, a, b, c) == []


def plain_inputs(row: Instruction, seed: int) -> list[npt.NDArray[Any]]:
    """Normal numbers near 1: whatever the formats, their products are values of binary32."""
    rng = np.random.default_rng(seed)
    shapes = (40, 2 * row.k), (2 * row.k, 48), (40, 48)
    return [
        rng.standard_normal(shape).astype(get_format(name).dtype)
        for name, shape in zip((row.a, row.b, row.output), shapes, strict=True)
    ]


def special(name: str, value: float) -> Any:
    return np.array(value).astype(get_format(name).dtype)


def with_tiny_c(row: Instruction, a: Any, b: Any, c: Any) -> None:
    """No product, or one that is far larger, beside the smallest C and the smallest that needs no care."""
    a[::2] = 0
    for number, exponent in enumerate((-149, -127, -126, -102, -101, -100)):
        c[:, number::6] = np.ldexp(np.float32(1.25), exponent).astype(c.dtype)


def with_zeros(row: Instruction, a: Any, b: Any, c: Any) -> None:
    a[::2], b[:, ::3], c[...] = 0, 0, special(row.output, -0.0)


def with_nan_rows(row: Instruction, a: Any, b: Any, c: Any) -> None:
    """Rows that are NaN from the first or the last product on, in fours and alone."""
    a[0:5, 0] = a[14, -1] = special(row.a, np.nan)
    b[0, 5] = special(row.b, np.nan)
    c[20:24, :16] = special(row.output, np.nan)


def with_largest_sums(row: Instruction, a: Any, b: Any, c: Any) -> None:
    """Sums of products that C takes across 2^31 units, and some that it does not."""
    a[...], b[...] = special(row.a, 1.75), special(row.b, 1.75)
    bits = get_format(row.a).fraction_bits
    a[::2] = b[:, ::2] = special(row.a, 2 - 2.0**-bits)
    a[5:9] = special(row.a, -1.75)
    c[...] = special(row.output, 3.999)


@pytest.mark.some(90)
@pytest.mark.slow(1)
@pytest.mark.parametrize("given", [with_tiny_c, with_zeros, with_nan_rows, with_largest_sums])
@pytest.mark.parametrize("row", NARROW)
def test_what_the_fast_way_of_narrow_sums_has_no_room_for(row: Instruction, given: Any) -> None:
    a, b, c = plain_inputs(row, 7)
    given(row, a, b, c)
    codes_ = [
        x.view(get_format(f).code_dtype) for x, f in zip((a, b, c), (row.a, row.b, row.output), strict=True)
    ]
    assert differing(row, *codes_, every=(7, 5)) == []


@pytest.mark.slow(3)
@pytest.mark.parametrize("name", ["bfloat16", "tf32"])
@pytest.mark.parametrize("exponent", [0, 31, 32, 70, -30, -31, -32, -33, -70, 120])
def test_operands_near_one_give_the_bits_of_all_others(name: str, exponent: int) -> None:
    """By the exponents that there are, products are values of binary32, or are not; both sides of that limit."""
    row = next(row for row in CATALOGUE["H100"].instructions if row.a == name and row.shape is not None)
    a, b, c = plain_inputs(row, 8)
    a, b = (
        np.ldexp(a.astype(np.float32), exponent).astype(a.dtype),
        np.ldexp(b.astype(np.float32), exponent).astype(b.dtype),
    )
    a[0, 0], b[0, 1] = 0, 0
    codes_ = [
        x.view(get_format(f).code_dtype) for x, f in zip((a, b, c), (row.a, row.b, row.output), strict=True)
    ]
    assert differing(row, *codes_, every=(7, 5)) == []


def random_chain(draw: random.Random, k: int) -> FusedChain:
    group = draw.choice([size for size in (1, 2) if k % size == 0])
    return FusedChain(
        order=tuple(draw.sample(range(k), k)) if draw.random() < 0.5 else None,
        rounded_products=draw.random() < 0.5,
        rounding=draw.choice(ROUNDINGS),
        group=group,
        lanes=draw.choice([1, *(lanes for lanes in (2, 4) if k % (lanes * group) == 0)]),
        late_c=draw.random() < 0.3,
        flush_inputs=draw.random() < 0.3,
        flush_outputs=draw.random() < 0.3,
        nan_rule=draw.choice(NAN_RULES),
    )


def random_sum(draw: random.Random, k: int) -> AlignedSum:
    return AlignedSum(
        block=draw.choice([1, 2, 3, 4, 8, 16, 32, 64]),
        fraction_bits=draw.randint(1, 42),
        rounding=draw.choice(ROUNDINGS),
        exponent_floor=draw.choice([None, -133, -21, 0, -10]),
        output_fraction_bits=draw.choice([None, None, 13, 5]),
        order=tuple(draw.sample(range(k), k)) if draw.random() < 0.5 else None,
        late_c=draw.random() < 0.3,
        normalized_products=draw.random() < 0.3,
        flush_inputs=draw.random() < 0.2,
        flush_outputs=draw.random() < 0.2,
        carry_bits=draw.choice([None, None, 1, 2, 3, 5, 8]),
        signed_zeros=draw.random() < 0.3,
        nan_rule=draw.choice(["nvidia", "nvidia", "arm", "x86", "c first"]),
        saturate=draw.random() < 0.2,
    )


@pytest.mark.some(36)
@pytest.mark.slow
@pytest.mark.parametrize("family", [random_sum, random_chain])
@pytest.mark.parametrize("seed", range(120))
def test_units_drawn_at_random_over_the_whole_family(seed: int, family: Any) -> None:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    operand = draw.choice(["binary16", "bfloat16", "tf32", "e4m3", "e5m2"])
    output = draw.choice(["binary32", "binary16"])
    k = draw.choice([1, 4, 5, 8, 16, 32])
    row = Instruction("mma", operand, operand, output, (16, 8, k), family(draw, k), ())
    for mode in MODES:
        depth = draw.choice([k, 2 * k, k + 1])
        a, b = codes(rng, operand, (3, depth), mode), codes(rng, operand, (depth, 9), draw.choice(MODES))
        c = codes(rng, output, (3, 9), draw.choice(MODES))
        assert differing(row, a, b, c) == []


def test_the_comparison_notices_a_planted_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    row = CATALOGUE["H100"].instructions[0]
    rng = np.random.default_rng(0)
    a, b = codes(rng, row.a, (3, 16), "binade"), codes(rng, row.b, (16, 3), "binade")
    c = codes(rng, row.output, (3, 3), "binade")
    assert differing(row, a, b, c) == []
    right = dot
    monkeypatch.setattr("test_model.dot", lambda *arguments: right(*arguments) ^ 1)
    assert len(differing(row, a, b, c)) == 9


def test_a_result_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    row = CATALOGUE["H100"].instructions[0]
    rng = np.random.default_rng(3)
    a, b, c = (
        rng.integers(0, 1 << 16, shape).astype(np.uint16)
        for shape in ((500, 16, 16), (500, 16, 8), (500, 16, 16))
    )
    c = c.view(np.uint32)
    results = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("TCU_NUM_THREADS", threads)
        d = multiply_accumulate(a.view(np.float16), b.view(np.float16), c.view(np.float32), row)
        results.append(d.tobytes())
    assert len(set(results)) == 1


def test_nor_do_those_of_a_tall_matrix_whose_tiles_are_then_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    row = CATALOGUE["H100"].instructions[0]
    rng = np.random.default_rng(4)
    a, b, c = (
        codes(rng, name, shape, "bits").view(get_format(name).dtype)
        for name, shape in ((row.a, (1037, 80)), (row.b, (80, 150)), (row.output, (1037, 150)))
    )
    a[:, ::7] = 1  # some rows and columns have neither inf nor NaN
    monkeypatch.setattr("tcu.model.mma.is_narrow", lambda row: False)
    wide = multiply_accumulate(a, b, c, row).tobytes()
    monkeypatch.setattr("tcu.model.mma.is_narrow", is_narrow)
    for threads in ("1", "2", "3", "5", "64"):
        monkeypatch.setenv("TCU_NUM_THREADS", threads)
        assert multiply_accumulate(a, b, c, row).tobytes() == wide, threads


@pytest.mark.parametrize(
    "by_instruction",
    [False, pytest.param(True, marks=pytest.mark.skipif(not AVX512, reason="no AVX-512 here"))],
)
def test_words_are_rounded_toward_zero_by_either_way(by_instruction: bool) -> None:
    """By the instruction that AVX-512 has for it, and by what other processors do; a kernel has one of them."""

    @intrinsic
    def of_lanes(typingctx: Any, array: Any, index: Any, out: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            words = vector_expressions.load(context, builder, array, args[0], args[1])
            vector_expressions.store(
                context, builder, out, args[2], args[1], words.to_float_toward_zero(by_instruction)
            )
            return context.get_dummy_value()

        return types.void(array, types.intp, out), codegen

    @numba.njit
    def of_all(array: Any, out: Any) -> None:
        for index in range(0, len(array), vector_expressions.LANES):
            of_lanes(array, index, out)

    edges = [sign * (1 << n) + more for n in range(32) for sign in (1, -1) for more in range(-3, 4)]
    near = [word for word in edges if -(1 << 31) <= word < 1 << 31]
    words = np.array([*near, *np.random.default_rng(1).integers(-(1 << 31), 1 << 31, 100_000)], np.int32)
    words = words[: len(words) // vector_expressions.LANES * vector_expressions.LANES]
    out = np.empty_like(words)
    of_all(words, out)
    nearest = words.astype(np.float32)
    above = np.abs(nearest.astype(np.float64)) > np.abs(words.astype(np.float64))
    expected = np.where(above, np.nextafter(nearest, np.float32(0)), nearest)
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("setting", ["0", "-1", "two"])
def test_a_bad_number_of_threads_is_an_error(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tcu.model.threads import worker_count

    monkeypatch.setenv("TCU_NUM_THREADS", setting)
    with pytest.raises(ParameterError, match=r"TCU_NUM_THREADS.*whole number"):
        worker_count()


def compiled_functions(held: Any) -> Iterator[Any]:
    """In a module's variable, or in what it holds."""
    if isinstance(held, Dispatcher):
        yield held
    elif isinstance(held, dict | list | tuple):
        for each in held.values() if isinstance(held, dict) else held:
            yield from compiled_functions(each)


def test_no_kernel_closes_over_another() -> None:
    """Numba finds what another process has compiled by a closure's contents; those of a kernel are others in each process, so that all
    compiled it anew, and left one more file each.
    """
    modules = [each.name for each in pkgutil.iter_modules(tcu.model.__path__, "tcu.model.")]
    kernels = [
        kernel
        for name in modules
        for held in vars(import_module(name)).values()
        for kernel in compiled_functions(held)
    ]
    assert len(kernels) > 100
    for kernel in kernels:
        for cell in kernel.py_func.__closure__ or ():
            assert not list(compiled_functions(cell.cell_contents)), kernel


def test_kernels_are_recompiled_when_what_they_are_made_of_changes(tmp_path: Path) -> None:
    """Numba's disk cache does not look into imported modules; the fingerprint makes it."""
    from tcu.model import (
        chains,
        cuts,
        kernels,
        lane_rounding,
        lane_rows,
        lanes,
        narrow_kernels,
        narrow_steps,
        vectors,
    )
    from tcu.model.jit import fingerprint

    made_of = [
        (kernels.aligned_mma, (vectors, lanes, lane_rounding, lane_rows)),
        (kernels.fused_chain, (vectors, lanes, lane_rounding, lane_rows)),
        (chains.chain_mma, (vectors, lanes, lane_rounding, kernels)),
        (cuts.add_by_cuts, (vectors, lanes, kernels)),
        *(
            (kernel, (vectors, vector_expressions, narrow_steps))
            for kernel in narrow_kernels.narrow_mma.values()
        ),
    ]
    for kernel, modules in made_of:
        assert fingerprint(*modules) in [cell.cell_contents for cell in kernel.py_func.__closure__]
    module, seen = ModuleType("changes"), set()
    module.__file__ = str(tmp_path / "changes.py")
    for text in ("x = 1", "x = 2", ""):
        Path(module.__file__).write_text(text)
        seen.add(fingerprint(vectors, module))
    assert len(seen) == 3


def test_processes_that_compile_at_once_do_not_mix_up_machine_code(tmp_path: Path) -> None:
    """Whoever writes the list of files last, and wherever a process ends: a call has its own machine code, or none.  Numba's own
    files mix it up.
    """
    from numba.core.caching import IndexDataCacheFile

    from tcu.model.jit import Files

    def found(kind: Any, ends: bool) -> list[Any]:
        """What two calls have later, if two processes begin with empty lists, or if the first one ends while it writes, where files of
        older sources are.
        """
        folder = tmp_path / f"{kind.__name__}{ends}"
        folder.mkdir()
        for key in "ab":
            kind(str(folder), "kernel", "older").save(key, f"older {key}")
        first, second = (kind(str(folder), "kernel", "now") for _ in range(2))
        write_first = first._save_index
        if ends:

            def stop(overloads: Any) -> None:
                write_first(overloads)
                raise KeyboardInterrupt

            first._save_index = stop
            with pytest.raises(KeyboardInterrupt):
                first.save("a", "a")
        else:
            begun, load = [{}], second._load_index
            second._load_index = lambda: begun.pop() if begun else load()
            first._save_index = lambda overloads: (write_first(overloads), second.save("b", "b"))
            first.save("a", "a")
        later = kind(str(folder), "kernel", "now")
        return [later.load(key) for key in "ab"]

    assert [found(Files, ends) for ends in (False, True)] == [[None, "b"], ["a", None]]
    assert [found(IndexDataCacheFile, ends) for ends in (False, True)] == [[None, "a"], ["older a", None]]


def test_machine_code_of_older_sources_is_taken_away(tmp_path: Path) -> None:
    from tcu.model.jit import Files

    for stamp in ("older", "now"):
        files = Files(str(tmp_path), "kernel", stamp)
        for key in "ab":
            files.save(key, stamp + key)
    (tmp_path / "kernel.other-7.nbc").touch()
    assert [files.load(key) for key in "ab"] == ["nowa", "nowb"]
    assert len(list(tmp_path.glob("kernel.*.nbc"))) == 3


@pytest.mark.slow
def test_machine_code_is_compiled_once_and_read_by_later_processes(tmp_path) -> None:
    """Numba's disk cache compares what a kernel closes over: a function there is another one in every process."""
    import subprocess
    import sys

    import tcu
    from tcu.model import chains, cuts, exact_rows, kernels, narrow_kernels, scan_kernels

    found = [
        one
        for module in (chains, cuts, exact_rows, kernels, narrow_kernels, scan_kernels)
        for one in vars(module).values()
    ]
    found = [one for entry in found for one in (entry.values() if isinstance(entry, dict) else [entry])]
    closures = [one.py_func.__closure__ or () for one in found if hasattr(one, "py_func")]
    assert {type(cell.cell_contents) for cells in closures for cell in cells} == {int, tuple}

    code = """
import tcu
from tcu.model.scan_kernels import scan_segments
tcu.cumsum([1.0, 2.0])
print(*(sum(counts.values()) for counts in (scan_segments[4].stats.cache_hits, scan_segments[4].stats.cache_misses)))
"""
    environment = os.environ | {
        "PYTHONPATH": str(Path(tcu.__file__).parents[1]),
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    command = [sys.executable, "-c", code]
    for counts in ("0 1", "1 0"):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        assert done.stdout.strip() == counts


@pytest.mark.slow
def test_without_a_folder_for_machine_code_the_kernels_compile_all_the_same(tmp_path) -> None:
    """A read-only installation and no home: Numba finds no place for its cache."""
    import shutil
    import subprocess
    import sys
    from pathlib import Path

    import tcu

    shutil.copytree(Path(tcu.__file__).parent, tmp_path / "tcu", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tcu" / "model" / "__pycache__").touch()
    code = "import numpy as np, tcu; print(tcu.__file__, tcu.fsum(np.ones(10)), tcu.sum(np.ones(10, np.float16)))"
    environment = {
        "PYTHONPATH": str(tmp_path),
        "HOME": "/proc/nope",
        "XDG_CACHE_HOME": "/proc/nope",
        "PATH": "",
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "tcu" / "__init__.py"), "10.0", "10.0"]
