"""Does the (m, ℓ)-TCU model predict real hardware?  The open question of Silvestri and Vella, section 6, measured."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tcu.algorithms import Machine
from tcu.calibration.devices import Device, find_device
from tcu.calibration.fit import Fit, Sample, StepSample, fit_machine, fit_steps
from tcu.calibration.workloads import WORKLOADS, Workload

__all__ = ["Calibration", "Prediction", "calibrate"]

SIDES = (16, 32, 64, 128, 256)
_ROWS = tuple(1 << k for k in range(6, 23, 2))


@dataclass(frozen=True)
class Prediction:
    """The time of one run: as the model says, and as the clock says."""

    algorithm: str
    n: int
    cost: float
    """The ledger's, on the fitted machine."""
    tensor_calls: int
    seconds: float
    """Measured."""
    predicted: float
    """Cost times the unit of time: the model of the paper, in which a step of the CPU costs 1."""
    predicted_apart: float
    """The same with CPU steps at their own measured time."""

    @property
    def error(self) -> float:
        """predicted / measured - 1."""
        return self.predicted / self.seconds - 1

    @property
    def error_apart(self) -> float:
        return self.predicted_apart / self.seconds - 1


@dataclass(frozen=True)
class Calibration:
    """A device as an (m, ℓ)-TCU machine, and how well that predicts."""

    device: str
    fit: Fit
    step_seconds: float
    """One operation of an elementwise pass over long vectors."""
    vector_seconds: float
    """Starting such a pass, which the model does not know."""
    samples: tuple[Sample, ...]
    predictions: tuple[Prediction, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        fit = self.fit
        return {
            "device": self.device,
            "m": fit.m,
            "latency": fit.latency,
            "unit_seconds": fit.unit_seconds,
            "latency_seconds": fit.latency * fit.unit_seconds,
            "step_seconds": self.step_seconds,
            "vector_seconds": self.vector_seconds,
            "median_error": fit.median_error,
            "largest_error": fit.largest_error,
            "samples": [
                {"rows": s.rows, "side": s.side, "seconds": s.seconds, "fitted": fit.seconds(s.rows, s.side)}
                for s in self.samples
            ],
            "predictions": [
                {"algorithm": p.algorithm, "n": p.n, "cost": p.cost, "tensor_calls": p.tensor_calls,
                 "seconds": p.seconds, "predicted": p.predicted, "error": p.error,
                 "predicted_apart": p.predicted_apart, "error_apart": p.error_apart}
                for p in self.predictions
            ],
        }  # fmt: skip


def calibrate(
    device: str | Device = "cpu",
    *,
    input: str | None = None,
    workloads: Sequence[Workload] = WORKLOADS,
    quick: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Calibration:
    """Measures tall products, fits a machine, and predicts the times of algorithms.

    Parameters
    ----------
    device:
        "cpu", "gpu", or a :class:`~tcu.calibration.devices.Device`.
    input:
        For "gpu": the format, such as "binary16"; None: "binary64".
    workloads:
        What is predicted; those that the device cannot run are left out.
    quick:
        Fewer and smaller products, and the smallest size of each algorithm.
    progress:
        Called with a few words before each measurement.

    Raises
    ------
    ParameterError, MissingPackageError, GpuError:
        No such device, or no way to it.
    """
    place = find_device(device, input) if isinstance(device, str) else device
    tell = progress or (lambda words: None)
    samples = []
    for side in SIDES[:3] if quick else SIDES:
        for rows in _ROWS:
            words = rows * max(side, 64)
            if rows >= side and words <= place.most_words // (16 if quick else 1):
                tell(f"{rows:,} rows, side {side}")
                samples.append(_sample(place, rows, side))
    fit = fit_machine(samples)
    tell("elementwise operations")
    step, vector = fit_steps(_steps(place, quick))
    predictions = []
    for workload in workloads:
        if workload.suits(place):
            for n in workload.sizes(place)[: 1 if quick else None]:
                tell(f"{workload.name}, n = {n:,}")
                predictions.append(_predict(place, fit, step, workload, n))
    return Calibration(place.name, fit, step, vector, tuple(samples), tuple(predictions))


def _sample(device: Device, rows: int, side: int) -> Sample:
    rng = np.random.default_rng(rows)
    a, b = (
        device.array(rng.integers(0, 2, shape).astype(device.dtype)) for shape in ((rows, side), (side, side))
    )
    machine = Machine(side * side, executor=device.executor, word_bits=64)
    return Sample(rows, side, device.seconds(lambda: machine.multiply(a, b)))


def _steps(device: Device, quick: bool) -> list[StepSample]:
    result = device.executor.dtypes.result
    samples = []
    for n in (1 << k for k in range(8, 17 if quick else 23, 2)):
        x = device.array(np.ones(n, result))
        samples.append(StepSample(n, device.seconds(partial(operator.add, x, x))))
    return samples


def _predict(device: Device, fit: Fit, step: float, workload: Workload, n: int) -> Prediction:
    word = 32 if device.executor.dtypes.sum_bits == 31 else 64
    machine = Machine(fit.m, fit.latency, word_bits=word, executor=device.executor)
    operands = workload.prepare(device, n)
    workload.run(machine, *operands)
    ledger, unit = machine.ledger, fit.unit_seconds
    machine.reset()  # the runs that are timed write into another
    seconds = device.seconds(lambda: workload.run(machine, *operands), rounds=3)
    apart = unit * ledger.tensor_cost + step * ledger.steps
    cost = float(ledger.cost)
    return Prediction(workload.name, n, cost, ledger.tensor_calls, seconds, unit * cost, apart)
