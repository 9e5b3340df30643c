"""Written by ``python -m tcu.surfaces.stub``."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy.typing as npt

from tcu.model.execute import Progress
from tcu.ops.operation import Operation
from tcu.units import Unit

FUNCTIONS: dict[str, Callable[..., Any]]

def function_of(operation: Operation) -> Callable[..., Any]: ...
def segments_of(operation: Operation) -> Callable[..., Any]: ...
def cumsum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = ...,
    *,
    exclusive: bool = ...,
    reverse: bool = ...,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
    return_info: bool = ...,
    progress: Progress | None = ...,
) -> Any: ...
def segment_cumsum(
    x: Any,
    offsets: Any,
    *,
    exclusive: bool = ...,
    reverse: bool = ...,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
    check: bool = ...,
) -> Any: ...
def dot(
    x: Any,
    y: Any,
    *,
    block: int | None = ...,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
    return_info: bool = ...,
) -> Any: ...
def fdot(
    x: Any,
    y: Any,
    *,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
) -> Any: ...
def fmean(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = ...,
    *,
    keepdims: bool = ...,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
) -> Any: ...
def segment_fmean(
    x: Any,
    offsets: Any,
    *,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
    check: bool = ...,
) -> Any: ...
def fnorm(
    x: Any,
    *,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
) -> Any: ...
def fsum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = ...,
    *,
    keepdims: bool = ...,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
) -> Any: ...
def segment_fsum(
    x: Any,
    offsets: Any,
    *,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
    check: bool = ...,
) -> Any: ...
def mean(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = ...,
    *,
    keepdims: bool = ...,
    unit: str | Unit | None = ...,
    variant: str = ...,
    chain: int | None = ...,
    block: int | None = ...,
    accumulator: str | None = ...,
    fraction: float | None = ...,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
    return_info: bool = ...,
    progress: Progress | None = ...,
) -> Any: ...
def segment_mean(
    x: Any,
    offsets: Any,
    *,
    unit: str | Unit | None = ...,
    variant: str = ...,
    chain: int | None = ...,
    block: int | None = ...,
    accumulator: str | None = ...,
    fraction: float | None = ...,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
    check: bool = ...,
) -> Any: ...
def norm(
    x: Any,
    *,
    block: int | None = ...,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
    return_info: bool = ...,
) -> Any: ...
def sum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = ...,
    *,
    keepdims: bool = ...,
    unit: str | Unit | None = ...,
    variant: str = ...,
    chain: int | None = ...,
    block: int | None = ...,
    accumulator: str | None = ...,
    fraction: float | None = ...,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
    return_info: bool = ...,
    progress: Progress | None = ...,
) -> Any: ...
def segment_sum(
    x: Any,
    offsets: Any,
    *,
    unit: str | Unit | None = ...,
    variant: str = ...,
    chain: int | None = ...,
    block: int | None = ...,
    accumulator: str | None = ...,
    fraction: float | None = ...,
    dtype: npt.DTypeLike | Any = ...,
    out: Any = ...,
    check: bool = ...,
) -> Any: ...
