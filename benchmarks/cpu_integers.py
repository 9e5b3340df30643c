"""tcu.integers of Python's integers beside GMP and Python's own operators: from Python's integers and back, on one core.

    python benchmarks/cpu_integers.py [--dry-run]

GMP is gmpy2, given Python's integers and giving them back: int(gmpy2.mpz(a) * gmpy2.mpz(b)).  "GMP, in a function" is the same
behind "def call(a, b): return", the least that a library of Python's can be.  A time is that of the fastest of
some rounds, in which the participants take turns, each with as many calls as fill half a millisecond.  "by GMP" says who
computed tcu's result.  Every result is compared with Python's in the same run; one that differs is marked WRONG, and the exit
status is 1.  With --dry-run a few short numbers; nothing is written.

The rows are those from which the crossovers in tcu/integers/numbers.py were read.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import timeit
from collections.abc import Callable, Iterator
from typing import Any

import gmpy2
import record

import tcu
from tcu.model import gmp

BITS = (1, 30, 64, 128, 256, 400, 512, 600, 700, 850, 1024, 1500, 2048, 4096, 16_384, 65_536)
UNEVEN = ((64, 4096), (300, 16_384), (400, 1600), (600, 16_384), (1024, 65_536))
"""Bits of two factors, or of divisor and quotient."""
EXPONENTS = (1, 3, 8, 32, 256)
COUNTS = (2, 16, 256, 2048)
"""Of numbers in one product."""
ROUNDS, BATCH = 15, 5e-4
"""Of a figure, and seconds of a participant in a round."""
OURS = {
    "multiply": "integers.multiply(a, b)", "square": "integers.square(a)", "divmod": "integers.divmod(a, b)", "mod": "integers.mod(a, b)",
    "isqrt": "integers.isqrt(a)", "power": "integers.power(a, n)", "powmod": "integers.powmod(a, n, m)",
    "to_text": "integers.to_text(a)", "from_text": "integers.from_text(text)", "product": "integers.product(numbers)",
}  # fmt: skip
GMP = {
    "multiply": "int(mpz(a) * mpz(b))", "square": "int(mpz(a) ** 2)",
    "divmod": "tuple(map(int, divmod(mpz(a), mpz(b))))", "mod": "int(mpz(a) % mpz(b))", "isqrt": "int(isqrt(mpz(a)))",
    "power": "int(mpz(a) ** n)", "powmod": "int(powmod(mpz(a), mpz(n), mpz(m)))", "to_text": "str(mpz(a))", "from_text": "int(mpz(text))",
    "product": "int(tree([mpz(x) for x in numbers]))",
}  # fmt: skip
PYTHON = {
    "multiply": "a * b", "square": "a * a", "divmod": "divmod(a, b)", "mod": "a % b", "isqrt": "math.isqrt(a)", "power": "a ** n",
    "powmod": "pow(a, n, m)", "to_text": "str(a)", "from_text": "int(text)", "product": "math.prod(numbers)",
}  # fmt: skip


def tree(numbers: list[Any]) -> Any:
    """GMP's product of many: of neighbours, and of pairs of pairs."""
    while len(numbers) > 1:
        numbers = [*map(gmpy2.mul, numbers[::2], numbers[1::2]), *numbers[len(numbers) & ~1 :]]
    return numbers[0]


def cases(source: random.Random, few: bool) -> Iterator[tuple[str, dict[str, int], dict[str, Any]]]:
    """(function, what it is asked, its arguments)"""

    def number(bits: int) -> int:
        return source.getrandbits(bits) | 1 << bits - 1 | 1

    lengths = BITS[1:-6:4] if few else BITS
    for bits in lengths:
        a, b = number(bits), number(bits)
        yield "multiply", {"bits": bits, "by": bits}, {"a": a, "b": b}
        yield "square", {"bits": bits}, {"a": a}
        for function in ("divmod", "mod"):
            yield function, {"bits": bits, "by": bits}, {"a": number(2 * bits), "b": b}
        yield "isqrt", {"bits": bits}, {"a": a}
        if bits <= 10_000:  # Python's own text takes a time that grows as the square
            yield "to_text", {"bits": bits}, {"a": a}
            yield "from_text", {"bits": bits}, {"text": str(a)}
    for bits, by in UNEVEN[: 1 if few else None]:
        yield "multiply", {"bits": bits, "by": by}, {"a": number(bits), "b": number(by)}
        for function in ("divmod", "mod"):
            yield function, {"bits": bits, "by": by}, {"a": number(bits + by), "b": number(bits)}
    for bits in (8, 30, 64, 256, 1024)[: 1 if few else None]:
        for length in EXPONENTS:
            n = number(length)
            yield "powmod", {"bits": bits, "by": length}, {"a": number(bits), "n": n, "m": number(bits)}
        for n in (2, 3, 10, 100):
            yield "power", {"bits": bits, "by": n}, {"a": number(bits), "n": n}
    for bits in (30, 64, 1024)[: 1 if few else None]:
        for count in COUNTS:
            yield "product", {"bits": bits, "by": count}, {"numbers": [number(bits) for _ in range(count)]}


def seconds(statements: dict[str, str], names: dict[str, Any]) -> dict[str, float]:
    """Of a call of each."""
    timers = {who: timeit.Timer(statement, globals=names) for who, statement in statements.items()}
    calls = {who: max(1, round(BATCH / max(timer.timeit(2) / 2, 1e-8))) for who, timer in timers.items()}
    found = dict.fromkeys(timers, math.inf)
    for _ in range(ROUNDS):
        for who, timer in timers.items():
            found[who] = min(found[who], timer.timeit(calls[who]) / calls[who])
    return found


def by_gmp(call: Callable[[], Any]) -> bool:
    """Whether tcu takes GMP for it."""
    real, asked = gmp.load(), []

    class Noted:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(real, name)

    gmp.library = Noted()
    try:
        call()
    finally:
        gmp.library = real
    return bool(asked)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dry-run", action="store_true", help="a few short numbers; nothing is written")
    few = parser.parse_args().dry_run
    sys.set_int_max_str_digits(0)
    rows, wrong = [], 0
    for function, asked, arguments in cases(random.Random(1), few):
        names = {
            "integers": tcu.integers, "mpz": gmpy2.mpz, "isqrt": gmpy2.isqrt, "powmod": gmpy2.powmod, "tree": tree, "math": math,
        } | arguments  # fmt: skip
        listed = ", ".join(arguments)
        names["call"] = eval(f"lambda {listed}: {GMP[function]}", names)
        statements = {
            "tcu": OURS[function], "GMP": GMP[function], "GMP, in a function": f"call({listed})", "Python": PYTHON[function],
        }  # fmt: skip
        results = [eval(statement, names) for statement in statements.values()]
        right = all(result == results[0] for result in results)
        wrong += not right
        times = seconds(statements, names)
        row = {
            "function": function, **asked, "by GMP": by_gmp(lambda: eval(OURS[function], names)),  # noqa: B023
            "nanoseconds": {who: round(1e9 * time, 1) for who, time in times.items()}, "right": right,
        }  # fmt: skip
        rows.append(row)
        print(
            f"{function:10}", " × ".join(f"{size:,}" for size in asked.values()).ljust(16),
            "  ".join(f"{who} {1e9 * time:,.0f} ns" for who, time in times.items()),
            f"  {times['tcu'] / times['GMP']:.2f} of GMP's", "by GMP" if row["by GMP"] else "", "" if right else "WRONG", flush=True,
        )  # fmt: skip
    if not few:
        print(
            record.save("cpu-integers", {"rows": rows}, {"gmpy2": gmpy2.version(), "GMP": gmpy2.mp_version()})
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
