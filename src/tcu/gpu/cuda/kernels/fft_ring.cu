// Two passes of fast Fourier transforms in one launch.  What the first leaves for the second, a slot of a ring for each group of
// transforms, stays in the cache that multiprocessors share: memory carries each number once in and once out.
//
// Blocks draw tiles in a stated order: the first pass's of group g + lag, the second's of group g, those of group g + lag + 1.
// A tile of the second pass waits for all tiles of its group's first one, one of the first for all tiles that read its slot
// before.  Those were drawn before, by blocks that wait for earlier ones alone: nobody waits for ever.
//
// Compiled with what device/fourier/pass.cuh says of the passes FIRST and SECOND, which have as many threads, and with
//   FIRST_TILES, SECOND_TILES  tiles of a block of columns
//   RESIDENT                   blocks of a multiprocessor, at least
//   LAG                        by so many groups the second pass follows

#include "device/fourier/pass.cuh"
#include "device/grid/slots.cuh"

using namespace tcu;

#include "generated/fft/FftRing.inc"

FFT_PASS(FIRST)
FFT_PASS(SECOND)

enum { TICKETS, FINISHED, HEAD };  // words of the state, behind which come two for each slot: tiles of its passes that were done

__device__ constexpr u32 greater(u32 x, u32 y) { return x > y ? x : y; }

// Whose turn it is: a group's tile of the first pass, or of the second.
struct Turn {
    bool is_first;
    u32 group, item;

    __device__ Turn(const FftRing& p, u32 ticket) {
        const u32 first = static_cast<u32>(p.first_tiles), second = static_cast<u32>(p.second_tiles), both = first + second;
        const u32 count = static_cast<u32>(p.count), lag = LAG < count ? LAG : count, begin = lag * first, middle = (count - lag) * both;
        if (ticket < begin) {
            is_first = true;
            group = ticket / first;
            item = ticket % first;
        } else if (ticket < begin + middle) {
            const u32 at = (ticket - begin) % both;
            is_first = at < first;
            group = (ticket - begin) / both + (is_first ? lag : 0);
            item = is_first ? at : at - first;
        } else {
            is_first = false;
            group = count - lag + (ticket - begin - middle) / second;
            item = (ticket - begin - middle) % second;
        }
    }
};

template <typename P>
__device__ inline fourier::Tile tile_of(const FftRing& p, const Turn& turn, u32 tiles) {
    fourier::Tile tile;
    tile.batch = turn.group / static_cast<u32>(p.groups);
    tile.group = turn.group % static_cast<u32>(p.groups);
    tile.slot = turn.group % static_cast<u32>(p.slots);
    tile.block = turn.item / tiles;
    tile.column = turn.item % tiles * P::COLUMNS;
    return tile;
}

// Called by a block: waits until so many tiles were done, and sees what they have written.
__device__ inline void wait_for(const u64* done, u64 tiles) {
    if (threadIdx.x == 0) {
        while (grid::look(done) < tiles) {
        }
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(FIRST::THREADS, resident(RESIDENT, FIRST::THREADS)) fft_ring(const __grid_constant__ FftRing p) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ fourier::Complex turns[greater(fourier::TURNS<FIRST>, fourier::TURNS<SECOND>)];
    __shared__ u32 largest[greater(fourier::LARGEST<FIRST>, fourier::LARGEST<SECOND>)];
    __shared__ u32 drawn;
    fourier::Complex* const shared = reinterpret_cast<fourier::Complex*>(memory);
    const u64 all = static_cast<u64>(p.count) * (p.first_tiles + p.second_tiles);
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) drawn = static_cast<u32>(atomicAdd(p.state + TICKETS, static_cast<u64>(1)));
        __syncthreads();
        const u32 ticket = drawn;
        if (ticket >= all) break;
        const Turn turn(p, ticket);
        const u32 slot = turn.group % static_cast<u32>(p.slots);
        const u64 before = turn.group / static_cast<u32>(p.slots);  // groups that had the slot
        u64* const done = p.state + HEAD + 2 * slot;
        if (turn.is_first) {
            wait_for(done + 1, before * p.second_tiles);
            fourier::run<FIRST>(p.first, tile_of<FIRST>(p, turn, FIRST_TILES), shared, turns, largest);
        } else {
            wait_for(done, (before + 1) * p.first_tiles);
            fourier::run<SECOND>(p.second, tile_of<SECOND>(p, turn, SECOND_TILES), shared, turns, largest);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(done + !turn.is_first, static_cast<u64>(1));
        }
    }
    // The last block leaves the state as the next launch needs it.
    __shared__ bool is_last;
    if (threadIdx.x == 0) is_last = atomicAdd(p.state + FINISHED, static_cast<u64>(1)) == gridDim.x - 1;
    __syncthreads();
    if (is_last)
        for (u32 at = threadIdx.x; at < HEAD + 2 * p.slots; at += FIRST::THREADS) p.state[at] = 0;
}
