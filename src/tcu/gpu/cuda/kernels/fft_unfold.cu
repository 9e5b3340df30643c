// Transforms of an even number of real numbers, from complex ones of half the length in memory.  A thread makes one number.
//
// Compiled with
//   WORK            as device/fourier/numbers.cuh says
//   SOURCE, TARGET  formats of real numbers in memory
//   THREADS         of a block

#include "device/fourier/numbers.cuh"

using namespace tcu;

#include "generated/fft/FftUnfold.inc"

extern "C" __global__ void __launch_bounds__(THREADS) fft_unfold(const __grid_constant__ FftUnfold p) {
    const i64 own = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x, row = own / (p.half + 1), k = own % (p.half + 1);
    if (row >= p.rows) return;
    const auto number = [&](i64 at) { return fourier::read_pair<SOURCE>(p.source, row * p.half + at); };
    const fourier::Complex turn = static_cast<const fourier::Complex*>(p.table)[k];
    const fourier::Complex x =
        fourier::unfolded(number(k % p.half), number((p.half - k) % p.half), turn, static_cast<fourier::Number>(p.factor));
    fourier::write_pair<TARGET>(p.target, row / p.columns * p.batch + row % p.columns * p.column + k * p.number, x);
}
