"""Written by ``python -m tcu.stubs``."""

import os
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from tcu.model.execute import Progress
from tcu.units import Unit

__all__ = [
    "cumsum",
    "dot",
    "fcumsum",
    "fdot",
    "fmean",
    "fnorm",
    "fstd",
    "fsum",
    "fvar",
    "mean",
    "norm",
    "std",
    "sum",
    "var",
]

FUNCTIONS: dict[str, Callable[..., Any]]

def cumsum(
    x: Any,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    accumulator: str | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: str | os.PathLike[str],
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Any:
    """:func:`tcu.cumsum` of all numbers of files, as one line, read once: the same bits, by the default variant alone.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    exclusive, reverse, unit, variant, chain, accumulator, dtype:
        As in :func:`tcu.cumsum`.
    out:
        The .npy file that takes the running sums; one that is there is replaced, an input never.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.

    Returns
    -------
    None: they are in ``out``.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.cumsum` refuses.
    """

def dot(
    x: Any,
    y: Any,
    *,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.dot` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x, y:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    block, dtype:
        As in :func:`tcu.dot`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.dot` refuses.
    """

def fcumsum(
    x: Any,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    dtype: npt.DTypeLike | Any = None,
    out: str | os.PathLike[str],
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Any:
    """:func:`tcu.fcumsum` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    exclusive, reverse, dtype:
        As in :func:`tcu.fcumsum`.
    out:
        The .npy file that takes the running sums; one that is there is replaced, an input never.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.

    Returns
    -------
    None: they are in ``out``.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.fcumsum` refuses.
    """

def fdot(
    x: Any,
    y: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.fdot` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x, y:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    dtype:
        As in :func:`tcu.fdot`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.fdot` refuses.
    """

def fmean(
    x: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.fmean` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    dtype:
        As in :func:`tcu.fmean`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.fmean` refuses.
    """

def fnorm(
    x: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.fnorm` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    dtype:
        As in :func:`tcu.fnorm`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.fnorm` refuses.
    """

def fstd(
    x: Any,
    *,
    correction: float = 0.0,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.fstd` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    correction, dtype:
        As in :func:`tcu.fstd`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.fstd` refuses.
    """

def fsum(
    x: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.fsum` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    dtype:
        As in :func:`tcu.fsum`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.fsum` refuses.
    """

def fvar(
    x: Any,
    *,
    correction: float = 0.0,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.fvar` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    correction, dtype:
        As in :func:`tcu.fvar`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.fvar` refuses.
    """

def mean(
    x: Any,
    *,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.mean` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    unit, variant, chain, block, accumulator, fraction, dtype:
        As in :func:`tcu.mean`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.mean` refuses.
    """

def norm(
    x: Any,
    *,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.norm` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    block, dtype:
        As in :func:`tcu.norm`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.norm` refuses.
    """

def std(
    x: Any,
    *,
    correction: float = 0.0,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.std` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    correction, block, dtype:
        As in :func:`tcu.std`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.std` refuses.
    """

def sum(
    x: Any,
    *,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.sum` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    unit, variant, chain, block, accumulator, fraction, dtype:
        As in :func:`tcu.sum`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.sum` refuses.
    """

def var(
    x: Any,
    *,
    correction: float = 0.0,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    memory: int = 1073741824,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    gpu: int | None = None,
) -> Any:
    """:func:`tcu.var` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x:
        A path, a folder, a glob or several, as :func:`open_files` takes them; or a
        :class:`Source`.
    correction, block, dtype:
        As in :func:`tcu.var`.
    memory:
        Bytes for what is read and worked on.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.
    gpu:
        The number of the GPU that the numbers are copied to and summed on: for exact
        sums and means, and those by the default plan.

    Returns
    -------
    A NumPy scalar.

    Raises
    ------
    TcuError:
        Files that cannot be read; numbers and options that :func:`tcu.var` refuses.
    """
