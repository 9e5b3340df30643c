"""The commands ``tcu sum``, ``compare`` and ``units``, as a user meets them.

Contract: a file gives the same numbers however it is stored (.npy, also
memory-mapped; .npz; .csv; .txt; a pipe); the printed sum is the library's, the
exact sum is math.fsum's, and |result - exact| is within the bound.  ``--json``
prints one document and nothing else.  Bad input gives one line on stderr that
begins with "error: " and names what was given, exit code 2, and never a
traceback; 130 when interrupted.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from patience import HANGS
from rich.console import Console

import tcu
from tcu.cli import main, progress
from tcu.cli.app import COMMANDS
from tcu.cli.data import DataElements
from tcu.cli.integers import add_up
from tcu.cli.options import Schedule
from tcu.cli.outcome import Method
from tcu.cli.textfile import parse_numbers
from tcu.errors import DataFileError, ParameterError
from tcu.formats import decode, encode, get_format
from tcu.formats.scalar import Number
from tcu.ops import SUM
from tcu.streams import ArraySource
from tcu.units import CATALOGUE

KEYS = [
    "n", "dtype", "unit", "variant", "chain", "block", "result", "exact", "relative_error", "error_bound",
    "mmas", "bits", "rounded_from", "modelled_time", "levels",
]  # fmt: skip


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the program in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments, stdin=None):
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def answer(run):
    """The document of a run with --json that must succeed in silence."""

    def call(*arguments, stdin=None):
        code, out, err = run(*arguments, "--json", stdin=stdin)
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    return call


@pytest.fixture
def refusal(run):
    """The message of a run that must fail with exit code 2 and one line."""

    def call(*arguments, stdin=None):
        code, out, err = run(*arguments, stdin=stdin)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    return call


def save(name, array):
    np.save(name, array)
    return name


def write(name, text):
    Path(name).write_text(text, encoding="utf-8")
    return name


NUMBERS = np.random.default_rng(3).standard_normal(1000)


# One answer, however the numbers are stored


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sum_agrees_with_independent_sums(answer, dtype):
    x = NUMBERS.astype(dtype)
    document = answer("sum", save("x.npy", x))
    assert list(document) == KEYS
    assert document["n"] == 1000
    assert document["dtype"] == dtype
    assert document["exact"] == math.fsum(x.astype(float))
    result = tcu.sum(x)
    assert document["result"] == float(result)
    error = abs(Fraction(document["result"]) - sum(map(Fraction, x.astype(float).tolist())))
    assert error <= Fraction(document["error_bound"])
    width = result.dtype.itemsize
    assert document["bits"] == f"0x{int(result.view(f'u{width}')):0{2 * width}x}"
    expected = abs(document["result"] - document["exact"]) / abs(document["exact"])
    assert document["relative_error"] == pytest.approx(expected, rel=1e-6, abs=0)
    assert set(document["modelled_time"]) == {
        "two_mma", "chained", "classic", "speedup_two_mma", "speedup_chained",
    }  # fmt: skip


def test_parameters_reach_the_library(answer):
    x = np.abs(NUMBERS).astype("float16")
    document = answer("sum", save("x.npy", x), "--unit", "v100", "--variant", "single-pass", "-R", "5", "-B", "64",
                      "--accumulator", "f16", "--dtype", "float64")  # fmt: skip
    result, info = tcu.sum(x, unit="V100", variant="single-pass", chain=5, block=64, accumulator="float16",
                           dtype="float64", return_info=True)  # fmt: skip
    assert [document[key] for key in KEYS[2:6]] == ["V100", "single-pass", 5, 64]
    assert (document["result"], document["mmas"], document["levels"]) == (
        float(result),
        info.mmas,
        info.levels,
    )
    split = answer("sum", "x.npy", "--variant", "split", "--fraction", "0.25")
    assert split["mmas"] == tcu.sum(x, variant="split", fraction=0.25, return_info=True)[1].mmas


def test_a_variant_without_chain_has_null(answer):
    assert answer("sum", save("x.npy", NUMBERS), "--variant", "warp-shuffle")["chain"] is None


def test_every_way_to_store_gives_the_same(answer):
    x = NUMBERS[:60]
    expected = answer("sum", save("x.npy", x))
    np.savez("one.npz", numbers=x)
    np.savez("two.npz", numbers=x, others=x + 1)
    save("swapped.npy", x.astype(">f8").reshape(3, 20))
    save("fortran.npy", np.asfortranarray(x.reshape(6, 10)))
    texts = {
        "x.csv": "value\n" + "\n".join(map(repr, x.tolist())),
        "table.csv": "a, b, c\n" + "\n".join(", ".join(map(repr, row)) for row in x.reshape(20, 3).tolist()),
        "semicolon.csv": "\n".join(";".join(map(repr, row)) for row in x.reshape(20, 3).tolist()) + "\n",
        "x.txt": "# a comment\n\n" + " ".join(map(repr, x[:7].tolist())) + "  # and one more\n"
        + "\t".join(map(repr, x[7:].tolist())),
        "bom.csv": "\ufeff" + "\n".join(map(repr, x.tolist())),
    }  # fmt: skip
    for name, text in texts.items():
        write(name, text)

    def told(name):
        return {"rounded_from": "text" if name in texts else None}

    for name in ("one.npz", "swapped.npy", "fortran.npy", *texts):
        assert answer("sum", name) == expected | told(name), name
    assert answer("sum", "two.npz", "--key", "numbers") == expected
    for name in ("x.npy", "one.npz", "x.csv"):
        assert answer("sum", "-", stdin=Path(name).read_bytes()) == expected | told(name), name


def test_a_npy_file_is_never_loaded_whole(run, monkeypatch):
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("loaded whole"))
    assert run("sum", save("x.npy", NUMBERS))[0] == 0


@pytest.mark.parametrize("array", [np.zeros(0), np.float32(3), np.zeros((0, 5), np.float16)])
def test_empty_and_single(answer, array):
    document = answer("sum", save("x.npy", array))
    assert (document["n"], document["result"]) == (array.size, float(array.sum()))


# What JSON has no numbers for


@pytest.mark.parametrize(
    ("numbers", "result", "exact"),
    [([1, math.inf], "inf", "inf"), ([1, -math.inf], "-inf", "-inf"), ([1, math.nan], "nan", "nan"),
     ([math.inf, -math.inf], "nan", "nan")],
)  # fmt: skip
def test_inf_and_nan(answer, run, numbers, result, exact):
    document = answer("sum", save("x.npy", np.array(numbers, float)))
    assert (document["result"], document["exact"], document["error_bound"]) == (result, exact, "nan")
    assert document["relative_error"] == (0 if result != "nan" else "nan")
    code, out, _ = run("sum", "x.npy")
    assert code == 0
    assert exact in out


def test_overflow_of_the_result_has_no_finite_bound(answer):
    document = answer("sum", write("x.txt", "1e5 1e5"), "--dtype", "float16")
    assert (document["result"], document["relative_error"], document["error_bound"]) == ("inf", "inf", "inf")


def test_an_exact_sum_of_zero(answer):
    document = answer("sum", write("x.txt", "1 -1"))
    assert (document["exact"], document["relative_error"]) == (0, 0)


# Conversion


def test_bfloat16_as_numpy_stores_it(answer, refusal):
    x = NUMBERS.astype(ml_dtypes.bfloat16)
    save("x.npy", x)
    assert np.load("x.npy").dtype == np.dtype("V2")
    document = answer("sum", "x.npy", "--input-dtype", "bfloat16")
    assert (document["dtype"], document["result"]) == ("bfloat16", float(tcu.sum(x)))
    assert answer("sum", save("bits.npy", x.view("u2")), "--input-dtype", "bf16") == document
    assert answer("sum", save("swapped.npy", x.view("u2").astype(">u2")), "--input-dtype", "bf16") == document
    assert "--input-dtype bfloat16" in refusal("sum", "x.npy")


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("source", ["float32", "float64", "longdouble", "int32", "int64", "uint64", "uint8"])
def test_conversion_rounds_once_to_nearest(source, target):
    rng = np.random.default_rng(5)
    fmt = get_format(target)
    if source.startswith("float"):
        x = rng.standard_normal(300).astype(source)
        # Just above the middle between two numbers of the format: rounding twice gets them wrong.
        tie = 1 + fmt.unit_roundoff
        x = np.concatenate([x, np.array([tie, -tie, np.nextafter(tie, 2), 0.0, -0.0]).astype(source)])
    elif source == "longdouble":
        tie = np.longdouble(1 + fmt.unit_roundoff) * np.array([1, -1, 2.0**-1070], np.longdouble)
        x = np.concatenate(
            [rng.standard_normal(300), *(tie * (1 + k * np.longdouble(2) ** -61) for k in (-1, 0, 1))]
        )
    else:
        top = int(np.iinfo(source).max)
        ties = [(2**at + 2 ** max(at - fmt.precision, 0)) + k for at in range(60) for k in (-1, 0, 1)]
        given = [*rng.integers(0, top, 300, source).tolist(), *ties, top]
        x = np.array(
            [each * sign for each in given for sign in (1, -1)[: 1 + (source[0] == "i")] if each <= top],
            source,
        )
    elements = DataElements(x, fmt)
    read = elements.read(0, x.size)
    assert read.dtype == fmt.dtype
    for given, code in zip(x, read.view(fmt.code_dtype).tolist(), strict=True):
        over, under = given.as_integer_ratio() if x.dtype.kind == "f" else (int(given), 1)
        exact = Number("finite", bool(np.signbit(given)), abs(over), 1 - under.bit_length())
        assert code == encode(exact, fmt), (given, decode(code, fmt))


def test_overflow_in_the_conversion_is_reported(run):
    code, out, err = run("sum", write("x.csv", "1e5\n1\n"), "--input-dtype", "float16", "--json")
    assert (code, json.loads(out)["result"]) == (0, "inf")
    assert err.startswith("warning: numbers beyond 65504, the largest of binary16")
    assert err.count("\n") == 1
    assert run("sum", write("y.csv", "inf\n1\n"), "--input-dtype", "float16", "--json")[2] == ""


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", ">i8", "uint64", "bool"])
def test_integers_are_added_up_exactly(answer, run, dtype):
    """As integers, where binary64 would round; their means are rounded once."""
    given = np.dtype(dtype)
    limits = np.iinfo(given if given.kind in "iu" else "uint8")
    low, high = (int(limit) // (400 if given.itemsize == 8 else 1) for limit in (limits.min, limits.max))
    x = (
        np.random.default_rng(1)
        .integers(low, high, 370, given.newbyteorder("=") if given.kind in "iu" else "i8")
        .astype(given)
    )
    save("x.npy", x)
    total = sum(x.tolist())
    for command in ("sum", "fsum"):
        found = answer(command, "x.npy")
        wide = "uint64" if x.dtype.kind == "u" else "int64"
        assert (found["result"], found["result_dtype"], found["n"]) == (total, wide, 370)
        assert int(found["bits"], 16) == total % 2**64
    for command in ("mean", "fmean"):
        assert answer(command, "x.npy")["result"] == float(Fraction(total, x.size))
    assert answer("sum", "x.npy", "--exact", "--dtype", "float32")["result"] == float(np.float32(total))
    assert str(total) in run("sum", "x.npy")[1]


def test_integers_are_added_up_on_the_cpu(answer, refusal):
    save("x.npy", np.arange(10) + 2**60)
    assert "int64" in refusal("sum", "x.npy")
    save("y.npy", np.arange(10) + 2**58)
    assert answer("sum", "y.npy", "--checkpoint", "state.json")["result"] == 10 * 2**58 + 45
    with pytest.raises(
        ParameterError, match="--gpu: integers of files are added up on the CPU: leave it out"
    ):
        add_up(
            SUM,
            ArraySource(np.arange(3)),
            Method("H100", "chained", Schedule()),
            memory=1 << 20,
            checkpoint=lambda _: None,
            gpu=0,
        )


def test_other_results_of_integers_need_a_format(answer, refusal):
    save("x.npy", np.arange(10))
    message = refusal("var", "x.npy")
    assert "x.npy: x has dtype int64" in message
    assert "--input-dtype float64, which holds whole numbers up to 2^53" in message
    assert answer("sum", "x.npy", "--input-dtype", "float32")["result"] == 45


# Text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "x.csv, line 3: 1 field ('3') where line 1 has 2"),
        ("1\n2,3\n", "x.csv, line 2: 2 fields ('2,3') where line 1 has 1"),
        ("x\n1\n\n# note\nfoo\n", "x.csv, line 5: 'foo' is not a number"),
        ("1,2,x\n", "x.csv, line 1: 'x' is not a number"),
        ("1,,2\n", "x.csv, line 1: an empty field"),
        ("1\n2_000\n", "x.csv, line 2: '2_000' is not a number"),
        ("1,5;2,5\n", "x.csv, line 1: both , and ; in '1,5;2,5'"),
        ("1\n" + "x" * 90, "x.csv, line 2: '" + "x" * 37 + "...' is not a number"),
        ("", "x.csv holds no numbers"),
        ("# nothing\nheader\n", "x.csv holds no numbers"),
        ("1\n2\n\0", "x.csv is neither .npy, .npz nor UTF-8 text"),
    ],
)
def test_text_that_is_refused(refusal, text, message):
    assert message in refusal("sum", write("x.csv", text))


TABLE = """# a comment
date,"CO2, ppm",note
2001-12-22,371.0,"a, b"

2001-12-29,371.5,
"""


@pytest.mark.parametrize("column", ["CO2, ppm", "2"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_one_column_of_a_table(answer, run, column, separator):
    write("x.csv", TABLE.replace(",", separator) if separator == ";" else TABLE)
    column = column.replace(",", separator)
    document = answer("sum", "x.csv", "--column", column)
    assert (document["n"], document["result"]) == (2, 742.5)
    assert f"x.csv, column {column}" in run("sum", "x.csv", "--column", column)[1]
    assert answer("compare", "x.csv", "--column", column, "--unit", "H100")["exact"] == 742.5
    assert answer("sum", "-", "--column", column, stdin=Path("x.csv").read_bytes()) == document


def test_a_column_of_numbers_without_names(answer):
    write("x.txt", "1 2 3\n4 5\n6 7 8 9\n")
    assert answer("sum", "x.txt")["result"] == 45
    assert answer("sum", "x.txt", "--column", "1")["result"] == 11
    assert answer("sum", "x.txt", "--column", "2")["result"] == 14
    write("x.csv", "name,2020,2021\na,1,2\n")
    assert answer("sum", "x.csv", "--column", "2021")["result"] == 2


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a,b\n1,2\n", "c", "unknown column of x.csv 'c': available: a, b"),
        ("price,size\n1,2\n", "prize", "did you mean price"),
        ("a,b\n1,2\n", "3", "--column 3: x.csv, line 1 has 2 fields: choose 1 to 2"),
        ("a,b\n1,2\n", "0", "--column 0: x.csv, line 1 has 2 fields"),
        ("1,2\n3,4\n", "a", "--column a: x.csv, line 1 names no columns: choose a number from 1 to 2"),
        ("a,b,a\n1,2,3\n", "a", "--column a: x.csv has several of this name: choose one by number, 1 and 3"),
        ("a,b\nx,2\n", "a", "x.csv, line 2: 'x' is not a number"),
        ("a,b\n1,2\n,2\n", "1", "x.csv, line 3: an empty field"),
        ("a,b\n1,2\n3\n", "a", "x.csv, line 3: 1 field ('3') where line 1 has 2"),
        ("1 2\n3\n", "2", "x.csv, line 2: 1 field ('3'), so no column 2: fill the gap"),
        ("a,b\n", "a", "x.csv holds no numbers"),
    ],
)  # fmt: skip
def test_columns_that_are_refused(refusal, text, column, message):
    assert message in refusal("sum", write("x.csv", text), "--column", column)


def test_columns_belong_to_text(refusal):
    assert "x.npy is a NumPy file" in refusal("sum", save("x.npy", NUMBERS), "--column", "1")
    np.savez("x.npz", a=NUMBERS)
    assert "x.npz is a NumPy file" in refusal("sum", "x.npz", "--column", "a")


def test_a_field_beyond_what_csv_takes_is_no_traceback(refusal):
    assert "x.csv, line 1: field larger than" in refusal("sum", write("x.csv", f'"{"1" * 200_000}",2\n'))


def test_text_in_another_encoding(refusal):
    Path("x.csv").write_bytes("1,5\n".encode("utf-16"))
    assert "UTF-8 text" in refusal("sum", "x.csv")


def test_parse_numbers_keeps_order_and_rounds_decimals_correctly():
    lines = ["k v", "0.1 1e-400", "", '"7"' if False else "7", "-inf nan"]
    numbers, _ = parse_numbers(lines, "lines")
    assert numbers[:4].tolist() == [0.1, 0.0, 7.0, -math.inf]
    assert math.isnan(numbers[4])
    assert parse_numbers(['"1","2"', "3,4"], "quoted")[0].tolist() == [1, 2, 3, 4]
    with pytest.raises(DataFileError, match="line 1"):
        parse_numbers(["1 x"], "lines")


# Files that cannot be read


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (lambda: "none.npy", [], "cannot read none.npy: No such file or directory"),
        (lambda: ".", [], "cannot read .: Is a directory: name a file in it"),
        (lambda: save("o.npy", np.array([1, None], object)), [], "o.npy holds Python objects"),
        (lambda: save("s.npy", np.array(["1"])), [], "s.npy: x is text: load the file that it names"),
        (lambda: save("s.npy", np.array(["1"])), ["--input-dtype", "f4"], "unknown format 'f4'"),
        (lambda: save("s.npy", np.array(["1"])), ["--input-dtype", "f32"], "cannot be rounded to binary32"),
        (lambda: save("c.npy", np.ones(2, complex)), [], "c.npy: x has dtype complex128, and only real numbers"),
        (lambda: save("x.npy", np.ones(2)), ["--key", "a"], "--key a: x.npy is one array"),
        (lambda: save("x.npy", np.ones(2)), ["--input-dtype", "e4m3"], "--input-dtype e4m3: sums take"),
        (lambda: save("x.npy", np.ones(2)), ["--dtype", "tf32"], "--dtype tf32: sums take"),
        (lambda: save("x.npy", np.ones(2)), ["--unit", "H1000"], "did you mean"),
        (lambda: save("x.npy", np.ones(2)), ["--variant", "tree"], "unknown variant 'tree'"),
        (lambda: save("x.npy", np.ones(2)), ["--accumulator", "f17"], "unknown format 'f17'"),
        (lambda: save("x.npy", np.ones(2)), ["-B", "33"], "block (B) = 33"),
        (lambda: save("x.npy", np.ones(2)), ["-R", "0"], "chain (R) = 0"),
        (lambda: save("x.npy", np.ones(2)), ["--fraction", "0.5"], "only the variant split"),
        (lambda: save("x.npy", np.ones(2)), ["--unit", "V100", "--variant", "two-mma"], "V100 has no MMA"),
        (lambda: save("x.npy", np.ones(2)), ["-R", "x"], "see tcu sum --help"),
        (lambda: save("x.npy", np.ones(2)), ["--untt", "V100"], "--untt"),
        (lambda: write("x.npy", "1 2 3"), [], "x.npy does not begin as a NumPy file does"),
    ],
)  # fmt: skip
def test_bad_input(refusal, make, arguments, message):
    assert message in refusal("sum", make(), *arguments)


@pytest.mark.parametrize("keep", [0, 3, 20, 300])
def test_a_truncated_npy_file(refusal, keep):
    save("x.npy", NUMBERS)
    Path("cut.npy").write_bytes(Path("x.npy").read_bytes()[:keep])
    assert "cut.npy" in refusal("sum", "cut.npy")
    assert "standard input" in refusal("sum", "-", stdin=Path("x.npy").read_bytes()[:300])


def test_archives_that_are_refused(refusal):
    np.savez("m.npz", first=NUMBERS, second=NUMBERS)
    assert "m.npz holds 2 arrays: choose one with --key: first, second" in refusal("sum", "m.npz")
    assert "m.npz has no array 'third': it holds first, second" in refusal("sum", "m.npz", "--key", "third")
    np.savez("none.npz")
    assert "none.npz" in refusal("sum", "none.npz")
    whole = Path("m.npz").read_bytes()
    Path("cut.npz").write_bytes(whole[:300])
    assert "cut.npz is damaged" in refusal("sum", "cut.npz")
    Path("bad.npz").write_bytes(whole[:400] + bytes(8) + whole[408:])
    assert "bad.npz is damaged" in refusal("sum", "bad.npz", "--key", "first")


# compare


def test_compare_tabulates_every_combination(answer, run):
    x = np.abs(NUMBERS).astype("float32")
    document = answer("compare", save("x.npy", x))
    assert list(document) == ["n", "dtype", "exact", "rounded_from", "rows"]
    assert document["exact"] == math.fsum(x.astype(float))
    rows = document["rows"]
    assert len(rows) == 4 * 9
    assert [row["unit"] for row in rows[::9]] == ["V100", "A100", "H100", "B200"]
    absent = [row for row in rows if row["result"] is None]
    assert {(row["unit"], row["variant"]) for row in absent} == {
        ("V100", name)
        for name in ("single-pass", "single-pass-atomic", "recurrence", "two-mma", "split", "split-atomic")
    }
    assert all("V100 has no MMA tf32" in row["reason"] for row in absent)
    for row in rows:
        if row["result"] is not None:
            assert row["reason"] is None
            assert row["result"] == float(tcu.sum(x, unit=row["unit"], variant=row["variant"]))
            assert abs(row["result"] - document["exact"]) <= row["error_bound"]
    least = min(row["relative_error"] for row in rows if row["result"] is not None)
    assert [row.get("best", False) for row in rows] == [row.get("relative_error") == least for row in rows]
    code, out, _ = run("compare", "x.npy")
    assert code == 0
    assert out.count("★") == 1 + sum(row.get("best", False) for row in rows)
    assert "–" in out


def test_compare_takes_units_and_variants(answer):
    save("x.npy", NUMBERS)
    rows = answer("compare", "x.npy", "--unit", "h200", "--unit", "A2", "--variant", "warp-shuffle")["rows"]
    assert [(row["unit"], row["variant"]) for row in rows] == [
        ("H200", "warp-shuffle"),
        ("A2", "warp-shuffle"),
    ]
    assert {row["bits"] for row in rows} == {rows[0]["bits"]}
    save("h.npy", NUMBERS.astype("float16"))
    chained = answer("compare", "h.npy", "--unit", "H100", "-R", "3")["rows"]
    assert {row["variant"] for row in chained if row["result"] is None} == {
        "binary64",
        "two-mma",
        "warp-shuffle",
        "reduction-256",
    }


def test_compare_says_why_cells_are_empty(run, refusal):
    save("h.npy", NUMBERS.astype("float16"))
    out = " ".join(run("compare", "h.npy", "--unit", "H100", "--fraction", "0.3")[1].split())
    assert "– fraction=0.3: only the variant split divides" in out
    assert out.count("only the variant split") == 1
    out = run("compare", "h.npy", "--unit", "H100", "-R", "3")[1]
    assert "– chain (R) = 3: two-mma chains no MMAs" in out
    assert "does not have the MMA" not in out
    save("x.npy", NUMBERS)
    assert "– the unit does not have the MMA" in run("compare", "x.npy", "--unit", "V100")[1]


@pytest.mark.parametrize("command", ["sum", "compare"])
def test_a_fraction_that_no_variant_takes(refusal, command):
    message = refusal(command, save("x.npy", NUMBERS), "--variant", "recurrence", "--fraction", "0.3")
    assert "--fraction 0.3: only the variant split divides" in message
    assert "--variant split" in message


def test_times_have_their_unit(run):
    assert (
        "units of time: one per MMA, addition or memory access"
        in run("sum", save("x.npy", NUMBERS), "--variant", "single-pass")[1]
    )


def test_compare_without_any_answer_is_an_error(refusal):
    save("x.npy", NUMBERS)
    assert "V100 has no MMA" in refusal("compare", "x.npy", "--unit", "V100", "--variant", "two-mma")
    assert "unknown variant 'tree'" in refusal("compare", "x.npy", "--variant", "tree")
    assert "unknown unit 'V10'" in refusal("compare", "x.npy", "--unit", "V10")


@pytest.mark.slow(1)
@pytest.mark.parametrize("columns", [80, 100, 120])
def test_tables_fit_the_terminal(run, monkeypatch, columns):
    save("x.npy", NUMBERS)
    for command in (
        ["sum", "x.npy"],
        ["compare", "x.npy"],
        ["units"],
        *(["units", name] for name in CATALOGUE),
    ):
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, _ = run(*command)
        assert code == 0
        assert max(len(line) for line in out.splitlines()) <= columns
        assert "\x1b" not in out
        assert "…" not in out, command


# units


def test_units_lists_the_catalogue(answer, run):
    documents = answer("units")
    assert [document["name"] for document in documents] == list(CATALOGUE)
    code, out, _ = run("units")
    assert code == 0
    assert all(unit.name in out and unit.compute_capability in out for unit in CATALOGUE.values())


@pytest.mark.parametrize("name", CATALOGUE)
def test_units_shows_every_parameter_of_a_unit(answer, run, name):
    unit = CATALOGUE[name]
    document = answer("units", name.lower())
    assert document["title"] == unit.title
    for row, instruction in zip(document["instructions"], unit.instructions, strict=True):
        assert (row["a"], row["b"], row["output"], tuple(row["shape"])) == (
            instruction.a, instruction.b, instruction.output, instruction.shape,
        )  # fmt: skip
        assert row["arithmetic"].pop("kind") == type(instruction.arithmetic).__name__
        for key, value in row["arithmetic"].items():
            assert value == (list(v) if isinstance(v := getattr(instruction.arithmetic, key), tuple) else v)
        assert [each["text"] for each in row["evidence"]] == [each.text for each in instruction.evidence]
    out = " ".join(run("units", name)[1].split())
    for instruction in unit.instructions:
        assert all(" ".join(each.text.split()) in out for each in instruction.evidence)


def test_a_row_without_hardware_vectors_says_so(run):
    for name, unit in CATALOGUE.items():
        kinds = [{each.kind for each in row.evidence} for row in unit.instructions]
        told = "no hardware vectors" in " ".join(run("units", name)[1].split())
        assert told == any("hardware vectors" not in each for each in kinds), name
    assert "no hardware vectors" in run("units", "T4")[1]


def test_units_of_an_unknown_unit(refusal):
    assert "unknown unit 'H10': did you mean" in refusal("units", "H10")


# Along axes


@pytest.mark.slow(4)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("axes", [[0], [-1], [2, 0], [0, 1, 2]])
def test_sums_along_axes_go_into_a_file(answer, run, axes, order):
    x = np.random.default_rng(1).standard_normal((3, 40, 5)).astype(np.float16, order)
    np.save("x.npy", x)
    chosen = [word for axis in axes for word in ("--axis", axis)]
    options = ["--unit", "V100", "--variant", "single-pass", "-R", 2, "--dtype", "float64"]
    document = answer("sum", "x.npy", *chosen, "-o", "sums", *options)
    expected = tcu.sum(x, axes, unit="V100", variant="single-pass", chain=2, dtype=np.float64)
    written = np.load("sums")
    assert (written.shape, written.dtype) == (expected.shape, np.float64)
    assert np.array_equal(written, expected)
    assert document["axes"] == sorted(axis % 3 for axis in axes)
    assert (document["shape"], document["result_shape"]) == ([3, 40, 5], list(expected.shape))
    assert (document["rows"], document["rows"] * document["n"]) == (expected.size, x.size)
    code, out, err = run("sum", "x.npy", *chosen, "-o", "sums", *options)
    assert (code, err) == (0, "")
    assert out.startswith("x.npy: 3 × 40 × 5 of float16, summed along ax")
    assert f"{expected.size:,} sums of {x.size // expected.size:,} numbers, by single-pass, R = 2" in out


def test_numbers_are_rounded_before_they_are_summed_along_an_axis(answer, run):
    x = np.random.default_rng(2).random((4, 30))
    np.save("x.npy", x)
    answer("sum", "x.npy", "--axis", 1, "-o", "sums.npy", "--input-dtype", "float16")
    assert np.array_equal(np.load("sums.npy"), tcu.sum(x.astype(np.float16), axis=1))
    np.save("x.npy", 1e6 * x)
    assert "became inf" in run("sum", "x.npy", "--axis", 1, "-o", "sums.npy", "--input-dtype", "float16")[2]


def test_axes_and_places_that_are_refused(refusal):
    np.save("x.npy", np.zeros((2, 3), np.float16))
    for arguments, message in (
        (["--axis", 2, "-o", "y.npy"], "axis 2 of an array with 2 axes: choose -2 to 1"),
        (["--axis", 1, "--axis", -1, "-o", "y.npy"], "has axis 1 more than once"),
        (["--axis", 1], "--axis 1: the sums are an array, which goes to a file: give -o FILE.npy"),
        (["-o", "y.npy"], "-o y.npy: only sums along an axis are written to a file: give --axis"),
        (["--axis", 1, "-o", "none/y.npy"], "cannot write none/y.npy: there is no folder none"),
    ):
        assert message in refusal("sum", "x.npy", *arguments)
        assert not Path("y.npy").exists()


# The program


def test_help_and_version(run):
    assert run("--version") == (0, f"tcu {tcu.__version__}\n", "")
    code, out, err = run()
    assert (code, err) == (0, "")
    for command in ("sum", "compare", "units", "explain"):
        assert command in out
        code, text, _ = run(command, "--help")
        assert code == 0
        assert f"tcu {command}" in text
        assert "Example" in text
        assert "--json" in text


def test_no_help_shows_a_value_for_a_flag(run):
    shown = [run(*command, "--help")[1] for command in ([], *([name] for name in COMMANDS))]
    assert all("--help" in text for text in shown)
    assert [text for text in shown if "<bool>" in text or "BOOL" in text] == []


@pytest.mark.parametrize(
    ("commands", "shared"),
    [
        (("sum", "compare"), ("--chain", "--block", "--accumulator", "--fraction", "--key", "--column", "--input-dtype")),
        (("probe", "infer"), ("--module", "--instruction", "--input", "--output", "--k", "--html")),
    ],
)  # fmt: skip
def test_commands_that_share_a_list_have_all_of_it(run, commands, shared):
    for command in commands:
        out = run(command, "--help")[1]
        assert all(f"{name} " in out for name in shared), command


def test_usage_errors(refusal):
    assert "see tcu --help" in refusal("multiply")
    assert "see tcu sum --help" in refusal("sum")


def program(*arguments, **options):
    command = [sys.executable, "-m", "tcu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False, **options)


def test_the_process_itself(tmp_path):
    done = program("sum", "none.npy", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: cannot read none.npy")
    assert "Traceback" not in done.stderr


def test_help_does_not_load_the_compiler():
    code = "import sys\nfrom tcu.cli import main\nmain(['--help'])\nsys.exit('numba' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=HANGS, check=False
        ).returncode
        == 0
    )


@pytest.mark.slow(1)
@pytest.mark.parametrize("arguments", [["units", "--json"], ["units"]])
def test_a_reader_who_leaves_early(arguments):
    read, write = os.pipe()
    os.close(read)  # it has left before anything is written
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tcu", *arguments], stdout=write, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_an_interrupt(run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tcu.cli.reductions.read_source", interrupt)
    assert run("sum", "x.npy")[0] == 130


def test_a_defect_is_not_mistaken_for_bad_input(run, monkeypatch):
    def defect(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("tcu.cli.reductions.read_source", defect)
    with pytest.raises(ZeroDivisionError):
        run("sum", "x.npy")


# The progress bar


@pytest.mark.parametrize(
    ("terminal", "delay", "shown"), [(True, 0.0, True), (True, 60.0, False), (False, 0.0, False)]
)
def test_the_bar_waits_for_a_terminal_and_two_seconds(monkeypatch, terminal, delay, shown):
    assert progress.DELAY == 2.0
    monkeypatch.setattr(progress, "DELAY", delay)
    stream = io.StringIO()
    with progress.ProgressBar(10, Console(file=stream, force_terminal=terminal)) as bar:
        bar.advance(5)
        bar.advance(5)
    assert ("100 %" in stream.getvalue()) == shown


def test_the_bar_shows_the_rate_of_bytes_and_the_time_left(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    now = iter(range(0, 10_000, 5))
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, get_time=lambda: float(next(now)))
    with progress.ProgressBar(10_000_000, console, itemsize=8) as bar:
        for _ in range(9):
            bar.advance(1_000_000)
            bar._bar.refresh()
    shown = stream.getvalue()
    assert re.search(r"\d+(\.\d+)? [kM]B/s", shown)
    assert re.search(r"0:\d\d:\d\d", shown)
    assert "90 %" in shown


@pytest.mark.parametrize(("command", "total"), [(["sum"], 1), (["compare", "--unit", "H100"], 9)])
def test_the_bar_ends_at_its_total(run, monkeypatch, command, total):
    seen = []
    monkeypatch.setattr("tcu.cli.sums.ProgressBar.advance", lambda self, count: seen.append(count))
    assert run(*command, save("x.npy", NUMBERS))[0] == 0
    assert sum(seen) == total * NUMBERS.size


def test_a_sum_without_mmas_names_no_unit_and_no_times_of_one(tmp_path, capsys):
    file = tmp_path / "one.txt"
    file.write_text("1.5\n")
    assert main(["sum", str(file), "--input-dtype", "float32"]) == 0
    shown = capsys.readouterr().out
    assert "none: additions outside of matrix units" in shown
    assert not {"H100", "MMAs", "speedup", "modelled"} & set(shown.split())
    assert main(["sum", str(file), "--input-dtype", "float16", "--variant", "single-pass"]) == 0
    shown = capsys.readouterr().out
    assert {"H100", "MMAs", "speedup"} <= set(shown.split())
