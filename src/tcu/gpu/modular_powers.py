"""The kernel of products and powers of long integers modulo odd numbers."""

from __future__ import annotations

from tcu.gpu.launch import OTHER, OUT, ROOM, Given, KernelChoice, Recipe, X
from tcu.gpu.structs import constants, struct

__all__ = ["MOST_LIMBS", "modular_recipe"]

_WARP, _WARPS, _ENTRIES = 32, 4, 16
_PER = (1, 2, 4, 8)
"""Limbs of a lane that the kernel is compiled for."""
MOST_LIMBS = _WARP * _PER[-1]
"""Of 32 bits, of a modulus."""
WARPS_OF_A_BLOCK = constants(WARPS_OF_A_BLOCK=_WARPS)


ModularPowers = struct("ModularPowers", """
    const u32* a;
    const u32* n;  // exponents, or second factors
    const u32* m;
    u32* out;
    i64 a_stride, n_stride, m_stride;  // from number to number, in words
    i64 count;
    int a_limbs, n_limbs;
    int limbs;                         // of the moduli, and of the results
    int unused;
""")  # fmt: skip


def modular_recipe(
    count: int, limbs: tuple[int, int, int], strides: tuple[int, int, int], *, powers: bool
) -> Recipe:  # fmt: skip
    """a^n or a·n modulo m, of so many words of 32 bits each; a and a factor have at most m's.

    What a call gives as its room is where the moduli are.
    """
    assert limbs[0] <= limbs[2] <= MOST_LIMBS
    assert powers or limbs[1] <= limbs[2]
    per = next(each for each in _PER if _WARP * each >= limbs[2])
    problem = ModularPowers(0, 0, 0, 0, *strides, count, *limbs, 0)
    takes: dict[str, Given] = {"a": X, "n": OTHER, "m": ROOM, "out": OUT}
    shared = 4 * _WARPS * _ENTRIES * _WARP * per if powers else 0
    macros = {"PER": per, "POWERS": int(powers)}
    return Recipe((
        KernelChoice("modular_powers", macros, -(-count // _WARPS), _WARPS * _WARP, problem, takes, shared=shared),
    ))  # fmt: skip
