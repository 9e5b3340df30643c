"""Contract of a launch: the driver is given the kernel, its grid, its stream and the structure; a launch that may overlap the
one ahead of it is started with the attribute that says so, and every error of the driver is raised.

What a call gives is put where the recipe says, in every structure, before any kernel starts; the workspace of the default
stream is looked for once, that of others at every call.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
from launches import ends_here

from tcu.gpu import Gpu, device, functions, launch
from tcu.gpu.errors import DriverError
from tcu.gpu.launch import KernelChoice
from tcu.gpu.structs import Struct, struct

Structure = struct(
    "Structure",
    """
    i64 number;
""",
)


Pair = struct(
    "Pair",
    """
    Structure inner;
    i64 other, last;
""",
)


def choice(problem: Struct, **how: Any) -> KernelChoice:
    return KernelChoice("source", {}, 7, 64, problem, **how)


class Driver:
    """Stands in for cuda.bindings.driver."""

    CUlaunchAttributeID = SimpleNamespace(
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6, CU_LAUNCH_ATTRIBUTE_COOPERATIVE=2
    )
    CUlaunchConfig, CUstream = SimpleNamespace, int

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
    start = launch.KernelLaunch("kernel", choice(problem, shared=1024, more=3, **how))
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
        launch.KernelLaunch("kernel", choice(Structure(), overlaps=overlaps))(0)


@pytest.mark.parametrize("kernels", [1, 3])
@pytest.mark.parametrize("with_space", [False, True])
def test_what_a_call_gives_is_in_the_structures_when_kernels_start(
    monkeypatch: pytest.MonkeyPatch, kernels: int, with_space: bool
) -> None:
    problems = [Pair() for _ in range(kernels)]
    seen: list[Any] = []
    asked: list[Any] = []

    def start(choice: KernelChoice, function: Any, stream: int) -> None:
        seen.append((function, stream, [(each.inner.number, each.other, each.last) for each in problems]))

    def workspace(*given: Any) -> Any:
        asked.append(given)
        return SimpleNamespace(
            address=9000 + given[-1], start=lambda stream, *all: [each(stream) for each in all]
        )

    ends_here(monkeypatch, start, lambda source, entry, macros, gpu: entry)
    monkeypatch.setattr(launch, "workspace", workspace)
    third = (launch.SPACE, 8) if with_space else (launch.ROOM, 8)
    takes = {"inner.number": launch.X, "other": launch.OTHER, "last": third}
    choices = tuple(
        KernelChoice("source", {}, 1, 32, problem, takes, f"kernel {i}") for i, problem in enumerate(problems)
    )
    recipe = launch.Recipe(choices, 5, launch.Space("kind", 3, ones=True) if with_space else None)
    bound = launch.Launch(recipe, Gpu(2, "GPU", (9, 0)))
    assert bound.room == 5
    for stream in (7, 0, 0, 7):
        seen.clear()
        bound.start(11, 12, 13, stream, 14)
        last = 9008 + stream if with_space else 22
        values = [(11, 12, last)] * kernels
        assert seen == [(f"kernel {i}", stream, values) for i in range(kernels)]
    assert asked == [("kind", 3, True, 2, stream) for stream in (7, 0, 7)] * with_space


@pytest.mark.parametrize("kernels", [1, 3])
def test_who_starts_it_meanwhile_has_structures_of_its_own(
    monkeypatch: pytest.MonkeyPatch, kernels: int
) -> None:
    """As another thread may, between what is written and the driver's look at it."""
    seen: list[Any] = []
    left = [3]

    def start(choice: KernelChoice, function: Any, stream: int) -> None:
        if left[0]:
            left[0] -= 1
            bound.start(10 * left[0], 1, 2, left[0])
        seen.append((stream, choice.problem.inner.number, choice.problem.last))

    ends_here(monkeypatch, start)
    problem = Pair(last=5)  # of all kernels, of which one says what is written there
    takes = [{"inner.number": launch.X}, *[{}] * (kernels - 1)]
    choices = tuple(KernelChoice("source", {}, 1, 32, problem, each) for each in takes)
    bound = launch.Launch(launch.Recipe(choices), Gpu(2, "GPU", (9, 0)))
    bound.start(30, 1, 2, 3)
    assert seen == [(stream, 10 * stream, 5) for stream in range(4) for _ in range(kernels)]
    seen.clear()
    bound.start(70, 1, 2, 7)
    assert seen == [(7, 70, 5)] * kernels


def test_an_error_of_a_lone_kernel_is_raised(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    class Status(int):
        name = "CUDA_ERROR_OF_A_KIND"

    driver.status = Status(2)
    monkeypatch.setattr(launch, "find_function", lambda *_, **__: "kernel")
    bound = launch.Launch(launch.Recipe((choice(Structure()),)), Gpu(0, "GPU", (9, 0)))
    with pytest.raises(DriverError, match="cuLaunchKernel failed: CUDA_ERROR_OF_A_KIND, out of something"):
        bound.start(1, 2, 3, 0)


def test_shared_memory_that_one_launch_needs_is_not_taken_from_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Launches of one kernel may need more or less of it; the driver refuses a launch of more than it was told of last."""
    told: list[int] = []
    monkeypatch.setattr(functions, "_set", lambda function, attribute, size, ordinal: told.append(size))
    monkeypatch.setattr(functions, "_allowed", {})
    for size in (100, 50, 100, 200):
        functions.allow_shared(7, size, 0)
    assert told == [100, 200]
    functions.allow_shared(7, 50, 1)  # of another GPU
    functions.allow_shared(8, 60, 0)  # of another kernel
    assert told == [100, 200, 50, 60]
