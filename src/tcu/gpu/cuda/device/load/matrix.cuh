// One batched problem D = A·B + C over strided matrices, and the place of a tile in it.

#pragma once

#include "device/types/types.cuh"

namespace tcu::load {

#include "generated/arrays/LIMITS.inc"

#include "generated/mma/Matrix.inc"

#include "generated/mma/Problem.inc"

// Where one tile begins: its row and column in D, and offsets into each operand's memory.
struct MatrixTile {
    i64 row, column;
    i64 a, b, c, d;
};

__device__ inline MatrixTile locate(const Problem& p, i64 tile, int tile_m, int tile_n) {
    const i64 columns = (p.n + tile_n - 1) / tile_n;
    const i64 rows = (p.m + tile_m - 1) / tile_m;
    MatrixTile t = {tile / columns % rows * tile_m, tile % columns * tile_n, 0, 0, 0, 0};
    i64 member = tile / columns / rows;
    t.d = member * p.m * p.n;
    for (int i = static_cast<int>(p.batch_dimensions) - 1; i >= 0; --i) {
        const i64 index = member % p.batch_extents[i];
        member /= p.batch_extents[i];
        t.a += index * p.a.batch_strides[i];
        t.b += index * p.b.batch_strides[i];
        t.c += index * p.c.batch_strides[i];
    }
    return t;
}

// The element's bits, or zero outside the matrix.  Zeros leave every dot product as it is.
template <typename Element>
__device__ inline Element load(const Matrix& x, i64 base, i64 row, i64 column, i64 rows, i64 columns) {
    if (x.data == nullptr || row >= rows || column >= columns) return 0;
    return static_cast<const Element*>(x.data)[base + row * x.row_stride + column * x.column_stride];
}

}  // namespace tcu::load
