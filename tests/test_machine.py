"""Contract: a machine multiplies n × √m by √m × √m, rightly by every executor, and charges n·√m + ℓ.

Integers are exact or refused: nothing above a word's bits goes in or comes
out.  A weak machine takes squares, and its tall products cost as many.  An
executor that only counts charges what the others do.  The model of a unit
gives the unit's bits, which are those of ``tcu.mma`` on rounded operands.
Shapes are those that NumPy's arrays have, for lengths of any size, and a loop
whose turns are counted at once charges what it charges turn by turn.
Every parameter out of range has a typed error that names the next step.
"""

from __future__ import annotations

import contextlib
import itertools
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
from tcu.machine.shapes import broadcast
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
        (lambda: machine(16, math.nan), ParameterError, "latency=nan"),
        (lambda: machine(16, None), ParameterError, "latency=None"),  # type: ignore[arg-type]
        (lambda: machine(16, 10**5000), ParameterError, r"latency=about 10\^5000: .* and at most 10\^60"),
        (lambda: machine(10**5000), ParameterError, r"m=about 10\^5000: .* such as 256, and at most 10\^60"),
        (lambda: machine(-(10**5000)), ParameterError, r"m=about -10\^5000"),
        (lambda: machine(1e300), ParameterError, r"m=1e\+300: .* such as 256"),
        (lambda: machine("16"), ParameterError, "m='16'"),  # type: ignore[arg-type]
        (lambda: machine(word_bits=0), ParameterError, "word_bits=0: give the bits of a word"),
        (lambda: machine(word_bits=1 << 21), ParameterError, "word_bits=2097152: .* and at most 1,048,576"),
        (lambda: machine().shape(-5), ShapeError, r"shape=-5: give lengths, integers of at least 0, such as \(1000, 16\)"),
        (lambda: machine().shape((3, -1)), ShapeError, r"shape=\(3, -1\): give lengths"),
        (lambda: machine().shape(2.5), ShapeError, "shape=2.5: give lengths"),
        (lambda: machine().shape("5"), ShapeError, "shape='5': give lengths"),
        (lambda: machine().shape(True), ShapeError, "shape=True: give lengths"),
        (lambda: machine().shape(None), ShapeError, "shape=None: give lengths"),
        (lambda: machine().shape(-(10**5000)), ShapeError, r"shape=about -10\^5000: give lengths"),
        (lambda: machine().shape((4, 10**61)), ShapeError, r"shape=\(4, about 10\^61\): give lengths of at most 10\^60"),
        (lambda: machine().shape(5, "nonsense"), DtypeError, "dtype='nonsense': give one of NumPy's, such as float64"),
        (lambda: machine().matmul(ShapeArray((4, 4), int), ShapeArray((4, 4), int)), DtypeError, "has no values: give an array, or take executor='count'"),
        (lambda: machine(executor="systolic").matmul(ShapeArray((4, 4)), ShapeArray((4, 4))), DtypeError, "boolean index"),
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
        (lambda: machine().step(-(10**5000)), ParameterError, r"step\(count=about -10\^5000\)"),
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


@pytest.mark.slow(1)
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


@pytest.mark.slow(1)
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
    "broadcast by new axes": lambda x, y: np.broadcast_to(x, (3, 2, 4, 6)),
    "windows of two axes": lambda x, y: np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(1, 2)),
    "split at": lambda x, y: np.split(x, [1, 4], axis=-1)[1],
    "uneven split": lambda x, y: np.array_split(x, 4, axis=2)[0],
    "diagonal": lambda x, y: np.diagonal(x, 1, 1, 2),
    "swap axes": lambda x, y: np.swapaxes(x, 0, -1),
    "swap its axes": lambda x, y: x.swapaxes(1, 2),
    "transpose its axes": lambda x, y: x.transpose(2, 0, 1),
    "reverse": lambda x, y: x.transpose(),
    "squeeze": lambda x, y: np.squeeze(x[:1]),
    "two dimensions": lambda x, y: np.atleast_2d(x[0, 0]),
    "ravel": lambda x, y: np.ravel(x),
    "reshape to one": lambda x, y: np.reshape(x, -1),
    "reshape to many": lambda x, y: x.reshape((2, -1, 3, 1)),
    "zeros like, of a shape": lambda x, y: np.zeros_like(x, int, shape=(5, 2)),
    "integer and index array": lambda x, y: x[:, :, np.array([1, 1, 5])],
    "arange downwards": lambda x, y: np.arange(9, 2, -3, like=x),
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


KEYS = [
    0, -1, slice(None), slice(1, None), slice(None, None, -1), slice(5, 1, -2), slice(-3, 99, 2), slice(4, 2), None, ...,
]  # fmt: skip


def test_every_slice_gives_the_shape_that_numpy_gives() -> None:
    x = np.ones((2, 6, 5))
    for keys in itertools.chain.from_iterable(itertools.product(KEYS, repeat=count) for count in (1, 2, 3)):
        if sum(key is ... for key in keys) <= 1:
            assert ShapeArray.of(x)[keys].shape == x[keys].shape, keys
    for keys in ((6,), (0, 6), (0, 0, -6), (0, 0, 0, 0)):
        for array in (x, ShapeArray.of(x)):
            with pytest.raises(IndexError):
                array[keys]


shapes = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4).map(tuple)


@given(st.lists(shapes, max_size=4))
def test_shapes_broadcast_as_numpy_s_do(given_shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            broadcast(*given_shapes)
    else:
        assert broadcast(*given_shapes) == expected


def test_lengths_beyond_those_of_numpy() -> None:
    x = ShapeArray((1 << 70, 6))
    assert x.reshape(1 << 35, -1, 3).shape == (1 << 35, 1 << 36, 3)
    assert (x[5::2].T + 1).shape == (6, (1 << 69) - 2)
    assert (x[:, :4] @ x.T[:4]).shape == (1 << 70, 1 << 70)
    assert np.moveaxis(x[None], 0, -1).shape == (1 << 70, 6, 1)
    assert np.concatenate([x, x]).size == 12 << 70
    assert x[(1 << 70) - 1].shape == (6,)
    with pytest.raises(ShapeError, match="7083549724304467820544 numbers do not make an array of shape"):
        x.reshape(4, 7)
    with pytest.raises(ShapeError, match="do not broadcast"):
        np.broadcast_to(x, (1 << 69, 6))
    with pytest.raises(ShapeError, match="the second is the target's"):
        np.broadcast_to(x, (6,))
    with pytest.raises(IndexError, match="out of bounds"):
        x[1 << 70]


PROGRAMS = {
    "matmul": lambda m: m.matmul(m.shape((37, 50)), m.shape((50, 21))),
    "matmul of integers": lambda m: m.matmul(m.shape((37, 50), int), m.shape((50, 21), int)),
    "complex matmul": lambda m: m.matmul(m.shape((9, 30), complex), m.shape((30, 21), complex)),
    "strassen in cubes": lambda m: m.strassen(m.shape((9, 70)), m.shape((70, 20))),
    "strassen of two levels": lambda m: m.strassen(m.shape((60, 170)), m.shape((170, 60)), levels=2),
    "laderman of one level": lambda m: m.strassen(m.shape((60, 60)), m.shape((60, 60)), "laderman", levels=1),
    "chained sum": lambda m: m.sum(m.shape(5000), "chained", chain=7),
    "polynomial": lambda m: m.evaluate(m.shape(16 * 64 * 3 + 16 * 5 + 3), m.shape(11)),
    "polynomial of full groups": lambda m: m.evaluate(m.shape(16 * 64 * 2), m.shape(3)),
    "polynomial of one group": lambda m: m.evaluate(m.shape(16 * 64), m.shape(3)),
    "polynomial of less": lambda m: m.evaluate(m.shape(16 * 5), m.shape(3)),
    "residues": lambda m: m.evaluate(m.shape(16 * 64 * 3), m.shape(11), modulus=2**61 - 1),
    "schoolbook": lambda m: m.integer_multiply(m.shape(9000, bool), m.shape(7000, bool), algorithm="schoolbook"),
    "pieces": lambda m: m.integer_multiply(m.shape(9000, bool), m.shape(500, bool), algorithm="karatsuba"),
    "prime in blocks": lambda m: m.dft(m.shape((3, 17))),
    "prime by convolution": lambda m: m.dft(m.shape((3, 1009))),
}  # fmt: skip


class TurnByTurn(tcu.Machine):
    def turns(self, count):
        return iter(range(count))


@pytest.mark.parametrize("weak", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_turns_counted_at_once_charge_what_they_charge_one_by_one(program: str, weak: bool) -> None:
    at_once, one_by_one = (kind(16, 5, executor="count", weak=weak) for kind in (tcu.Machine, TurnByTurn))
    first, second = PROGRAMS[program](at_once), PROGRAMS[program](one_by_one)
    assert at_once.ledger == one_by_one.ledger
    assert [entry.path for entry in at_once.ledger] == [entry.path for entry in one_by_one.ledger]
    assert first.shape == second.shape


def test_turns() -> None:
    counted, computing = machine(executor="count"), machine()
    for m in (counted, computing):
        for _ in m.turns(3):
            for _ in m.turns(5):
                m.step(2, "inner")
                m.record(machine().ledger)
            m.step(1, "outer")
        with contextlib.suppress(RuntimeError):
            for _ in m.turns(4):
                raise RuntimeError
        for i in itertools.chain(m.turns(0), m.turns(1), m.turns(-1)):
            m.step(i + 1, "last")
    assert counted.ledger == computing.ledger
    assert [(e.name, e.count) for e in counted.ledger] == [("inner", 30), ("outer", 3), ("last", 1)]
    again = machine(executor="count")
    for _ in again.turns(1 << 80):
        again.record(counted.ledger)
    assert again.cost == counted.cost << 80


def test_executors_by_name_and_themselves() -> None:
    own = IdealExecutor()
    assert find_executor(own) is own
    assert find_executor("model").name == "model of H100, mma binary16 → binary32"
    assert repr(find_executor("systolic")) == "<executor systolic>"
