/* SPDX-License-Identifier: 0BSD */
#include "edgetool_max_pool_s8.h"

#include "edgetool_dsp.h"
#include "edgetool_pool.h"

/* The part of a window that is inside the image. */
typedef struct {
    edgetool_rows rows;
    uint32_t columns;
    size_t step;
} part;

#if defined(EDGETOOL_DSP)

/* The largest codes of channels in words at multiples of 4. */
static EDGETOOL_NOINLINE void largest_words(const part *p, size_t start, int8_t *out, const int8_t *last)
{
    for (; out != last; out += 4) {
        uint32_t result = edgetool_load_word((const int8_t *)*p->rows.first + start);
        for (const void *const *rows = p->rows.first; rows != p->rows.end; rows++) {
            const int8_t *codes = (const int8_t *)*rows + start;
            for (uint32_t i = p->columns; i != 0; i--) {
                result = edgetool_max8(result, edgetool_load_word(codes));
                codes += p->step;
            }
        }
        edgetool_store_word(out, result);
        start += 4;
    }
}

#endif

/* The largest codes of channels, four at a time. */
static EDGETOOL_NOINLINE void largest_fours(const part *p, size_t start, int8_t *out, const int8_t *last)
{
    for (; out != last; out += 4) {
        const int8_t *codes = (const int8_t *)*p->rows.first + start;
        int32_t code0 = codes[0], code1 = codes[1], code2 = codes[2], code3 = codes[3];
        /* The first column of the first row is not compared with itself. */
        uint32_t left = p->columns - 1;
        codes += p->step;
        for (const void *const *rows = p->rows.first;;) {
            for (; left != 0; left--) {
                code0 = codes[0] > code0 ? codes[0] : code0;
                code1 = codes[1] > code1 ? codes[1] : code1;
                code2 = codes[2] > code2 ? codes[2] : code2;
                code3 = codes[3] > code3 ? codes[3] : code3;
                codes += p->step;
            }
            if (++rows == p->rows.end) {
                break;
            }
            codes = (const int8_t *)*rows + start;
            left = p->columns;
        }
        out[0] = (int8_t)code0;
        out[1] = (int8_t)code1;
        out[2] = (int8_t)code2;
        out[3] = (int8_t)code3;
        start += 4;
    }
}

static void largest(const part *p, size_t start, int8_t *out, const int8_t *last)
{
    for (; out != last; out++) {
        int32_t code = INT8_MIN;
        for (const void *const *rows = p->rows.first; rows != p->rows.end; rows++) {
            const int8_t *codes = (const int8_t *)*rows + start;
            for (uint32_t i = p->columns; i != 0; i--) {
                code = *codes > code ? *codes : code;
                codes += p->step;
            }
        }
        *out = (int8_t)code;
        start++;
    }
}

void edgetool_max_pool_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_max_pool_s8_op *op = (const edgetool_max_pool_s8_op *)descriptor;
    const uint32_t channels = op->channels, fours = channels & ~3U;
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    part p;
    p.step = channels;
    for (uint32_t y = 0; y < band->count; y++) {
        p.rows = edgetool_pool_rows(rows, op->taps_y);
        const int words = edgetool_pool_has_words(p.rows, channels) && edgetool_is_aligned(out);
        (void)words;
        rows += op->taps_y;
        for (uint32_t x = 0; x < op->output_width; x++) {
            const edgetool_columns columns =
                edgetool_pool_columns(x, op->stride_x, op->taps_x, op->pad_x, op->input_width);
            const size_t start = (size_t)columns.first * channels;
            p.columns = columns.count;
            if (fours != 0) {
#if defined(EDGETOOL_DSP)
                if (words) {
                    largest_words(&p, start, out, out + fours);
                } else
#endif
                {
                    largest_fours(&p, start, out, out + fours);
                }
            }
            largest(&p, start + fours, out + fours, out + channels);
            edgetool_pool_clamp(out, channels, op->low, op->high);
            out += channels;
        }
    }
}
