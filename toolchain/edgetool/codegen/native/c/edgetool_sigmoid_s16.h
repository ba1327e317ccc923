/* SPDX-License-Identifier: 0BSD */
/*
 * Sigmoid and tanh of int16 from one table with interpolation (Logistic and Tanh of integer_ops/logistic.h and tanh.h).
 *
 * table[i] is sigmoid(i / 24) in units of 2^-16, for i = 0 .. 255. The argument is the real number in units of 2^-12,
 * times 3. The results are in units of 2^-15.
 */
#ifndef EDGETOOL_SIGMOID_S16_H
#define EDGETOOL_SIGMOID_S16_H

#include "edgetool_native.h"

/* The table between two entries, in units of 2^-(16 + bits). */
static inline int32_t edgetool_interpolated(const uint16_t *table, uint32_t magnitude, uint32_t bits)
{
    const int32_t low = table[magnitude >> bits], high = table[(magnitude >> bits) + 1];
    return (int32_t)((uint32_t)low << bits) + (int32_t)(magnitude & ((1U << bits) - 1U)) * (high - low);
}

static inline int32_t edgetool_sigmoid_s16(const uint16_t *table, int32_t x)
{
    const uint32_t magnitude = (uint32_t)(x < 0 ? -x : x);
    const int32_t value = magnitude >> 9 < 255 ? edgetool_interpolated(table, magnitude, 9) : 0x7FFF << 10;
    return (x < 0 ? (1 << 25) - value + 511 : value + 512) >> 10;
}

static inline int32_t edgetool_tanh_s16(const uint16_t *table, int32_t x)
{
    const uint32_t magnitude = (uint32_t)(x < 0 ? -x : x);
    const int32_t half = magnitude >> 8 < 255 ? edgetool_interpolated(table, magnitude, 8) : 0xFFFF << 8;
    const int32_t value = half - (1 << 23);
    return (x < 0 ? 127 - value : value + 128) >> 8;
}

#endif /* EDGETOOL_SIGMOID_S16_H */
