"""The algorithms whose times are predicted: real operands for the programs that the ledger counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcu.algorithms import Machine
from tcu.calibration.devices import Device

__all__ = ["WORKLOADS", "Workload"]


@dataclass(frozen=True)
class Workload:
    """One algorithm on operands of one's choice."""

    name: str
    size: str
    """What the sizes count."""
    cpu_sizes: tuple[int, ...]
    gpu_sizes: tuple[int, ...]
    prepare: Callable[[Device, int], tuple[Any, ...]]
    """The operands, where the device wants them."""
    run: Callable[..., Any]
    """The program: a machine and the operands."""
    needs: str = "real"
    """"real", "binary64" or "integer": what the executor must multiply."""

    def suits(self, device: Device) -> bool:
        result = device.executor.dtypes.result
        kind = "f" if result is None else result.kind
        if self.needs == "integer":
            return kind == "i" or device.executor.dtypes.sum_bits >= 31
        return kind == "f" and (self.needs == "real" or device.executor.dtypes.sum_bits >= 53)

    def sizes(self, device: Device) -> tuple[int, ...]:
        return self.cpu_sizes if device.executor.name == "ideal" else self.gpu_sizes


def _reals(device: Device, *shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    wide = device.dtype == np.dtype(np.float64)
    return device.array(values if wide else values.astype(np.float32))


def _complex(device: Device, n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(n)
    values = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    return (device.array(values.astype(np.complex128 if device.dtype == np.float64 else np.complex64)),)


def _bits(device: Device, n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(n)
    return tuple(int.from_bytes(rng.bytes(n // 8), "little") | 1 << (n - 1) for _ in range(2))


WORKLOADS: tuple[Workload, ...] = (
    Workload(
        "matmul", "rows", (256, 512, 1024), (1024, 2048, 4096),
        lambda device, n: (_reals(device, n, n), _reals(device, n, n, seed=1)), Machine.matmul,
    ),
    Workload(
        "strassen", "rows", (128, 256, 512), (512, 1024, 2048),
        lambda device, n: (_reals(device, n, n), _reals(device, n, n, seed=1)), Machine.strassen,
    ),
    Workload("dft", "numbers", (1 << 14, 1 << 16, 1 << 18), (1 << 18, 1 << 21, 1 << 24), _complex, Machine.dft),
    Workload(
        "sum", "numbers", (1 << 16, 1 << 19, 1 << 22), (1 << 20, 1 << 23, 1 << 26),
        lambda device, n: (_reals(device, n),), Machine.sum,
    ),
    Workload(
        "polynomial", "coefficients, at as many points", (256, 1024, 2048), (1024, 4096, 16384),
        lambda device, n: (_reals(device, n), device.array(np.linspace(-1, 1, n))), Machine.evaluate, "binary64",
    ),
    Workload(
        "integer", "bits of each factor", (1 << 14, 1 << 16, 1 << 18), (1 << 16, 1 << 18, 1 << 20), _bits,
        lambda machine, a, b: machine.integer_multiply(a, b, algorithm="schoolbook"), "integer",
    ),
)  # fmt: skip
