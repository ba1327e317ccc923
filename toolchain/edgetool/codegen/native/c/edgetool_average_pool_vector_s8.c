/* SPDX-License-Identifier: 0BSD */
#include "edgetool_average_pool_vector_s8.h"

#include "edgetool_pool.h"
#include "edgetool_sums_vector.h"

/*
 * How sums of `count` codes are divided: 2 * sum + 257 * count, or 1 less for negative sums, divided by 2 * count is the
 * mean, rounded half away from zero, plus 128. The quotient by multiplication with 2^32 / (2 * count), rounded up, is
 * exact for dividends below 512 * count, and up to 2048 codes.
 */
typedef struct {
    uint32_t count;
    uint32_t reciprocal;
} divisor;

static inline edgetool_s32x4 means(edgetool_s32x4 sums, divisor by)
{
    const int32_t zero = (int32_t)(257U * by.count);
#if defined(EDGETOOL_HELIUM)
    const int32x4_t dividends = vaddq_n_s32(vmlaq_n_s32(vshrq_n_s32(sums, 31), sums, 2), zero);
    return vreinterpretq_s32_u32(vmulhq_u32(vreinterpretq_u32_s32(dividends), vdupq_n_u32(by.reciprocal)));
#else
    for (uint32_t i = 0; i < 4; i++) {
        const int32_t dividend = (sums.lane[i] >> 31) + 2 * sums.lane[i] + zero;
        sums.lane[i] = (int32_t)((uint64_t)(uint32_t)dividend * by.reciprocal >> 32);
    }
    return sums;
#endif
}

void edgetool_average_pool_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_average_pool_vector_s8_op *op = (const edgetool_average_pool_vector_s8_op *)descriptor;
    const uint32_t channels = op->channels;
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    divisor by = {0, 0};
    for (uint32_t y = 0; y < band->count; y++) {
        const edgetool_rows inside = edgetool_pool_rows(rows, op->taps_y);
        rows += op->taps_y;
        for (uint32_t x = 0; x < op->output_width; x++) {
            const edgetool_columns columns =
                edgetool_pool_columns(x, op->stride_x, op->taps_x, op->pad_x, op->input_width);
            const uint32_t count = (uint32_t)(inside.end - inside.first) * columns.count;
            size_t start = (size_t)columns.first * channels;
            if (count != by.count) {
                by.count = count;
                by.reciprocal = 0x7FFFFFFFU / count + 1;
            }
            for (uint32_t left = channels; left != 0;) {
                const uint32_t lanes = left < EDGETOOL_SUM_LANES ? left : EDGETOOL_SUM_LANES;
                edgetool_sums sums = {edgetool_all_s32(0), edgetool_all_s32(0)};
                sums = edgetool_add_part(sums, inside.first, inside.end, start, columns.count, channels, lanes);
                sums.even = means(sums.even, by);
                sums.odd = means(sums.odd, by);
                edgetool_store_codes(out, sums, -128, op->low, op->high, lanes);
                out += lanes;
                start += lanes;
                left -= lanes;
            }
        }
    }
}
