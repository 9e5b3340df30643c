"""Contract of launch configurations: data that change speed, never bits.

Shipped rows are sound; a user's own lie over them, and a file that holds
anything else is ignored with one warning.  Values out of range are named.
Without a row a formula fills a multiprocessor.  The search takes a new
configuration only where it is faster beyond doubt, and reports two that
return different bits (one is planted here).  What it asks of the driver is
played by a clock that knows how long each launch takes.

The table of paper 002's algorithms, measured anew: each length has the first
that is within 2 % of the fastest, wrong sums of every kind are reported, and
nothing that is found changes what variant="paper-002" stands for.
"""

from __future__ import annotations

import ctypes
import json
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu_support import gpu_or_skip, unit_or_skip

import tcu.gpu.tune as search
from tcu.calibration import paper_002
from tcu.cli import main
from tcu.errors import DataFileError, ParameterError
from tcu.formats import get_format
from tcu.gpu import Gpu, NoGpuError, TuningError, TuningWarning, device, tuning, turns
from tcu.gpu.configs import MEASURED, SIZES, ShortSegmentsConfig
from tcu.gpu.tune import Case, Choice, Tuning, choose
from tcu.gpu.tuning import (
    ELEMENTS,
    KERNELS,
    Config,
    ExactConfig,
    SumConfig,
    TuningRow,
    exact_config,
    read_rows,
    save_row,
    sum_config,
)
from tcu.model.rows import execute_rows
from tcu.plan import Plan, make_dot_plan, make_plan
from tcu.plan.segmented import ALGORITHMS, best_algorithm
from tcu.units import get_unit

H200 = (9, 0)
HALF, DOUBLE = get_format("binary16"), get_format("binary64")
PLAN = make_plan(1 << 20, HALF, get_unit("H100"))
DOT = make_dot_plan(1 << 20, HALF)
ROW = TuningRow(
    "My GPU", "2026-11-20", {"tcu": "0.1.0"}, "tcu tune", 100,
    {("sum", "binary16", "small"): SumConfig(2, 3), ("exact", "binary64", "large"): ExactConfig(128, 4, 8, 32)},
)  # fmt: skip


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's file, in a folder of the test's own."""
    monkeypatch.setenv("TCU_CACHE_DIR", str(tmp_path / "data"))
    yield tuning.user_file()
    tuning._of_user.cache_clear()
    tuning._overlaid.cache_clear()


# Values


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SumConfig(3, 4), "unroll = 3: choose 1, 2, 4 or 8"),
        (lambda: SumConfig(True, 4), "unroll = True: choose"),
        (lambda: SumConfig(4, 17), "resident = 17: choose a whole number from 1 to 16"),
        (lambda: SumConfig(4, 0), "resident = 0"),
        (lambda: SumConfig(4, "8"), "resident = '8'"),  # type: ignore[arg-type]
        (lambda: ExactConfig(100, 4, 4, 64), "threads = 100: choose a multiple of 32"),
        (lambda: ExactConfig(2048, 4, 1, 64), "threads = 2048: .* up to 1024"),
        (lambda: ExactConfig(256, 4, 4, 256), "loads = 256: choose a power of two up to 128"),
        (lambda: ExactConfig(256, 4, 4, 48), "loads = 48: choose a power of two"),
        (lambda: ExactConfig(256, 8, 4, 4), "loads = 4: choose a multiple of unroll = 8"),
        (
            lambda: ShortSegmentsConfig((10, 20), (16, 16), (1024, 2048), (24, 18), -4, 9),
            "data = -4: choose numbers from 0",
        ),
        (
            lambda: ShortSegmentsConfig((10, "20"), (16, 16), (1024, 2048), (24, 18), 4, 9),  # type: ignore[arg-type]
            r"means = \(10, '20'\): choose numbers",
        ),
    ],
)
def test_values_out_of_range_are_named(make: Callable[[], Config], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


# Rows


def test_the_row_of_the_h200_is_complete() -> None:
    row = tuning._shipped()["9.0"]
    assert "H200" in row.gpu
    assert row.resident_blocks == 132 * 8
    assert set(row.configs) == {
        (name, element, size)
        for name, kind in KERNELS.items()
        for element in kind.elements
        for size in kind.sizes
    }


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name not in MEASURED])
def test_an_h200s_values_stand_in_where_nobody_has_tuned(own: Path, kernel: str) -> None:
    kind = KERNELS[kernel]
    for element in kind.elements:
        shipped = tuning._shipped()["9.0"].configs[kernel, element, "any"]
        assert tuning.config(kind, H200, element) == tuning.config(kind, (8, 0), element) == shipped
    name, value = next(iter(vars(shipped).items()))
    other = replace(shipped, **{name: value[:-1] if isinstance(value, tuple) else value + 1})
    save_row(own, (8, 0), replace(ROW, configs={(kernel, element, "any"): other}))
    assert tuning.config(kind, (8, 0), element) == other
    assert tuning.config(kind, H200, element) == shipped


def test_size_and_kernel_choose_the_configuration() -> None:
    configs = tuning._shipped()["9.0"].configs
    assert sum_config(H200, PLAN, 264) == configs["sum", "binary16", "tiny"]
    assert sum_config(H200, PLAN, 265) == configs["sum", "binary16", "small"]
    assert sum_config(H200, PLAN, 1056) == configs["sum", "binary16", "small"]
    assert sum_config(H200, PLAN, 1057) == configs["sum", "binary16", "large"]
    assert sum_config(H200, DOT, 1057) == configs["dot", "binary16", "large"]
    n = 1056 * 8 * 256 * 16 // 8
    assert exact_config(H200, DOUBLE, n) == configs["exact", "binary64", "small"]
    assert exact_config(H200, DOUBLE, n + 1) == configs["exact", "binary64", "large"]


def test_without_a_row_a_formula_fills_a_multiprocessor() -> None:
    a100, t4 = (8, 0), (7, 5)
    assert sum_config(a100, PLAN, 5000) == SumConfig(4, 8)
    assert sum_config(a100, DOT, 5000) == SumConfig(4, 4)
    assert sum_config(t4, PLAN, 5000) == SumConfig(4, 4)
    assert exact_config(a100, HALF, 1 << 20) == ExactConfig(256, 4, 4, 64)
    assert (
        exact_config(a100, HALF, 1 << 20, True)
        == exact_config(H200, HALF, 9, True)
        == ExactConfig(256, 4, 2, 64)
    )
    for block in (32, 64, 96, 512, 1024):  # a row is for B = 256
        plan = make_plan(1 << 20, HALF, get_unit("H100"), block=block)
        assert sum_config(H200, plan, 5000) == SumConfig(4, min(8, 2048 // block))


def test_own_results_lie_over_the_shipped_rows(own: Path) -> None:
    shipped = tuning._shipped()["9.0"].configs
    save_row(own, H200, ROW)
    assert sum_config(H200, PLAN, 100) == SumConfig(2, 3)
    assert sum_config(H200, PLAN, 101) == shipped["sum", "binary16", "large"]
    assert exact_config(H200, DOUBLE, 1 << 30) == ExactConfig(128, 4, 8, 32)
    assert sum_config((8, 0), PLAN, 100) == SumConfig(4, 8)
    save_row(own, (8, 0), ROW)
    assert sum_config((8, 0), PLAN, 100) == SumConfig(2, 3)
    assert read_rows(own) == {"8.0": ROW, "9.0": ROW}
    assert [path.name for path in own.parent.iterdir()] == ["tuning.json"]
    assert len(own.read_text().splitlines()) < 50  # a line for each configuration


DAMAGED = {
    "cut": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "foreign": lambda text: '["another program"]',
    "value": lambda text: text.replace('"unroll": 2', '"unroll": 5'),
    "name": lambda text: text.replace('"unroll": 2', '"unrol": 2'),
    "element": lambda text: text.replace("binary16", "binary17"),
    "blocks": lambda text: text.replace(": 100", ": 0"),
    "gpu": lambda text: text.replace('"My GPU"', "7"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_ignored_with_one_warning(own: Path, damage: str) -> None:
    save_row(own, H200, ROW)
    text = own.read_text()
    own.write_text(DAMAGED[damage](text))
    assert own.read_text() != text
    with pytest.warns(TuningWarning) as told:
        found = [sum_config(capability, PLAN, 100) for capability in (H200, (8, 0))]
    assert found == [tuning._shipped()["9.0"].configs["sum", "binary16", "tiny"], SumConfig(4, 8)]
    assert len(told) == 1
    assert str(told[0].message).startswith(f"{own} is not tuning data (")
    assert str(told[0].message).endswith(
        "): remove it, or let tcu tune write it anew; until then it is ignored"
    )
    save_row(own, H200, ROW)
    assert read_rows(own) == {"9.0": ROW}


def test_a_file_that_cannot_be_read_or_written(own: Path, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"cannot read .*remove it"):
        read_rows(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFileError, match=r"cannot write .*choose another place with --output"):
        save_row(tmp_path / "file" / "tuning.json", H200, ROW)
    own.mkdir(parents=True)
    with pytest.raises(DataFileError, match="cannot write"):
        save_row(own, H200, ROW)
    assert list(own.parent.iterdir()) == [own]


def test_without_a_folder_given_it_is_the_user_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    monkeypatch.delenv("TCU_CACHE_DIR")
    assert tuning.user_file() == Path(platformdirs.user_data_dir("tcu")) / "tuning.json"


# The choice


CASE = Case("sum", "binary16", "small", 1 << 20)
PRESENT, FAST, SLOW = SumConfig(4, 8), SumConfig(8, 4), SumConfig(2, 2)


class FakeMachine:
    """Knows how long each configuration takes, and adds noise of its own."""

    def __init__(self, seconds: dict[Config, float], noise: float = 0.001, drift: float = 0.0) -> None:
        self.seconds, self.noise, self.drift = seconds, noise, drift
        self.bits = dict.fromkeys(seconds, b"\x3f\xf0")
        self.prepared: list[tuple[Case, Config]] = []
        self.rng = np.random.default_rng(1)
        self.asked: list[tuple[int, int]] = []

    def present(self, case: Case) -> Config:
        return PRESENT

    def prepare(self, case: Case, config: Config) -> None:
        self.prepared.append((case, config))

    def results(self, case: Case, configs: Sequence[Config]) -> list[bytes]:
        return [self.bits[config] for config in configs]

    def times(self, case: Case, configs: Sequence[Config], rounds: int) -> list[list[float]]:
        self.asked.append((len(configs), rounds))
        return [
            [
                self.seconds[config] * (1 + self.drift * turn) * (1 + self.noise * self.rng.standard_normal())
                for config in configs
            ]
            for turn in range(rounds)
        ]


def test_the_fastest_is_chosen() -> None:
    machine = FakeMachine({PRESENT: 1e-5, FAST: 0.9e-5, SLOW: 2e-5})
    choice = choose(CASE, machine, [SLOW, FAST, PRESENT], 15, 61)
    assert (choice.present, choice.chosen, choice.tried) == (PRESENT, FAST, 3)
    assert choice.gain == pytest.approx(1 / 9, abs=0.002)
    assert choice.chosen_seconds == pytest.approx(0.9e-5, rel=0.002)
    assert machine.asked == [(3, 15), (2, 61)]


@pytest.mark.parametrize(
    ("fast", "noise"), [(0.997e-5, 1e-6), (0.97e-5, 0.1), (1.1e-5, 0.001)], ids=["little", "noisy", "slower"]
)
def test_the_present_one_stays_unless_another_is_faster_beyond_doubt(fast: float, noise: float) -> None:
    for _ in range(20):
        choice = choose(CASE, FakeMachine({PRESENT: 1e-5, FAST: fast}, noise), [FAST])
        assert choice.chosen == PRESENT


def test_a_drift_decides_nothing() -> None:
    machine = FakeMachine({PRESENT: 1e-5, FAST: 0.98e-5}, 0.0001, drift=0.01)
    assert choose(CASE, machine, [FAST]).chosen == FAST
    assert (
        choose(CASE, FakeMachine({PRESENT: 1e-5, FAST: 1.02e-5}, 0.0001, drift=0.01), [FAST]).chosen
        == PRESENT
    )


def test_different_bits_are_an_error_that_names_both() -> None:
    machine = FakeMachine({PRESENT: 1e-5, FAST: 0.9e-5, SLOW: 2e-5})
    machine.bits[SLOW] = b"\x3f\xf1"
    with pytest.raises(TuningError) as told:
        choose(CASE, machine, [FAST, SLOW])
    assert str(told.value) == (
        "sum of binary16, small: SumConfig(unroll=4, resident=8) returns 0x3ff0 and SumConfig(unroll=2, resident=2) "
        "returns 0x3ff1, which must be the same bits: please report it; no configuration was stored"
    )
    assert machine.asked == []


@pytest.mark.parametrize("threads", [1024, 1536, 2048])
@pytest.mark.parametrize("quick", [False, True])
def test_candidates_differ_and_fit(threads: int, quick: bool) -> None:
    for kernel in MEASURED:
        for size in SIZES:
            found: list[Any] = KERNELS[kernel].candidates(size, threads, quick)
            assert len(set(found)) == len(found)
            assert all(config.resident * getattr(config, "threads", 256) <= threads for config in found)
            assert len(found) >= (2 if quick else 8)
    assert len(SumConfig.candidates("small", 2048, False)) == 18


def test_every_kernel_is_compiled_once() -> None:
    cases = [Case("sum", "binary16", "small", 1 << 20), Case("sum", "binary16", "large", 1 << 26)]
    configs = SumConfig.candidates("small", 2048, False)
    machine = FakeMachine(dict.fromkeys([PRESENT, *configs], 1e-5))
    told: list[tuple[int, int]] = []
    choices = search.search(machine, cases, 2048, False, lambda *step: told.append(step))
    assert [choice.case for choice in choices] == cases
    assert (
        len({config for _, config in machine.prepared}) == len(machine.prepared) == len({PRESENT, *configs})
    )
    assert told == sorted(told)
    assert told[-1] == (54, 54)


# The driver, played


class FakeDriver:
    """A GPU with a clock: fills and launches move it on, events read it."""

    FILL, LAUNCH = 1e-4, {8: 1e-5, 4: 2e-5, 2: 3e-5}

    def __init__(self) -> None:
        self.now = 0.0
        self.alive: dict[int, int] = {}
        self.addresses = iter(range(1 << 40, 1 << 50, 1 << 36))
        self.order: list[Any] = []
        self.result = b"\0" * 8

    def call(self, function: str, *given: Any) -> Any:
        return getattr(self, function)(*given)

    def cuDeviceGet(self, ordinal: int) -> int:
        return ordinal

    def cuDeviceGetAttribute(self, attribute: str, device: int) -> int:
        return {"multiprocessors": 10, "threads": 2048}[attribute]

    def cuMemGetInfo(self) -> tuple[int, int]:
        return 40 << 20, 80 << 20

    def cuMemAlloc(self, size: int) -> int:
        self.alive[address := next(self.addresses)] = size
        return address

    def cuMemFree(self, address: int) -> None:
        del self.alive[address]

    def cuStreamCreate(self, flag: int) -> int:
        self.alive[7] = 0
        return 7

    def cuStreamDestroy(self, stream: int) -> None:
        del self.alive[stream]

    def cuEventCreate(self, flag: int) -> list[float]:
        self.alive[id(event := [0.0])] = 0
        return event

    def cuEventDestroy(self, event: list[float]) -> None:
        del self.alive[id(event)]

    def cuEventRecord(self, event: list[float], stream: int) -> None:
        event[0] = self.now
        self.order.append("event")

    def cuEventElapsedTime(self, begin: list[float], end: list[float]) -> float:
        return 1e3 * (end[0] - begin[0])

    def cuMemsetD8Async(self, address: int, value: int, size: int, stream: int) -> None:
        assert size <= self.alive[address]
        if size > 8:
            self.now += self.FILL
            self.order.append("fill")

    def cuMemcpyHtoD(self, address: int, host: int, size: int) -> None:
        self.filled = (address, size)

    def cuMemcpyDtoDAsync(self, target: int, source: int, size: int, stream: int) -> None:
        address, filled = self.filled
        if target in self.alive:  # the array of its own that lies in L2
            assert size <= min(self.alive[target], filled)
            return
        assert (source, target) == (address, address + filled)
        assert size <= filled
        self.filled = (address, filled + size)

    def cuStreamSynchronize(self, stream: int) -> None:
        pass

    def cuCtxSynchronize(self) -> None:
        pass

    def cuDriverGetVersion(self) -> int:
        return 13020

    def launch(self, config: Config) -> None:
        self.now += self.LAUNCH[config.unroll]
        self.order.append(config)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()

    class Launch:
        def __init__(self, recipe: Any, gpu: Gpu) -> None:
            self.config, self.product = recipe

        def start(self, x: int, y: int, out: int, stream: int) -> None:
            assert (x == y) == (not self.product)
            assert fake.alive[out] == 8
            assert stream == 7
            fake.launch(self.config)

    names = SimpleNamespace(
        CUdevice_attribute=SimpleNamespace(
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="multiprocessors",
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR="threads",
        ),
        CUstream_flags=SimpleNamespace(CU_STREAM_NON_BLOCKING=1),
    )
    for module in (search, turns, device):
        monkeypatch.setattr(module, "call", fake.call)
    for module in (turns, device):
        monkeypatch.setattr(module, "cuda_module", lambda name: names)
    monkeypatch.setattr(search, "find_gpu", lambda ordinal: Gpu(ordinal, "Fake GPU", H200))
    monkeypatch.setattr(search, "current", lambda gpu: warnings.catch_warnings())
    monkeypatch.setattr(search, "read", lambda address, size: fake.result)
    monkeypatch.setattr(search, "compiler_version", lambda: (13, 1))
    for recipe in ("sum_recipe", "exact_recipe"):
        monkeypatch.setattr(search, recipe, lambda *given, product=False: (given[-1], product))
    monkeypatch.setattr(search, "Launch", Launch)
    return fake


def test_the_search_from_end_to_end(driver: FakeDriver) -> None:
    found = search.tune(quick=True, command="tcu tune --quick")
    assert driver.alive == {}
    row = found.row
    assert (row.gpu, row.command, row.resident_blocks) == ("Fake GPU", "tcu tune --quick", 80)
    assert row.versions["cuda"] == "13.2"
    assert set(row.configs) == {each for each in tuning._shipped()["9.0"].configs if each[0] in MEASURED}
    for choice in found.choices:
        assert choice.chosen.unroll == 8
        assert choice.chosen_seconds == pytest.approx(1e-5)
        assert choice.chosen == choice.present or choice.gain == pytest.approx(1)


def test_candidates_take_turns_behind_the_fills(driver: FakeDriver) -> None:
    case = Case("sum", "binary16", "small", 1 << 20)
    configs = [SumConfig(8, 4), SumConfig(4, 4)]
    with search._GpuMachine(Gpu(0, "Fake GPU", H200), 8 << 20) as machine:
        assert machine.results(case, configs) == [b"\0" * 8] * 2
        driver.order.clear()
        taken = machine.times(case, configs, 3)
        assert taken == [pytest.approx([1e-5, 2e-5])] * 3
        rounds = [list(order) for order in split(driver.order)]
        assert len(rounds) == 5
        fast, slow = configs
        timed = ["event", *[fast] * 16, "event", slow, "event", *[slow] * 16, "event"]
        for order in rounds:
            fills = order.count("fill")
            assert order == ["event", *["fill"] * fills, "event", fast, fast, *timed]
        assert rounds[-1].count("fill") >= 1


def split(order: list[Any]) -> Iterator[list[Any]]:
    """The rounds, each of 6 events."""
    current: list[Any] = []
    for one in order:
        current.append(one)
        if current.count("event") == 6:
            yield current
            current = []
    assert not current


def test_too_little_memory_says_how_much(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "cuMemGetInfo", lambda: (10 << 20, 80 << 20))
    with pytest.raises(
        TuningError, match=r"Fake GPU has 10 MB of memory free, the search needs 21 MB: end other"
    ):
        search.tune()


# The command


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["tune", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("columns", [80, 120])
def test_the_command_stores_what_it_found(
    driver: FakeDriver,
    own: Path,
    columns: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, err = run(capsys, "--quick")
    assert (code, err) == (0, "")
    assert "Fake GPU, compute capability 9.0" in out
    assert "4→8" in out
    assert "+100.0 %" in out
    assert "all returned the same bits" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= columns
    assert "…" not in out
    assert read_rows(own)["9.0"].command == "tcu tune --quick"
    assert sum_config(H200, PLAN, 1).unroll == 8


def test_the_command_writes_json_and_another_file(
    driver: FakeDriver, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    save_row(file, (8, 0), ROW)
    code, out, err = run(capsys, "--quick", "--json", "--output", str(file))
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["gpu"], document["compute_capability"]) == ("Fake GPU", "9.0")
    assert len(document["choices"]) == len(MEASURED) * len(ELEMENTS) * len(SIZES)
    assert not own.exists()
    rows = read_rows(file)
    assert rows["8.0"] == ROW
    for choice in document["choices"]:
        stored = rows["9.0"].configs[choice["kernel"], choice["element"], choice["size"]]
        assert stored == KERNELS[choice["kernel"]](**choice["chosen"])


def test_the_command_stores_nothing_where_bits_differ(
    driver: FakeDriver, own: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(range(1 << 20))
    monkeypatch.setattr(search, "read", lambda address, size: next(answers).to_bytes(8, "little"))
    code, out, err = run(capsys, "--quick")
    assert (code, out) == (2, "")
    assert "must be the same bits" in err
    assert not own.exists()


def test_the_command_refuses_a_file_of_another_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear reader")
    code, _, err = run(capsys, "--output", str(file))
    assert code == 2
    assert "letter.txt is not tuning data" in err
    assert file.read_text() == "Dear reader"
    code, _, err = run(capsys, "--output", str(tmp_path / "none" / "rows.json"))
    assert code == 2
    assert "there is no folder" in err


def test_the_command_without_a_gpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own: Path
) -> None:
    def none(ordinal: int) -> Gpu:
        raise NoGpuError("no NVIDIA driver on this machine: install NVIDIA's driver")

    monkeypatch.setattr(search, "find_gpu", none)
    code, out, err = run(capsys)
    assert (code, out) == (2, "")
    assert err == "error: no NVIDIA driver on this machine: install NVIDIA's driver\n"
    assert not own.exists()


# The algorithms of paper 002: --paper-002

FIRST, SECOND, THIRD, LAST = ALGORITHMS


def alike(**others: float) -> dict[str, float]:
    """Seconds by algorithm: one of each, but for those that are given, by what follows "reduction-"."""
    return dict.fromkeys(ALGORITHMS, 1.0) | {f"reduction-{name[1:]}": each for name, each in others.items()}


def test_the_first_within_2_percent_of_the_fastest_is_chosen() -> None:
    assert paper_002.fastest(alike()) == FIRST
    assert paper_002.fastest(alike(_16=1.0199)) == FIRST
    assert paper_002.fastest(alike(_16=1.0201)) == SECOND
    assert paper_002.fastest(alike(_16=2.0, _256=1.01, _256n=0.985)) == THIRD
    assert paper_002.fastest(alike(_16=0.5)) == FIRST
    assert paper_002.fastest({**alike(), LAST: 0.5}) == LAST


def test_a_table_has_one_row_for_neighbours_that_are_alike_and_no_end() -> None:
    slow = alike(_16=2.0)
    seconds = {64: slow, 16: alike(), 32: alike(), 128: slow, 256: alike(), 512: alike(_16=2.0, _256=2.0)}
    assert paper_002.choose(seconds) == ((32, FIRST), (128, SECOND), (256, FIRST), (None, THIRD))
    assert paper_002.choose({16: alike(), 32: alike()}) == ((None, FIRST),)
    assert paper_002.choose({16: slow}) == ((None, SECOND),)


def test_lengths_are_those_of_the_paper_s_figure() -> None:
    assert paper_002.lengths_of(paper_002.COUNT) == [1 << power for power in range(4, 31)]
    assert paper_002.lengths_of(paper_002.QUICK_COUNT, quick=True) == [
        1 << power for power in range(4, 27, 2)
    ]


class AlgorithmsDriver(FakeDriver):
    """A GPU that sums 2^10 numbers, which repeat after 2^7, by the model; from 64 on reduction-256n is the fastest."""

    free = 1 << 40

    def __init__(self) -> None:
        super().__init__()
        self.launched: dict[tuple[str, int], bytes] = {}
        self.spoil: Callable[[np.ndarray, str, int], Any] = lambda sums, algorithm, length: None

    def cuMemGetInfo(self) -> tuple[int, int]:
        return self.free, self.free

    def cuMemcpyHtoD(self, address: int, host: int, size: int) -> None:
        super().cuMemcpyHtoD(address, host, size)
        self.numbers = np.frombuffer(ctypes.string_at(host, size), np.float16)

    def start(self, plan: Plan, rows: int) -> None:
        faster = plan.n >= 64 and plan.variant == THIRD
        self.now += 0.9e-5 if faster else 1e-5 + 1e-7 * ALGORITHMS.index(plan.variant)
        asked = plan.variant, plan.n
        if asked not in self.launched:
            whole = np.tile(self.numbers, rows * plan.n // len(self.numbers)).reshape(rows, plan.n)
            sums = execute_rows(plan, whole, get_unit("H200")).astype(np.float32)
            self.spoil(sums, *asked)
            self.launched[asked] = sums.tobytes()
        self.result = self.launched[asked]


@pytest.fixture
def algorithms(monkeypatch: pytest.MonkeyPatch) -> AlgorithmsDriver:
    fake = AlgorithmsDriver()

    class Launch:
        def __init__(self, recipe: Any, gpu: Gpu) -> None:
            self.plan, self.rows = recipe.plan, recipe.rows

        def start(self, x: int, other: int, out: int, stream: int) -> None:
            assert (fake.alive[x], fake.alive[out], stream) == (2 * paper_002.COUNT, paper_002.COUNT // 4, 7)
            fake.start(self.plan, self.rows)

    def recipe(plan: Plan, x: Any, layout: str, rows: int, stride: int, *rest: Any) -> Any:
        assert (x.n, layout, stride, rows * plan.n) == (paper_002.COUNT, "ALIGNED", plan.n, x.n)
        kernel = SimpleNamespace(macros={"ALGORITHM": plan.variant})
        return SimpleNamespace(kernels=[kernel], plan=plan, rows=rows)

    names = SimpleNamespace(CUstream_flags=SimpleNamespace(CU_STREAM_NON_BLOCKING=1))
    for module in (paper_002, turns):
        monkeypatch.setattr(module, "call", fake.call)
    monkeypatch.setattr(turns, "cuda_module", lambda name: names)
    monkeypatch.setattr(paper_002, "find_gpu", lambda ordinal: Gpu(ordinal, "Fake H200", H200))
    monkeypatch.setattr(paper_002, "current", lambda gpu: warnings.catch_warnings())
    monkeypatch.setattr(paper_002, "read", lambda address, size: fake.result)
    monkeypatch.setattr(paper_002, "segmented_recipe", recipe)
    monkeypatch.setattr(paper_002, "Launch", Launch)
    for name, value in (("COUNT", 1 << 10), ("QUICK_COUNT", 1 << 10), ("PERIOD", 1 << 7)):
        monkeypatch.setattr(paper_002, name, value)
    return fake


def test_every_algorithm_is_measured_at_every_length(algorithms: AlgorithmsDriver) -> None:
    told: list[tuple[int, int]] = []
    found = paper_002.measure(progress=lambda *step: told.append(step))
    assert algorithms.alive == {}
    assert set(algorithms.launched) == {(name, 1 << power) for name in ALGORITHMS for power in range(4, 11)}
    assert found.count == 1 << 10
    assert found.table == ((32, FIRST), (None, THIRD))
    assert found.times[16] == pytest.approx({name: 1e-5 + 1e-7 * i for i, name in enumerate(ALGORITHMS)})
    assert found.times[1024][THIRD] == pytest.approx(0.9e-5)
    assert told == [(done, 4 + 7) for done in range(1, 12)], (
        "four kernels are compiled, seven lengths measured"
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_the_command_prints_both_tables_and_stores_nothing(
    algorithms: AlgorithmsDriver, own: Path, columns: int, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", str(columns))
    before = [best_algorithm(1 << power) for power in range(31)]
    code, out, err = run(capsys, "--paper-002")
    assert (code, err) == (0, "")
    assert "Fake H200, compute capability 9.0: 1,024 numbers" in out
    rows = [line.split() for line in out.splitlines() if "reduction-" in line and "variant" not in line]
    assert [row[:2] for row in rows] == [
        [f"{1 << power:,}", FIRST if power < 6 else THIRD] for power in range(4, 11)
    ]
    assert rows[0][3:] == [FIRST, "–"]
    assert rows[-1][3:] == [FIRST, "+11.1", "%"]
    words = " ".join(out.split())
    assert "the first algorithm within 2 % of the fastest: at 5 of 7 lengths another one" in words
    assert 'variant="paper-002" keeps the built-in table on every GPU, for its bits depend on it.' in words
    # All that differ lose alike, but for the rounding of times: any may be the worst.
    worst = re.search(r'name the algorithm: variant="reduction-256n" for segments of ([\d,]+)\.', words)
    assert worst is not None
    assert worst[1] in {f"{1 << power:,}" for power in range(6, 11)}
    assert max(map(len, out.splitlines())) <= columns
    assert "…" not in out
    assert "Stored" not in out
    assert not own.parent.exists()
    assert [best_algorithm(1 << power) for power in range(31)] == before


def test_long_names_of_algorithms_are_folded_and_not_cut(
    algorithms: AlgorithmsDriver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("tcu.cli.tuning.fastest", lambda times: LAST)
    monkeypatch.setattr("tcu.cli.tuning.best_algorithm", lambda n: LAST)
    code, out, _ = run(capsys, "--paper-002")
    assert code == 0
    assert "at 0 of 7 lengths" in " ".join(out.split())
    assert "name the algorithm" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_the_table_is_written_as_the_built_in_one_is(
    algorithms: AlgorithmsDriver, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "table.json"
    code, out, err = run(capsys, "--paper-002", "--quick", "--json", "--output", str(file))
    assert (code, err) == (0, "")
    table, document = json.loads(file.read_text()), json.loads(out)
    assert table == {
        "source": f"tcu tune --paper-002 --quick on Fake H200, {date.today().isoformat()}",
        "choice": [{"up_to": 16, "algorithm": FIRST}, {"up_to": None, "algorithm": THIRD}],
    }
    assert table == {name: document[name] for name in table}
    assert (document["file"], document["numbers"], document["gpu"]) == (str(file), 1 << 10, "Fake H200")
    assert [one["length"] for one in document["lengths"]] == [16, 64, 256, 1024], "every other length"
    assert document["lengths"][0]["chosen"] == document["lengths"][0]["built_in"] == FIRST
    assert document["lengths"][-1]["seconds"][THIRD] == pytest.approx(0.9e-5)
    assert not own.exists()
    code, out, _ = run(capsys, "--paper-002", "--output", str(file))
    assert code == 0
    assert "Stored in" in out
    assert json.loads(file.read_text())["source"].startswith("tcu tune --paper-002 on Fake H200")


def one_ulp(at: int, algorithm: str, length: int) -> Callable[[np.ndarray, str, int], None]:
    """Spoils one sum of that algorithm and length, and all like it unless it is beyond the first 2^7 numbers."""

    def spoil(sums: np.ndarray, name: str, n: int) -> None:
        if (name, n) == (algorithm, length):
            wrong = sums[at:] if at * n >= 1 << 7 else sums[at :: max(1, (1 << 7) // n)]
            wrong[...] = np.nextafter(wrong, np.float32(np.inf))

    return spoil


def far_off(sums: np.ndarray, name: str, n: int) -> None:
    if n == 1 << 9:
        sums += 1


WRONG = {
    "model": (
        one_ulp(3, SECOND, 16),
        rf"{SECOND}, segments of 16: the sum of segment 3 is .*, the model of H200 on the CPU returns ",
    ),
    "repeated": (
        one_ulp(9, LAST, 16),
        rf"{LAST}, segments of 16: segments of the same numbers have sums of different bits",
    ),
    "long": (
        one_ulp(1, FIRST, 512),
        rf"{FIRST}, segments of 512: segments of the same numbers have sums of different bits",
    ),
    "bound": (far_off, rf"{FIRST}, segments of 512: a sum errs by .*, the proved bound is "),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_sums_are_reported_and_no_table_is_written(
    algorithms: AlgorithmsDriver, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    algorithms.spoil, message = WRONG[kind]
    file = tmp_path / "table.json"
    code, out, err = run(capsys, "--paper-002", "--output", str(file))
    assert (code, out) == (2, "")
    assert re.search(message, err)
    assert err.endswith(": please report it; no table was written\n")
    assert not file.exists()
    assert algorithms.alive == {}


def test_of_a_gpu_that_the_catalogue_does_not_have_the_bound_is_asked_alone(
    algorithms: AlgorithmsDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_002, "find_gpu", lambda ordinal: Gpu(ordinal, "Fake GPU", (15, 0)))
    algorithms.spoil = one_ulp(3, SECOND, 16)
    assert paper_002.measure().table == ((32, FIRST), (None, THIRD))
    algorithms.launched.clear()
    algorithms.spoil = far_off
    with pytest.raises(TuningError, match="a sum errs by"):
        paper_002.measure()


def test_little_memory_takes_fewer_numbers_or_says_how_much(
    algorithms: AlgorithmsDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_002, "COUNT", 1 << 30)
    monkeypatch.setattr(paper_002, "QUICK_COUNT", 1 << 26)
    gpu = Gpu(0, "Fake H200", H200)
    for free, count in ((141 << 30, 1 << 30), (16 << 30, 1 << 30), (4 << 30, 1 << 29), (1 << 30, 1 << 26)):
        algorithms.free = free
        assert paper_002._Machine(gpu, 1 << 30).count == count
    algorithms.free = 300 << 20
    with pytest.raises(
        TuningError,
        match=r"Fake H200 has 315 MB of memory free, the measurement needs 419 MB: end other programs on it",
    ):
        paper_002.measure()


def test_kernels_of_all_lengths_are_few_and_take_the_whole_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_002, "call", lambda name: (1 << 40, 1 << 40))
    machine = paper_002._Machine(Gpu(0, "Fake H200", H200), 1 << 30)
    lengths = paper_002.lengths_of(machine.count)
    asked = [(name, length) for length in lengths for name in ALGORITHMS]
    recipes = {each: machine._recipe(*each) for each in asked}
    for (_, length), recipe in recipes.items():
        (kernel,) = recipe.kernels
        assert (kernel.problem.rows, kernel.problem.length) == (machine.count // length, length)
        assert (kernel.problem.stride, kernel.problem.x.n) == (length, machine.count)
        assert (kernel.macros["LAYOUT"], kernel.problem.divisor) == ("ALIGNED", 1)
    compiled = [recipes[each].kernels[0].macros for each in machine.kernels(lengths)]
    assert len(compiled) < 30
    for recipe in recipes.values():
        assert compiled.count(recipe.kernels[0].macros) == 1


def test_the_table_without_a_gpu_or_a_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none(ordinal: int) -> Gpu:
        raise NoGpuError("no NVIDIA driver on this machine: install NVIDIA's driver")

    monkeypatch.setattr(paper_002, "find_gpu", none)
    code, out, err = run(capsys, "--paper-002")
    assert (code, out) == (2, "")
    assert err == "error: no NVIDIA driver on this machine: install NVIDIA's driver\n"
    code, _, err = run(capsys, "--paper-002", "--output", str(tmp_path / "none" / "table.json"))
    assert code == 2
    assert "there is no folder" in err


# On a GPU


@pytest.mark.gpu
def test_the_algorithms_of_paper_002_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = gpu_or_skip()
    unit_or_skip(gpu)
    monkeypatch.setattr(paper_002, "QUICK_COUNT", 1 << 24)
    found = paper_002.measure(gpu.ordinal, quick=True)
    assert list(found.times) == paper_002.lengths_of(1 << 24, quick=True)
    for length, times in found.times.items():
        assert set(times) == set(ALGORITHMS)
        for seconds in times.values():
            assert 1e10 < 2 * found.count / seconds < 1e14, (length, times)
    assert found.table == paper_002.choose(found.times)
    assert found.table[-1][0] is None
    assert gpu.name in found.source


@pytest.mark.gpu
def test_a_quick_search_on_a_gpu(monkeypatch: pytest.MonkeyPatch, own: Path) -> None:
    gpu = gpu_or_skip()
    unit_or_skip(gpu)
    monkeypatch.setattr(search, "ELEMENTS", ("binary16", "binary64"))
    found = search.tune(gpu.ordinal, quick=True)
    assert isinstance(found, Tuning)
    assert len(found.choices) == len(MEASURED) * 2 * len(SIZES)
    for choice in found.choices:
        assert isinstance(choice, Choice)
        assert 1e-7 < choice.chosen_seconds < 1
        assert 1e10 < choice.case.nbytes / choice.chosen_seconds < 1e14, choice
    save_row(own, gpu.compute_capability, found.row)
    assert read_rows(own)["{}.{}".format(*gpu.compute_capability)] == found.row
