"""The commands ``tcu cost`` and ``tcu calibrate``, as a user meets them.

Contract: ``tcu cost`` shows the ledger, the bound and their ratio of
:func:`tcu.algorithms.cost_of`, the same in ``--json``; a sweep is the curve in
the format of its file's name, and a plot is one page that loads nothing.  A
size of any length is counted at once, or refused with the largest that is not.
``tcu calibrate`` shows the fitted machine and predictions of
:func:`tcu.calibration.calibrate`.  Bad input gives one line on stderr that
begins with "error: ", exit code 2, and never a traceback.
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
import time

import numpy as np
import pytest

from tcu.algorithms import COSTS, cost_of
from tcu.algorithms import machine as machine_module
from tcu.calibration import Calibration, Fit, Prediction, Sample, calibrate, fit_machine
from tcu.calibration.devices import Cpu, find_device
from tcu.calibration.fit import StepSample, fit_steps
from tcu.cli import main
from tcu.cli.costing import latency_of, whole
from tcu.errors import ExtraMissingError, ParameterError


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the program in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def failure(result) -> str:
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    return err


def test_the_ledger_the_bound_and_their_ratio(run) -> None:
    code, out, err = run("cost", "dft", "--n", "2^20", "--m", "256", "--latency", "64")
    assert (code, err) == (0, "")
    one = cost_of("dft", 1 << 20, 256, 64)
    assert f"cost {one.ledger.cost:,} on m = 256, latency 64" in out
    assert f"Theorem 4: {one.bound:,.0f} without its constant; this is {one.ratio:.3f} times that" in out
    for entry in one.ledger:
        assert f"{entry.cost:,}" in out


@pytest.mark.parametrize("name", COSTS)
def test_every_algorithm_and_its_json(run, name: str) -> None:
    n = COSTS[name].sizes(16)[1]
    code, out, err = run("cost", name, "--n", n, "--m", 16, "--latency", 48, "--weak", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    one = cost_of(name, n, 16, 48, weak=True)
    assert (document["cost"], document["bound"], document["ratio"]) == (one.ledger.cost, one.bound, one.ratio)
    assert sum(entry["cost"] for entry in document["ledger"]) == document["cost"]
    assert document["tensor_cost"] + document["steps"] == document["cost"]
    assert 0 < document["transfers"]["per_time"] <= 3
    code, out, _ = run("cost", name, "--n", n, "--m", 16)
    assert code == 0
    assert COSTS[name].title in out


def test_options_reach_the_program(run) -> None:
    _, out, _ = run("cost", "sum", "--n", "1e5", "--variant", "chained", "-R", 4, "--json")
    document = json.loads(out)
    assert (document["variant"], document["chain"]) == ("chained", 4)
    assert document["cost"] == cost_of("sum", 10**5, 256, 0, variant="chained", chain=4).ledger.cost
    assert document["parallel_steps"]["chained"] == pytest.approx(11 * np.log(1e5) / np.log(4 * 256))
    _, out, _ = run("cost", "sum", "--n", "1e5")
    assert "in parallel steps, as the reductions' papers count: two-MMA 10.4" in out
    _, out, _ = run("cost", "matmul", "--n", 64, "--weak")
    assert "I/Os, of at least 12,288 that any program needs" in out
    assert "no program costs less than" in out


def test_sweeps(run, tmp_path) -> None:
    code, out, err = run("cost", "strassen", "--n", 512, "--sweep", "a.csv", "--sweep", "a.json")
    assert (code, err) == (0, "")
    assert "6 sizes in a.csv" in out
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    curve = json.loads((tmp_path / "a.json").read_text())
    assert [int(row["n"]) for row in rows] == [16, 32, 64, 128, 256, 512]
    assert [int(row["cost"]) for row in rows] == [point["cost"] for point in curve["curve"]]
    assert curve["curve"][-1]["ratio"] == cost_of("strassen", 512, 256, 0).ratio
    assert (curve["theorem"], curve["m"]) == ("Theorem 1", 256)
    code, out, _ = run("cost", "matmul", "--sweep", "b.json", "--json")
    assert json.loads(out)["sweep"] == json.loads((tmp_path / "b.json").read_text())["curve"]
    assert [point["n"] for point in json.loads(out)["sweep"]] == COSTS["matmul"].sizes(256)


def test_a_plot_loads_nothing(run, tmp_path) -> None:
    pytest.importorskip("plotly", reason='Plotly is not installed: pip install "tcu[plot]"')
    code, _, err = run("cost", "matmul", "--sweep", "a.html", "--latency", 10)
    assert (code, err) == (0, "")
    page = (tmp_path / "a.html").read_text()
    assert "<script src=" not in page
    assert "cost over bound" in page
    assert "lower bound" in page
    assert f"{cost_of('matmul', COSTS['matmul'].sizes(256)[-1], 256, 10).ratio:,.6g}" in page


def test_without_plotly(run, monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    assert 'a plot needs Plotly: pip install "tcu[plot]"' in failure(run("cost", "dft", "--sweep", "a.html"))
    assert 'pip install "tcu[plot]"' in failure(run("calibrate", "--html", "a.html"))
    assert not (tmp_path / "a.html").exists()


def test_the_list(run) -> None:
    code, out, _ = run("cost", "list")
    assert code == 0
    for name in COSTS:
        assert name in out
    _, out, _ = run("cost", "list", "--json")
    assert [row["name"] for row in json.loads(out)] == list(COSTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dft",), "how large? give --n, complex numbers, such as --n 2^20, or --sweep FILE"),
        (("dct", "--n", 8), "unknown algorithm 'dct': did you mean dft"),
        (("dft", "--n", "many"), "--n many: give a whole number, such as 1000000, 1e6 or 2^20"),
        (("dft", "--n", 0), "n=0: give an integer of at least 1"),
        (("dft", "--n", 8, "--m", 15), "m=15: m is the number of entries"),
        (("dft", "--n", 8, "--latency", "long"), "--latency long: give a number"),
        (("dft", "--n", 8, "--points", 3), "dft has no option 'points': it has product"),
        (("dft", "--n", 8, "--product", "five"), "product='five'"),
        (("sum", "--n", 8, "--variant", "pairs"), "variant='pairs'"),
        (("dft", "--sweep", "a.pdf"), "--sweep a.pdf: the name must end in .json, .csv, .html"),
        (("dft", "--sweep", "no/a.csv"), "there is no folder no"),
        (("dft", "--n", 8, "--word-bits", 0), "word_bits=0"),
        (
            ("dft", "--n", 8, "--word-bits", "2^21"),
            "word_bits=2097152: give the bits of a word, such as 64, and at most",
        ),
        (("dft", "--n", "1_"), "--n 1_: give a whole number"),
        (("dft", "--n", "1__0"), "--n 1__0: give a whole number"),
        (
            ("dft", "--n", "10^60"),
            "a DFT of length 1" + 60 * "0" + ": give at least one number, and at most 2^64",
        ),
        (("dft", "--n", 8, "--m", 1), "m=1: a unit of side 1 does no 'four' DFT"),
        (("matmul", "--n", "1e61"), "--n 1e61: give at most 10^60"),
        (("matmul", "--n", "9^99999999"), "--n 9^99999999: give at most 10^60"),
        (("matmul", "--n", 5000 * "1"), "1: give at most 10^60"),
        (("matmul", "--n", 8, "--m", "1e400"), "--m 1e400: give at most 10^60"),
        (("matmul", "--n", 8, "--latency", "1e400"), "--latency 1e400: give at most 10^60"),
        (("matmul", "--n", 8, "--latency", "1.5e400"), "latency=inf: give a finite number of at least 0"),
        (("matmul", "--n", 8, "--latency", "nan"), "latency=nan: give a finite number of at least 0"),
        (
            ("matmul", "--n", 8, "--latency=-1"),
            "latency=-1.0: give a finite number of at least 0, in CPU operations, and",
        ),
        (("polynomial", "--n", 10, "--points", 0), "points=0: give an integer of at least 1"),
        (("sparse", "--n", 10, "--per-row", 0), "per_row=0: give an integer of at least 1"),
        (("sum", "--n", 10, "--variant", "chained", "-R", 0), "chain=0: give an integer of at least 1"),
        (("sum", "--n", 10, "-R", 2), "chain=2: give 1 or more MMAs, more than 1 for variant='chained' only"),
        (("sum", "--n", 10, "--m", 1), "m=1: a unit for single numbers does not sum"),
        (
            ("integer", "--n", 10, "--m", "10^60"),
            "too short for a product of integers; take a smaller m or longer words",
        ),
    ],
)
def test_bad_input(run, arguments, message: str) -> None:
    assert message in failure(run("cost", *arguments))


def test_numbers_on_the_command_line() -> None:
    texts = ("12", "1_000", "2^20", "1e6", "10^3", "0", "0^5", "7^0", "007", "1E60", "10^60")
    assert [whole("--n", text) for text in texts] == [
        12, 1000, 1 << 20, 10**6, 1000, 0, 0, 1, 7, 10**60, 10**60,
    ]  # fmt: skip
    for text in ("", "-1", "1.5", "2^", "e5", "2**3", "_1", "1_", "1__0", "1e-3"):
        with pytest.raises(ParameterError, match=r"--n .*give a whole number"):
            whole("--n", text)
    for text in ("1e61", "2^200", "1e9999", "9^99999", "9" * 61, "1" * 5000):
        with pytest.raises(ParameterError, match=r"--n .*: give at most 10\^60"):
            whole("--n", text)
    assert [latency_of(text) for text in ("64", "2^6", "0.5")] == [64, 64, 0.5]


# ---- sizes of any length ----


def test_closed_forms_of_sizes_that_no_loop_would_reach() -> None:
    n, side = 10**7, 2
    blocks = n // side
    # Products, sums of strips, and the blocks of the result put beside each other.
    assert cost_of("matmul", n, 4, 9).ledger.cost == blocks**2 * (n * side + 9) + (blocks - 1) * n**2 + n**2
    # 16^k numbers in planes and back, 4; k levels of 2 for the rows, 4 for the products and 2 for their sums; 6 for the
    # twiddles between levels; 2 to put digits in order.  Tables: two Fourier matrices a level, and the twiddles.
    for k in (2, 5, 16):
        tables = 2 * 256 * k + 2 * sum(16**j for j in range(2, k + 1))
        assert cost_of("dft", 16**k, 256, 0).ledger.cost == 16**k * (4 + 8 * k + 6 * (k - 1) + 2) + tables
    # A prime: planes and back; the chirp, 2, and two products with it, 6; a convolution of 16^3 numbers: padded, 2, times
    # the kernel, 6, and transformed twice.  The kernel is made by a transform on the host, of 6 for each of 12 bits.
    prime, length, k = 2039, 16**3, 3
    transform = length * (8 * k + 6 * (k - 1) + 2) + 2 * 256 * k + 2 * (16**2 + 16**3)
    ledger = cost_of("dft", prime, 256, 0).ledger
    assert ledger.cost == prime * (4 + 2 + 2 * 6) + length * (2 + 6 + 6 * 12) + 2 * transform
    steps = {entry.name: entry.count for entry in ledger if len(entry.path) == 2}
    assert steps == {"chirp factors": 2 * prime, "kernel": 6 * 12 * length, "chirp": 2 * 6 * prime}
    # The last level is padded to a square; each has its ones.
    assert cost_of("sum", 1 << 64, 256, 3).ledger.cost == sum(16**k for k in range(2, 17)) + 256 + 16 * (
        3 + 16
    )
    # Strassen's 18 additions of quarters and the four that go on as they are, and products of single numbers.
    assert 3 * cost_of("strassen", 1 << 30, 1, 0).ledger.cost == 3 * 7**30 + 22 * (7**30 - 4**30)
    digits, columns = 10**12 // 16, 10**12 // 256
    rows, calls = digits + 15, -(-columns // 16)
    strips = -(-rows // 16)
    result = (columns + strips) * 16
    moved = 4 * digits + digits + 30 + rows * 16 + result
    columns_upright = 2 * columns * strips * 16
    assert cost_of("integer", 10**12, 256, 5).ledger.cost == (
        calls * (rows * 16 + 5) + moved + columns_upright + 3 * result
    )
    # Blocks of 256 numbers in groups of 16, whose columns are added in pairs at 2 steps each.
    points, blocks = 10**3, 1 << 56
    ledger = cost_of("polynomial", 1 << 64, 256, 0, points=points).ledger
    assert (ledger.tensor_calls, ledger.tensor_cost) == (blocks, blocks * points * 16)
    pairs = sum(entry.count for entry in ledger if entry.name == "add in pairs")
    assert pairs == 2 * points * (blocks * 15 + blocks - 1)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", [name for name in COSTS if name != "sparse"])
def test_every_algorithm_at_its_ends(name: str) -> None:
    for m in (4, 1 << 64, 10**60):
        if name in ("integer", "karatsuba") and m == 10**60:
            continue  # words of 64 bits hold no digits for it
        for n in (1, 2, 1 << 53, (1 << 64) - 59, 1 << 64 if name == "dft" else 10**60):
            for latency, weak in ((0, False), (1e60, True)):
                one = cost_of(name, n, m, latency, weak=weak)
                assert 0 <= one.ledger.cost < math.inf
                assert one.ledger.cost > 0 or n == 1
                assert 0 < one.bound < math.inf
                assert one.ratio < math.inf


@pytest.mark.slow
def test_sizes_on_the_terminal_and_in_json(run) -> None:
    for name in COSTS:
        n = 1 if name == "sparse" else 1 << 64
        for arguments in ((), ("--weak",), ("--weak", "--json")):
            code, out, err = run("cost", name, "--n", n, "--latency", "0.5", *arguments)
            assert (code, err) == (0, "")
        assert json.loads(out)["n"] == n
    code, out, _ = run("cost", "matmul", "--n", "10^60")
    assert code == 0
    assert "n = 1e+60" in out
    assert max(map(len, out.splitlines())) <= 120
    _, out, _ = run("cost", "matmul", "--n", 1)
    assert "Theorem 2: 0.0625 without its constant; this is 4096.000 times that" in out


def test_a_deep_recursion_fits_on_the_terminal(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("cost", "karatsuba", "--n", "2^64")
    assert "what lies deeper than 6 sections is taken together; --json lists all" in out
    assert out.count("Karatsuba: ") == 5
    assert max(line.count("│") for line in out.splitlines()) <= 6
    _, out, _ = run("cost", "karatsuba", "--n", "2^64", "--json")
    document = json.loads(out)
    assert max(len(entry["path"]) for entry in document["ledger"]) > 40
    assert sum(entry["cost"] for entry in document["ledger"]) == document["cost"]
    _, out, _ = run("cost", "dft", "--n", "2^20")
    assert "taken together" not in out


def test_what_takes_long_is_refused_with_the_largest_that_does_not(run) -> None:
    for options in ((), ("--per-row", 30), ("--m", "2^22"), ("--m", "2^40"), ("--per-row", 5000)):
        message = failure(run("cost", "sparse", "--n", 10**7, *options))
        assert "takes too long to count: give at most n=" in message
        most = int(message.strip().rpartition("n=")[2].replace(",", ""))
        assert most < 10**6
        again = failure(run("cost", "sparse", "--n", most + 1, *options))
        assert f"give at most n={most:,}" in again or "--m" in options  # there per_row changes with n
    message = failure(run("cost", "sparse", "--n", 10, "--per-row", "1e9"))
    assert (
        message
        == "error: sparse of n=10, per_row=1,000,000,000 takes too long to count: give at most per_row=749,999\n"
    )
    message = failure(run("cost", "sparse", "--m", "2^24", "--sweep", "a.csv"))
    assert "takes too long to count: give at most n=" in message


@pytest.mark.slow
def test_what_may_be_counted_is_counted_in_time(monkeypatch) -> None:
    """The estimate is of the right order: a twelfth of what is allowed takes no longer than the whole."""
    from tcu.algorithms import costs

    monkeypatch.setattr(costs, "PATIENCE", costs.PATIENCE / 12)
    for m, options in ((256, {}), (256, {"per_row": 20}), (1 << 22, {}), (256, {"per_row": 3000})):
        with pytest.raises(ParameterError, match="takes too long") as refused:
            cost_of("sparse", 10**7, m, 0, **options)
        most = int(str(refused.value).rpartition("=")[2].replace(",", ""))
        start = time.process_time()
        cost_of("sparse", most, m, 0, **options)
        assert time.process_time() - start < 12 * costs.PATIENCE


def test_a_sweep_says_how_far_it_is(run, monkeypatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr("tcu.cli.costing.ProgressBar.advance", lambda self, count: seen.append(count))
    run("cost", "sparse", "--m", 16, "--n", 300, "--sweep", "a.csv")
    assert seen == [32, 64, 128, 256, 300]


def test_a_plot_of_huge_sizes(run, tmp_path) -> None:
    pytest.importorskip("plotly", reason='Plotly is not installed: pip install "tcu[plot]"')
    code, _, err = run(
        "cost", "matmul", "--n", "10^60", "--m", "10^50", "--sweep", "a.html", "--sweep", "a.csv"
    )
    assert (code, err) == (0, "")
    assert "1e+60" in (tmp_path / "a.html").read_text()
    with open(tmp_path / "a.csv", newline="") as file:
        assert int(list(csv.DictReader(file))[-1]["n"]) == 10**60


@pytest.mark.parametrize("name", ["points", "per_row", "chain"])
@pytest.mark.parametrize("value", [-1, 0, 1.5, "3", True, 10**61])
def test_options_are_whole_numbers(name: str, value: object) -> None:
    algorithm = {"points": "polynomial", "per_row": "sparse", "chain": "sum"}[name]
    limit = r"most 10\^60" if value == 10**61 else "least 1"
    with pytest.raises(ParameterError, match=rf"{name}=.*: give an integer of at {limit}"):
        cost_of(algorithm, 8, 16, 0, **{name: value})


def test_sizes_are_whole_numbers() -> None:
    for value in (-1, 0, 1.5, "3", True, None, -(10**5000)):
        with pytest.raises(ParameterError, match=r"n=.*: give an integer of at least 1: numbers"):
            cost_of("sum", value, 16, 0)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"n=about 10\^5000: give an integer of at most 10\^60: numbers"):
        cost_of("sum", 10**5000, 16, 0)


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("dft --n 2^64", "cost 4,171,423,726,534,853,280,256 on m = 256"),
        ("strassen --n 2^30 --m 1", "Theorem 1: "),
        ("polynomial --n 10 --points 0", "error: points=0: give an integer of at least 1"),
        ("matmul --n 1e7 --m 4", "cost 1,000,000,000,000,000,000,000"),
        ("integer --n 1e12", "cost 732,421,876,996,093,750,334"),
        ("dft --n 18446744073709551557", "Theorem 4: "),
        (
            "sparse --n 1e9",
            "error: sparse of n=1,000,000,000, per_row=2 takes too long to count: give at most n=",
        ),
    ],
)
def test_in_a_new_process_as_users_type_it(command: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tcu", "cost", *command.split()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert expected in done.stdout + done.stderr
    assert done.returncode == (2 if expected.startswith("error") else 0)


# ---- calibration ----


def measured(m: int, latency: float, unit: float, noise: float = 0.0) -> list[Sample]:
    side = int(m**0.5)
    rng = np.random.default_rng(m)
    return [
        Sample(n, s, unit * (n * s * max(1, s / side) + latency) * (1 + noise * rng.uniform(-1, 1)))
        for s in (16, 32, 64, 128)
        for n in (128, 1024, 8192, 65536)
    ]


@pytest.mark.parametrize("m", [256, 1024, 4096, 16384])
@pytest.mark.parametrize("latency", [0.0, 3e4])
def test_the_fit_finds_the_machine(m: int, latency: float) -> None:
    fit = fit_machine(measured(m, latency, 2e-10))
    assert fit.m == m
    assert fit.latency == pytest.approx(latency, abs=1e-3)
    assert fit.unit_seconds == pytest.approx(2e-10)
    assert fit.largest_error < 1e-9
    noisy = fit_machine(measured(m, latency, 2e-10, 0.05))
    assert noisy.m == m
    assert noisy.unit_seconds == pytest.approx(2e-10, rel=0.06)
    assert 0 < noisy.median_error < 0.06
    for sample in measured(m, latency, 2e-10):
        assert fit.seconds(sample.rows, sample.side) == pytest.approx(sample.seconds)


def test_a_fit_needs_measurements() -> None:
    with pytest.raises(ParameterError, match=r"16 samples of sides .*: measure at least six"):
        fit_machine([Sample(s.rows, 16, s.seconds) for s in measured(256, 0, 1e-9)])
    with pytest.raises(ParameterError, match="all of positive time"):
        fit_machine([Sample(s.rows, s.side, 0.0) for s in measured(256, 0, 1e-9)])


def test_the_time_of_a_step() -> None:
    step, start = fit_steps([StepSample(n, 3e-10 * n + 1e-6) for n in (100, 10_000, 10**6)])
    assert (step, start) == (pytest.approx(3e-10), pytest.approx(1e-6))


def test_calibrating_the_cpu_predicts_from_the_ledger() -> None:
    found = calibrate(Cpu(), quick=True)
    assert {one.algorithm for one in found.predictions} == {
        "matmul", "strassen", "dft", "sum", "polynomial", "integer",
    }  # fmt: skip
    for one in found.predictions:
        assert one.predicted == pytest.approx(one.cost * found.fit.unit_seconds)
        assert one.error == pytest.approx(one.predicted / one.seconds - 1)
        assert one.seconds > 0
    (matmul,) = [one for one in found.predictions if one.algorithm == "matmul"]
    machine = machine_module.Machine(found.fit.m, found.fit.latency, executor="count")
    machine.matmul(machine.shape((matmul.n, matmul.n)), machine.shape((matmul.n, matmul.n)))
    assert matmul.cost == pytest.approx(float(machine.cost))
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.fixture
def calibration(monkeypatch) -> Calibration:
    samples = tuple(measured(1024, 5000, 4e-10))
    fit = fit_machine(samples)
    made = Calibration(
        "a device", fit, 3e-10, 2e-7, samples, (Prediction("dft", 4096, 1e6, 7, 1e-3, 4e-4, 3e-4),)
    )
    monkeypatch.setattr("tcu.cli.calibrating.calibrate", lambda *_, **__: made)
    return made


def test_calibrate_on_the_command_line(run, calibration: Calibration, tmp_path) -> None:
    code, out, err = run("calibrate")
    assert (code, err) == (0, "")
    assert "m = 1,024, latency 5,000 (2 µs), unit of time 400 ps; 16 products" in out
    assert "dft" in out
    assert "-60%" in out
    assert "-70%" in out
    _, out, _ = run("calibrate", "--json")
    assert json.loads(out) == calibration.to_dict()
    pytest.importorskip("plotly", reason='Plotly is not installed: pip install "tcu[plot]"')
    code, *_ = run("calibrate", "--html", "c.html")
    page = (tmp_path / "c.html").read_text()
    assert code == 0
    assert "<script src=" not in page
    assert "m = 1,024" in page
    assert "measured seconds" in page


def test_calibrate_refuses_what_is_not_there(run, monkeypatch) -> None:
    assert "device 'tpu': choose cpu or gpu" in failure(run("calibrate", "tpu"))
    assert "calibrated in binary64; leave it out" in failure(run("calibrate", "cpu", "--input", "f16"))
    assert "there is no folder no" in failure(run("calibrate", "--html", "no/c.html"))
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ExtraMissingError, match="pip install cupy-cuda13x"):
        find_device("gpu")


def test_fits_are_what_they_say() -> None:
    fit = Fit(256, 10.0, 1e-9, (-0.5, 0.1, 0.2))
    assert (fit.median_error, fit.largest_error) == (0.2, 0.5)
