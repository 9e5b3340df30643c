"""Launches of every kernel: what is chosen, how it is bound, and how the driver is called.

A family of kernels looks at a problem and returns a :class:`Recipe`, without a GPU.  :class:`Launch` compiles and
binds it, and lacks nothing then but addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from tcu.gpu.device import MOST_OF_CLUSTER, Gpu, check
from tcu.gpu.functions import allow_large_clusters, allow_shared, find_function, prefer_shared
from tcu.gpu.imports import cuda_module
from tcu.gpu.structs import Struct
from tcu.gpu.workspace import Workspace, workspace

__all__ = [
    "OTHER",
    "OUT",
    "ROOM",
    "SPACE",
    "KernelChoice",
    "KernelLaunch",
    "Launch",
    "Recipe",
    "Space",
    "X",
    "bind",
]

X, OTHER, OUT, ROOM, SPACE = range(5)
"""What a call gives: addresses of x, of what goes with it (y, offsets; or a number), of the result, of the room, and of
the workspace."""
Given = int | tuple[int, int]
"""One of these, or what lies so many bytes behind it."""


@dataclass(frozen=True)
class KernelChoice:
    """A kernel, how it is compiled, its grid, and the structure that it takes."""

    source: str
    """Its file in ``tcu/gpu/cuda/kernels``, without the suffix."""
    macros: Mapping[str, object]
    blocks: int
    threads: int
    problem: Struct
    takes: Mapping[str, Given] = field(default_factory=dict)
    """The fields of the structure that a call gives."""
    entry: str = ""
    """Its name, if not that of the file."""
    shared: int = 0
    """Bytes of shared memory of a block whose size the kernel leaves open."""
    more: int = 1
    """How often the blocks come, numbered by blockIdx.y."""
    overlaps: bool = False
    """Whether it may begin before the launch ahead of it has ended (cuda/device/grid/programmatic_launch.cuh)."""
    cooperative: bool = False
    """Whether it begins when there is room for all blocks, which wait for each other."""
    prefers_shared: bool = False
    """Whether all of L1 that can be shared memory is that: where kernels are to run beside each other."""
    specific: bool = False
    """Whether it is compiled for the architecture-specific target (sm_90a)."""
    cluster: int = 1
    """Neighbouring blocks that run at the same time and reach each other's shared memory (sm_90)."""


class Space(NamedTuple):
    """A workspace that a launch needs: its kind, how many words of 8 bytes, and whether they are ones or zeros."""

    kind: str
    words: int
    ones: bool = False


@dataclass(frozen=True)
class Recipe:
    """What serves problems of one kind: kernels, one after another, and the memory that they need."""

    kernels: tuple[KernelChoice, ...]
    room: int = 0
    """Numbers of 8 bytes that a call gives, for as long as it runs, from a multiple of 16 bytes on."""
    space: Space | None = None


class Launch:
    """A recipe on a GPU, which lacks nothing but addresses."""

    def __init__(self, recipe: Recipe, gpu: Gpu) -> None:
        self.room = recipe.room
        self._find = partial(workspace, *recipe.space, gpu.ordinal) if recipe.space else None
        self._default: Workspace | None = None
        self._kernels, self._gpu = recipe.kernels, gpu
        self._idle = [_Bound(recipe.kernels, gpu)]
        """A list that threads take from and give back to, which takes a fifth of a lock's time."""

    def start(self, x: int, other: int, out: int, stream: int, room: int = 0) -> None:
        """Put it on the stream."""
        piece = None
        if self._find is not None:
            piece = self._find(stream) if stream else self._default
            if piece is None:  # that stream is never captured, and no piece is ever freed
                piece = self._default = self._find(stream)
        try:
            bound = self._idle.pop()
        except IndexError:  # another thread starts it just now, or an exception kept the last one
            bound = self._another()
        given = x, other, out, room
        for words, place, which, beyond in bound.writes:
            words[place] = given[which] + beyond
        if piece is not bound.written:
            bound.write(piece)
        if bound.is_alone:  # in the fewest steps
            if stream != bound.stream:
                bound.turn_to(stream)
            (status,) = bound.put()
            if status:
                check(bound.kernels[0].name, status)
        elif piece is None:
            for kernel in bound.kernels:
                kernel(stream)
        else:
            piece.start(stream, *bound.kernels)
        self._idle.append(bound)  # the driver has copied the parameters

    def _another(self) -> _Bound:
        # Kernels may have a structure in common.
        problems = {id(each.problem): each.problem for each in self._kernels}
        copies = {key: type(each).from_buffer_copy(each) for key, each in problems.items()}
        return _Bound([replace(each, problem=copies[id(each.problem)]) for each in self._kernels], self._gpu)


class _Bound:
    """Kernels with structures that one thread at a time fills in."""

    __slots__ = ("_spaces", "is_alone", "kernels", "put", "stream", "writes", "written")

    def __init__(self, choices: Sequence[KernelChoice], gpu: Gpu) -> None:
        writes = [write for choice in choices for write in _writes(choice)]
        self.writes = [write for write in writes if write[2] != SPACE]
        self._spaces = [(words, place, beyond) for words, place, which, beyond in writes if which == SPACE]
        self.written: Workspace | None = None
        self.kernels = [bind(choice, gpu) for choice in choices]
        self.is_alone = len(choices) == 1
        self.turn_to(0)

    def turn_to(self, stream: int) -> None:
        """The lone kernel's launches are on that stream from now on."""
        self.stream, self.put = stream, self.kernels[0].on(stream)

    def write(self, piece: Workspace | None) -> None:
        """Where the workspace lies, which is another one on another stream alone."""
        assert piece is not None
        for words, place, beyond in self._spaces:
            words[place] = piece.address + beyond
        self.written = piece


def _writes(choice: KernelChoice) -> Iterator[tuple[Any, int, int, int]]:
    """(the structure as words, the place of a word, what is put there, and how many bytes beyond that)"""
    problem = choice.problem
    words = (ctypes.c_uint64 * (ctypes.sizeof(problem) // 8)).from_buffer(problem)
    for path, given in choice.takes.items():
        which, beyond = (given, 0) if isinstance(given, int) else given
        yield words, problem.offset(path) // 8, which, beyond


def bind(choice: KernelChoice, gpu: Gpu) -> KernelLaunch:
    """Compiled, or from the cache, and ready to start."""
    entry = choice.entry or choice.source
    function = find_function(f"{choice.source}.cu", entry, choice.macros, gpu, specific=choice.specific)
    if choice.shared:
        allow_shared(function, choice.shared, gpu.ordinal)
    if choice.prefers_shared:
        prefer_shared(function, gpu.ordinal)
    if choice.cluster > MOST_OF_CLUSTER:
        allow_large_clusters(function, gpu.ordinal)
    return KernelLaunch(function, choice)


class KernelLaunch:
    """A kernel that is started with what its structure holds at that time.

    cuda.core.launch takes no structures, hence the driver's own call: through cuda.bindings it takes 4.6 us, through
    ctypes 4.8 to 5.7, and through a function that Numba compiled 4.6 (H200).
    """

    def __init__(self, function: Any, choice: KernelChoice) -> None:
        self._problem = choice.problem  # what the pointers below point to
        self._pointers = (ctypes.c_void_p * 1)(ctypes.addressof(choice.problem))
        self.parameters = ctypes.addressof(self._pointers)
        head = choice.blocks, choice.more, 1, choice.threads, 1, 1, choice.shared
        driver = cuda_module("cuda.bindings.driver")
        attributes = _attributes(driver, choice)
        self.name = "cuLaunchKernelEx" if attributes else "cuLaunchKernel"
        self._stream = driver.CUstream
        self.call: Any = partial(driver.cuLaunchKernel, function, *head)
        """Takes the stream, the parameters and 0; returns (status,)."""
        if attributes:
            self.call = partial(
                _extended, driver.cuLaunchKernelEx, _config(driver, attributes, *head), function
            )

    def on(self, stream: int) -> Callable[[], Any]:
        """The driver's call for that stream, to which nothing is left to give: 0.4 of its 6 us less (H200)."""
        return partial(self.call, self._stream(stream), self.parameters, 0)

    def __call__(self, stream: int) -> None:
        """Put it on the stream."""
        (status,) = self.call(stream, self.parameters, 0)
        if status:
            check(self.name, status)


def _extended(launch: Any, config: Any, function: Any, stream: int, *rest: int) -> Any:
    config.hStream = stream
    return launch(config, function, *rest)


def _attributes(driver: Any, choice: KernelChoice) -> list[Any]:
    """What the driver is told of a launch besides its grid."""
    kinds, attributes = driver.CUlaunchAttributeID, []
    for asked, kind, name in (
        (choice.overlaps, "PROGRAMMATIC_STREAM_SERIALIZATION", "programmaticStreamSerializationAllowed"),
        (choice.cooperative, "COOPERATIVE", "cooperative"),
    ):
        if asked:
            attribute = driver.CUlaunchAttribute()
            attribute.id = getattr(kinds, f"CU_LAUNCH_ATTRIBUTE_{kind}")
            setattr(attribute.value, name, 1)
            attributes.append(attribute)
    if choice.cluster > 1:
        attribute = driver.CUlaunchAttribute()
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dimensions = attribute.value.clusterDim
        dimensions.x, dimensions.y, dimensions.z = choice.cluster, 1, 1
        attributes.append(attribute)
    return attributes


def _config(driver: Any, attributes: list[Any], *head: int) -> Any:
    config = driver.CUlaunchConfig()
    names = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes")
    for name, value in zip(names, head, strict=True):
        setattr(config, name, value)
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config
