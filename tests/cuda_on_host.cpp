// Blocks of a CUDA kernel on the host: every thread a fibre, which runs until it waits for others.
//
// Some blocks are there at a time, and their warps take turns by chance, as far as they do not wait for each other.
// What is copied in the background, to shared memory and from there, comes some time later, by chance too; until then
// its place holds rubbish.
//
// What the fragments of mma.sync are is written here once more, element by element.

#include "cuda_on_host.h"

#include <ucontext.h>

#include <csetjmp>
#include <cstdlib>
#include <vector>

Index threadIdx, blockIdx, gridDim, blockDim;

namespace host {

unsigned self, threads;
const char *readable_from, *readable_to;
unsigned lines_apart;
unsigned char (*memories)[MEMORY_BYTES];

// Of a run, one of them: what a kernel of binary16 takes for too large a number, and what it takes for a usual one.
constexpr unsigned char RUBBISH[2] = {0x5a, 0x3a};
constexpr size_t STACK = 64 << 10;  // bytes of a thread

// Of a thread's own, in their order.
struct Errand {
    enum Kind { COPY, ARRIVAL, GROUP } kind;
    void* to;
    const void* from;
    unsigned bytes, barrier;
};

struct Fibre {
    jmp_buf place;
    Waiting waiting;
    bool begun, done, missing;  // a missing thread was never there
    unsigned turns, barrier, odd;
    std::vector<Errand> errands, stores;
    bool stores_without_waiting;  // for the last of them
};

struct Block {
    unsigned number;
    bool runs;
};

struct Barrier { unsigned count, missing, phases; long bytes; };
struct Copy { void* to; const void* from; unsigned bytes, barrier, place; };

static std::vector<Fibre> fibres;  // the threads of the blocks' places, one place after another
static Block blocks[MOST_BLOCKS];
static jmp_buf scheduler;
static Outcome outcome;
static std::vector<Barrier> barriers;  // the word that is one for a kernel has its number here
static char* stacks;                   // kept from run to run: new pages take longer than what runs on them
static size_t stacks_bytes;
static std::vector<Copy> copies;
static size_t under_way;  // errands of all threads
static unsigned long long chance;
static unsigned char rubbish;
static void (*body)();

static unsigned random_below(unsigned n) {
    chance = chance * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<unsigned>(chance >> 33) % n;
}

// Threads change places by jumps: swapcontext would ask the system for the mask of signals each time.
void wait_for(Waiting mates) {
    fibres[self].waiting = mates;
    if (!_setjmp(fibres[self].place)) _longjmp(scheduler, 1);
}

void fail(Outcome what) {
    outcome = what;
    while (true) wait_for(BLOCK_MATES);
}

// ---- barriers and copies in the background ----

void wait_for_part(unsigned count) {
    fibres[self].barrier = count;
    wait_for(PART_MATES);
}

void prepare_barrier(unsigned barrier, unsigned count) {
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

void arrive_at(unsigned barrier, unsigned bytes) {
    Barrier& b = barrier_at(barrier);
    if (!b.missing) {  // what it waits for is under way
        outcome = TOO_EARLY;
        return;
    }
    b.bytes += bytes;
    --b.missing;
    conclude(b);
}

// 8 bytes have come, even before the barrier expects them.
void tell(unsigned barrier) {
    Barrier& b = barrier_at(barrier);
    b.bytes -= 8;
    conclude(b);
}

bool has_passed(unsigned barrier, unsigned odd) { return barrier_at(barrier).phases % 2 != odd; }

void wait_for_barrier(unsigned barrier, unsigned odd) {
    fibres[self].barrier = barrier;
    fibres[self].odd = odd;
    if (!has_passed(barrier, odd)) wait_for(BARRIER);
}

static void check_copy(const void* a, const void* b, unsigned bytes) {
    if ((reinterpret_cast<size_t>(a) | reinterpret_cast<size_t>(b) | bytes) % 16) fail(WRONG_COPY);
}

void copy_bulk_to(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
    check_copy(at(to), from, bytes);
    if (bytes) readable(static_cast<const char*>(from), bytes);
    lines_apart += (reinterpret_cast<size_t>(at(to)) ^ reinterpret_cast<size_t>(from)) % 128 != 0;
    std::memset(at(to), rubbish, bytes);
    copies.push_back({at(to), from, bytes, barrier, place()});
}

static void begin(std::vector<Errand>& errands, const Errand& errand) {
    errands.push_back(errand);
    ++under_way;
}

void store_bulk_from(const void* to, unsigned from, unsigned bytes) {
    check_copy(to, at(from), bytes);
    fibres[self].stores_without_waiting = true;
    begin(fibres[self].stores, {Errand::COPY, const_cast<void*>(to), at(from), bytes, 0});
}

void commit_stores() { begin(fibres[self].stores, {Errand::GROUP, nullptr, nullptr, 0, 0}); }

void begin_copy(void* to, const void* from, unsigned bytes) {
    std::memset(to, rubbish, bytes);
    begin(fibres[self].errands, {Errand::COPY, to, from, bytes, 0});
}

void end_group() { begin(fibres[self].errands, {Errand::GROUP, nullptr, nullptr, 0, 0}); }

void arrive_later(unsigned barrier) {
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

void wait_for_groups(long pending) { run_groups(fibres[self].errands, pending); }

void wait_for_stores(long pending) {
    if (pending == 0) fibres[self].stores_without_waiting = false;
    run_groups(fibres[self].stores, pending);
}

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

unsigned next_turn() { return fibres[self].turns++ % 2; }

const unsigned long long* exchange(unsigned long long code) {
    unsigned long long(&values)[32] = exchanges[self / 32].value[next_turn()];
    values[self % 32] = code;
    wait_for(WARP_MATES);
    return values;
}

// As H100 and H200 add 16 numbers and C: cut to 25 bits below the largest exponent and added.
static double exact_sum(const double (&terms)[16], int lowest, double c, int lowest_c) {
    int exponent = -1000;
    double special = 0;
    if (!std::isfinite(c))
        special += c;
    else if (c != 0)
        exponent = std::max(std::ilogb(c), lowest_c);
    for (const double x : terms) {
        if (!std::isfinite(x))
            special += x;
        else if (x != 0)
            exponent = std::max({exponent, std::ilogb(x), lowest});
    }
    if (special != 0) return special;  // inf, or NaN
    double sum = std::trunc(std::ldexp(c, 25 - exponent));
    for (const double x : terms) sum += std::trunc(std::ldexp(x, 25 - exponent));
    return std::ldexp(sum, exponent - 25);
}

static float rounded_toward_zero(double x) {
    if (x != x) return as<float>(0x7fffffff);
    if (std::fabs(x) >= 0x1p128) return static_cast<float>(x);  // inf, whatever the rounding
    return x == 0 ? 0 : __double2float_rz(x);
}

struct Fragments16 { unsigned a[2][32][4], b[2][32][2]; };
static std::vector<Fragments16> fragments;

template <typename Sum>
static void multiply_all(float (*value_of)(unsigned short), const Sum& sum, unsigned a0, unsigned a1, unsigned a2,
                         unsigned a3, unsigned b0, unsigned b1) {
    const unsigned lane = self % 32, turn = next_turn();
    Fragments16& f = fragments[self / 32];
    const unsigned words[4] = {a0, a1, a2, a3};
    std::copy(words, words + 4, f.a[turn][lane]);
    f.b[turn][lane][0] = b0;
    f.b[turn][lane][1] = b1;
    wait_for(WARP_MATES);
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        double terms[16];
        for (int k = 0; k < 16; ++k) {
            const int owner = k % 8 / 2, bits = 16 * (k % 2);
            const unsigned x = f.a[turn][row % 8 * 4 + owner][k / 8 * 2 + row / 8];
            const unsigned y = f.b[turn][column * 4 + owner][k / 8];
            terms[k] = static_cast<double>(value_of(x >> bits)) * value_of(y >> bits);
        }
        sum(i, terms);
    }
}

void multiply(float (*value_of)(unsigned short), int lowest, float& d0, float& d1, float& d2, float& d3, unsigned a0,
              unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    float* const results[4] = {&d0, &d1, &d2, &d3};
    multiply_all(value_of, [&](int i, const double (&terms)[16]) {
        *results[i] = rounded_toward_zero(exact_sum(terms, lowest, *results[i], -126));
    }, a0, a1, a2, a3, b0, b1);
}

void multiply_halves(unsigned& d0, unsigned& d1, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                     unsigned b1) {
    unsigned* const results[2] = {&d0, &d1};
    multiply_all(of_half, [&](int i, const double (&terms)[16]) {
        unsigned& word = *results[i / 2];
        const int bits = 16 * (i % 2);
        const double sum = exact_sum(terms, -14, of_half(word >> bits), -14);
        const unsigned code = sum != sum ? 0x7fff : sum == 0 ? 0 : half_of_double(sum);
        word = (word & ~(0xffffu << bits)) | code << bits;
    }, a0, a1, a2, a3, b0, b1);
}

void multiply_bytes(unsigned& d0, unsigned& d1, unsigned& d2, unsigned& d3, unsigned a0, unsigned a1, unsigned a2,
                    unsigned a3, unsigned b0, unsigned b1) {
    unsigned* const results[4] = {&d0, &d1, &d2, &d3};
    const unsigned lane = self % 32, turn = next_turn();
    Fragments16& f = fragments[self / 32];
    const unsigned a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    std::copy(a, a + 4, f.a[turn][lane]);
    std::copy(b, b + 2, f.b[turn][lane]);
    wait_for(WARP_MATES);
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        long long sum = static_cast<int>(*results[i]);
        for (int k = 0; k < 32; ++k) {
            const int owner = k % 16 / 4, bits = 8 * (k % 4);
            const unsigned x = f.a[turn][row % 8 * 4 + owner][k / 16 * 2 + row / 8] >> bits & 0xff;
            sum += x * (f.b[turn][column * 4 + owner][k / 16] >> bits & 0xff);
        }
        if (sum > 0x7fffffff) fail(TOO_LARGE);
        *results[i] = static_cast<unsigned>(sum);
    }
}

// ---- the kernel ----

// Twice as many as any test has, at least: lanes that only vote go on for ever, and all tests with them.
static constexpr unsigned MOST_ROUNDS = 10000;
// Rounds in which lanes only look at one place after another.
static constexpr unsigned MOST_LOOKS = 64;

static void start() {
    body();
    wait_for_groups(0);
    // Its block's shared memory may be another's before the store has read it.
    if (fibres[self].stores_without_waiting) outcome = LEFT_BEHIND;
    fibres[self].done = true;
    _longjmp(scheduler, 1);
}

static void begin_block(unsigned place, unsigned number) {
    blocks[place] = {number, true};
    std::memset(memories[place], 0xff, MEMORY_BYTES);
    for (unsigned t = place * threads; t < (place + 1) * threads; ++t) {
        Fibre& fibre = fibres[t];
        fibre.waiting = NOTHING;
        fibre.begun = false;
        fibre.missing = fibre.done = t - place * threads >= blockDim.x;
        fibre.stores_without_waiting = false;
        fibre.turns = 0;
    }
}

// Until thread t waits, or is done.
static void run_thread(unsigned t) {
    if (_setjmp(scheduler)) return;
    if (fibres[t].begun) _longjmp(fibres[t].place, 1);
    fibres[t].begun = true;
    static ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks + t * STACK;
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, start, 0);
    setcontext(&context);
}

// The lanes of a warp run until they wait; whether any has got further.  `looked`: whether any has looked at memory.
static bool run_warp(unsigned first, bool& looked) {
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
        run_thread(t);
        moved |= !looks || fibre.waiting != MEMORY;
        looked |= looks;
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

Outcome run_blocks(void (*kernel)(), unsigned across, unsigned down, unsigned size, unsigned together,
                   unsigned cluster, unsigned seed, unsigned char (*memory)[MEMORY_BYTES]) {
    body = kernel;
    memories = memory;
    blockDim.x = size;
    threads = (size + 31) / 32 * 32;  // the last warp may have fewer lanes
    gridDim = {across, down};
    const unsigned count = across * down;
    outcome = DONE;
    chance = seed;
    rubbish = RUBBISH[seed % 2];
    together = cluster > 1 ? cluster : std::min({together, count, MOST_BLOCKS});
    barriers.clear();
    copies.clear();
    lines_apart = 0;
    under_way = 0;
    fibres.clear();
    fibres.resize(together * threads);
    if (stacks_bytes < fibres.size() * STACK) {
        std::free(stacks);
        stacks_bytes = fibres.size() * STACK;
        stacks = static_cast<char*>(std::malloc(stacks_bytes));
    }
    exchanges.resize(fibres.size() / 32);
    fragments.resize(fibres.size() / 32);
    unsigned next = 0, rounds = 0, still = 0;
    for (; next < together; ++next) begin_block(next, next);
    for (unsigned left = count; left && !outcome;) {
        if (cluster > 1 && left % cluster == 0 && next == count - left)
            for (unsigned place = 0; place < cluster; ++place) begin_block(place, next++);
        bool moved = deliver(), looked = false, waited = false;
        for (unsigned place = 0; place < together && !outcome; ++place) {
            if (!blocks[place].runs) continue;
            for (unsigned first = place * threads; first < (place + 1) * threads && !outcome; first += 32) {
                unsigned turns = random_below(8);
                waited |= turns == 0;
                while (turns && !outcome && run_warp(first, looked)) --turns, moved = true;
            }
            bool all = true, none = true;
            unsigned part = 0, wanted = 0;
            for (unsigned t = place * threads; t < (place + 1) * threads; ++t) {
                all &= fibres[t].missing || (!fibres[t].done && fibres[t].waiting == BLOCK_MATES);
                none &= fibres[t].done;
                if (fibres[t].done || fibres[t].waiting != PART_MATES) continue;
                ++part;
                wanted = fibres[t].barrier;
            }
            for (unsigned t = place * threads; part && part == wanted && t < (place + 1) * threads; ++t)
                if (fibres[t].waiting == PART_MATES) fibres[t].waiting = NOTHING, moved = true;
            for (unsigned t = place * threads; all && t < (place + 1) * threads; ++t)
                fibres[t].waiting = NOTHING, moved = true;
            if (!none || outcome) continue;
            outcome = end_block(place);
            --left;
            moved = true;
            if (next < count && cluster == 1) begin_block(place, next++);
        }
        bool meet = cluster > 1;
        for (const Fibre& fibre : fibres) meet &= fibre.missing || (!fibre.done && fibre.waiting == CLUSTER_MATES);
        for (size_t t = 0; meet && t < fibres.size(); ++t) fibres[t].waiting = NOTHING, moved = true;
        still = moved ? 0 : still + 1;
        if (left && !moved && !outcome && (looked ? still > MOST_LOOKS : !waited)) outcome = STUCK;
        if (++rounds == MOST_ROUNDS && left && !outcome) outcome = ENDLESS;
    }
    return outcome;
}

}  // namespace host
