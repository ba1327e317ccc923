/* SPDX-License-Identifier: 0BSD */
#include "edgetool_depthwise_3x3_vector_s8.h"

#include "edgetool_scale_vector.h"

#define TAPS 9U
#define LANES 16U

/*
 * Outputs that follow each other, in `periods` of `lanes`: the taps of the first one, and how far those of the next
 * period, and its outputs, are behind the end of the last block. Taps and outputs move on with each period.
 */
typedef struct {
    const int8_t *taps[TAPS];
    int8_t *out;
    const int32_t *table;
    uint32_t lanes;
    uint32_t periods;
    int32_t tap_skip;
    int32_t out_skip;
    int32_t zero_point;
} run;

#if defined(EDGETOOL_HELIUM)

/* Adds products, those of even lanes in q2 and of odd ones in q0, to the sums in q4 to q7. */
#define ADD_SUMS \
    "vmovlb.s16 q3, q2\n\t" \
    "vadd.i32 q4, q4, q3\n\t" \
    "vmovlt.s16 q3, q2\n\t" \
    "vadd.i32 q5, q5, q3\n\t" \
    "vmovlb.s16 q3, q0\n\t" \
    "vadd.i32 q6, q6, q3\n\t" \
    "vmovlt.s16 q3, q0\n\t" \
    "vadd.i32 q7, q7, q3\n\t"
#define ONE_TAP(tap) \
    "vldrb.8 q0, [" tap "], #16\n\t" \
    "vldrb.8 q1, [r10], #16\n\t" \
    "vmullb.s8 q2, q0, q1\n\t" \
    "vmullt.s8 q0, q0, q1\n\t"
/* The second weights are loaded twice, because no register is free for both of their products. */
#define TWO_TAPS(first, second) \
    ONE_TAP(first) \
    "vldrb.8 q1, [" second "], #16\n\t" \
    "vldrb.8 q3, [r10]\n\t" \
    "vmullb.s8 q3, q1, q3\n\t" \
    "vadd.i16 q2, q2, q3\n\t" \
    "vldrb.8 q3, [r10], #16\n\t" \
    "vmullt.s8 q3, q1, q3\n\t" \
    "vadd.i16 q0, q0, q3\n\t" ADD_SUMS
#define SCALE(sums) \
    "vldrw.32 q0, [r10], #16\n\t" \
    "vqrdmulh.s32 " sums ", " sums ", q0\n\t" \
    "vldrw.32 q1, [r10], #16\n\t" \
    "vrshl.s32 " sums ", " sums ", q1\n\t"
#define SIGNED_SCALE(sums) \
    "vldrw.32 q0, [r10], #16\n\t" \
    "vshr.s32 q2, " sums ", #31\n\t" \
    "vqrdmulh.s32 " sums ", " sums ", q0\n\t" \
    "vadd.i32 " sums ", " sums ", q2\n\t" \
    "vldrw.32 q1, [r10], #16\n\t" \
    "vrshl.s32 " sums ", " sums ", q1\n\t"
/*
 * The taps are in r0 to r6, r8 and r9, the table in r10 and the outputs in r11. A block of fewer lanes, a multiple of
 * four, has a predicate for all instructions: sums of four lanes are there or not.
 */
#define RUN(scale) \
    __asm__ volatile("ldr r12, %[w]\n\t" \
                     "ldm r12, {r0, r1, r2, r3, r4, r5, r6, r8, r9, r11}\n" \
                     "1:\n\t" \
                     "ldrd r10, lr, [r12, %[table]]\n\t" \
                     "ldr r12, [r12, %[zero_point]]\n\t" \
                     "dlstp.8 lr, lr\n" \
                     "2:\n\t" \
                     "vldrw.32 q4, [r10], #16\n\t" \
                     "vldrw.32 q5, [r10], #16\n\t" \
                     "vldrw.32 q6, [r10], #16\n\t" \
                     "vldrw.32 q7, [r10], #16\n\t" TWO_TAPS("r0", "r1") TWO_TAPS("r2", "r3") TWO_TAPS("r4", "r5") \
                         TWO_TAPS("r6", "r8") ONE_TAP("r9") ADD_SUMS scale("q4") scale("q5") scale("q6") scale("q7") \
                     "vqmovnb.s32 q0, q4\n\t" \
                     "vqmovnt.s32 q0, q5\n\t" \
                     "vqmovnb.s32 q1, q6\n\t" \
                     "vqmovnt.s32 q1, q7\n\t" \
                     "vqadd.s16 q0, q0, r12\n\t" \
                     "vqadd.s16 q1, q1, r12\n\t" \
                     "vqmovnb.s16 q0, q0\n\t" \
                     "vqmovnt.s16 q0, q1\n\t" \
                     "vstrb.8 q0, [r11], #16\n\t" \
                     "letp lr, 2b\n\t" \
                     "ldr r12, %[w]\n\t" \
                     "ldrd r10, lr, [r12, %[tap_skip]]\n\t" \
                     "add r11, lr\n\t" \
                     "cmp r10, #0\n\t" \
                     "beq 3f\n\t" \
                     "add r0, r10\n\t" \
                     "add r1, r10\n\t" \
                     "add r2, r10\n\t" \
                     "add r3, r10\n\t" \
                     "add r4, r10\n\t" \
                     "add r5, r10\n\t" \
                     "add r6, r10\n\t" \
                     "add r8, r10\n\t" \
                     "add r9, r10\n" \
                     "3:\n\t" \
                     "ldr lr, [r12, %[periods]]\n\t" \
                     "subs lr, #1\n\t" \
                     "str lr, [r12, %[periods]]\n\t" \
                     "bne 1b\n\t" \
                     "stm r12, {r0, r1, r2, r3, r4, r5, r6, r8, r9, r11}" \
                     : \
                     : [w] "m"(w), [table] "i"(offsetof(run, table)), [periods] "i"(offsetof(run, periods)), \
                       [tap_skip] "i"(offsetof(run, tap_skip)), [zero_point] "i"(offsetof(run, zero_point)) \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", \
                       "memory", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7")

EDGETOOL_NOINLINE static void compute_run(run *w, int is_signed)
{
    if (is_signed) {
        RUN(SIGNED_SCALE);
    } else {
        RUN(SCALE);
    }
}

#else /* EDGETOOL_HELIUM */

#define WEIGHTS 16U
#define SCALES 52U
#define BLOCK 84U

static void compute_run(run *w, int is_signed)
{
    const uint32_t blocks = (w->lanes + LANES - 1) / LANES;
    for (; w->periods != 0; w->periods--) {
        for (uint32_t block = 0; block < blocks; block++) {
            const uint32_t first = block * LANES, lanes = w->lanes - first < LANES ? w->lanes - first : LANES;
            const int32_t *table = w->table + (size_t)block * BLOCK, *scales = table + SCALES;
            const int8_t *weights = (const int8_t *)(table + WEIGHTS);
            int8_t codes[LANES];
            for (uint32_t lane = 0; lane < lanes; lane++) {
                /* Sums of even lanes are in front of those of odd ones. */
                const uint32_t part = (lane % 2 << 1) + lane / 2 % 2, place = lane / 4;
                int32_t sum = table[4 * part + place], value;
                for (uint32_t tap = 0; tap < TAPS; tap++) {
                    sum += w->taps[tap][first + lane] * weights[tap * LANES + lane];
                }
                value = edgetool_scaled(sum, scales[8 * part + place], scales[8 * part + 4 + place], is_signed);
                codes[lane] = (int8_t)edgetool_clamp(value + w->zero_point, INT8_MIN, INT8_MAX);
            }
            memcpy(w->out + first, codes, lanes);
        }
        for (uint32_t tap = 0; tap < TAPS; tap++) {
            w->taps[tap] += (int32_t)(blocks * LANES) + w->tap_skip;
        }
        w->out += (int32_t)(blocks * LANES) + w->out_skip;
    }
}

#endif /* EDGETOOL_HELIUM */

/* Three rows of the input and how far their pixels are apart: a row outside the input is zero_pixel again and again. */
typedef struct {
    const int8_t *rows[3];
    size_t pixels[3];
} source;

static inline int find_rows(const edgetool_depthwise_3x3_vector_s8_op *op, const void *const *rows, source *from)
{
    int are_present = 1;
    for (uint32_t i = 0; i < 3; i++) {
        const int is_present = rows[i] != NULL;
        from->rows[i] = is_present ? (const int8_t *)rows[i] : op->zero_pixel;
        from->pixels[i] = is_present ? op->input_channels : 0;
        are_present = are_present && is_present;
    }
    return are_present;
}

/* The addresses of three taps at a column; a column before the first one is a large number. */
static inline void find_column(const edgetool_depthwise_3x3_vector_s8_op *op, const source *from, uint32_t column,
                               const int8_t **taps)
{
    if (column < op->input_width) {
        taps[0] = from->rows[0] + column * from->pixels[0];
        taps[3] = from->rows[1] + column * from->pixels[1];
        taps[6] = from->rows[2] + column * from->pixels[2];
    } else {
        taps[0] = taps[3] = taps[6] = op->zero_pixel;
    }
}

static inline int32_t whole_vectors(uint32_t lanes)
{
    return (int32_t)((lanes + LANES - 1) & ~(LANES - 1));
}

/* Computes `count` outputs that follow each other. */
static void compute_outputs(const edgetool_depthwise_3x3_vector_s8_op *op, run *w, uint32_t count)
{
    const uint32_t rest = count % op->lanes;
    w->periods = count / op->lanes;
    if (w->periods != 0) {
        w->lanes = op->lanes;
        w->out_skip = (int32_t)w->lanes - whole_vectors(w->lanes);
        w->tap_skip = (int32_t)(w->lanes * op->stride_x) - whole_vectors(w->lanes);
        compute_run(w, op->is_signed);
    }
    if (rest != 0) {
        w->lanes = rest;
        w->periods = 1;
        w->tap_skip = 0;
        w->out_skip = (int32_t)rest - whole_vectors(rest);
        compute_run(w, op->is_signed);
    }
}

void edgetool_depthwise_3x3_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_depthwise_3x3_vector_s8_op *op = (const edgetool_depthwise_3x3_vector_s8_op *)descriptor;
    const uint32_t reach = 2U * op->dilation_x, width = op->input_width;
    const void *const *rows = band->rows;
    source from;
    run w;
    w.out = (int8_t *)band->out;
    w.table = op->table;
    w.zero_point = op->zero_point;
    for (uint32_t y = 0; y < band->count; y++) {
        /* A column before the first one is a large number. */
        uint32_t column = 0U - op->pad_x, pixels;
        const int are_present = find_rows(op, rows, &from);
        for (uint32_t x = 0; x < op->output_width; x += pixels) {
            /* Windows inside the input follow each other, others are computed one by one. */
            pixels = 1;
            if (are_present && column < width && reach < width - column) {
                pixels = (width - column - reach - 1) / op->stride_x + 1;
                pixels = pixels < op->output_width - x ? pixels : op->output_width - x;
            }
            find_column(op, &from, column, w.taps);
            find_column(op, &from, column + op->dilation_x, w.taps + 1);
            find_column(op, &from, column + reach, w.taps + 2);
            compute_outputs(op, &w, pixels * op->input_channels);
            column += pixels * op->stride_x;
        }
        rows += 3;
    }
    edgetool_clamp_s8((int8_t *)band->out, band->count * op->output_width * op->input_channels, op->low, op->high);
}
