"""Contract: a product of tensors in a GPU's memory that is like one before finds its launch again, and nothing else.

The GPU is a pretended one, of PyTorch's tensors on the host and of a launch that computes by the model what lies at the
addresses that it is given.  tests/test_gpu_matmul.py has the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import same

import tcu
from tcu.formats import get_format
from tcu.ops.matmul import FACTORS, MatmulCall, MatmulOptions

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)

from test_device_scans import memory  # noqa: E402

from tcu.gpu.factors import RESULTS  # noqa: E402
from tcu.surfaces.torch import launch_cache, product_cache  # noqa: E402

STREAM, ROOM = 5, 256
FORMATS = {kind: get_format(name).dtype for name, kind in RESULTS.items()}


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_cache, "_current_gpu", lambda: -1)  # as a tensor on the host says
    monkeypatch.setattr(launch_cache, "_raw_stream", lambda ordinal: STREAM)
    monkeypatch.setattr(
        launch_cache, "_empty", lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype)
    )
    monkeypatch.setattr(product_cache, "_calls", {})


def launch_of(like: MatmulCall) -> Any:
    """A launch for calls like this one, of float16 or float32."""
    shapes = [(tuple(x.shape), x.stride(), np.dtype(str(x.dtype).removeprefix("torch."))) for x in like[:2]]

    def start(a: int, b: int, out: int, factors: Any, stream: int, room: int) -> None:
        assert stream == STREAM
        memory(room, ROOM, np.dtype(np.uint8))[...] = 1
        arrays = []
        for address, (shape, strides, dtype) in zip((a, b), shapes, strict=True):
            count = 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
            steps = [step * dtype.itemsize for step in strides]
            arrays.append(np.lib.stride_tricks.as_strided(memory(address, count, dtype), shape, steps))
        given = {}
        extents = {"scale_a": shapes[0][0][-2], "scale_b": shapes[1][0][-1], "bias": shapes[1][0][-1]}
        for name, factor in zip(FACTORS, factors, strict=False):
            given[name] = factor.number
            if factor.numbers:
                count = 1 + (extents[name] - 1) * factor.step
                given[name] = memory(factor.numbers, count, FORMATS[factor.kind])[:: factor.step or 1]
        result = tcu.matmul(*arrays, plan=like.options.plan, dtype=like.options.dtype, **given)
        memory(out, result.size, result.dtype)[...] = result.reshape(-1)

    return start


def model(call: MatmulCall) -> Any:
    given = dict(zip(FACTORS, call[2:5], strict=True))
    return tcu.matmul(call.a, call.b, plan=call.options.plan, dtype=call.options.dtype, **given)


def keep(call: MatmulCall) -> None:
    product_cache.keeper(call)(launch_of(call), ROOM, model(call))


def numbers(*shape: int, dtype: Any = torch.float16, seed: int = 0) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def calls(seed: int) -> dict[str, MatmulCall]:
    a, b, wide = (
        numbers(6, 40, seed=seed),
        numbers(40, 8, seed=seed + 9),
        numbers(6, 40, dtype=torch.float32, seed=seed),
    )
    chain, half = MatmulOptions("chain"), MatmulOptions(dtype=torch.float16)
    columns = numbers(16, dtype=torch.float32, seed=seed)
    return {
        "plain": MatmulCall(a, b),
        "of a chain": MatmulCall(a, b, options=chain),
        "rounded": MatmulCall(a, b, options=half),
        "transposed": MatmulCall(a, numbers(8, 40, seed=seed).t()),
        "of rows": MatmulCall(a[1:5], b),
        "a batch": MatmulCall(numbers(2, 6, 40, seed=seed), b),
        "elsewhere": MatmulCall(numbers(6 * 40 + 1, seed=seed)[1:].view(6, 40), b),
        "float32": MatmulCall(wide, b.float()),
        "with a bias": MatmulCall(a, b, bias=columns[:8], options=half),
        "with another bias": MatmulCall(a, b, bias=columns[::2], options=half),
        "with a bias in float16": MatmulCall(a, b, bias=columns[:8].half(), options=half),
        "with scales": MatmulCall(a, b, scale_a=columns[:6], scale_b=0.25, options=half),
        "with other scales": MatmulCall(a, b, scale_a=columns[:6], scale_b=0.5, options=half),
    }


@pytest.mark.parametrize("name", calls(0))
def test_a_call_like_one_before_computes_with_its_own_numbers(name: str) -> None:
    keep(calls(0)[name])
    for seed in (1, 2):
        call = calls(seed)[name]
        same(product_cache.again(call), model(call), name)


def test_calls_of_all_kinds_are_told_apart() -> None:
    for name, call in calls(0).items():
        assert product_cache.again(call) is None, name
        keep(call)
    assert len(product_cache._calls) == len(calls(0))
    for name, call in calls(3).items():
        same(product_cache.again(call), model(call), name)


def test_what_is_not_found() -> None:
    call = calls(0)["plain"]
    keep(call)
    bias = numbers(8, dtype=torch.float32)
    assert product_cache.again(call._replace(options=MatmulOptions(dtype=[]))) is None
    assert product_cache.key_of(call._replace(a=numbers(0, 40))) is None
    assert product_cache.key_of(call._replace(bias=bias.requires_grad_())) is None
    assert product_cache.key_of(call._replace(bias=np.ones(8))) is None
    assert product_cache.key_of(call._replace(scale_a=True)) is None
    assert product_cache.keeper(call._replace(out=numbers(6, 8))) is None
    assert product_cache.shortcut(call) is None, "tensors on the host have no launches"


def test_another_gpu_or_a_thread_without_a_context_goes_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    call = calls(0)["plain"]

    def fail(*_: Any) -> None:
        raise tcu.gpu.GpuError("no context")

    product_cache.keeper(call)(fail, 0, model(call))
    assert product_cache.again(call) is None
    keep(call)
    monkeypatch.setattr(launch_cache, "_current_gpu", lambda: 1)
    assert product_cache.again(call) is None


def test_no_more_than_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_cache, "_MOST", 3)
    for call in calls(0).values():
        keep(call)
        assert len(product_cache._calls) <= 3
        same(product_cache.again(call), model(call))
