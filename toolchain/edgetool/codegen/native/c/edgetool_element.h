/* SPDX-License-Identifier: 0BSD */
/*
 * Signed elements of 1, 2 or 4 bytes, for kernels of several types.
 */
#ifndef EDGETOOL_ELEMENT_H
#define EDGETOOL_ELEMENT_H

#include "edgetool_native.h"

static inline int32_t edgetool_load(const void *row, uint32_t i, uint32_t bytes)
{
    if (bytes == 1) {
        return ((const int8_t *)row)[i];
    }
    return bytes == 2 ? ((const int16_t *)row)[i] : ((const int32_t *)row)[i];
}

static inline void edgetool_store(void *row, uint32_t i, uint32_t bytes, int32_t value)
{
    if (bytes == 1) {
        ((int8_t *)row)[i] = (int8_t)value;
    } else if (bytes == 2) {
        ((int16_t *)row)[i] = (int16_t)value;
    } else {
        ((int32_t *)row)[i] = value;
    }
}

/* a + b, with the lower 32 bits of the sum. */
static inline int32_t edgetool_wrapping_add(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

#endif /* EDGETOOL_ELEMENT_H */
