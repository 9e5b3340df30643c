"""Contract of a launch: the driver is given the kernel, its grid, its stream and the structure; a launch that may overlap the
one ahead of it is started with the attribute that says so, and every error of the driver is raised.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from tcu.gpu import device, launch
from tcu.gpu.errors import DriverError


class Structure(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int64),)


class Driver:
    """Stands in for cuda.bindings.driver."""

    CUlaunchAttributeID = SimpleNamespace(
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6, CU_LAUNCH_ATTRIBUTE_COOPERATIVE=2
    )
    CUlaunchConfig = SimpleNamespace

    def __init__(self) -> None:
        self.status = 0
        self.given: list[Any] = []

    def CUlaunchAttribute(self) -> Any:
        return SimpleNamespace(value=SimpleNamespace())

    def cuLaunchKernel(self, *given: Any) -> Any:
        self.given.append(("plain", *given[:9], _number_at(given[9])))
        return (self.status,)

    def cuLaunchKernelEx(self, config: Any, function: Any, address: int, extra: int) -> Any:
        asked = tuple((attribute.id, vars(attribute.value)) for attribute in config.attrs)
        assert (config.numAttrs, extra) == (len(asked), 0)
        grid = config.gridDimX, config.gridDimY, config.gridDimZ
        block = config.blockDimX, config.blockDimY, config.blockDimZ
        self.given.append(
            (asked, function, *grid, *block, config.sharedMemBytes, config.hStream, _number_at(address))
        )
        return (self.status,)

    def cuGetErrorString(self, status: Any) -> tuple[int, bytes]:
        return 0, b"out of something"


def _number_at(address: int) -> int:
    pointer = ctypes.c_void_p.from_address(address).value
    assert pointer is not None
    return Structure.from_address(pointer).number


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver()
    for module in (device, launch):
        monkeypatch.setattr(module, "cuda_module", lambda name: driver)
    return driver


_OVERLAPS = (6, {"programmaticStreamSerializationAllowed": 1})
_COOPERATIVE = (2, {"cooperative": 1})


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ({}, "plain"),
        ({"overlaps": True}, (_OVERLAPS,)),
        ({"cooperative": True}, (_COOPERATIVE,)),
        ({"overlaps": True, "cooperative": True}, (_OVERLAPS, _COOPERATIVE)),
    ],
)
def test_the_driver_is_given_what_the_launch_has(driver: Driver, how: Any, kind: Any) -> None:
    problem = Structure(5)
    start = launch.KernelLaunch("kernel", 7, 64, problem, 1024, 3, **how)
    start(11)
    problem.number = 6  # as it is when the launch starts
    start(12)
    assert driver.given == [(kind, "kernel", 7, 3, 1, 64, 1, 1, 1024, *rest) for rest in ((11, 5), (12, 6))]


@pytest.mark.parametrize(("overlaps", "call"), [(False, "cuLaunchKernel"), (True, "cuLaunchKernelEx")])
def test_an_error_of_the_driver_is_raised(driver: Driver, overlaps: bool, call: str) -> None:
    class Status(int):
        name = "CUDA_ERROR_OF_A_KIND"

    driver.status = Status(2)
    with pytest.raises(DriverError, match=f"{call} failed: CUDA_ERROR_OF_A_KIND, out of something"):
        launch.KernelLaunch("kernel", 1, 32, Structure(), overlaps=overlaps)(0)
