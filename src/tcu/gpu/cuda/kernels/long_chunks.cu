// As long_segments.cu, for the plan of blocks of 256 threads without chains.  Every chunk belongs to one warp, which
// does the work of the plan's eight warps side by side.  Where the architecture has bulk copies, chunks come through
// a ring in shared memory.  The first bytes of a chunk are copied while the warp still works on the chunk before.
//
// There it is launched twice if long segments may have been put on the queue by list_segments.cu.  The first launch
// runs beside that of the short segments, with few blocks.  The second comes after it, and takes what is left, and
// what the short segments' launch has put on the queue.
//
// Compiled with ELEMENT, LAYOUT SHIFTED (load/array.cuh), and
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//   COPY, COPIES   bytes of a copy into a warp's ring, and how many have room there (sm_90)
//   PERMUTED_K 1, of 16-bit numbers: an MMA adds all 16 numbers of a row at once (mma/permuted_k.cuh)

#include "device/finish/store.cuh"
#include "device/grid/programmatic_launch.cuh"
#include "device/load/ring_read.cuh"
#include "device/mma/ones.cuh"
#include "device/reduce/lane_sums.cuh"
#include "device/ragged/long_segments.cuh"
#include "device/ragged/plan_chunks.cuh"
#include "device/warp/multi_reduce.cuh"
#include "device/warp/uniform.cuh"
#if BULK && PERMUTED_K
#include "device/mma/permuted_k.cuh"
#endif

using namespace tcu;

constexpr int TILES = 8;  // tiles of a turn: one for each warp of the plan
constexpr int AT_ONCE = 4;
constexpr int TILE = WARP * PER_LOAD, TURN = TILES * TILE;  // numbers
constexpr int BLOCK = TILES * WARP;

#if MMAS

// The accumulators of the plan's warps; each lane has rows of another tile.
struct Warps {
    double low[TILES / AT_ONCE] = {}, high[TILES / AT_ONCE] = {};

    __device__ void add(int part, const Vector (&x)[AT_ONCE]) {
        mma::OwnRows rows;
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) rows.add(j, x[j]);
        low[part] += rows.low;
        high[part] += rows.high;
    }

    __device__ double sum() const {
        double v[TILES / AT_ONCE];
#pragma unroll
        for (int part = 0; part < TILES / AT_ONCE; ++part) {
            v[part] = low[part] + high[part];
#pragma unroll
            for (int half = 16; half >= 4; half /= 2) v[part] += __shfl_xor_sync(ALL, v[part], half);
        }
        double number = v[0] + v[1];
#pragma unroll
        for (int half = 2; half >= 1; half /= 2) number += __shfl_xor_sync(ALL, number, half);
        return number;
    }
};

#else

struct Warps {
    reduce::LaneSums sums[TILES];

    __device__ void add(int part, const Vector (&x)[AT_ONCE]) {
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) sums[part * AT_ONCE + j].add(x[j]);
    }

    __device__ double sum() {
        double v[TILES];
#pragma unroll
        for (int t = 0; t < TILES; ++t) v[t] = sums[t].sum();
        if constexpr (reduce::NEAR) return warp::sum_of_tiles_near<TILES>(v);
        else return warp::sum_of_tiles<TILES, 1>(v);
    }
};

#endif

#if BULK

typedef load::Ring<COPY, COPIES, 16, true> ChunkRing;  // read once: a power law takes 579 in place of 581 us (H200)

constexpr int PART = AT_ONCE * TILE;
constexpr u32 BYTES = PART * sizeof(Code);
// Parts of a turn that are waited for at once, while a copy is under way.  With two, the warp has more to do between
// waits.
constexpr int ASKED = COPY * (COPIES - 2) >= 2 * BYTES ? 2 : 1;
static_assert(COPY >= BYTES, "what a part reads and is not there lies in the ring");

#if PERMUTED_K

// Where the 64-byte chunks of a plan's chunk begin within 16 bytes: all of them alike.
struct Placement {
    mma::OwnBits own;
    u32 selector, ring;

    __device__ Placement(const ChunkRing& data, u32 at)
        : own(static_cast<int>(at % 16 * 8)), selector(mma::selector_at(at)),
          ring(warp::opaque(load::shared_address(data.memory->bytes))) {}

    // Each lane completes the first vector of one 64-byte chunk (ragged/aligned_chunks64.cuh): the chunk of its own
    // group of four lanes, in the tile with the lane's number in that group.
    __device__ void add_part(Warps& warps, int part, const ChunkRing& data, u32 at) const {
        const u32 lane = threadIdx.x % WARP, first = at & ~15u;
        Vector behind, x[AT_ONCE];
        behind.words = load::load_vector(ring + data.place_inside(first + lane % 4 * (WARP * 16) + (lane / 4 + 1) * 64));
#pragma unroll
        for (u32 j = 0; j < AT_ONCE; ++j)
            x[j].words = load::load_vector(ring + data.place_inside(first + j * (WARP * 16) + (lane ^ j) * 16));
#pragma unroll
        for (u32 j = 0; j < AT_ONCE; ++j) {
            if (lane % 4 == j) own.complete(x[j], behind);
            if (MMAS) x[j] = mma::in_rows(x[j], selector);
        }
        warps.add(part, x);
    }
};

#endif

// Adds a part of a turn from position `at` of the ring on, of which `left` numbers belong to the chunk.
template <bool WHOLE>
__device__ inline void add_part(Warps& warps, int part, const ChunkRing& data, u32 at, int left) {
    const int lane = threadIdx.x % WARP;
    load::Raw raws[AT_ONCE];
    Vector x[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
        raws[j] = load::read<false>(data, at + j * (WARP * 16) + lane * 16);
        raws[j].left = left - j * TILE - lane * PER_LOAD;
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) x[j] = WHOLE ? load::shifted(raws[j]) : load::aligned(raws[j]);
    warps.add(part, x);
}

// The sum of a chunk.  `ask` is called to ask for more, with a position before which nothing is needed any more.
template <typename Ask>
__device__ inline double chunk_sum(ChunkRing& data, u32 at, u32 length, const Ask& ask) {
    Warps warps;
#if PERMUTED_K
    const Placement placement(data, at);
#endif
    // The vote tells the compiler that the warp stays together.
#pragma unroll 1
    for (; __any_sync(ALL, length >= TURN); length -= TURN) {
#pragma unroll
        for (int part = 0; part < TILES / AT_ONCE; ++part, at += BYTES) {
            if (part % ASKED == 0) {
                ask(at);
                data.wait(at + ASKED * BYTES);
            }
#if PERMUTED_K
            placement.add_part(warps, part, data, at);
#else
            add_part<true>(warps, part, data, at, PART);
#endif
        }
    }
#pragma unroll
    for (int part = 0; part < TILES / AT_ONCE; ++part, at += BYTES) {
        if (__any_sync(ALL, length == 0)) break;
        const u32 some = min(length, static_cast<u32>(PART));
        ask(at);
        data.wait(at + some * static_cast<u32>(sizeof(Code)));
        add_part<false>(warps, part, data, at, static_cast<int>(some));
        length -= some;
    }
    return warps.sum();
}

#else

constexpr int READ = 24 / sizeof(Code);  // elements that an unaligned load reads

enum Reading { WHOLE, PARTLY, CAREFULLY };

// Adds a turn from `at` bytes after the base on, of which `left` numbers belong to the chunk.
template <Reading READING>
__device__ inline void add_turn(Warps& warps, const char* base, u32 at, int left) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int part = 0; part < TILES / AT_ONCE; ++part) {
        load::Raw raws[AT_ONCE];
        Vector x[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) {
            const int tile = part * AT_ONCE + j, some = left - tile * TILE - lane * PER_LOAD;
            const u32 there = at + tile * (WARP * 16) + lane * 16;
            if (READING == CAREFULLY)
                x[j] = load::one_by_one(base, there, some);
            else
                raws[j] = load::fetch(base, READING == WHOLE || some > 0 ? there : at, some);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
            if (READING != CAREFULLY) x[j] = READING == WHOLE ? load::shifted(raws[j]) : load::aligned(raws[j]);
        warps.add(part, x);
    }
}

// Only the array's last chunk is read in this way.  Not inline, so that it takes no registers from the others.
__device__ __noinline__ double careful_sum(const char* base, u32 at, u32 length) {
    Warps warps;
#pragma unroll 1
    for (u32 done = 0; done < length; done += TURN, at += TURN * sizeof(Code))
        add_turn<CAREFULLY>(warps, base, at, static_cast<int>(min(length - done, static_cast<u32>(TURN))));
    return warps.sum();
}

__device__ inline double chunk_sum(const char* base, u32 at, u32 length) {
    Warps warps;
#pragma unroll 1
    for (; length >= TURN; length -= TURN, at += TURN * sizeof(Code)) add_turn<WHOLE>(warps, base, at, TURN);
    if (length) add_turn<PARTLY>(warps, base, at, static_cast<int>(length));
    return warps.sum();
}

#endif

// The sum of all chunks' numbers, in the order in which a block of the plan adds them up (grid/slots.cuh,
// sum_of_chunks).
__device__ __noinline__ double sum_by_warp(u64* slots, i64 chunks) {
    const int lane = threadIdx.x % WARP;
    double warps = 0;
#pragma unroll 1
    for (int warp = 0; __any_sync(ALL, warp < TILES && warp * WARP < chunks); ++warp) {
        double total = 0;
#pragma unroll 1
        for (i64 at = warp * WARP + lane; __any_sync(ALL, at < chunks); at += BLOCK) {
            u64 bits = grid::MISSING;
            while (__any_sync(ALL, at < chunks && bits == grid::MISSING))
                if (at < chunks) bits = grid::look(slots + at);
            if (at < chunks) total += __longlong_as_double(bits);
        }
        total = __shfl_sync(ALL, warp::tree<WARP>(total), 0);
        if (lane == warp) warps = total;
    }
    return warp::tree<TILES>(warps);
}

// An item of the queue, and the numbers of its segment that belong to its chunk.
struct SegmentChunk {
    ragged::WorkItem item;
    i64 size;   // numbers of all chunks but the last
    i64 begin;  // in elements of the array
    u32 length;

    __device__ SegmentChunk(const ragged::WorkItem& that, u32 number) : item(that) {
        size = ragged::loads_of(item.length, TURN) * TURN;
        const i64 done = (number - item.first) * size;
        begin = item.begin + done;
        length = static_cast<u32>(min(size, item.length - done));
    }
};

__device__ inline void conclude(const ragged::LongSegments& p, const SegmentChunk& chunk, u32 number, double total) {
    const int lane = threadIdx.x % WARP;
    const ragged::WorkItem& item = chunk.item;
    if (__any_sync(ALL, item.length > chunk.size)) {
        const i64 chunks = ragged::chunks_of(item.length, TURN);
        if (lane == 0) grid::publish(p.queue.slots + number, total);
        if (!ragged::is_last_for_warp(p.queue, item, chunks)) return;
        total = sum_by_warp(p.queue.slots + item.first, chunks);
    }
    if (lane != 0) return;
    if (p.mean) total /= static_cast<double>(item.length);
    const finish::Target target = static_cast<finish::Target>(p.target);
    finish::store_rounded(finish::place(p.out, item.segment, target), total, target);
}

#if BULK

// Blocks that wait until the short segments' sums are done, where list_segments.cu has listed the long ones.  Only
// wrong offsets leave some long segments for these blocks.
constexpr u32 WAITING = 64;

// Draws items up to `count`. A ticket is the number of an item, less `first`.
struct Draw {
    u32* tickets;
    u32 first, count;
};

// Does the items `number` and `next`, and then those that are drawn.
__device__ inline void sum_items(const ragged::LongSegments& p, ChunkRing& data, const Draw& draw, u32 number, u32 next) {
    const int lane = threadIdx.x % WARP;
    if (__any_sync(ALL, number >= draw.count)) return;
    const auto join = [&](const SegmentChunk& chunk) {
        return data.join(p.data, static_cast<const Code*>(p.data) + chunk.begin,
                         chunk.length * static_cast<u32>(sizeof(Code)));
    };
    // An item of which the compiler knows that it is the same in all lanes.  Otherwise it allows for lanes that go on
    // alone, with a quarter more instructions in a turn (a power law takes 578 in place of 576 us, H200).
    const auto known = [](const ragged::WorkItem& item) {
        return ragged::WorkItem{warp::uniform(item.segment), warp::uniform(item.begin), warp::uniform(item.length),
                                warp::uniform(item.first), 0};
    };
    SegmentChunk chunk(known(p.queue.items[number]), number);
    u32 at = join(chunk);
#pragma unroll 1
    while (true) {
        u32 ticket = 0, next_at = 0;
        if (lane == 0) ticket = draw.first + atomicAdd(draw.tickets, 1u);
        const bool is_more = next < draw.count;
        ragged::WorkItem following = p.queue.items[is_more ? next : number];  // used only when there is room for its copies
        bool is_joined = !is_more;
        const double total = chunk_sum(data, at, chunk.length, [&](u32 done) {
#pragma unroll 1
            while (true) {
                data.go_on(done);
                if (__any_sync(ALL, is_joined || data.asked < data.end)) break;
                is_joined = true;
                following = known(following);
                next_at = join(SegmentChunk(following, next));
            }
        });
        conclude(p, chunk, number, total);
        if (__any_sync(ALL, !is_more)) break;
        number = next;
        chunk = SegmentChunk(following, number);
        at = next_at;
        next = warp::uniform(ticket);  // 0 of the other lanes
    }
}

#endif

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    long_chunks(const __grid_constant__ ragged::LongSegments p) {
#if BULK
    __shared__ ChunkRing::Memory memory[THREADS / WARP];
    if (p.early) {
        grid::launch_dependents();
        grid::wait_for_prior_launch();
    }
    const u32 warp = warp::uniform(threadIdx.x / WARP);
    const u32 listed = p.listed ? warp::uniform(ragged::listed_ahead(p.queue)) : 0;
    const u32 waiting = listed ? min(gridDim.x, WAITING) : gridDim.x, warps = waiting * (THREADS / WARP);
    ChunkRing data(memory[warp]);
#pragma unroll 1
    for (u32 late = 0; __any_sync(ALL, late <= (!p.early && blockIdx.x < waiting)); ++late) {
        // Each warp holds two items, so that it knows the next one before it needs it.
        Draw draw = {p.queue.state + ragged::TICKETS, 0, listed};
        u32 number = 0, next = 0;
        if (__any_sync(ALL, late != 0)) {
            grid::wait_for_prior_launch();
            draw = {p.queue.state + ragged::LATE_TICKETS, listed + 2 * warps, warp::uniform(ragged::items_on(p.queue))};
            number = listed + blockIdx.x * (THREADS / WARP) + warp;
            next = number + warps;
        } else if (__any_sync(ALL, listed != 0)) {
            if (threadIdx.x % WARP == 0) number = atomicAdd(draw.tickets, 2u);
            number = warp::uniform(number);  // 0 of the other lanes
            next = number + 1;
        }
        sum_items(p, data, draw, number, next);
    }
    data.finish();
    __syncthreads();
    if (!p.early) ragged::leave(p.queue);
#else
    ragged::for_each_item_of_warps(p.queue, [&](const ragged::WorkItem& item, u32 number) {
        const SegmentChunk chunk(item, number);
        const u64 address = reinterpret_cast<u64>(static_cast<const Code*>(p.data) + chunk.begin);
        const char* const base = reinterpret_cast<const char*>(address & ~15ull);
        const u32 at = static_cast<u32>(address % 16);
        conclude(p, chunk, number,
                 chunk.begin + chunk.length + READ > p.n ? careful_sum(base, at, chunk.length)
                                                         : chunk_sum(base, at, chunk.length));
    });
#endif
}
