"""Launches that end in a test and not on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tcu.gpu import Gpu, launch
from tcu.gpu.arrays import DeviceArray
from tcu.gpu.launch import KernelChoice, Launch
from tcu.gpu.sums import layout_of, operand_of
from tcu.gpu.variants import variant_recipe
from tcu.plan import Plan

__all__ = ["ends_here", "launch_variant"]


def ends_here(
    monkeypatch: pytest.MonkeyPatch,
    start: Callable[[KernelChoice, Any, int], None],
    find: Callable[[str, str, Any, Any], Any] = lambda *_: None,
    space: int | None = 1 << 20,
) -> None:
    """Kernels are what ``find`` makes of (source, entry, macros, GPU), and ``start`` has (choice, kernel, stream) of launches.

    ``space``: the address of every workspace; None: the real ones.
    """

    class Kernel:
        name, parameters = "cuLaunchKernel", 0

        def __init__(self, function: Any, choice: KernelChoice) -> None:
            self.function, self.choice = function, choice

        def call(self, stream: int, *_: int) -> tuple[int]:
            start(self.choice, self.function, stream)
            return (0,)

        def on(self, stream: int) -> Callable[[], tuple[int]]:
            return lambda: self.call(stream)

        __call__ = call

    def piece(stream: int, *launches: Any) -> None:
        for each in launches:
            each(stream)

    monkeypatch.setattr(launch, "KernelLaunch", Kernel)
    monkeypatch.setattr(launch, "find_function", lambda *given, specific: find(*given))
    for name in ("allow_large_clusters", "allow_shared", "prefer_shared"):
        monkeypatch.setattr(launch, name, lambda *_: None)
    if space is not None:
        monkeypatch.setattr(launch, "workspace", lambda *_: SimpleNamespace(address=space, start=piece))


def launch_variant(
    plan: Plan, x: DeviceArray, out: int, target: Any, gpu: Gpu, stream: int, **options: Any
) -> None:
    """Put the sum of an array on the stream."""
    operand = operand_of(x)
    recipe = variant_recipe(plan, operand, layout_of([operand]), target, gpu, **options)
    Launch(recipe, gpu).start(operand.address, operand.address, out, stream)
