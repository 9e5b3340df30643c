// Running sums of segments that lie one after another in shared memory, by a warp, whatever their lengths are.
//
// Compiled as scan/tile_lines.cuh says, with LEVELS 1, EXACT 0, TAIL 0 and PART: numbers of a group.

#pragma once

#include "device/ragged/segment_windows.cuh"
#include "device/scan/store_run.cuh"
#include "device/scan/tile_lines.cuh"
#include "device/warp/warp_scan.cuh"

namespace tcu::ragged {

constexpr int RESULT_SIZE = sizeof(finish::ResultCode);

// A window, and where its results go in shared memory.
struct SegmentTile : SegmentWindow {
    char* results;
};

// Where a segment's mark is: at its first number in the order of the scan, in granules of memory.
__device__ inline int mark_of(int begin, int end, int count, int past) {
    return REVERSE ? (past + count + PER_LOAD - 1) / PER_LOAD * PER_LOAD - (past + end) : past + begin;
}

#if MARKED
constexpr int NUMBERS = 16, GRANULES = NUMBERS / PER_LOAD;  // of a lane

// The place in memory of a lane's number i in the order of the scan.
__device__ constexpr int place_of(int i) { return REVERSE ? NUMBERS - 1 - i : i; }

#if ELEMENT == BINARY32
struct LaneNumbers {
    double numbers[NUMBERS];

    __device__ explicit LaneNumbers(const Vector (&x)[GRANULES]) {
#pragma unroll
        for (int i = 0; i < NUMBERS; ++i) numbers[i] = to_binary64(x[i / PER_LOAD].codes[i % PER_LOAD]);
    }

    // Adds number i in the order of the scan.
    __device__ double add_to(double sum, int i) const { return sum + numbers[place_of(i)]; }
};
#else
// The lower numbers of words are converted, the higher ones moved (types/moved.cuh), as each way alone would leave the
// units of the other idle.
struct LaneNumbers {
    double low[NUMBERS / 2];
    u32 high[NUMBERS / 2];

    __device__ explicit LaneNumbers(const Vector (&x)[GRANULES]) {
#pragma unroll
        for (int i = 0; i < NUMBERS / 2; ++i) {
            const u32 word = x[i / 4].word[i % 4];
            low[i] = to_binary64(static_cast<Code>(word));
            high[i] = __double2hiint(moved(word, true));
        }
    }

    __device__ double add_to(double sum, int i) const {
        const int place = place_of(i);
        if (place % 2) return fma(__hiloint2double(static_cast<int>(high[place / 2]), 0), UP, sum);
        return sum + low[place / 2];
    }
};
#endif

// Rounds two results of a lane, numbers i and i + 1 in the order of the scan, and puts them in their places.
__device__ inline void put_two(Vector (&x)[GRANULES], int i, double first, double second) {
#if ELEMENT == BINARY32
    x[place_of(i) / PER_LOAD].codes[place_of(i) % PER_LOAD] = finish::rounded(first);
    x[place_of(i + 1) / PER_LOAD].codes[place_of(i + 1) % PER_LOAD] = finish::rounded(second);
#else
    const int word = place_of(i) / 2;
    x[word / 4].word[word % 4] = REVERSE ? finish::rounded_pair(second, first) : finish::rounded_pair(first, second);
#endif
}

// Where sums are exact, some granules lie in each lane, wherever segments begin, and the sum of a segment before a
// lane is the difference of two sums of all numbers.  Results take the places of numbers.  A group in each lane takes
// longer: binary16, segments of 4 numbers on average, 1.2 in place of 2.8 TB/s, of 100 numbers 2.4; binary32 2.6 in place
// of 3.2 and 3.1 in place of 3.6 (H200, 2^28 numbers).
__device__ inline void scan_exactly(const SegmentTile& tile) {
    const int lane = threadIdx.x % WARP;
    const int past = static_cast<int>(reinterpret_cast<u64>(tile.numbers) % 16) / SIZE;
    uint4* const memory = reinterpret_cast<uint4*>(tile.numbers - past * SIZE);
    const u16* const marks_of_lanes = reinterpret_cast<const u16*>(tile.marks);
    const int granules = (past + tile.count + PER_LOAD - 1) / PER_LOAD;
    double before_pass = 0;
#pragma unroll 1
    for (int base = 0; base * GRANULES < granules; base += WARP) {
        const int first = REVERSE ? granules - (base + lane + 1) * GRANULES : (base + lane) * GRANULES;
        const auto is_one = [&](int i) { return first + i >= 0 && first + i < granules; };
        Vector x[GRANULES];
#pragma unroll
        for (int i = 0; i < GRANULES; ++i) x[i].words = is_one(i) ? memory[first + i] : make_uint4(0, 0, 0, 0);
        const u32 marks = marks_of_lanes[base + lane];
        const LaneNumbers numbers(x);
        double sum = 0;
#pragma unroll
        for (int i = 0; i < NUMBERS; ++i) {
            if (marks >> i & 1) sum = 0;
            sum = numbers.add_to(sum, i);
        }
        const double all = warp::inclusive_scan<WARP>(sum), earlier = all - sum;
        const u32 marked = __ballot_sync(ALL, marks != 0), below = marked & ((1u << lane) - 1);
        const double at_mark = __shfl_sync(ALL, earlier, below ? 31 - __clz(below) : 0);
        double running = below ? earlier - at_mark : before_pass + earlier;
        const double total = __shfl_sync(ALL, all, WARP - 1);
        const double at_last_mark = __shfl_sync(ALL, earlier, marked ? 31 - __clz(marked) : 0);
        before_pass = marked ? total - at_last_mark : before_pass + total;
#pragma unroll
        for (int i = 0; i < NUMBERS; i += 2) {
            double values[2];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                if (marks >> (i + j) & 1) running = 0;
                if (EXCLUSIVE) values[j] = running;
                running = numbers.add_to(running, i + j);
                if (!EXCLUSIVE) values[j] = running;
            }
            put_two(x, i, values[0], values[1]);
        }
#pragma unroll
        for (int i = 0; i < GRANULES; ++i)
            if (is_one(i)) memory[first + i] = x[i].words;
    }
}
#endif

// The results of a lane's group, where `start` is the sum of the segment before the line.  Returns the sum up to the
// group's end, from the line's beginning on.
__device__ inline double scan_group(const scan::Group& x, const scan::LanesOfRow& lanes, double start, scan::Results& r) {
    const scan::GroupSums sums(x);
    const double all = lanes.inclusive(sums.total());
    r = sums.results(start + lanes.exclusive(all) + 0.0);  // zero is added so that no result is -0
    return all;
}

// A lane has a group.  Segments lie in the lanes one after another, as many at a time as 32 lanes have room for; of a
// longer one come its lines, and what is left of it comes with the segments behind it.
//
// Lanes that write their results in turns, so that they meet in no bank, took longer: binary32, segments of 8 numbers on
// average, 3.1 in place of 3.3 TB/s (H200).
__device__ inline void scan_groups(const SegmentTile& tile, u32* list) {
    const int lane = threadIdx.x % WARP;
    scan::AlignedBlocks<4> lines;
    double before_line = 0;
    int done = 0;  // groups of the segment
#pragma unroll 1
    for (int segment = 0; segment < tile.segments;) {
        const int mine = min(segment + lane, tile.segments - 1);
        const int begin = tile.begins[mine], length = tile.begins[mine + 1] - begin;
        const int groups = segment + lane < tile.segments ? (length + scan::GROUP - 1) / scan::GROUP - (lane ? 0 : done) : 0;
        const int behind = static_cast<int>(warp::inclusive_scan(static_cast<u32>(groups)));
        const u32 fitting = __ballot_sync(ALL, behind <= WARP);
        const int together = fitting == ALL ? WARP : __ffs(~fitting) - 1;
        int first = 0, used = WARP, group = done + lane;  // of a line
        u32 entry = static_cast<u32>(length) << 16 | begin;
        double start = before_line;
        if (together) {
            used = __shfl_sync(ALL, behind, together - 1);
            const u32 starts = warp::reduce_or(lane < together && groups ? 1u << (behind - groups) : 0);
            __syncwarp();
            if (lane < together && groups) list[behind - groups] = entry;
            __syncwarp();
            first = 31 - __clz(starts & ((2u << lane) - 1) | 1);
            entry = list[first];
            group = lane - first + (first ? 0 : done);
            start = first ? 0 : before_line;
        } else {
            entry = __shfl_sync(ALL, entry, 0);
        }
        const bool has_group = lane < used;
        const int own_length = static_cast<int>(entry >> 16);
        const int offset = REVERSE ? own_length - (group + 1) * scan::GROUP : group * scan::GROUP;
        const int at = has_group ? static_cast<int>(entry & 0xffff) + offset : 0;
        scan::Group x;
        scan::read_part<SIZE>(tile.numbers + at * SIZE, x);
        scan::Results r;
        const double sum = scan_group(x, scan::LanesOfRow{lane - first, first, WARP}, start, r);
        const int low = REVERSE ? max(-offset, 0) : 0, high = REVERSE ? scan::GROUP : min(own_length - offset, scan::GROUP);
        if (has_group) scan::write_part<RESULT_SIZE>(tile.results + at * RESULT_SIZE, r, low, high, scan::Around());
        if (together) {
            segment += together;
            done = 0;
            before_line = 0;
            continue;
        }
        lines.push(done / WARP, __shfl_sync(ALL, sum, WARP - 1));
        done += WARP;
        before_line = lines.before<0, 4>(done / WARP);
        if (done * scan::GROUP >= own_length) {
            ++segment;
            done = 0;
            before_line = 0;
        }
    }
}

// Not inline, so that it takes no registers from scan_exactly.
__device__ __noinline__ void scan_any_groups(const SegmentTile& tile, u32* list) { scan_groups(tile, list); }

// Scans the segments of a tile.  `list`: room for 32 words.
__device__ inline void scan_tile(const SegmentTile& tile, u32* list) {
#if MARKED
    if (sums_are_exact(tile))
        scan_exactly(tile);
    else
        scan_any_groups(tile, list);
#else
    scan_groups(tile, list);
#endif
}

}  // namespace tcu::ragged
