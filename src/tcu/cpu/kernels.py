"""Machine code around one matrix instruction, made by LLVM, which is loaded with the first kernel.

A kernel is void(a, b, c, d, m, n, words): D = A·B + C in 32-bit words.  A word
of A holds the k of a row that one product of words takes, a word of B those of
a column: A is (m, words), B (words, n), C and D (m, n), all contiguous.

The instruction itself is inline assembly, so what runs is what was asked for,
and its target feature is the function's alone: Numba's own target may be any.
"""
# llvmlite has no types.
# mypy: disable-error-code="no-untyped-call,no-any-return"

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from tcu.cpu.device import FEATURES

__all__ = ["TILE", "assembly", "compiled"]

TILE = 16
"""Columns of a vector; rows and columns, and words of k, of a tile."""
Kernel = Callable[[int, int, int, int, int, int, int], None]


@cache
def compiled(instruction: str) -> Kernel:
    """The kernel of an instruction, which the processor must have; its arguments are addresses and extents."""
    from llvmlite import binding

    engine = binding.create_mcjit_compiler(_parsed(instruction), _target_machine())
    engine.finalize_object()
    pointers, extents = [ctypes.c_void_p] * 4, [ctypes.c_int64] * 3
    function = ctypes.CFUNCTYPE(None, *pointers, *extents)(engine.get_function_address("kernel"))

    def kernel(*arguments: int) -> None:
        function(*arguments)

    kernel.engine = engine  # type: ignore[attr-defined]  # the code lives as long as its engine
    return kernel


def assembly(instruction: str) -> str:
    """What the processor is given; it need not have the instruction."""
    return _target_machine().emit_assembly(_parsed(instruction))


def _target_machine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()
    return binding.Target.from_default_triple().create_target_machine(opt=2, jit=True)


def _parsed(instruction: str) -> Any:
    from llvmlite import binding, ir

    tiles = instruction.startswith("t")
    module = ir.Module("kernel")
    module.triple = binding.get_default_triple()
    i32, i64 = ir.IntType(32), ir.IntType(64)
    signature = ir.FunctionType(ir.VoidType(), (i32.as_pointer(),) * 4 + (i64,) * 3)
    function = ir.Function(module, signature, "kernel")
    loops = _Loops(ir.IRBuilder(function.append_basic_block()))
    (loops.of_tiles if tiles else loops.of_vectors)(instruction, *function.args)
    loops.builder.ret_void()
    # llvmlite writes no attributes of a target.
    head, brace, body = str(module).partition("\n{")
    features = f"+{'amx-tile' if tiles else 'avx512f'},+{FEATURES[instruction]}"
    parsed = binding.parse_assembly(f'{head} "target-features"="{features}"{brace}{body}')
    parsed.verify()
    return parsed


class _Loops:
    """The two ways through the matrices, by vectors and by tiles."""

    def __init__(self, builder: Any) -> None:
        from llvmlite import ir
        from numba.core import cgutils

        self.builder, self.ir, self.cgutils = builder, ir, cgutils
        self.i32, self.i64 = ir.IntType(32), ir.IntType(64)
        self.words = ir.VectorType(self.i32, TILE)

    def _range(self, stop: Any, step: int) -> Any:
        return self.cgutils.for_range_slice(self.builder, self.i64(0), stop, self.i64(step))

    def _at(self, array: Any, row: Any, stride: Any, column: Any) -> Any:
        return self.builder.gep(array, [self.builder.add(self.builder.mul(row, stride), column)])

    def _vector_at(self, *place: Any) -> Any:
        return self.builder.bitcast(self._at(*place), self.words.as_pointer())

    def of_vectors(self, name: str, a: Any, b: Any, c: Any, d: Any, m: Any, n: Any, words: Any) -> None:
        """Sixteen columns of one row at a time."""
        builder, vector, constant = self.builder, self.words, self.ir.Constant
        kind = self.ir.FunctionType(vector, [vector] * 3)
        total = self.cgutils.alloca_once(builder, vector)
        with self._range(m, 1) as (i, _), self._range(n, TILE) as (j, _):
            builder.store(builder.load(self._vector_at(c, i, n, j), align=4), total)
            with self._range(words, 1) as (k, _):
                word = builder.load(self._at(a, i, words, k))
                x = builder.insert_element(constant(vector, self.ir.Undefined), word, self.i32(0))
                x = builder.shuffle_vector(x, x, constant(vector, [0] * TILE))
                y = builder.load(self._vector_at(b, k, n, j), align=4)
                code, places = f"{name} $2, $1, $0", "=v,v,v,0"
                builder.store(builder.asm(kind, code, places, [x, y, builder.load(total)], False), total)
            builder.store(builder.load(total), self._vector_at(d, i, n, j), align=4)

    def of_tiles(self, name: str, a: Any, b: Any, c: Any, d: Any, m: Any, n: Any, words: Any) -> None:
        """Whole tiles: tmm0 is C and D, tmm1 of A, tmm2 of B."""
        layout = bytearray(64)
        layout[0] = 1  # the palette of eight tiles
        for tile in range(3):
            layout[16 + 2 * tile] = 4 * TILE  # bytes of a row
            layout[48 + tile] = TILE  # rows
        kind = self.ir.ArrayType(self.ir.IntType(8), len(layout))
        constant = self.cgutils.global_constant(self.builder, "layout", self.ir.Constant(kind, layout))
        self._run("ldtilecfg ($0)", constant)
        with self._range(m, TILE) as (i, _), self._range(n, TILE) as (j, _):
            self._move("tileloadd ($0,$1), %tmm0", c, i, n, j)
            with self._range(words, TILE) as (k, _):
                self._move("tileloadd ($0,$1), %tmm1", a, i, words, k)
                self._move("tileloadd ($0,$1), %tmm2", b, k, n, j)
                self._run(f"{name} %tmm2, %tmm1, %tmm0")
            self._move("tilestored %tmm0, ($0,$1)", d, i, n, j)
        self._run("tilerelease")

    def _run(self, code: str, *arguments: Any) -> None:
        kind = self.ir.FunctionType(self.ir.VoidType(), [argument.type for argument in arguments])
        places = ",".join(["r"] * len(arguments) + ["~{memory}"])
        self.builder.asm(kind, code, places, arguments, True)

    def _move(self, code: str, array: Any, row: Any, stride: Any, column: Any) -> None:
        self._run(code, self._at(array, row, stride, column), self.builder.mul(stride, self.i64(4)))
