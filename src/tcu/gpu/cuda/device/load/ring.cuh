// A stretch of memory that a warp reads once, from its beginning to its end, through a ring in shared memory, so that
// what is read next is on its way while the warp computes.
//
// Copied in whole granules of 16 bytes, of which every one holds a byte of the array: no address outside the allocation
// is touched.  Lines of memory are lines of the ring, except in the array's first one: where they are not, each line of
// the ring takes sectors of two, which are five in place of four, and what L2 hands out was the limit (ragged sums of 512
// numbers on average, 0.84 of memory's rate, H200).

#pragma once

#include "device/load/bulk_copy.cuh"

namespace tcu::load {

constexpr u32 LINE = 128;  // bytes

// How far behind the first byte of its line; or behind the array's first granule, if that is nearer.
__device__ inline u32 behind_line(const void* array, const void* at) {
    const u64 address = reinterpret_cast<u64>(at), line = address & ~(LINE - 1ull);
    return static_cast<u32>(address - max(line, reinterpret_cast<u64>(array) & ~15ull));
}

// BEYOND: bytes that may be read from the last granule in the ring on.  EVICT_FIRST: as load/evict_first.cuh says.
template <int CHUNK, int CHUNKS, int BEYOND = 16, bool EVICT_FIRST = false>
struct Ring {
    static constexpr u32 SIZE = CHUNK * CHUNKS;
    static constexpr bool MASKED = (SIZE & (SIZE - 1)) == 0;  // positions wrap around by a mask
    static_assert(CHUNK % LINE == 0, "lines of memory are lines of the ring");

    struct Memory {
        alignas(LINE) char bytes[SIZE + BEYOND];  // behind the last chunk, what follows it
        u64 arrived[CHUNKS];
    };

    Memory* memory;
    const char* from;    // a multiple of 16 bytes
    u32 end;             // of the stretch, in bytes from there
    u32 asked, there;    // what has been asked for and what has arrived, in bytes from there
    u32 odd = 0;         // which copy is the next to arrive: of each place; or, where places take turns, of all
    u32 origin = 0;      // the position that is at the ring's beginning, or will be next, where they do not wrap by a mask
    u32 awaited = 0;     // the number of the place that arrives next

    // By a whole warp, as everything here.
    __device__ explicit Ring(Memory& shared) : memory(&shared), from(nullptr), end(0), asked(0), there(0) {
#if BULK
        if (threadIdx.x % WARP == 0)
            for (int i = 0; i < CHUNKS; ++i) prepare(&memory->arrived[i]);
        __syncwarp();
#endif
    }

    // The stretch of `size` bytes at `at` of the array; returns how far behind `from` it begins.  Nothing is asked for yet.
    __device__ u32 begin(const void* array, const void* at, u32 size) {
        const u32 shift = behind_line(array, at);
        from = static_cast<const char*>(at) - shift;
        asm volatile("" : "+l"(from));  // kept: without, it is computed anew for every copy
        end = shift + size;
        skip(0);
        return shift;
    }

    // What is asked for next is another stretch, when all of this one is; returns where it begins: behind this one,
    // at a chunk of its own.  Positions have 32 bits: no warp is to read 4 GB.
    __device__ u32 join(const void* array, const void* at, u32 size) {
        const u32 shift = behind_line(array, at), first = asked + shift;
        from = static_cast<const char*>(at) - first;
        end = first + size;
        return first;
    }

    // What is asked for next is the chunk with this byte.
    __device__ void skip(u32 position) {
        wait(asked);
        asked = there = position / CHUNK * CHUNK;
        if (MASKED) awaited = asked % SIZE / CHUNK;
        else origin = asked - awaited * CHUNK;  // the place whose turn it is
    }

    // Asks for what has room when the first `read` bytes are not needed any more.
    __device__ void go_on(u32 read) {
        __syncwarp();
        const u32 until = min(end, read + (SIZE - CHUNK + 1));
        while (asked < until) {
            const u32 to = MASKED ? asked % SIZE : asked - origin;
            const u32 most = to == SIZE - CHUNK ? CHUNK + BEYOND : CHUNK;
            const u32 bytes = min((end - asked + 15) & ~15u, most);
            char* const place = memory->bytes + to;
            const char* const source = from + asked;
#if BULK
            if (is_elected()) copy_bulk<EVICT_FIRST>(place, source, bytes, &memory->arrived[to / CHUNK]);
#else
            for (u32 i = threadIdx.x % WARP * 16; i < bytes; i += WARP * 16)
                *reinterpret_cast<uint4*>(place + i) = __ldg(reinterpret_cast<const uint4*>(source + i));
#endif
            asked += CHUNK;
            if (!MASKED && to + CHUNK == SIZE) origin = asked;
        }
    }

    // Until the first `needed` bytes have arrived, all of which have been asked for.
    __device__ void wait(u32 needed) {
#if BULK
        while (there < needed) {
            wait_for_copy(&memory->arrived[awaited], MASKED ? odd >> awaited & 1 : odd);
            const bool is_last = awaited == CHUNKS - 1;
            odd ^= MASKED ? 1 << awaited : is_last;
            awaited = is_last ? 0 : awaited + 1;
            there += CHUNK;
        }
#else
        __syncwarp();
#endif
    }

    // Before the warp leaves: what is under way must find its memory.
    __device__ void finish() { wait(asked); }

    // Where the byte lies, from the ring's beginning on, if it is there.
    __device__ u32 place_inside(u32 position) const {
        if (MASKED) return position % SIZE;
        const u32 behind = position - origin;  // or before it, by less than all the ring
        return min(behind, behind + SIZE);
    }
    // The same; or of one that is not there, somewhere in the ring.
    __device__ u32 place(u32 position) const { return min(place_inside(position), SIZE - 1); }
    __device__ const char* at(u32 position) const { return memory->bytes + place(position); }
};

}  // namespace tcu::load
