// C = A·B of square row-major binary16 matrices into binary32, by the WMMA interface, two ways: naive, where each
// warp loads its fragments from global memory, and with tiles in shared memory that eight warps use together.
// n is a multiple of 128.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

namespace {

constexpr int WARP = 32;
constexpr int FRAGMENT = 16;

using A = wmma::fragment<wmma::matrix_a, FRAGMENT, FRAGMENT, FRAGMENT, __half, wmma::row_major>;
using B = wmma::fragment<wmma::matrix_b, FRAGMENT, FRAGMENT, FRAGMENT, __half, wmma::row_major>;
using C = wmma::fragment<wmma::accumulator, FRAGMENT, FRAGMENT, FRAGMENT, float>;

constexpr int NAIVE_WARPS = 4;

__global__ void naive(const __half* a, const __half* b, float* c, int n) {
    const int row = blockIdx.y * FRAGMENT;
    const int column = (blockIdx.x * NAIVE_WARPS + threadIdx.x / WARP) * FRAGMENT;
    C sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < n; k += FRAGMENT) {
        A left;
        B right;
        wmma::load_matrix_sync(left, a + static_cast<size_t>(row) * n + k, n);
        wmma::load_matrix_sync(right, b + static_cast<size_t>(k) * n + column, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + static_cast<size_t>(row) * n + column, sum, n, wmma::mem_row_major);
}

// A block of 8 warps, 2 × 4, computes 128 × 128 numbers; a warp 64 × 32, 4 × 2 fragments.
constexpr int TILE = 128;
constexpr int DEPTH = 32;
constexpr int WARPS = 8;
constexpr int ROWS = 4, COLUMNS = 2;
constexpr int PAD = 8;  // halves: rows start in other banks
constexpr int PER_LOAD = 8;  // halves in the 16 bytes that a thread loads at once

__device__ inline void load(const __half* from, int stride, __half* to, int rows, int columns, int padded) {
    const int loads = rows * columns / PER_LOAD;
    for (int i = threadIdx.x; i < loads; i += WARPS * WARP) {
        const int row = i / (columns / PER_LOAD), column = i % (columns / PER_LOAD) * PER_LOAD;
        *reinterpret_cast<uint4*>(to + row * padded + column) =
            *reinterpret_cast<const uint4*>(from + static_cast<size_t>(row) * stride + column);
    }
}

__global__ __launch_bounds__(WARPS * WARP) void shared(const __half* a, const __half* b, float* c, int n) {
    __shared__ __align__(32) __half left[TILE][DEPTH + PAD];
    __shared__ __align__(32) __half right[DEPTH][TILE + PAD];
    const int warp = threadIdx.x / WARP;
    const int row = warp / 4 * ROWS * FRAGMENT, column = warp % 4 * COLUMNS * FRAGMENT;
    const __half* from_a = a + static_cast<size_t>(blockIdx.y) * TILE * n;
    const __half* from_b = b + blockIdx.x * TILE;
    C sum[ROWS][COLUMNS];
    for (auto& line : sum)
        for (auto& one : line) wmma::fill_fragment(one, 0.0f);
    for (int k = 0; k < n; k += DEPTH) {
        load(from_a + k, n, &left[0][0], TILE, DEPTH, DEPTH + PAD);
        load(from_b + static_cast<size_t>(k) * n, n, &right[0][0], DEPTH, TILE, TILE + PAD);
        __syncthreads();
#pragma unroll
        for (int inner = 0; inner < DEPTH; inner += FRAGMENT) {
            A lefts[ROWS];
            B rights[COLUMNS];
            for (int i = 0; i < ROWS; ++i)
                wmma::load_matrix_sync(lefts[i], &left[row + i * FRAGMENT][inner], DEPTH + PAD);
            for (int j = 0; j < COLUMNS; ++j)
                wmma::load_matrix_sync(rights[j], &right[inner][column + j * FRAGMENT], TILE + PAD);
            for (int i = 0; i < ROWS; ++i)
                for (int j = 0; j < COLUMNS; ++j) wmma::mma_sync(sum[i][j], lefts[i], rights[j], sum[i][j]);
        }
        __syncthreads();
    }
    float* to = c + (static_cast<size_t>(blockIdx.y) * TILE + row) * n + blockIdx.x * TILE + column;
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < COLUMNS; ++j)
            wmma::store_matrix_sync(to + static_cast<size_t>(i) * FRAGMENT * n + j * FRAGMENT, sum[i][j], n,
                                    wmma::mem_row_major);
}

}  // namespace

extern "C" int gemm_naive(const __half* a, const __half* b, float* c, int n, cudaStream_t stream) {
    const dim3 grid(n / (FRAGMENT * NAIVE_WARPS), n / FRAGMENT);
    naive<<<grid, NAIVE_WARPS * WARP, 0, stream>>>(a, b, c, n);
    return cudaGetLastError();
}

extern "C" int gemm_shared(const __half* a, const __half* b, float* c, int n, cudaStream_t stream) {
    shared<<<dim3(n / TILE, n / TILE), WARPS * WARP, 0, stream>>>(a, b, c, n);
    return cudaGetLastError();
}
