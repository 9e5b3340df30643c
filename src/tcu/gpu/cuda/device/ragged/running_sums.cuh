// Running sums of segments that lie one after another in shared memory, by a warp, whatever their lengths are.
//
// Compiled as scan/tile_lines.cuh says, with LEVELS 1 and PART: numbers of a lane where sums are exact; else a group's.

#pragma once

#include "device/exact/range.cuh"
#include "device/scan/tile_lines.cuh"
#include "device/warp/uniform.cuh"
#include "device/warp/warp_scan.cuh"

namespace tcu::ragged {

constexpr int SIZE = sizeof(Code), RESULT_SIZE = sizeof(finish::ResultCode);
constexpr int MOST_LOG = 13;  // of the numbers of a tile

// Whole segments in shared memory.
struct SegmentTile {
    const char* numbers;
    char* results;
    int count;  // numbers
    int segments;
    const u16* begins;  // of the segments, and the end of the last
    const u32* marks;   // a bit for each number in the order of the scan, and one more: set where a segment begins
};

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
constexpr bool MAY_BE_EXACT = true;

// Whether no sum of the tile's numbers is rounded, in whatever order they are added up.
__device__ inline bool sums_are_exact(const SegmentTile& tile) {
    const int past = static_cast<int>(reinterpret_cast<u64>(tile.numbers) % 16);
    const uint4* const granules = reinterpret_cast<const uint4*>(tile.numbers - past);
    exact::PairRange seen;
    for (int i = threadIdx.x % WARP; i * 16 < past + tile.count * SIZE; i += WARP) {
        Vector x;
        x.words = granules[i];
#pragma unroll
        for (int word = 0; word < 4; ++word) seen.see(x.word[word]);
    }
    const int top = warp::reduce_max(max(seen.top(0), seen.top(1)));
    const int bottom = exact::FIELDS - warp::reduce_max(exact::FIELDS - min(seen.bottom(0), seen.bottom(1)));
    return exact::fits(top, bottom, MOST_LOG, 53);
}

// Rounds a lane's sums, which are in the order of the scan.
__device__ inline void round_part(const double (&values)[PART], scan::ExactResults& r) {
    const auto place = [](int i) { return REVERSE ? PART - 1 - i : i; };
#pragma unroll
    for (int i = 0; i < PART; i += 2) {
        if constexpr (RESULT_SIZE == 2) {
            const u32 pair = scan::rounded_pair(values[i], values[min(i + 1, PART - 1)]);
            r.codes[place(i)] = static_cast<u16>(pair);
            if (i + 1 < PART) r.codes[place(i + 1)] = static_cast<u16>(pair >> 16);
        } else {
            r.codes[place(i)] = finish::rounded(values[i]);
            if (i + 1 < PART) r.codes[place(i + 1)] = finish::rounded(values[i + 1]);
        }
    }
}

// Where sums are exact, numbers lie in the lanes one after another, wherever segments begin, and the sum of a segment
// before a lane is the difference of two sums of all numbers.
__device__ inline void scan_exactly(const SegmentTile& tile) {
    const int lane = threadIdx.x % WARP;
    double before_pass = 0;
#pragma unroll 1
    for (int base = 0; base < tile.count; base += WARP * PART) {
        const int start = base + lane * PART, left = min(tile.count - start, PART);
        const int at = left > 0 ? REVERSE ? tile.count - start - PART : start : 0;
        u32 marks = 0;
        if (left > 0) marks = __funnelshift_r(tile.marks[start / 32], tile.marks[start / 32 + 1], start) & ((1u << PART) - 1);
        scan::ExactPart x;
        scan::read_part<2>(tile.numbers + at * SIZE, x);
        double numbers[PART], sum = 0;
#pragma unroll
        for (int i = 0; i < PART; ++i) {
            numbers[i] = to_binary64(x.codes[REVERSE ? PART - 1 - i : i]);
            if (marks >> i & 1) sum = 0;
            sum += numbers[i];
        }
        // Not the difference of both: what lies behind the last number may be NaN.
        const double all = warp::inclusive_scan<WARP>(sum), earlier = scan::exclusive<WARP>(all, lane);
        const u32 marked = __ballot_sync(ALL, marks != 0), below = marked & ((1u << lane) - 1);
        const double at_mark = __shfl_sync(ALL, earlier, below ? 31 - __clz(below) : 0);
        double running = below ? earlier - at_mark : before_pass + earlier;
        const double total = __shfl_sync(ALL, all, WARP - 1);
        const double at_last_mark = __shfl_sync(ALL, earlier, marked ? 31 - __clz(marked) : 0);
        before_pass = marked ? total - at_last_mark : before_pass + total;
        double values[PART];
#pragma unroll
        for (int i = 0; i < PART; ++i) {
            if (marks >> i & 1) running = 0;
            if (EXCLUSIVE) values[i] = running;
            running += numbers[i];
            if (!EXCLUSIVE) values[i] = running;
        }
        scan::ExactResults r;
        round_part(values, r);
        char* const to = tile.results + at * RESULT_SIZE;
        if (left == PART)
            scan::write_part<RESULT_SIZE>(to, r, 0, PART);
        else
            scan::write_part<RESULT_SIZE>(to, r, REVERSE ? PART - left : 0, REVERSE ? PART : left);
    }
}
#else
constexpr bool MAY_BE_EXACT = false;
#endif

#ifndef TURNED
#define TURNED 1
#endif

// Writes results `low` to `high` - 1 of a group.  Lanes begin at different ones: groups lie in as few banks as they have
// numbers, where each lane would wait for others.
__device__ inline void write_group(char* at, const scan::Results& r, int low, int high) {
    if constexpr (RESULT_SIZE == 2 || !TURNED) {
        scan::write_part<RESULT_SIZE>(at, r, low, high);
    } else {
        constexpr int SIDE_BY_SIDE = 128 / (scan::GROUP * RESULT_SIZE);  // lanes whose groups lie in different banks
        const int turn = threadIdx.x / SIDE_BY_SIDE % scan::GROUP;
        finish::ResultCode codes[scan::GROUP];
#pragma unroll
        for (int i = 0; i < scan::GROUP; ++i) codes[i] = r.codes[i];
#pragma unroll
        for (int step = scan::GROUP / 2; step > 0; step /= 2) {
            finish::ResultCode turned[scan::GROUP];
#pragma unroll
            for (int i = 0; i < scan::GROUP; ++i) turned[i] = turn & step ? codes[(i + step) % scan::GROUP] : codes[i];
#pragma unroll
            for (int i = 0; i < scan::GROUP; ++i) codes[i] = turned[i];
        }
#pragma unroll
        for (int i = 0; i < scan::GROUP; ++i) {
            const int which = (i + turn) % scan::GROUP;
            if (which >= low && which < high) reinterpret_cast<finish::ResultCode*>(at)[which] = codes[i];
        }
    }
}

// A lane has a group.  Segments lie in the lanes one after another, as many at a time as 32 lanes have room for; of a
// longer one come its lines, and what is left of it comes with the segments behind it.
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
        const double sum = scan::scan_part(x, scan::LanesOfRow{lane - first, first, WARP}, start, r);
        const int low = REVERSE ? max(-offset, 0) : 0, high = REVERSE ? scan::GROUP : min(own_length - offset, scan::GROUP);
        if (has_group) write_group(tile.results + at * RESULT_SIZE, r, low, high);
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

__device__ __noinline__ void scan_any_groups(const SegmentTile& tile, u32* list) { scan_groups(tile, list); }

// Scans the segments of a tile.  `list`: room for 32 words.
__device__ inline void scan_tile(const SegmentTile& tile, u32* list) {
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    if (sums_are_exact(tile))
        scan_exactly(tile);
    else
        scan_any_groups(tile, list);
#else
    scan_groups(tile, list);
#endif
}

// Called by a whole warp: stores results that lie in shared memory.  Where these and their places begin alike in 16
// bytes, the copy engine takes whole granules; those that share a granule with other numbers are stored one by one.
__device__ inline void store_results(finish::ResultCode* to, const char* results, int count) {
    const int lane = threadIdx.x % WARP, shift = static_cast<int>(reinterpret_cast<u64>(to) % 16);
    const finish::ResultCode* const codes = reinterpret_cast<const finish::ResultCode*>(results);
    load::release_to_copies();
    __syncwarp();
    if (reinterpret_cast<u64>(results) % 16 != shift) {
        for (int i = lane; i < count; i += WARP) to[i] = codes[i];
        return;
    }
    const int bytes = count * RESULT_SIZE, head = min(-shift & 15, bytes), whole = (bytes - head) / 16 * 16;
    if (lane == 0 && whole) {
        load::start_store(reinterpret_cast<char*>(to) + head, results + head, whole);
        load::commit_stores();
    }
    if (lane < head / RESULT_SIZE) to[lane] = codes[lane];
    const int rest = (head + whole) / RESULT_SIZE + lane;
    if (rest < count) to[rest] = codes[rest];
}

}  // namespace tcu::ragged
