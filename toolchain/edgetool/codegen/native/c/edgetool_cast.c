/* SPDX-License-Identifier: 0BSD */
#include "edgetool_cast.h"

#include "edgetool_element.h"

#define UNSIGNED 5
#define FLOAT 6

/* The lower 32 bits of a number that is rounded towards zero. */
static int32_t whole(float value)
{
    if (!(value > -2147483648.0f)) {
        return value < 0.0f ? INT32_MIN : 0;
    }
    if (value >= 4294967296.0f) {
        return -1;
    }
    return value >= 2147483648.0f ? (int32_t)((uint32_t)(value - 2147483648.0f) + 2147483648U) : (int32_t)value;
}

void edgetool_cast(const void *descriptor, const edgetool_band *band)
{
    const edgetool_cast_op *op = (const edgetool_cast_op *)descriptor;
    const uint32_t from = op->from == UNSIGNED ? 4 : op->from, to = op->to == UNSIGNED ? 4 : op->to;
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const void *source = band->rows[row];
        for (uint32_t i = 0; i < op->count; i++) {
            if (from == FLOAT) {
                edgetool_store(out, i, to, whole(((const float *)source)[i]));
            } else if (to != FLOAT) {
                edgetool_store(out, i, to, edgetool_load(source, i, from));
            } else {
                const int32_t value = edgetool_load(source, i, from);
                /* One conversion: GNU as 2.40 rejects the conditional ones that GCC would use for two. */
                const int64_t number = op->from == UNSIGNED ? (int64_t)(uint32_t)value : value;
                ((float *)(void *)out)[i] = (float)number;
            }
        }
        out += (size_t)op->count * (to == FLOAT ? 4 : to);
    }
}
