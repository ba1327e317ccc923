/* SPDX-License-Identifier: 0BSD */
/* The columns of an image that a window of a pooling operator covers. */
#ifndef EDGETOOL_POOL_H
#define EDGETOOL_POOL_H

#include "edgetool_native.h"

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
