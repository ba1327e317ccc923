/* SPDX-License-Identifier: 0BSD */
#include "edgetool_average_pool_s8.h"

#include "edgetool_dsp.h"
#include "edgetool_pool.h"

/* The most codes of a window that are divided by a product. With 128 more for each code, their sum fits 16 bits. */
#define FEW 256U

/* The part of a window that is inside the image, and how sums of its codes are divided. */
typedef struct {
    const void *const *rows;
    const void *const *end;
    uint32_t columns;
    size_t step;
    uint32_t count;
    uint32_t reciprocal; /* 2^24 / count, rounded up, which is exact for all sums of FEW codes; 0 for more */
    uint32_t zero;       /* 128 for each code and half of the count: where sums begin, so that none is negative */
    int32_t tie;         /* -1 if halves of negative sums are rounded down, 0 if there are none */
} part;

static void set_count(part *p, uint32_t count)
{
    p->count = count;
    p->reciprocal = count <= FEW ? ((1U << 24) + count - 1) / count : 0;
    p->zero = count * 128U + count / 2;
    p->tie = (count & 1U) != 0 ? 0 : -1;
}

/* The mean, rounded half away from zero, of a sum that began with p->zero. */
static inline int8_t mean(uint32_t sum, const part *p)
{
    sum += (uint32_t)(((int32_t)(sum - p->zero) >> 31) & p->tie);
    return (int8_t)((int32_t)(p->reciprocal != 0 ? (sum * p->reciprocal) >> 24 : sum / p->count) - 128);
}

#if defined(EDGETOOL_DSP)

/* The means of channels in words at multiples of 4. */
static EDGETOOL_NOINLINE void means_of_words(const part *p, size_t start, int8_t *out, const int8_t *last)
{
    for (; out != last; out += 4) {
        uint32_t even = p->zero * 0x00010001U, odd = even;
        for (const void *const *rows = p->rows; rows != p->end; rows++) {
            const int8_t *codes = (const int8_t *)*rows + start;
            for (uint32_t i = p->columns; i != 0; i--) {
                const uint32_t word = edgetool_load_word(codes);
                even = edgetool_sxtab16(even, word);
                odd = edgetool_sxtab16_odd(odd, word);
                codes += p->step;
            }
        }
        out[0] = mean(even & 0xFFFFU, p);
        out[1] = mean(odd & 0xFFFFU, p);
        out[2] = mean(even >> 16, p);
        out[3] = mean(odd >> 16, p);
        start += 4;
    }
}

#endif

/* The means of channels, four at a time. */
static EDGETOOL_NOINLINE void means_of_fours(const part *p, size_t start, int8_t *out, const int8_t *last)
{
    for (; out != last; out += 4) {
        int32_t sum0 = (int32_t)p->zero, sum1 = sum0, sum2 = sum0, sum3 = sum0;
        for (const void *const *rows = p->rows; rows != p->end; rows++) {
            const int8_t *codes = (const int8_t *)*rows + start;
            for (uint32_t i = p->columns; i != 0; i--) {
                sum0 += codes[0];
                sum1 += codes[1];
                sum2 += codes[2];
                sum3 += codes[3];
                codes += p->step;
            }
        }
        out[0] = mean((uint32_t)sum0, p);
        out[1] = mean((uint32_t)sum1, p);
        out[2] = mean((uint32_t)sum2, p);
        out[3] = mean((uint32_t)sum3, p);
        start += 4;
    }
}

static void means(const part *p, size_t start, int8_t *out, const int8_t *last)
{
    for (; out != last; out++) {
        int32_t sum = (int32_t)p->zero;
        for (const void *const *rows = p->rows; rows != p->end; rows++) {
            const int8_t *codes = (const int8_t *)*rows + start;
            for (uint32_t i = p->columns; i != 0; i--) {
                sum += *codes;
                codes += p->step;
            }
        }
        *out = mean((uint32_t)sum, p);
        start++;
    }
}

void edgetool_average_pool_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_average_pool_s8_op *op = (const edgetool_average_pool_s8_op *)descriptor;
    const uint32_t channels = op->channels, fours = channels & ~3U;
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    part p;
    p.step = channels;
    p.count = 0;
    for (uint32_t y = 0; y < band->count; y++) {
        const edgetool_rows inside = edgetool_pool_rows(rows, op->taps_y);
        int words = edgetool_pool_has_words(inside, channels) && (uint32_t)op->taps_y * op->taps_x <= FEW;
        (void)words;
        rows += op->taps_y;
        p.rows = inside.first;
        p.end = inside.end;
        for (uint32_t x = 0; x < op->output_width; x++) {
            const edgetool_columns columns =
                edgetool_pool_columns(x, op->stride_x, op->taps_x, op->pad_x, op->input_width);
            const size_t start = (size_t)columns.first * channels;
            const uint32_t count = (uint32_t)(p.end - p.rows) * columns.count;
            p.columns = columns.count;
            if (count != p.count) {
                set_count(&p, count);
            }
            if (fours != 0) {
#if defined(EDGETOOL_DSP)
                if (words) {
                    means_of_words(&p, start, out, out + fours);
                } else
#endif
                {
                    means_of_fours(&p, start, out, out + fours);
                }
            }
            means(&p, start + fours, out + fours, out + channels);
            edgetool_pool_clamp(out, channels, op->low, op->high);
            out += channels;
        }
    }
}
