/* Loops over Arrow's 128-bit decimals: what fundlab/decimals does in NumPy, without temporaries.

   A value is two words, low and high, of value x 10**18 in two's complement; |value| is below
   10**38. Each function gives what its namesake in Python gives without this library, and TOO_LARGE
   for what is an overflow there. Nothing here knows about missing values
   beyond what an argument says: their words are zero. Memory is the caller's. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef DIGEST
#define DIGEST ""
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Arrow's buffers are written as little-endian machines hold numbers"
#endif

/* Compiled again for processors that compare four or eight words at once; the C library takes the
   one that fits when it loads this. */
#ifndef SEVERAL_AT_ONCE
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define SEVERAL_AT_ONCE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define SEVERAL_AT_ONCE
#endif
#endif

typedef uint64_t word;
typedef __int128 wide;
typedef unsigned __int128 uwide;

enum { FITS = 0, TOO_LARGE = -1 };
enum { ADD, SUBTRACT, MULTIPLY, DIVIDE };

#define ONE 1000000000000000000u
static const uwide LIMIT = (uwide)ONE * ONE * 100;

/* Of this text, as it was compiled. */
const char *source_digest(void) { return DIGEST; }

static wide get(const word *at) { return (wide)((uwide)at[1] << 64 | at[0]); }

static void put(word *at, uwide value) { at[0] = (word)value, at[1] = (word)(value >> 64); }

/* Also of a sum or difference of two values, which may have wrapped around 2**128 once. */
static int beyond(uwide value) { return value + (LIMIT - 1) > 2 * (LIMIT - 1); }

/* Signs, roundings and corrections are as good as random: no branch could be foreseen, and each
   costs more than what it leaves out. A mask is all ones, or zero. */
static uwide negated(uwide value, uwide mask) { return (value ^ mask) - mask; }

static uwide sign(wide value) { return (uwide)(value >> 127); }

static uwide magnitude(wide value) { return negated((uwide)value, sign(value)); }

/* ------------------------------------------------------------------------------ division
   By two words at most, with a reciprocal instead of the processor's own division: Möller and
   Granlund, "Improved division by invariant integers", algorithms 2 to 6. */

typedef struct { uwide by; word reciprocal; int shift; } divisor; /* `by` is shifted to the top */

/* Of one word whose highest bit is set: (2**128 - 1) / by - 2**64. */
static word reciprocal_of(word by) {
#ifdef __x86_64__ /* which divides two words by one, where the quotient fits one, as here */
    word quotient, rest;
    __asm__("divq %4" : "=a"(quotient), "=d"(rest) : "0"(~(word)0), "1"(~by), "r"(by) : "cc");
    return quotient;
#else
    return (word)((((uwide)~by << 64) | ~(word)0) / by);
#endif
}

static divisor divide_by(uwide by) {
    word top = (word)(by >> 64), low = (word)by;
    if (!top) {
        int shift = __builtin_clzll(low);
        return (divisor){low << shift, reciprocal_of(low << shift), shift};
    }
    int shift = __builtin_clzll(top);
    top = top << shift | low >> 1 >> (63 - shift), low <<= shift;
    word v = reciprocal_of(top), p = top * v + low;
    word over = -(word)(p < low), again = over & -(word)(p >= top);
    v += over + again, p -= (top & over) + (top & again);
    uwide t = (uwide)v * low;
    p += (word)(t >> 64);
    over = -(word)(p < (word)(t >> 64));
    v += over & ~(word)((p > top) | ((p == top) & ((word)t >= low)));
    return (divisor){(uwide)top << 64 | low, v, shift};
}

/* The quotient of (rest, next) by one word, of which `rest` becomes what is left. */
static inline word step_of_one(word *rest, word next, word by, word reciprocal) {
    uwide q = (uwide)reciprocal * *rest + (((uwide)*rest << 64) | next);
    word digit = (word)(q >> 64) + 1, left = next - digit * by;
    word over = -(word)(left > (word)q);
    digit += over, left += by & over;
    if (__builtin_expect(left >= by, 0)) digit++, left -= by;
    *rest = left;
    return digit;
}

/* The same by two words. */
static inline word step_of_two(uwide *rest, word next, uwide by, word reciprocal) {
    word high = (word)(*rest >> 64), top = (word)(by >> 64), bottom = (word)by;
    uwide q = (uwide)reciprocal * high + *rest;
    word digit = (word)(q >> 64) + 1;
    uwide left = ((uwide)((word)*rest - digit * top) << 64 | next) - (uwide)digit * bottom;
    word over = -(word)((word)(left >> 64) >= (word)q);
    digit += over, left += (uwide)(top & over) << 64 | (bottom & over);
    if (__builtin_expect(left >= by, 0)) digit++, left -= by;
    *rest = left;
    return digit;
}

/* (high, low) divided, rounded half-even. */
static inline int divide(word high, uwide low, const divisor *d, uwide *quotient) {
    int s = d->shift, t = 63 - s;
    uwide by = d->by, rest, q = 0;
    word third = high << s | (word)(low >> 64) >> 1 >> t, fourth = high >> 1 >> t;
    word second = (word)(low >> 64) << s | (word)low >> 1 >> t, first = (word)low << s;
    if (by >> 64) {
        rest = (uwide)fourth << 64 | third;
        if (rest >= by) return TOO_LARGE;
        q = (uwide)step_of_two(&rest, second, by, d->reciprocal) << 64;
        q |= step_of_two(&rest, first, by, d->reciprocal);
    } else {
        word left = third;
        if (fourth || left >= (word)by) return TOO_LARGE;
        if (left | second) q = (uwide)step_of_one(&left, second, (word)by, d->reciprocal) << 64;
        q |= step_of_one(&left, first, (word)by, d->reciprocal);
        rest = left;
    }
    if (q >= LIMIT) return TOO_LARGE;
    uwide other = by - rest; /* up to the next multiple */
    *quotient = q + ((rest > other) | ((rest == other) & (word)q & 1));
    return *quotient >= LIMIT ? TOO_LARGE : FITS;
}

/* What stands before the point, and the rest, given the divisor 10**18. */
static uwide cut(uwide value, const divisor *one, word *rest) {
    int s = one->shift;
    *rest = (word)(value >> (128 - s));
    uwide q = step_of_one(rest, (word)(value >> (64 - s)), (word)one->by, one->reciprocal);
    q = q << 64 | step_of_one(rest, (word)value << s, (word)one->by, one->reciprocal);
    *rest >>= s;
    return q;
}

/* a * b / 10**18, or a * 10**18 / b, rounded half-even. */
static int product(uwide a, uwide b, const divisor *one, uwide *result) {
    word a1 = (word)(a >> 64), b1 = (word)(b >> 64);
    uwide low = (uwide)(word)a * (word)b, cross = 0, high = 0;
    if (a1 | b1) {
        uwide first = (uwide)a1 * (word)b, second = (uwide)(word)a * b1;
        cross = (low >> 64) + (word)first + (word)second;
        high = (uwide)a1 * b1 + (first >> 64) + (second >> 64) + (cross >> 64);
        low = cross << 64 | (word)low;
        if (high >> 64) return TOO_LARGE;
    }
    return divide((word)high, low, one, result);
}

static int quotient(uwide a, const divisor *b, uwide *result) {
    uwide low = (uwide)(word)a * ONE, upper = (a >> 64) * ONE + (low >> 64);
    return divide((word)(upper >> 64), upper << 64 | (word)low, b, result);
}

/* ------------------------------------------------------------------------------ operators
   A step of 0 stands for one row beside a column, a step of 2 for a column. No divisor is zero. */

#define ROWS for (int64_t i = 0; i < count; i++, a += a_step, b += b_step, out += 2)

int64_t calculate(int64_t operation, const word *a, int64_t a_step, const word *b, int64_t b_step,
                  word *out, int64_t count) {
    int wrong = 0;
    divisor by = divide_by(operation == DIVIDE && count ? magnitude(get(b)) : ONE);
    switch (operation) {
    case ADD:
        ROWS {
            uwide sum = (uwide)get(a) + (uwide)get(b);
            wrong |= beyond(sum);
            put(out, sum);
        }
        break;
    case SUBTRACT:
        ROWS {
            uwide rest = (uwide)get(a) - (uwide)get(b);
            wrong |= beyond(rest);
            put(out, rest);
        }
        break;
    case MULTIPLY:
        ROWS {
            wide x = get(a), y = get(b);
            uwide result = 0;
            if (product(magnitude(x), magnitude(y), &by, &result)) return TOO_LARGE;
            put(out, negated(result, sign(x ^ y)));
        }
        break;
    case DIVIDE:
        ROWS {
            wide x = get(a), y = get(b);
            uwide result = 0;
            if (b_step) by = divide_by(magnitude(y));
            if (quotient(magnitude(x), &by, &result)) return TOO_LARGE;
            put(out, negated(result, sign(x ^ y)));
        }
    }
    return wrong ? TOO_LARGE : FITS;
}

/* To multiples of `step`, an even number of at most 10**38. */
int64_t round_to(const word *a, const word *step, word *out, int64_t count) {
    uwide by = (uwide)get(step), q = 0;
    divisor d = divide_by(by);
    for (int64_t i = 0; i < count; i++, a += 2, out += 2) {
        wide x = get(a);
        divide(0, magnitude(x), &d, &q);
        q *= by; /* at most 15 * 10**37, which two words hold */
        if (q >= LIMIT) return TOO_LARGE;
        put(out, negated(q, sign(x)));
    }
    return FITS;
}

int64_t equal(const word *a, int64_t a_step, const word *b, int64_t b_step, uint8_t *out,
              int64_t count) {
    for (int64_t i = 0; i < count; i++, a += a_step, b += b_step)
        out[i] = !((a[0] ^ b[0]) | (a[1] ^ b[1]));
    return FITS;
}

static inline uint8_t is_less(word low, word high, word other_low, word other_high) {
    return ((int64_t)high < (int64_t)other_high) | ((high == other_high) & (low < other_low));
}

/* Beside one value words are compared, several at once; two columns wait for their memory. */
SEVERAL_AT_ONCE int64_t less(const word *a, int64_t a_step, const word *b, int64_t b_step,
                             uint8_t *out, int64_t count) {
    if (a_step && b_step)
        for (int64_t i = 0; i < count; i++, a += 2, b += 2) out[i] = get(a) < get(b);
    else if (a_step)
        for (int64_t i = 0; i < count; i++, a += 2) out[i] = is_less(a[0], a[1], b[0], b[1]);
    else
        for (int64_t i = 0; i < count; i++, b += b_step) out[i] = is_less(a[0], a[1], b[0], b[1]);
    return FITS;
}

int64_t running_total(const word *a, word *out, int64_t count) {
    uwide sum = 0;
    for (int64_t i = 0; i < count; i++, a += 2, out += 2) {
        sum += (uwide)get(a);
        if (beyond(sum)) return TOO_LARGE;
        put(out, sum);
    }
    return FITS;
}

int64_t to_floats(const word *a, double *out, int64_t count) {
    divisor one = divide_by(ONE);
    for (int64_t i = 0; i < count; i++, a += 2) {
        wide x = get(a);
        uwide size = magnitude(x);
        if (!size) { out[i] = 0.0; continue; }
        /* raised to all 128 bits, its quotient has 68: more than a float's, and one that is not
           exact gets a last bit that breaks ties, as what was cut off would */
        word top = (word)(size >> 64);
        int up = top ? __builtin_clzll(top) : 64 + __builtin_clzll((word)size);
        word rest;
        uwide whole = cut(size << up, &one, &rest);
        double near = ldexp((double)(whole | (rest != 0)), -up);
        out[i] = x < 0 ? -near : near;
    }
    return FITS;
}

/* ------------------------------------------------------------------------------ reductions */

enum { LANES = 16 }; /* as many maxima are kept: more than one is looked at in one step */

SEVERAL_AT_ONCE int64_t extreme(const word *a, int64_t count, int64_t largest, word *out) {
    word flip = largest ? 0 : ~(word)0, low[LANES]; /* the least is the largest, flipped */
    int64_t high[LANES], i = 0;
    for (int lane = 0; lane < LANES; lane++)
        low[lane] = a[0] ^ flip, high[lane] = (int64_t)(a[1] ^ flip);
    for (; i + LANES <= count; i += LANES, a += 2 * LANES)
        for (int lane = 0; lane < LANES; lane++) {
            word under = a[2 * lane] ^ flip;
            int64_t top = (int64_t)(a[2 * lane + 1] ^ flip);
            int more = (top > high[lane]) | ((top == high[lane]) & (under > low[lane]));
            high[lane] = more ? top : high[lane];
            low[lane] = more ? under : low[lane];
        }
    wide most = get((word[]){low[0], (word)high[0]});
    for (int lane = 1; lane < LANES; lane++) {
        wide one = get((word[]){low[lane], (word)high[lane]});
        most = one > most ? one : most;
    }
    for (; i < count; i++, a += 2) {
        wide one = get((word[]){a[0] ^ flip, a[1] ^ flip});
        most = one > most ? one : most;
    }
    put(out, (uwide)most ^ ((uwide)flip << 64 | flip));
    return FITS;
}

/* The sum of each group, three words in two's complement; rows of no group have the number -1. */
int64_t group_totals(const word *a, const int64_t *ids, int64_t count, word *sums) {
    for (int64_t i = 0; i < count; i++, a += 2) {
        if (ids && ids[i] < 0) continue;
        word *sum = sums + 3 * (ids ? ids[i] : 0);
        uwide low = (uwide)sum[0] + a[0];
        sum[0] = (word)low;
        put(sum + 1, (uwide)get(sum + 1) + (uwide)(int64_t)a[1] + (low >> 64));
    }
    return FITS;
}

/* ------------------------------------------------------------------------------ order
   Each entry has 32 bits of its value above the number of its row. */

static int bits_of(uwide value) {
    word top = (word)(value >> 64);
    if (top) return 128 - __builtin_clzll(top);
    return (word)value ? 64 - __builtin_clzll((word)value) : 0;
}

static wide value_of(const word *a, word entry) { return get(a + 2 * (uint32_t)entry); }

static void sort(const word *a, word *entries, word *spare, int64_t count) {
    enum { FEW = 24, DIGIT = 11, DIGITS = 1 << DIGIT };
    if (count <= FEW) {
        for (int64_t i = 1; i < count; i++) {
            word entry = entries[i];
            wide value = value_of(a, entry);
            int64_t k = i;
            for (; k && value_of(a, entries[k - 1]) > value; k--) entries[k] = entries[k - 1];
            entries[k] = entry;
        }
        return;
    }
    wide least = value_of(a, entries[0]), most = least;
    for (int64_t i = 1; i < count; i++) {
        wide value = value_of(a, entries[i]);
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    int bits = bits_of((uwide)most - (uwide)least), shift = bits > 32 ? bits - 32 : 0;
    int64_t begins[3][DIGITS];
    memset(begins, 0, sizeof begins);
    for (int64_t i = 0; i < count; i++) {
        word key = (word)(((uwide)value_of(a, entries[i]) - (uwide)least) >> shift);
        entries[i] = key << 32 | (uint32_t)entries[i];
        for (int k = 0; k < 3; k++) begins[k][key >> (DIGIT * k) & (DIGITS - 1)]++;
    }
    word *from = entries, *to = spare;
    for (int k = 0; DIGIT * k < bits - shift; k++) {
        int64_t begin = 0;
        for (int digit = 0; digit < DIGITS; digit++) {
            int64_t size = begins[k][digit];
            begins[k][digit] = begin;
            begin += size;
        }
        for (int64_t i = 0; i < count; i++)
            to[begins[k][from[i] >> (32 + DIGIT * k) & (DIGITS - 1)]++] = from[i];
        word *swap = from;
        from = to, to = swap;
    }
    if (from != entries) memcpy(entries, from, (size_t)count * sizeof *entries);
    if (!shift) return;
    for (int64_t i = 0, end; i < count; i = end) { /* of those alike so far the other bits decide */
        for (end = i + 1; end < count && entries[end] >> 32 == entries[i] >> 32; end++) {}
        if (end - i > 1) sort(a, entries + i, spare, end - i);
    }
}

/* Positions that sort the values; equal values keep their order. For fewer than 2**32 rows, with
   room for twice as many words. */
int64_t order(const word *a, int64_t count, word *room, int64_t *positions) {
    for (int64_t i = 0; i < count; i++) room[i] = (word)i;
    sort(a, room, room + count, count);
    for (int64_t i = 0; i < count; i++) positions[i] = (uint32_t)room[i];
    return FITS;
}

/* ------------------------------------------------------------------------------ identity
   A table of 2**bits places: each holds the upper half of a hash, and a number from 1 on. */

enum { AHEAD = 12 }; /* rows whose places are fetched before they are looked at */

static word hash(const word *a) {
    uwide mixed = (uwide)(a[0] ^ 0x9E3779B97F4A7C15u) * (a[1] ^ 0xD6E8FEB86659FD93u);
    word folded = (word)mixed ^ (word)(mixed >> 64);
    return (folded ^ a[0] >> 29) * 0xBF58476D1CE4E5B9u;
}

/* The place of a value, or the empty one where it belongs. */
static word *find(word *table, int64_t bits, const word *values, const int64_t *rows,
                  const word *a) {
    word hashed = hash(a), mask = ((word)1 << bits) - 1;
    for (word place = hashed >> (64 - bits);; place = (place + 1) & mask) {
        word entry = table[place];
        if (!entry) return table + place;
        if ((entry ^ hashed) >> 32) continue;
        int64_t number = (int64_t)(uint32_t)entry - 1;
        const word *known = values + 2 * (rows ? rows[number] : number);
        if (known[0] == a[0] && known[1] == a[1]) return table + place;
    }
}

/* The number of each value among the different ones by appearance, and the first row of each of
   these; gives how many. What is missing has the number -1, or one of its own where it is `kept`. */
int64_t distinct(const word *a, const uint8_t *missing, int64_t kept, int64_t count,
                 word *table, int64_t bits, int64_t *codes, int64_t *firsts) {
    int64_t found = 0, nothing = -1;
    for (int64_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(table + (hash(a + 2 * (i + AHEAD)) >> (64 - bits)), 1);
        if (missing && missing[i]) {
            if (kept && nothing < 0) firsts[found] = i, nothing = found++;
            codes[i] = nothing;
            continue;
        }
        word *place = find(table, bits, a, firsts, a + 2 * i);
        if (!*place) {
            firsts[found] = i;
            *place = (hash(a + 2 * i) & ~(word)UINT32_MAX) | (word)++found;
        }
        codes[i] = (int64_t)(uint32_t)*place - 1;
    }
    return found;
}

int64_t among(const word *a, int64_t count, const word *values, int64_t many, word *table,
              int64_t bits, uint8_t *out) {
    for (int64_t i = 0; i < many; i++) {
        word *place = find(table, bits, values, 0, values + 2 * i);
        if (!*place) *place = (hash(values + 2 * i) & ~(word)UINT32_MAX) | (word)(i + 1);
    }
    for (int64_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(table + (hash(a + 2 * (i + AHEAD)) >> (64 - bits)));
        out[i] = *find(table, bits, values, 0, a + 2 * i) != 0;
    }
    return FITS;
}

/* ------------------------------------------------------------------------------ text */

enum { WHOLE = 20, FRACTION = 18, LONGEST = 1 + WHOLE + 1 + FRACTION };

static const char PAIRS[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

/* So many digits, an even number, that end at `end`. */
static void digits(char *end, word number, int count) {
    for (; count > 0; count -= 2, number /= 100) memcpy(end -= 2, PAIRS + 2 * (number % 100), 2);
}

/* Texts one after the other, and the length of each, none of what is missing; gives how much was
   written. There must be room for LONGEST characters a value. */
int64_t to_text(const word *a, const uint8_t *missing, int64_t count, char *out, int64_t *lengths) {
    char *p = out;
    divisor one = divide_by(ONE);
    for (int64_t i = 0; i < count; i++, a += 2) {
        char *begin = p, block[WHOLE];
        if (!missing[i]) {
            wide x = get(a);
            word rest;
            uwide whole = cut(magnitude(x), &one, &rest);
            word lower = (word)whole;
            int many = 0;
            if (x < 0) *p++ = '-';
            if (whole >> 64) { /* more than 19 digits */
                digits(block + WHOLE, (word)(whole % 10000000000u), 10);
                digits(block + WHOLE - 10, (word)(whole / 10000000000u), 10);
                many = WHOLE;
            } else {
                do {
                    memcpy(block + WHOLE - (many += 2), PAIRS + 2 * (lower % 100), 2);
                } while (lower /= 100);
            }
            while (many > 1 && block[WHOLE - many] == '0') many--;
            memcpy(p, block + WHOLE - many, (size_t)many);
            p += many;
            if (rest) {
                *p++ = '.';
                word upper = rest / 1000000000u;
                lower = rest - upper * 1000000000u;
                digits(p + 8, upper / 10, 8);
                p[8] = (char)('0' + upper % 10);
                p += 9;
                if (lower) {
                    digits(p + 8, lower / 10, 8);
                    p[8] = (char)('0' + lower % 10);
                    p += 9;
                }
                while (p[-1] == '0') p--;
            }
        }
        lengths[i] = p - begin;
    }
    return p - out;
}

/* The number of at most 19 digits, or of what comes before another character. */
static word number(const char **at, const char *end) {
    const word zeros = 0x3030303030303030u, sixes = 0x0606060606060606u;
    const char *p = *at, *last = end - p > 19 ? p + 19 : end;
    word value = 0;
    while (last - p >= 8) { /* eight digits at once */
        word eight;
        memcpy(&eight, p, 8);
        eight ^= zeros;
        if ((eight | (eight + sixes)) & 0xF0F0F0F0F0F0F0F0u) break;
        eight = eight * 10 + (eight >> 8);
        eight = ((eight & 0x000000FF000000FFu) * (100 + (1000000ull << 32))
                 + (eight >> 16 & 0x000000FF000000FFu) * (1 + (10000ull << 32))) >> 32;
        value = value * 100000000u + eight;
        p += 8;
    }
    for (; p < last && (unsigned)(*p - '0') <= 9; p++) value = value * 10 + (word)(*p - '0');
    *at = p;
    return value;
}

/* Amounts with an optional sign; gives the position of the first text that is none, or `count`. */
int64_t parse(const char *characters, const int64_t *offsets, const uint8_t *missing, int64_t count,
              word *out) {
    static const word powers[] = {
        1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000u,
        100000000000u, 1000000000000u, 10000000000000u, 100000000000000u, 1000000000000000u,
        10000000000000000u, 100000000000000000u, ONE};
    for (int64_t i = 0; i < count; i++, out += 2) {
        put(out, 0);
        if (missing[i]) continue;
        const char *p = characters + offsets[i], *end = characters + offsets[i + 1], *begin;
        int minus = p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        begin = p;
        uwide whole = number(&p, end);
        if (p - begin == 19 && p < end && (unsigned)(*p - '0') <= 9)
            whole = whole * 10 + (word)(*p++ - '0');
        word after = 0;
        if (p < end && *p == '.') {
            begin = ++p;
            after = number(&p, end);
            if (p - begin > FRACTION || p == begin) return i;
            after *= powers[FRACTION - (p - begin)];
        } else if (p == begin) return i;
        if (p != end) return i;
        uwide value = whole * ONE + after;
        put(out, minus ? -value : value);
    }
    return count;
}
