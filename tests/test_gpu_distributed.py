"""Contract: reductions of CUDA tensors over NCCL have the bits of those on the CPU; ranks that differ give NaN.

One process with a group of its own is enough for the kernels; several GPUs
are the matter of benchmarks/gpu_distributed.py, which checks bits, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip
from numbers_of_all_kinds import KINDS, draw
from test_gpu_sums import to_gpu

import tcu
from tcu.errors import DtypeError, InvalidOperationError, ParameterError
from tcu.formats import format_of
from tcu.ops import find_operation
from tcu.ops.result import result_format
from tcu.plan import DEFAULT_VARIANT
from tcu.surfaces.shares import rounded_share, share_of

pytestmark = pytest.mark.gpu

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
OPERATIONS = ["fsum", "fmean", "fnorm", "fdot", "sum", "mean", "norm", "dot"]


@pytest.fixture(scope="module")
def torch() -> Iterator[Any]:
    unit_or_skip(gpu_or_skip())
    torch = library_or_skip("torch")
    if not torch.distributed.is_nccl_available():
        pytest.skip("PyTorch without NCCL")
    torch.cuda.set_device(0)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl", store=store, rank=0, world_size=1)
    yield torch
    torch.distributed.destroy_process_group()


def codes(tensor: Any, torch: Any) -> int:
    raw = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return int(tensor.view(raw).item()) & ((1 << 8 * tensor.element_size()) - 1)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_the_bits_are_those_of_the_cpu(torch: Any, operation: str, dtype: Any) -> None:
    function = getattr(tcu.distributed, operation)
    unit = {"unit": gpu_or_skip().unit.name} if operation in ("sum", "mean") else {}
    rng = np.random.default_rng(1)
    for n in (0, 1, 5000):
        for kind in KINDS:
            x = draw(rng, n, dtype, kind)
            for target in (None, "float64", "bfloat16"):
                fmt = result_format(format_of(x.dtype), target)
                arrays = (x, x[::-1].copy()) if operation in ("dot", "fdot") else (x,)
                tensors = [to_gpu(torch, each, 0) for each in arrays]
                try:
                    with np.errstate(all="ignore"):
                        options = (*unit.values(), DEFAULT_VARIANT, *[None] * 5) if unit else (None, None)
                        share = share_of(find_operation(operation), arrays, options)
                        wanted = rounded_share(find_operation(operation), share, fmt)
                    code = int(np.array([wanted]).view(fmt.code_dtype)[0])
                except InvalidOperationError:
                    code = fmt.nan_code
                found = function(*tensors, dtype=target)
                assert found.is_cuda
                assert found.shape == ()
                assert codes(found, torch) == code, (operation, n, kind, target, found)


@pytest.mark.parametrize("operation", ["fsum", "fmean", "sum", "mean"])
def test_rows_have_the_bits_of_the_cpu(torch: Any, operation: str) -> None:
    x = torch.randn((50, 300), generator=torch.Generator().manual_seed(3))
    unit = {} if operation.startswith("f") else {"unit": gpu_or_skip().unit.name}
    for axis in (0, 1, (0, 1)):
        for keepdims in (False, True):
            found = getattr(tcu.distributed, operation)(x.cuda(), axis, keepdims=keepdims, **unit)
            assert found.is_cuda
            assert torch.equal(found.cpu(), getattr(tcu, operation)(x, axis, keepdims=keepdims, **unit))
    x[0, 0], x[1, 0] = float("inf"), float("-inf")
    assert tcu.distributed.fsum(x.cuda(), 0).isnan().sum() == 1


def test_a_pending_result_and_cpu_tensors_beside(torch: Any) -> None:
    x = torch.arange(1000.0, device="cuda")
    pending = tcu.distributed.fsum(x, async_op=True)
    assert pending.wait().item() == 499500.0
    assert tcu.distributed.fsum(x.cpu()).item() == 499500.0
    assert tcu.distributed.sum(x.half()).item() == tcu.sum(x.half()).item()


def test_a_rank_that_refuses_takes_part_all_the_same(torch: Any) -> None:
    with pytest.raises(DtypeError, match=r"x has dtype torch\.int32"):
        tcu.distributed.fsum(torch.ones(3, device="cuda", dtype=torch.int32))
    assert tcu.distributed.fsum(torch.ones(3, device="cuda")).item() == 3


def test_ranks_that_differ_raise_at_first_and_give_nan_later(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another rank's words are pretended: an all_reduce that adds those of another dtype.

    What the process reduced before is forgotten, so that here fsum's first call is the one above the pretence.
    """
    from tcu.distributed import on_gpu

    monkeypatch.setattr(on_gpu, "_checked", set())
    x = torch.ones(10, device="cuda", dtype=torch.float64)
    assert tcu.distributed.fsum(x).item() == 10
    exchange = torch.distributed.all_reduce

    def another(words: Any, **options: Any) -> Any:
        words[-2:] += 1
        return exchange(words, **options)

    monkeypatch.setattr(torch.distributed, "all_reduce", another)
    assert torch.isnan(tcu.distributed.fsum(x))
    with pytest.raises(ParameterError, match="the ranks do not agree on what is reduced; this one has tcu"):
        tcu.distributed.fmean(x)
