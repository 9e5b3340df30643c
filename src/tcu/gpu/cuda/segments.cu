// Sums of ragged segments: each has the bits of its own sum by the plan of sum.cu.
//
// A warp takes AT_ONCE segments at a time, a lane to each.  By their lengths they are summed by
//   a lane      up to PER_LOAD numbers.  With MMAs the four lanes of a row of the fragment have segments of
//               their own: B has a one where column and lane belong together, so each finds its sum in its
//               own columns.  The others' numbers are multiplied by 0, which makes NaN of their inf: where a
//               sum is NaN all are done again as quads;
//   quads       up to 4 · PER_LOAD numbers each: one row of a fragment, alone; segments have several;
//   tiles       up to 32 · PER_LOAD numbers each: one fragment; segments have up to TILES of them;
//   blocks      anything longer, in a second launch (long_segments.cu).
// What the plan adds besides is zeros, which change no sum.  A segment that is none (it ends before it begins,
// or elsewhere than in the array) gives NaN.
//
// Compiled with ELEMENT (array.cuh; LAYOUT is not looked at), and
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//   AT_ONCE    segments of a warp at a time, at most 32
//   PREFETCH      bytes of data that the L2 cache is asked for before they are needed; 0: none
//
// The host fills the structure field by field (tcu/gpu/segments.py): change both together.

#include "anywhere.cuh"
#include "items.cuh"
#include "mma_ones.cuh"
#include "plan_loads.cuh"
#include "result.cuh"

constexpr int WARPS = THREADS / WARP;
constexpr int TILES = 8;
constexpr int QUAD = 4 * PER_LOAD, TILE = WARP * PER_LOAD;  // numbers
// Quads of a segment.  Without MMAs the plan adds up the lanes of all quads first.
constexpr int QUADS = sizeof(Code) == 2 ? 8 : 1;
constexpr int READ = 24 / sizeof(Code);  // elements that are read from one on

struct Segments {
    const void* data;
    i64 n;
    const i64* offsets;
    i64 segments;
    void* out;
    i64 target;
    i64 mean;      // whether the sums are divided by the lengths
    i64 per_warp;  // segments, one after another
    i64 most;      // numbers of a segment that is not long: at most TILES · TILE
    i64 together;  // of long segments: numbers that a block loads at a time
    List list;
};

// What a step leaves in the place of a quad or a tile.
union Value {
    float2 rows;  // g and g + 8 of the fragment
    double number;
};

// Where quads and tiles lie, until their sums take that place.
struct Place {
    u32 at;    // bytes from the base
    int left;  // numbers from there on
};
union Slot {
    Place place;
    Value value;
};
constexpr int SLOTS = WARP * TILES + 16;
constexpr int TOGETHER = 4;  // tiles
typedef double Parts[TOGETHER][8];  // of tiles' sums

struct Shared {
    Slot slots[SLOTS];
    Parts parts;
};

template <int FIRST, int LAST>
__device__ inline double across_lanes(double v) {
#pragma unroll
    for (int half = FIRST; half >= LAST; half /= 2) v += __shfl_xor_sync(ALL, v, half);
    return v;
}

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

__device__ inline Value rows_of(const Vector& x, u32 b) {
    float d[4] = {0, 0, 0, 0};
    multiply(d, x, b);
    Value v;
    v.rows = make_float2(d[0], d[2]);
    return v;
}
__device__ inline Value own_sum(const Vector& x) {
    const int lane = threadIdx.x % WARP;
    return rows_of(x, lane / 8 == lane % 4 ? ONES : 0);
}
__device__ inline Value quad_sum(const Vector& x) { return rows_of(x, ONES); }
__device__ inline double number_of(const Value& v) {
    return static_cast<double>(v.rows.x) + static_cast<double>(v.rows.y);
}
// The eight parts of a tile's sum.  Adding them up lane by lane, in each tile, took more instructions than the rest.
__device__ inline void put_part(double (&parts)[8], const Vector& x) {
    const double part = number_of(rows_of(x, ONES));
    if (threadIdx.x % 4 == 0) parts[threadIdx.x % WARP / 4] = part;
}

#else

__device__ inline Value own_sum(const Vector& x) {
    double v[PER_LOAD];
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) v[i] = to_binary64(x.codes[i]);
#pragma unroll
    for (int half = PER_LOAD / 2; half > 0; half /= 2)
#pragma unroll
        for (int i = 0; i < half; ++i) v[i] += v[i + half];
    Value sum;
    sum.number = v[0];
    return sum;
}
__device__ inline double number_of(const Value& v) { return v.number; }
__device__ inline Value quad_sum(const Vector& x) {
    Value v;
    v.number = across_lanes<2, 1>(own_sum(x).number);
    return v;
}
__device__ inline void put_part(double (&parts)[8], const Vector& x) {
    const double part = across_lanes<16, 8>(own_sum(x).number);
    if (threadIdx.x % WARP < 8) parts[threadIdx.x % WARP] = part;
}

#endif

// The tree over a segment's `count` values, at most WIDTH.
template <int WIDTH, typename Read>
__device__ inline double tree_over(int count, const Read& read) {
    double v[WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        v[i] = 0;
        if (i < count) v[i] = read(i);
    }
#pragma unroll
    for (int half = WIDTH / 2; half > 0; half /= 2)
#pragma unroll
        for (int i = 0; i < half; ++i) v[i] += v[i + half];
    return v[0];
}

// The sum over all lower lanes and this one.
__device__ inline u32 up_to_lane(u32 v) {
#pragma unroll
    for (int step = 1; step < WARP; step *= 2)
        asm volatile("{ .reg .pred p; .reg .s32 r; shfl.sync.up.b32 r|p, %0, %1, 0, 0xffffffff;\n"
                     "@p add.s32 %0, %0, r; }"
                     : "+r"(v)
                     : "r"(step));
    return v;
}

// Elements that a lane reads.  The array's last may be the memory's last: nothing is read beyond AT_END.
template <bool AT_END>
struct Piece {
    Raw raw;
    Vector vector;

    // Lane number `lane` of those that share the place.
    __device__ Piece(const char* base, const Place& place, int lane) {
        const int left = place.left - lane * PER_LOAD;
        const u32 at = place.at + (left > 0 ? lane * 16 : 0);
        if (AT_END)
            vector = one_by_one(base, at, left);
        else
            raw = fetch(base, at, left);
    }
    __device__ Vector numbers() const { return AT_END ? vector : aligned(raw); }
};

// Whether no segment of the warp has more than one value, and its value; else its sum.
struct Sums {
    bool alone;
    Value value;
    double number;
};

// The sums of a warp's segments: each lane's has `length` numbers from `first` bytes after the base on.
template <bool AT_END>
__device__ inline Sums sums_of(const char* base, u32 first, u32 length, bool in_quads, Shared& shared) {
    Slot* const slots = shared.slots;
    Parts& parts = shared.parts;
    const int lane = threadIdx.x % WARP;
    const bool own = length <= static_cast<u32>(PER_LOAD) && !in_quads;
    const bool in_tiles = length > QUADS * QUAD;
    const int tiles = in_tiles ? (length + TILE - 1) / TILE : 0;
    const int quads = own || in_tiles ? 0 : (length + QUAD - 1) / QUAD;
    const Piece<AT_END> mine(base, {first, own ? static_cast<int>(length) : 0}, 0);

    // Tiles come first, then quads, up to a multiple of 16.
    const u32 both = tiles | quads << 16, so_far = up_to_lane(both);
    const u32 all = __shfl_sync(ALL, so_far, WARP - 1), before = so_far - both;
    const int all_tiles = all & 0xffff, all_quads = all >> 16;
    Slot* const at = slots + (in_tiles ? before & 0xffff : all_tiles + (before >> 16));
    const int step = in_tiles ? TILE : QUAD;
    if (both) at[0].place = {first, static_cast<int>(length)};
#pragma unroll 1
    for (int i = 1; i < tiles + quads; ++i)
        at[i].place = {first + i * step * static_cast<u32>(sizeof(Code)), static_cast<int>(length) - i * step};
    if (lane < (-all_quads & 15)) slots[all_tiles + all_quads + lane].place = {first, 0};
    __syncwarp();

    Slot* in_quad = slots + all_tiles + lane / 4;
#pragma unroll 1
    for (int quad = 0; quad < all_quads; quad += 16, in_quad += 16) {
        const Place here = in_quad[0].place, there = in_quad[8].place;
        const Piece<AT_END> one(base, here, lane % 4), two(base, there, lane % 4);
        const Value v = quad_sum(one.numbers()), w = quad_sum(two.numbers());
        __syncwarp();
        if (lane % 4 == 0) in_quad[0].value = v, in_quad[8].value = w;
    }
#pragma unroll 1
    for (int tile = 0; tile < all_tiles; tile += TOGETHER) {
        Slot* const here = slots + tile;
        const int last = min(all_tiles - tile, TOGETHER) - 1;
        Place places[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) places[i] = here[min(i, last)].place;
        const Piece<AT_END> a(base, places[0], lane), b(base, places[1], lane), c(base, places[2], lane),
            d(base, places[3], lane);
        __syncwarp();
        put_part(parts[0], a.numbers());
        put_part(parts[1], b.numbers());
        put_part(parts[2], c.numbers());
        put_part(parts[3], d.numbers());
        __syncwarp();
        // Eight lanes to a tile.
        const double v = across_lanes<4, 1>(parts[lane / 8][lane % 8]);
        if (lane % 8 == 0 && lane / 8 <= last) here[lane / 8].value.number = v;
    }
    __syncwarp();

    Sums sums;
    sums.value = own_sum(mine.numbers());  // +0 where there is nothing
    __syncwarp();
    if (quads) sums.value = at[0].value;
    sums.alone = !__any_sync(ALL, both > 1 << 16 || in_tiles);
    if (!sums.alone) {
        const auto quad = [&](int i) { return number_of(at[i].value); };
        if (in_tiles)
            sums.number = tree_over<TILES>(tiles, [&](int i) { return at[i].value.number; });
        else if (QUADS > 1 && quads > 4)
            sums.number = tree_over<QUADS>(quads, quad);
        else if (QUADS > 1 && quads > 1)
            sums.number = tree_over<4>(quads, quad);
        else
            sums.number = number_of(sums.value);
    }
    __syncwarp();
    return sums;
}

// Once in many segments: not inline, so that it takes no registers.
__device__ __noinline__ Sums careful_sums(const char* base, u32 first, u32 length, bool in_quads, Shared& shared) {
    return sums_of<true>(base, first, length, in_quads, shared);
}

struct Run {
    i64 first, last;  // segments
    i64 begin;        // of the first, in elements
    u32 size;         // elements of all
};

// Rounded, where it is not the plain case that sum_run stores by itself.
__device__ __noinline__ void store(const Segments& p, i64 segment, const Sums& sums, u32 length, bool is_one) {
    double number = sums.alone ? number_of(sums.value) : sums.number;
    if (p.mean) number /= length;
    if (!is_one) number = __longlong_as_double(0x7fffffffffffffff);
    const Target target = static_cast<Target>(p.target);
    store_rounded(place(p.out, segment, target), number, target);
}

// Segments whose bytes a number of 32 bits counts.
__device__ inline void sum_run(const Segments& p, const Run& run, Shared& shared) {
    const int lane = threadIdx.x % WARP;
    const u64 address = reinterpret_cast<u64>(static_cast<const Code*>(p.data) + run.begin);
    const char* const base = reinterpret_cast<const char*>(address & ~15ull);
    const u32 most = static_cast<u32>(p.most);
    u32 shift = static_cast<u32>(address % 16);
    // From this end on 24 bytes may not be read any more.
    u32 unsafe = static_cast<u32>(max(min(p.n - run.begin - READ, static_cast<i64>(run.size)), -1ll) + 1);
    // The sum of two multiples of 2^-24 below 2^21 is exact in binary64: one rounding is enough.
    u32 plain = ELEMENT == BINARY16 && p.target == TO_BINARY32 && !p.mean;
    asm volatile("" : "+r"(shift), "+r"(unsafe), "+r"(plain));  // or they are computed anew in every turn
    const i64* ends = p.offsets + run.first + 1 + lane;
    int todo = static_cast<int>(run.last - run.first);
    // The offsets of a whole array are one more than its segments.
    int to_come = static_cast<int>(min(p.segments - run.first, static_cast<i64>(todo + 2 * AT_ONCE)));
    const auto end_of = [&](int ahead) {
        return ahead + lane < to_come ? static_cast<u64>(ends[ahead] - run.begin) : ~0ull;
    };
    u64 next = end_of(0), later = end_of(AT_ONCE);
    u32 so_far = 0;
#if PREFETCH
    u32 asked = 0;
#endif
#pragma unroll 1
    for (i64 segment = run.first + lane; todo > 0; segment += AT_ONCE, ends += AT_ONCE, todo -= AT_ONCE, to_come -= AT_ONCE) {
        const u32 end = next >> 32 ? ~0u : static_cast<u32>(next);
        next = later;
        later = end_of(2 * AT_ONCE);
        u32 begin = __shfl_up_sync(ALL, end, 1);
        if (lane == 0) begin = so_far;
        so_far = __shfl_sync(ALL, end, AT_ONCE - 1);
#if PREFETCH
        if (asked < so_far + PREFETCH / sizeof(Code) && asked < run.size) {
            asked = max(asked, __shfl_sync(ALL, begin, 0));
            const u32 at = asked + lane * (128 / sizeof(Code));
            if (at < run.size) asm volatile("prefetch.global.L2 [%0];" ::"l"(base + at * sizeof(Code)));
            asked += WARP * (128 / sizeof(Code));
        }
#endif
        const bool has_lane = (AT_ONCE == WARP || lane < AT_ONCE) && lane < todo;
        const bool is_one = has_lane && begin <= end && end <= run.size;
        const u32 length = is_one ? end - begin : 0;
        const bool is_long = length > most;
        const u32 mine = is_long ? 0 : length, from = mine ? begin * static_cast<u32>(sizeof(Code)) + shift : 0;
        bool at_end = unsafe == 0;
        if (__any_sync(ALL, is_long || (mine && end >= unsafe))) {
            at_end = __any_sync(ALL, mine && end >= unsafe) || at_end;
            for (u32 others = __ballot_sync(ALL, is_long); others; others &= others - 1) {
                const int who = __ffs(others) - 1;
                const i64 theirs = __shfl_sync(ALL, length, who);
                append(p.list, __shfl_sync(ALL, segment, who), run.begin + __shfl_sync(ALL, begin, who), theirs,
                       chunks_of(theirs, p.together));
            }
        }
        Sums sums = at_end ? careful_sums(base, from, mine, false, shared)
                           : sums_of<false>(base, from, mine, false, shared);
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
        float both = sums.value.rows.x + sums.value.rows.y;
        if (__any_sync(ALL, both != both && mine <= PER_LOAD)) {
            sums = careful_sums(base, from, mine, true, shared);
            both = sums.value.rows.x + sums.value.rows.y;
        }
        if (plain && sums.alone) {
            if (has_lane && !is_long)
                static_cast<float*>(p.out)[segment] = is_one ? both + 0.0f : __int_as_float(0x7fffffff);
        } else
#endif
            if (has_lane && !is_long)
            store(p, segment, sums, length, is_one);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) segments(const __grid_constant__ Segments p) {
    __shared__ Shared shared[WARPS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    Run run;
    run.first = (static_cast<i64>(blockIdx.x) * WARPS + warp) * p.per_warp;
    const i64 last = min(run.first + p.per_warp, p.segments);
#pragma unroll 1
    for (; run.first < last; run.first = run.last) {
        run.begin = p.offsets[run.first];
        run.last = last;
        // All at once; one by one where they are too long together, or where offsets are not what they should be.
        for (int attempt = 0; attempt < 2; ++attempt) {
            const i64 end = p.offsets[run.last], size = end - run.begin;
            const bool good = run.begin >= 0 && size >= 0 && end <= p.n;
            if (good && size < 1ll << 28) {
                run.size = static_cast<u32>(size);
                sum_run(p, run, shared[warp]);
                break;
            }
            if (run.last == run.first + 1) {
                const Target target = static_cast<Target>(p.target);
                if (good)
                    append(p.list, run.first, run.begin, size, chunks_of(size, p.together));
                else if (lane == 0)
                    store_rounded(place(p.out, run.first, target), __longlong_as_double(0x7fffffffffffffff), target);
                break;
            }
            run.last = run.first + 1;
        }
    }
}
