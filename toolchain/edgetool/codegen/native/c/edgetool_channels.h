/* SPDX-License-Identifier: 0BSD */
/* Products of the same codes with the weights of several output channels. */
#ifndef EDGETOOL_CHANNELS_H
#define EDGETOOL_CHANNELS_H

#include "edgetool_dsp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Channels that are computed at once, as far as there are registers. */
#if defined(__thumb__) && !defined(__thumb2__)
#define EDGETOOL_CHANNELS 2U
#else
#define EDGETOOL_CHANNELS 4U
#endif

/* Adds products of the same codes with the weights of channels, which are at these distances from the first ones. */
static EDGETOOL_NOINLINE void edgetool_add_products(const int8_t *codes, uint32_t count, const int8_t *weights,
                                                    const uint32_t *distances, int32_t *sums)
{
    const int8_t *end = codes + count, *second = weights + distances[1];
    int32_t s0 = sums[0], s1 = sums[1];
#if !defined(__thumb__) || defined(__thumb2__)
    const int8_t *third = weights + distances[2], *fourth = weights + distances[3];
    int32_t s2 = sums[2], s3 = sums[3];
#endif
#if defined(EDGETOOL_DSP)
#define ADD(sum, weight) \
    sum = edgetool_smlad(edgetool_sxtb16(edgetool_load_word(weight)), even, sum); \
    sum = edgetool_smlad(edgetool_sxtb16_odd(edgetool_load_word(weight)), odd, sum); \
    weight += 4;
    const uintptr_t bits = (uintptr_t)weights | (uintptr_t)second | (uintptr_t)third | (uintptr_t)fourth;
    if ((bits | (uintptr_t)codes | count) % 4 == 0) {
        while (codes != end) {
            const uint32_t word = edgetool_load_word(codes), even = edgetool_sxtb16(word);
            const uint32_t odd = edgetool_sxtb16_odd(word);
            codes += 4;
            ADD(s0, weights)
            ADD(s1, second)
            ADD(s2, third)
            ADD(s3, fourth)
        }
    }
#undef ADD
#endif
    while (codes != end) {
        const int32_t code = *codes++;
        s0 += *weights++ * code;
        s1 += *second++ * code;
#if !defined(__thumb__) || defined(__thumb2__)
        s2 += *third++ * code;
        s3 += *fourth++ * code;
#endif
    }
    sums[0] = s0;
    sums[1] = s1;
#if !defined(__thumb__) || defined(__thumb2__)
    sums[2] = s2;
    sums[3] = s3;
#endif
}

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_CHANNELS_H */
