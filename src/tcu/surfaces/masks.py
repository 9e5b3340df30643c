"""What a mask must be."""

from __future__ import annotations

from tcu.errors import DtypeError, ShapeError

__all__ = ["check_mask"]


def check_mask(shape: tuple[int, ...], dtype: str, of_x: tuple[int, ...]) -> None:
    """Raises DtypeError or ShapeError for what selects no elements of x."""
    if dtype.removeprefix("torch.") != "bool":
        raise DtypeError(f"where has dtype {dtype}: give truth values, such as ~numpy.isnan(x)")
    behind = of_x[len(of_x) - len(shape) :]
    if len(shape) > len(of_x) or any(
        mine not in (1, other) for mine, other in zip(shape, behind, strict=True)
    ):
        raise ShapeError(f"where has shape {shape}, x {of_x}: give a mask that broadcasts to x")
