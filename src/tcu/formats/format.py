"""Number formats as rows of data, with what follows from each row as properties."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal

import numpy as np

from tcu.errors import DtypeError, unknown_name

__all__ = ["FORMATS", "Format", "dtype_of", "format_of", "get_format", "named_format"]


@dataclass(frozen=True)
class Format:
    """One number format.

    A floating-point code is ``sign | exponent field | fraction``, in the low
    bits of its word; a unit ignores what lies above them.  An exponent field of
    zero holds zero and the subnormals, where ``has_zero``.
    """

    name: str
    kind: Literal["float", "integer"]
    bits: int
    exponent_bits: int
    """Width of the exponent field; 0 for integers."""
    fraction_bits: int
    """Stored bits of the significand; for integers the bits besides the sign."""
    type_name: str
    """Of NumPy's scalar type, or of that of ml_dtypes (TF32 lives in float32 words)."""
    source: str
    specials: Literal["IEEE", "last", "negative zero", "none"] = "IEEE"
    """inf and NaN in the exponent field of all ones; NaN in the last code alone ("fn"), or in that of -0 ("fnuz"); neither."""
    signed: bool = True
    has_zero: bool = True
    """Else the exponent field of zero is a binade as any other."""
    more_bias: int = 0
    """By how much the bias exceeds 2^(exponent_bits - 1) - 1."""
    storage_shift: int = 0
    """Bits by which a code sits above the low end of its storage word (13 for TF32)."""

    def __hash__(self) -> int:
        return hash(self.name)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """That arrays of this format have.  The first one of ml_dtypes loads it: 0.1 s, and 0.7 s of ml_dtypes 0.7.0."""
        kind: type = getattr(np, self.type_name, None) or getattr(import_module("ml_dtypes"), self.type_name)
        return np.dtype(kind)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def precision(self) -> int:
        """p: digits of the significand, the implicit one included."""
        return self.fraction_bits + (1 if self.is_float else 0)

    @property
    def has_infinity(self) -> bool:
        return self.specials == "IEEE"

    @property
    def has_nan(self) -> bool:
        return self.is_float and self.specials != "none"

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1 + self.more_bias

    @property
    def least_field(self) -> int:
        """The exponent field that zero and the subnormals share their exponent with; 0 where there are none."""
        return int(self.has_zero)

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number, and of every subnormal."""
        return self.least_field - self.bias

    @property
    def emax(self) -> int:
        """Exponent of the largest finite number."""
        return (self.max_finite_code >> self.fraction_bits) - self.bias

    @cached_property
    def max_finite_code(self) -> int:
        """Code of the largest finite number, sign bit clear."""
        if not self.is_float:
            return (1 << self.fraction_bits) - 1
        if self.has_infinity:
            return ((1 << self.exponent_bits) - 1 << self.fraction_bits) - 1
        return self.magnitude_codes - (2 if self.specials == "last" else 1)

    @property
    def infinity_code(self) -> int:
        """Code of +inf; only where ``has_infinity``."""
        return self.max_finite_code + 1

    @property
    def nan_code(self) -> int:
        """Code of the NaN with every fraction bit set, sign clear; of the only NaN; only where ``has_nan``.

        This is the NaN that NVIDIA's units return in binary32 (0x7fffffff) and
        binary16 (0x7fff), and the only NaN of E4M3.
        """
        return self.magnitude_codes - (self.specials != "negative zero")

    @cached_property
    def magnitude_codes(self) -> int:
        """How many codes there are besides the sign."""
        return 1 << self.bits - (1 if self.signed else 0)

    @cached_property
    def sign_code(self) -> int:
        """The sign bit, 0 where there is none."""
        return 1 << self.bits - 1 if self.signed else 0

    @property
    def quantum_exponent(self) -> int:
        """Every finite number is an integer multiple of 2 to this power."""
        return self.emin - self.fraction_bits if self.is_float else 0

    @cached_property
    def max_finite(self) -> float:
        if not self.is_float:
            return float(self.max_finite_code)
        low = self.max_finite_code & ((1 << self.fraction_bits) - 1)
        return float((1 << self.fraction_bits) + low) * 2.0 ** (self.emax - self.fraction_bits)

    @property
    def min_normal(self) -> float:
        return 2.0**self.emin

    @property
    def min_subnormal(self) -> float:
        return 2.0**self.quantum_exponent

    @property
    def unit_roundoff(self) -> float:
        """u = 2^-p: the largest relative error of rounding to nearest."""
        return 2.0**-self.precision

    @cached_property
    def code_dtype(self) -> np.dtype[Any]:
        """Unsigned integers of the storage width (32 bits for TF32)."""
        return np.dtype(f"u{-(-(self.bits + self.storage_shift) // 8)}")


def _float(name: str, exponent: int, fraction: int, type_name: str, source: str, **rest: Any) -> Format:
    bits = rest.get("signed", True) + exponent + fraction
    return Format(name, "float", bits, exponent, fraction, type_name, source, **rest)


_IEEE = "IEEE 754-2019, table 3.5"
_OCP8 = "OCP 8-bit floating point specification (OFP8) 1.0, table 1"
_OCP_MX = "OCP Microscaling formats (MX) specification 1.0, section 5.3"
_FNUZ = "B. Noune et al., 8-bit numerical formats for deep neural networks, 2022; AMD CDNA3 ISA"

FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        _float("binary16", 5, 10, "float16", _IEEE),
        _float("bfloat16", 8, 7, "bfloat16", "Intel, BFLOAT16 hardware numerics definition, 2018"),
        _float(
            "tf32",
            8,
            10,
            "float32",
            "NVIDIA A100 architecture white paper, 2020; paper 003, table 3",
            storage_shift=13,
        ),
        _float("e4m3", 4, 3, "float8_e4m3fn", _OCP8, specials="last"),
        _float("e5m2", 5, 2, "float8_e5m2", _OCP8),
        _float("e4m3fnuz", 4, 3, "float8_e4m3fnuz", _FNUZ, specials="negative zero", more_bias=1),
        _float("e5m2fnuz", 5, 2, "float8_e5m2fnuz", _FNUZ, specials="negative zero", more_bias=1),
        _float("e3m2", 3, 2, "float6_e3m2fn", _OCP_MX, specials="none"),
        _float("e2m3", 2, 3, "float6_e2m3fn", _OCP_MX, specials="none"),
        _float("e2m1", 2, 1, "float4_e2m1fn", _OCP_MX, specials="none"),
        _float("ue8m0", 8, 0, "float8_e8m0fnu", _OCP_MX, specials="last", signed=False, has_zero=False),
        _float(
            "ue4m3",
            4,
            3,
            "float8_e4m3fn",
            "PTX ISA, ue4m3: E4M3 whose sign is not read",
            specials="last",
            signed=False,
        ),
        _float("binary32", 8, 23, "float32", _IEEE),
        _float("binary64", 11, 52, "float64", _IEEE),
        Format("u8", "integer", 8, 0, 8, "uint8", "two's complement", "none", False),
        Format("s8", "integer", 8, 0, 7, "int8", "two's complement", "none"),
        Format("s32", "integer", 32, 0, 31, "int32", "two's complement", "none"),
    )
}

ALIASES = {
    "float16": "binary16", "half": "binary16", "f16": "binary16", "fp16": "binary16",
    "bf16": "bfloat16",
    "float32": "binary32", "f32": "binary32", "fp32": "binary32", "single": "binary32",
    "float64": "binary64", "f64": "binary64", "fp64": "binary64", "double": "binary64",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2fnuz": "e5m2fnuz",
    "float6_e3m2fn": "e3m2", "float6_e2m3fn": "e2m3", "float4_e2m1fn": "e2m1", "float8_e8m0fnu": "ue8m0",
    "uint8": "u8", "int8": "s8", "int32": "s32",
}  # fmt: skip


def get_format(name: str | Format) -> Format:
    """The format of that name (``"binary16"``, or an alias such as ``"f16"`` or ``"float16"``).

    Raises :class:`tcu.errors.UnknownNameError`.
    """
    if isinstance(name, Format):
        return name
    key = str(name).lower()
    key = ALIASES.get(key, key)
    if key not in FORMATS:
        raise unknown_name("format", name, FORMATS)
    return FORMATS[key]


def named_format(given: Any) -> Format:
    """The format of a dtype of NumPy or PyTorch, or of a name such as "f16"; DtypeError if there is none."""
    if type(given).__module__ == "torch":
        given = str(given).removeprefix("torch.")
    if isinstance(given, str) and ALIASES.get(given.lower(), given.lower()) in FORMATS:
        return get_format(given)
    return format_of(given)


_READ_BY_UNITS = ("tf32", "ue4m3")
"""Formats as which a unit reads arrays of another's dtype."""
_BY_TYPE = {row.type_name: row for name, row in FORMATS.items() if name not in _READ_BY_UNITS}


_by_dtype: dict[np.dtype[Any], Format] = {}
"""Those that were met: to ask for a dtype's name takes longer."""


def dtype_of(given: Any) -> np.dtype[Any]:
    """As numpy.dtype, which does not know the names of ml_dtypes before somebody has loaded it."""
    known = _BY_TYPE.get(given) if isinstance(given, str) else None
    return known.dtype if known else np.dtype(given)


def format_of(dtype: Any) -> Format:
    """The format that arrays of this dtype hold; float32 is binary32 (an MMA reads it as TF32).

    Raises :class:`tcu.errors.DtypeError` for a dtype that no format has.
    """
    try:
        found = dtype_of(dtype).newbyteorder("=")
        row = _by_dtype.get(found)
        if row is None:
            row = _BY_TYPE[found.name]
            if row.dtype != found:
                raise KeyError(found)
            _by_dtype[found] = row
        return row
    except (KeyError, TypeError, ValueError, SyntaxError):
        names = ", ".join(_BY_TYPE)
        raise DtypeError(
            f"no tensor-core format has dtype {dtype}: {_instead(dtype)}; dtypes with a format: {names}"
        ) from None


def _instead(dtype: Any) -> str:
    """What to do with an array of a dtype without a format."""
    try:
        kind = np.dtype(dtype).kind
    except (TypeError, ValueError, SyntaxError):
        kind = ""
    if kind == "c":
        return (
            "make a product of x.real and x.imag, as a.real·b.real - a.imag·b.imag and "
            "a.real·b.imag + a.imag·b.real are its parts"
        )
    advice = "convert the array first, for example with x.astype('float64')"  # float32 is multiplied in TF32
    return f"{advice}, or 'int8' where it holds all numbers" if kind in ("b", "i", "u") else advice
