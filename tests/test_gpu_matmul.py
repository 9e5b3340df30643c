"""Contract of ``tcu.matmul`` on a GPU: the bits of the model of its unit, for every format, shape, place in memory, batch,
scale and bias; and the same bits for a row alone and in any batch.  ``tcu.segment_matmul`` likewise, whatever its offsets.

What needs no GPU is in tests/test_matmul_launches.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
E4M3, E5M2, S8, U8 = torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.uint8
Case = tuple[Any, Any, dict[str, Any]]


def numbers(*shape: int, dtype: Any = F16) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    if dtype in (S8, U8):
        return torch.randint(-128 if dtype == S8 else 0, 128, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def plain(m: int, k: int, n: int, a: Any = F16, b: Any = None, **options: Any) -> Case:
    return numbers(m, k, dtype=a), numbers(k, n, dtype=b or a), options


def transposed(*shape: int, dtype: Any = F16) -> Any:
    return numbers(*shape, dtype=dtype).transpose(-1, -2)


CASES: dict[str, Callable[[], Case]] = {
    "tiles": lambda: plain(200, 600, 328),
    "more tiles than run at once": lambda: plain(2100, 600, 2200),
    "208 columns": lambda: plain(4096, 304, 4096),
    "208 columns, both transposed": lambda: (transposed(304, 4096), transposed(4096, 304), {}),
    "three warpgroups": lambda: plain(2304, 304, 1408),
    "three warpgroups, a transposed": lambda: (transposed(304, 2304), numbers(304, 1408), {}),
    "one chain": lambda: plain(260, 600, 520, BF16, plan="chain", dtype=BF16),
    "b transposed": lambda: (numbers(200, 640), transposed(136, 640), {}),
    "a transposed": lambda: (transposed(640, 200), numbers(640, 136), {}),
    "both transposed": lambda: (transposed(640, 200), transposed(136, 640), {}),
    "lines anywhere": lambda: plain(131, 333, 157),
    "results anywhere": lambda: plain(300, 77, 157, BF16, dtype=BF16),
    "one row": lambda: plain(1, 4096, 1000, BF16, dtype=BF16),
    "few rows": lambda: (numbers(16, 4096, dtype=BF16), transposed(512, 4096, dtype=BF16), {"dtype": BF16}),
    "64 rows": lambda: plain(64, 1024, 512),
    "100 rows, binary64": lambda: plain(100, 1024, 512, dtype=F64),
    "16 columns": lambda: plain(3000, 16, 16),
    "tall": lambda: plain(70_001, 16, 16),
    "tall, bfloat16": lambda: plain(5000, 32, 24, BF16, dtype=BF16),
    "tall, one step of k": lambda: (numbers(9000, 40)[:, 4:16], transposed(20, 12), {}),
    "tall, scales and a bias": lambda: plain(
        5000, 28, 32, scale_a=numbers(5000, dtype=F32), scale_b=numbers(32, dtype=F32), bias=numbers(32), dtype=F16
    ),
    "64 columns": lambda: plain(3000, 64, 64),
    "b stays": lambda: plain(60_001, 100, 64),
    "b stays, transposed": lambda: (numbers(60_001, 64), transposed(64, 64), {}),
    "b stays, few columns": lambda: plain(51_000, 64, 8, BF16, dtype=BF16),
    "b stays, 40 columns": lambda: plain(51_000, 200, 40, BF16, dtype=BF16),
    "b stays, 100 columns": lambda: plain(60_001, 128, 100),
    "b stays, 256 columns": lambda: plain(40_003, 256, 256),
    "b stays, 200 columns, both transposed": lambda: (transposed(200, 40_008), transposed(200, 200), {}),
    "b stays, results anywhere": lambda: plain(60_001, 77, 57),
    "b stays, binary64": lambda: plain(60_001, 64, 64, dtype=F64),
    "b stays, chains in binary16": lambda: plain(60_001, 64, 64, accumulator="float16"),
    "b stays, tf32": lambda: plain(60_001, 36, 64, F32),
    "b stays, e4m3": lambda: (numbers(60_001, 128, dtype=E4M3), transposed(64, 128, dtype=E4M3), {"dtype": BF16}),
    "b stays, s8": lambda: plain(60_001, 128, 48, S8),
    "b stays, scales and a bias": lambda: plain(
        60_001, 64, 72, scale_a=numbers(60_001, dtype=F32), scale_b=numbers(72, dtype=F32), bias=numbers(72), dtype=F16
    ),
    "b stays for a batch": lambda: (
        numbers(2, 51_001, 64), numbers(64, 64), {"scale_a": numbers(51_001, dtype=F32)}
    ),
    "whole rows": lambda: plain(140_001, 64, 64),
    "whole rows, 33 columns": lambda: plain(140_003, 40, 33),
    "whole rows, one column": lambda: plain(140_003, 136, 1),
    "whole rows, 51 columns, bfloat16": lambda: plain(140_003, 128, 51, BF16, dtype=BF16),
    "whole rows, 100 columns": lambda: plain(140_003, 64, 100),
    "whole rows, 200 columns": lambda: plain(70_003, 64, 200),
    "whole rows, 256 columns": lambda: plain(70_003, 64, 256),
    "whole rows, 129 columns, binary16": lambda: plain(70_003, 64, 129, dtype=F16),
    "whole rows, s8": lambda: plain(140_003, 64, 63, S8),
    "whole rows, scales and a bias": lambda: plain(
        140_003, 64, 61, scale_a=numbers(140_003, dtype=F32), scale_b=numbers(61, dtype=F32), bias=numbers(61), dtype=F16
    ),
    "whole rows of a batch": lambda: (numbers(2, 70_008, 64), numbers(64, 54), {"scale_a": numbers(70_008, dtype=F32)}),
    "tf32": lambda: plain(200, 300, 264, F32),
    "tf32, cut": lambda: plain(200, 300, 264, F32, rounding="cut"),
    "e4m3": lambda: (numbers(200, 640, dtype=E4M3), transposed(144, 640, dtype=E4M3), {"dtype": BF16}),
    "e4m3, one chain": lambda: plain(200, 640, 144, E4M3, plan="chain"),
    "e5m2": lambda: plain(20, 640, 144, E5M2),
    "s8": lambda: plain(200, 640, 144, S8),
    "s8, scales and a bias": lambda: plain(
        200, 640, 144, S8, scale_a=numbers(200, dtype=F32), scale_b=numbers(144, dtype=F32), bias=numbers(144)
    ),
    "s8, few rows and a bias": lambda: plain(3, 640, 144, S8, bias=numbers(144, dtype=F32), dtype=F16),
    "u8 by s8": lambda: plain(20, 640, 144, U8, S8),
    "s8 by u8, rounded": lambda: plain(200, 640, 144, S8, U8, dtype=BF16),
    "s8, binary64": lambda: plain(200, 640, 144, S8, dtype=F64),
    "binary64": lambda: plain(100, 200, 90, F64),
    "chains in binary16": lambda: plain(200, 300, 264, accumulator="float16"),
    "no k": lambda: plain(20, 0, 16),
    "k = 1": lambda: plain(200, 1, 16),
    "a batch": lambda: (numbers(3, 200, 128), numbers(3, 128, 136), {}),
    "batches that broadcast": lambda: (numbers(2, 3, 150, 136), numbers(3, 136, 64), {}),
    "a batch by one matrix": lambda: (numbers(4, 100, 128), numbers(128, 72), {}),
    "a vector": lambda: (numbers(640), numbers(640, 144), {}),
    "by a vector": lambda: (numbers(200, 640), numbers(640), {}),
    "parts": lambda: (numbers(300, 700)[3:203, 5:605], numbers(600, 300)[:, 1:265], {}),
    "scales and a bias": lambda: plain(
        200, 300, 264, scale_a=numbers(200, dtype=F32), scale_b=numbers(264, dtype=F32), bias=numbers(264), dtype=BF16
    ),
    "scales of a batch": lambda: (
        numbers(3, 200, 128), numbers(128, 72), {"scale_a": numbers(200, dtype=F32), "bias": numbers(72, dtype=F32)}
    ),
    "scales of few rows": lambda: plain(20, 300, 264, E4M3, scale_a=numbers(20, dtype=F32), scale_b=2.5),
    "scales of integers": lambda: plain(200, 300, 264, S8, scale_a=numbers(200, dtype=F32), dtype=F32),
    "scales of binary64": lambda: plain(50, 60, 64, F64, scale_a=0.3, bias=numbers(64, dtype=F64)),
}  # fmt: skip


def moved(x: Any) -> Any:
    """On the GPU, with the strides and the alignment that it has here."""
    if not isinstance(x, torch.Tensor) or x._base is None:
        return x.cuda() if isinstance(x, torch.Tensor) else x
    return x._base.cuda().as_strided(x.shape, x.stride(), x.storage_offset())


def codes(x: Any) -> Any:
    return x.cpu().contiguous().view(torch.uint8)


@pytest.mark.parametrize("case", CASES)
def test_the_bits_are_the_models(case: str) -> None:
    unit = unit_or_skip(gpu_or_skip())
    library_or_skip("torch")
    a, b, options = CASES[case]()
    got = tcu.matmul(moved(a), moved(b), **{name: moved(x) for name, x in options.items()})
    want = tcu.matmul(a, b, unit=unit, **options)
    assert got.dtype == want.dtype
    assert torch.equal(codes(got), codes(want))


@pytest.mark.parametrize("rows", [1, 2, 7, 64, 129, 1000, 4096])
@pytest.mark.parametrize("dtype", [F16, E4M3])
def test_a_row_has_the_same_bits_in_every_batch(dtype: Any, rows: int) -> None:
    gpu_or_skip()
    library_or_skip("torch")
    a, b = numbers(5000, 2048, dtype=dtype).cuda(), numbers(2048, 512, dtype=dtype).cuda()
    whole = tcu.matmul(a, b)
    assert torch.equal(codes(tcu.matmul(a[:rows], b)), codes(whole[:rows]))
    each = torch.stack([tcu.matmul(row, b) for row in a[: min(rows, 64)]])
    assert torch.equal(codes(each), codes(whole[: len(each)]))


def test_the_same_bits_again_and_again_while_other_streams_work() -> None:
    gpu_or_skip()
    library_or_skip("torch")
    a, b = numbers(700, 4096).cuda(), numbers(4096, 2600).cuda()
    few = a[:5]
    first, first_few = tcu.matmul(a, b), tcu.matmul(few, b)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(3)]
    for turn in range(30):
        with torch.cuda.stream(streams[turn % 3]):
            assert torch.equal(tcu.matmul(a, b), first)
            assert torch.equal(tcu.matmul(few, b), first_few)


def test_a_call_like_one_before_multiplies_its_own_numbers() -> None:
    unit = unit_or_skip(gpu_or_skip())
    library_or_skip("torch")
    for case in ("tiles", "few rows", "lines anywhere", "scales and a bias", "s8", "binary64"):
        a, b, options = CASES[case]()
        for turn in range(3):
            x, given = a.roll(turn, 0), {name: moved(each) for name, each in options.items()}
            got = tcu.matmul(x.cuda(), moved(b), **given)
            assert torch.equal(codes(got), codes(tcu.matmul(x, b, unit=unit, **options))), (case, turn)


def test_out_takes_the_result_wherever_it_lies() -> None:
    gpu_or_skip()
    library_or_skip("torch")
    a, b = numbers(200, 200).cuda(), numbers(200, 200).cuda()
    want = tcu.matmul(a, b, dtype=F16)
    out = torch.empty(200, 200, dtype=F16, device="cuda")
    assert tcu.matmul(a, b, out=out) is out
    assert torch.equal(out, want)
    across = torch.empty(200, 200, dtype=F16, device="cuda").t()
    assert torch.equal(tcu.matmul(a, b, out=across), want)
    over = a.clone()
    assert torch.equal(tcu.matmul(over, b, out=over), want), "an operand's own memory"


def test_what_cannot_be() -> None:
    gpu_or_skip()
    library_or_skip("torch")
    a, b = numbers(20, 30).cuda(), numbers(30, 40).cuda()
    with pytest.raises(ShapeError):
        tcu.matmul(a, b[:20])
    with pytest.raises(DtypeError):
        tcu.matmul(a, b.float())
    with pytest.raises(ParameterError):
        tcu.matmul(a, b.cpu())
    with pytest.raises(ParameterError):
        tcu.matmul(a, b, unit="V100")
    with pytest.raises(ShapeError, match="scale_a"):
        tcu.matmul(a, b, scale_a=torch.ones(7, device="cuda"))


SEGMENTS: dict[str, tuple[list[int], int, int, Any, dict[str, Any]]] = {
    "one row each": ([1] * 40, 300, 136, BF16, {"dtype": BF16}),
    "few rows, most empty": ([0, 5, 0, 0, 1, 17, 0], 640, 200, F16, {}),
    "lengths of all kinds": ([3, 0, 130, 64, 1, 700, 0, 12], 333, 157, BF16, {}),
    "two hundred segments": ([(7 * i) % 23 for i in range(200)], 520, 72, F16, {"dtype": F16}),
    "long ones": ([900, 1300, 0, 2500], 600, 520, BF16, {"dtype": BF16}),
    "long ones, one chain": ([900, 1300, 0, 2500], 600, 520, BF16, {"plan": "chain"}),
    "few columns": ([900, 1300, 0, 2500], 128, 40, F16, {}),
    "e4m3": ([100, 300, 50], 640, 144, E4M3, {"dtype": BF16}),
    "tf32": ([100, 300, 50], 300, 144, F32, {}),
    "s8": ([10, 30, 5], 640, 144, S8, {}),
    "binary64": ([10, 30, 5], 100, 40, F64, {}),
    "no k": ([10, 30, 5], 0, 40, F16, {}),
    "no rows": ([0, 0, 0], 64, 40, F16, {}),
}  # fmt: skip


@pytest.mark.parametrize("weights_by_columns", [False, True])
@pytest.mark.parametrize("case", SEGMENTS)
def test_segments_have_the_models_bits(case: str, weights_by_columns: bool) -> None:
    unit = unit_or_skip(gpu_or_skip())
    library_or_skip("torch")
    lengths, k, n, dtype, options = SEGMENTS[case]
    edges = torch.tensor([0, *lengths]).cumsum(0)
    x = numbers(sum(lengths), k, dtype=dtype)
    weights = (
        numbers(len(lengths), n, k, dtype=dtype).mT
        if weights_by_columns
        else numbers(len(lengths), k, n, dtype=dtype)
    )
    want = tcu.segment_matmul(x, weights, edges, unit=unit, **options)
    for offsets in (edges, edges.cuda(), edges.int().cuda()):
        got = tcu.segment_matmul(x.cuda(), moved(weights), offsets, **options)
        assert torch.equal(codes(got), codes(want))


def test_segments_in_a_cuda_graph_follow_their_offsets() -> None:
    gpu_or_skip()
    library_or_skip("torch")
    x, weights = numbers(300, 640).cuda(), numbers(4, 640, 136).cuda()
    edges = torch.tensor([0, 10, 10, 200, 300]).cuda()
    tcu.segment_matmul(x, weights, edges, check=False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = tcu.segment_matmul(x, weights, edges, check=False)
    for line in ([0, 10, 10, 200, 300], [0, 150, 160, 170, 300]):
        edges.copy_(torch.tensor(line))
        graph.replay()
        assert torch.equal(found, tcu.segment_matmul(x, weights, line))


def test_wrong_offsets_on_the_gpu_are_said() -> None:
    gpu_or_skip()
    library_or_skip("torch")
    x, weights = numbers(30, 64).cuda(), numbers(3, 64, 16).cuda()
    for line, message in (
        ([0, 20, 10, 30], "decrease"),
        ([0, 1, 2, 99], "x has 30 rows"),
        ([2, 3, 4, 30], "start"),
    ):
        with pytest.raises(ParameterError, match=message):
            tcu.segment_matmul(x, weights, torch.tensor(line).cuda())


def test_more_results_than_two_to_the_31() -> None:
    gpu_or_skip()
    library_or_skip("torch")
    a, b = numbers(70_000, 16).cuda(), numbers(16, 31_000).cuda()
    got = tcu.matmul(a, b, dtype=F16)
    for rows in (slice(0, 5), slice(69_300, 69_310), slice(69_990, 70_000)):
        assert torch.equal(got[rows], tcu.matmul(a[rows], b, dtype=F16))
