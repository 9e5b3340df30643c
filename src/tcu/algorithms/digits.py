"""Long integers as arrays of digits, least significant first, and back."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.machine import Machine
from tcu.machine.shapes import empty

__all__ = ["carried", "from_digits", "to_digits"]

_WORDS = {8: "<u1", 16: "<u2", 32: "<u4"}


def to_digits(numbers: Sequence[int], count: int, bits: int) -> npt.NDArray[Any]:
    """(numbers, count): the digits of non-negative integers to the base 2^bits, in the narrowest unsigned dtype."""
    if bits in _WORDS:
        raw = b"".join(x.to_bytes(count * bits // 8, "little") for x in numbers)
        return np.frombuffer(raw, _WORDS[bits]).reshape(len(numbers), count)
    size = -(-count * bits // 8)
    raw = b"".join(x.to_bytes(size, "little") for x in numbers)
    packed = np.frombuffer(raw, np.uint8).reshape(len(numbers), size)
    single = np.unpackbits(packed, axis=1, count=count * bits, bitorder="little")
    digits = single.reshape(len(numbers), count, bits) @ (1 << np.arange(bits, dtype=np.int64))
    return digits.astype(np.min_scalar_type((1 << bits) - 1), copy=False)


def from_digits(digits: npt.NDArray[Any], bits: int) -> list[int]:
    """The integers sum of digit_i · 2^(bits·i), for digits of any size and sign, of int64 or Python's.

    The digits are cut into slices of ``bits`` bits, each of which is a number
    as it stands; Python's own addition then carries, however far a carry runs.
    """
    totals = [0] * len(digits)
    if digits.size == 0:
        return totals
    for sign in (1, -1):
        top = int(np.max(digits) if sign > 0 else -np.min(digits))
        if top <= 0:
            continue
        rest = np.maximum(sign * digits, 0) if np.min(digits) < 0 else digits
        for number in range(-(-top.bit_length() // bits)):
            for i, part in enumerate(_packed(_slice(rest, number, bits), bits)):
                totals[i] += sign * (part << (number * bits))
    return totals


def _slice(digits: npt.NDArray[Any], number: int, bits: int) -> npt.NDArray[Any]:
    """Bits number·bits and on of digits that are not negative."""
    if bits in _WORDS and digits.dtype == np.int64:  # these are words of memory
        words = np.ascontiguousarray(digits).astype("<i8", copy=False).view(_WORDS[bits])
        return words.reshape(*digits.shape, 64 // bits)[..., number]
    return ((digits >> (number * bits)) & ((1 << bits) - 1)).astype(np.int64)


def _packed(digits: npt.NDArray[Any], bits: int) -> list[int]:
    """The integers with these digits, each below 2^bits."""
    if bits in _WORDS:
        rows = np.ascontiguousarray(digits, _WORDS[bits])
    else:
        single = ((digits[:, :, None] >> np.arange(bits)) & 1).astype(np.uint8)
        rows = np.packbits(single.reshape(len(digits), -1), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def carried(machine: Machine, digits: Any, bits: int) -> Any:
    """The same numbers with smaller digits, one more of them: what exceeds ``bits`` bits goes to the next digit.

    Once: a digit of up to x becomes one of up to 2^bits - 1 + x / 2^bits, so
    that no carry runs through the number.
    """
    each = partial(machine.cpu.each, name="carry")
    carry = each(operator.rshift, digits, bits)
    result = empty((*digits.shape[:-1], digits.shape[-1] + 1), digits.dtype, like=digits)
    each(np.subtract, digits, each(operator.lshift, carry, bits), out=result[..., :-1])
    machine.cpu.put(result[..., -1:], 0, "carry")
    machine.cpu.update(operator.iadd, result[..., 1:], carry, name="carry")
    return result
