"""Contract of softmax, its kin and norms on a GPU: the bits of the CPU, for every length, layout and format.

Scaled exponentials are compared for every argument of binary32 that they take, by sums of their codes.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import one_nan, same
from gpu_support import gpu_or_skip, library_or_skip
from test_exponentials import scaled32
from test_gpu_sums import to_gpu
from test_norms import far_from_zero
from test_row_gradients_on_host import small_and_large

import tcu
from tcu.gpu.compiler import read_sources
from tcu.model import threads

pytestmark = pytest.mark.gpu

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
names = pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "logsumexp", "rms_norm", "layer_norm", "normalize"]
)
LAST = 0x42D00000
"""The code of 104."""


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    gpu_or_skip()
    return library_or_skip("torch")


def check(name: str, x: Any, tensor: Any, axis: int = -1, **options: Any) -> None:
    function = getattr(tcu, name)
    same(function(tensor, axis, **options), function(x, axis, **options), x.shape, axis, options)


def numbers(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.choice([0.1, 3, 30]) * rng.standard_normal(shape)
    flat = x.reshape(-1)
    for value in (np.inf, np.nan, -np.inf, -104.5, 0):
        flat[rng.integers(flat.size)] = value
    with np.errstate(all="ignore"):
        return x.astype(dtype)


@names
@dtypes
def test_rows_of_every_length(torch, name, dtype) -> None:
    for length in [
        *range(1, 70),
        100,
        127,
        128,
        129,
        255,
        257,
        511,
        512,
        777,
        1000,
        1023,
        1024,
        1025,
        2048,
        3001,
    ]:
        x = numbers((37, length), dtype, length)
        check(name, x, to_gpu(torch, x, length % 3))


@names
@dtypes
def test_rows_of_a_block_and_longer_ones(torch, name, dtype) -> None:
    for length in (4096, 8191, 16384, 32760, 32768, 32769, 50257, 131072, 300001, (1 << 20) + 8):
        x = numbers((3, length), dtype, length)
        check(name, x, to_gpu(torch, x, length % 2))
    check(
        name,
        np.zeros((1, 1 << 22), dtype),
        torch.zeros((1, 1 << 22), device="cuda", dtype=to_gpu(torch, x).dtype),
    )


@names
@dtypes
def test_many_numbers(torch, name, dtype) -> None:
    """10^7 outputs of each function and format."""
    shape = (2500, 4001) if name != "logsumexp" else (1_250_000, 8)
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    check(name, x, to_gpu(torch, x))


@names
def test_axes_layouts_and_formats(torch, name) -> None:
    for dtype in DTYPES:
        x = numbers((9, 20, 33), dtype, 4)
        there = to_gpu(torch, x)
        for axis in (0, 1, -1):
            check(name, x, there, axis)
            check(name, x[:, ::2].swapaxes(0, 2), there[:, ::2].transpose(0, 2), axis)
            for target in ("float16", "bfloat16", "float32", "float64"):
                check(name, x, there, axis, dtype=target)
    out = torch.empty((9, 20, 33) if name != "logsumexp" else (9, 20), device="cuda", dtype=torch.float32)
    function = getattr(tcu, name)
    assert function(there, -1, out=out) is out
    same(out, function(x, -1, dtype="float32"))
    assert function(there[:0], -1).shape == function(x[:0], -1).shape
    same(function(there[:, :, :0], -1), function(x[:, :, :0], -1))
    if name == "logsumexp":
        same(tcu.logsumexp(there), tcu.logsumexp(x))
        same(tcu.logsumexp(there, (0, 2), keepdims=True), tcu.logsumexp(x, (0, 2), keepdims=True))


@names
def test_a_row_depends_on_its_numbers_alone(torch, name) -> None:
    """Batches of 1 to 4096."""
    x = torch.randn(4096, 1000, device="cuda").bfloat16()
    function = getattr(tcu, name)
    whole = function(x, -1)
    for count in (1, 2, 3, 17, 400):
        assert torch.equal(function(x[5 : 5 + count], -1), whole[5 : 5 + count])


@names
def test_gradients_graphs_and_compile(torch, name) -> None:
    function = getattr(tcu, name)
    x = torch.randn(5, 70, device="cuda", dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: function(x, -1), x)
    y = torch.randn(64, 512, device="cuda")
    wanted = function(y, -1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = function(y, -1)
    graph.replay()
    assert torch.equal(found, wanted)


def test_every_argument_of_the_scaled_exponential(torch) -> None:
    """2^44 · exp(x) for all numbers from -104 to -0, by sums of codes with weights: 2^24 of them at a time."""
    cupy = library_or_skip("cupy")
    texts = dict(read_sources("exponentials.cu"))
    own = "".join(texts[f"device/{name}.cuh"] for name in ("types/types", "elementary/functions"))
    own = re.sub(r'#(include "[^"]+"|pragma once)', "", own)
    kernel = cupy.RawKernel(
        own
        + """
extern "C" __global__ void sums(unsigned long long* out, unsigned last) {
    const unsigned at = blockIdx.x * 1024 + threadIdx.x;
    if (at > last) return;
    const float e = tcu::elementary::exp_scaled(__uint_as_float(0x80000000u + at));
    atomicAdd(out + (at >> 24), __float_as_uint(e) * (2ull * at + 1));
}""",
        "sums",
        options=("--std=c++17",),
    )
    blocks = (LAST >> 24) + 1
    found = cupy.zeros(blocks, cupy.uint64)
    kernel((LAST // 1024 + 1,), (1024,), (found, np.uint32(LAST)))
    found = cupy.asnumpy(found)

    def wanted(block: int) -> int:
        total = 0
        for first in range(block << 24, min((block + 1) << 24, LAST + 1), 1 << 21):
            at = np.arange(first, min(first + (1 << 21), LAST + 1), dtype=np.uint64)
            x = (at + 0x80000000).astype(np.uint32).view(np.float32)
            codes = scaled32(x).view(np.uint32).astype(np.uint64)
            total += int((codes * (2 * at + 1)).sum())
        return total % (1 << 64)

    for block, expected in enumerate(threads.in_order(wanted, range(blocks))):
        assert int(found[block]) == expected, block


def check_losses(torch: Any, x: Any, target: Any, options: dict[str, Any], shift: int = 0) -> None:
    """Losses and gradients of x on a GPU, ``shift`` numbers behind a multiple of 16 bytes, have the bits of the CPU."""
    results = []
    classes = torch.from_numpy(target)
    for device in ("cpu", "cuda"):
        given = to_gpu(torch, x, shift)
        given = given.requires_grad_() if device == "cuda" else given.cpu().requires_grad_()
        found = tcu.cross_entropy(given, classes.to(device), **options)
        results.append([found.detach(), torch.autograd.grad(found.sum(), given)[0]])
    for wanted, found in zip(*results, strict=True):
        same(found.cpu(), wanted, x.shape, x.dtype, options)


@dtypes
def test_losses_of_rows_of_every_length(torch, dtype) -> None:
    """In registers of lanes, of a block, of a cluster, and read twice; gradients by several blocks."""
    rng = np.random.default_rng(8)
    for length in (1, 3, 8, 70, 513, 1000, 4096, 8193, 32768, 50257, 131072, 262144, (1 << 19) + 8):
        x, target = numbers((4, length), dtype, length), rng.integers(0, length, 4)
        target[1] = -100
        for options in ({"reduction": "none"}, {"reduction": "none", "label_smoothing": 0.1, "z_loss": 1e-3}):
            check_losses(torch, x, target, options, length % 3)


@dtypes
def test_many_losses_and_gradients(torch, dtype) -> None:
    """10^7 gradients of each format."""
    rng = np.random.default_rng(9)
    x, target = (3 * rng.standard_normal((2500, 4001))).astype(dtype), rng.integers(0, 4001, 2500)
    check_losses(torch, x, target, {"reduction": "none"})


def test_losses_in_graphs_of_cuda(torch) -> None:
    x, target = torch.randn(64, 512, device="cuda"), torch.arange(64, device="cuda")
    x.requires_grad_()

    def step() -> Any:
        return torch.autograd.grad(tcu.cross_entropy(x, target, label_smoothing=0.1), x)[0]

    wanted = step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    graph.replay()
    assert torch.equal(found, wanted)


def test_cross_entropy(torch) -> None:
    """The bits of the CPU; a target that is no class gives NaN, which nobody waits for."""
    rng = np.random.default_rng(6)
    for dtype in DTYPES:
        x, target = (4 * rng.standard_normal((300, 1003))).astype(dtype), rng.integers(0, 1003, 300)
        there, classes = to_gpu(torch, x), torch.from_numpy(target).cuda()
        for options in (
            {},
            {"reduction": "none"},
            {"label_smoothing": 0.1},
            {"z_loss": 1e-3, "reduction": "sum"},
        ):
            same(
                tcu.cross_entropy(there, classes, **options), tcu.cross_entropy(x, target, **options), options
            )
            check_losses(torch, x, target, options)
    classes[7] = 1003
    assert tcu.cross_entropy(there, classes, reduction="none").isnan().nonzero().tolist() == [[7]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_weighted_norms_have_the_bits_of_the_cpu(torch, dtype) -> None:
    """In one launch; of every layout and alignment, and weights of other formats."""
    generator = torch.Generator().manual_seed(3)
    kind = getattr(torch, dtype)
    for n in (1, 3, 64, 100, 1000, 1024, 4097, 8192, 50_257, 100_000, 300_001):
        x = torch.randn(4, n, generator=generator).to(kind)
        lines = [torch.randn(n, generator=generator).to(each) for each in (kind, torch.float32)]
        for axis, of in (
            (-1, x),
            (0, x.t().contiguous()),
            (-1, torch.cat([x, x], 1)[:, n // 2 : n // 2 + n]),
        ):
            for name, options in (
                ("rms_norm", {"weight": lines[0]}), ("layer_norm", {"weight": lines[1], "bias": lines[0]}),
                ("layer_norm", {"bias": lines[1]}), ("rms_norm", {"weight": lines[1].double(), "dtype": "float32"}),
            ):  # fmt: skip
                mine = getattr(tcu, name)(of.cuda(), axis, **{
                    key: each.cuda() if hasattr(each, "cuda") else each for key, each in options.items()
                })  # fmt: skip
                theirs = getattr(tcu, name)(of, axis, **options)
                assert mine.dtype == theirs.dtype
                assert torch.equal(mine.cpu(), theirs), (name, n, axis, list(options))


def gradient(torch, name, x, given, axis, weights):
    """The gradients of x and of the weights, where there are some."""
    x = x.detach().requires_grad_()
    weights = {key: each.detach().to(x.device).requires_grad_() for key, each in weights.items()}
    found = getattr(tcu, name)(x, axis, **weights)
    return torch.autograd.grad(found, [x, *weights.values()], given.to(found.device, found.dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    ("name", "weighted"),
    [
        ("softmax", ()), ("log_softmax", ()), ("rms_norm", ()), ("rms_norm", ("weight",)), ("layer_norm", ()),
        ("layer_norm", ("weight", "bias")), ("normalize", ()),
    ],
)  # fmt: skip
def test_gradients_have_the_bits_of_the_cpu(torch, name, weighted, dtype) -> None:
    """In one launch; rows of a warp, of a block, of several chunks, and longer than it takes; columns, gaps, any alignment."""
    generator = torch.Generator().manual_seed(7)
    kind = getattr(torch, dtype)
    layouts = [
        (shape, axis, lambda x: x)
        for shape, axis in [
            ((5, 1), -1),
            ((9, 3), -1),
            ((70, 300), -1),
            ((130, 33), 0),
            ((3, 50, 7), 1),
            ((5, 1000), -1),
        ]
    ]
    layouts += [((4, n), -1, lambda x: x) for n in (1027, 4096, 8192, 20_000, 50_257, 262_144, 262_145)]
    layouts += [((40, 130), -1, lambda x: x[3:, 1:129]), ((40, 66), -1, lambda x: x[::2, 2:])]
    for shape, axis, cut in layouts:
        x, given = (torch.randn(shape, generator=generator).to(kind) for _ in range(2))
        n = cut(x).shape[axis]
        weights = {key: torch.randn(n, generator=generator) for key in weighted}
        on_gpu = gradient(torch, name, cut(x.cuda()), cut(given.cuda()), axis, weights)
        on_cpu = gradient(torch, name, cut(x), cut(given), axis, weights)
        for mine, theirs in zip(on_gpu, on_cpu, strict=True):
            same(mine.cpu().float().numpy(), theirs.float().numpy(), name, shape, axis)


@pytest.mark.parametrize("length", [2, 61, 1000, 5003, 50_257, 300_001])
def test_rows_far_from_zero_in_binary64(torch, length) -> None:
    """Kept by lanes, by a block, by a cluster and by nobody."""
    x = np.stack(list(far_from_zero(length).values()))
    check("layer_norm", x, torch.from_numpy(x).cuda(), eps=0.0)
    check("layer_norm", x[:, ::-1], torch.from_numpy(x).cuda().flip(1))


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "normalize"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("length", [3, 130, 1028, 17_001, 262_145])
def test_gradients_of_norms_of_small_and_large_rows(torch, name, dtype, length) -> None:
    """Whose rows are multiplied by powers of two: by a kernel, and step by step in binary64 and beyond its rows."""
    x = torch.from_numpy(small_and_large((15, length), "binary32")).to(getattr(torch, dtype))
    given = torch.randn(x.shape, generator=torch.Generator().manual_seed(2)).to(x.dtype)
    for eps in (0.0, None, 1e-38, 1.0):
        on_gpu, on_cpu = (
            torch.autograd.grad(getattr(tcu, name)(leaf, eps=eps), leaf, given.to(leaf.device))[0]
            for leaf in (each.detach().requires_grad_() for each in (x.cuda(), x))
        )
        same(one_nan(on_gpu.double()), one_nan(on_cpu.double()), eps)


def test_gradients_of_weighted_norms_that_are_needed_alone_or_derived_again(torch) -> None:
    """A weight, a bias or x that needs none; second derivatives, which go step by step; results of another format."""
    generator = torch.Generator().manual_seed(9)
    x, given = (torch.randn(37, 200, generator=generator).bfloat16() for _ in range(2))
    lines = [torch.randn(200, generator=generator) for _ in range(2)]

    def found(device, needed, dtype, again):
        tensors = [each.to(device, copy=True) for each in (x, *lines)]
        for each, needs in zip(tensors, needed, strict=True):
            each.requires_grad_(needs)
        result = tcu.layer_norm(tensors[0], weight=tensors[1], bias=tensors[2], dtype=dtype)
        wanted = [each for each, needs in zip(tensors, needed, strict=True) if needs]
        first = torch.autograd.grad(result, wanted, given.to(device, result.dtype), create_graph=again)
        if again:
            first = torch.autograd.grad(first[0].float().square().sum(), wanted[:2])
        return first

    for needed in ((True, False, False), (False, True, False), (False, False, True), (True, True, True)):
        for dtype in (None, "float32", "float16"):
            for again in (False, True) if needed[0] and needed[1] else (False,):
                on_gpu, on_cpu = (found(device, needed, dtype, again) for device in ("cuda", "cpu"))
                for mine, theirs in zip(on_gpu, on_cpu, strict=True):
                    if again:  # sums of squares are PyTorch's there
                        assert torch.allclose(mine.cpu().float(), theirs.float(), rtol=1e-2, atol=1e-2)
                    else:
                        assert torch.equal(mine.cpu(), theirs), (needed, dtype)


def test_many_gradients(torch) -> None:
    """10^7 of bfloat16 for each function; an exact CPU takes its time for more."""
    x = torch.randn(10_000, 1000, device="cuda").bfloat16()
    given = torch.randn_like(x)
    for name in ("softmax", "log_softmax", "rms_norm", "layer_norm", "normalize"):
        mine = gradient(torch, name, x, given, -1, {})[0]
        theirs = gradient(torch, name, x.cpu(), given.cpu(), -1, {})[0]
        assert torch.equal(mine.cpu(), theirs), name


def test_losses_of_columns_outlive_the_copy_that_their_rows_are_read_from(torch) -> None:
    x = torch.randn(1500, 4000, device="cuda")
    target = torch.randint(1500, (4000,), device="cuda")

    def both(x, axis):
        x = x.detach().requires_grad_()
        losses = tcu.cross_entropy(x, target, axis=axis)
        return losses.detach(), torch.autograd.grad(losses.sum(), x)[0]

    by_columns, by_rows = both(x, 0), both(x.t().contiguous(), 1)
    assert torch.equal(by_columns[0], by_rows[0])
    assert torch.equal(by_columns[1], by_rows[1].t())
