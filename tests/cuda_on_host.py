"""Kernels compiled for the host by a C++ compiler, where there is one, so that their indices are tested without a GPU.

Every thread of a block is a fibre (cuda_on_host.cpp).  ``mma.sync`` of
fragments.cuh adds its products one after the other in binary64 and rounds
once, so that a program on NumPy arrays has the same bits from
:class:`SequentialExecutor`; that of mma/ones.cuh has the arithmetic of H100
and H200, and its sums are those of the model.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_layers import USING

from tcu.formats import get_format
from tcu.gpu.arrays import DeviceArray
from tcu.gpu.compiler import read_sources
from tcu.machine.executors.unit import InstructionExecutor
from tcu.units import Instruction

__all__ = [
    "ENDLESS", "LEFT_BEHIND", "OUTSIDE", "STUCK", "TOO_EARLY", "WRONG_COPY", "HostKernel", "HostLibrary", "KernelFailed", "SequentialExecutor",
    "compiled_for_host", "compiler_or_skip",
]  # fmt: skip

_MMA = """
struct Fragments { WORD a[2][32][A_WORDS], b[2][32][B_WORDS]; };
static Fragments fragments_of_warps[32];

static double input_at(WORD word, int place) {
    const INPUT code = static_cast<INPUT>(word >> (8 * sizeof(INPUT) * place));
    return INPUT_VALUE(code);
}

static void mma(WORD (&d)[D_WORDS], const WORD (&a)[A_WORDS], const WORD (&b)[B_WORDS]) {
    const unsigned lane = threadIdx.x % 32, turn = host::next_turn();
    Fragments& shared_by_warp = fragments_of_warps[host::self / 32];
    std::copy(a, a + A_WORDS, shared_by_warp.a[turn][lane]);
    std::copy(b, b + B_WORDS, shared_by_warp.b[turn][lane]);
    host::wait_for(host::WARP_MATES);
    for (int i = 0; i < D_WORDS * OUTPUTS_PER_WORD; ++i) {
        const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        double sum = OUTPUT_VALUE(d[i]);
        for (int k = 0; k < TILE_K; ++k) {
            const int owner = k % K_GROUP / INPUTS_PER_WORD, place = k % INPUTS_PER_WORD, group = k / K_GROUP;
            sum = sum + input_at(shared_by_warp.a[turn][row % 8 * 4 + owner][group * ROW_GROUPS + row / 8], place) *
                            input_at(shared_by_warp.b[turn][column * 4 + owner][group], place);
        }
        d[i] = OUTPUT_CODE(sum);
    }
}
"""
_VALUES = {
    "binary16": "static_cast<double>(of_half(code))",
    "bfloat16": "static_cast<double>(as<float>(static_cast<u32>(code) << 16))",
    "tf32": "static_cast<double>(as<float>(static_cast<u32>(code)))",
    "binary64": "as<double>(static_cast<u64>(code))",
}
_TRY_WAIT = "mbarrier.try_wait.parity.shared.b64 p"
_D = "{%0, %1, %2, %3}"
_IF = ".reg .pred p; setp.ne.u32 p, %{}, 0; @p"
_ASSEMBLY = {
    "": ";",
    # Numbers.
    "cvt.rn.f16.f32 %0, %1;": "%0 = half_of(%1);",
    "cvt.rn.bf16.f32 %0, %1;": "%0 = bfloat_of(%1);",
    "{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h; }": "%0 = half_of(%1);",
    "{ .reg .b16 h; cvt.rn.bf16.f32 h, %1; mov.b16 %0, h; }": "%0 = bfloat_of(%1);",
    "{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }": "%0 = half_of(%1) | static_cast<u32>(half_of(%2)) << 16;",
    "cvt.rn.bf16x2.f32 %0, %1, %2;": "%0 = static_cast<u32>(bfloat_of(%1)) << 16 | bfloat_of(%2);",
    "cvt.f32.f16 %0, %1;": "%0 = of_half(%1);",
    "{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }": "%0 = of_half(%1);",
    "{ .reg .b16 h; mov.b16 h, %1; cvt.f64.f16 %0, h; }": "%0 = of_half(%1);",
    "{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }": "%0 = of_half(%1);",
    "{ .reg .b16 h; cvt.rn.f16.f64 h, %1; mov.b16 %0, h; }": "%0 = half_of_double(%1);",
    "{ .reg .b16 low, high; cvt.rn.f16.f64 low, %1; cvt.rn.f16.f64 high, %2; mov.b32 %0, {low, high}; }": "%0 = half_of_double(%1) | static_cast<u32>(half_of_double(%2)) << 16;",
    "max.NaN.f32 %0, %1, %2;": "%0 = std::isnan(%1) || %1 > %2 ? %1 : %2;",
    "max.NaN.f16x2 %0, %1, %2;": "%0 = host::larger_halves(of_half, %1, %2);",
    "max.NaN.bf16x2 %0, %1, %2;": "%0 = host::larger_halves(of_bfloat, %1, %2);",
    "min.NaN.f16x2 %0, %1, %2;": "%0 = host::larger_halves(of_half, %1 ^ 0x80008000, %2 ^ 0x80008000) ^ 0x80008000;",
    "min.NaN.bf16x2 %0, %1, %2;": "%0 = host::larger_halves(of_bfloat, %1 ^ 0x80008000, %2 ^ 0x80008000) ^ 0x80008000;",
    "max.u16x2 %0, %0, %1;": "%0 = host::choose_halves<unsigned short>(%0, %1, true);",
    "min.s16x2 %0, %0, %1;": "%0 = host::choose_halves<short>(%0, %1, false);",
    "add.rn.f16x2 %0, %1, %2;": "%0 = host::of_lanes(%1, %2, 0, [](double x, double y, double) { return host::odd_sum(x, y); });",
    "sub.rn.f16x2 %0, %1, %2;": "%0 = host::of_lanes(%1, %2, 0, [](double x, double y, double) { return host::odd_sum(x, -y); });",
    "mul.rn.f16x2 %0, %1, %2;": "%0 = host::of_lanes(%1, %2, 0, [](double x, double y, double) { return x * y; });",
    "fma.rn.f16x2 %0, %1, %2, %3;": "%0 = host::of_lanes(%1, %2, %3, [](double x, double y, double z) { return host::odd_sum(x * y, z); });",
    "{ .reg .b16 low, high; mov.b32 {low, high}, %0; mov.b32 %0, {low, low}; }": "%0 = __byte_perm(%0, 0, 0x1010);",
    "{ .reg .b16 low, high; mov.b32 {low, high}, %0; mov.b32 %0, {high, high}; }": "%0 = __byte_perm(%0, 0, 0x3232);",
    "neg.f16x2 %0, %1;": "%0 = (%1) ^ 0x80008000;",
    "{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }": "%0 = of_half(%1 >> 16);",
    "fma.rn.f16x2 %0, %1, %2, %0;": "%0 = host::times_plus(%1, %2, %0);",
    "{ .reg .b32 x, y; abs.f16x2 x, %1; abs.f16x2 y, %2; max.NaN.f16x2 %0, x, y; }": "%0 = host::larger_magnitudes(%1, %2);",
    "{ .reg .b32 x, s; abs.f16x2 x, %1; min.f16x2 x, x, %2; add.rn.f16x2 s, x, %2; sub.rn.f16x2 s, s, %2; "
    "sub.rn.f16x2 %0, x, s; }": "%0 = host::leftovers(%1, %2);",
    "szext.clamp.u32 %0, %0, %1;": "if (%1 < 32) %0 &= (1u << %1) - 1;",
    "prmt.b32 %0, %1, %2, %3;": "%0 = __byte_perm(%1, %2, %3);",
    "shl.b64 %0, %1, %2;": "%0 = %2 < 64 ? %1 << %2 : 0;",
    # Lanes.
    "{ .reg .pred p; .reg .s32 r; shfl.sync.up.b32 r|p, %0, %1, 0, 0xffffffff; @p add.s32 %0, %0, r; }": "host::add_lower(%0, %1, 0);",
    "{ .reg .pred p; .reg .b32 low, high; .reg .f64 other; mov.b64 {low, high}, %0; "
    "shfl.sync.up.b32 low|p, low, %1, %2, 0xffffffff; shfl.sync.up.b32 high, high, %1, %2, 0xffffffff; "
    "mov.b64 other, {low, high}; @p add.f64 %0, %0, other; }": "host::add_lower(%0, %1, %2);",
    f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_D}, {{%4, %5, %6, %7}}, {{%8, %8}}, {_D};": "host::multiply(of_half, -14, %0, %1, %2, %3, %4, %5, %6, %7, %8, %8);",
    f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {_D}, {{%4, %5, %6, %7}}, {{%8, %8}}, {_D};": "host::multiply(of_bfloat, -126, %0, %1, %2, %3, %4, %5, %6, %7, %8, %8);",
    f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_D}, {{%4, %5, %4, %5}}, {{%6, %7}}, {_D};": "host::multiply(of_half, -14, %0, %1, %2, %3, %4, %5, %4, %5, %6, %7);",
    f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {_D}, {{%4, %5, %4, %5}}, {{%6, %7}}, {_D};": "host::multiply(of_bfloat, -126, %0, %1, %2, %3, %4, %5, %4, %5, %6, %7);",
    f"mma.sync.aligned..row.col.f32..f32 {_D}, {{%4, %5, %6, %7}}, {{%8, %9}}, {_D};": "if (ELEMENT == BFLOAT16) host::multiply(of_bfloat, -126, %0, %1, %2, %3, %4, %5, %6, %7, %8, %9); else host::multiply(of_half, -14, %0, %1, %2, %3, %4, %5, %6, %7, %8, %9);",
    "mma.sync.aligned..row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};": "host::multiply_halves(%0, %1, %2, %3, %4, %5, %6, %7);",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};": "double none[2] = {}; host::multiply_doubles(%0, %1, none[0], none[1], %2, 0.0, %3);",
    f"mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {_D}, {{%4, %5, %6, %7}}, {{%8, %9}}, {_D};": "host::multiply_bytes(%0, %1, %2, %3, %4, %5, %6, %7, %8, %9);",
    f"mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {_D}, {{%4, %5}}, {{%6}}, {_D};": "host::multiply_doubles(%0, %1, %2, %3, %4, %5, %6);",
    f"mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {_D}, {{%4, %5, %6, %7, %8, %9, %10, %11}}, {{%12, %13, %14, %15}}, {_D};": "host::multiply_doubles(%0, %1, %2, %3, %4, %5, %12); host::multiply_doubles(%0, %1, %2, %3, %6, %7, %13); host::multiply_doubles(%0, %1, %2, %3, %8, %9, %14); host::multiply_doubles(%0, %1, %2, %3, %10, %11, %15);",
    # The array's memory, and what blocks tell each other.
    "createpolicy.fractional.L2::evict_first.b64 %0;": "%0 = 0;",
    "ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];": "const uint4 loaded = host::readable((const uint4*)(%4)); %0 = loaded.x; %1 = loaded.y; %2 = loaded.z; %3 = loaded.w;",
    f"{{ {_IF.format(2)} ld.global.nc.u32 %0, [%1]; }}": "if (%2) %0 = host::readable((const u32*)(%1));",
    f"{{ {_IF.format(3)} ld.global.nc.v2.u32 {{%0, %1}}, [%2]; }}": "if (%3) { const uint2 loaded = host::readable((const uint2*)(%2)); %0 = loaded.x; %1 = loaded.y; }",
    "ld.global.nc.v2.u32 {%0, %1}, [%2];": "const uint2 loaded = host::readable((const uint2*)(%2)); %0 = loaded.x; %1 = loaded.y;",
    "ld.global.nc.v2.u32 {%0, %1}, [%2+8];": "const uint2 loaded = host::readable((const uint2*)(%2 + 8)); %0 = loaded.x; %1 = loaded.y;",
    "ld.global.nc.v2.u32 {%0, %1}, [%2+16];": "const uint2 loaded = host::readable((const uint2*)(%2 + 16)); %0 = loaded.x; %1 = loaded.y;",
    "ld.global.L2::128B.b32 %0, [%1];": "%0 = host::readable((const u32*)(%1));",
    "ld.global.L2::128B.v2.b32 {%0, %1}, [%2];": "const uint2 loaded = host::readable((const uint2*)(%2)); %0 = loaded.x; %1 = loaded.y;",
    "ld.global.nc.s64 %0, [%1];": "%0 = *(%1);",
    "prefetch.global.L2 [%0];": ";",
    "prefetch.global.L2::evict_last [%0];": ";",
    "st.global.f32 [%0], %1;": "*(float*)(%0) = %1;",
    "st.relaxed.gpu.global.u64 [%0], %1;": "*(%0) = %1;",
    "ld.acquire.gpu.global.u32 %0, [%1];": "%0 = host::look(%1);",
    "st.release.gpu.global.u32 [%0], %1;": "*(%0) = %1;",
    "red.release.gpu.global.add.u32 [%0], %1;": "*(%0) += %1;",
    "atom.relaxed.gpu.global.add.u32 %0, [%1], %2;": "const u32 before = *(%1); *(%1) += %2; %0 = before;",
    "ld.global.L2::cache_hint.v2.b32 {%0, %1}, [%2], %3;": "const uint2 loaded = host::readable((const uint2*)(%2)); %0 = loaded.x; %1 = loaded.y;",
    "ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;": "const uint4 loaded = host::readable((const uint4*)(%4)); %0 = loaded.x; %1 = loaded.y; %2 = loaded.z; %3 = loaded.w;",
    "st.global.L2::cache_hint.v2.b32 [%0], {%1, %2}, %3;": "*(uint2*)(%0) = {%1, %2};",
    "st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;": "*(uint4*)(%0) = {%1, %2, %3, %4};",
    "discard.global.L2 [%0], 128;": "host::forget(%0);",
    "griddepcontrol.launch_dependents;": ";",
    "griddepcontrol.wait;": ";",
    "ld.relaxed.gpu.global.u32 %0, [%1];": "%0 = host::look(%1);",
    "ld.relaxed.gpu.global.u64 %0, [%1];": "%0 = host::look(%1);",
    "ld.relaxed.gpu.global.u16 %0, [%1];": "%0 = host::look(%1);",
    "ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];": "const uint4 loaded = host::look(%4); %0 = loaded.x; %1 = loaded.y; %2 = loaded.z; %3 = loaded.w;",
    "ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];": "const auto loaded = host::look(%2); %0 = loaded.high; %1 = loaded.low;",
    # Shared memory.
    "ld.shared.u32 %0, [%1];": "%0 = *host::at<u32>(%1);",
    "ld.shared.s64 %0, [%1];": "%0 = *host::at<i64>(%1);",
    "ld.shared.v2.u32 {%0, %1}, [%2];": "const uint2 loaded = *(uint2*)host::at<u64>(%2); %0 = loaded.x; %1 = loaded.y;",
    "ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];": "const uint4 loaded = *host::at<uint4>(%4); %0 = loaded.x; %1 = loaded.y; %2 = loaded.z; %3 = loaded.w;",
    "st.shared.v4.u32 [%0], {%1, %2, %3, %4};": "*host::at<uint4>(%0) = {%1, %2, %3, %4};",
    # Clusters.
    "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;": "host::wait_for(host::CLUSTER_MATES);",
    "barrier.cluster.arrive.relaxed.aligned;": ";",
    "barrier.cluster.wait.aligned;": "host::wait_for(host::CLUSTER_MATES);",
    "{ .reg .b32 there, barrier; mapa.shared::cluster.u32 there, %0, %2; mapa.shared::cluster.u32 barrier, %1, %2; "
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [there], %3, [barrier]; }": "*host::at<u64>(host::in_block(%0, %2)) = %3; host::tell(host::in_block(%1, %2));",
    # Barriers, and copies in the background.
    "{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }": "%0 = threadIdx.x % 32 == 0;",
    "bar.sync 1, %0;": "host::wait_for_part(%0);",
    "mbarrier.init.shared.b64 [%0], %1;": "host::prepare_barrier(%0, %1);",
    "mbarrier.init.shared.b64 [%0], 32;": "host::prepare_barrier(%0, 32);",
    "mapa.shared::cluster.u32 %0, %1, %2;": "%0 = host::in_block(%1, %2);",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];": "*host::at<float2>(%0) = {%1, %2}; host::tell(%3);",
    "cp.async.bulk.prefetch.L2.global [%0], %1;": "host::readable((const char*)(%0), %1);",
    "fence.mbarrier_init.release.cluster;": ";",
    "fence.proxy.async.shared::cta;": ";",
    "mbarrier.arrive.shared.b64 _, [%0];": "host::arrive_at(%0);",
    "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }": "host::arrive_at(%0);",
    "mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;": "host::arrive_at(%0, %1);",
    f"{{ .reg .pred p; {_TRY_WAIT}, [%1], %2; selp.u32 %0, 1, 0, p; }}": "host::wait_for_barrier(%1, %2); %0 = 1;",
    "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }": "%0 = host::has_passed(%1, %2);",
    f"{{ .reg .pred p; again_%=: {_TRY_WAIT}, [%0], %1; @!p bra again_%=; }}": "host::wait_for_barrier(%0, %1);",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];": "host::copy_bulk_to(%0, %1, %2, %3);",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;": "host::copy_bulk_to(%0, %1, %2, %3);",
    "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;": "host::store_bulk_from(%0, %1, %2);",
    "cp.async.bulk.commit_group;": "host::commit_stores();",
    "cp.async.bulk.wait_group.read %0;": "host::wait_for_stores(%0);",
    "cp.async.ca.shared.global [%0], [%1], 8;": "host::copy_later<8>(%0, %1);",
    "cp.async.cg.shared.global [%0], [%1], 16;": "host::copy_later<16>(%0, %1);",
    "cp.async.cg.shared.global [%0], [%1], 16, %2;": "host::copy_later_if(%2, %0, %1);",
    "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;": "host::copy_later_if(%2, %0, %1);",
    "cp.async.commit_group;": "host::end_group();",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];": "host::load_transposed(%0, %1, %2, %3, %4);",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];": "if (BY_COLUMNS) host::load_transposed(%0, %1, %2, %3, %4); else host::load_rows(%0, %1, %2, %3, %4);",
    "cp.async.wait_group %0;": "host::wait_for_groups(%0);",
    "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];": "host::arrive_later(%0);",
}  # fmt: skip
"""Texts of PTX, and what they do on the host."""
STUCK = "threads wait for what never comes"
OUTSIDE = "memory outside the array was read"
WRONG_COPY = "an address or a size is not the multiple that it must be"
LEFT_BEHIND = "a block ended before what it had asked for came"
TOO_EARLY = "a barrier was arrived at again before its phase had ended"
ENDLESS = "threads go on without an end"
TOO_LARGE = "a sum of products of bytes has more than 31 bits"
_OUTCOMES = {1: STUCK, 2: OUTSIDE, 3: WRONG_COPY, 4: LEFT_BEHIND, 5: TOO_EARLY, 6: ENDLESS, 7: TOO_LARGE}
"""As in cuda_on_host.h."""


class KernelFailed(AssertionError):
    """A kernel did what no kernel may, whatever its results are."""


def compiler_or_skip() -> str:
    found = shutil.which("g++")
    if found is None or sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("needs g++ on Linux and x86-64")
    return found


@dataclass(frozen=True)
class HostKernel:
    """A kernel that runs at once."""

    run: Any
    lines_apart: Any
    """How many of the last run's copies in bulk had other lines in shared memory than in memory."""

    def __call__(
        self, problem: ctypes.Structure, blocks: int, threads: int, *, more: int = 1, together: int = 1,
        cluster: int = 1, readable: tuple[int, int] = (0, 0), seed: int = 0,
    ) -> None:  # fmt: skip
        """Of all blocks, ``more`` times as many as said, ``together`` at a time, or one ``cluster`` after another; reads of the array go to addresses in ``readable``, if it is given.

        Raises KernelFailed.
        """
        outcome = self.run(
            ctypes.addressof(problem), blocks, more, threads, together, cluster, *readable, seed
        )
        if outcome:
            raise KernelFailed(_OUTCOMES[outcome])


def compiled_for_host(
    source: str, entry: str, structure: str, macros: Mapping[str, str], folder: Path, fmt: str = "binary16",
    changes: Mapping[str, str] | None = None,
) -> HostKernel:  # fmt: skip
    """A kernel for the host; ``changes`` replace texts in its source, each of which must be there once."""
    kernel = _for_host(source, tuple((changes or {}).items()))
    wide = macros.get("OUTPUT") == "u64"
    own = {
        "INPUT_VALUE(code)": _VALUES[fmt],
        "OUTPUT_VALUE(bits)": "as<double>(bits)" if wide else "static_cast<double>(as<float>(bits))",
        "OUTPUT_CODE(x)": "as<u64>(x)" if wide else "as<u32>(static_cast<float>(x))",
        "BY_COLUMNS": str(macros.get("TILE") == "COLUMNS").lower(),  # a macro in PTX of mma/chains.cuh
    }
    given = {
        **{name: value for name, value in macros.items() if name not in ("MNEMONIC", "IMMEDIATES")},
        **own,
    }
    defines = "".join(f"#define {name} {value}\n" for name, value in given.items())
    main = (
        "alignas(128) static unsigned char memory_of_blocks[host::MOST_BLOCKS][host::MEMORY_BYTES];\n"
        f"{USING}static const {structure}* given;\nstatic void once() {{ ::{entry}(*given); }}\n"
        "#pragma GCC visibility push(default)\n"
        f'extern "C" int run(const {structure}* problem, unsigned blocks, unsigned more, unsigned threads, '
        "unsigned together, unsigned cluster, const char* from, const char* to, unsigned seed) {\n"
        "    given = problem;\n    host::readable_from = from;\n    host::readable_to = to;\n"
        "    return host::run_blocks(once, blocks, more, threads, together, cluster, seed, memory_of_blocks);\n}\n"
        'extern "C" unsigned lines_apart() { return host::lines_apart; }\n'
    )
    text = "\n".join(['#include "cuda_on_host.h"', defines, kernel, main])
    path = folder / f"{entry}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.so"
    # Once for all kernels: the header is precompiled, and the threads are compiled and linked with the C++ library.
    # To link that library with each kernel took 45 of 215 ms.
    own = Path(__file__)
    threads = folder / "libcuda_on_host.so"
    _compile(
        own.with_suffix(".h").read_text(encoding="utf-8"), folder / "cuda_on_host.h.gch", "-x", "c++-header"
    )
    _compile(own.with_suffix(".cpp").read_text(encoding="utf-8"), threads, "-shared", "-x", "c++")
    _compile(text, path, "-shared", "-nostdlib", "-Wl,--no-as-needed", str(threads), "-x", "c++")
    library = ctypes.CDLL(str(path))
    run = library.run
    run.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 5, *[ctypes.c_void_p] * 2, ctypes.c_uint]
    return HostKernel(run, library.lines_apart)


def _compile(text: str, target: Path, *how: str) -> None:
    """Once in a folder; another process that wants the same finds all of it or nothing."""
    if target.exists():
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as unfinished:
        source, result = Path(unfinished) / "source", Path(unfinished) / target.name
        source.write_text(text, encoding="utf-8")
        command = [
            compiler_or_skip(), "-std=c++17", "-Og", "-w", "-fno-use-linker-plugin", "-ffp-contract=off", "-msse2", "-fPIC", "-fvisibility=hidden",
            f"-I{target.parent}", f"-I{Path(__file__).parent}", *how, str(source), "-o", str(result),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        result.replace(target)


@cache
def _for_host(source: str, changes: tuple[tuple[str, str], ...]) -> str:
    """The source with those changes, as C++; the same for all macros."""
    kernel = _in_one(source)
    for old, new in changes:
        if kernel.count(old) != 1:  # no AssertionError, which a test may take for an error that it sees
            raise LookupError(f"{kernel.count(old)} times in the source: {old}")
        kernel = kernel.replace(old, new)
    return _shared_memory(_without_assembly(kernel))


@cache
def _in_one(source: str) -> str:
    """The source with what it includes in its places, or where it says so in the first of them, under the same conditions."""
    texts = dict(read_sources(source))

    def whole(name: str) -> str:
        text = texts.get(name, "")
        if "#pragma once" in text:
            del texts[name]
        text = re.sub(r"^\s*#\s*pragma[^\n]*$", "", text, flags=re.MULTILINE)
        if name == "device/mma/fragments.cuh" and text:
            text = (
                text[: text.index("// One overload per number of registers")]
                + _MMA
                + "}  // namespace tcu::mma\n"
            )
        return re.sub(r'^#include "([^"]+)"$', lambda found: whole(found[1]), text, flags=re.MULTILINE)

    return whole(source)


def _shared_memory(text: str) -> str:
    """Shared memory is the block's, of those that run at a time."""
    text = re.sub(
        r"extern __shared__ (?:__align__\(\d+\) )?([\w ]+) (\w+)\[\];",
        r"\1* const \2 = reinterpret_cast<\1*>(host::memory());",
        text,
    )
    return re.sub(
        r"__shared__ ([\w:]+) (\w+)(\[[^;]*\])?;",
        r"static \1 \2_of_blocks[host::MOST_BLOCKS]\3; auto& \2 = host::own_array(\2_of_blocks);",
        text,
    )


def _without_assembly(text: str) -> str:
    """Every asm statement of the table replaced by what it does; others stay, and do not compile."""
    parts, done = [], 0
    for found in re.finditer(r"\basm\s*(volatile)?\s*\(", text):
        sections, end = _sections(text, found.end())
        ptx = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', sections[0]))
        plain = _ASSEMBLY.get(re.sub(r"(\s|\\n)+", " ", ptx).strip())
        if plain is None:
            continue
        operands = [operand for section in sections[1:3] for operand in _operands(section)]
        plain = re.sub(r"%(\d+)", lambda number, of=operands: f"({of[int(number[1])]})", plain)  # type: ignore[misc]
        parts += [text[done : found.start()], f"{{ {plain} }}"]
        done = end
    return "".join([*parts, text[done:]])


def _sections(text: str, at: int) -> tuple[list[str], int]:
    """What lies between the colons of an asm statement, and where it ends, from behind its parenthesis on."""
    sections, depth = [""], 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|.', text[at:], flags=re.DOTALL):
        what = token[0]
        depth += (what == "(") - (what == ")")
        if depth < 0:
            return sections, text.index(";", at + token.end()) + 1
        if what == ":" and depth == 0:
            sections.append("")
        else:
            sections[-1] += what
    raise AssertionError("an asm statement without an end")


def _operands(section: str) -> Iterator[str]:
    """The expressions of operands such as "r"(x), "l"(y)."""
    depth, expression = 0, ""
    for token in re.finditer(r'"[^"]*"|.', section, flags=re.DOTALL):
        depth -= token[0] == ")"
        if depth > 0:
            expression += token[0]
        elif token[0] == ")":
            yield expression
            expression = ""
        depth += token[0] == "("


class HostLibrary:
    """NumPy arrays as if they were on a GPU."""

    name = "host"

    def ordinal(self, label: str, array: Any) -> int:
        return 0

    def view(self, label: str, array: Any, stream: int) -> DeviceArray:
        strides = tuple(step // array.itemsize for step in array.strides)
        return DeviceArray(array.ctypes.data, array.shape, strides, array.dtype, 0, array)

    def current_stream(self, ordinal: int) -> int:
        return 0

    def empty(self, like: Any, shape: tuple[int, ...], dtype: Any, ordinal: int) -> tuple[Any, int]:
        size = math.prod(shape) * dtype.itemsize
        raw = np.full(size + 16, 0xFF, np.uint8)
        start = -raw.ctypes.data % 16
        array = raw[start : start + size].view(dtype).reshape(shape)
        return array, array.ctypes.data

    def plain(self, array: Any) -> tuple[int, int, Any] | None:
        return (array.ctypes.data, array.size, array.dtype) if array.flags.c_contiguous else None

    def ordered(self, array: Any, order: tuple[int, ...]) -> Any:
        return array.transpose(order).copy(order="C")

    def finish(self, array: Any, like: Any, stream: int) -> Any:
        return array


class SequentialExecutor(InstructionExecutor):
    """An instruction whose arithmetic is that of the kernels on the host: products added one by one."""

    def __init__(self, instruction: Instruction, k: int) -> None:
        super().__init__(instruction)
        self.name = "sequential"
        self._k = k

    def _product(self, a: Any, b: Any) -> Any:
        output = get_format(self.instruction.output).dtype
        x, y = a.astype(np.float64), b.astype(np.float64)
        total = np.zeros((*a.shape[:-1], b.shape[-1]), output)
        for first in range(0, a.shape[-1], self._k):
            wide = total.astype(np.float64)
            for k in range(first, min(first + self._k, a.shape[-1])):
                wide = wide + x[..., k : k + 1] * y[..., k : k + 1, :]
            total = wide.astype(output)
        return total
