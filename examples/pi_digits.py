"""Digits of π by the series of the Chudnovsky brothers, with nothing but ``tcu.integers``.

Binary splitting makes of the series three products of long integers; one square root and one quotient give all digits at
once.  The digest of the digits is compared with that of mpmath's, another library's, where it is known.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from functools import partial

from tcu import integers

DIGESTS = {
    1_000: "8a84d58d47f78c42a200ebfbbe7346426d4cdf4f2803d45c3590162865fcc0d2",
    10_000: "ab03bf7037718e1525340a0c43f0049ddbe99c6067ad3e08a4de5c591fedc524",
    100_000: "79b862cc31ceb97bb3c39d05ae74664c99f0ff7670b3e08a4b21a31ef84d7711",
    1_000_000: "130203eb055a962b8441af76c22b75627ec18c672a485904e567f59251e8ee18",
}
"""Of "3" and so many digits behind the point, without it: SHA-256 of what mpmath computes, cut off."""
GUARD = 10
"""Digits that are computed besides, and cut off."""
TERM = 14.1816474627254776555
"""Digits of a term."""
_C = 640_320**3 // 24


def split(first: int, last: int, executor: str | None) -> tuple[int, int, int]:
    """P, Q and T of the terms from ``first`` to ``last``, as Haible and Papanikolaou call them."""
    if last - first == 1:
        p = (6 * first - 5) * (2 * first - 1) * (6 * first - 1) if first else 1
        q = first**3 * _C if first else 1
        t = p * (13_591_409 + 545_140_134 * first)
        return p, q, -t if first % 2 else t
    times = partial(integers.multiply, executor=executor)
    middle = (first + last) // 2
    p1, q1, t1 = split(first, middle, executor)
    p2, q2, t2 = split(middle, last, executor)
    return times(p1, p2), times(q1, q2), times(t1, q2) + times(p1, t2)


def pi_digits(digits: int, executor: str | None = None) -> str:
    """The 3 and so many digits behind the point."""
    _, q, t = split(0, int((digits + GUARD) / TERM) + 2, executor)
    times = partial(integers.multiply, executor=executor)
    scale = integers.power(10, digits + GUARD)
    root = integers.isqrt(times(10_005 * scale, scale))
    quotient, _ = integers.divmod(times(426_880 * q, root), t)
    return str(integers.to_text(quotient))[: digits + 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--digits", type=int, default=100_000)
    parser.add_argument("--gpu", action="store_true", help="multiply long numbers on the first GPU")
    asked = parser.parse_args()
    began = time.perf_counter()
    text = pi_digits(asked.digits, "gpu" if asked.gpu else None)
    took = time.perf_counter() - began
    digest = hashlib.sha256(text.encode()).hexdigest()
    print(f"{asked.digits:,} digits of π in {took:.2f} s: {text[0]}.{text[1:21]} ... {text[-20:]}")
    known = DIGESTS.get(asked.digits)
    verdict = "not known" if known is None else "mpmath's, too" if digest == known else "NOT mpmath's"
    print(f"SHA-256 {digest}: {verdict}")


if __name__ == "__main__":
    main()
