// A pass of fast Fourier transforms: transforms of a part of the length, all of whose numbers a block has in hand.
//
// A block takes neighbouring columns, a transform each.  Its threads have butterflies of a level in registers and exchange
// results through shared memory: what the levels do, and in which order, is the program of tcu/plan/butterflies.py and the
// plan of tcu/plan/fft.py, which the CPU executes, too.  All is IEEE arithmetic, rounded step by step.
//
// Instructions, for each number of 4096 = 16·16·16: 27 of butterflies, 7.5 of twiddle factors and 2 for their loads, 4 of shared
// memory, 2 of memory, 3 of conversions from and to binary16, 4 of indices: 50, where steps in memory are known beforehand (81 before
// they were).  A multiprocessor of an H200 has time for 75 while 8 bytes are read and written.  Twiddle factors and shared memory take
// 13 cycles for each 32 numbers, and the instructions 12.5: where a multiprocessor has one block, all of whose threads are at the same
// step, these add up.  Fewer levels of up to 32 numbers took 5 to 16 % less time than of up to 16 (2^10 to 2^14).
//
// What failed (2^26 numbers, H100 but where it says H200).  The copy engine, which brought the next tile while a block worked: of 2^13 numbers of binary16 270 in place of 223 us, of 2^14 of
// binary32 498 in place of 450; copies by each thread of its own numbers (H200): of 2^16 of binary16 466 in place of 332, of 2^14 331 in
// place of 265.  A cluster's blocks that share a transform (H200): of 2^14 of binary16 297 of two blocks and 309 of four in place of one
// block's 265, of 2^15 423 in place of two passes' 331; of 2^15 of binary32 405 in place of 531, which is why there are clusters, and 380 since
// blocks are told of numbers that have come by asynchronous stores, in place of a barrier of all blocks.
// What lies between two passes in panels of a block's columns, so that the first pass writes what is side by side (H200): of 2^22 numbers
// of binary32 the first took 393 in place of 470, the second, which reads pieces, 380 in place of 317; of binary16 202 and 235, 215 and 183.
//
// What limits two passes in two launches is how narrow the pieces are that a block's columns leave of memory, not what is computed: without its butterflies
// and with all else 2^20 numbers of binary32 took 582 in place of 608 us, 2^22 800 in place of 789, of binary16 327 in place of 332 and 413 in
// place of 416 (H200, plans of version 3).
//
// Compiled with what device/fourier/pass.cuh says.

#include "device/fourier/numbers.cuh"

#define PASS one_pass
#include "device/fourier/pass.cuh"

using namespace tcu;

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS)) fft_pass(const __grid_constant__ fourier::FftPass p) {
    extern __shared__ __align__(16) unsigned char memory[];
    fourier::one_pass::run(p, blockIdx.x, memory, [] {});
}
