"""Results where the thread that calls takes subnormal numbers for zero, or rounds in another direction.

Contract: with ``torch.set_flush_denormal(True)`` before or after tcu was imported and its threads began, and with it switched off
again, with one thread and two, every function has the bits that it has in a process that never heard of it: of arrays in the host's
memory, tensors, Dask's arrays and files.  The same with C's direction of rounding.  The caller's own setting is there again
afterwards, also when a call fails and between results that come one by one.  Where it cannot be changed, an error says so.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bits import codes, digest
from operations import ROWS
from test_audit import chain, tree_plan

import tcu
from tcu.engines import host
from tcu.errors import SubnormalError
from tcu.formats import format_of
from tcu.formats.tensor import is_tensor
from tcu.model import ieee_environment, threads
from tcu.model.ieee_environment import ieee, is_ieee
from tcu.ops import OPERATIONS
from tcu.probes import predict

DIRECTIONS = {"x86_64": (0x400, 0x800, 0xC00), "aarch64": (0x800000, 0x400000, 0xC00000)}
DIRECTIONS["arm64"] = DIRECTIONS["aarch64"]
"""C's FE_DOWNWARD, FE_UPWARD and FE_TOWARDZERO."""
INDEX, OFFSETS = np.arange(7) % 3, np.array([0, 3, 3, 1000, 2100])


def numbers(dtype: str, n: int, seed: int = 0) -> Any:
    """(7, n) numbers, of which most are subnormal, and the others not far from it."""
    codes, highest = {"float16": ("u2", 11), "float32": ("u4", 25), "float64": ("u8", 54)}[dtype]
    found = np.random.default_rng(seed).integers(0, 1 << highest, (7, n))
    return found.astype(codes).view(dtype)


Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def calls(folder: str, given: str) -> dict[str, Call]:
    """Calls by their names, of NumPy's arrays, or of tensors, Dask's arrays or files that have the same numbers."""
    of = {"arrays": of_arrays, "tensors": of_tensors, "Dask": of_dask, "files": of_files}[given]
    found = {}
    for dtype in ("float16", "float32", "float64"):
        x, y = numbers(dtype, 300), numbers(dtype, 300, 1)
        found.update({f"{dtype} {name}": call for name, call in of(x, y, folder).items()})
    return found


def of_any(x: Any, y: Any, index: Any, offsets: Any) -> dict[str, Call]:
    """What takes arrays and tensors."""
    found: dict[str, Call] = {}
    for name in ROWS:
        arrays = (x, y)[: len(OPERATIONS[name].operands)]
        lines = tuple(each.reshape(-1) for each in arrays)
        found[name] = getattr(tcu, name), arrays, {"axis": -1}
        found[f"{name} of a long row"] = getattr(tcu, name), lines, {"axis": 0}
        if hasattr(tcu, f"segment_{name}"):
            found[f"segment_{name}"] = getattr(tcu, f"segment_{name}"), (*lines, offsets), {}
    found["where"] = tcu.sum, (x,), {"where": x > 0}
    found["matmul"] = tcu.matmul, (x, y.T), {}
    found["mma"] = tcu.mma, (x, y.T), {}
    found["rfft"] = tcu.fft.rfft, (x,), {}
    found["index_sum"] = tcu.index_sum, (x, index, 3), {}
    found["cross_entropy"] = tcu.cross_entropy, (x, index), {}
    found["layer_norm"] = tcu.layer_norm, (x,), {"weight": x[0], "bias": x[1]}
    if x.dtype.itemsize > 2:
        found["polyval"] = tcu.polyval, (x, x[:5, 0]), {}
    return found


def of_arrays(x: Any, y: Any, folder: str) -> dict[str, Call]:
    found, index = of_any(x, y, INDEX, OFFSETS), INDEX
    found["dct"] = tcu.fft.dct, (x,), {}
    found["convolve"] = tcu.fft.convolve, (x, y), {}
    found["residual"] = tcu.layer_norm, (x,), {"residual": y}
    found["weighted"] = tcu.index_sum, (x, index, 3), {"weights": np.ones(7, "f4"), "initial": x[:3]}
    edges = np.arange(4) * float(np.finfo(x.dtype).smallest_subnormal) * 100
    found["histogram"] = tcu.histogram, (x, edges), {"weights": np.ones(x.shape)}
    found["reduce_by_key"] = tcu.reduce_by_key, (x[0], y[0]), {}
    found["ExactSum"] = lambda numbers: tcu.ExactSum().add(numbers).value(), (x,), {}
    for name in ("error_bound", "var_error_bound", "cumsum_error_bound"):
        found[name] = getattr(tcu, name), (x[0],), {}
    found["dot_error_bound"] = tcu.dot_error_bound, (x, y), {}
    sums, tree = tcu.sum(x, axis=-1), tree_plan(chain(x.shape[-1]), *(format_of(x.dtype).name,) * 2)
    plan = tcu.sum(x, axis=-1, return_info=True)[1].plan
    found["audit"] = lambda *given: tcu.audit(*given, plan=plan, seed=0).wrong, (sums, x), {}
    found["predict"] = predict, (tree, x, y.T), {}
    found["matmul_error_bound"] = tcu.matmul_error_bound, (x, y.T), {}
    return found


def of_tensors(x: Any, y: Any, folder: str) -> dict[str, Call]:
    import torch

    return of_any(*map(torch.from_numpy, (x, y, INDEX, OFFSETS)))


def of_dask(x: Any, y: Any, folder: str) -> dict[str, Call]:
    import dask.array as da

    lazy = [da.from_array(each, chunks=(2, 150)) for each in (x, y)]
    found: dict[str, Call] = {"index_sum": (tcu.index_sum, (lazy[0], da.from_array(INDEX, 2), 3), {})}
    for name in ("sum", "fsum", "mean", "dot", "std", "cumsum", "fcumsum"):
        for axis in (0, 1):
            found[f"{name} {axis}"] = (
                getattr(tcu, name),
                tuple(lazy[: len(OPERATIONS[name].operands)]),
                {"axis": axis},
            )
    return found


def of_files(x: Any, y: Any, folder: str) -> dict[str, Call]:
    paths = [f"{folder}/{name} {x.dtype}.npy" for name in ("x", "y", "sums")]
    for path, each in zip(paths, (x, y), strict=False):
        np.save(path, each)

    def scanned() -> Any:
        tcu.streams.cumsum(paths[0], out=paths[2])
        return np.load(paths[2])

    found: dict[str, Call] = {"cumsum": (scanned, (), {})}
    for name in ("sum", "fsum", "dot", "std", "fnorm"):
        found[name] = getattr(tcu.streams, name), tuple(paths[: len(OPERATIONS[name].operands)]), {}
    return found


def results(made: dict[str, Call]) -> dict[str, list[str]]:
    found = {}
    for name, (function, arguments, named) in made.items():
        result = function(*arguments, **named)
        parts = result if isinstance(result, tuple) else (result,)
        found[name] = [digest(codes(each if is_tensor(each) else np.asarray(each))) for each in parts]
    return found


CODE = """
import json, sys, torch
when, *given = sys.argv[1:]
torch.set_flush_denormal(when == "before")
from test_ieee_environment import calls, results
from tcu.model.ieee_environment import is_ieee
torch.set_flush_denormal(False)
made = calls(*given)  # what is given is made without it
if when == "after":
    results(made)
found = []
for on in (True, False):
    torch.set_flush_denormal(on)
    found.append(results(made))
    assert is_ieee() is not on
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def torch_that_flushes() -> None:
    """PyTorch, on a processor that it can tell to flush."""
    torch = pytest.importorskip("torch")
    if not torch.set_flush_denormal(True):
        pytest.skip("PyTorch has no such setting on this processor")
    torch.set_flush_denormal(False)


@pytest.mark.slow
@pytest.mark.parametrize("given", ["arrays", "tensors", "Dask", "files"])
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_results_do_not_depend_on_whether_pytorch_flushes(
    when: str, workers: str, given: str, tmp_path: Path, torch_that_flushes: None
) -> None:
    if given == "Dask":
        pytest.importorskip("dask.array")
    done = subprocess.run(
        [sys.executable, "-c", CODE, when, str(tmp_path), given], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parent, env=os.environ | {"TCU_NUM_THREADS": workers},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = results(calls(str(tmp_path), given))
    for found in json.loads(done.stdout):
        assert found == expected


def test_what_is_flushed_and_what_is_not(torch_that_flushes: None) -> None:
    import torch

    x = numbers("float32", 100_000)[0]
    expected = digest(tcu.sum(x)), digest(tcu.softmax(x))
    torch.set_flush_denormal(True)
    try:
        assert not is_ieee()
        assert float(x[:1000] @ np.ones(1000, np.float32)) != float(tcu.fsum(x[:1000])), "NumPy's are flushed"
        assert (digest(tcu.sum(x)), digest(tcu.softmax(x))) == expected
        assert not is_ieee()
        with pytest.raises(tcu.TcuError):
            tcu.fsum(np.array([np.inf, -np.inf]))
        assert not is_ieee(), "after a failure, too"
    finally:
        torch.set_flush_denormal(False)
    assert is_ieee()


def test_the_callers_setting_is_there_between_results(torch_that_flushes: None) -> None:
    import torch

    torch.set_flush_denormal(True)
    try:
        for inside in threads.in_order(lambda _: is_ieee(), range(20), 3):
            assert inside
            assert not is_ieee()
        found: list[bool] = []
        threads.each(lambda _: found.append(is_ieee()), range(20))
        assert found == [True] * 20
        assert not is_ieee()
    finally:
        torch.set_flush_denormal(False)


def in_direction(direction: int, call: Callable[[], Any]) -> Any:
    """In a thread, whose setting ends with it."""
    library, found = ctypes.CDLL(None), []

    def run() -> None:
        library.fesetround(direction)
        found.append(call())
        found.append(library.fegetround())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found[1] == direction
    return found[0]


directions = pytest.mark.parametrize("direction", DIRECTIONS.get(platform.machine(), ()), ids=hex)
where_they_are_known = pytest.mark.skipif(
    platform.machine() not in DIRECTIONS or sys.platform == "win32", reason="C's numbers are not known here"
)


@where_they_are_known
@directions
def test_directions_of_rounding_have_no_say(direction: int) -> None:
    x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    lines, classes = x.reshape(100, 100), np.arange(100)
    functions: tuple[Callable[..., Any], ...] = (
        tcu.sum, tcu.softmax, tcu.norm, tcu.cumsum, tcu.var_error_bound, lambda x: tcu.fft.ifft(x.astype(np.float64)),
        lambda x: tcu.fft.fft(x.astype(np.float64), norm="ortho"), lambda x: tcu.fft.fftfreq(300, 0.3),
        lambda x: tcu.fft.rfftfreq(300, 0.3), lambda x: tcu.cross_entropy(lines, classes),
        lambda x: tcu.rms_norm(lines, residual=lines[::-1])[1],
    )  # fmt: skip

    def call() -> list[str]:
        return [digest(np.ascontiguousarray(function(x))) for function in functions]

    assert in_direction(direction, call) == call()
    assert in_direction(direction, is_ieee) is False


@where_they_are_known
@directions
def test_a_module_that_is_compiled_in_another_environment_is_the_same(direction: int) -> None:
    """Python's compiler computes powers of numbers, and what it has compiled stays on disk."""
    source = Path(ieee_environment.__file__).read_text()

    def compiled() -> Any:
        module: dict[str, Any] = {"__name__": "again"}
        exec(compile(source, "again.py", "exec"), module)
        return module

    assert in_direction(direction, compiled)["is_ieee"]()


def test_all_that_the_host_engine_does_is_entered_so() -> None:
    names = [name for name, each in vars(host).items() if not name.startswith("_") and callable(each)]
    assert len(names) == 9
    for name in set(names) - {"ieee"}:
        assert hasattr(getattr(host, name), "__wrapped__"), name


def test_an_environment_that_stays_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf:
        """A C library that changes nothing."""

        def fegetenv(self, _: object) -> int:
            return 0

        fesetenv = fegetenv

    monkeypatch.setattr(ieee_environment, "is_ieee", lambda: False)
    monkeypatch.setattr(ieee_environment, "_library", lambda: (Deaf(), ctypes.c_void_p(-1)))
    with pytest.raises(
        SubnormalError,
        match=r"takes subnormal numbers for zero, or rounds .*: switch .*set_flush_denormal\(False\)",
    ):
        ieee(lambda: 1)()


def test_a_c_library_without_the_functions_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ieee_environment, "is_ieee", lambda: False)
    monkeypatch.setattr(ieee_environment.ctypes, "CDLL", lambda _: object())
    ieee_environment._library.cache_clear()
    with pytest.raises(SubnormalError, match="this system's C library does not change that"):
        ieee(lambda: 1)()
    assert ieee_environment._library.cache_info().currsize == 0
