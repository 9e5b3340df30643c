"""``tcu.matmul`` for arrays in a GPU's memory: its plan, executed by that GPU's own instruction."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product as each_of
from typing import Any

import numpy as np

from tcu.engines.cuda.offsets import device_offsets, look
from tcu.engines.cuda.own import check_arithmetic, own_unit
from tcu.errors import DtypeError, ParameterError
from tcu.formats.array import lives_on_gpu
from tcu.formats.format import format_of, get_format
from tcu.gpu.arrays import DeviceArray, Library, collapse, library_of
from tcu.gpu.device import Gpu, current, find_gpu
from tcu.gpu.factors import RESULTS, Factor
from tcu.gpu.kernels import Kernel, find_kernel
from tcu.gpu.matmul import (
    MatmulLaunch,
    Operands,
    double_recipe,
    has_double,
    matmul_recipe,
)
from tcu.gpu.matmul_mma import GeneralLaunch, general_choice
from tcu.gpu.matmul_tall import is_tall, tall_choice
from tcu.gpu.mma import Strided, broadcast
from tcu.gpu.tensor_copy import Lines
from tcu.ops.matmul import FACTORS, MatmulCall, Product, check_factor, product_of
from tcu.ops.result import check_dtype
from tcu.plan.matmul import MatmulPlan
from tcu.units import AlignedSum, Instruction, find_instruction
from tcu.units.shapes import product_shape

__all__ = ["constant_factor", "multiply", "multiply_segments", "vector_factor"]

_NONE = {"scale_a": 1.0, "scale_b": 1.0, "bias": -0.0}
"""Which leave every number as it is."""


Start = Callable[..., None]
"""Of a launch: the addresses of a, b and the result, the factors, the stream, and the address of the room."""


def multiply(
    call: MatmulCall, row: Instruction | None = None, keep: Callable[[Start, int, Any], None] | None = None
) -> Any:
    """The product, in ``out`` if there is one.  Raises what :func:`tcu.matmul` raises.

    By the instruction of ``row``, if there is one, for matrices only: :func:`tcu.mma`.  ``keep`` takes the launch,
    the bytes of its room and the result, if there was one launch alone.
    """
    library = library_of(call.a) or library_of(call.b)
    assert library is not None
    arrays = {name: getattr(call, name) for name in ("a", "b", *FACTORS, "out")}
    ordinal = _home(
        library, {name: x for name, x in arrays.items() if name in ("a", "b", "out") or hasattr(x, "shape")}
    )
    gpu = find_gpu(ordinal)
    with current(gpu):
        stream = library.current_stream(ordinal)
        a, b = (library.view(name, arrays[name], stream) for name in ("a", "b"))
        out = None if call.out is None else library.view("out", call.out, stream)
        if row is not None:
            product_shape(a.shape, b.shape, None)
        formats = format_of(a.dtype).name, format_of(b.dtype).name
        given = None if out is None else out.dtype
        product = product_of(a.shape, b.shape, formats, call.options, given, call.has_factors)
        row = row or _own_row(product, call.options.unit, gpu)
        kernel = find_kernel(row, gpu.compute_capability, gpu.name)
        target = get_format(product.plan.result)
        if out is not None:
            if out.shape != product.shape:
                raise ParameterError(f"out has shape {out.shape}, the result shape {product.shape}")
            check_dtype(out, target)
        factors = _factors(call, product, library, stream)
        direct = out is not None and _contiguous(out) and not any(_overlap(out, x) for x in (a, b))
        if direct:
            assert out is not None
            result, address = call.out, out.address
        else:
            result, address = library.empty(call.a, product.shape, target.dtype, ordinal)
        if math.prod(product.matrix):
            launches = _start(
                product,
                kernel,
                gpu,
                _matrix(a, product.a, product.matrix, 0),
                _matrix(b, product.b, product.matrix, 1),
                address,
                factors,
                library,
                call.a,
                stream,
            )
            if keep is not None and len(launches) == 1:
                keep(*launches[0], result)
        if out is not None and not direct:
            library.assign(call.out, result, tuple(range(len(product.shape))))
            return call.out
        return result if direct else library.finish(result, call.a, stream)


def multiply_segments(
    x: Any, weights: Any, offsets: Any, product: Product, unit: Any, check: bool, result: Any
) -> bool:
    """The rows of each segment times its matrix, in one launch; False if the GPU's kernels take segments one by one.

    ``result`` is contiguous.  Offsets on the GPU are looked at while it multiplies: wrong ones lead to no other memory.
    Raises what :func:`tcu.segment_matmul` raises.
    """
    library = library_of(x)
    assert library is not None
    ordinal = library.ordinal("x", x)
    gpu = find_gpu(ordinal)
    row = _own_row(product, unit, gpu)
    kernel = find_kernel(row, gpu.compute_capability, gpu.name)
    if kernel.name != "wgmma":
        return False
    with current(gpu):
        stream = library.current_stream(ordinal)
        (rows, columns), count = product.matrix, weights.shape[0]
        edges = device_offsets(library, x, offsets, rows, ordinal, stream, False, "rows")
        confirm = look(edges, rows, stream, "rows") if check and lives_on_gpu(offsets) else None
        if rows and columns:
            a, b = library.view("x", x, stream), library.view("weights", weights, stream)
            place = library.view("out", result, stream).address
            of_x = Lines(a.strides[0], a.strides[1], 0, a.address % 16 == 0)
            of_weights = Lines(b.strides[2], b.strides[1], b.strides[0], b.address % 16 == 0)
            operands = Operands(
                rows, columns, product.plan.k, count, of_x, of_weights, columns, 0, place % 16 == 0, count
            )
            launch = _launch(product.plan, kernel, operands, False, gpu)
            room = library.empty(x, (launch.room // 8,), np.dtype(np.int64), ordinal)[1] if launch.room else 0
            launch.start(a.address, b.address, place, (), stream, room, edges.address)
        if confirm is not None:
            confirm()
    return True


def _home(library: Library, arrays: dict[str, Any]) -> int:
    """The number of the GPU of all arrays.  Raises ParameterError where they do not agree."""
    given = {name: x for name, x in arrays.items() if x is not None}
    homes = {name: library_of(x) for name, x in given.items()}
    if set(homes.values()) != {library}:
        where = ", ".join(f"{name} of {home.name if home else 'NumPy'}" for name, home in homes.items())
        raise ParameterError(f"{where}: pass arrays of one library, all on one GPU or all NumPy")
    ordinals = {name: library.ordinal(name, x) for name, x in given.items()}
    if len(set(ordinals.values())) > 1:
        where = ", ".join(f"{name} on GPU {number}" for name, number in ordinals.items())
        raise ParameterError(f"{where}: move all to one GPU")
    return ordinals["a"]


def _own_row(product: Product, unit: Any, gpu: Gpu) -> Instruction:
    """The GPU's own instruction, which must compute as that of ``unit``, if one is asked for."""
    own = product.instruction(own_unit(gpu))
    if unit is not None:
        check_arithmetic(own, product.instruction(unit), gpu.name, unit)
    return own


def _factors(call: MatmulCall, product: Product, library: Library, stream: int) -> tuple[Any, ...]:
    """The scales and the bias, as kernels take them; none if the call has none."""
    given = {name: getattr(call, name) for name in FACTORS}
    if all(x is None for x in given.values()):
        return ()
    return tuple(_factor(name, x, product.extent(name), library, stream) for name, x in given.items())


def constant_factor(name: str, x: float | None) -> Any:
    """A number, or None, as kernels take it."""
    return Factor(0, _NONE[name] if x is None else float(x), 0, 0)


def _factor(name: str, x: Any, extent: int, library: Library, stream: int) -> Any:
    if not hasattr(x, "shape"):
        return constant_factor(name, x)
    view = library.view(name, x, stream)
    fmt = format_of(view.dtype)
    check_factor(name, view.shape, fmt, extent)
    if fmt.name not in RESULTS:
        raise DtypeError(f"{name} has dtype {view.dtype}: give float16, bfloat16, float32 or float64")
    return vector_factor(view.address, fmt.name, view.strides[0] if view.shape else 0)


def vector_factor(address: int, fmt: str, step: int) -> Any:
    """Numbers of a format that lie ``step`` of them apart."""
    return Factor(address, 0.0, RESULTS[fmt], step)


def _contiguous(x: DeviceArray) -> bool:
    step = 1
    for extent, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _overlap(x: DeviceArray, y: DeviceArray) -> bool:
    first, second = _range(x), _range(y)
    return first[0] < second[1] and second[0] < first[1]


def _range(x: DeviceArray) -> tuple[int, int]:
    """The bytes between which an array lies."""
    if 0 in x.shape:
        return x.address, x.address
    steps = [(extent - 1) * stride for extent, stride in zip(x.shape, x.strides, strict=True)]
    low, high = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
    return x.address + low * x.dtype.itemsize, x.address + (high + 1) * x.dtype.itemsize


def _matrix(x: DeviceArray, shape: tuple[int, ...], matrix: tuple[int, ...], line: int) -> Strided:
    """An operand with a stride for every dimension of the result; ``line``: where a vector's own dimension is not."""
    strides = x.strides if len(x.shape) > 1 else ((0, *x.strides) if line == 0 else (*x.strides, 0))
    return broadcast(DeviceArray(x.address, shape, strides, x.dtype, x.ordinal, x.owner), matrix)


def _start(
    product: Product, kernel: Kernel, gpu: Gpu, a: Strided, b: Strided, out: int, factors: Sequence[Any], library: Library,
    like: Any, stream: int,
) -> list[tuple[Start, int]]:  # fmt: skip
    """Put the launches on the stream; each with the bytes of its room."""
    plan, batch = product.plan, product.matrix[:-2]
    if kernel.name != "wgmma" and not has_double(kernel, gpu.compute_capability):
        general = _general_launch(plan, kernel, _nowhere(a), _nowhere(b), batch, bool(factors), gpu)
        general.start(a.address, b.address, out, factors, stream)
        return [(general.start, 0)]
    tall = _tall_kernel(kernel, gpu) if is_tall(plan, a, b, out) else None
    if tall is not None:
        short = _tall_launch(plan, tall, _nowhere(a), _nowhere(b), bool(factors), gpu)
        short.start(a.address, b.address, out, factors, stream)
        return [(short.start, 0)]
    fold = not factors or not factors[0].step  # else each batch begins with the first scale
    size, result = get_format(kernel.a).dtype.itemsize, get_format(plan.result).dtype.itemsize
    launches = []
    for operands, at_a, at_b, at_out in _parts(a, b, product.matrix, size, fold):
        operands = operands._replace(c_aligned=(out + at_out * result) % 16 == 0)
        launch = _launch(plan, kernel, operands, bool(factors), gpu)
        room = (
            library.empty(like, (launch.room // 8,), np.dtype(np.int64), gpu.ordinal)[1] if launch.room else 0
        )
        launch.start(
            a.address + at_a * size, b.address + at_b * size, out + at_out * result, factors, stream, room
        )
        launches.append((launch.start, launch.room))
    return launches


@lru_cache(64)
def _tall_kernel(kernel: Kernel, gpu: Gpu) -> Kernel | None:
    """The mma by which the sums of a wgmma are the same, whatever the order of products; None if there is none."""
    wide, row = (
        find_instruction(own_unit(gpu), name, kernel.a, kernel.b, kernel.output) for name in ("wgmma", "mma")
    )
    same = (row.arithmetic, row.k) == (wide.arithmetic, wide.k)
    is_free = isinstance(row.arithmetic, AlignedSum) and row.arithmetic.block >= row.k
    return find_kernel(row, gpu.compute_capability, gpu.name) if same and is_free else None


def _nowhere(x: Strided) -> Strided:
    return Strided(1, x.shape, x.strides)


def _parts(
    a: Strided, b: Strided, matrix: tuple[int, ...], size: int, fold: bool
) -> Iterator[tuple[Operands, int, int, int]]:
    """The batch as batches of one dimension, each with the place where its operands and its result begin, in elements."""
    m, k, n = matrix[-2], a.shape[-1], matrix[-1]
    own = (a.strides[:-2], b.strides[:-2])
    extents, (of_a, of_b) = collapse(matrix[:-2], own)
    if fold and len(extents) == 1 and not of_b[0] and of_a[0] == m * a.strides[-2]:  # rows of one matrix
        m, extents, of_a, of_b = m * extents[0], (), (), ()
    inner = extents[-1:] or (1,)
    aligned_a, aligned_b = (
        x.address % 16 == 0 and all(step * size % 16 == 0 for step in steps[:-1])
        for x, steps in ((a, of_a), (b, of_b))
    )
    operands = Operands(
        m, n, k, inner[0], Lines(a.strides[-2], a.strides[-1], (of_a or (0,))[-1], aligned_a),
        Lines(b.strides[-1], b.strides[-2], (of_b or (0,))[-1], aligned_b), n, m * n, True,
    )  # fmt: skip
    for i, place in enumerate(each_of(*map(range, extents[:-1]))):
        at_a, at_b = (sum(x * step for x, step in zip(place, steps, strict=False)) for steps in (of_a, of_b))
        yield operands, at_a, at_b, i * inner[0] * m * n


@lru_cache(1024)
def _launch(plan: MatmulPlan, kernel: Kernel, operands: Operands, factors: bool, gpu: Gpu) -> MatmulLaunch:
    recipe = double_recipe if kernel.output == "binary64" else matmul_recipe
    return MatmulLaunch(recipe(plan, kernel, operands, factors, gpu.multiprocessors), gpu)


@lru_cache(1024)
def _tall_launch(
    plan: MatmulPlan, kernel: Kernel, a: Strided, b: Strided, factors: bool, gpu: Gpu
) -> GeneralLaunch:
    return GeneralLaunch(tall_choice(plan, kernel, a, b, factors, gpu.multiprocessors), gpu)


@lru_cache(1024)
def _general_launch(
    plan: MatmulPlan, kernel: Kernel, a: Strided, b: Strided, batch: tuple[int, ...], factors: bool, gpu: Gpu
) -> GeneralLaunch:
    return GeneralLaunch(general_choice(plan, kernel, a, b, batch, b.shape[-1], factors), gpu)
