/* SPDX-License-Identifier: 0BSD */
/* The rows and columns of an image that a window of a pooling operator covers, and the clamp of its outputs. */
#ifndef EDGETOOL_POOL_H
#define EDGETOOL_POOL_H

#include "edgetool_native.h"

/* Pointers to rows from `first` to `end`. */
typedef struct {
    const void *const *first;
    const void *const *end;
} edgetool_rows;

/* The rows inside an image, of which there is at least one: those outside are the first or the last ones. */
static inline edgetool_rows edgetool_pool_rows(const void *const *rows, uint32_t taps)
{
    edgetool_rows inside;
    inside.first = rows;
    inside.end = rows + taps;
    while (inside.first != inside.end && *inside.first == NULL) {
        inside.first++;
    }
    while (inside.first != inside.end && inside.end[-1] == NULL) {
        inside.end--;
    }
    return inside;
}

/* Whether rows are words at multiples of 4. */
static inline int edgetool_pool_has_words(edgetool_rows rows, uint32_t channels)
{
    uintptr_t bits = channels;
    for (const void *const *row = rows.first; row != rows.end; row++) {
        bits |= (uintptr_t)*row;
    }
    return (bits & 3U) == 0;
}

/* Clamps codes to low .. high. */
static inline void edgetool_pool_clamp(int8_t *codes, uint32_t count, int32_t low, int32_t high)
{
    if (low == INT8_MIN && high == INT8_MAX) {
        return;
    }
    for (const int8_t *end = codes + count; codes != end; codes++) {
        *codes = (int8_t)edgetool_clamp(*codes, low, high);
    }
}

/* `count` columns from `first` on. */
typedef struct {
    uint32_t first;
    uint32_t count;
} edgetool_columns;

/* The columns inside an image of the window of output column x, of which there is at least one. */
static inline edgetool_columns edgetool_pool_columns(uint32_t x, uint32_t stride, uint32_t taps, uint32_t pad,
                                                     uint32_t width)
{
    /* Columns are counted from the first one of the padding, so that none is negative. */
    const uint32_t start = x * stride, stop = start + taps, last = pad + width;
    const uint32_t first = start > pad ? start : pad, end = stop < last ? stop : last;
    edgetool_columns columns;
    columns.first = first - pad;
    columns.count = end - first;
    return columns;
}

#endif /* EDGETOOL_POOL_H */
