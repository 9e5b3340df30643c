"""Real tensor cores."""

from __future__ import annotations

import importlib
from typing import Any

from tcu.errors import ParameterError
from tcu.formats import get_format
from tcu.formats.array import lives_on_gpu
from tcu.gpu import antidiagonals, planes, polynomials, transforms
from tcu.gpu.device import find_gpu
from tcu.gpu.tall import MAX_SIDE, stored_dtypes, tall_product
from tcu.machine.executors.unit import InstructionExecutor, narrowed
from tcu.plan.transform import Planes, Transform
from tcu.units import find_instruction

__all__ = ["GpuExecutor"]


class GpuExecutor(InstructionExecutor):
    """Every tensor call by one launch on a GPU, with the bits of the model of that GPU's unit.

    Arrays of CuPy stay on the GPU for a whole program: everything else that
    the programs do follows NumPy's protocols.  NumPy arrays travel there and
    back for each call.

    Parameters
    ----------
    input, output:
        Formats of an mma instruction: "binary16", "bfloat16", "tf32",
        "binary64", "u8" or "s8"; output=None takes the widest.
    device:
        The GPU's number; for CuPy arrays, that on which they are.

    Raises
    ------
    NoGpuError, ExtraMissingError:
        No GPU, or no way to it.
    DtypeError:
        The GPU has no such instruction, or only for tcu.mma.
    """

    at_once = True

    def __init__(self, input: str = "binary16", output: str | None = None, *, device: int = 0) -> None:
        gpu = find_gpu(device)
        source = get_format(input).name
        target = None if output is None else get_format(output).name
        super().__init__(find_instruction(gpu.unit, "mma", source, source, target))
        self._direct = stored_dtypes(self.instruction)
        if not self._direct:
            known = "binary16, bfloat16, tf32, binary64, u8, s8"
            raise ParameterError(
                f"input={input!r}: a machine on a GPU multiplies {known}; tcu.mma takes the rest"
            )
        self._device = device
        self.name = f"{gpu.name}, {self.instruction.signature}"

    def check_side(self, side: int) -> None:
        if side > MAX_SIDE:
            raise ParameterError(
                f"m={side**2}: a call on a GPU takes a right operand of up to {MAX_SIDE} rows; "
                f"take m={MAX_SIDE**2} or less"
            )

    def array(self, values: Any) -> Any:
        if lives_on_gpu(values) and not hasattr(values, "__array_function__"):
            raise ParameterError(
                f"{type(values).__module__}.{type(values).__qualname__} on a GPU does not follow NumPy's "
                "protocols: pass cupy.from_dlpack(x), which copies nothing"
            )
        return super().array(values)

    def place(self, values: Any) -> Any:
        try:
            cupy = importlib.import_module("cupy")
        except ImportError:
            return self.array(values)
        return cupy.asarray(values)

    def complex_product(self, x: Any, y: Any) -> Any:
        # One pass over memory where six of NumPy's functions would take eleven.
        if not lives_on_gpu(x):
            return super().complex_product(x, y)
        return planes.complex_product(x, y)

    def transform(self, plan: Transform, source: Planes, target: Planes, factor: float) -> bool:
        if lives_on_gpu(target[0]):
            return transforms.transform(plan, source, target, factor, self.instruction)
        return False

    def largest(self, z: Any) -> Any:
        found = transforms.largest(z) if lives_on_gpu(z) else None
        return super().largest(z) if found is None else found

    def add_antidiagonals(self, result: Any, product: Any, first: int) -> bool:
        return lives_on_gpu(result) and antidiagonals.add_antidiagonals(result, product, first)

    def powers(self, x: Any, width: int) -> Any:
        return polynomials.powers(x, width) if lives_on_gpu(x) else None

    def add_in_pairs(self, values: Any, base: Any) -> Any:
        return polynomials.add_in_pairs(values, base) if lives_on_gpu(values) else None

    def _stored(self, x: Any) -> Any:
        # The kernel makes inputs of these as it loads them: no pass over memory of their own.
        return x if x.dtype.name in self._direct else super()._stored(x)

    def _narrowed(self, x: Any) -> Any:
        if x.dtype.name in self._direct:
            return x
        return (
            x.astype("float32") if "float32" in self._direct else narrowed(x, get_format(self.instruction.a))
        )

    def _product(self, a: Any, b: Any) -> Any:
        if a.dtype != b.dtype:  # the wider holds both, and the kernel narrows it
            wide = max(a.dtype, b.dtype, key=lambda dtype: dtype.itemsize)
            a, b = a.astype(wide), b.astype(wide)
        return tall_product(a, b, self.instruction, device=self._device)
