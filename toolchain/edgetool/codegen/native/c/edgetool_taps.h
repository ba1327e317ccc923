/* SPDX-License-Identifier: 0BSD */
/* The addresses of the taps of a pixel. */
#ifndef EDGETOOL_TAPS_H
#define EDGETOOL_TAPS_H

#include "edgetool_native.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The columns of a window, and a pixel for taps outside the input. */
typedef struct {
    const int8_t *outside;
    uint32_t width;
    uint32_t channels;
    uint32_t taps_y;
    uint32_t taps_x;
    uint32_t dilation;
} edgetool_window;

/* A table of addresses in scratch that is 4 bytes larger: addresses have 8 bytes where tests run. */
static inline const int8_t **edgetool_tap_table(void *scratch)
{
    const uintptr_t last = sizeof(const int8_t *) - 1;
    return (const int8_t **)(((uintptr_t)scratch + last) & ~last);
}

/* Writes the addresses of all taps, of which the first is at `start`; a column before the first one is a large number. */
static inline void edgetool_find_taps(const edgetool_window *window, const void *const *rows, uint32_t start,
                                      const int8_t **taps)
{
    const uint32_t width = window->width, taps_x = window->taps_x, dilation = window->dilation;
    const uint32_t channels = window->channels, last = (taps_x - 1) * dilation;
    const int is_inside = start < width && last < width - start;
    for (const void *const *end = rows + window->taps_y; rows != end; rows++) {
        const int8_t *row = (const int8_t *)*rows;
        if (is_inside || row == NULL) {
            const int8_t *tap = row != NULL ? row + start * channels : window->outside;
            const uint32_t step = row != NULL ? dilation * channels : 0;
            *taps++ = tap;
            for (uint32_t tx = 1; tx < taps_x; tx++) {
                tap += step;
                *taps++ = tap;
            }
        } else {
            uint32_t column = start;
            for (uint32_t tx = 0; tx < taps_x; tx++) {
                *taps++ = column < width ? row + column * channels : window->outside;
                column += dilation;
            }
        }
    }
}

#ifdef __cplusplus
}
#endif

#endif /* EDGETOOL_TAPS_H */
