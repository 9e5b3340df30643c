"""Paper 002's figure 3: how fast tensor cores multiply matrices, by hand and by the library."""

from __future__ import annotations

from tcu.study import gpu
from tcu.study.sources import PEERS
from tcu.study.study import Figure, Line, Point, Row, Rows, Shown, Study, Verdict

__all__ = ["GEMM"]

NAIVE, SHARED, LIBRARY = "naive WMMA", "WMMA, shared memory", "cuBLAS by PyTorch"
READING = "a sum by PyTorch"
_SPENT = 2 * 16
"""Operations that a sum by 16 × 16 × 16 MMAs with ones spends on each number."""
_READ = 1 << 29
_ERROR = 2.0**-9
"""Of positive numbers: binary32 sums, and the library's results rounded to binary16, are well within."""


def _points(quick: bool) -> list[Point]:
    return [{"n": 1 << power} for power in range(9, 12 if quick else 15)] + [{"read": _READ >> 2 * quick}]


def _measure(point: Point) -> Rows:
    gemm = gpu.load().gemm
    found: Rows = (
        gemm.reading(point["read"], READING)
        if "read" in point
        else gemm.rates(point["n"], NAIVE, SHARED, LIBRARY)
    )
    return found


def _show(rows: Rows) -> Shown:
    products = [row for row in rows if "n" in row]
    sizes = sorted({row["n"] for row in products})
    rate = {(row["who"], row["n"]): 2 * row["n"] ** 3 / row["seconds"] * 1e-12 for row in products}
    who = list(dict.fromkeys(row["who"] for row in products))
    figure = Figure(
        "Half-precision matrix products", "M = N = K", "TFLOPS",
        [Line(name, sizes, [rate[name, n] for n in sizes]) for name in who], True,
        note="Binary16 matrices, binary32 accumulation; cuBLAS returns binary16, the WMMA kernels binary32.",
    )  # fmt: skip
    largest = sizes[-1]
    naive, shared, library = (rate[name, largest] for name in (NAIVE, SHARED, LIBRARY))
    worst = max(row["relative_error"] for row in products)
    return Shown([figure], [
        Verdict.of(
            "paper 002, figure 3",
            "A naive kernel reaches a small part of the rate, one with shared memory more, the library most.",
            f"At n = {largest:,}: {naive:.0f}, {shared:.0f} and {library:.0f} TFLOPS.", naive < shared < library,
            "the order of the kernels is another one on this GPU",
            check="the rates at the largest n rise in this order",
            rows=[row for row in products if row["n"] == largest], fields=("seconds",),
        ),
        *(_waste(row, library, [r for r in products if (r["who"], r["n"]) == (LIBRARY, largest)])
          for row in rows if "read" in row),
        Verdict.of("tcu", "All products are right.", f"The largest relative error is {worst:.1e}.", worst < _ERROR,
                   "a product is wrong", check="no relative error reaches 2^-9", rows=products,
                   fields=("relative_error",)),
    ])  # fmt: skip


def _waste(read: Row, library: float, products: Rows) -> Verdict:
    wanted, given = library / _SPENT * 2, 2 * read["read"] / read["seconds"] * 1e-12
    return Verdict.of(
        "paper 002, figure 3",
        "The rate is so high that algorithms may waste operations on tensor cores.",
        f"A sum by MMAs spends {_SPENT} operations on a number; at {library:.0f} TFLOPS that keeps up with {wanted:.0f} TB/s "
        f"of binary16, {wanted / given:.0f} times what memory delivers to {read['who']} ({given:.1f} TB/s).",
        wanted > 2 * given, "the operations of a sum, not its reads, are the limit",
        check="the library's rate keeps up with more than twice what memory delivers", rows=[read, *products],
        fields=("seconds",),
    )  # fmt: skip


GEMM = Study(
    "gemm-rates", "Rates of matrix products", ("002 figure 3",),
    "How fast are tensor cores by hand, and by the library?",
    _show, _points, _measure, (5, 10), ("gpu", "torch", "nvcc"), sources=(PEERS,),
)  # fmt: skip
