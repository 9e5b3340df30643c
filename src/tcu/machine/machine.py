"""The (m, ℓ)-TCU machine of Silvestri and Vella, *A computational model for tensor core units*, section 3."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.machine.executors import CountExecutor, Executor, find_executor
from tcu.machine.executors.executor import is_integer
from tcu.machine.ledger import LARGEST, Ledger, Number, check_latency, check_size, check_units, told
from tcu.machine.processor import Processor
from tcu.machine.shapes import ShapeArray, broadcast

__all__ = ["Machine"]

_WORD_BITS = 1 << 20
"""The longest word: its integers are Python's, of which each operation handles all bits."""


class Machine:
    """A random access machine with a unit that multiplies n × √m by √m × √m matrices in n·√m + ℓ time.

    Parameters
    ----------
    m:
        The entries of the square right operand, a square number: 256 for
        matrices of 16 × 16; at most 10^60, as ℓ.
    latency:
        ℓ, what a tensor call costs beside its n·√m, in CPU operations.
    word_bits:
        κ, the bits of a word.  Integers of more bits are refused, as operands
        and as results.
    executor:
        Who computes: "ideal" (binary64, exact integers), "count" (nobody:
        shapes only), "systolic" (step by step), "model" (the H100's
        binary16 instruction, bit for bit), "gpu" (the same on a real GPU), or
        an executor such as ``ModelExecutor("A100", "bfloat16")``.
    weak:
        The weak machine of section 5, whose unit takes square left operands
        only.
    units:
        p, how many tensor units run at once (section 6 leaves it open).  Calls
        of one batch do not wait for each other and run p at a time; where
        there are fewer, the rows of each are shared out.  The CPU is one.  No
        bit of a result depends on it.

    Raises
    ------
    ParameterError:
        m is no square, the latency is negative, there are no bits in a word,
        or one of them is so large that costs would exceed what a float holds.
    UnknownNameError:
        No executor has that name.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> machine = tcu.Machine(m=256, latency=100)
    >>> x = np.ones(4096)
    >>> float(machine.sum(x))
    4096.0
    >>> machine.ledger.cost
    4956
    """

    def __init__(
        self,
        m: int,
        latency: Number = 0,
        *,
        word_bits: int = 64,
        executor: str | Executor = "ideal",
        weak: bool = False,
        units: int = 1,
    ) -> None:
        self.side = check_size(m)
        """√m."""
        self.m = m
        self.latency = check_latency(latency)
        if isinstance(word_bits, bool) or not isinstance(word_bits, int) or not 1 <= word_bits <= _WORD_BITS:
            raise ParameterError(
                f"word_bits={told(word_bits)}: give the bits of a word, such as 64, and at most {_WORD_BITS:,}"
            )
        self.word_bits = word_bits
        self.executor = find_executor(executor)
        self.executor.check_side(self.side)
        self.weak = weak
        self.units = check_units(units)
        """p."""
        self.ledger = Ledger(m, latency, units)
        self.cpu = Processor(self.executor, self._charge)
        """What programs do to words outside the unit, and are charged for."""
        self._path: tuple[str, ...] = ()
        self._times = 1

    def __repr__(self) -> str:
        weak = (", weak=True" if self.weak else "") + (f", units={self.units}" if self.units > 1 else "")
        return (
            f"Machine(m={self.m}, latency={self.latency}, word_bits={self.word_bits}, "
            f"executor={self.executor.name!r}{weak})"
        )

    @property
    def cost(self) -> Number:
        """The time of everything since the machine was made or reset, in CPU operations."""
        return self.ledger.cost

    def reset(self) -> None:
        """An empty ledger; the one that programs have filled so far stays with whoever holds it."""
        self.ledger = Ledger(self.m, self.latency, self.units)

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Calls and steps inside are listed under this name."""
        outer = self._path
        self._path = (*outer, name)
        try:
            yield
        finally:
            self._path = outer

    def turns(self, count: int) -> Iterator[int]:
        """0 ... count - 1, for a loop whose turns all cost the same.

        A machine that only counts takes the first turn alone, and records its
        calls and steps ``count`` times: a ledger costs no more for more turns.
        """
        if self.executor.computes or count < 2:
            yield from range(count)
            return
        outer = self._times
        self._times *= count
        try:
            yield 0
        finally:
            self._times = outer

    def step(self, count: int, name: str = "step") -> None:
        """``count`` operations of the CPU, each on words and each at cost 1.  Raises ParameterError below 0."""
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
            raise ParameterError(
                f"step(count={told(count)}): give how many operations, an integer of at least 0"
            )
        self._charge(int(count), name)

    def _charge(self, count: int, name: str) -> None:
        if count:
            self.ledger.add(self._path, "step", name, 0, self._times * count)

    def record(self, ledger: Ledger) -> None:
        """All calls and steps of another ledger, as if they were made here and now."""
        self.ledger.merge(self._path, ledger, self._times)

    def charge_as(self, program: Callable[..., Any], *operands: Any) -> None:
        """Charges the steps of ``program(machine, *operands)`` for an executor that did them all at once.

        They are counted on shapes, once for operands of one kind.
        """
        instruction = getattr(self.executor, "instruction", None)
        shapes = tuple(x if isinstance(x, Hashable) and np.isscalar(x) else _Shape(x) for x in operands)
        kind: Any = type(self)
        self.record(
            _counted(kind, self.m, self.word_bits, self.weak, self.units, instruction, program, *shapes)
        )

    def array(self, values: Any) -> Any:
        """The operand of a program where the executor wants it.

        A shape without values for the executor that only counts; arrays of a
        library that speaks NumPy's protocols (CuPy) stay what and where they
        are; anything else becomes a NumPy array.  No cost: it only names memory.
        """
        return self.executor.array(values)

    def place(self, values: Any) -> Any:
        """An array that a program makes itself, such as the digits of an integer, where the executor computes.

        Unlike an operand of :meth:`array`, it has no home of its own: on a GPU
        it moves there, if CuPy is installed.
        """
        return self.executor.place(values)

    def on_host(self, values: Any) -> Any:
        """A NumPy array at whose values the program looks, whoever computes.  No cost."""
        return self.executor.on_host(values)

    def stored(self, x: Any, dtype: npt.DTypeLike) -> Any:
        """The same numbers in another of the host's dtypes.  No cost: on the machine, a word is a word."""
        return self.executor.stored(x, dtype)

    def magnitude(self, x: Any) -> int:
        """The largest absolute value of integers.  No cost: the host asks, to choose a dtype or to check words."""
        return self.executor.magnitude(x)

    def shape(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> ShapeArray:
        """An operand without values, for a machine that counts.

        Raises ShapeError for lengths that are no integers from 0 to 10^60, DtypeError for no dtype of NumPy's.
        """
        made = ShapeArray(shape, dtype)
        if max(made.shape, default=0) > LARGEST:
            raise ShapeError(f"shape={told(shape)}: give lengths of at most 10^60")
        return made

    def multiply(self, a: Any, b: Any, *, name: str = "multiply") -> Any:
        """A·B by one tensor call, at cost max(n, √m)·√m + ℓ.

        Parameters
        ----------
        a:
            (n, √m) real numbers or integers, n ≥ 1; or a batch (..., n, √m).
        b:
            (√m, √m), or a batch that broadcasts with a's: one call for every
            pair.  Operands narrower than √m stand for the same padded by
            zeros, and cost as much.
        name:
            What the ledger calls it.

        Returns
        -------
        The product, of a.shape[-2] rows and b.shape[-1] columns.  Integers
        give integers.

        Raises
        ------
        ShapeError:
            Operands that do not fit the unit, or a left one that is not
            square on a weak machine.
        DtypeError:
            Complex operands: multiply real and imaginary parts.
        ParameterError:
            Integers of more than ``word_bits`` bits, before or after.
        """
        calls = self._checked(a, b)
        rows = a.shape[-2]
        if self.weak and rows > self.side:
            raise ShapeError(
                f"a has {rows} rows: the unit of a weak machine takes {self.side}; "
                "tall_multiply cuts a into squares"
            )
        return self._run(a, b, name, rows, calls)

    def tall_multiply(self, a: Any, b: Any, *, name: str = "multiply") -> Any:
        """The same for any number of rows on any machine.

        One call, or on a weak machine ⌈n / √m⌉ calls of √m rows each.
        """
        calls = self._checked(a, b)
        rows = a.shape[-2]
        if self.weak:
            calls, rows = calls * -(-rows // self.side), min(rows, self.side)
        return self._run(a, b, name, rows, calls)

    def _checked(self, a: Any, b: Any) -> int:
        """How many products the batches make, if the operands fit."""
        for label, x in (("a", a), ("b", b)):
            if not hasattr(x, "dtype") or len(x.shape) < 2:
                raise ShapeError(
                    f"{label} is {type(x).__name__} of shape {np.shape(x)}: give an array of two dimensions or more"
                )
            if x.dtype.kind not in "fiubOV":
                raise DtypeError(
                    f"{label} has dtype {x.dtype}: the unit multiplies real numbers and integers; "
                    "a complex product is four or three real ones"
                )
        rows, depth = a.shape[-2:]
        if depth != b.shape[-2]:
            raise ShapeError(f"a {a.shape}, b {b.shape}: a needs as many columns as b has rows")
        if min(rows, depth, b.shape[-1]) < 1 or max(depth, b.shape[-1]) > self.side:
            raise ShapeError(
                f"a {a.shape}, b {b.shape}: one call takes n × {self.side} by {self.side} × {self.side}, "
                "n at least 1; cut longer operands into blocks, as matmul does"
            )
        if len(a.shape) == len(b.shape) == 2:
            return 1
        try:
            batch = broadcast(a.shape[:-2], b.shape[:-2])
        except ValueError:
            raise ShapeError(f"a {a.shape}, b {b.shape}: the batch dimensions do not broadcast") from None
        return math.prod(batch)

    def _run(self, a: Any, b: Any, name: str, rows: int, calls: int) -> Any:
        exact = is_integer(a) and is_integer(b)
        if exact and self.executor.computes:
            self.check_words("a", a)
            self.check_words("b", b)
        result = self._multiplied(a, b)
        if exact and self.executor.computes:
            self.check_words("the product", result)
        for each, count, rounds in self._rounds(rows, calls * self.executor.passes):
            self.ledger.add(self._path, "tensor", name, each, self._times * count, self._times * rounds)
        return result

    def _rounds(self, rows: int, calls: int) -> Iterator[tuple[int, int, int]]:
        """(rows, calls, rounds): calls that do not wait for each other, on the units."""
        full, rest = divmod(calls, self.units)
        if full:
            yield rows, full * self.units, full
        if rest:
            each = self._share(rows, rest)
            yield each, rest * -(-rows // each), 1

    def _share(self, rows: int, calls: int) -> int:
        """Rows for each unit where there are more units than calls; at least √m, which cost as much as fewer."""
        return min(rows, max(self.side, -(-rows // (self.units // calls))))

    def _multiplied(self, a: Any, b: Any) -> Any:
        """A·B, block by block where the units share the rows of one product."""
        rows = a.shape[-2]
        if self.units > 1 and self.executor.rows_alone and len(a.shape) == len(b.shape) == 2:
            each = self._share(rows, 1)
            if each < rows:
                blocks = [self.executor.multiply(a[i : i + each], b) for i in range(0, rows, each)]
                return np.concatenate(blocks)
        return self.executor.multiply(a, b)

    def check_words(self, label: str, x: Any) -> None:
        """Raises ParameterError if an integer of ``x``, which messages call ``label``, exceeds a word."""
        if x.dtype.kind != "O" and 8 * x.dtype.itemsize <= self.word_bits:
            return
        bits = self.magnitude(x).bit_length()
        if bits > self.word_bits:
            raise ParameterError(
                f"{label} needs {bits} bits: words have {self.word_bits}; take word_bits={bits} or shorter digits"
            )


class _Shape:
    """An operand as far as counting sees it: equal where shape and dtype are."""

    def __init__(self, x: Any) -> None:
        self.key = (tuple(x.shape), str(x.dtype))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shape) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=1024)
def _counted(
    kind: Any, m: int, word_bits: int, weak: bool, units: int, instruction: Any, program: Callable[..., Any],
    *operands: Any,
) -> Ledger:  # fmt: skip
    machine = kind(m, word_bits=word_bits, executor=CountExecutor(instruction), weak=weak, units=units)
    program(machine, *(ShapeArray(*x.key) if isinstance(x, _Shape) else x for x in operands))
    ledger: Ledger = machine.ledger
    return ledger
