"""Launch the kernels that pack an exact sum for other GPUs, and that round what they add up to."""

from __future__ import annotations

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.structs import Struct, constants, struct
from tcu.gpu.sums import COUNTS, TARGETS, WORDS_OF, compiled

__all__ = ["PACKED_OF", "TAIL", "MergeLaunch"]

TAIL = COUNTS + 3
"""Words behind the limbs: counts, how many numbers, the signature and its square."""
PACKED_OF = {product: (words - COUNTS) // 2 + TAIL for product, words in WORDS_OF.items()}
"""Words that travel, by whether it is a sum of products."""
_THREADS = 128
BLOCK = constants(THREADS=_THREADS)


@struct()
class Merge(Struct):
    cuda = """
    i64* state;  // WORDS: limbs and counts of this GPU's sum
    i64* words;  // PACKED + COUNTS + 3
    void* out;
    i64 n;
    i64 signature;
    i64 ranks;
    i64 finish;
    i64 divide;  // whether to divide by the number of numbers
    i64 root;    // with PLANNED: whether to take the root
    i64 target;
    """


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
        term = "VALUE" if not product else "SQUARE" if root else "PRODUCT"
        self._kernels = {
            entry: compiled(
                "merge.cu", entry, gpu.compute_capability, "BINARY64", "ALIGNED", (("TERM", term),)
            )
            for entry in ("pack", "merge")
        }
        self._given = {
            "signature": signature, "finish": int(planned), "divide": int(divide),
            "root": int(root and planned), "target": TARGETS[target.name],
        }  # fmt: skip

    def pack(self, state: int, words: int, n: int, stream: int) -> None:
        """Put on the stream: the sum whose limbs and counts lie at ``state``, ready to travel, to ``words``."""
        problem = Merge(state=state, words=words, n=n, **self._given)
        KernelLaunch(self._kernels["pack"], 1, _THREADS, problem)(stream)

    def merge(self, words: int, out: int, ranks: int, stream: int) -> None:
        """Put on the stream: the words of so many ranks, added up, rounded to address ``out``."""
        problem = Merge(words=words, out=out, ranks=ranks, **self._given)
        KernelLaunch(self._kernels["merge"], 1, _THREADS, problem)(stream)
