// Blocks of a CUDA kernel on the host: every thread a fibre, which runs until it waits for others.
//
// Some blocks are there at a time, and their warps take turns by chance, as far as they do not wait for each other.
// What is copied in the background, to shared memory and from there, comes some time later, by chance too; until then
// its place holds rubbish.  Shared memory has addresses of 32 bits, as kernels expect.
//
// What the fragments of mma.sync are is written here once more, element by element.

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __noinline__
#define __CUDA_ARCH__ 900

using std::max;
using std::min;

struct Index { unsigned x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
static Index threadIdx, blockIdx, gridDim, blockDim;

template <typename To, typename From>
static To as(From x) {
    static_assert(sizeof(To) == sizeof(From), "bits are copied");
    To result;
    std::memcpy(&result, &x, sizeof x);
    return result;
}

// ---- numbers ----

static float2 make_float2(float x, float y) { return {x, y}; }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static float __uint_as_float(unsigned x) { return as<float>(x); }
static float __int_as_float(int x) { return as<float>(x); }
static unsigned __float_as_uint(float x) { return as<unsigned>(x); }
static double __longlong_as_double(long long x) { return as<double>(x); }
static long long __double_as_longlong(double x) { return as<long long>(x); }
static double __hiloint2double(int high, int low) {
    return as<double>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low));
}
static float __fmul_rn(float x, float y) { return x * y; }
static double __dmul_rn(double x, double y) { return x * y; }
static float __fadd_rn(float x, float y) { return x + y; }
static double __dadd_rn(double x, double y) { return x + y; }
static float __double2float_rn(double x) { return static_cast<float>(x); }
static float __double2float_rz(double x) {
    const float nearest = static_cast<float>(x);
    return std::isfinite(x) && std::fabs(static_cast<double>(nearest)) > std::fabs(x) ? std::nextafterf(nearest, 0.0f)
                                                                                      : nearest;
}
static float __int2float_rz(int x) { return __double2float_rz(x); }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __ffs(unsigned x) { return __builtin_ffs(x); }
static int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }

static unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
    return (static_cast<unsigned long long>(high) << 32 | low) >> (bits & 31);
}

static unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned bits) {
    const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
    return both << std::min(bits, 32u) >> 32;
}

static unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long both = low | static_cast<unsigned long long>(high) << 32;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= (both >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}

static unsigned short half_of(float x) { return as<unsigned short>(static_cast<_Float16>(x)); }
static unsigned short half_of_double(double x) { return as<unsigned short>(static_cast<_Float16>(x)); }
static float of_half(unsigned short bits) { return static_cast<float>(as<_Float16>(bits)); }
static float of_bfloat(unsigned short bits) { return as<float>(static_cast<unsigned>(bits) << 16); }
static unsigned short bfloat_of(float x) {
    const unsigned bits = as<unsigned>(x);
    if (x != x) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

namespace host {

// Both halves of a word as numbers of binary16; a NaN has all fraction bits set.
template <typename Work>
static unsigned on_halves(const Work& work) {
    unsigned result = 0;
    for (int at = 0; at < 32; at += 16) {
        const float x = work([&](unsigned word) { return of_half(word >> at & 0xffff); });
        result |= static_cast<unsigned>(x != x ? 0x7fff : half_of(x)) << at;
    }
    return result;
}

static float half(float x) { return of_half(half_of(x)); }

static unsigned larger_magnitudes(unsigned a, unsigned b) {
    return on_halves([&](auto number) {
        const float x = std::fabs(number(a)), y = std::fabs(number(b));
        return x != x || y != y ? NAN : std::max(x, y);
    });
}

static unsigned leftovers(unsigned pair, unsigned whole) {
    return on_halves([&](auto number) {
        const float x = std::fmin(std::fabs(number(pair)), number(whole));
        return half(x - half(half(x + number(whole)) - number(whole)));
    });
}

static unsigned times_plus(unsigned a, unsigned b, unsigned c) {
    return on_halves([&](auto number) { return std::fma(number(a), number(b), number(c)); });
}

// ---- threads ----

enum Outcome { DONE, STUCK, OUTSIDE, WRONG_COPY, LEFT_BEHIND };
enum Waiting { NOTHING, WARP_MATES, BLOCK_MATES, BARRIER, MEMORY };

constexpr unsigned MOST_BLOCKS = 8, MEMORY_BYTES = 256 << 10;  // at a time; of a block's shared memory
constexpr unsigned RUBBISH = 0x5a;
constexpr size_t STACK = 64 << 10;  // bytes of a thread

// Of a thread's own, in their order.
struct Errand {
    enum Kind { COPY, ARRIVAL, GROUP } kind;
    void* to;
    const void* from;
    unsigned bytes, barrier;
};

struct Fibre {
    ucontext_t context;
    Waiting waiting;
    bool done;
    unsigned turns, barrier, odd;
    std::vector<Errand> errands, stores;
};

struct Block {
    unsigned number;
    bool runs;
};

struct Barrier { unsigned count, missing, phases; long bytes; };
struct Copy { void* to; const void* from; unsigned bytes, barrier, place; };

static std::vector<Fibre> fibres;  // the threads of the blocks' places, one place after another
static Block blocks[MOST_BLOCKS];
static unsigned self, threads;
static ucontext_t scheduler;
static Outcome outcome;
static std::vector<Barrier> barriers;  // the word that is one for a kernel has its number here
static char* stacks;
static std::vector<Copy> copies;
static size_t under_way;  // errands of all threads
static unsigned long long chance;
static const char *readable_from, *readable_to;
static void (*body)();
alignas(128) static unsigned char memories[MOST_BLOCKS][MEMORY_BYTES];

static unsigned place() { return self / threads; }
static unsigned char* memory() { return memories[place()]; }

static unsigned random_below(unsigned n) {
    chance = chance * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<unsigned>(chance >> 33) % n;
}

static void wait_for(Waiting mates) {
    fibres[self].waiting = mates;
    swapcontext(&fibres[self].context, &scheduler);
}

static void fail(Outcome what) {
    outcome = what;
    while (true) wait_for(BLOCK_MATES);
}

// ---- memory ----

constexpr long BEGIN = 1 << 30;  // of shared memory's addresses, so that none is near zero

static unsigned shared_address(const void* at) {
    return static_cast<unsigned>(BEGIN + (static_cast<const unsigned char*>(at) - memories[0]));
}

template <typename T = char>
static T* at(unsigned address) {
    if (address % sizeof(T)) fail(WRONG_COPY);
    return reinterpret_cast<T*>(memories[0] + (static_cast<long>(address) - BEGIN));
}

template <typename T>
static const T& readable(const T* from, unsigned bytes = sizeof(T)) {
    const char* const first = reinterpret_cast<const char*>(from);
    if (reinterpret_cast<size_t>(from) % alignof(T)) fail(WRONG_COPY);
    if (readable_to && (first < readable_from || first + bytes > readable_to)) fail(OUTSIDE);
    return *from;
}

// What another block may have written meanwhile.
template <typename T>
static T look(const T* from) {
    wait_for(MEMORY);
    return *from;
}

// ---- barriers and copies in the background ----

static void prepare_barrier(unsigned barrier, unsigned count) {
    *at<unsigned long long>(barrier) = barriers.size();
    barriers.push_back({count, count, 0, 0});
}

static Barrier& barrier_at(unsigned barrier) {
    const unsigned long long number = *at<unsigned long long>(barrier);
    if (number >= barriers.size()) fail(STUCK);
    return barriers[number];
}

static void conclude(Barrier& b) {
    if (b.missing || b.bytes) return;
    b.missing = b.count;
    ++b.phases;
}

static void arrive_at(unsigned barrier, unsigned bytes = 0) {
    Barrier& b = barrier_at(barrier);
    b.bytes += bytes;
    --b.missing;
    conclude(b);
}

static bool has_passed(unsigned barrier, unsigned odd) { return barrier_at(barrier).phases % 2 != odd; }

static void wait_for_barrier(unsigned barrier, unsigned odd) {
    fibres[self].barrier = barrier;
    fibres[self].odd = odd;
    if (!has_passed(barrier, odd)) wait_for(BARRIER);
}

static void check_copy(const void* a, const void* b, unsigned bytes) {
    if ((reinterpret_cast<size_t>(a) | reinterpret_cast<size_t>(b) | bytes) % 16) fail(WRONG_COPY);
}

static void copy_bulk_to(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
    check_copy(at(to), from, bytes);
    if (bytes) readable(static_cast<const char*>(from), bytes);
    std::memset(at(to), RUBBISH, bytes);
    copies.push_back({at(to), from, bytes, barrier, place()});
}

static void begin(std::vector<Errand>& errands, const Errand& errand) {
    errands.push_back(errand);
    ++under_way;
}

static void store_bulk_from(const void* to, unsigned from, unsigned bytes) {
    check_copy(to, at(from), bytes);
    begin(fibres[self].stores, {Errand::COPY, const_cast<void*>(to), at(from), bytes, 0});
}

static void commit_stores() { begin(fibres[self].stores, {Errand::GROUP, nullptr, nullptr, 0, 0}); }

template <unsigned BYTES>
static void copy_later(unsigned to, const void* from, bool is_group) {
    if (BYTES == 16) readable(static_cast<const uint4*>(from));
    struct alignas(BYTES) Piece { char bytes[BYTES]; };
    std::memset(at<Piece>(to), RUBBISH, BYTES);
    begin(fibres[self].errands, {Errand::COPY, at(to), from, BYTES, 0});
    if (is_group) begin(fibres[self].errands, {Errand::GROUP, nullptr, nullptr, 0, 0});
}

static void arrive_later(unsigned barrier) {
    begin(fibres[self].errands, {Errand::ARRIVAL, nullptr, nullptr, 0, barrier});
}

static void run_first(std::vector<Errand>& errands) {
    const Errand errand = errands.front();
    --under_way;
    errands.erase(errands.begin());
    if (errand.kind == Errand::COPY) std::memcpy(errand.to, errand.from, errand.bytes);
    if (errand.kind == Errand::ARRIVAL) arrive_at(errand.barrier);
}

static void run_groups(std::vector<Errand>& errands, long pending) {
    const auto is_group = [](const Errand& errand) { return errand.kind == Errand::GROUP; };
    while (std::count_if(errands.begin(), errands.end(), is_group) > pending) run_first(errands);
}

static void wait_for_groups(long pending) { run_groups(fibres[self].errands, pending); }

static void wait_for_stores(long pending) { run_groups(fibres[self].stores, pending); }

// Some of what is under way arrives; whether there was any.
static bool deliver() {
    const bool any = under_way || !copies.empty();
    for (size_t i = copies.size(); i-- > 0;) {
        if (random_below(2)) continue;
        const Copy copy = copies[i];
        copies.erase(copies.begin() + i);
        std::memcpy(copy.to, copy.from, copy.bytes);
        Barrier& b = barrier_at(copy.barrier);
        b.bytes -= copy.bytes;
        conclude(b);
    }
    for (size_t t = 0; under_way && t < fibres.size(); ++t)
        for (std::vector<Errand>* errands : {&fibres[t].errands, &fibres[t].stores})
            while (!errands->empty() && random_below(4)) run_first(*errands);
    return any;
}

// ---- warps ----

struct Lanes { unsigned long long value[2][32]; };
static std::vector<Lanes> exchanges;

// What all lanes have brought, once all are here.
template <typename T>
static const unsigned long long* exchange(T x) {
    static_assert(sizeof(T) <= 8, "one number");
    const unsigned turn = fibres[self].turns++ % 2;
    Lanes& lanes = exchanges[self / 32];
    lanes.value[turn][self % 32] = 0;
    std::memcpy(&lanes.value[turn][self % 32], &x, sizeof x);
    wait_for(WARP_MATES);
    return lanes.value[turn];
}

template <typename T>
static T of_lane(T x, unsigned lane) {
    const unsigned long long* const all = exchange(x);
    std::memcpy(&x, &all[lane % 32], sizeof x);
    return x;
}

// To lanes that have one so far below, in their part of the warp, what it has.
template <typename T>
static void add_lower(T& v, unsigned step, unsigned parts) {
    const unsigned lane = self % 32, first = lane & parts >> 8;
    const T other = of_lane(v, lane - step);
    if (lane >= first + step) v += other;
}

template <typename Work>
static unsigned reduced(unsigned x, const Work& work) {
    const unsigned long long* const all = exchange(x);
    x = static_cast<unsigned>(all[0]);
    for (int i = 1; i < 32; ++i) x = work(x, static_cast<unsigned>(all[i]));
    return x;
}

// As H100 and H200 add 16 numbers: cut to 25 bits below the largest exponent, added, rounded toward zero.
static float aligned_sum(const double (&terms)[16], int lowest) {
    int exponent = -1000;
    double special = 0;
    for (const double x : terms) {
        if (!std::isfinite(x))
            special += x;
        else if (x != 0)
            exponent = std::max({exponent, std::ilogb(x), lowest});
    }
    if (special != special) return as<float>(0x7fffffff);
    if (special != 0) return static_cast<float>(special);
    double sum = 0;
    for (const double x : terms) sum += std::trunc(std::ldexp(x, 25 - exponent));
    const double result = std::ldexp(sum, exponent - 25);
    if (std::fabs(result) >= 0x1p128) return static_cast<float>(result);  // inf, whatever the rounding
    return result == 0 ? 0 : __double2float_rz(result);
}

struct Fragments16 { unsigned a[2][32][4], b[2][32][2]; };
static std::vector<Fragments16> fragments;

// m16n8k16 without C.
template <float (*VALUE_OF)(unsigned short), int LOWEST>
static void multiply(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                     unsigned b0, unsigned b1) {
    const unsigned lane = self % 32, turn = fibres[self].turns++ % 2;
    Fragments16& f = fragments[self / 32];
    const unsigned words[4] = {a0, a1, a2, a3};
    std::copy(words, words + 4, f.a[turn][lane]);
    f.b[turn][lane][0] = b0;
    f.b[turn][lane][1] = b1;
    wait_for(WARP_MATES);
    float* const results[4] = {&d0, &d1, &d2, &d3};
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        double terms[16];
        for (int k = 0; k < 16; ++k) {
            const int owner = k % 8 / 2, bits = 16 * (k % 2);
            const unsigned x = f.a[turn][row % 8 * 4 + owner][k / 8 * 2 + row / 8];
            const unsigned y = f.b[turn][column * 4 + owner][k / 8];
            terms[k] = static_cast<double>(VALUE_OF(x >> bits)) * VALUE_OF(y >> bits);
        }
        *results[i] = aligned_sum(terms, LOWEST);
    }
}

// ---- the kernel ----

static void start() {
    body();
    wait_for_groups(0);
    wait_for_stores(0);
    fibres[self].done = true;
}

static void begin_block(unsigned place, unsigned number) {
    blocks[place] = {number, true};
    std::memset(memories[place], 0xff, MEMORY_BYTES);
    for (unsigned t = place * threads; t < (place + 1) * threads; ++t) {
        Fibre& fibre = fibres[t];
        getcontext(&fibre.context);
        fibre.context.uc_stack.ss_sp = stacks + t * STACK;
        fibre.context.uc_stack.ss_size = STACK;
        fibre.context.uc_link = &scheduler;
        fibre.waiting = NOTHING;
        fibre.done = false;
        fibre.turns = 0;
        makecontext(&fibre.context, start, 0);
    }
}

// The lanes of a warp run until they wait; whether any has got further.
static bool run_warp(unsigned first) {
    bool moved = false;
    blockIdx.x = blocks[first / threads].number % gridDim.x;
    blockIdx.y = blocks[first / threads].number / gridDim.x;
    for (unsigned t = first; t < first + 32 && !outcome; ++t) {
        Fibre& fibre = fibres[t];
        if (fibre.waiting == BARRIER && has_passed(fibre.barrier, fibre.odd)) fibre.waiting = NOTHING;
        if (fibre.done || (fibre.waiting != NOTHING && fibre.waiting != MEMORY)) continue;
        const bool looks = fibre.waiting == MEMORY;
        fibre.waiting = NOTHING;
        self = t;
        threadIdx.x = t % threads;
        swapcontext(&scheduler, &fibre.context);
        moved |= !looks || fibre.waiting != MEMORY;
    }
    bool all = true;
    for (unsigned t = first; t < first + 32; ++t) all &= !fibres[t].done && fibres[t].waiting == WARP_MATES;
    for (unsigned t = first; all && t < first + 32; ++t) fibres[t].waiting = NOTHING, moved = true;
    return moved;
}

static Outcome end_block(unsigned place) {
    blocks[place].runs = false;
    for (const Copy& copy : copies)
        if (copy.place == place) return LEFT_BEHIND;
    return DONE;
}

// All blocks of a kernel, `across` times `down`, `together` of them at a time; `seed` decides about what is left to
// chance.
static Outcome run_blocks(void (*kernel)(), unsigned across, unsigned down, unsigned size, unsigned together,
                          unsigned seed) {
    body = kernel;
    threads = blockDim.x = size;
    gridDim = {across, down};
    const unsigned count = across * down;
    outcome = DONE;
    chance = seed;
    together = std::min({together, count, MOST_BLOCKS});
    barriers.clear();
    copies.clear();
    under_way = 0;
    fibres.clear();
    fibres.resize(together * threads);
    stacks = static_cast<char*>(std::malloc(fibres.size() * STACK));
    exchanges.resize(fibres.size() / 32);
    fragments.resize(fibres.size() / 32);
    unsigned next = 0;
    for (; next < together; ++next) begin_block(next, next);
    for (unsigned left = count; left && !outcome;) {
        bool moved = deliver();
        for (unsigned place = 0; place < together && !outcome; ++place) {
            if (!blocks[place].runs) continue;
            for (unsigned first = place * threads; first < (place + 1) * threads && !outcome; first += 32) {
                unsigned turns = random_below(8);
                moved |= turns == 0;
                while (turns && !outcome && run_warp(first)) --turns, moved = true;
            }
            bool all = true, none = true;
            for (unsigned t = place * threads; t < (place + 1) * threads; ++t) {
                all &= !fibres[t].done && fibres[t].waiting == BLOCK_MATES;
                none &= fibres[t].done;
            }
            for (unsigned t = place * threads; all && t < (place + 1) * threads; ++t)
                fibres[t].waiting = NOTHING, moved = true;
            if (!none || outcome) continue;
            outcome = end_block(place);
            --left;
            moved = true;
            if (next < count) begin_block(place, next++);
        }
        if (left && !moved && !outcome) outcome = STUCK;
    }
    std::free(stacks);
    return outcome;
}

}  // namespace host

// ---- what kernels call ----

static void __syncthreads() { host::wait_for(host::BLOCK_MATES); }
static void __syncwarp() { host::wait_for(host::WARP_MATES); }
static void __threadfence() {}
static unsigned __cvta_generic_to_shared(const void* at) { return host::shared_address(at); }
template <typename T>
static T __ldg(const T* at) { return host::readable(at); }
static long long __ldg(const long long* at) { return *at; }
static void atomicMax(unsigned* place, unsigned x) { *place = std::max(*place, x); }
template <typename T, typename U>
static T atomicAdd(T* place, U x) {
    const T before = *place;
    *place += x;
    return before;
}
static unsigned atomicInc(unsigned* place, unsigned last) {
    const unsigned before = *place;
    *place = before >= last ? 0 : before + 1;
    return before;
}

template <typename T>
static T __shfl_xor_sync(unsigned, T x, int lanes) {
    return host::of_lane(x, threadIdx.x % 32 ^ lanes);
}
template <typename T>
static T __shfl_up_sync(unsigned, T x, unsigned step) {
    const unsigned lane = threadIdx.x % 32;
    return host::of_lane(x, lane >= step ? lane - step : lane);
}
template <typename T>
static T __shfl_down_sync(unsigned, T x, unsigned step) {
    const unsigned lane = threadIdx.x % 32;
    return host::of_lane(x, lane + step < 32 ? lane + step : lane);
}
template <typename T>
static T __shfl_sync(unsigned, T x, int lane, int width = 32) {
    return host::of_lane(x, (threadIdx.x % 32 & ~(width - 1)) + (lane & (width - 1)));
}
static unsigned __ballot_sync(unsigned, bool x) {
    const unsigned long long* const all = host::exchange(x);
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) result |= static_cast<unsigned>(all[i]) << i;
    return result;
}
static bool __any_sync(unsigned, bool x) { return __ballot_sync(0, x) != 0; }
static bool __all_sync(unsigned, bool x) { return __ballot_sync(0, x) == ~0u; }
static unsigned __reduce_or_sync(unsigned, unsigned x) {
    return host::reduced(x, [](unsigned a, unsigned b) { return a | b; });
}
static unsigned __reduce_min_sync(unsigned, unsigned x) {
    return host::reduced(x, [](unsigned a, unsigned b) { return std::min(a, b); });
}
static unsigned __reduce_max_sync(unsigned, unsigned x) {
    return host::reduced(x, [](unsigned a, unsigned b) { return std::max(a, b); });
}
