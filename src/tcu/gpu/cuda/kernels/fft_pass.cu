// A pass of fast Fourier transforms, a block for each tile.
//
// Compiled with what device/fourier/pass.cuh says of a pass ONLY, and with
//   RESIDENT       blocks of a multiprocessor, at least
//   FLAT           1: there are no batches and blocks
//   TILES, BLOCKS  tiles of a block of columns, and p.blocks, where these are known beforehand, else 0

#include "device/fourier/pass.cuh"

using namespace tcu;

FFT_PASS(ONLY)

__device__ inline fourier::Tile own_tile(const fourier::FftPass& p) {
    fourier::Tile tile;
    if constexpr (FLAT) {
        tile.column = blockIdx.x * ONLY::COLUMNS;
    } else {
        const u32 tiles = TILES ? TILES : (static_cast<u32>(p.columns) + ONLY::COLUMNS - 1) / ONLY::COLUMNS;
        const u32 blocks = BLOCKS ? BLOCKS : static_cast<u32>(p.blocks), rest = blockIdx.x / tiles;
        tile.column = blockIdx.x % tiles * ONLY::COLUMNS;
        tile.block = rest % blocks;
        tile.batch = rest / blocks;
    }
    return tile;
}

extern "C" __global__ void __launch_bounds__(ONLY::THREADS, resident(RESIDENT, ONLY::THREADS)) fft_pass(const __grid_constant__ fourier::FftPass p) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ fourier::Complex turns[fourier::TURNS<ONLY>];
    __shared__ u32 largest[fourier::LARGEST<ONLY>];
    fourier::run<ONLY>(p, own_tile(p), reinterpret_cast<fourier::Complex*>(memory), turns, largest);
}
