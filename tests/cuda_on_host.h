// What a CUDA kernel calls, for the host; how its threads run is in cuda_on_host.cpp, which is compiled once for all.
//
// Shared memory has addresses of 32 bits, as kernels expect.

#include <algorithm>
#include <cstring>

#undef _GLIBCXX_USE_STD_SPEC_FUNCS  // Bessel functions and others; to read them took a seventh of a compilation
#include <cmath>

#pragma GCC visibility push(default)  // what the threads' library has

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
struct alignas(16) float4 { float x, y, z, w; };
struct float2 { float x, y; };
struct alignas(16) double2 { double x, y; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
extern Index threadIdx, blockIdx, gridDim, blockDim;

template <typename To, typename From>
static To as(From x) {
    static_assert(sizeof(To) == sizeof(From), "bits are copied");
    To result;
    std::memcpy(&result, &x, sizeof x);
    return result;
}

// ---- numbers ----

static float2 make_float2(float x, float y) { return {x, y}; }
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static double2 make_double2(double x, double y) { return {x, y}; }
static uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static float __uint_as_float(unsigned x) { return as<float>(x); }
static float __int_as_float(int x) { return as<float>(x); }
static int __float_as_int(float x) { return as<int>(x); }
static unsigned __float_as_uint(float x) { return as<unsigned>(x); }
static double __longlong_as_double(long long x) { return as<double>(x); }
static long long __double_as_longlong(double x) { return as<long long>(x); }
static unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}
static int __double2hiint(double x) { return static_cast<int>(as<unsigned long long>(x) >> 32); }
static int __double2loint(double x) { return static_cast<int>(as<unsigned long long>(x)); }
static double __hiloint2double(int high, int low) {
    return as<double>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low));
}
static float __fmul_rn(float x, float y) { return x * y; }
static double __dmul_rn(double x, double y) { return x * y; }
static float __fadd_rn(float x, float y) { return x + y; }
static float __fsub_rn(float x, float y) { return x - y; }
static float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
static double __ll2double_rn(long long x) { return static_cast<double>(x); }
static double __dadd_rn(double x, double y) { return x + y; }
static double __dsub_rn(double x, double y) { return x - y; }
static float __fdiv_rn(float x, float y) { return x / y; }
static float __fsqrt_rn(float x) { return std::sqrt(x); }
static double __ddiv_rn(double x, double y) { return x / y; }
static double __dsqrt_rn(double x) { return std::sqrt(x); }
static double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
static float __double2float_rn(double x) { return static_cast<float>(x); }
static float __double2float_rz(double x) {
    const float nearest = static_cast<float>(x);
    return std::isfinite(x) && std::fabs(static_cast<double>(nearest)) > std::fabs(x) ? std::nextafterf(nearest, 0.0f)
                                                                                      : nearest;
}
static float __int2float_rn(int x) { return static_cast<float>(x); }
static float __int2float_rz(int x) { return __double2float_rz(x); }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __ffs(unsigned x) { return __builtin_ffs(x); }
static int __ffsll(long long x) { return __builtin_ffsll(x); }
static int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
static unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned __int128>(x) * y >> 64;
}
static double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
static unsigned long long __double2ull_rz(double x) { return static_cast<unsigned long long>(x); }
static long long __double2ll_rn(double x) { return std::llrint(x); }
static long long __float2ll_rn(float x) { return std::llrint(x); }
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

static unsigned short half_of(float x) { return x != x ? 0x7fff : as<unsigned short>(static_cast<_Float16>(x)); }
static unsigned short half_of_double(double x) { return as<unsigned short>(static_cast<_Float16>(x)); }
static float of_half(unsigned short bits) { return static_cast<float>(as<_Float16>(bits)); }
static float of_bfloat(unsigned short bits) { return as<float>(static_cast<unsigned>(bits) << 16); }
static unsigned short bfloat_of(float x) {
    const unsigned bits = as<unsigned>(x);
    if (x != x) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

namespace host {

// The larger, or smaller, of both halves of two words, as integers.
template <typename Half>
static unsigned choose_halves(unsigned a, unsigned b, bool larger) {
    const auto one = [&](int at) {
        const Half x = static_cast<Half>(a >> at), y = static_cast<Half>(b >> at);
        return static_cast<unsigned>(static_cast<unsigned short>(larger ? std::max(x, y) : std::min(x, y))) << at;
    };
    return one(0) | one(16);
}

// The larger of both halves of two words, which are numbers; NaN where there is one.
template <typename Number>
static unsigned larger_halves(const Number& number, unsigned a, unsigned b) {
    unsigned result = 0;
    for (int at = 0; at < 32; at += 16) {
        const unsigned short first = a >> at, second = b >> at;
        const float x = number(first), y = number(second);
        result |= static_cast<unsigned>(x != x || y != y ? 0x7fff : x > y ? first : second) << at;
    }
    return result;
}

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

// A sum rounded to odd, so that rounding it again to fewer digits rounds it once.
static double odd_sum(double x, double y) {
    const double sum = x + y, back = sum - x, rest = (x - (sum - back)) + (y - back);
    if (!(rest < 0 || rest > 0) || !std::isfinite(sum)) return sum;
    const double nearer = (rest < 0) == (sum < 0) ? sum : std::nextafter(sum, 0.0);
    return as<double>(as<unsigned long long>(nearer) | 1);
}

// What is computed of both halves, rounded to odd, and then to binary16.
template <typename Work>
static unsigned of_lanes(unsigned a, unsigned b, unsigned c, const Work& work) {
    unsigned result = 0;
    for (int at = 0; at < 32; at += 16) {
        const double x = work(of_half(a >> at & 0xffff), of_half(b >> at & 0xffff), of_half(c >> at & 0xffff));
        result |= static_cast<unsigned>(x != x ? 0x7fff : half_of_double(x)) << at;
    }
    return result;
}

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

enum Outcome { DONE, STUCK, OUTSIDE, WRONG_COPY, LEFT_BEHIND, TOO_EARLY, ENDLESS, TOO_LARGE };
enum Waiting { NOTHING, WARP_MATES, BLOCK_MATES, CLUSTER_MATES, PART_MATES, BARRIER, MEMORY };

constexpr unsigned MOST_BLOCKS = 40, MEMORY_BYTES = 256 << 10;  // at a time; of a block's shared memory

extern unsigned self, threads;  // the thread that runs, of all blocks' places; those of a block
extern const char *readable_from, *readable_to;
extern unsigned lines_apart;  // copies whose lines are not memory's
// Of the blocks' places; the kernel's library has it beside the variables that it shares, so that 32 bits hold the
// addresses of both.
extern unsigned char (*memories)[MEMORY_BYTES];

static unsigned place() { return self / threads; }
static unsigned char* memory() { return memories[place()]; }

// All blocks of a kernel, `across` times `down`, `together` of them at a time; `seed` decides about what is left to
// chance.
Outcome run_blocks(void (*kernel)(), unsigned across, unsigned down, unsigned size, unsigned together, unsigned cluster,
                   unsigned seed, unsigned char (*memory)[MEMORY_BYTES]);

void wait_for(Waiting mates);
void fail(Outcome what);

constexpr long BEGIN = 1 << 30;  // of shared memory's addresses, so that none is near zero

static unsigned shared_address(const void* at) {
    const long address = BEGIN + (static_cast<const unsigned char*>(at) - memories[0]);
    if (address != static_cast<unsigned>(address)) fail(WRONG_COPY);
    return static_cast<unsigned>(address);
}

template <typename T = char>
static T* at(unsigned address) {
    if (address % sizeof(T)) fail(WRONG_COPY);
    return reinterpret_cast<T*>(memories[0] + (static_cast<long>(address) - BEGIN));
}

// Shared arrays, of which every block has one: where the first block's begins, and bytes of each.
struct SharedArray { char* begin; long bytes; };
constexpr unsigned MOST_ARRAYS = 64;
static SharedArray shared_arrays[MOST_ARRAYS];
static unsigned shared_count;

// The own block's one.
template <typename T>
static T& own_array(T (&of_blocks)[MOST_BLOCKS]) {
    char* const begin = reinterpret_cast<char*>(of_blocks);
    unsigned i = 0;
    while (i < shared_count && shared_arrays[i].begin != begin) ++i;
    if (i == MOST_ARRAYS) fail(TOO_LARGE);
    if (i == shared_count) shared_arrays[shared_count++] = {begin, sizeof(T)};
    return of_blocks[place()];
}

// The address where another block of the cluster has what this one has there, in a shared array or in what a launch gives.
static unsigned in_block(unsigned own, unsigned rank) {
    char* const here = at(own);
    long bytes = MEMORY_BYTES;
    for (const SharedArray& array : shared_arrays)
        if (here >= array.begin && here < array.begin + MOST_BLOCKS * array.bytes) bytes = array.bytes;
    return shared_address(here + (static_cast<long>(rank) - static_cast<long>(place())) * bytes);
}

template <typename T>
static const T& readable(const T* from, unsigned bytes = sizeof(T)) {
    const char* const first = reinterpret_cast<const char*>(from);
    if (reinterpret_cast<size_t>(from) % alignof(T)) fail(WRONG_COPY);
    if (readable_to && (first < readable_from || first + bytes > readable_to)) fail(OUTSIDE);
    return *from;
}

// Whoever reads a line again that need not be written to memory has numbers that nobody has put there.
static void forget(const void* line) {
    if (reinterpret_cast<size_t>(line) % 128) fail(WRONG_COPY);
    memset(const_cast<void*>(line), 0xFF, 128);
}

// What another block may have written meanwhile.
template <typename T>
static T look(const T* from) {
    wait_for(MEMORY);
    return *from;
}

// ---- barriers and copies in the background ----

void wait_for_part(unsigned count);  // of a block's threads
void prepare_barrier(unsigned barrier, unsigned count);
void arrive_at(unsigned barrier, unsigned bytes = 0);
void arrive_later(unsigned barrier);
void tell(unsigned barrier);
bool has_passed(unsigned barrier, unsigned odd);
void wait_for_barrier(unsigned barrier, unsigned odd);
void copy_bulk_to(unsigned to, const void* from, unsigned bytes, unsigned barrier);
void store_bulk_from(const void* to, unsigned from, unsigned bytes);
void commit_stores();
void wait_for_stores(long pending);
void begin_copy(void* to, const void* from, unsigned bytes);
void end_group();
void wait_for_groups(long pending);

template <unsigned BYTES>
static void copy_later(unsigned to, const void* from) {
    if (BYTES == 16) readable(static_cast<const uint4*>(from));
    struct alignas(BYTES) Piece { char bytes[BYTES]; };
    begin_copy(at<Piece>(to), from, BYTES);
}

// 16 bytes, or as many zeros.
static void copy_later_if(unsigned bytes, unsigned to, const void* from) {
    static const uint4 zeros = {};
    if (bytes) readable(static_cast<const uint4*>(from));
    begin_copy(at<uint4>(to), bytes ? from : &zeros, 16);
}

// ---- warps ----

// Of two places for what lanes bring, the one whose turn it is.
unsigned next_turn();

// What all lanes have brought, once all are here.
const unsigned long long* exchange(unsigned long long code);

template <typename T>
static T of_lane(T x, unsigned lane) {
    static_assert(sizeof(T) <= 8, "one number");
    unsigned long long code = 0;
    std::memcpy(&code, &x, sizeof x);
    std::memcpy(&x, &exchange(code)[lane % 32], sizeof x);
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

// Of four matrices of 8 x 8 numbers, the rows of which lie where the lanes say.
static void load_transposed(unsigned& m0, unsigned& m1, unsigned& m2, unsigned& m3, unsigned address) {
    const unsigned lane = self % 32;
    const unsigned long long* const rows = exchange(address);
    unsigned* const results[4] = {&m0, &m1, &m2, &m3};
    for (int m = 0; m < 4; ++m) {
        const auto number = [&](unsigned row) {
            return unsigned(reinterpret_cast<const unsigned short*>(at<uint4>(unsigned(rows[8 * m + row])))[lane / 4]);
        };
        *results[m] = number(lane % 4 * 2) | number(lane % 4 * 2 + 1) << 16;
    }
    wait_for(WARP_MATES);
}

// The rows of four 8 × 8 matrices, as load_transposed has their columns.
static void load_rows(unsigned& m0, unsigned& m1, unsigned& m2, unsigned& m3, unsigned address) {
    const unsigned lane = self % 32;
    const unsigned long long* const rows = exchange(address);
    unsigned* const results[4] = {&m0, &m1, &m2, &m3};
    for (int m = 0; m < 4; ++m)
        *results[m] = reinterpret_cast<const unsigned*>(at<uint4>(unsigned(rows[8 * m + lane / 4])))[lane % 4];
    wait_for(WARP_MATES);
}

// m16n8k16 of numbers whose products have no bits below an exponent; C and D of binary32, or of binary16.
void multiply(float (*value_of)(unsigned short), int lowest, float& d0, float& d1, float& d2, float& d3, unsigned a0,
              unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1);
// m16n8k32 of bytes without a sign; a sum that 32 bits with one do not hold is TOO_LARGE.
void multiply_bytes(unsigned& d0, unsigned& d1, unsigned& d2, unsigned& d3, unsigned a0, unsigned a1, unsigned a2,
                    unsigned a3, unsigned b0, unsigned b1);
void multiply_halves(unsigned& d0, unsigned& d1, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                     unsigned b1);

}  // namespace host

// ---- what kernels call ----

static void __syncthreads() { host::wait_for(host::BLOCK_MATES); }
static int __syncthreads_or(int x) {
    static int found_in_blocks[host::MOST_BLOCKS];
    int& found = found_in_blocks[host::place()];
    found = 0;
    __syncthreads();
    found |= x != 0;
    __syncthreads();
    const int result = found;
    __syncthreads();
    return result;
}
static void __syncwarp() { host::wait_for(host::WARP_MATES); }
static void __threadfence() {}
static unsigned __cvta_generic_to_shared(const void* at) { return host::shared_address(at); }
template <typename T>
static T __ldg(const T* at) { return host::readable(at); }
static long long __ldg(const long long* at) { return *at; }
template <typename T>
static T __ldcg(const T* at) { return *at; }
template <typename T>
static T __ldcs(const T* at) { return *at; }
template <typename T>
static void __stcs(T* at, T x) { *at = x; }
static void atomicMax(int* place, int x) { *place = std::max(*place, x); }
static void atomicMax(unsigned* place, unsigned x) { *place = std::max(*place, x); }
static void atomicMax(unsigned long long* place, unsigned long long x) { *place = std::max(*place, x); }
static void atomicMin(unsigned* place, unsigned x) { *place = std::min(*place, x); }
template <typename T, typename U>
static T atomicAdd(T* place, U x) {
    const T before = *place;
    *place += x;
    return before;
}
template <typename T, typename U>
static T atomicExch(T* place, U x) {
    const T before = *place;
    *place = x;
    return before;
}
static unsigned atomicCAS(unsigned* place, unsigned expected, unsigned x) {
    const unsigned before = *place;
    if (before == expected) *place = x;
    return before;
}
static unsigned atomicOr(unsigned* place, unsigned bits) {
    const unsigned before = *place;
    *place |= bits;
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
namespace host {
// mma.m16n8k4 of binary64: one fused multiply-add after another.
static void multiply_doubles(double& d0, double& d1, double& d2, double& d3, double a0, double a1, double b0) {
    const int lane = threadIdx.x % 32;
    double* const sums[] = {&d0, &d1, &d2, &d3};
    for (int k = 0; k < 4; ++k) {
        double a[] = {of_lane(a0, lane / 4 * 4 + k), of_lane(a1, lane / 4 * 4 + k)}, b[2];
        for (int column = 0; column < 2; ++column) b[column] = of_lane(b0, (lane % 4 * 2 + column) * 4 + k);
        for (int w = 0; w < 4; ++w) *sums[w] = std::fma(a[w / 2], b[w % 2], *sums[w]);
    }
}
}  // namespace host
static unsigned __ballot_sync(unsigned, bool x) {
    const unsigned long long* const all = host::exchange(x);
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) result |= static_cast<unsigned>(all[i]) << i;
    return result;
}
static unsigned __match_any_sync(unsigned, unsigned x) {
    const unsigned long long* const all = host::exchange(x);
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) result |= static_cast<unsigned>(all[i] == x) << i;
    return result;
}
static bool __any_sync(unsigned, bool x) { return __ballot_sync(0, x) != 0; }
static bool __all_sync(unsigned, bool x) { return __ballot_sync(0, x) == ~0u; }
static unsigned __reduce_add_sync(unsigned, unsigned x) {
    return host::reduced(x, [](unsigned a, unsigned b) { return a + b; });
}
static unsigned __reduce_or_sync(unsigned, unsigned x) {
    return host::reduced(x, [](unsigned a, unsigned b) { return a | b; });
}
static unsigned __reduce_min_sync(unsigned, unsigned x) {
    return host::reduced(x, [](unsigned a, unsigned b) { return std::min(a, b); });
}
static int __reduce_max_sync(unsigned, int x) {
    return host::reduced(x, [](unsigned a, unsigned b) { return std::max<int>(a, b); });
}
static unsigned __reduce_max_sync(unsigned, unsigned x) {
    return host::reduced(x, [](unsigned a, unsigned b) { return std::max(a, b); });
}

#pragma GCC visibility pop
