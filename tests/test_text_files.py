"""Numbers from text, as the commands read them.

Contract: whether the first line names the columns depends on that line and on
--header and --no-header, never on which column is summed.  A line of words
does, a line of numbers does not; a line of both is refused, unless the chosen
column shows what it is.  So of two commands that name one column, without
these options, both give one sum or one is refused.  A column is chosen by its
name or its number; where a number is also another column's name it is refused.
A first line of numbers that looks like names is warned of.

A number is rounded once, from the text to --input-dtype.

What must be read whole is bounded by --memory, whatever a pipe sends.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import resource
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcu.cli import main
from tcu.cli.data import DataElements
from tcu.cli.files import read_elements
from tcu.cli.options import Numbers
from tcu.cli.textfile import parse_numbers
from tcu.errors import DataFileError, TcuError
from tcu.formats import encode, get_format
from tcu.formats.scalar import Number
from tcu.streams import ArraySource


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[float | None, str]:
    """The exact sum, None where there is none; and what stderr says."""
    code = main([*arguments, "--exact", "--json"] if arguments[0] == "sum" else [*arguments, "--json"])
    captured = capsys.readouterr()
    assert code in (0, 2)
    if code:
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
        return None, captured.err
    document = json.loads(captured.out)
    return document.get("exact", document.get("result")), captured.err


# Names of columns

YEARS = "2019,2020\n1,2\n3,4\n"
WIDE = "name,2019,2020\na,1,2\nb,3,4\n"
INDEXED = ",2019,2020\n0,1,2\n1,3,4\n"
COUNTED = "0,1,2\n5,6,7\n8,9,10\n"
DATES = "2001-12-22,371.0\n2001-12-29,372.0\n"
PEOPLE = "Alice,3\nBob,4\n"
WORDS = "x,y\n1,2\n3,4\n"
DATA = "1,2\n3,4\n"


@pytest.mark.slow(12)
@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        (YEARS, [], 4049),
        (YEARS, ["--column", "1"], 2023),
        (YEARS, ["--column", "#2"], 2026),
        (YEARS, ["--column", "2019"], "--column 2019: x.csv, line 1 holds numbers, so it counts as data: give --header"),
        (YEARS, ["--no-header"], 4049),
        (YEARS, ["--no-header", "--column", "2"], 2026),
        (YEARS, ["--no-header", "--column", "2019"], "line 1 holds numbers, so it counts as data"),
        (YEARS, ["--header"], 10),
        (YEARS, ["--header", "--column", "1"], 4),
        (YEARS, ["--header", "--column", "2020"], 6),
        (YEARS, ["--header", "--column", "2021"], "x.csv, line 1 has 2 fields: choose 1 to 2"),
        (WIDE, [], "line 1: 'name' is not a number: correct or remove it, or give --header if the line names"),
        (WIDE, ["--column", "2020"], 6),
        (WIDE, ["--column", "3"], "--column 3: x.csv, line 1 holds words and numbers, so '2020' may be a name or a number"),
        (WIDE, ["--column", "3", "--header"], 6),
        (WIDE, ["--column", "#3", "--header"], 6),
        (WIDE, ["--column", "3", "--no-header"], 2026),
        (WIDE, ["--column", "name"], "line 2: 'a' is not a number"),
        (WIDE, ["--column", "1"], "line 2: 'a' is not a number"),
        (WIDE, ["--header"], "line 2: 'a' is not a number"),
        (INDEXED, [], "line 1: an empty field: correct or remove it, or give --header"),
        (INDEXED, ["--column", "2019"], 4),
        (INDEXED, ["--column", "2"], "give --header if the line names the columns, or --no-header"),
        (INDEXED, ["--header", "--column", "1"], 1),
        (COUNTED, ["--header", "--column", "1"], "has this name in column 2: choose by number, --column '#2' or --column '#1'"),
        (COUNTED, ["--header", "--column", "#1"], 13),
        (COUNTED, ["--header", "--column", "#2"], 15),
        (COUNTED, ["--header", "--column", "0"], 13),
        (COUNTED, ["--header", "--column", "3"], 17),
        ("1,1,5\n2,3,4\n", ["--header", "--column", "1"], "in column 2: choose by number, --column '#2' or --column '#1'"),
        ("1,1,5\n2,3,4\n", ["--header", "--column", "5"], 4),
        (DATES, [], "line 1: '2001-12-22' is not a number: correct or remove it, or give --header"),
        (DATES, ["--column", "2"], 743),
        (DATES, ["--column", "1"], "line 1: '2001-12-22' is not a number"),
        ("1st,2nd\n1,2\n", ["--column", "2nd"], 2),
        (PEOPLE, ["--column", "2"], "so '3' may be a name or a number: give --header"),
        (PEOPLE, ["--column", "2", "--no-header"], 7),
        (PEOPLE, ["--column", "2", "--header"], 4),
        (WORDS, [], 10),
        (WORDS, ["--no-header"], "line 1: 'x' is not a number: correct or remove it"),
        (WORDS, ["--column", "x", "--no-header"], "holds numbers, so it counts as data"),
        (DATA, ["--column", "a", "--no-header"], "names no columns: choose a number from 1 to 2"),
        (DATA, ["--column", "9" * 5000], "names no columns"),
        (DATA, ["--column", "#3"], "has 2 fields: choose 1 to 2"),
        ("2019\n5.5\n", ["--header"], 5.5),
        ("# 2019,2020\n\n1,2\n", [], 3),
        ("2019 2020\n1 2\n3\n", ["--header"], 6),
        ('"2019","2020"\n1,2\n', ["--header", "--column", "2020"], 2),
        ("\ufeff2019,2020\r\n1,2\r\n", ["--header", "--column", "2019"], 1),
    ],
)  # fmt: skip
def test_what_the_first_line_is(
    text: str, arguments: list[str], expected: float | str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.csv").write_text(text, encoding="utf-8", newline="")
    for command in ("sum", "compare"):
        found, message = told(capsys, command, "x.csv", *arguments)
        if isinstance(expected, str):
            assert expected in message
        else:
            assert found == expected, message
    if not isinstance(expected, str):
        assert main(["cumsum", "x.csv", "-o", "y.npy", *arguments]) == 0
        assert np.load("y.npy")[-1] == expected


HEADS = [
    "2019,2020",
    "a,2020",
    "2019,b",
    "a,b",
    "1,2",
    "2,1",
    "0,1",
    ",1",
    "1,",
    "3,4",
    "1st,2",
    "nan,1",
    "1,1",
]


@pytest.mark.slow(5)
@pytest.mark.parametrize("head", HEADS)
def test_ways_to_name_a_column_do_not_differ(head: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.csv").write_text(f"{head}\n10,200\n30,400\n")
    whole, _ = told(capsys, "sum", "x.csv")
    found: list[set[Any]] = [set(), set()]
    for place, name in enumerate(head.split(",")):
        for way in (name, str(place + 1), f"#{place + 1}"):
            if not way or (way.isdecimal() and way != str(place + 1) and 1 <= int(way) <= 2):
                continue  # a number from 1 to 2 is a place
            one, _ = told(capsys, "sum", "x.csv", "--column", way)
            if one is not None:
                found[place].add("nan" if math.isnan(float(one)) else one)
    assert all(len(each) <= 1 for each in found), found
    if whole is not None and all(found) and "nan" not in found[0]:
        assert sum(each.pop() for each in found) == whole


@pytest.mark.slow(6)
@pytest.mark.parametrize(
    ("text", "doubtful"),
    [
        (YEARS, True), (COUNTED, True), ("1,2,3\n7,7,7\n", True), ("0 1\n.5 2\n", True), ("2019\n5.5\n", True),
        ("2000;2005;2010\n1;2;3\n", True), ("2019\n2020\n", False), ("2019,2020\n2021,2022\n", False),
        ("0,1,2\n3,4,5\n", False), ("0 1\n0 2\n", False), ("1\n.5\n", False), (DATA, False), ("2020,2019\n1,2\n", False),
        ("3,4,5\n1,2,3\n", False), ("2019.0,2020.0\n1,2\n", False), ("2019\n7\n", False), ("2019,2020\n", False),
        ("2019,2019\n1,2\n", False),
    ],
)  # fmt: skip
def test_numbers_that_look_like_names_are_warned_of(
    text: str, doubtful: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.csv").write_text(text)
    for arguments in ([], ["--column", "#1"]):
        message = told(capsys, "sum", "x.csv", *arguments)[1]
        assert (
            "counts as data: give --header if it names the columns, or --no-header" in message
        ) == doubtful
        assert message.startswith("warning: x.csv, line 1: '") == doubtful
        for answer in ("--header", "--no-header"):
            if text.count("\n") > 1:
                assert told(capsys, "sum", "x.csv", *arguments, answer)[1] == ""


def test_only_text_has_a_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.ones(3))
    np.savez("x.npz", np.ones(3))
    for name, option in itertools.product(("x.npy", "x.npz"), ("--header", "--no-header")):
        assert f"{option}: {name} is no text" in told(capsys, "sum", name, option)[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"1"2,3\n', "line 1: ',' expected after '\"': correct the quotes"),
        ('1,"2\n', "line 1: unexpected end of data: correct the quotes"),
        ("1,2\n3,x\n4\n", "line 2: 'x' is not a number"),
        ("1,2\n3,4_0\n4\n", "line 2: '4_0' is not a number"),
        ("1\n1e999\n\0", "is neither .npy, .npz nor UTF-8 text"),
        ("1\n1e999\nx\n", "line 2: '1e999' is beyond the largest binary64 number"),
        ("1\n" * 70_000 + "x\n" + "1\n" * 70_000, "line 70001: 'x' is not a number"),
        ("\r\n\r\n", "holds no numbers"),
        ("1,\x1b[31m2\n", r"line 1: '\x1b[31m2' is not a number"),
        ("1\n\ufeff2\n", r"line 2: '\ufeff2' is not a number"),
    ],
)
def test_text_that_is_refused(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.csv").write_text(text, encoding="utf-8", newline="")
    assert message in told(capsys, "sum", "x.csv")[1]


def test_ends_of_lines_and_long_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for end in ("\n", "\r\n", "\r"):
        Path("x.csv").write_text(end.join(["a,b", "1,2", "", "3,4"]), newline="")
        assert told(capsys, "sum", "x.csv")[0] == 10
    Path("x.csv").write_text("1.25," * 400_000 + "1.25\n" + "2.5," * 400_000 + "2.5", newline="")
    assert told(capsys, "sum", "x.csv")[0] == 3.75 * 400_001


# Rounded once

TARGETS = ["float16", "bfloat16", "float32", "float64"]


def exactly(text: str, target: str) -> int:
    """The code of the exact value, rounded once: more bits than any format has, and one for what is beneath."""
    value, fmt = Fraction(text), get_format(target)
    significand, rest = divmod(abs(value.numerator) << 1200, value.denominator)
    return encode(Number("finite", text.startswith("-"), 2 * significand + (rest > 0), -1201), fmt)


def codes(texts: list[str], target: str) -> list[int]:
    fmt = get_format(target)
    numbers, _ = parse_numbers(texts, "x", target=fmt)
    elements = DataElements(ArraySource(numbers), fmt)
    return elements.read(0, numbers.size).view(fmt.code_dtype).tolist()  # type: ignore[no-any-return]


def beside_ties(target: str) -> Iterator[str]:
    """Decimals that binary64 cannot tell from a tie of the format, those of subnormal and largest numbers included."""
    fmt = get_format(target)
    lowest = fmt.emin - fmt.fraction_bits
    for at in (lowest, lowest + 1, fmt.emin - 1, fmt.emin, -1, 0, 5, fmt.emax):
        unit = Fraction(2) ** (max(at, fmt.emin) - fmt.fraction_bits)
        for steps in (0, 1, 2, 2**fmt.fraction_bits - 1):
            tie = Fraction(2) ** at + steps * unit + unit / 2
            digits = f"{tie.numerator * 10**1100 // tie.denominator:d}"  # all of them
            for less in (0, 1):
                for tail in ("", "0" * 20 + "1"):
                    yield f"{int(digits) * 10 ** len(tail) + int(tail or 0) - less}e-{1100 + len(tail)}"


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32"])
def test_decimals_beside_ties_are_rounded_once(target: str) -> None:
    texts = [sign + text for text in beside_ties(target) for sign in ("", "-")]
    assert codes(texts, target) == [exactly(text, target) for text in texts]
    # The test would notice: rounding twice gets some wrong.
    fmt = get_format(target)
    twice = DataElements(ArraySource(np.array(list(map(float, texts)))), fmt)
    assert twice.read(0, len(texts)).view(fmt.code_dtype).tolist() != codes(texts, target)


@pytest.mark.slow
@given(st.lists(st.from_regex(r"-?(0|[1-9]\d{0,4})\.\d{1,30}(e-?[0-3]?\d)?", fullmatch=True), min_size=1))
def test_any_decimals_are_rounded_once(texts: list[str]) -> None:
    for target in TARGETS:
        assert codes(texts, target) == [exactly(text, target) for text in texts]


def test_the_commands_round_text_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = "1.00048828125000000000000000000001"  # above the middle of 1 and 1 + 2^-10
    Path("x.csv").write_text(f"a,b\n{text},{text}\n")
    above = 1 + 2.0**-10
    for column, factor in ([], 2), (["--column", "a"], 1):
        arguments = ["x.csv", *column, "--input-dtype", "float16"]
        for command in (["sum"], ["compare", "--unit", "H100"]):
            assert told(capsys, *command, *arguments, "--dtype", "float64")[0] == factor * above
        assert main(["cumsum", *arguments, "--dtype", "float64", "-o", "y.npy"]) == 0
        assert np.load("y.npy")[-1] == factor * above
        assert main(["sum", *arguments, "--dtype", "float64", "--axis", "0", "-o", "z.npy"]) == 0
        assert np.load("z.npy") == factor * above
        capsys.readouterr()


def test_what_is_no_number_beside_a_tie_stays(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["0", "-0", "inf", "-inf", "nan", "1e-400", "1e300", "65519.999", "65520", "-65520", "1e4"]
    with np.errstate(all="ignore"):
        expected = np.array(list(map(float, texts))).astype(np.float16).view("u2").tolist()
    assert codes(texts, "float16") == expected
    Path("x.csv").write_text("65519." + "9" * 40)
    assert told(capsys, "sum", "x.csv", "--input-dtype", "float16") == (65504, "")
    Path("x.csv").write_text("65520." + "0" * 40)
    assert "became inf" in told(capsys, "sum", "x.csv", "--input-dtype", "float16")[1]


def test_fields_of_any_length(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.csv").write_text("0." + "0" * 1_000_000 + "1e1000001 1." + "0" * 1_000_000 + "1 1" + "0" * 300)
    assert codes(Path("x.csv").read_text().split(), "float32") == codes(["1", "1", "1e300"], "float32")
    assert told(capsys, "sum", "x.csv")[0] == 1e300


# Bounded memory

ENDLESS = {
    "numbers": (["yes", "1"], "the numbers of standard input need more than half of the memory", "text is read whole"),
    "one line": (["sh", "-c", "yes 1 | tr '\\n' ' '"], "the fields of standard input, line 1, need", "a line is read"),
    "one word": (["sh", "-c", "yes | tr -d '\\n'"], "the fields of standard input, line 1, need", "a line is read"),
    "archive": (["sh", "-c", "printf 'PK\\3\\4'; cat /dev/zero"], "the bytes of standard input", "a .npz file from a pipe"),
    "zeros": (["cat", "/dev/zero"], "standard input is neither .npy, .npz nor UTF-8 text", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("memory", [1 << 20, None])
def test_a_pipe_without_end(kind: str, memory: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcu.cli.files.DEFAULT_MEMORY", 1 << 20)
    command, *words = ENDLESS[kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(process.stdout))
        with pytest.raises(DataFileError) as told:
            read_elements("-", Numbers(), memory)
        process.kill()
    assert all(word in str(told.value) for word in words)
    if kind != "zeros":
        assert "524,288 bytes" in str(told.value)
        assert "save them as a .npy file, which is read a piece at a time" in str(told.value)
        assert ("give --memory more, or" in str(told.value)) == (memory is not None)


def test_an_array_in_a_pipe_that_is_read_more_than_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for order in (np.ascontiguousarray, np.asfortranarray):
        file = io.BytesIO()
        np.save(file, order(np.arange(12.0).reshape(3, 4)))
        for memory, cut in ((1 << 20, 0), (100, 0), (1 << 20, 8)):
            data = file.getvalue()
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data[: len(data) - cut])))
            try:
                elements = read_elements("-", Numbers(), memory)
            except TcuError as error:
                words = (
                    "a .npy file from a pipe is read whole" if memory == 100 else "the last 8 bytes of its 12"
                )
                assert words in str(error)  # noqa: PT017
            else:
                assert memory == 1 << 20
                assert not cut
                assert np.array_equal(elements.read(0, 12), np.arange(12.0))


def test_archives_larger_than_memory() -> None:
    np.savez_compressed("x.npz", x=np.zeros(1_000_000), y=np.ones((2, 3), order="F"))
    assert Path("x.npz").stat().st_size < 20_000
    with pytest.raises(
        DataFileError, match=r"the 1,000,000 numbers of x.npz, array x need .* of a .npz file is read"
    ):
        read_elements("x.npz", Numbers(key="x"), 1 << 20)
    assert read_elements("x.npz", Numbers(key="y"), 1 << 20).read(0, 6).sum() == 6
    assert read_elements("x.npz", Numbers(key="x"), 1 << 24).n == 1_000_000


@pytest.mark.slow(1)
@pytest.mark.parametrize("source", ["/dev/zero", "-"])
def test_a_process_stays_within_its_memory(source: str) -> None:
    """Of address space, which the libraries take most of."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    with subprocess.Popen(["sh", "-c", "yes 1 | tr '\\n' ' '"], stdout=subprocess.PIPE) as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "tcu", "sum", source, "--memory", "64M"],
            stdin=pipe.stdout, capture_output=True, text=True, preexec_fn=limited, check=False,
        )  # fmt: skip
        pipe.kill()
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "out of memory" not in done.stderr
