"""Plans of ``tcu.matmul`` in files.

Contract: a plan of any formats, order, rounding, accumulator and result comes
back from its file as it was, and what it says of arrays (``predict``,
``tcu replay``, ``tcu audit``) has the bits of ``tcu.matmul``, on every unit.
A file that holds no such plan, or one of another order of additions, is refused
with a typed error that says why; so are arrays that the plan does not take.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bits import codes

import tcu
from tcu.cli import main
from tcu.errors import DataFileError, DtypeError, ParameterError, ShapeError, UnknownNameError
from tcu.formats import get_format
from tcu.plan import MatmulPlan, make_matmul_plan
from tcu.probes import predict

Run = Callable[..., tuple[int, str, str]]

FLOATS = ("binary16", "bfloat16", "binary32", "binary64", "e4m3", "e5m2")
PAIRS = [*((name, name) for name in FLOATS), *itertools.product(("u8", "s8"), repeat=2)]


def options_of(a: str) -> list[dict[str, Any]]:
    """Every order, rounding, accumulator and result that products of a format can have."""
    accumulators = (None, "binary16") if a in ("binary16", "e4m3", "e5m2") else (None,)
    results = (None, "binary16", "bfloat16", "binary32", "binary64")
    orders, roundings = ("chunks", "chain"), ("nearest", "cut")
    return [
        {"order": order, "rounding": rounding, "accumulator": accumulator, "result": result}
        for order, rounding, accumulator, result in itertools.product(
            orders, roundings, accumulators, results
        )
    ]


def operands(a: str, b: str, k: int, m: int = 3, n: int = 5) -> tuple[Any, Any]:
    rng = np.random.default_rng(len(a) * k)

    def numbers(name: str, shape: tuple[int, ...]) -> Any:
        dtype = get_format(name).dtype
        if name in ("u8", "s8"):
            return rng.integers(-100 if name == "s8" else 0, 100, shape).astype(dtype)
        return rng.standard_normal(shape).astype(np.float32).astype(dtype)

    return numbers(a, (m, k)), numbers(b, (k, n))


def stored(plan: MatmulPlan, place: Path) -> MatmulPlan:
    plan.save(place)
    loaded = tcu.load_plan(place)
    assert isinstance(loaded, MatmulPlan)
    return loaded


# Files


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_every_plan_comes_back_as_it_was(a: str, b: str, tmp_path: Path) -> None:
    for options, k in itertools.product(options_of(a), (0, 1, 5000)):
        plan = make_matmul_plan(k, a, b, **options)
        loaded = stored(plan, tmp_path / "plan.json")
        assert loaded == plan
        assert (hash(loaded), str(loaded)) == (hash(plan), str(plan))


def test_chunks_of_any_length_come_back(tmp_path: Path) -> None:
    plan = replace(make_matmul_plan(5000, "binary16", "binary16"), chunk=384)
    assert stored(plan, tmp_path / "plan.json") == plan


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 7}, "its order of additions is of version 7, this tcu's of 1"),
        ({"k": -1}, "k=-1: a sum has a whole number of products"),
        ({"k": True}, "k=True: a sum has"),
        ({"k": 40.0}, "k=40.0: a sum has"),
        ({"k": "40"}, "k='40': a sum has"),
        ({"chunk": 0}, "chunk=0: the numbers of a chain are a multiple of 128"),
        ({"chunk": 100}, "chunk=100: the numbers of a chain"),
        ({"chunk": 256.0}, "chunk=256.0: the numbers of a chain"),
        ({"chunk": None}, "chunk=None: the numbers of a chain"),
        ({"rounding": "up"}, "rounding='up': choose 'nearest' or 'cut'"),
        ({"inputs": ["binary16", "binary99"]}, "unknown format 'binary99'"),
        ({"inputs": ["binary16"]}, "TypeError"),
        ({"inputs": ["float16", "float16"]}, "formats go by the names binary16, binary16, binary32, binary32"),
        ({"accumulator": "s32"}, "accumulator='s32': products of binary16 are added up in binary32"),
        ({"accumulator": 5}, "unknown format 5"),
        ({"result": "tf32"}, "result='tf32': sums in binary32 are rounded to binary16, bfloat16, binary32, binary64"),
        ({"result": None}, "formats go by the names"),
        ({"results": 3}, "TypeError"),
        ({"kind": "MatrixPlan"}, "KeyError: 'MatrixPlan'"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused(change: dict[str, Any], why: str, tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    make_matmul_plan(40, "binary16", "binary16").save(place)
    document = json.loads(place.read_text("utf-8"))
    document["plan"] |= change
    place.write_text(json.dumps(document), "utf-8")
    with pytest.raises(DataFileError, match=r"plan\.json holds no plan") as error:
        tcu.load_plan(place)
    assert why in str(error.value)


@pytest.mark.parametrize(
    "field", ["kind", "k", "inputs", "rounding", "accumulator", "chunk", "result", "version"]
)
def test_a_file_that_lacks_a_field(field: str, tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    make_matmul_plan(40, "binary16", "binary16").save(place)
    document = json.loads(place.read_text("utf-8"))
    del document["plan"][field]
    place.write_text(json.dumps(document), "utf-8")
    with pytest.raises(DataFileError, match="holds no plan"):
        tcu.load_plan(place)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"cannot write .*: choose another place"):
        make_matmul_plan(40, "binary16", "binary16").save(tmp_path / "no" / "plan.json")


# What a plan says of arrays


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_a_plan_predicts_the_bits_of_matmul(a: str, b: str, tmp_path: Path) -> None:
    x, y = operands(a, b, 600)
    for options in options_of(a):
        plan = stored(make_matmul_plan(600, a, b, **options), tmp_path / "plan.json")
        order, rounding, accumulator, result = options.values()
        product = tcu.matmul(
            x, y, plan=order, rounding=rounding, accumulator=accumulator,
            dtype=None if result is None else get_format(result).dtype,
        )  # fmt: skip
        found = predict(plan, x, y)
        assert found.dtype == product.dtype
        assert (codes(found) == codes(product)).all()


@pytest.mark.parametrize("unit", ["V100", "A100", "B200"])
def test_on_the_unit_that_is_named(unit: str) -> None:
    x, y = operands("binary16", "binary16", 600)
    plan = make_matmul_plan(600, "binary16", "binary16")
    product = tcu.matmul(x, y, unit=unit)
    assert (codes(predict(plan, x, y, unit=unit)) == codes(product)).all()
    differs = (codes(predict(plan, x, y)) != codes(product)).any()
    assert differs == (unit != "B200")  # whose products of binary16 are the H100's


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [((4, 3, 20), (4, 20, 5)), ((2, 1, 3, 20), (4, 20, 5)), ((20,), (20, 5)), ((3, 20), (20,)), ((20,), (20,)), ((0, 20), (20, 5))],
)  # fmt: skip
def test_batches_and_vectors(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(np.float16) for shape in (a_shape, b_shape))
    product = np.asarray(tcu.matmul(x, y))
    found = predict(make_matmul_plan(20, "binary16", "binary16"), x, y)
    assert found.shape == product.shape
    assert (codes(found) == codes(product)).all()


def test_arrays_that_the_plan_does_not_take() -> None:
    plan = make_matmul_plan(20, "binary16", "binary16")
    x, y = np.ones((3, 20), np.float16), np.ones((20, 5), np.float16)
    with pytest.raises(ParameterError, match="the plan takes two arrays, not 1"):
        predict(plan, x)
    with pytest.raises(ShapeError, match=r"a \(3, 19\), b \(19, 5\): the plan multiplies \(\.\.\., 20\) by"):
        predict(plan, x[:, 1:], y[1:])
    with pytest.raises(DtypeError, match="b has dtype float32: the plan takes float16"):
        predict(plan, x, y.astype(np.float32))
    with pytest.raises(UnknownNameError, match="unknown unit 'H99'"):
        predict(plan, x, y, unit="H99")
    with pytest.raises(DtypeError, match="result='e4m3': sums in binary32 are rounded to"):
        make_matmul_plan(20, "e4m3", "e4m3", result="e4m3")


# The commands


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run_it(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run_it


def save(name: str, array: Any) -> None:
    """As numpy.save does, which cannot name E5M2 so that numpy.load knows it."""
    np.save(name, array.view("V1") if array.dtype == get_format("e5m2").dtype else array)


@pytest.mark.parametrize(("a", "b"), [*((name, name) for name in FLOATS), ("u8", "s8")])
def test_replay_and_audit(run: Run, a: str, b: str) -> None:
    x, y = operands(a, b, 300, 20, 30)
    make_matmul_plan(300, a, b).save("plan.json")
    product = tcu.matmul(x, y)
    for name, array in (("a.npy", x), ("b.npy", y), ("c.npy", product)):
        save(name, array)
    code, out, err = run(
        "replay", "plan.json", "a.npy", "b.npy", "--against", "c.npy", "-o", "d.npy", "--unit", "H100"
    )
    assert (code, err) == (0, "")
    assert f"plan.json  300 pairs, {product.dtype}" in out
    assert "every bit is that of c.npy" in out
    assert (codes(np.load("d.npy")) == codes(product)).all()
    code, out, err = run("audit", "plan.json", "c.npy", "a.npy", "b.npy", "--sample", "100", "--seed", "1")
    assert (code, err) == (0, "")
    assert out.startswith("✓ c.npy  100 of 600 outputs checked, none wrong")

    product.view(f"u{product.itemsize}")[7, 11] ^= 1
    save("c.npy", product)
    code, out, _ = run("replay", "plan.json", "a.npy", "b.npy", "--against", "c.npy")
    assert (code, "1 of 600 results differ from c.npy" in out) == (1, True)
    code, out, _ = run("audit", "plan.json", "c.npy", "a.npy", "b.npy", "--sample", "600")
    assert (code, "[7, 11]  0x" in out) == (1, True)


def test_another_unit_and_another_order_differ(run: Run) -> None:
    x, y = operands("bfloat16", "bfloat16", 600)
    make_matmul_plan(600, "bfloat16", "bfloat16", order="chain", result="bfloat16").save("plan.json")
    save("a.npy", x)
    save("b.npy", y)
    save("c.npy", tcu.matmul(x, y, plan="chain", dtype=x.dtype, unit="A100"))
    save("wide.npy", tcu.matmul(x, y, plan="chain", unit="A100"))
    make_matmul_plan(600, "bfloat16", "bfloat16", order="chain").save("wide.json")
    make_matmul_plan(600, "bfloat16", "bfloat16").save("chunks.json")
    for plan, c, unit, right in (
        ("plan.json", "c.npy", "A100", True),
        ("wide.json", "wide.npy", "A100", True),
        ("wide.json", "wide.npy", "H100", False),
        ("chunks.json", "wide.npy", "A100", False),
    ):
        assert run("replay", plan, "a.npy", "b.npy", "--against", c, "--unit", unit)[0] == 1 - right
        assert run("audit", plan, c, "a.npy", "b.npy", "--unit", unit)[0] == 1 - right


def test_which_nan_it_is_counts(run: Run) -> None:
    x, y = operands("binary16", "binary16", 40)
    x[1, 2] = np.nan
    product = tcu.matmul(x, y)
    make_matmul_plan(40, "binary16", "binary16").save("plan.json")
    product.view(np.uint32)[1, 3] ^= 1
    for name, array in (("a.npy", x), ("b.npy", y), ("c.npy", product)):
        save(name, array)
    code, out, _ = run("replay", "plan.json", "a.npy", "b.npy", "--against", "c.npy")
    assert (code, "1 of 15 results differ" in out) == (1, True)
    assert run("audit", "plan.json", "c.npy", "a.npy", "b.npy")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("replay", "plan.json", "a.npy"), "the plan takes two arrays, not 1"),
        (("replay", "plan.json", "a.npy", "b.npy", "b.npy"), "3 arrays: give A.npy, and B.npy where"),
        (("replay", "plan.json", "b.npy", "a.npy"), "a (40, 5), b (3, 40): a needs as many columns"),
        (("replay", "plan.json", "a.npy", "records.npy"), "dtype [('a', '<f4')]"),
        (("replay", "plan.json", "a.npy", "wide.npy"), "b has dtype float32: the plan takes float16"),
        (("replay", "plan.json", "a.npy", "b.npy", "--unit", "H99"), "unknown unit 'H99'"),
        (("replay", "plan.json", "a.npy", "b.npy", "--against", "a.npy"), "a.npy holds float16 (3, 40): the plan returns"),
        (("audit", "plan.json", "c.npy", "a.npy"), "the plan is of products: give a and b"),
        (("audit", "plan.json", "c.npy", "a.npy", "wide.npy"), "b has dtype float32: the plan takes float16"),
        (("audit", "plan.json", "c.npy", "a.npy", "b.npy", "--unit", "H99"), "unknown unit 'H99'"),
    ],
)  # fmt: skip
def test_bad_input(run: Run, arguments: tuple[str, ...], words: str) -> None:
    x, y = operands("binary16", "binary16", 40)
    make_matmul_plan(40, "binary16", "binary16").save("plan.json")
    for name, array in (("a.npy", x), ("b.npy", y), ("c.npy", tcu.matmul(x, y)), ("wide.npy", y.astype(np.float32))):  # fmt: skip
        save(name, array)
    np.save("records.npy", np.zeros((40, 5), [("a", "<f4")]))
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in " ".join(err.split())
