/* SPDX-License-Identifier: 0BSD */
#include "edgetool_dense_s8.h"

#include "edgetool_dot.h"

#define MANY 16U /* units whose sums are computed before their outputs, a multiple of 4 */

#if defined(EDGETOOL_DSP)

/* The codes whose products with the weights of one unit have a sum of less than 2^23 in any case. */
#define SHARE 504U

/* The codes of a row that do not fill a word, and zeros. */
static uint32_t last_word(const uint8_t *codes, uint32_t count)
{
    uint32_t word = 0;
    for (uint32_t i = 0; i < count; i++) {
        word |= (uint32_t)codes[i] << 8 * i;
    }
    return word;
}

/* The address of the codes at a multiple of 4: the row, or a copy in the second half of the scratch. */
static const int8_t *aligned(const int8_t *row, uint32_t depth, uint32_t padded, void *scratch)
{
    return edgetool_is_aligned(row) ? row : (const int8_t *)memcpy((uint8_t *)scratch + padded, row, depth);
}

/* Writes four codes as pairs of int16, (0, 2) and (1, 3); returns the sum plus theirs. */
static inline int32_t expand_word(uint32_t word, uint8_t *pairs, int32_t sum)
{
    const uint32_t even = edgetool_sxtb16(word), odd = edgetool_sxtb16_odd(word);
    edgetool_store_word(pairs, even);
    edgetool_store_word(pairs + 4, odd);
    return edgetool_smlad(odd, 0x00010001U, edgetool_smlad(even, 0x00010001U, sum));
}

/* Writes the codes as pairs, and returns their sum. A copy behind the pairs is read before these reach it. */
static int32_t expand(const int8_t *codes, uint32_t depth, uint8_t *pairs)
{
    const uint8_t *from = (const uint8_t *)codes;
    int32_t sum = 0;
    for (const uint8_t *end = from + (depth & ~7U); from != end; from += 8) {
        const uint32_t first = edgetool_load_word(from), second = edgetool_load_word(from + 4);
        sum = expand_word(second, pairs + 8, expand_word(first, pairs, sum));
        pairs += 16;
    }
    if ((depth & 4U) != 0) {
        sum = expand_word(edgetool_load_word(from), pairs, sum);
        from += 4;
        pairs += 8;
    }
    return (depth & 3U) != 0 ? expand_word(last_word(from, depth & 3U), pairs, sum) : sum;
}

/*
 * What groups of units have so far: `low`, the sums of units 0 and 2, and `both`, in which the halves of words are
 * weights, so that what it has more is 256 times the sums of units 1 and 3.
 */
#define FOUR_CODES                                                                                                     \
    do {                                                                                                               \
        const uint32_t even = edgetool_load_word(pairs), odd = edgetool_load_word(pairs + 4);                          \
        const uint32_t a = edgetool_load_word(weights), b = edgetool_load_word(weights + 4);                           \
        const uint32_t c = edgetool_load_word(weights + 8), d = edgetool_load_word(weights + 12);                      \
        both0 = edgetool_smlad(c, odd, edgetool_smlad(a, even, both0));                                                \
        both2 = edgetool_smlad(d, odd, edgetool_smlad(b, even, both2));                                                \
        low0 = edgetool_smlad(edgetool_uxtb16(c), odd, edgetool_smlad(edgetool_uxtb16(a), even, low0));                \
        low2 = edgetool_smlad(edgetool_uxtb16(d), odd, edgetool_smlad(edgetool_uxtb16(b), even, low2));                \
        pairs += 8;                                                                                                    \
        weights += 16;                                                                                                 \
    } while (0)

#if defined(EDGETOOL_DSP_ASSEMBLY)

/* FOUR_CODES in 14 instructions: compilers load the weights two by two, and spill. */
#define FOUR_CODES_ASSEMBLY                                                                                            \
    "ldmia %[weights]!, {r3, r4, r5, r6}\n\t"                                                                          \
    "ldrd %[even], %[odd], [%[pairs]], #8\n\t"                                                                         \
    "smlad %[both0], r3, %[even], %[both0]\n\t"                                                                        \
    "smlad %[both2], r4, %[even], %[both2]\n\t"                                                                        \
    "uxtb16 r3, r3\n\t"                                                                                                \
    "uxtb16 r4, r4\n\t"                                                                                                \
    "smlad %[low0], r3, %[even], %[low0]\n\t"                                                                          \
    "smlad %[low2], r4, %[even], %[low2]\n\t"                                                                          \
    "smlad %[both0], r5, %[odd], %[both0]\n\t"                                                                         \
    "smlad %[both2], r6, %[odd], %[both2]\n\t"                                                                         \
    "uxtb16 r5, r5\n\t"                                                                                                \
    "uxtb16 r6, r6\n\t"                                                                                                \
    "smlad %[low0], r5, %[odd], %[low0]\n\t"                                                                           \
    "smlad %[low2], r6, %[odd], %[low2]\n\t"

#define EIGHT_CODES_UNTIL(last)                                                                                        \
    do {                                                                                                               \
        uint32_t even, odd;                                                                                            \
        __asm__ volatile("1:\n\t" FOUR_CODES_ASSEMBLY FOUR_CODES_ASSEMBLY "cmp %[pairs], %[end]\n\tbne 1b"             \
                         : [weights] "+r"(weights), [pairs] "+r"(pairs), [both0] "+r"(both0), [both2] "+r"(both2),     \
                           [low0] "+r"(low0), [low2] "+r"(low2), [even] "=&r"(even), [odd] "=&r"(odd)                  \
                         : [end] "r"(last)                                                                             \
                         : "r3", "r4", "r5", "r6", "cc", "memory");                                                    \
    } while (0)

#else

#define EIGHT_CODES_UNTIL(last)                                                                                        \
    do {                                                                                                               \
        FOUR_CODES;                                                                                                    \
        FOUR_CODES;                                                                                                    \
    } while (pairs != (last))

#endif

/* Adds what `count` codes, at most SHARE, are in the sums of groups of units. */
static EDGETOOL_NOINLINE void share(const uint8_t *weights, const uint8_t *pairs, uint32_t count, uint32_t skip,
                                    int32_t *sums, const int32_t *end)
{
    do {
        const uint8_t *start = pairs, *last = pairs + (size_t)(count & ~7U) * 2;
        int32_t low0 = 0, low2 = 0, both0 = 0, both2 = 0;
        if (pairs != last) {
            EIGHT_CODES_UNTIL(last);
        }
        if ((count & 4U) != 0) {
            FOUR_CODES;
        }
        sums[0] = edgetool_plus(sums[0], low0);
        sums[1] = edgetool_plus(sums[1], edgetool_plus(both0, ~low0 + 1) >> 8);
        sums[2] = edgetool_plus(sums[2], low2);
        sums[3] = edgetool_plus(sums[3], edgetool_plus(both2, ~low2 + 1) >> 8);
        sums += 4;
        pairs = start;
        weights += skip;
    } while (sums != end);
}

/* Adds the products with the weights of groups of units to their sums. */
static void groups(const uint8_t *weights, const uint8_t *pairs, uint32_t depth, int32_t *sums, uint32_t units)
{
    for (uint32_t at = 0; at < depth; at += SHARE) {
        const uint32_t left = depth - at, count = left < SHARE ? left : SHARE;
        share(weights, pairs, count, (depth - count) * 4, sums, sums + units);
        weights += (size_t)count * 4;
        pairs += (size_t)count * 2;
    }
}

#else

#if defined(__thumb__) && !defined(__thumb2__) && !defined(__OPTIMIZE_SIZE__)

/* Two codes times the weights of four units. A signed byte has its offset in a register. */
#define TWO_CODES_ASSEMBLY(first, second)                                                                              \
    "ldrb %[a], [%[codes], #" first "]\n\tsxtb %[a], %[a]\n\t"                                                         \
    "ldrb %[b], [%[codes], #" second "]\n\tsxtb %[b], %[b]\n\t"                                                        \
    "ldrb %[w], [%[weights]]\n\tmuls %[w], %[a]\n\tadd %[sum0], %[w]\n\t"                                              \
    "ldrsb %[w], [%[weights], %[one]]\n\tmuls %[w], %[a]\n\tadd %[sum1], %[w]\n\t"                                     \
    "ldrb %[w], [%[weights], #2]\n\tmuls %[w], %[b]\n\tadd %[sum0], %[w]\n\t"                                          \
    "ldrsb %[w], [%[weights], %[three]]\n\tmuls %[w], %[b]\n\tadd %[sum1], %[w]\n\t"                                   \
    "ldrb %[w], [%[weights], #4]\n\tmuls %[w], %[a]\n\tadd %[sum2], %[w]\n\t"                                          \
    "adds %[weights], #4\n\t"                                                                                          \
    "ldrsb %[w], [%[weights], %[one]]\n\tmuls %[w], %[a]\n\tadd %[sum3], %[w]\n\t"                                     \
    "ldrb %[w], [%[weights], #2]\n\tmuls %[w], %[b]\n\tadd %[sum2], %[w]\n\t"                                          \
    "ldrsb %[w], [%[weights], %[three]]\n\tmuls %[w], %[b]\n\tadd %[sum3], %[w]\n\t"                                   \
    "adds %[weights], #4\n\t"

/* Adds to the sums of four units, of codes whose number is a multiple of 4. Compilers move sums to low registers. */
static EDGETOOL_NOINLINE void four_units(const uint8_t *weights, const int8_t *codes, const int8_t *last, int32_t *sums)
{
    int32_t a0 = sums[0], a1 = sums[1], a2 = sums[2], a3 = sums[3];
    uint32_t a, b, w;
    __asm__ volatile(".syntax unified\n1:\n\t" TWO_CODES_ASSEMBLY("0", "2") TWO_CODES_ASSEMBLY("1", "3")
                     "adds %[codes], #4\n\tcmp %[codes], %[last]\n\tbne 1b"
                     : [weights] "+l"(weights), [codes] "+l"(codes), [sum0] "+h"(a0), [sum1] "+h"(a1), [sum2] "+h"(a2),
                       [sum3] "+h"(a3), [a] "=&l"(a), [b] "=&l"(b), [w] "=&l"(w)
                     : [one] "l"(1), [three] "l"(3), [last] "h"(last)
                     : "cc", "memory");
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = a2;
    sums[3] = a3;
}

#elif defined(__thumb2__) && defined(__GNUC__)

/* A code times the weights of four units, of which every other one is a byte without a sign. */
#define ONE_CODE_ASSEMBLY(code, zero, one, four, five)                                                                 \
    "ldrsb %[code], " code "\n\t"                                                                                      \
    "ldrsb %[w], [%[weights], #" one "]\n\tmla %[sum1], %[w], %[code], %[sum1]\n\t"                                   \
    "ldrb %[w], [%[weights], #" four "]\n\tmla %[sum2], %[w], %[code], %[sum2]\n\t"                                   \
    "ldrsb %[w], [%[weights], #" five "]\n\tmla %[sum3], %[w], %[code], %[sum3]\n\t"                                  \
    "ldrb %[w], " zero "\n\tmla %[sum0], %[w], %[code], %[sum0]\n\t"

/* Adds to the sums of four units, of codes whose number is a multiple of 4. Compilers extend bytes in registers. */
static EDGETOOL_NOINLINE void four_units(const uint8_t *weights, const int8_t *codes, const int8_t *last, int32_t *sums)
{
    int32_t a0 = sums[0], a1 = sums[1], a2 = sums[2], a3 = sums[3];
    uint32_t code, w;
    __asm__ volatile("1:\n\t" ONE_CODE_ASSEMBLY("[%[codes], #2]", "[%[weights], #2]", "3", "6", "7")
                         ONE_CODE_ASSEMBLY("[%[codes], #1]", "[%[weights], #8]", "9", "12", "13")
                             ONE_CODE_ASSEMBLY("[%[codes], #3]", "[%[weights], #10]", "11", "14", "15")
                                 ONE_CODE_ASSEMBLY("[%[codes]], #4", "[%[weights]], #16", "1", "4", "5")
                     "cmp %[codes], %[last]\n\tbne 1b"
                     : [weights] "+r"(weights), [codes] "+r"(codes), [sum0] "+r"(a0), [sum1] "+r"(a1), [sum2] "+r"(a2),
                       [sum3] "+r"(a3), [code] "=&r"(code), [w] "=&r"(w)
                     : [last] "r"(last)
                     : "cc", "memory");
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = a2;
    sums[3] = a3;
}

#else

/* Adds the products of a code with the weights of four units. */
#define ONE_CODE(weights, code, sum)                                                                                   \
    do {                                                                                                               \
        sum##0 += (code) * (weights)[0];                                                                               \
        sum##1 += (code) * (int8_t)(weights)[1];                                                                       \
        sum##2 += (code) * (weights)[4];                                                                               \
        sum##3 += (code) * (int8_t)(weights)[5];                                                                       \
    } while (0)

#if defined(__riscv)
/* GCC would load the weights of several codes first, and spill. */
#define KEEP_ORDER __asm__ volatile("" : : : "memory")
#else
#define KEEP_ORDER
#endif

/* Adds to the sums of four units, of codes whose number is a multiple of 4 and not 0. */
static inline void four_units(const uint8_t *weights, const int8_t *codes, const int8_t *last, int32_t *sums)
{
    int32_t a0 = sums[0], a1 = sums[1], a2 = sums[2], a3 = sums[3];
    do {
        int32_t code = codes[0];
        ONE_CODE(weights, code, a);
        KEEP_ORDER;
        code = codes[2];
        ONE_CODE(weights + 2, code, a);
        KEEP_ORDER;
        code = codes[1];
        ONE_CODE(weights + 8, code, a);
        KEEP_ORDER;
        code = codes[3];
        ONE_CODE(weights + 10, code, a);
        weights += 16;
        codes += 4;
    } while (codes != last);
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = a2;
    sums[3] = a3;
}

#if !defined(__thumb__)

/* The same of eight units, the last four with their weights at `other`, for processors with the registers for it. */
static EDGETOOL_NOINLINE void eight_units(const uint8_t *weights, const uint8_t *other, const int8_t *codes,
                                          const int8_t *last, int32_t *sums)
{
    int32_t a0 = sums[0], a1 = sums[1], a2 = sums[2], a3 = sums[3];
    int32_t b0 = sums[4], b1 = sums[5], b2 = sums[6], b3 = sums[7];
    do {
        int32_t code = codes[0];
        ONE_CODE(weights, code, a);
        ONE_CODE(other, code, b);
        KEEP_ORDER;
        code = codes[2];
        ONE_CODE(weights + 2, code, a);
        ONE_CODE(other + 2, code, b);
        KEEP_ORDER;
        code = codes[1];
        ONE_CODE(weights + 8, code, a);
        ONE_CODE(other + 8, code, b);
        KEEP_ORDER;
        code = codes[3];
        ONE_CODE(weights + 10, code, a);
        ONE_CODE(other + 10, code, b);
        weights += 16;
        other += 16;
        codes += 4;
    } while (codes != last);
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = a2;
    sums[3] = a3;
    sums[4] = b0;
    sums[5] = b1;
    sums[6] = b2;
    sums[7] = b3;
}

#endif

#endif

/* Adds what `count` codes, a multiple of 4, are in the sums of groups of units. `skip`: the bytes of other codes. */
static EDGETOOL_NOINLINE void share(const uint8_t *weights, const int8_t *codes, uint32_t count, uint32_t skip,
                                    int32_t *sums, const int32_t *end)
{
    const uint32_t next = count * 4 + skip;
    while (sums != end) {
#if !defined(__thumb__)
        if (end - sums >= 8) {
            eight_units(weights, weights + next, codes, codes + count, sums);
            weights += (size_t)next * 2;
            sums += 8;
            continue;
        }
#endif
        four_units(weights, codes, codes + count, sums);
        weights += next;
        sums += 4;
    }
}

/* Adds the products with the weights of groups of units to their sums. rest: the codes that do not fill a word. */
static void groups(const uint8_t *weights, const int8_t *codes, const int8_t *rest, uint32_t depth, int32_t *sums,
                   uint32_t units)
{
    const uint32_t padded = (depth + 3U) & ~3U, whole = depth & ~3U;
    if (whole != 0) {
        share(weights, codes, whole, (padded - whole) * 4, sums, sums + units);
    }
    if (whole != padded) {
        share(weights + (size_t)whole * 4, rest, 4, whole * 4, sums, sums + units);
    }
}

#endif

/* Writes the outputs of `count` units from `unit` on; returns their end. */
static EDGETOOL_NOINLINE int8_t *finish(const edgetool_dense_s8_op *op, const int32_t *sums, uint32_t unit,
                                        uint32_t count, int8_t *out)
{
    const uint32_t step = op->scale_step, shift = op->shift;
    const edgetool_scale *scale = op->scales + (size_t)unit * step;
    const int8_t *end = out + count;
    const int full = op->low == INT8_MIN && op->high == INT8_MAX;
    if (full && shift < EDGETOOL_SIGN) {
        do {
            *out++ = (int8_t)edgetool_line(*sums++, scale->multiplier, edgetool_line_offset(scale), shift);
            scale += step;
        } while (out != end);
    } else if (full && shift == EDGETOOL_SIGN) {
        const int32_t zero_point = op->zero_point;
        do {
            const int32_t acc = edgetool_plus(*sums++, (int32_t)scale->low);
            const int32_t code = edgetool_signed_scale(acc, scale->multiplier, (uint32_t)scale->high) + zero_point;
            *out++ = (int8_t)edgetool_ssat8(code);
            scale += step;
        } while (out != end);
    } else {
        const int32_t low = op->low, high = op->high, zero_point = op->zero_point;
        do {
            *out++ = (int8_t)edgetool_clamp(edgetool_rescale(*sums++, scale, shift, zero_point), low, high);
            scale += step;
        } while (out != end);
    }
    return out;
}

/* Computes the sums of one or two units that are not in groups, the first of which is `unit`. */
static void others(const edgetool_dense_s8_op *op, uint32_t unit, uint32_t count, const int8_t *codes, int32_t *sums)
{
    const uint32_t depth = op->depth, padded = (depth + 3U) & ~3U;
    const uint8_t *weights = (const uint8_t *)op->weights + (size_t)padded * unit;
    const int32_t minus = -op->weights_zero_point;
    if (count == 1) {
        sums[0] = edgetool_dot(weights, codes, depth, minus);
    } else {
        edgetool_two_dots(weights, weights + padded, codes, depth, minus, sums);
    }
    for (uint32_t i = 0; op->offsets != NULL && i < count; i++) {
        sums[i] = edgetool_plus(sums[i], op->offsets[unit + i]);
    }
}

/* A row whose products are computed: its codes, as groups need them, and their sum. */
typedef struct {
    const int8_t *codes;
    int32_t sum;
#if defined(EDGETOOL_DSP)
    const uint8_t *pairs;
#else
    int8_t rest[4];
#endif
} row;

static row row_of(const edgetool_dense_s8_op *op, const int8_t *codes, void *scratch)
{
    row made;
    made.codes = codes;
#if defined(EDGETOOL_DSP)
    made.pairs = (const uint8_t *)scratch;
    made.sum = expand(codes, op->depth, (uint8_t *)scratch);
#else
    const uint32_t left = op->depth & 3U;
    const int8_t *last = codes + (op->depth - left);
    (void)scratch;
    made.sum = edgetool_sum_of_codes(codes, op->depth);
    made.rest[0] = left > 0 ? last[0] : 0;
    made.rest[1] = left > 1 ? last[1] : 0;
    made.rest[2] = left > 2 ? last[2] : 0;
    made.rest[3] = 0;
#endif
    return made;
}

/* Computes the sums of `count` units in groups, the first of which is `unit`. */
static void sums_of_groups(const edgetool_dense_s8_op *op, const row *from, uint32_t unit, uint32_t count,
                           int32_t *sums)
{
    const uint32_t padded = (op->depth + 3U) & ~3U;
    const uint8_t *weights = (const uint8_t *)op->weights + (size_t)padded * unit;
    const int32_t *offsets = op->offsets != NULL ? op->offsets + unit : NULL;
    /* What the weights' zero point takes from each sum, and with it the 128 too many of every other unit. */
    const int32_t excess = from->sum * op->weights_zero_point, more = excess + from->sum * 128;
    const int32_t even = -more, odd = -excess;
    for (int32_t *at = sums, *end = sums + count; at != end; at += 2) {
        int32_t first = even, second = odd;
        if (offsets != NULL) {
            first = edgetool_plus(first, offsets[0]);
            second = edgetool_plus(second, offsets[1]);
            offsets += 2;
        }
        at[0] = first;
        at[1] = second;
    }
#if defined(EDGETOOL_DSP)
    groups(weights, from->pairs, padded, sums, count);
#else
    groups(weights, from->codes, from->rest, op->depth, sums, count);
#endif
}

/* The outputs of some rows of few units, which have `width` sums each, and at most MANY in all. */
static int8_t *few_units(const edgetool_dense_s8_op *op, const int8_t *codes, uint32_t rows, uint32_t width,
                         void *scratch, int8_t *out)
{
    const uint32_t grouped = op->grouped, units = op->units;
    int32_t sums[MANY];
    for (uint32_t y = 0; y < rows; y++) {
        int32_t *at = sums + (size_t)width * y;
        const int8_t *from = codes;
#if defined(EDGETOOL_DSP)
        from = aligned(codes, op->depth, (op->depth + 3U) & ~3U, scratch);
#endif
        for (uint32_t unit = grouped; unit < units; unit += 2) {
            others(op, unit, units - unit == 1 ? 1 : 2, from, at + unit);
        }
        if (grouped != 0) {
            const row made = row_of(op, from, scratch);
            sums_of_groups(op, &made, 0, grouped, at);
        }
        codes += op->depth;
    }
    if (op->scale_step == 0 && width == units) {
        return finish(op, sums, 0, units * rows, out);
    }
    for (uint32_t y = 0; y < rows; y++) {
        out = finish(op, sums + (size_t)width * y, 0, units, out);
    }
    return out;
}

/* The outputs of a row. */
static int8_t *many_units(const edgetool_dense_s8_op *op, const int8_t *codes, void *scratch, int8_t *out)
{
    const uint32_t grouped = op->grouped, units = op->units;
    int32_t sums[MANY], last[2];
#if defined(EDGETOOL_DSP)
    codes = aligned(codes, op->depth, (op->depth + 3U) & ~3U, scratch);
#endif
    if (grouped == 0) {
        for (uint32_t unit = 0; unit < units; unit += 2) {
            const uint32_t count = units - unit == 1 ? 1 : 2;
            others(op, unit, count, codes, last);
            out = finish(op, last, unit, count, out);
        }
        return out;
    }
    if (grouped < units) {
        others(op, grouped, units - grouped, codes, last);
    }
    const row from = row_of(op, codes, scratch);
    for (uint32_t unit = 0; unit < grouped; unit += MANY) {
        const uint32_t left = grouped - unit, count = left < MANY ? left : MANY;
        sums_of_groups(op, &from, unit, count, sums);
        out = finish(op, sums, unit, unit + count <= units ? count : units - unit, out);
    }
    return grouped < units ? finish(op, last, grouped, units - grouped, out) : out;
}

void edgetool_dense_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_dense_s8_op *op = (const edgetool_dense_s8_op *)descriptor;
    const uint32_t width = op->units < op->grouped ? op->grouped : op->units;
    const uint32_t together = width <= MANY ? MANY / width : 1;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const int8_t *codes = (const int8_t *)band->rows[y];
        for (uint32_t left = op->rows; left != 0;) {
            const uint32_t rows = left < together ? left : together;
            out = width <= MANY ? few_units(op, codes, rows, width, band->scratch, out)
                                : many_units(op, codes, band->scratch, out);
            codes += (size_t)op->depth * rows;
            left -= rows;
        }
    }
}
