"""Memory that blocks of one launch share, and leave as they found it.

One piece for each stream, because launches on one stream follow each other.
A captured graph may be replayed on any stream, so every capture has a piece
of its own; two executables made of one captured graph share it, and must not
run at the same time.  Pieces live as long as the process: 0.1 MB each, but 8
bytes a block for the papers' variants, which have many blocks.

Their place is a matter of luck: with the words of a list that warps ask again and again at 19 places, the sums of
segments of 1000 numbers of binary32 on average took 97.2 to 99.2 us of 2^26 numbers (H200).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tcu.gpu.arrays import lasts
from tcu.gpu.device import call
from tcu.gpu.imports import cuda_module

__all__ = ["Workspace", "any_time", "workspace"]

_LEGACY = (0, 1)
"""The default stream under both its names; it cannot be captured."""


class Workspace:
    """Words of 8 bytes, filled with ones or with zeros: what kernels expect, and leave behind."""

    def __init__(self, words: int, ones: bool) -> None:
        self.words = words
        self._fill = 0xFF if ones else 0, 8 * max(words, 1)
        with any_time():
            self.address = int(call("cuMemAlloc", 8 * max(words, 1)))
            flag = cuda_module("cuda.bindings.driver").CUstream_flags.CU_STREAM_NON_BLOCKING
            stream = call("cuStreamCreate", flag)
            call("cuMemsetD8Async", self.address, *self._fill, stream)
            call("cuStreamSynchronize", stream)
            call("cuStreamDestroy", stream)
        self._lock = threading.Lock()
        self._is_torn = False

    def start(self, stream: int, *launches: Callable[[int], None]) -> None:
        """Put launches on the stream that hand words to each other: none of another thread comes between them.

        Where an exception came between them the words are as at first again before the next ones.
        """
        with self._lock:
            if self._is_torn:
                call("cuMemsetD8Async", self.address, *self._fill, stream)
            self._is_torn = True
            for launch in launches:
                launch(stream)
            self._is_torn = False


_pieces: dict[tuple[str, int, int, int], Workspace] = {}
_lock = threading.Lock()


def workspace(kind: str, words: int, ones: bool, ordinal: int, stream: int) -> Workspace:
    """The piece for launches of a kind on a stream of that GPU, which is the current one.

    A larger piece replaces a smaller one, which launches under way may still use, so it is kept.
    """
    number, capture = stream, 0
    if stream not in _LEGACY:
        if call("cuStreamIsCapturing", stream):  # which makes fewer objects than the next question
            capture = int(call("cuStreamGetCaptureInfo", stream)[1])
        else:
            # A handle may be that of another stream tomorrow, its number never; in a capture it must not be asked.
            number = _numbers.get(stream) or call("cuStreamGetId", stream)
    key = kind, ordinal, number, capture
    found = _pieces.get(key)
    if found is None or found.words < words:
        with _lock:
            found = _pieces.get(key)
            if found is None or found.words < words:
                if found is not None:
                    _outgrown.append(found)
                found = _pieces[key] = Workspace(words, ones)
                if number != stream and lasts(stream, ordinal):
                    _numbers[stream] = number
    return found


_outgrown: list[Workspace] = []
_numbers: dict[int, int] = {}
"""Of streams whose handles are theirs as long as the process lives: to ask for one takes 0.5 to 0.9 us (H200)."""


@contextlib.contextmanager
def any_time() -> Iterator[None]:
    """Allow allocations of our own although a stream of this thread is being captured."""
    relaxed = cuda_module("cuda.bindings.driver").CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before: Any = call("cuThreadExchangeStreamCaptureMode", relaxed)
    try:
        yield
    finally:
        call("cuThreadExchangeStreamCaptureMode", before)
