"""Sums by index of all numbers of files, read once: shares of pieces (:mod:`tcu.surfaces.slot_shares`) that merge exactly."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.model import threads
from tcu.model.execute import Progress
from tcu.streams.checkpoint import Checkpoint
from tcu.streams.passes import run
from tcu.streams.places import DEFAULT_MEMORY, naming, sources_of
from tcu.streams.source import SideBySide, Source
from tcu.surfaces.keyed_sums import bins_of, known_edges
from tcu.surfaces.slot_shares import (
    SlotShare,
    inside,
    means_of,
    merged_slots,
    result_dtype,
    share_of_rows,
    sums_by_key,
    sums_of,
)
from tcu.surfaces.sums_by_index import (
    check_index,
    check_weights,
    checked_places,
    is_integer,
    products,
    whole_size,
)

__all__ = ["bincount", "histogram", "index_mean", "index_sum", "reduce_by_key"]

Values = npt.NDArray[Any]
Place = str | os.PathLike[str] | None
_WAITING = 1 << 20
"""Rows of pieces' shares that wait at least until they are merged with what was before."""


def index_sum(
    x: Any, index: Any, size: int, *, weights: Any = None, dtype: Any = None, check: bool = True,
    memory: int = DEFAULT_MEMORY, checkpoint: Place = None, progress: Progress | None = None,
) -> Any:  # fmt: skip
    """:func:`tcu.index_sum` of all numbers of files, as one line, read once: the same bits.

    Parameters
    ----------
    x, index, weights:
        Paths, folders, globs or several, as :func:`open_files` takes them, or a :class:`Source`; with as many numbers.
    size, dtype, check:
        As in :func:`tcu.index_sum`.
    memory:
        Bytes for what is read and worked on.  Beside them the slots take 16 for each 53 bits of an exact sum, about
        three times as many while they are merged.
    checkpoint:
        A file that keeps how far the pass has come, and from which it goes on.
    progress:
        Called with the number of elements just finished.

    Returns
    -------
    An array of NumPy.

    Raises
    ------
    TcuError:
        Files that cannot be read, or of other lengths; what :func:`tcu.index_sum` refuses.

    Examples
    --------
    >>> import numpy as np
    >>> from tcu import streams
    >>> np.save("x.npy", np.array([1e8, 5, 1, -1e8], np.float32))
    >>> np.save("index.npy", np.array([0, 1, 0, 0]))
    >>> streams.index_sum("x.npy", "index.npy", 3)
    array([1., 5., 0.], dtype=float32)
    """
    return _by_index(False, x, index, size, weights, dtype, check, memory, checkpoint, progress)


def index_mean(
    x: Any, index: Any, size: int, *, dtype: Any = None, check: bool = True, memory: int = DEFAULT_MEMORY,
    checkpoint: Place = None, progress: Progress | None = None,
) -> Any:  # fmt: skip
    """:func:`tcu.index_mean` of all numbers of files, as one line, read once: the same bits.

    Parameters, results and errors are those of :func:`index_sum`.

    Examples
    --------
    >>> import numpy as np
    >>> from tcu import streams
    >>> np.save("x.npy", np.array([1, 5, 2], np.float32))
    >>> np.save("index.npy", np.array([0, 1, 0]))
    >>> streams.index_mean("x.npy", "index.npy", 3)
    array([1.5, 5. , nan], dtype=float32)
    """
    return _by_index(True, x, index, size, None, dtype, check, memory, checkpoint, progress)


def bincount(
    index: Any, weights: Any = None, size: int | None = None, *, dtype: Any = None, memory: int = DEFAULT_MEMORY,
    checkpoint: Place = None, progress: Progress | None = None,
) -> Any:  # fmt: skip
    """:func:`tcu.bincount` of all numbers of files, read once: the same bits.

    Parameters
    ----------
    index, weights:
        As in :func:`index_sum`.
    size, dtype:
        As in :func:`tcu.bincount`.
    memory, checkpoint, progress:
        As in :func:`index_sum`, which says what is raised, too.

    Returns
    -------
    An array of NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> from tcu import streams
    >>> np.save("index.npy", np.array([0, 2, 2]))
    >>> streams.bincount("index.npy")
    array([1, 0, 2])
    """
    known = None if size is None else whole_size(size)
    sources = sources_of([index] if weights is None else [index, weights], memory, 2)
    check_index(np.empty(0, sources[0].dtype), 0)
    largest = np.iinfo(np.int64).max if known is None else known

    def placed(start: int, index: Values, *weights: Values) -> tuple[Values, Values]:
        return checked_places(index, largest, True, negative=False, first=start), _counted(index, weights)

    target = _target(sources[1:], False, dtype)
    (share,) = _pass("bincount", sources, target, [placed], (size,), memory, checkpoint, progress)
    slots = known if known is not None else int(share.keys.max()) + 1 if len(share.keys) else 0
    return sums_of(share, slots, target)


def histogram(
    x: Any, bins: Any, range: tuple[float, float] | None = None, weights: Any = None, *, dtype: Any = None,
    memory: int = DEFAULT_MEMORY, checkpoint: Place = None, progress: Progress | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """:func:`tcu.histogram` of all numbers of files, read once: the same bits.

    Parameters
    ----------
    x, weights:
        As in :func:`index_sum`.
    bins, range, dtype:
        As in :func:`tcu.histogram`; a number of bins needs a range.
    memory, checkpoint, progress:
        As in :func:`index_sum`, which says what is raised, too.

    Returns
    -------
    Two arrays of NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> from tcu import streams
    >>> np.save("x.npy", np.array([0.5, 1.5, 1.7, 3]))
    >>> streams.histogram("x.npy", bins=3, range=(0, 3))
    (array([1, 2, 1]), array([0., 1., 2., 3.]))
    """
    edges = known_edges(bins, range, "with files")
    sources = sources_of([x] if weights is None else [x, weights], memory, 2)
    size = len(edges) - 1

    def placed(start: int, x: Values, *weights: Values) -> tuple[Values, Values]:
        return inside(bins_of(x, edges), _counted(x, weights), size)

    target = _target(sources[1:], False, dtype)
    (share,) = _pass("histogram", sources, target, [placed], edges.tolist(), memory, checkpoint, progress)
    return sums_of(share, size, target), edges


def reduce_by_key(
    keys: Any, x: Any, *, weights: Any = None, dtype: Any = None, memory: int = DEFAULT_MEMORY,
    checkpoint: Place = None, progress: Progress | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """:func:`tcu.reduce_by_key` of all numbers of files, read once: the same bits.

    Parameters
    ----------
    keys, x, weights:
        As in :func:`index_sum`; keys are numbers.
    dtype, memory, checkpoint, progress:
        As in :func:`index_sum`, which says what is raised, too.

    Returns
    -------
    Two arrays of NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> from tcu import streams
    >>> np.save("keys.npy", np.array([7, 3, 7, 7]))
    >>> np.save("x.npy", np.array([1e8, 2, 1, -1e8], np.float32))
    >>> streams.reduce_by_key("keys.npy", "x.npy")
    (array([3, 7]), array([2., 1.], dtype=float32))
    """
    sources = sources_of([x, keys] if weights is None else [x, keys, weights], memory, 2)

    def placed(start: int, x: Values, keys: Values, *weights: Values) -> tuple[Values, Values]:
        return keys, _rows(x, weights)

    target = _target([sources[0], *sources[2:]], False, dtype)
    (share,) = _pass("reduce_by_key", sources, target, [placed], (), memory, checkpoint, progress)
    return sums_by_key(share, target)


def _by_index(
    mean: bool, x: Any, index: Any, size: int, weights: Any, dtype: Any, check: bool, memory: int, checkpoint: Place,
    progress: Progress | None,
) -> Any:  # fmt: skip
    count = whole_size(size)
    sources = sources_of([x, index] if weights is None else [x, index, weights], memory, 3)
    check_index(np.empty(0, sources[1].dtype), 0)

    def placed(start: int, x: Values, index: Values, *weights: Values) -> tuple[Values, Values]:
        return inside(checked_places(index, count, check, first=start), _rows(x, weights), count)

    def counted(start: int, x: Values, index: Values) -> tuple[Values, Values]:
        return inside(checked_places(index, count, check, first=start), _counted(index, ()), count)

    target = _target([sources[0], *sources[2:]], mean, dtype)
    name, both = ("index_mean", [placed, counted]) if mean else ("index_sum", [placed])
    share, *counts = _pass(name, sources, target, both, (count, check), memory, checkpoint, progress)
    return (
        means_of(share, sums_of(counts[0], count, np.int64), target)
        if mean
        else sums_of(share, count, target)
    )


def _target(added: Sequence[Source], mean: bool, dtype: Any) -> np.dtype[Any]:
    """The result's dtype, of x and its weights, or of counts."""
    x, *weights = [np.empty(0, each.dtype) for each in added] or [np.empty(0, np.int64)]
    with naming(added):
        target = result_dtype(x, mean, dtype)
    for each in weights if not is_integer(x) else ():
        check_weights(x, each, 0)
    return target


def _counted(like: Values, weights: tuple[Values, ...]) -> Values:
    return weights[0] if weights else np.ones(like.size, np.int64)


def _rows(x: Values, weights: tuple[Values, ...]) -> Values:
    return np.asarray(products(x, weights[0], 0)) if weights else x


class _Shares:
    """The exact sums of a pass, by key."""

    on_cpu_alone = True

    def __init__(self, name: str, numbers: SideBySide, placed: Callable[..., tuple[Values, Values]]) -> None:
        self.name, self._n, self._placed = name, numbers.n, placed
        nothing = [np.empty(0, numbers.dtype[name]) for name in numbers.dtype.names or ()]
        self._shares = [share_of_rows(*placed(0, *nothing))]

    def pieces(self, start: int, most: int) -> Iterator[tuple[int, int]]:
        """Each is worked on as a whole: strips have too few numbers for each slot."""
        return ((at, min(at + most, self._n)) for at in range(start, self._n, most))

    def work(self, start: int, numbers: Any, share: Any = None) -> SlotShare:
        with threads.alone():  # other pieces are under way
            return share_of_rows(*self._placed(start, *numbers.arrays))

    def merge(self, start: int, stop: int, share: SlotShare) -> None:
        self._shares.append(share)
        waiting = sum(len(each.keys) for each in self._shares[1:])
        if waiting > max(_WAITING, len(self._shares[0].keys)):
            self.share()

    def share(self) -> SlotShare:
        """All that was merged so far."""
        self._shares = [merged_slots(self._shares)]
        return self._shares[0]

    def state(self) -> Any:
        return [
            [each.dtype.name, len(each), base64.b64encode(each.tobytes()).decode()] for each in self.share()
        ]

    def restore(self, state: Any) -> None:
        found = [np.frombuffer(base64.b64decode(text), dtype) for dtype, _, text in state]
        if [len(each) for each in found] != [n for _, n, _ in state]:
            raise ValueError("rows are missing")
        self._shares = [SlotShare(*found)]


def _pass(
    name: str, sources: Sequence[Source], target: np.dtype[Any], placed: Sequence[Callable[..., Any]], said: Any,
    memory: int, checkpoint: Place, progress: Progress | None,
) -> list[SlotShare]:  # fmt: skip
    """What all numbers come to, by each of the ways to place them."""
    numbers: Any = SideBySide(*sources)
    totals = [_Shares(f"{name} {i}", numbers, each) for i, each in enumerate(placed)]
    task = {
        "operation": name, "options": repr(said), "dtype": target.name,
        "files": [source.identity() for source in sources],
    }  # fmt: skip
    kept = None if checkpoint is None else Checkpoint(checkpoint, task)
    run(numbers, totals, memory=memory, checkpoint=kept, progress=progress)
    return [total.share() for total in totals]
