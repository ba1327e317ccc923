/* SPDX-License-Identifier: 0BSD */
/*
 * TFLM's double rounding as the kernels for Helium compute it, mostly for right shifts only. Both roundings are exact as they
 * are: edgetool_high_mul rounds half up, and the second one half away from zero, so that a negative sum needs 1 less
 * before it is rounded half up. Where all negative results are clamped to the zero point, both round alike.
 */
#ifndef EDGETOOL_SCALE_VECTOR_H
#define EDGETOOL_SCALE_VECTOR_H

#include "edgetool_helium.h"

/* `shift` is from -31 to 0, or to -1 if is_signed. */
static inline int32_t edgetool_scaled(int32_t sum, int32_t multiplier, int32_t shift, int is_signed)
{
    const int32_t product = edgetool_high_mul(sum, multiplier) + (is_signed ? sum >> 31 : 0);
    /* Half of the divisor, rounded down before it is added, cannot overflow. */
    return shift == 0 ? product : ((product >> (-shift - 1)) + 1) >> 1;
}

/* MultiplyByQuantizedMultiplier of four sums; a negative `shift` is to the right. */
static inline edgetool_s32x4 edgetool_multiply_lanes(edgetool_s32x4 sums, int32_t multiplier, int32_t shift)
{
#if defined(EDGETOOL_HELIUM)
    if (shift >= 0) {
        return vqrdmulhq_n_s32(vshlq_r_s32(sums, shift), multiplier);
    }
    return vrshlq_n_s32(vqrdmlahq_n_s32(vshrq_n_s32(sums, 31), sums, multiplier), shift);
#else
    const uint32_t left = shift < 0 ? 0 : (uint32_t)shift, right = shift < 0 ? (uint32_t)-shift : 0;
    for (int i = 0; i < 4; i++) {
        sums.lane[i] = edgetool_multiply(sums.lane[i], multiplier, left, right);
    }
    return sums;
#endif
}

#endif /* EDGETOOL_SCALE_VECTOR_H */
