// A ring in shared memory through which a warp reads a stretch of memory once, from its beginning to its end.  What
// is read next is on its way while the warp computes.
//
// Memory is copied in whole granules of 16 bytes.  Each of them holds at least one byte of the array, so no address
// outside the allocation is touched.  A line of memory (128 bytes) is a line of the ring, except in the array's first
// line.  If lines did not coincide, each line of the ring would take sectors of two lines of memory, five in place of
// four, and what L2 can deliver was the limit (ragged sums of 512 numbers on average, 0.84 of memory's rate, H200).

#pragma once

#include "device/load/bulk_copy.cuh"

namespace tcu::load {

// The offset of a byte in its line of memory; or from the array's first granule, if that is nearer.
__device__ inline u32 behind_line(const void* array, const void* at) {
    const u64 address = reinterpret_cast<u64>(at), line = address & ~(LINE - 1ull);
    return static_cast<u32>(address - max(line, reinterpret_cast<u64>(array) & ~15ull));
}

// CHUNK: bytes of a copy.  CHUNKS: copies that have room.  BEYOND: bytes that a reader may read from the ring's last
// granule on.  EVICT_FIRST: the data are read once (load/evict_first.cuh).
template <int CHUNK, int CHUNKS, int BEYOND = 16, bool EVICT_FIRST = false>
struct Ring {
    static constexpr u32 SIZE = CHUNK * CHUNKS;
    static constexpr bool MASKED = (SIZE & (SIZE - 1)) == 0;  // positions wrap around by a mask
    static_assert(CHUNK % LINE == 0, "lines of memory are lines of the ring");

    struct Memory {
        alignas(LINE) char bytes[SIZE + BEYOND];  // the last copy brings BEYOND bytes more: what follows it in memory
        u64 arrived[CHUNKS];
    };

    Memory* memory;
    const char* from;    // a multiple of 16 bytes
    u32 end;             // of the stretch, as all positions in bytes from there
    u32 asked, there;    // up to where copies have been started, and have arrived
    u32 odd = 0;         // parity of the next phase to wait for: a bit for each place if MASKED, else one for all
    u32 origin = 0;      // unless MASKED: the position that lies at the ring's beginning, or will next
    u32 awaited = 0;     // the place of the copy that arrives next

    // A whole warp calls this and every other function here.
    __device__ explicit Ring(Memory& shared) : memory(&shared), from(nullptr), end(0), asked(0), there(0) {
#if BULK
        if (threadIdx.x % WARP == 0)
            for (int i = 0; i < CHUNKS; ++i) prepare(&memory->arrived[i]);
        __syncwarp();
#endif
    }

    // Begins with `size` bytes at `at` of the array.  Returns their position.  No copy is started yet.
    __device__ u32 begin(const void* array, const void* at, u32 size) {
        const u32 shift = behind_line(array, at);
        from = static_cast<const char*>(at) - shift;
        asm volatile("" : "+l"(from));  // keeps it in registers: otherwise it is recomputed for every copy
        end = shift + size;
        skip(0);
        return shift;
    }

    // After the present stretch, all of which has been asked for, follows another one.  Returns its position, which
    // is behind the present one and begins a copy of its own.  Positions have 32 bits: no warp may read 4 GB.
    __device__ u32 join(const void* array, const void* at, u32 size) {
        const u32 shift = behind_line(array, at), first = asked + shift;
        from = static_cast<const char*>(at) - first;
        end = first + size;
        return first;
    }

    // The next copy to be started is the one with this position.  What lies between is skipped.
    __device__ void skip(u32 position) {
        wait(asked);
        asked = there = position / CHUNK * CHUNK;
        if (MASKED) awaited = asked % SIZE / CHUNK;
        else origin = asked - awaited * CHUNK;  // copies use the places in turn
    }

    // Starts all copies that have room once the first `read` bytes are not needed any more.
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

    // Waits until the first `needed` bytes have arrived.  All of them must have been asked for.
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

    // Waits for all copies under way: the block must not end before they have reached its shared memory.
    __device__ void finish() { wait(asked); }

    // The offset in the ring of a position that is there.
    __device__ u32 place_inside(u32 position) const {
        if (MASKED) return position % SIZE;
        const u32 behind = position - origin;  // or, wrapped around, before it by less than the ring's size
        return min(behind, behind + SIZE);
    }
    // The same; of a position that is not there, some offset in the ring.
    __device__ u32 place(u32 position) const { return min(place_inside(position), SIZE - 1); }
    __device__ const char* at(u32 position) const { return memory->bytes + place(position); }
};

}  // namespace tcu::load
