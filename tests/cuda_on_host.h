// A block of a CUDA kernel on the host: every thread a fibre, which runs until it waits for others.
//
// What the fragments of mma.sync are is written here once more, element by element, and its arithmetic is
// simple: products added one after the other in binary64, rounded once.

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define __device__
#define __global__
#define __shared__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n)
#define __CUDA_ARCH__ 900

using std::max;
using std::min;

enum Waiting { NOTHING, WARP_MATES, BLOCK_MATES };

struct Fibre {
    ucontext_t context;
    Waiting waiting;
    bool done;
    unsigned mmas;
    std::vector<char> stack;
};

struct Index { unsigned x; };
static Index threadIdx, blockIdx;
static std::vector<Fibre> fibres;
static ucontext_t scheduler;
alignas(16) unsigned char shared[256 << 10];

static void wait_for(Waiting mates) {
    const unsigned self = threadIdx.x;
    fibres[self].waiting = mates;
    swapcontext(&fibres[self].context, &scheduler);
    threadIdx.x = self;
}

static void __syncthreads() { wait_for(BLOCK_MATES); }

template <typename To, typename From>
static To as(From x) {
    static_assert(sizeof(To) == sizeof(From), "bits are copied");
    To result;
    std::memcpy(&result, &x, sizeof x);
    return result;
}

static float __uint_as_float(unsigned x) { return as<float>(x); }
static unsigned __float_as_uint(float x) { return as<unsigned>(x); }
static double __longlong_as_double(long long x) { return as<double>(x); }
static long long __double_as_longlong(double x) { return as<long long>(x); }
static float __fmul_rn(float x, float y) { return x * y; }
static double __dmul_rn(double x, double y) { return x * y; }
static float __fadd_rn(float x, float y) { return x + y; }
static double __dadd_rn(double x, double y) { return x + y; }

static unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long both = low | static_cast<unsigned long long>(high) << 32;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= (both >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}

static unsigned short half_of(float x) { return as<unsigned short>(static_cast<_Float16>(x)); }
static float of_half(unsigned short bits) { return static_cast<float>(as<_Float16>(bits)); }
static unsigned short bfloat_of(float x) {
    const unsigned bits = as<unsigned>(x);
    if (x != x) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void atomicMax(unsigned* place, unsigned x) { *place = std::max(*place, x); }

static void atomicAdd(unsigned long long* place, unsigned long long x) { *place += x; }

struct Exchange { unsigned long long value[32]; };
static std::vector<Exchange> exchanges;

static unsigned __shfl_xor_sync(unsigned, unsigned x, int lanes) {
    const unsigned self = threadIdx.x, warp = self / 32;
    exchanges[warp].value[self % 32] = x;
    wait_for(WARP_MATES);
    const unsigned result = exchanges[warp].value[self % 32 ^ lanes];
    wait_for(WARP_MATES);
    return result;
}

static unsigned long long __shfl_sync(unsigned, unsigned long long x, unsigned lane) {
    const unsigned warp = threadIdx.x / 32;
    exchanges[warp].value[threadIdx.x % 32] = x;
    wait_for(WARP_MATES);
    const unsigned long long result = exchanges[warp].value[lane];
    wait_for(WARP_MATES);
    return result;
}

static void (*body)();

static void start() {
    body();
    fibres[threadIdx.x].done = true;
}

// Every block, one after the other, of a kernel with that many threads.
static int run_blocks(void (*kernel)(), unsigned blocks, unsigned threads) {
    body = kernel;
    exchanges.resize((threads + 31) / 32);
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        std::memset(shared, 0xff, sizeof shared);
        fibres.resize(threads);
        for (unsigned t = 0; t < threads; ++t) {
            Fibre& fibre = fibres[t];
            fibre.stack.resize(64 << 10);
            getcontext(&fibre.context);
            fibre.context.uc_stack.ss_sp = fibre.stack.data();
            fibre.context.uc_stack.ss_size = fibre.stack.size();
            fibre.context.uc_link = &scheduler;
            fibre.waiting = NOTHING;
            fibre.done = false;
            fibre.mmas = 0;
            makecontext(&fibre.context, start, 0);
        }
        for (unsigned left = threads; left;) {
            bool moved = false;
            left = 0;
            for (unsigned t = 0; t < threads; ++t) {
                if (!fibres[t].done && fibres[t].waiting == NOTHING) {
                    threadIdx.x = t;
                    swapcontext(&scheduler, &fibres[t].context);
                    moved = true;
                }
                left += !fibres[t].done;
            }
            for (unsigned first = 0; first < threads; first += 32) {
                bool all = true;
                for (unsigned t = first; t < first + 32; ++t) all &= fibres[t].waiting == WARP_MATES;
                for (unsigned t = first; all && t < first + 32; ++t) fibres[t].waiting = NOTHING, moved = true;
            }
            bool all = left > 0;
            for (const Fibre& fibre : fibres) all &= !fibre.done && fibre.waiting == BLOCK_MATES;
            for (Fibre& fibre : fibres)
                if (all) fibre.waiting = NOTHING, moved = true;
            if (left && !moved) return 1;  // threads wait for threads that never come
        }
    }
    std::vector<Fibre>().swap(fibres);
    return 0;
}
