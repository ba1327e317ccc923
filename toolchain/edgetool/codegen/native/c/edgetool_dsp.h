/* SPDX-License-Identifier: 0BSD */
/*
 * The instructions of Arm's DSP extension (Armv7E-M, Armv8-M) that kernels use, each with a definition in C for other
 * processors, and words at aligned addresses.
 *
 * EDGETOOL_DSP is defined if the processor has the instructions, or if the build defines it, as tests do.
 * EDGETOOL_DSP_ASSEMBLY is defined if the instructions themselves can be written.
 */
#ifndef EDGETOOL_DSP_H
#define EDGETOOL_DSP_H

#include "edgetool_native.h"

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32) && defined(__GNUC__)
#define EDGETOOL_DSP_ASSEMBLY 1
#if !defined(EDGETOOL_DSP)
#define EDGETOOL_DSP 1
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define EDGETOOL_ALIGNED(pointer) __builtin_assume_aligned(pointer, 4)
/* For a function with a loop that needs all registers. */
#define EDGETOOL_NOINLINE __attribute__((noinline))
/* For one whose constant arguments are to decide what it does. */
#define EDGETOOL_INLINE inline __attribute__((always_inline))
#else
#define EDGETOOL_INLINE inline
#define EDGETOOL_ALIGNED(pointer) (pointer)
#define EDGETOOL_NOINLINE
#endif

/* Whether a pointer, or a difference of pointers, is a multiple of 4. */
static inline int edgetool_is_aligned(const void *pointer)
{
    return ((uintptr_t)pointer & 3U) == 0;
}

/* The word at a multiple of 4, whatever the type of its contents. */
static inline uint32_t edgetool_load_word(const void *from)
{
    uint32_t word;
    memcpy(&word, EDGETOOL_ALIGNED(from), sizeof word);
    return word;
}

static inline void edgetool_store_word(void *to, uint32_t word)
{
    memcpy(EDGETOOL_ALIGNED(to), &word, sizeof word);
}

#if defined(EDGETOOL_DSP_ASSEMBLY)

/* The bytes 0 and 2 of a word as two numbers of 16 bits. */
static inline uint32_t edgetool_sxtb16(uint32_t word)
{
    uint32_t pair;
    __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(word));
    return pair;
}

/* The bytes 1 and 3. */
static inline uint32_t edgetool_sxtb16_odd(uint32_t word)
{
    uint32_t pair;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
}

/* The bytes 0 and 2 without signs. */
static inline uint32_t edgetool_uxtb16(uint32_t word)
{
    uint32_t pair;
    __asm__("uxtb16 %0, %1" : "=r"(pair) : "r"(word));
    return pair;
}

/* Two numbers of 16 bits plus the bytes 0 and 2 of a word. */
static inline uint32_t edgetool_sxtab16(uint32_t pair, uint32_t word)
{
    uint32_t sums;
    __asm__("sxtab16 %0, %1, %2" : "=r"(sums) : "r"(pair), "r"(word));
    return sums;
}

/* Two numbers of 16 bits plus the bytes 1 and 3. */
static inline uint32_t edgetool_sxtab16_odd(uint32_t pair, uint32_t word)
{
    uint32_t sums;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(sums) : "r"(pair), "r"(word));
    return sums;
}

/* The lower half of a, and above it the lower half of b. */
static inline uint32_t edgetool_pack_low(uint32_t a, uint32_t b)
{
    uint32_t pair;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(pair) : "r"(a), "r"(b));
    return pair;
}

/* The upper half of a, and above it the upper half of b. */
static inline uint32_t edgetool_pack_high(uint32_t a, uint32_t b)
{
    uint32_t pair;
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(pair) : "r"(b), "r"(a));
    return pair;
}

/* The sum plus both products of the halves of a and b. */
static inline int32_t edgetool_smlad(uint32_t a, uint32_t b, int32_t sum)
{
    int32_t result;
    __asm__("smlad %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* The sum plus the product of the lower halves. */
static inline int32_t edgetool_smlabb(uint32_t a, uint32_t b, int32_t sum)
{
    int32_t result;
    __asm__("smlabb %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* The sum plus the product of the upper halves. */
static inline int32_t edgetool_smlatt(uint32_t a, uint32_t b, int32_t sum)
{
    int32_t result;
    __asm__("smlatt %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* The sum plus the product of the lower half of a and the upper half of b. */
static inline int32_t edgetool_smlabt(uint32_t a, uint32_t b, int32_t sum)
{
    int32_t result;
    __asm__("smlabt %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* The sum plus the product of the upper half of a and the lower half of b. */
static inline int32_t edgetool_smlatb(uint32_t a, uint32_t b, int32_t sum)
{
    int32_t result;
    __asm__("smlatb %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* The upper word of a * b + 2^31. */
static inline int32_t edgetool_smmulr(int32_t a, int32_t b)
{
    int32_t result;
    __asm__("smmulr %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

/* The upper word of a * b, plus c. */
static inline int32_t edgetool_smmla(int32_t a, int32_t b, int32_t c)
{
    int32_t result;
    __asm__("smmla %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
}

/* c plus the upper word of a * b + 2^31. */
static inline int32_t edgetool_smmlar(int32_t a, int32_t b, int32_t c)
{
    int32_t result;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
}

/* The larger one of each pair of signed bytes. */
static inline uint32_t edgetool_max8(uint32_t a, uint32_t b)
{
    uint32_t result;
    __asm__("ssub8 %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(result) : "r"(a), "r"(b) : "cc");
    return result;
}

/* The smaller one. */
static inline uint32_t edgetool_min8(uint32_t a, uint32_t b)
{
    uint32_t result;
    __asm__("ssub8 %0, %1, %2\n\tsel %0, %2, %1" : "=&r"(result) : "r"(a), "r"(b) : "cc");
    return result;
}

#else

static inline uint32_t edgetool_pack_low(uint32_t a, uint32_t b)
{
    return (a & 0xFFFFU) | b << 16;
}

static inline uint32_t edgetool_pack_high(uint32_t a, uint32_t b)
{
    return a >> 16 | (b & 0xFFFF0000U);
}

static inline uint32_t edgetool_sxtb16(uint32_t word)
{
    return edgetool_pack_low((uint32_t)(int8_t)word, (uint32_t)(int8_t)(word >> 16));
}

static inline uint32_t edgetool_sxtb16_odd(uint32_t word)
{
    return edgetool_sxtb16(word >> 8);
}

static inline uint32_t edgetool_uxtb16(uint32_t word)
{
    return word & 0x00FF00FFU;
}

static inline uint32_t edgetool_sxtab16(uint32_t pair, uint32_t word)
{
    const uint32_t bytes = edgetool_sxtb16(word);
    return edgetool_pack_low(pair + bytes, (pair >> 16) + (bytes >> 16));
}

static inline uint32_t edgetool_sxtab16_odd(uint32_t pair, uint32_t word)
{
    return edgetool_sxtab16(pair, word >> 8);
}

static inline int32_t edgetool_smlabb(uint32_t a, uint32_t b, int32_t sum)
{
    return edgetool_plus(sum, (int16_t)a * (int16_t)b);
}

static inline int32_t edgetool_smlatt(uint32_t a, uint32_t b, int32_t sum)
{
    return edgetool_smlabb(a >> 16, b >> 16, sum);
}

static inline int32_t edgetool_smlabt(uint32_t a, uint32_t b, int32_t sum)
{
    return edgetool_smlabb(a, b >> 16, sum);
}

static inline int32_t edgetool_smlatb(uint32_t a, uint32_t b, int32_t sum)
{
    return edgetool_smlabb(a >> 16, b, sum);
}

static inline int32_t edgetool_smlad(uint32_t a, uint32_t b, int32_t sum)
{
    return edgetool_smlatt(a, b, edgetool_smlabb(a, b, sum));
}

static inline int32_t edgetool_smmla(int32_t a, int32_t b, int32_t c)
{
#if defined(__thumb__) && !defined(__thumb2__)
    /* Armv6-M multiplies words to words, and the compiler's function for 64 bits is slower than halves. */
    const uint32_t a_low = (uint32_t)a & 0xFFFFU, b_low = (uint32_t)b & 0xFFFFU;
    const int32_t a_high = a >> 16, b_high = b >> 16;
    const int32_t middle = a_high * (int32_t)b_low + (int32_t)(a_low * b_low >> 16);
    const int32_t rest = (int32_t)a_low * b_high + (middle & 0xFFFF);
    return edgetool_plus(a_high * b_high + (middle >> 16) + (rest >> 16), c);
#else
    return edgetool_plus((int32_t)((int64_t)a * b >> 32), c);
#endif
}

static inline int32_t edgetool_smmulr(int32_t a, int32_t b)
{
#if defined(__thumb__) && !defined(__thumb2__)
    return edgetool_smmla(a, b, (int32_t)((uint32_t)a * (uint32_t)b >> 31));
#else
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 31)) >> 32);
#endif
}

static inline int32_t edgetool_smmlar(int32_t a, int32_t b, int32_t c)
{
    return edgetool_plus(edgetool_smmulr(a, b), c);
}

static inline uint32_t edgetool_max8(uint32_t a, uint32_t b)
{
    uint32_t result = 0;
    for (uint32_t at = 0; at < 32; at += 8) {
        const uint32_t byte = (int8_t)(a >> at) > (int8_t)(b >> at) ? a : b;
        result |= byte & 0xFFU << at;
    }
    return result;
}

static inline uint32_t edgetool_min8(uint32_t a, uint32_t b)
{
    return a ^ b ^ edgetool_max8(a, b);
}

#endif

/* The nearest int8. */
static inline int32_t edgetool_ssat8(int32_t value)
{
#if defined(__ARM_FEATURE_SAT) && defined(__thumb2__) && defined(__GNUC__)
    int32_t result;
    __asm__("ssat %0, #8, %1" : "=r"(result) : "r"(value));
    return result;
#else
    return edgetool_clamp(value, -128, 127);
#endif
}

/* Clamps codes that are beside each other. */
static inline void edgetool_clamp_codes(int8_t *codes, uint32_t count, int32_t low, int32_t high)
{
    if (low == INT8_MIN && high == INT8_MAX) {
        return;
    }
#if defined(EDGETOOL_DSP)
    if (edgetool_is_aligned(codes)) {
        const uint32_t lows = (uint32_t)(uint8_t)low * 0x01010101U, highs = (uint32_t)(uint8_t)high * 0x01010101U;
        for (; count >= 4; count -= 4) {
            edgetool_store_word(codes, edgetool_min8(edgetool_max8(edgetool_load_word(codes), lows), highs));
            codes += 4;
        }
    }
#endif
    for (const int8_t *end = codes + count; codes != end; codes++) {
        *codes = (int8_t)edgetool_clamp(*codes, low, high);
    }
}

/*
 * edgetool_rescale for the form "line" with the clamp to int8: one SMLAL, a shift and one SSAT. `offset` is the upper
 * and lower word of the scale.
 */
static inline int32_t edgetool_line(int32_t sum, int32_t multiplier, int64_t offset, uint32_t shift)
{
    const int64_t line = (int64_t)sum * multiplier + offset;
    return edgetool_ssat8((int32_t)(line >> 32) >> shift);
}

/* high << 32 | low of a scale in the form "line". */
static inline int64_t edgetool_line_offset(const edgetool_scale *scale)
{
    return (int64_t)((uint64_t)(uint32_t)scale->high << 32 | scale->low);
}

/*
 * edgetool_rescale for the form "sign" without the zero point; acc is the sum plus `low`. It is below 2^30, so that the
 * rounded product is the upper word of twice acc times the multiplier.
 */
static inline int32_t edgetool_signed_scale(int32_t acc, int32_t multiplier, uint32_t shift)
{
    const int32_t product = edgetool_smmulr(acc * 2, multiplier);
    return (product + (1 << (shift - 1U)) + (acc >> 31)) >> shift;
}

/*
 * The code of a sum without its clamp, for a scale in the form "rounded": the form "line" with other numbers, for which
 * one instruction is enough.
 */
static inline int32_t edgetool_rounded(int32_t sum, const edgetool_scale *scale, uint32_t shift)
{
    return edgetool_smmlar(edgetool_plus(sum, (int32_t)scale->low), scale->multiplier, scale->high) >> shift;
}

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_DSP_H */
