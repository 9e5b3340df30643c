// Transforms of an even number of real numbers and complex ones of half the length: one from the other.
//
// Numbers k and half - k of z, the transform of neighbouring numbers as complex ones, make number k of the transform of the
// real numbers; and back.  A thread makes one number, in the steps of the CPU (tcu/model/fft_kernels.py).
//
// Compiled with
//   WORK, ELEMENT, RESULT  as device/fourier/numbers.cuh says
//   THREADS                of a block

#include "device/fourier/numbers.cuh"

using namespace tcu;
using fourier::Complex;
using fourier::minus;
using fourier::plus;
using fourier::Real;
using fourier::times;

#include "generated/fft/FftPlaces.inc"

#include "generated/fft/FftFold.inc"

__device__ inline i64 row_at(const FftFold& p, const FftPlaces& places, i64 row) {
    return row / p.columns * places.batch + row % p.columns * places.column;
}

__device__ inline Complex number_at(const FftFold& p, i64 row, i64 k) {
    if (k >= p.taken) return {0, 0};
    return fourier::read_pair(p.source, row_at(p, p.reads, row) + k * p.reads.number);
}

extern "C" __global__ void __launch_bounds__(THREADS) unfold_halves(const __grid_constant__ FftFold p) {
    const i64 own = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x, row = own / (p.half + 1), k = own % (p.half + 1);
    if (row >= p.rows) return;
    const Complex near = number_at(p, row, k % p.half), far = number_at(p, row, (p.half - k) % p.half);
    const Complex even = {plus(near.re, far.re), minus(near.im, far.im)};
    const Complex odd = times(Complex{plus(near.im, far.im), minus(far.re, near.re)}, static_cast<const Complex*>(p.table)[k]);
    const Complex sum = {plus(even.re, odd.re), plus(even.im, odd.im)};
    fourier::write_pair(p.target, row_at(p, p.writes, row) + k * p.writes.number, times(sum, static_cast<Real>(p.factor)));
}

extern "C" __global__ void __launch_bounds__(THREADS) fold_halves(const __grid_constant__ FftFold p) {
    const i64 own = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x, row = own / p.half, k = own % p.half;
    if (row >= p.rows) return;
    Complex near = number_at(p, row, k), far = number_at(p, row, p.half - k);
    if (k == 0) near.im = far.im = 0;
    const Complex even = {plus(near.re, far.re), minus(near.im, far.im)};
    const Complex turn = static_cast<const Complex*>(p.table)[k];
    const Complex odd = times(Complex{minus(near.re, far.re), plus(near.im, far.im)}, Complex{turn.re, -turn.im});
    fourier::write_pair(p.target, row_at(p, p.writes, row) + k * p.writes.number, {minus(even.re, odd.im), plus(even.im, odd.re)});
}
