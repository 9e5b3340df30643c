"""Products of matrices on a GPU at the speed of its matrix unit, by the plan of ``tcu.plan.matmul``."""

from __future__ import annotations

from tcu.gpu.structs import struct

__all__ = ["Product", "TensorMap", "wgmma"]

TensorMap = struct("TensorMap", """
    u64 words[16];
""")  # fmt: skip

Product = struct("Product", """
    load::TensorMap a, b;
    void* c;
    i64 c_row_stride;  // bytes
    i64 c_batch_stride;
    int m, n, k_stages;
    int a_batched, b_batched;  // 0: the same matrix for the whole batch
    u32 tiles, tile_rows, tile_columns;  // of clusters
    u32 divided, units;  // tiles that blocks share, and into how many units each can be cut
    u32 parts, slots;
    void* room;
    void* flags;  // zeros between launches
""")  # fmt: skip

WGMMA_COLUMNS = (8, 16, 32, 64, 128, 192, 208, 224, 256)


def wgmma() -> str:
    """A function for each n of wgmma.mma_async, chosen by the registers of D."""
    return "".join(_multiply(n) for n in WGMMA_COLUMNS)


def _multiply(n: int) -> str:
    words = n // 2
    registers = ", ".join(f"%{i}" for i in range(words))
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(words))
    return f"""
__device__ inline void multiply(float (&d)[{words}], u64 a, u64 b, int keeps) {{
    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{words + 2}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{n}" WGMMA_TYPES " {{{registers}}}, %{words}, %{words + 1}, p"
                 WGMMA_SCALES WGMMA_MAJOR "; }}"
                 : {outputs}
                 : "l"(a), "l"(b), "r"(keeps));
}}
"""
