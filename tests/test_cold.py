"""First calls: each public function and each command, in a new process, as users meet them.

Contract: in a process that has computed nothing yet, with one thread, two and
eight, a function's first call gives the bits that it gives in a process where
everything is loaded, and a command ends with exit code 0 and nothing on stderr.
Several threads may make their first calls at once.

Where processes can be forked, the one of a first call is the copy of one that
has imported tcu and Numba and called nothing: to begin anew takes ten times as
long.  Commands, and some first calls, begin anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bits import digest
from operations import ROWS, needed

import tcu
from tcu.surfaces.functions import FUNCTIONS

REPOSITORY = Path(__file__).parents[1]
THREADS = [1, 2, 8]
PRELUDE = """
import numpy as np, tcu
from bits import digest
codes = np.arange(2_200_003, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
x = (codes.astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)).astype(np.float16)
y, rows, wide = x[::-1], x[:2_200_000].reshape(2_200, 1000), x.astype(np.float64)
offsets = np.array([0, 3, 3, 70_000, 1_200_000, x.size])
a, b = rows[:256, :512], rows[256:768, :192]
"""
"""More than two pieces of work, so that the first call is shared by threads; x, y and offsets bear the names of arguments."""

CALLS = {
    **{name: f"tcu.{name}({', '.join(needed(function))})" for name, function in FUNCTIONS.items()},
    "sum along an axis": "tcu.sum(rows, axis=-1)",
    "sum by split": "tcu.sum(x, variant='split')",
    "sum by single-pass": "tcu.sum(x, variant='single-pass')",
    "mean along an axis": "tcu.mean(rows, axis=0)",
    "dot along an axis": "tcu.dot(rows, rows[::-1], axis=-1)",
    "fdot along an axis": "tcu.fdot(wide[:2_200_000].reshape(2_200, 1000), rows.astype(np.float64), axis=0)",
    "fnorm along an axis": "tcu.fnorm(rows, axis=-1)",
    "std along an axis": "tcu.std(rows, axis=-1)",
    "fstd": "tcu.fstd(wide)",
    "fsum": "tcu.fsum(wide)",
    "fsum along an axis": "tcu.fsum(rows, axis=0)",
    "fdot of float64": "tcu.fdot(wide, wide)",
    "cumsum": "tcu.cumsum(wide)",
    "cumsum along an axis": "tcu.cumsum(rows, axis=0)",
    "cumsum_error_bound": "tcu.cumsum_error_bound(x)",
    "fcumsum": "tcu.fcumsum(wide)",
    "softmax": "tcu.softmax(x.astype(np.float32))",
    "log_softmax": "tcu.log_softmax(x.astype(np.float32))",
    "logsumexp": "tcu.logsumexp(x.astype(np.float32))",
    "rms_norm": "tcu.rms_norm(x.astype(np.float32))",
    "layer_norm": "tcu.layer_norm(x.astype(np.float32))",
    "normalize": "tcu.normalize(x.astype(np.float32))",
    "rms_norm with a weight": "tcu.rms_norm(rows, weight=rows[0])",
    "layer_norm with all": "tcu.layer_norm(rows, weight=rows[0], bias=rows[1], residual=rows)[0]",
    "cross_entropy": "tcu.cross_entropy(rows.astype(np.float32), np.arange(len(rows)) % rows.shape[1])",
    "index_sum": "tcu.index_sum(rows, np.arange(len(rows)) % 5, 5)",
    "index_sum of products of float64": "tcu.index_sum(wide, np.arange(len(x)) % 7, 7, weights=wide)",
    "index_mean": "tcu.index_mean(x, np.arange(len(x)) % 7, 7)",
    "bincount": "tcu.bincount(np.arange(len(x)) % 7, x)",
    "histogram": "tcu.histogram(x, 9, weights=x)[0]",
    "reduce_by_key": "tcu.reduce_by_key(np.arange(len(x)) % 7, x)[1]",
    "embedding_gradient": "tcu.embedding_gradient(rows, np.arange(len(rows)) % 5, 5)",
    "error_bound": "tcu.error_bound(x)",
    "dot_error_bound": "tcu.dot_error_bound(x, y)",
    "mma": "tcu.mma(a, b)",
    "mma of float64": "tcu.mma(a.astype(np.float64), b.astype(np.float64))",
    "matmul": "tcu.matmul(a, b)",
    "matmul of float32": "tcu.matmul(a.astype(np.float32), b.astype(np.float32))",
    "segment_matmul": "tcu.segment_matmul(a, np.stack([b, -b]), [0, 100, 256])",
    "matmul_error_bound": "tcu.matmul_error_bound(a, b)",
    "fft": "tcu.fft.fft(rows)",
    "fft of a prime length": "tcu.fft.fft(rows[:7, :997].astype(np.float64))",
    "fft of pairs of float16": "tcu.fft.fft(x[: 1 << 18].reshape(4, 32768, 2), axis=1, pairs=True)",
    "ifft": "tcu.fft.ifft(wide[: 1 << 18].reshape(8, -1))",
    "rfft": "tcu.fft.rfft(wide[: 1 << 20])",
    "irfft": "tcu.fft.irfft(rows.astype(np.float32))",
    "hfft": "tcu.fft.hfft(rows[:100])",
    "ihfft": "tcu.fft.ihfft(rows[:100])",
    "fft2": "tcu.fft.fft2(rows)",
    "ifft2": "tcu.fft.ifft2(rows[:50])",
    "rfft2": "tcu.fft.rfft2(rows[:50])",
    "irfft2": "tcu.fft.irfft2(rows[:50])",
    "fftn": "tcu.fft.fftn(wide[:1000].reshape(10, 10, 10))",
    "ifftn": "tcu.fft.ifftn(wide[:1000].reshape(10, 10, 10))",
    "rfftn": "tcu.fft.rfftn(wide[:1000].reshape(10, 10, 10))",
    "irfftn": "tcu.fft.irfftn(wide[:1000].reshape(10, 10, 10))",
    "fftshift": "tcu.fft.fftshift(rows)",
    "ifftshift": "tcu.fft.ifftshift(rows)",
    "fftfreq": "tcu.fft.fftfreq(1000, 0.3)",
    "rfftfreq": "tcu.fft.rfftfreq(1000, 0.3)",
    "dct": "tcu.fft.dct(rows)",
    "idct": "tcu.fft.idct(rows, 3, norm='ortho')",
    "dst": "tcu.fft.dst(wide[: 1 << 20])",
    "idst": "tcu.fft.idst(rows)",
    "convolve": "tcu.fft.convolve(wide, wide[:100])",
    "convolve of integers": "tcu.fft.convolve(codes[:9000] % np.uint64(999), codes[:80] % np.uint64(99))",
    "correlate": "tcu.fft.correlate(rows, x[:77])",
    "fft error_bound": "np.float64(tcu.fft.error_bound(1009, 'complex64'))",
    "ExactSum": "tcu.ExactSum().add(x).value()",
    "Machine": "tcu.Machine(16, 4).matmul(a[:40, :40], b[:40, :40])",
    "integers": "np.array(tcu.integers.multiply(3**900, -(7**800)) % (1 << 61))",
    "polyval": "tcu.polyval(wide[:300], wide[-700:])",
    "polyval in chains": "tcu.polyval(wide[:300].astype(np.float32), y[:90].astype(np.float32))",
    "polyval_error_bound": "tcu.polyval_error_bound(wide[:30], wide[-700:])",
    "taylor_shift": "(tcu.integers.taylor_shift(codes[:200] % np.uint64(99), -3) % (1 << 61)).astype(np.int64)",
    "products of limbs": "tcu.integers.multiply_limbs(codes[:3000].reshape(3, 1000), codes[:700])",
    "ntt": "tcu.integers.ntt(codes[:4096].reshape(2, 2048))",
    "intt": "tcu.integers.intt(codes[:8192])",
    "probe": "np.array(len(tcu.probe('V100').findings))",
    "infer": "np.array(str(tcu.infer('V100', seed=0)))",
    "reveal": "tcu.reveal(np.sum, 30, dtype='float16', seed=0, outputs=20).predict(x[:30])",
}


@cache
def warm() -> dict[str, Any]:
    """The names of the prelude, in this process."""
    names: dict[str, Any] = {}
    exec(PRELUDE, names)
    return names


def python(code: str, threads: int, **environment: str) -> str:
    """What a new process prints that runs the code."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=300,
        cwd=REPOSITORY / "tests", env=os.environ | {"TCU_NUM_THREADS": str(threads)} | environment,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


COPIES = """
import os, sys, warnings, numba
numba.njit("i8(i8)")(lambda i: i)  # so that the compiler is loaded
for call in sys.stdin:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of BLAS, which wait
        child = os.fork()
    if child == 0:
        os.dup2(1, 2)  # what is on stderr is no digest
        print(digest(eval(call)), flush=True)
        os._exit(0)
    print("exit status", os.waitpid(child, 0)[1], flush=True)
"""
"""Behind the prelude: one line of a call in, its digest out, and how its process ended."""


@pytest.fixture(scope="module")
def first_call() -> Iterator[Callable[[str, int], str]]:
    """The digest of a call, so many threads allowed, that is the first of a process."""
    if not hasattr(os, "fork"):
        yield lambda call, threads: python(f"{PRELUDE}\nprint(digest({call}))", threads)
        return
    parents: dict[int, subprocess.Popen[str]] = {}

    def of_a_copy(call: str, threads: int) -> str:
        if threads not in parents:
            parents[threads] = subprocess.Popen(
                [sys.executable, "-W", "error", "-c", PRELUDE + COPIES], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True, cwd=REPOSITORY / "tests", env=os.environ | {"TCU_NUM_THREADS": str(threads)},
            )  # fmt: skip
        asked, answers = parents[threads].stdin, parents[threads].stdout
        assert asked is not None
        assert answers is not None
        print(call, file=asked, flush=True)
        lines = []
        for line in answers:
            if line.startswith("exit status"):
                break
            lines.append(line)
        assert line == "exit status 0\n", "".join(lines)
        return "".join(lines).strip()

    yield of_a_copy
    for parent in parents.values():
        parent.communicate()


def test_every_public_function_is_called() -> None:
    public = {name for name in dir(tcu) if not name.startswith("_") and callable(getattr(tcu, name))}
    no_functions = {"DotInfo", "Instruction", "ScanInfo", "SumInfo", "TcuError", "Unit", "audit", "load_plan"}
    assert {call.removeprefix("tcu.").partition("(")[0] for call in CALLS.values()} >= public - no_functions - {
        "ExactSum", "Machine", "infer", "probe",
    }  # fmt: skip
    assert {"ExactSum", "Machine", "infer", "probe", *ROWS} <= CALLS.keys()
    for name in tcu.fft.__all__:
        assert any(f"tcu.fft.{name}(" in call for call in CALLS.values()), name


@pytest.mark.slow
@pytest.mark.some(len(CALLS))
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", CALLS)
def test_the_first_call_has_the_bits_of_a_later_one(
    name: str, threads: int, first_call: Callable[[str, int], str]
) -> None:
    assert first_call(CALLS[name], threads) == digest(eval(CALLS[name], warm()))


@pytest.mark.slow(1)
@pytest.mark.parametrize(("name", "threads"), [("fsum along an axis", 8), ("fft", 2), ("matmul", 1)])
def test_the_first_call_of_a_process_that_begins_anew(name: str, threads: int) -> None:
    assert python(f"{PRELUDE}\nprint(digest({CALLS[name]}))", threads) == digest(eval(CALLS[name], warm()))


@pytest.mark.slow
def test_threads_of_the_program_may_make_their_first_calls_at_once() -> None:
    calls = ["tcu.fsum(wide)", "tcu.sum(x)", "tcu.cumsum(x)", "tcu.mma(a, b)", "tcu.fsum(rows, axis=0)",
             "tcu.fdot(wide, wide)", "tcu.segment_cumsum(x, offsets)", "tcu.sum(rows, axis=-1)"]  # fmt: skip
    code = (
        f"{PRELUDE}\nimport threading\ngate = threading.Barrier({len(calls)})\n"
        f"found = {{}}\ndef work(call):\n    gate.wait()\n    found[call] = digest(eval(call))\n"
        f"each = [threading.Thread(target=work, args=(call,)) for call in {calls}]\n"
        f"[one.start() for one in each]; [one.join() for one in each]\n"
        f"print(*(found[call] for call in {calls}))"
    )
    assert python(code, 2).split() == [digest(eval(call, warm())) for call in calls]


COMMANDS = {
    "sum": "sum x.npy",
    "sum by split": "sum x.npy --variant split",
    "sum on V100": "sum x.npy --unit V100 --variant single-pass -R 4 -B 128",
    "exact sum": "sum x.npy --exact",
    "sum of text": "sum x.csv --input-dtype float16",
    "sum along an axis": "sum m.npy --axis -1 -o sums.npy",
    "sum with a checkpoint": "sum x.npy --checkpoint state.json",
    "cumsum": "cumsum x.npy -o running.npy",
    "fcumsum": "fcumsum x.npy -o running.npy",
    "cumsum from the end": "cumsum x.npy -o running.npy --reverse --exclusive",
    "cumsum along an axis": "cumsum m.npy --axis 0 -o running.npy",
    "compare": "compare small.npy",
    "units": "units",
    "explain": "explain --unit V100 '1 + 2^-24 + 2^-24'",
    "probe": "probe V100",
    "infer": "infer V100 --seed 0",
    "verify": f"verify {REPOSITORY / 'tests/data/h200-vectors.npz'}",
    "cost": "cost dft --n 2^20 --m 256 --latency 64",
    "report": "report --list",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    x = warm()["x"]
    np.save(folder / "x.npy", x)
    np.save(folder / "small.npy", x[:10_000])
    np.save(folder / "m.npy", warm()["rows"])
    np.savetxt(folder / "x.csv", x[:50_000].astype(np.float64))
    return folder


@pytest.mark.slow(1)
@pytest.mark.some(len(COMMANDS))
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_the_first_of_its_process(name: str, threads: int, files: Path, tmp_path: Path) -> None:
    for each in files.iterdir():
        (tmp_path / each.name).symlink_to(each)
    done = subprocess.run(
        f"{sys.executable} -m tcu {COMMANDS[name]}", shell=True, capture_output=True, text=True, timeout=300,
        cwd=tmp_path, env=os.environ | {"TCU_NUM_THREADS": str(threads)}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout


@pytest.mark.slow
def test_nothing_compiled_is_there_yet(tmp_path: Path) -> None:
    """As right after the installation: Numba's cache is empty."""
    code = f"{PRELUDE}\nprint(digest(tcu.sum(x, variant='split')))"
    expected = digest(tcu.sum(warm()["x"], variant="split"))
    assert python(code, 8, NUMBA_CACHE_DIR=str(tmp_path)) == expected
    assert list(tmp_path.rglob("*.nbi"))


@pytest.mark.slow
def test_a_word_about_compiling_where_a_person_watches(tmp_path: Path) -> None:
    """Once, by the first call alone: the next process finds what was compiled."""
    code = """
import sys, io, numpy as np, tcu
class Terminal(io.StringIO):
    def isatty(self): return WATCHED
sys.stderr = Terminal()
x = np.ones(9)
tcu.fdot(x, x), tcu.dot(x, x)
print(sys.stderr.getvalue().count("tcu: compiling"))
"""
    watched, not_watched = code.replace("WATCHED", "True"), code.replace("WATCHED", "False")
    assert python(not_watched, 1, NUMBA_CACHE_DIR=str(tmp_path / "a")) == "0"
    assert python(watched, 1, NUMBA_CACHE_DIR=str(tmp_path / "b")) == "1"
    assert python(watched, 1, NUMBA_CACHE_DIR=str(tmp_path / "b")) == "0"
