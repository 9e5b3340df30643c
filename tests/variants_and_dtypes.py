"""Shared by the tests of sums: which variant takes which dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tcu.formats import format_of
from tcu.plan import VARIANTS


def takes(variant: str, dtype: Any) -> bool:
    return VARIANTS[variant].takes(format_of(np.dtype(dtype)))


def every_pair(dtypes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parameters ``dtype`` and ``variant``: all pairs of which there is a sum."""
    return pytest.mark.parametrize(
        ("dtype", "variant"),
        [
            pytest.param(dtype, variant, id=f"{np.dtype(dtype)}-{variant}")
            for dtype in dtypes
            for variant in VARIANTS
            if takes(variant, dtype)
        ],
    )
