/* SPDX-License-Identifier: 0BSD */
#include "edgetool_depthwise_lanes_s8.h"

#include "edgetool_scale_vector.h"
#include "edgetool_taps.h"

#define LANES 8U

/* A pixel: the addresses of its taps, and how far behind them those of the first channel are. */
typedef struct {
    const int8_t *const *taps;
    uint32_t count;
    const int8_t *weights;
    const int32_t *scales;
    size_t offset;
    int32_t channels;
    int32_t zero_point;
    int32_t bounds[2];
    int8_t *out;
} pixel;

#if defined(EDGETOOL_HELIUM)

/* The scale of four sums, whose multipliers and shifts are behind r4. */
#define CODES(sums, multipliers, shifts) \
    "vldrw.32 q0, [r4, #" multipliers "]\n\t" \
    "vshr.s32 q1, " sums ", #31\n\t" \
    "vqrdmulh.s32 " sums ", " sums ", q0\n\t" \
    "vldrw.32 q0, [r4, #" shifts "]\n\t" \
    "vadd.i32 " sums ", " sums ", q1\n\t" \
    "vrshl.s32 " sums ", " sums ", q0\n\t" \
    "vadd.i32 " sums ", " sums ", r10\n\t"

EDGETOOL_NOINLINE static void compute_pixel(const pixel *p)
{
    const pixel g = *p;
    __asm__ volatile("ldrd r8, r9, %[taps]\n\t"
                     "ldrd r1, r4, %[weights]\n\t"
                     "ldrd r3, r6, %[offset]\n\t"
                     "ldr r10, %[zero_point]\n\t"
                     "ldrd r0, r2, %[bounds]\n\t"
                     "vdup.16 q5, r0\n\t"
                     "vdup.16 q6, r2\n\t"
                     "ldr r5, %[out]\n"
                     "1:\n\t"
                     "vctp.16 r6\n\t"
                     "vldrw.32 q2, [r4]\n\t"
                     "vldrw.32 q3, [r4, #16]\n\t"
                     "mov r0, r8\n\t"
                     "dls lr, r9\n"
                     "2:\n\t"
                     "ldr r2, [r0], #4\n\t"
                     "vldrb.s16 q1, [r1], #8\n\t"
                     "add r2, r3\n\t"
                     "vpst\n\t"
                     "vldrbt.s16 q0, [r2]\n\t"
                     "vmullb.s16 q4, q0, q1\n\t"
                     "vadd.i32 q2, q2, q4\n\t"
                     "vmullt.s16 q4, q0, q1\n\t"
                     "vadd.i32 q3, q3, q4\n\t"
                     "le lr, 2b\n\t" CODES("q2", "32", "64") CODES("q3", "48", "80")
                     "adds r4, #96\n\t"
                     "vqmovnb.s32 q4, q2\n\t"
                     "vqmovnt.s32 q4, q3\n\t"
                     "vmax.s16 q4, q4, q5\n\t"
                     "vmin.s16 q4, q4, q6\n\t"
                     "vpst\n\t"
                     "vstrbt.16 q4, [r5], #8\n\t"
                     "adds r3, #8\n\t"
                     "subs r6, #8\n\t"
                     "bgt 1b"
                     :
                     : [taps] "m"(g.taps), [weights] "m"(g.weights), [offset] "m"(g.offset),
                       [zero_point] "m"(g.zero_point), [bounds] "m"(g.bounds), [out] "m"(g.out), [all] "m"(g)
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "lr", "cc", "memory", "q0", "q1",
                       "q2", "q3", "q4", "q5", "q6");
}

#else /* EDGETOOL_HELIUM */

static void compute_pixel(const pixel *p)
{
    for (uint32_t first = 0; first < (uint32_t)p->channels; first += LANES) {
        const int8_t *weights = p->weights + (size_t)first * p->count;
        const int32_t *scales = p->scales + (size_t)first * 3;
        int8_t codes[LANES];
        uint32_t lanes = (uint32_t)p->channels - first;
        lanes = lanes < LANES ? lanes : LANES;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            const int32_t *scale = scales + lane % 2 * 4 + lane / 2;
            int32_t sum = scale[0], value;
            for (uint32_t tap = 0; tap < p->count; tap++) {
                sum += p->taps[tap][p->offset + first + lane] * weights[tap * LANES + lane];
            }
            value = edgetool_scaled(sum, scale[8], scale[16], 1) + p->zero_point;
            codes[lane] = (int8_t)edgetool_clamp(value, p->bounds[0], p->bounds[1]);
        }
        memcpy(p->out + first, codes, lanes);
    }
}

#endif /* EDGETOOL_HELIUM */

void edgetool_depthwise_lanes_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_depthwise_lanes_s8_op *op = (const edgetool_depthwise_lanes_s8_op *)descriptor;
    const uint32_t step = (uint32_t)op->stride_x * op->input_channels, reach = (op->taps_x - 1U) * op->dilation_x;
    const int8_t **taps = edgetool_tap_table(band->scratch);
    const void *const *rows = band->rows;
    edgetool_window window;
    pixel at;
    window.outside = op->zero_pixel;
    window.width = op->input_width;
    window.channels = op->input_channels;
    window.taps_y = op->taps_y;
    window.taps_x = op->taps_x;
    window.dilation = op->dilation_x;
    at.taps = taps;
    at.count = (uint32_t)op->taps_y * op->taps_x;
    at.weights = op->weights;
    at.scales = op->scales;
    at.channels = op->input_channels;
    at.zero_point = op->zero_point;
    at.bounds[0] = op->low;
    at.bounds[1] = op->high;
    at.out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        uint32_t column = 0U - op->pad_x;
        int are_present = 1, was_inside = 0;
        for (uint32_t i = 0; i < op->taps_y; i++) {
            are_present = are_present && rows[i] != NULL;
        }
        for (uint32_t x = 0; x < op->output_width; x++) {
            const int is_inside = are_present && column < op->input_width && reach < op->input_width - column;
            /* The same addresses serve all pixels of which all taps exist. */
            if (is_inside && was_inside) {
                at.offset += step;
            } else {
                edgetool_find_taps(&window, rows, column, taps);
                at.offset = 0;
            }
            was_inside = is_inside;
            compute_pixel(&at);
            column += op->stride_x;
            at.out += op->input_channels;
        }
        rows += op->taps_y;
    }
}
