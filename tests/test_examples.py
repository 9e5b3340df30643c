"""Contract: every example runs as it is, and shows what its first lines promise.

The documentation lists each of them and runs them with what is shown; here
their claims are checked: an exact sum knows no order, and errs least.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def run(name: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_documentation_lists_every_example() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    for name in EXAMPLES:
        assert f"`examples/{name}`" in page
        assert f"$ python examples/{name}" in page


@pytest.mark.slow
def test_the_integral_depends_on_the_order_unless_the_sum_is_exact() -> None:
    rows = {line[:28].strip(): line[28:].split() for line in run("monte_carlo.py", "--samples", "200000")[2:]}
    assert int(rows["one after another, float32"][2]) > int(rows["numpy.mean, float32"][2]) > 1
    assert int(rows["tcu.fmean"][2]) == 1
    errors = {name: float(row[1]) for name, row in rows.items()}
    assert min(errors.values()) == errors["tcu.fmean"] < errors["one after another, float32"]


@pytest.mark.slow
def test_the_energy_drifts_with_the_sum() -> None:
    lines = run("nbody_energy.py", "--bodies", "150", "--steps", "10")
    rows = {line[:28].strip(): [float(word) for word in line[28:].split()] for line in lines[2:]}
    assert rows["exact"][0] == 0
    assert rows["tcu.fsum"][0] <= min(row[0] for name, row in rows.items() if name != "exact")
    assert rows["one after another, float32"][0] > 4 * rows["tcu.fsum"][0]


@pytest.mark.slow
@pytest.mark.parametrize("tokens", ["10", "70"])
def test_logits_of_a_decoder_do_not_depend_on_the_batch(tokens: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    lines = run("batch_invariant_decoder.py", "--width", "16", "--layers", "1", "--tokens", tokens)
    for name, line in zip(("in a batch of 2", "in a batch of 32", "token by token"), lines, strict=False):
        assert line == f"{name}: 0 of {97 * int(tokens)} logits differ"


@pytest.mark.slow
def test_running_sums_by_a_plan_draw_the_tokens_that_exact_ones_draw() -> None:
    rows = {line[:28].strip(): line[28:].split() for line in run("softmax_sampling.py", "--rows", "300")[2:]}
    errors = {name: float(row[0]) for name, row in rows.items()}
    assert errors["tcu.cumsum, float64"] < errors["tcu.cumsum"] < errors["one after another, float32"]
    assert errors["tcu.cumsum"] < 2.0**-23
    assert int(rows["tcu.cumsum, float64"][1]) == 0


def test_loss_curves_agree_where_sums_are_exact() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    plain, exact = run("loss_curves.py", "--samples", "500", "--steps", "20")
    assert "differ from step" in plain
    assert "agree bit for bit" in exact


def test_sums_by_index_know_no_order() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    plain, exact = run("scattered_sums.py", "--edges", "4000", "--orders", "3")
    assert "messages 3 different, embedding 3 different" in plain
    assert "messages 1 different, embedding 1 different" in exact


@pytest.mark.slow(1)
@pytest.mark.parametrize("digits", ["1000", "10000"])
def test_digits_of_pi_have_the_digest_of_another_library(digits: str) -> None:
    lines = run("pi_digits.py", "--digits", digits)
    assert "3.14159265358979323846 ..." in lines[0]
    assert lines[1].endswith(": mpmath's, too")


def test_signatures_come_back() -> None:
    assert run("rsa_batch.py", "--bits", "512", "--messages", "7")[1].startswith("7 of them come back")


@pytest.mark.slow
def test_spectra_of_a_real_data_set_have_the_same_bits_in_every_batch() -> None:
    lines = run("co2_spectrum.py", "--length", "416")
    assert lines[1].endswith("exact")
    periods = [float(word) for word in lines[2].replace(",", "").split() if word[0].isdigit()]
    assert periods == pytest.approx([52.2, 26.1], rel=0.03), "a year, and half of one"
    compared = [line.split(": ")[1] for line in lines[3:] if "none here" not in line]
    assert len(compared) >= 4
    assert all(line.startswith("0 of ") for line in compared)
