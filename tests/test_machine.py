"""Contract: a machine multiplies n × √m by √m × √m, rightly by every executor, and charges n·√m + ℓ.

Integers are exact or refused: nothing above a word's bits goes in or comes
out.  A weak machine takes squares, and its tall products cost as many.  An
executor that only counts charges what the others do.  The model of a unit
gives the unit's bits, which are those of ``tcu.mma`` on rounded operands.
Every parameter out of range has a typed error that names the next step.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError, UnknownNameError
from tcu.formats import get_format
from tcu.formats.array import round_array
from tcu.machine import ExternalMemoryExecutor, ModelExecutor, ShapeArray
from tcu.machine.executors import IdealExecutor, find_executor
from tcu.machine.executors.unit import dtypes_of, narrowed
from tcu.units import CATALOGUE, find_instruction

RNG = np.random.default_rng(20)


def machine(m: int = 16, latency: float = 5, **options: object) -> tcu.Machine:
    return tcu.Machine(m, latency, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("executor", ["ideal", "systolic", ExternalMemoryExecutor()])
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 19])
def test_products_and_their_cost(executor: object, rows: int) -> None:
    m = machine(executor=executor)
    a, b = RNG.standard_normal((rows, 4)), RNG.standard_normal((4, 4))
    product = m.multiply(a, b)
    np.testing.assert_allclose(product, a @ b, rtol=0, atol=8 * 2.0**-53 * float((abs(a) @ abs(b)).max()))
    assert m.cost == max(rows, 4) * 4 + 5
    (entry,) = m.ledger
    assert (entry.kind, entry.rows, entry.count, entry.path) == ("tensor", rows, 1, ())


def test_a_batch_is_one_call_for_every_pair() -> None:
    m = machine()
    a, b = RNG.standard_normal((3, 2, 7, 4)), RNG.standard_normal((2, 4, 4))
    np.testing.assert_allclose(m.multiply(a, b), a @ b)
    assert m.ledger.tensor_calls == 6
    assert m.cost == 6 * (7 * 4 + 5)


def test_narrow_operands_cost_as_much_as_padded_ones() -> None:
    m = machine()
    a, b = RNG.standard_normal((7, 2)), RNG.standard_normal((2, 3))
    np.testing.assert_allclose(m.multiply(a, b), a @ b)
    assert m.cost == 7 * 4 + 5


def test_weak_machines_take_squares() -> None:
    m = machine(weak=True)
    a, b = RNG.standard_normal((9, 4)), RNG.standard_normal((4, 4))
    with pytest.raises(
        ShapeError, match="a has 9 rows: the unit of a weak machine takes 4; tall_multiply cuts"
    ):
        m.multiply(a, b)
    np.testing.assert_allclose(m.tall_multiply(a, b), a @ b)
    assert m.ledger.tensor_calls == 3
    assert m.cost == 3 * (16 + 5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_integers_of_any_size_are_exact(data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from([1, 7, 20, 26, 31, 40, 62, 64, 90, 200]))
    limit = (1 << bits) - 1
    numbers = st.integers(-limit, limit)
    a, b = (
        np.array(data.draw(st.lists(numbers, min_size=16, max_size=16)), object).reshape(4, 4)
        for _ in range(2)
    )
    if bits <= 62:
        a = a.astype(np.int64)
    product = machine(word_bits=1024).multiply(a, b)
    expected = np.array(
        [[sum(int(a[i, k]) * int(b[k, j]) for k in range(4)) for j in range(4)] for i in range(4)], object
    )
    assert (product.astype(object) == expected).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64, np.int64, bool])
def test_every_integer_dtype_at_its_ends(dtype: type) -> None:
    ends = [0, 1] if dtype is bool else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    a = np.array(ends * 8, dtype).reshape(4, 4)
    expected = a.astype(object) @ a.astype(object)
    if dtype is bool:
        expected = a.astype(int) @ a.astype(int)
    assert (machine(word_bits=140).multiply(a, a).astype(object) == expected).all()


def test_words_are_never_exceeded_in_silence() -> None:
    big = np.full((4, 4), 1 << 20)
    with pytest.raises(
        ParameterError, match=r"a needs 21 bits: words have 16; take word_bits=21 or shorter digits"
    ):
        machine(word_bits=16).multiply(big, big)
    with pytest.raises(ParameterError, match="the product needs 43 bits: words have 32"):
        machine(word_bits=32).multiply(big, big)
    assert (machine(word_bits=43).multiply(big, big) == 1 << 42).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: machine(15), ParameterError, r"m=15: m is the number of entries of a square matrix √m × √m, such as 16"),
        (lambda: machine(0), ParameterError, "m=0"),
        (lambda: machine(4.0), ParameterError, "m=4.0"),
        (lambda: machine(True), ParameterError, "m=True"),
        (lambda: machine(16, -1), ParameterError, "latency=-1: give a finite number of at least 0"),
        (lambda: machine(16, math.inf), ParameterError, "latency=inf"),
        (lambda: machine(word_bits=0), ParameterError, "word_bits=0: give the bits of a word"),
        (lambda: machine(executor="idle"), UnknownNameError, "unknown executor 'idle': did you mean ideal"),
        (lambda: machine().multiply(np.ones((3, 5)), np.ones((5, 4))), ShapeError, r"one call takes n × 4 by 4 × 4"),
        (lambda: machine().multiply(np.ones((3, 4)), np.ones((3, 4))), ShapeError, "a needs as many columns"),
        (lambda: machine().multiply(np.ones((0, 4)), np.ones((4, 4))), ShapeError, "n at least 1"),
        (lambda: machine().multiply(np.ones(4), np.ones((4, 4))), ShapeError, "two dimensions or more"),
        (lambda: machine().multiply([[1]], np.ones((1, 1))), ShapeError, "a is list"),
        (lambda: machine().multiply(np.ones((2, 3, 4)), np.ones((3, 4, 4))), ShapeError, "do not broadcast"),
        (lambda: machine().multiply(np.ones((4, 4), complex), np.ones((4, 4))), DtypeError, "four or three real"),
        (lambda: machine().multiply(np.array([["x"]]), np.ones((1, 1))), DtypeError, "real numbers and integers"),
        (lambda: machine().step(-1), ParameterError, r"step\(count=-1\)"),
        (lambda: machine().step(1.5), ParameterError, r"step\(count=1.5\)"),
    ],
)  # fmt: skip
def test_every_error_says_what_was_given(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]


def test_sections_and_reset() -> None:
    m = machine()
    with m.section("outer"), m.section("inner"):
        m.step(3, "add")
    m.step(0, "nothing")
    with pytest.raises(RuntimeError), m.section("broken"):
        raise RuntimeError
    m.step(1, "last")
    assert [(e.path, e.name, e.count) for e in m.ledger] == [(("outer", "inner"), "add", 3), ((), "last", 1)]
    before = m.ledger
    m.reset()
    assert m.cost == 0
    assert before.cost == 4
    assert repr(m) == "Machine(m=16, latency=5, word_bits=64, executor='ideal')"


# ---- the model of a unit ----


@pytest.mark.parametrize(
    ("unit", "fmt"),
    [("V100", "binary16"), ("A100", "bfloat16"), ("H100", "tf32"), ("A100", "binary64"), ("Ada", "e4m3"), ("H100", "binary16")],
)  # fmt: skip
def test_the_model_gives_the_bits_of_mma(unit: str, fmt: str) -> None:
    m = machine(256, executor=ModelExecutor(unit, fmt))
    a, b = RNG.standard_normal((33, 16)), RNG.standard_normal((16, 16))
    x, y = (narrowed(value, get_format(fmt)) for value in (a, b))
    assert m.multiply(a, b).tobytes() == tcu.mma(x, y, unit=unit).tobytes()
    wrong = x.copy()
    wrong[-1, -1] = wrong[-1, -1] * np.asarray(2).astype(wrong.dtype)
    assert m.multiply(a, b).tobytes() != tcu.mma(wrong, y, unit=unit).tobytes()


@pytest.mark.parametrize("fmt", ["binary16", "bfloat16", "tf32", "e5m2"])
def test_operands_are_rounded_to_nearest(fmt: str) -> None:
    exponents = RNG.integers(-40, 38, 4000).astype(float)
    x = RNG.standard_normal(4000) * 10.0**exponents
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    x[:3], single[:3] = (np.inf, -0.0, 0.0), (np.inf, -0.0, 0.0)
    ties = 1 + np.arange(1, 9) * get_format(fmt).unit_roundoff
    x[3:11] = single[3:11] = ties
    got = narrowed(x, get_format(fmt)).astype(np.float64)
    expected = round_array(single, fmt)
    assert got.tobytes() == expected.tobytes()
    assert np.isnan(narrowed(np.array([np.nan]), get_format(fmt)).astype(float)).all()


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_integers_are_exact_on_every_instruction_up_to_its_stated_bits(name: str) -> None:
    """The largest digits that the executor admits, on every row of the catalogue with one input format."""
    for row in CATALOGUE[name].instructions:
        if row.a != row.b or row.output == "binary16" or row.name != "mma":
            continue
        dtypes = dtypes_of(row)
        side = 16
        bits = min(dtypes.integer_bits, (dtypes.sum_bits - 4) // 2)
        top = (1 << bits) - 1
        a = RNG.choice([0, 1, top], (40, side)).astype(np.int64)
        b = RNG.choice([0, 1, top], (side, side)).astype(np.int64)
        a[0], b[:, 0] = top, top
        m = machine(side * side, executor=ModelExecutor(name, row.a, row.output), word_bits=64)
        assert (m.multiply(a, b) == a @ b).all(), row.signature


def test_integers_that_a_unit_would_round_are_refused() -> None:
    half, byte = (machine(256, executor=ModelExecutor("H100", fmt)) for fmt in ("binary16", "u8"))
    ones = np.ones((16, 16), np.int64)
    with pytest.raises(
        ParameterError, match=r"a holds 2049: mma binary16 → binary32 takes integers up to 2\^11"
    ):
        half.multiply(2049 * ones, ones)
    with pytest.raises(
        ParameterError, match=r"sums of up to 67108864: .* exact up to 2\^24; take shorter digits"
    ):
        half.multiply(2048 * ones, 2048 * ones)
    with pytest.raises(ParameterError, match=r"a holds 256 to 256: mma u8 → s32 takes 0 to 255; cut them"):
        byte.multiply(256 * ones, ones)
    with pytest.raises(ParameterError, match="b holds -1 to -1"):
        byte.multiply(ones, -ones)
    with pytest.raises(DtypeError, match="mma u8 → s32 multiplies integers"):
        byte.multiply(ones / 2, ones)
    assert (byte.multiply(255 * ones, 255 * ones) == 255 * 255 * 16).all()
    signed = machine(256, executor=ModelExecutor("H100", "s8"))
    assert (signed.multiply(-128 * ones, 127 * ones) == -128 * 127 * 16).all()


def test_instructions_of_two_formats_are_refused() -> None:
    from tcu.machine.executors.model import InstructionExecutor

    class Executor(InstructionExecutor):
        def _product(self, a: object, b: object) -> object:
            return a

    with pytest.raises(
        ParameterError, match="mixes formats: a machine takes an instruction with one input format"
    ):
        Executor(find_instruction("H100", "mma", "u8", "s8"))


# ---- nobody computes ----


def test_counting_charges_what_computing_charges() -> None:
    a, b = RNG.standard_normal((3, 9, 4)), RNG.standard_normal((4, 2))
    real, counted = machine(), machine(executor="count")
    real.multiply(a, b)
    result = counted.multiply(counted.shape((3, 9, 4)), counted.array(b))
    assert (result.shape, result.dtype) == ((3, 9, 2), np.float64)
    assert counted.ledger == real.ledger


SHAPE_CASES = {
    "sum": lambda x, y: x + y,
    "product with a number": lambda x, y: 2 * x,
    "complex": lambda x, y: x * 1j,
    "compare": lambda x, y: x < y,
    "divide integers": lambda x, y: x.astype(int) / y.astype(int),
    "divmod": lambda x, y: np.divmod(x, y)[1],
    "matmul": lambda x, y: x @ y.swapaxes(-1, -2),
    "matmul by a vector": lambda x, y: x @ np.ones(6),
    "slice": lambda x, y: x[..., 1:4:2, ::-1],
    "new axis": lambda x, y: x[:, None, 0],
    "reshape": lambda x, y: x.reshape(-1, 4),
    "transpose": lambda x, y: np.transpose(x, (2, 0, 1)),
    "move axis": lambda x, y: np.moveaxis(x, 0, -1),
    "index array": lambda x, y: x[:, np.array([[0, 1], [2, 3]])],
    "two index arrays": lambda x, y: x[np.array([0, 1]), np.array([1, 2])],
    "concatenate": lambda x, y: np.concatenate([x, y, x], axis=1),
    "stack": lambda x, y: np.stack([x, y], axis=-1),
    "pad": lambda x, y: np.pad(x, ((0, 1), (2, 0), (0, 0))),
    "reduce": lambda x, y: x.sum(axis=(0, -1), keepdims=True),
    "reduce by a function": lambda x, y: np.max(x, axis=1),
    "any": lambda x, y: np.any(x, axis=0),
    "where": lambda x, y: np.where(x > 0, x, y[:1]),
    "einsum": lambda x, y: np.einsum("...ab,cb->c...a", x, np.ones((2, 6))),
    "take": lambda x, y: np.take(x, [0, 0, 1], axis=2),
    "tile": lambda x, y: np.tile(x, (2, 1)),
    "repeat": lambda x, y: np.repeat(x, 3, axis=0),
    "zeros like": lambda x, y: np.zeros((3, 3), int, like=x),
    "full like": lambda x, y: np.full_like(x, 3),
    "arange": lambda x, y: np.arange(3, 9, 2, like=x),
    "windows": lambda x, y: np.lib.stride_tricks.sliding_window_view(x, 3, axis=-1),
    "split": lambda x, y: np.split(x, 2, axis=1)[1],
    "accumulate": lambda x, y: np.add.accumulate(x, axis=1),
    "real part": lambda x, y: (x * 1j).real,
    "broadcast": lambda x, y: np.broadcast_to(x[:1], (5, 4, 6)),
    "rest": lambda x, y: np.real(np.flip(np.roll(np.expand_dims(np.clip(x, 0, 1), 0), 1))),
}  # fmt: skip


@pytest.mark.parametrize("case", SHAPE_CASES)
def test_shapes_go_through_functions_as_arrays_do(case: str) -> None:
    x, y = np.ones((2, 4, 6)), np.full((2, 4, 6), 2.0)
    expected = SHAPE_CASES[case](x, y)
    got = SHAPE_CASES[case](ShapeArray.of(x), ShapeArray.of(y))
    assert isinstance(got, ShapeArray)
    assert (got.shape, got.dtype) == (np.shape(expected), expected.dtype)
    assert (got.ndim, got.size) == (expected.ndim, expected.size)


def test_a_shape_has_no_values() -> None:
    x = ShapeArray((3, 4))
    for look in (bool, float, int, np.asarray, lambda x: np.sort(x)[0] if x else 0):
        with pytest.raises(TypeError, match=r"has no values|no implementation"):
            look(x)
    with pytest.raises(TypeError, match="no implementation found"):
        np.linalg.inv(x)
    with pytest.raises(TypeError, match="boolean index"):
        x[np.ones((3, 4), bool)]
    x[1:, 2] = 0
    with pytest.raises(ValueError, match="broadcast"):
        x[0] = np.ones(5)
    assert ShapeArray((2**40, 4))[5:].size == 4 * (2**40 - 5)
    assert [row.shape for row in x] == [(4,)] * 3


def test_executors_by_name_and_themselves() -> None:
    own = IdealExecutor()
    assert find_executor(own) is own
    assert find_executor("model").name == "model of H100, mma binary16 → binary32"
    assert repr(find_executor("systolic")) == "<executor systolic>"
