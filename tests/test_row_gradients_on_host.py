"""Contract: the kernel of gradients of rows has the bits of PyTorch's operations and of tcu's sums on the CPU, without a GPU.

It runs on the host as its recipe says (cuda_on_host.py): rows of a warp, of a block, of a cluster, and longer ones, which are read again;
any alignment and distance of rows, all formats of what was kept, of what is given and of what is wanted; numbers of every kind.
No byte outside the result is written, and an error in the kernel's text is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_kernels_on_host import HostGpu, Result

import tcu
from tcu.engines import cuda
from tcu.engines.cuda import row_functions, row_gradients
from tcu.formats import format_of, get_format
from tcu.gpu import arrays
from tcu.gpu.device import Gpu
from tcu.gpu.launch import Launch
from tcu.gpu.row_gradients import FINISHES, LONGEST, row_gradients_recipe
from tcu.gpu.rows_in_registers import Rows
from tcu.ops import LAYER_NORM, NORMALIZE, RMS_NORM
from tcu.ops.result import rounding_target

torch = pytest.importorskip("torch")

import tcu.surfaces.torch.run  # noqa: E402 - it needs PyTorch
from tcu.surfaces.torch.derivative import DERIVATIVES  # noqa: E402

EPS = {"unit": 1e-3, "standard": 1e-5, "direction": 1e-2}
OF_A_NUMBER = "variance", "total"
"""For which one number is given for each row, or none."""
finishes = pytest.mark.parametrize("finish", [finish for finish in FINISHES if finish not in OF_A_NUMBER])
FORMATS = [
    ("binary16", "binary16", "binary16"), ("bfloat16", "bfloat16", "bfloat16"), ("bfloat16", "binary32", "bfloat16"),
    ("binary32", "bfloat16", "bfloat16"), ("binary32", "binary32", "binary16"), ("binary32", "binary32", "binary32"),
]  # fmt: skip


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    return HostGpu(monkeypatch, built)


def tensor(x: Any) -> Any:
    return torch.from_numpy(x.astype(np.float32)).to(getattr(torch, x.dtype.name))


def by_torch(finish: str, kept: Any, given: Any, wanted: Any, eps: float, weight: Any = 1) -> Any:
    """By the derivatives' own formulas: of softmax operation by operation, of norms as the CPU has them."""
    y, g = tensor(kept).float(), tensor(given).float() * weight

    def total(x: Any) -> Any:
        return tcu.sum(x, axis=1, keepdims=True)

    if finish == "share":
        found = y * (g - total(g * y))
    elif finish == "log_share":
        found = g - tcu.softmax(y, -1) * total(g)
    else:
        (operation,) = (each for each in (RMS_NORM, LAYER_NORM, NORMALIZE) if each.finish == finish)
        context = SimpleNamespace(saved_tensors=(y,), axis=1, eps=eps)
        found = DERIVATIVES[operation.name].times(context, g)
    return found.to(getattr(torch, np.dtype(wanted).name))


def placed(x: Any, gap: int, shift: int) -> Any:
    """(rows that lie ``gap`` numbers apart, their address), ``shift`` numbers behind a multiple of 16 bytes."""
    count, length = x.shape
    memory = np.zeros(count * (length + gap) + shift + 16, x.dtype)
    begin = -memory.ctypes.data % 16 // x.itemsize + shift
    rows = memory[begin : begin + count * (length + gap)].reshape(count, length + gap)[:, :length]
    rows[:] = x
    return rows, Rows(count, length, length + gap, shift * x.itemsize % 16 == 0)


def numbers(shape: tuple[int, int], fmt: str, seed: int) -> Any:
    x = np.random.default_rng(seed).standard_normal(shape)
    for row, (value, step) in enumerate([(np.nan, 7), (np.inf, 5), (0, 1), (-0.0, 1), (1e-20, 1), (300, 2)]):
        x[(row + 1) % shape[0], ::step] = value
    with np.errstate(over="ignore"):
        return x.astype(get_format(fmt).dtype)


def small_and_large(shape: tuple[int, int], fmt: str) -> NDArray[Any]:
    """Rows of every magnitude, of equal numbers, of tiny ones beside one that is not, of large ones whose deviations are small."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape)
    x[:-5] *= np.resize([1e-44, 1e-39, 1e-30, 2e-8, 1e-7, 1e12, 3e12, 1e19, 1e30, 1e38], len(x) - 5)[:, None]
    x[-5:-3] = [[1e30], [1e15]]
    x[-3] *= 1e-42
    x[-3, 0] = 1e30
    x[-2] = 1e36 * (1 + 2.0**-20 * x[-2])
    x[-1], x[-1, -1] = 0, 1e-44
    with np.errstate(over="ignore"):
        return x.astype(get_format(fmt).dtype)


def check(host: HostGpu, finish: str, formats: tuple[str, str, str], shape: tuple[int, int], gap: int = 0, shift: int = 0, weighted: bool = False, kept: Any = None, eps: float | None = None) -> None:  # fmt: skip
    drawn, given = (numbers(shape, fmt, seed) for seed, fmt in enumerate(formats[:2]))
    kept = drawn if kept is None else kept
    (x, of_x), (g, of_g) = placed(kept, gap, shift), placed(given, 0, 0)
    target = get_format(formats[2]).dtype
    result = Result(kept.size, target, 0)
    eps = EPS.get(finish, 0.0) if eps is None else eps
    line = np.zeros(shape[1] + 8, np.float32)
    line = line[-line.ctypes.data % 16 // 4 :]
    line[: shape[1]] = np.random.default_rng(5).standard_normal(shape[1])
    wanted = by_torch(finish, kept, given, target, eps, torch.from_numpy(line[: shape[1]]) if weighted else 1)
    found_formats = tuple(format_of(dtype) for dtype in (kept.dtype, given.dtype, target))
    recipe = row_gradients_recipe(finish, of_x, of_g, found_formats, eps, host.gpu, weighted)  # type: ignore[arg-type]
    place = line.ctypes.data if weighted else 0
    Launch(recipe, host.gpu).start(x.ctypes.data, g.ctypes.data, result.array.ctypes.data, 0, place)
    result.check()
    assert_same(
        tensor(result.array.reshape(shape)).float(), wanted.float(), (finish, formats, shape, gap, shift)
    )


@pytest.mark.some(6)
@pytest.mark.slow(2)
@finishes
@pytest.mark.parametrize("formats", FORMATS, ids="-".join)
def test_gradients_have_the_bits_of_the_formulas(host: HostGpu, finish: str, formats: Any) -> None:
    for shape, gap, shift in (
        ((7, 1), 0, 0), ((9, 3), 2, 1), ((9, 128), 0, 0), ((9, 130), 6, 3), ((7, 515), 0, 0), ((7, 1000), 0, 0), ((7, 1024), 4, 0),
    ):  # fmt: skip
        check(host, finish, formats, shape, gap, shift)


@pytest.mark.some(6)
@pytest.mark.slow(1)
@finishes
@pytest.mark.parametrize("formats", FORMATS, ids="-".join)
def test_rows_of_a_block_of_a_cluster_and_of_chunks(
    host: HostGpu, finish: str, formats: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shape, gap, shift, blocks in (
        ((7, 1028), 0, 0, 1),
        ((7, 3001), 1, 5, 1),
        ((7, 8192), 0, 0, 1),
        ((7, 17_001), 0, 0, 3),
        ((3, 16_384), 0, 0, 2),
    ):
        check(host, finish, formats, shape, gap, shift)
        assert host.macros[-1]["CLUSTER"] == blocks
        assert host.macros[-1]["CHUNKS"] == 0
    if finish != "log_share":  # exponentials.cu makes it
        with monkeypatch.context() as patch:
            patch.setattr(Gpu, "most_of_cluster", 1)
            check(host, finish, formats, (7, 17_001))
            assert (host.macros[-1]["CLUSTER"], host.macros[-1]["CHUNKS"]) == (1, 1)


@pytest.mark.some(4)
@pytest.mark.slow(1)
@pytest.mark.parametrize("finish", ["unit", "standard"])
@pytest.mark.parametrize("formats", FORMATS, ids="-".join)
def test_gradients_of_norms_with_weights(host: HostGpu, finish: str, formats: Any) -> None:
    for shape, gap, shift in (
        ((7, 1), 0, 0),
        ((9, 130), 6, 3),
        ((7, 1000), 0, 0),
        ((7, 3001), 1, 5),
        ((7, 17_001), 0, 0),
    ):
        check(host, finish, formats, shape, gap, shift, weighted=True)
        assert host.macros[-1]["WEIGHT"] == 1


@pytest.mark.some(4)
@pytest.mark.slow(1)
@pytest.mark.parametrize("finish", OF_A_NUMBER)
@pytest.mark.parametrize(
    "formats", [("binary16", "binary16"), ("bfloat16", "binary32"), ("binary32", "binary32")], ids="-".join
)
def test_what_one_number_is_given_for_each_row_for(host: HostGpu, finish: str, formats: Any) -> None:
    """The gradients of variances, and the sums of rows."""
    for count, length, gap, shift in (
        (7, 1, 0, 0), (9, 130, 6, 3), (7, 1000, 0, 0), (7, 1028, 0, 0), (7, 3001, 1, 5), (7, 17_001, 0, 0),
    ):  # fmt: skip
        kept, given = numbers((count, length), formats[0], 1), numbers((count, 1), "binary32", 2)
        x, of_x = placed(kept, gap, shift)
        y, g = tensor(kept).float(), tensor(given)
        target = np.dtype(np.float32) if finish == "total" else get_format(formats[1]).dtype
        if finish == "total":
            wanted = tcu.sum(y, axis=1)
        else:
            slope = (y - tcu.mean(y, axis=1, keepdims=True)) / torch.full((), length - 0.5)
            wanted = (g * slope).to(getattr(torch, target.name))
        result = Result(wanted.numel(), target, 0)
        recipe = row_gradients_recipe(
            finish, of_x, None, (format_of(kept.dtype), get_format("binary32"), format_of(target)), 0.0, host.gpu,
            left=length - 0.5,
        )  # fmt: skip
        Launch(recipe, host.gpu).start(x.ctypes.data, given.ctypes.data, result.array.ctypes.data, 0)
        result.check()
        assert_same(
            tensor(result.array).reshape(wanted.shape).float(), wanted.float(), (finish, formats, length)
        )


def assert_same(found: Any, wanted: Any, case: Any) -> None:
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    signs = found.isnan() | (found.signbit() == wanted.signbit())
    assert bool((same & signs).all()), (case, int((~(same & signs)).sum()))


@pytest.mark.some(5)
@pytest.mark.slow(1)
@pytest.mark.parametrize("finish", EPS)
@pytest.mark.parametrize("formats", FORMATS[1:], ids="-".join)
@pytest.mark.parametrize("length", [3, 130, 1028, 17_001])
def test_gradients_of_norms_of_small_and_large_rows(
    host: HostGpu, finish: str, formats: Any, length: int
) -> None:
    """Rows that are multiplied by powers of two before; of a warp, of a block, and of several chunks."""
    kept = small_and_large((15, length), formats[0])
    for eps in (0.0, EPS[finish], 1e-38, 1.0):
        check(host, finish, formats, (15, length), kept=kept, eps=eps)


def test_the_longest_rows(host: HostGpu) -> None:
    check(host, "share", FORMATS[-1], (1, LONGEST))


@pytest.fixture
def engine(host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The engine of GPUs, for which the host's tensors are a GPU's."""
    for name in ("ordinal", "current_stream"):
        monkeypatch.setattr(arrays._Torch, name, lambda *_: 0)
    for module in (row_functions, row_gradients):
        monkeypatch.setattr(module, "current", lambda _: nullcontext())
        monkeypatch.setattr(module, "find_gpu", lambda _: host.gpu)
        module._launch.cache_clear()
    yield cuda
    for module in (row_functions, row_gradients):
        module._launch.cache_clear()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_engine_finds_rows_where_they_lie(engine: ModuleType, axis: int, dtype: str) -> None:
    """Of tensors without gaps and others; with weights and without."""
    kind = getattr(torch, dtype)
    target = rounding_target(kind).dtype
    drawn, given = (torch.randn(5, 6, 40).to(kind) for _ in range(2))
    weight, bias = (torch.randn(drawn.shape[axis]) for _ in range(2))
    eps = LAYER_NORM.eps((None, None), np.float32)
    for x in (drawn, drawn.transpose(0, 2).contiguous().transpose(0, 2), drawn[:, ::2].expand(5, 3, 40)):
        slopes = given[tuple(slice(each) for each in x.shape)]
        lines = [each[: x.shape[axis]] for each in (weight, bias)]
        for factor, term in ((None, None), (lines[0], None), (None, lines[1]), lines):
            found = engine.weighted_norm(LAYER_NORM, x, axis, factor, term, None, target, None)
            wanted = (
                tcu.layer_norm(x, axis)
                if factor is term
                else tcu.layer_norm(x, axis, weight=factor, bias=term)
            )
            assert torch.equal(found, wanted)
        products = engine.norms_times(LAYER_NORM, x, slopes, axis, None)
        assert torch.equal(products, tcu.layer_norm(x, axis, dtype="float32") * slopes.float())
        leaf = x.clone().requires_grad_()
        wanted = torch.autograd.grad(tcu.layer_norm(leaf, axis), leaf, slopes)[0]
        assert torch.equal(engine.row_gradient("standard", slopes, x, axis, eps, kind), wanted)


@pytest.mark.slow(2)
@pytest.mark.parametrize("length", [40, 10_000, 70_000])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("operation", ["logsumexp", "log_softmax", "var"])
def test_the_engine_has_the_gradients_of_logarithms_and_variances(
    engine: ModuleType, operation: str, dtype: str, length: int
) -> None:
    """Of rows without gaps and others; those of log_softmax that are longer than a cluster's take two launches."""
    row_gradients._logarithms.cache_clear()
    kind = getattr(torch, dtype)
    for x in (torch.randn(3, length).to(kind), torch.randn(length, 3).to(kind).T):
        leaf = x.clone().requires_grad_()
        result = getattr(tcu, operation)(leaf, 1) if operation != "var" else tcu.var(leaf, 1, correction=1)
        given = torch.randn(result.shape).to(result.dtype)
        (wanted,) = torch.autograd.grad(result, leaf, given)
        if operation == "logsumexp":
            found = engine.log_gradient("log", x, 1, given.float(), None, kind)
        elif operation == "var":
            found = engine.variance_gradient(x, 1, (2 * given).float(), length - 1.0, kind)
        else:
            found = engine.row_gradient("log_share", given, x, 1, 0.0, kind)
        assert torch.equal(found, wanted)
    row_gradients._logarithms.cache_clear()


@pytest.mark.parametrize(
    "change",
    [
        {"return times(y, minus(g, total));": "return times(y, minus(total, g));"},
        {"plus(sums[1], sums[3]));": "plus(sums[1], sums[2]));"},
        {"(IN_FOURS ? at : at + i) < length": "(IN_FOURS ? at : at + i) <= length"},
        {"times(g, numbers[i])": "times(g, numbers[i / 2])"},
        {"HIGHEST) - exponent": "HIGHEST) - min(max(exponent, LOWEST), HIGHEST)"},
        {"-117 - __clz(largest)": "0"},
        {"squares != 0 ? lift : 1": "true ? lift : 1"},
        {"times(back, gradient)": "gradient"},
    ],
    ids=["sign", "load", "length", "weight", "lift", "subnormal", "equal numbers", "gradient's lift"],
)  # fmt: skip
def test_an_error_in_the_text_is_seen(host: HostGpu, change: dict[str, str]) -> None:
    host.changes["row_gradients.cu"] = change
    text = next(iter(change))
    lifted = any(each in text for each in ("HIGHEST", "__clz", "squares", "back"))
    finish = "standard" if "length" in text or "numbers" in text or lifted else "share"
    kept = small_and_large((15, 515), "binary32") if lifted else None
    with pytest.raises(AssertionError):
        check(
            host,
            finish,
            FORMATS[-1],
            (15, 515),
            weighted="numbers" in text,
            kept=kept,
            eps=0.0 if "__clz" in text else None,
        )
