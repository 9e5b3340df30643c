"""The kernels that pack an exact sum for other GPUs, and that round what they add up to."""

from __future__ import annotations

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, OUT, Given, KernelChoice, Launch, Recipe, X
from tcu.gpu.structs import constants, struct
from tcu.gpu.sums import COUNTS, TARGETS, WORDS_OF

__all__ = ["PACKED_OF", "TAIL", "MergeLaunch"]

TAIL = COUNTS + 3
"""Words behind the limbs: counts, how many numbers, the signature and its square."""
PACKED_OF = {product: (words - COUNTS) // 2 + TAIL for product, words in WORDS_OF.items()}
"""Words that travel, by whether it is a sum of products."""
_THREADS = 128
BLOCK = constants(THREADS=_THREADS)


Merge = struct("Merge", """
    i64* state;  // WORDS: limbs and counts of this GPU's sum
    i64* words;  // PACKED + COUNTS + 3
    void* out;
    i64 n, signature, ranks, finish;
    i64 divide;  // whether to divide by the number of numbers
    i64 root;    // with PLANNED: whether to take the root
    i64 target;
""")  # fmt: skip


class MergeLaunch:
    """What becomes of the exact sums of one operation on one GPU.

    ``product``: they are sums of products, or with ``root`` of squares, whose
    root is rounded.  ``planned``: the sum is rounded to binary64, divided and
    rooted there, and rounded once more.  ``divide``: by the number of numbers.
    """

    def __init__(
        self,
        gpu: Gpu,
        target: Format,
        signature: int,
        *,
        product: bool,
        planned: bool,
        divide: bool,
        root: bool,
    ) -> None:
        macros = {
            "ELEMENT": "BINARY64", "LAYOUT": "ALIGNED",
            "TERM": "VALUE" if not product else "SQUARE" if root else "PRODUCT",
        }  # fmt: skip

        def launch(entry: str, **takes: Given) -> Launch:
            problem = Merge(0, 0, 0, 0, signature, 0, planned, divide, root and planned, TARGETS[target.name])
            return Launch(Recipe((KernelChoice("merge", macros, 1, _THREADS, problem, takes, entry),)), gpu)

        self._pack = launch("pack", state=X, words=OUT, n=OTHER)
        self._merge = launch("merge", words=X, out=OUT, ranks=OTHER)

    def pack(self, state: int, words: int, n: int, stream: int) -> None:
        """Put on the stream: the sum whose limbs and counts lie at ``state``, ready to travel, to ``words``."""
        self._pack.start(state, n, words, stream)

    def merge(self, words: int, out: int, ranks: int, stream: int) -> None:
        """Put on the stream: the words of so many ranks, added up, rounded to address ``out``."""
        self._merge.start(words, ranks, out, stream)
