"""Contract: reductions of Dask arrays are lazy and right, whatever the chunks, the scheduler and the workers.

The exact ones give the bits of math.fsum (or of rational arithmetic) for
every chunking, over threads, processes and dask.distributed with 1, 2 and 4
workers, one of which is killed in the middle of the work.  The planned ones
give those of their law: the exact sum of the chunks' totals, each by the plan
of its length.  ``--chunkings 200`` tries as many random chunkings on every
scheduler.
"""

from __future__ import annotations

import concurrent.futures
import math
import multiprocessing
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from numbers_of_all_kinds import draw
from patience import HANGS

import tcu
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError

dask = pytest.importorskip("dask", reason='Dask is not installed: pip install "tcu[dask]"')
da = pytest.importorskip("dask.array")

N = 20_000


def hard(rng: np.random.Generator, n: int = N) -> npt.NDArray[np.float64]:
    """Numbers of all magnitudes, most of which cancel."""
    x = rng.standard_normal(n) * 2.0 ** rng.integers(-500, 500, n)
    x[n // 2 :] = -x[: n - n // 2] * (1 + rng.integers(0, 2, n - n // 2) * 2.0**-50)
    return rng.permutation(x)


def chunks_of(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    cuts = np.unique(rng.integers(0, n, rng.integers(1, 40)))
    return tuple(np.diff([0, *cuts, n]).tolist())


def bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    """How many chunkings to try on each scheduler."""
    return int(request.config.getoption("--chunkings"))


def check_chunkings(count: int, seed: int, **scheduler: Any) -> None:
    rng = np.random.default_rng(seed)
    for trial in range(count):
        x = hard(rng)
        chunks = chunks_of(rng, N)
        result = tcu.fsum(da.from_array(x, chunks=(chunks,))).compute(**scheduler)
        assert bits(result) == bits(np.float64(math.fsum(x))), (trial, chunks)


def test_threads(count: int) -> None:
    check_chunkings(count, 1, scheduler="threads")


def test_processes(count: int) -> None:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
        check_chunkings(count, 2, scheduler="processes", pool=pool)


# dask.distributed


def workers_to_try(config: pytest.Config) -> list[int]:
    return [1, 2, 4] if config.getoption("--chunkings") >= 200 else [2]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "workers" in metafunc.fixturenames:
        metafunc.parametrize("workers", workers_to_try(metafunc.config), scope="module")


@pytest.fixture(scope="module")
def client(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason='pip install "tcu[dask]"')
    folder = tmp_path_factory.mktemp("dask")
    patient = {
        "distributed.comm.timeouts.connect": f"{HANGS}s",
        # Else a worker is given up for good that is not there 15 s after it was killed, be it killed once more.
        "distributed.deploy.lost-worker-timeout": f"{HANGS}s",
    }
    with (
        dask.config.set({"distributed.worker.daemon": False, **patient}),
        distributed.LocalCluster(
            workers, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(folder)
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore")
def test_a_cluster(client: Any, count: int) -> None:
    check_chunkings(count, 3)


GO_ON = "go on"


def _held(block: npt.NDArray[Any], folder: Path) -> npt.NDArray[Any]:
    """The block, when its worker has said that it is at work and may go on."""
    (folder / str(os.getpid())).touch()
    while not (folder / GO_ON).exists():
        time.sleep(0.01)
    return block


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operation", ["fsum", "fmean", "sum", "norm"])
def test_a_worker_is_killed_while_it_works(client: Any, operation: str, tmp_path: Path) -> None:
    x = hard(np.random.default_rng(4)) * 1e-200
    lazy = da.from_array(x, chunks=N // 50).map_blocks(_held, tmp_path, meta=x[:0])
    undisturbed = getattr(tcu, operation)(da.from_array(x, chunks=N // 50)).compute(scheduler="threads")
    future = client.compute(getattr(tcu, operation)(lazy))
    try:
        while not (at_work := list(tmp_path.iterdir())):
            assert not future.done()
            time.sleep(0.01)
        os.kill(int(at_work[0].name), signal.SIGKILL)
    finally:
        (tmp_path / GO_ON).touch()
    assert bits(future.result(timeout=HANGS)) == bits(undisturbed)
    if operation == "fsum":
        assert bits(undisturbed) == bits(np.float64(math.fsum(x)))
    client.wait_for_workers(1, timeout=HANGS)


# What the results are


def arrays_of(dtype: Any, seed: int) -> Iterator[npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    for kind in ("finite", "cancelling", "special", "subnormal", "normal"):
        yield draw(rng, 3000, dtype, kind).reshape(30, 100)


@pytest.mark.some(8)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("operation", ["fsum", "fmean", "fnorm", "fdot"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_exact_reductions_are_those_of_the_whole_array(operation: str, dtype: Any) -> None:
    function = getattr(tcu, operation)
    for x in arrays_of(dtype, 5):
        lazy = da.from_array(x, chunks=((7, 23), (50, 1, 49)), asarray=False)
        given = (x, x[::-1]) if operation == "fdot" else (x,)
        lazily = (lazy, lazy[::-1]) if operation == "fdot" else (lazy,)
        try:
            whole = function(*given)
        except InvalidOperationError as error:
            with pytest.raises(InvalidOperationError, match=str(error).split(" ")[0]):
                function(*lazily).compute()
            continue
        result = function(*lazily)
        assert (result.shape, result.dtype) == ((), np.asarray(whole).dtype)
        assert bits(result.compute()) == bits(whole)


def law(operation: str, blocks: list[npt.NDArray[Any]], options: dict[str, Any]) -> float:
    """What the planned reductions promise, in rational arithmetic."""
    name = "dot" if operation == "norm" else "sum"
    totals = [
        float(getattr(tcu, name)(*((b, b) if name == "dot" else (b,)), dtype="float64", **options))
        for b in blocks
    ]
    if not all(map(math.isfinite, totals)):
        total = sum(totals)
    else:
        exact = sum(map(Fraction, totals))
        try:
            total = float(exact)
        except OverflowError:
            total = math.copysign(math.inf, exact)
    if operation == "mean":
        return total / sum(b.size for b in blocks)
    return math.sqrt(total) if operation == "norm" else total


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("operation", "options"),
    [("sum", {}), ("sum", {"unit": "V100", "variant": "recurrence", "chain": 2}), ("mean", {}),
     ("norm", {}), ("norm", {"block": 64})],
)  # fmt: skip
def test_planned_reductions_follow_their_law(operation: str, options: dict[str, Any]) -> None:
    dtype = np.float16 if options.get("unit") else np.float64
    for x in arrays_of(dtype, 6):
        rows, columns = (7, 23), (50, 1, 49)
        lazy = da.from_array(x, chunks=(rows, columns))
        blocks = [part for row in np.split(x, [7]) for part in np.split(row, [50, 51], axis=1)]
        wanted = np.float64(law(operation, blocks, options))
        result = getattr(tcu, operation)(lazy, dtype="float64", **options).compute()
        assert bits(result) == bits(wanted) or (np.isnan(result) and np.isnan(wanted))
        for scheduler in ("synchronous", "threads"):
            again = getattr(tcu, operation)(lazy, dtype="float64", **options)
            with dask.config.set({"split_every": 2}):
                assert bits(again.compute(scheduler=scheduler)) == bits(result)


@pytest.mark.some(18)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("operation", ["sum", "mean"])
@pytest.mark.parametrize(("axis", "keepdims"), [(0, False), (-1, True), ((0, 2), False), ((0, 1, 2), True)])
def test_rows_have_the_bits_of_their_own_sum(operation: str, dtype: Any, axis: Any, keepdims: bool) -> None:
    function = getattr(tcu, operation)
    rng = np.random.default_rng(7)
    for kind in ("finite", "cancelling", "special"):
        x = draw(rng, 4 * 3 * 6, dtype, kind).reshape(4, 3, 6)
        whole = da.from_array(x, chunks=(4, 3, 6), asarray=False)
        parts = whole.rechunk((2, 2, 3))
        result = function(parts, axis, keepdims=keepdims)
        kept = [i for i in range(3) if i not in np.atleast_1d(np.array(axis) % 3)]
        alone = []
        for where in list(np.ndindex(*(x.shape[i] for i in kept)))[:5]:
            index = [slice(None)] * 3
            for i, at in zip(kept, where, strict=True):
                index[i] = slice(at, at + 1)
            alone.append(function(parts[tuple(index)]))
        in_one, found, *alone = dask.compute(
            function(whole, axis, keepdims=keepdims), result, *alone, scheduler="synchronous"
        )
        here = function(x, axis, keepdims=keepdims)
        assert bits(in_one) == bits(here)
        assert np.shape(found) == result.shape == np.shape(here)
        assert [bits(each) for each in np.ravel(found)[:5]] == [bits(each) for each in alone]


def test_long_rows_in_many_chunks_near_the_largest_number() -> None:
    x = np.array([[1e308, 1e308, -1e308, 5.0, -1e308]] * 2)
    lazy = da.from_array(x, chunks=(1, 1))
    assert tcu.sum(lazy, axis=1).compute().tolist() == [5.0, 5.0]
    assert tcu.fsum(lazy).compute() == 10.0
    assert tcu.sum(lazy).compute() == 10.0
    assert tcu.sum(da.from_array(np.full((1, 3), 1.7e308), chunks=1), axis=1).compute().tolist() == [math.inf]


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def fail(block: Any) -> Any:
        raise AssertionError("computed")

    lazy = da.ones(100, chunks=10).map_blocks(fail, dtype=float, meta=np.empty(0))
    for operation in ("sum", "fsum", "mean", "fmean", "norm", "fnorm"):
        result = getattr(tcu, operation)(lazy)
        assert isinstance(result, da.Array)
        with pytest.raises(AssertionError, match="computed"):
            result.compute()
    assert isinstance(tcu.dot(lazy, lazy), da.Array)


def test_a_tree_and_one_chunk_at_a_time() -> None:
    """No task takes more than one chunk, or more than split_every shares."""
    lazy = da.ones((64, 64), chunks=(8, 8))
    for result in (tcu.fsum(lazy), tcu.sum(lazy), tcu.mean(lazy)):
        graph = dict(result.__dask_graph__())
        widest = max(len(getattr(task, "dependencies", ())) for task in graph.values())
        assert widest <= 16


class Counted(np.ndarray):
    """An array that can be waited for to go."""


@pytest.mark.parametrize("operation", ["fsum", "sum", "mean", "norm", "cumsum"])
def test_chunks_are_let_go(operation: str) -> None:
    """A worker holds about a chunk for each of its threads, however many there are, also where they are needed twice."""
    lock, alive, most = threading.Lock(), 0, 0

    def count(by: int) -> None:
        nonlocal alive, most
        with lock:
            alive += by
            most = max(most, alive)

    def chunk() -> Any:
        made = np.ones(100).view(Counted)
        count(1)
        weakref.finalize(made, count, -1)
        return made

    lazy = da.map_blocks(chunk, chunks=((100,) * 100,), dtype=float, meta=np.empty(0))
    result = getattr(tcu, operation)(lazy)
    last = result.map_blocks(lambda block: block[-1:], chunks=((1,) * 100,)) if result.ndim else result
    found = last.compute(scheduler="threads", num_workers=2)
    assert found.ravel()[-1] == {"mean": 1, "norm": 100}.get(operation, 10_000)
    assert most <= 6


@pytest.mark.some(8)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("operation", ["fsum", "fmean"])
@pytest.mark.parametrize(
    ("axis", "keepdims"),
    [(0, False), (1, True), (-1, True), ((0, 2), False), ((0, 1, 2), True), (None, True), (-1, False)],
)
def test_exact_rows_are_those_of_the_whole_array(
    operation: str, dtype: Any, axis: Any, keepdims: bool
) -> None:
    """For every chunking, rows in one chunk and in several; lazily."""
    function = getattr(tcu, operation)
    rng = np.random.default_rng(8)
    for kind in ("finite", "cancelling"):
        x = draw(rng, 5 * 4 * 7, dtype, kind).reshape(5, 4, 7)
        here = np.asarray(function(x, axis, keepdims=keepdims))
        for chunks in ((5, 4, 7), (2, 4, 3), (5, 1, 7), (1, 1, 1)):
            lazy = function(da.from_array(x, chunks=chunks, asarray=False), axis, keepdims=keepdims)
            assert isinstance(lazy, da.Array)
            assert (lazy.shape, lazy.dtype) == (here.shape, here.dtype)
            for scheduler in ("synchronous", "threads"):
                found = np.asarray(lazy.compute(scheduler=scheduler))
                assert found.shape == here.shape
                assert [bits(each) for each in found.flat] == [bits(each) for each in here.flat]


def test_exact_rows_of_other_formats_empty_ones_and_ones_without_a_value() -> None:
    x = da.from_array(np.array([[1.0, math.inf, -math.inf], [1e308, 1e308, -1e308]]), chunks=(1, 2))
    assert tcu.fsum(x[1:], axis=1).compute().tolist() == [1e308]
    assert tcu.fsum(x[:, :2], axis=1).compute().tolist() == [math.inf, math.inf]
    assert tcu.fmean(x[1:], axis=1, dtype=np.float32).compute().tolist() == [math.inf]
    with pytest.raises(InvalidOperationError, match=r"inf and (1 )?-inf"):
        tcu.fsum(x, axis=1).compute()
    empty = da.zeros((3, 0), chunks=2)
    assert tcu.fsum(empty, axis=1).compute().tolist() == [0.0] * 3
    assert np.isnan(tcu.fmean(empty, axis=1).compute()).all()
    assert tcu.fsum(empty, axis=0).compute().shape == (0,)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: tcu.segment_sum(x, [0, 40]), "x"),
        (lambda x: tcu.segment_mean(x, [0, 40]), "x"),
        (lambda x: tcu.segment_fsum(x, [0, 40]), "x"),
        (lambda x: tcu.segment_fmean(x, [0, 40]), "x"),
        (lambda x: tcu.segment_cumsum(x, [0, 40]), "x"),
        (lambda x: tcu.segment_sum(np.ones(40), x), "offsets"),
        (lambda x: tcu.error_bound(x), "x"),
        (lambda x: tcu.cumsum_error_bound(x), "x"),
        (lambda x: tcu.dot_error_bound(x, np.ones(40)), "x"),
        (lambda x: tcu.dot_error_bound(np.ones(40), x), "y"),
        (lambda x: tcu.mma(x.reshape(4, 10), np.ones((10, 4))), "a"),
        (lambda x: tcu.mma(np.ones((10, 4)), x.reshape(4, 10)), "b"),
        (lambda x: tcu.mma(np.ones((2, 4)), np.ones((4, 20)), x.reshape(2, 20)), "c"),
        (lambda x: tcu.ExactSum().add(x), "x"),
    ],
)  # fmt: skip
def test_nothing_computes_a_whole_array_unasked(call: Any, name: str) -> None:
    def fail(block: Any) -> Any:
        raise AssertionError("computed")

    lazy = da.ones(40, chunks=10).map_blocks(fail, dtype=float, meta=np.empty(0))
    words = f"^{name} is a Dask array, which this function would compute as a whole: pass {name}.compute"
    with pytest.raises(ParameterError, match=words):
        call(lazy)


def test_the_result_continues_lazily() -> None:
    x = np.arange(100.0)
    lazy = da.from_array(x, chunks=30)
    centred = lazy - tcu.fmean(lazy)
    assert tcu.fsum(centred).compute() == 0.0
    assert tcu.fsum(da.from_array(x[x > 50], chunks=7)).compute() == tcu.fsum(lazy[lazy > 50]).compute()


def test_empty_and_single() -> None:
    assert tcu.fsum(da.zeros(0, chunks=1)).compute() == 0.0
    assert tcu.sum(da.zeros((0, 3), chunks=1, dtype=np.float16)).compute() == 0.0
    assert math.isnan(tcu.mean(da.zeros(0, chunks=1)).compute())
    assert math.isnan(tcu.fmean(da.zeros(0, chunks=1)).compute())
    assert tcu.sum(da.from_array(np.float32(3))).compute() == 3.0
    assert tcu.sum(da.ones((3, 4), chunks=2), keepdims=True).compute().tolist() == [[12.0]]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: tcu.sum(x, out=np.empty(())), ParameterError, "out with a Dask array: .* leave out"),
        (lambda x: tcu.mean(x, axis=0, return_info=True), ParameterError, "return_info with a Dask array"),
        (lambda x: tcu.sum(x, progress=print), ParameterError, "progress with a Dask array: use dask"),
        (lambda x: tcu.fnorm(x.astype(int)), DtypeError, "x has dtype int64.*astype"),
        (lambda x: tcu.dot(x, x.astype(np.float32)), DtypeError, "x has dtype float64 and y float32"),
        (lambda x: tcu.dot(x, x[:3]), ShapeError, r"x has shape \(10, 4\) and y \(3, 4\)"),
        (lambda x: tcu.fdot(x, np.ones((10, 4))), ParameterError, "numpy.ndarray: make both Dask arrays"),
        (lambda x: tcu.sum(x, axis=2), ParameterError, "axis 2 of an array with 2 axes"),
        (lambda x: tcu.sum(x[x[:, 0] > 0], axis=0), ParameterError, "compute_chunk_sizes"),
        (lambda x: tcu.sum(x, variant="tree").compute(), tcu.TcuError, "unknown variant"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call(da.ones((10, 4), chunks=(3, 4)))


def test_a_chunk_that_cannot_be_read_is_an_error_and_a_retry_counts_once(tmp_path: Any) -> None:
    """The engine retries what fails; a share is merged once, whatever was tried."""
    flag = tmp_path / "failed"

    def read(block: Any) -> Any:
        if block[0] == 50 and not flag.exists():
            flag.touch()
            raise OSError("the disk is gone")
        return block

    lazy = da.arange(100, chunks=10, dtype=float).map_blocks(read, dtype=float)
    with pytest.raises(OSError, match="the disk is gone"):
        tcu.fsum(lazy).compute(scheduler="synchronous")
    assert tcu.fsum(lazy).compute(scheduler="synchronous") == 4950.0


def test_dask_is_not_loaded_before_it_is_met() -> None:
    import subprocess
    import sys

    code = "import sys, numpy, tcu; tcu.fsum(numpy.ones(3)); tcu.sum(numpy.ones(3)); sys.exit('dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
