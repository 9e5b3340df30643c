"""The commands ``tcu cost`` and ``tcu calibrate``, as a user meets them.

Contract: ``tcu cost`` shows the ledger, the bound and their ratio of
:func:`tcu.algorithms.cost_of`, the same in ``--json``; a sweep is the curve in
the format of its file's name, and a plot is one page that loads nothing.
``tcu calibrate`` shows the fitted machine and predictions of
:func:`tcu.calibration.calibrate`.  Bad input gives one line on stderr that
begins with "error: ", exit code 2, and never a traceback.
"""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest

from tcu.algorithms import COSTS, cost_of
from tcu.algorithms import machine as machine_module
from tcu.calibration import Calibration, Fit, Prediction, Sample, calibrate, fit_machine
from tcu.calibration.devices import Cpu, find_device
from tcu.calibration.fit import StepSample, fit_steps
from tcu.cli import main
from tcu.cli.costing import latency_of, whole
from tcu.errors import MissingPackageError, ParameterError


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
    ],
)
def test_bad_input(run, arguments, message: str) -> None:
    assert message in failure(run("cost", *arguments))


def test_numbers_on_the_command_line() -> None:
    assert [whole("--n", text) for text in ("12", "1_000", "2^20", "1e6", "10^3", "0")] == [
        12,
        1000,
        1 << 20,
        10**6,
        1000,
        0,
    ]
    for text in ("", "-1", "1.5", "2^", "e5", "2**3"):
        with pytest.raises(ParameterError, match="--n"):
            whole("--n", text)
    assert [latency_of(text) for text in ("64", "2^6", "0.5")] == [64, 64, 0.5]


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
    monkeypatch.setattr("tcu.calibration.calibrate", lambda *_, **__: made)
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
    with pytest.raises(MissingPackageError, match="pip install cupy-cuda13x"):
        find_device("gpu")


def test_fits_are_what_they_say() -> None:
    fit = Fit(256, 10.0, 1e-9, (-0.5, 0.1, 0.2))
    assert (fit.median_error, fit.largest_error) == (0.2, 0.5)
