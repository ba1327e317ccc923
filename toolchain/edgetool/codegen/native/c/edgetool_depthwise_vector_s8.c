/* SPDX-License-Identifier: 0BSD */
#include "edgetool_depthwise_vector_s8.h"

#include "edgetool_scale_vector.h"

#define LANES 16U
#define WORD 4U

/*
 * A block of channels of a tile: the words of the first one, where its outputs are, and what is left of the loop over
 * the channels. Groups of outputs are computed together: whole ones, and the lanes of the rest.
 */
typedef struct {
    const int8_t *base;
    int8_t *out;
    const int8_t *weights;
    const int32_t *scale;
    const int32_t *end;
    uint32_t groups;
    uint32_t rest;
    uint32_t base_back;
    uint32_t out_back;
    uint32_t out_step;
    uint32_t step;
    uint32_t back;
    int32_t zero_point;
    uint32_t offsets[4];
    uint32_t targets[4];
    /* The columns that are copied: where they start in each row, and where they go. */
    size_t offset;
    uint32_t columns;
    int8_t *to;
} windows;

#if defined(EDGETOOL_HELIUM)

/*
 * The loops have registers of their own: r12 is `w`, r1 `base`, r3 `out`, r5 `scale`, r8 `weights` and r9 `step`. Sums
 * are in r0, r2, r4 and r6, offsets of the words of a vector in q2, those of outputs in q3, weights in q4 to q7.
 */
#define START \
    "ldr r12, %[w]\n\t" \
    "ldrd r1, r3, [r12, %[base]]\n\t" \
    "ldrd r8, r5, [r12, %[weights]]\n\t" \
    "add r0, r12, %[offsets]\n\t" \
    "vldrw.32 q2, [r0]\n\t" \
    "vldrw.32 q3, [r0, #16]\n\t" \
    "ldr r9, [r12, %[step]]\n\t"
/* The sums as codes in q0, clamped to int8. The zero point is in q1, below which no output is unless sums are signed. */
#define START_PLAIN \
    START "ldr r0, [r12, %[zero_point]]\n\t" \
          "vdup.32 q1, r0\n" \
          "3:\n\t" \
          "ldrd r10, r11, [r5, #4]\n\t" \
          "adds r5, #12\n\t"
#define PLAIN \
    "vmov d0, r0, r2\n\t" \
    "vmov d1, r4, r6\n\t" \
    "ldr r0, [r5, #-12]\n\t" \
    "vadd.i32 q0, q0, r0\n\t" \
    "vqrdmulh.s32 q0, q0, r10\n\t" \
    "vrshl.s32 q0, r11\n\t" \
    "vadd.i32 q0, q0, q1\n\t" \
    "vqmovnb.s32 q0, q0\n\t" \
    "vqmovnb.s16 q0, q0\n\t"
#define SIGNED \
    "vmov d0, r0, r2\n\t" \
    "vmov d1, r4, r6\n\t" \
    "ldrd r0, r2, [r5]\n\t" \
    "vadd.i32 q0, q0, r0\n\t" \
    "ldr r4, [r5, #8]\n\t" \
    "vshr.s32 q1, q0, #31\n\t" \
    "vqrdmulh.s32 q0, q0, r2\n\t" \
    "ldr r0, [r12, %[zero_point]]\n\t" \
    "vadd.i32 q0, q0, q1\n\t" \
    "vrshl.s32 q0, r4\n\t" \
    "vadd.i32 q0, q0, r0\n\t" \
    "vqmovnb.s32 q0, q0\n\t" \
    "vqmovnb.s16 q0, q0\n\t"
#define NEXT_OUTPUTS \
    "ldr r0, [r12, %[out_step]]\n\t" \
    "add r3, r0\n\t"
/* Groups of outputs, then the rest, if any. */
#define WHOLE_GROUPS(sums, codes) \
    "ldr lr, [r12, %[groups]]\n\t" \
    "wls lr, lr, 2f\n" \
    "1:\n\t" sums codes \
    "vstrb.32 q0, [r3, q3]\n\t" NEXT_OUTPUTS \
    "le lr, 1b\n" \
    "2:\n\t" \
    "ldr r0, [r12, %[rest]]\n\t" \
    "cbz r0, 4f\n\t" \
    "vctp.32 r0\n\t" sums codes \
    "vpst\n\t" \
    "vstrbt.32 q0, [r3, q3]\n" \
    "4:\n\t"
/* The same for sums of many instructions: the groups are those that the lanes fill, r10 counts lanes. */
#define FILLED_GROUPS(sums, codes) \
    "ldr r10, [r12, %[rest]]\n" \
    "1:\n\t" sums codes \
    "vctp.32 r10\n\t" \
    "subs r10, #4\n\t" \
    "vpst\n\t" \
    "vstrbt.32 q0, [r3, q3]\n\t" NEXT_OUTPUTS \
    "bgt 1b\n\t"
#define NEXT_CHANNEL \
    "ldrd r0, r2, [r12, %[base_back]]\n\t" \
    "ldr r4, [r12, %[end]]\n\t" \
    "subs r1, r0\n\t" \
    "subs r3, r2\n\t" \
    "cmp r5, r4\n\t" \
    "bne 3b"
#define PLAIN_CHANNELS(load, sums) START_PLAIN load WHOLE_GROUPS(sums, PLAIN) NEXT_CHANNEL
#define SIGNED_CHANNELS(load, groups, sums) START "3:\n\t" load groups(sums, SIGNED) "adds r5, #12\n\t" NEXT_CHANNEL
#define EXECUTE(loop) \
    __asm__ volatile(loop \
                     : \
                     : [w] "m"(w), [base] "i"(offsetof(windows, base)), [weights] "i"(offsetof(windows, weights)), \
                       [end] "i"(offsetof(windows, end)), [groups] "i"(offsetof(windows, groups)), \
                       [rest] "i"(offsetof(windows, rest)), [base_back] "i"(offsetof(windows, base_back)), \
                       [out_step] "i"(offsetof(windows, out_step)), [step] "i"(offsetof(windows, step)), \
                       [back] "i"(offsetof(windows, back)), [zero_point] "i"(offsetof(windows, zero_point)), \
                       [offsets] "i"(offsetof(windows, offsets)) \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", \
                       "memory", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7")

/* Windows of 3 by 3: the weights for a pixel, for the one in the next row, and the same for the next column. */
#define LOAD_PAIR \
    "vldrb.8 q6, [r8, #-4]\n\t" \
    "vldrb.8 q4, [r8], #16\n\t" \
    "vshl.i32 q7, q6, #8\n\t" \
    "vshl.i32 q5, q4, #8\n\t"
#define PAIR \
    "vldrw.u32 q0, [r1, q2]\n\t" \
    "vmladav.s8 r0, q0, q4\n\t" \
    "adds r1, #128\n\t" \
    "vmladav.s8 r2, q0, q5\n\t" \
    "vmladav.s8 r4, q0, q6\n\t" \
    "vmladav.s8 r6, q0, q7\n\t"
#define LOAD_SINGLE "vldrb.8 q4, [r8], #16\n\t"
#define SINGLE(sum) \
    "vldrw.u32 q0, [r1, q2]\n\t" \
    "add r1, r9\n\t" \
    "vmladav.s8 " sum ", q0, q4\n\t"
#define SINGLES SINGLE("r0") SINGLE("r2") SINGLE("r4") SINGLE("r6")

#define LOAD_THREE \
    "ldr r11, [r12, %[back]]\n\t" \
    "vldrb.8 q4, [r8], #16\n\t" \
    "vldrb.8 q5, [r8], #16\n\t" \
    "vldrb.8 q7, [r8], #16\n\t"
#define LOAD_FOUR \
    LOAD_THREE \
    "vmov q6, q7\n\t" \
    "vldrb.8 q7, [r8], #16\n\t"
#define NEXT_VECTOR(sum, weights) \
    "vldrw.u32 q0, [r1, q2]\n\t" \
    "add r1, r9\n\t" \
    "vmladava.s8 " sum ", q0, " weights "\n\t"
#define MULTIPLE(sum, middle) \
    "vldrw.u32 q0, [r1, q2]\n\t" \
    "add r1, r9\n\t" \
    "vmladav.s8 " sum ", q0, q4\n\t" NEXT_VECTOR(sum, "q5") middle(sum) \
    "vldrw.u32 q0, [r1, q2]\n\t" \
    "add r1, r11\n\t" \
    "vmladava.s8 " sum ", q0, q7\n\t"
#define NONE(sum)
#define THIRD(sum) NEXT_VECTOR(sum, "q6")
#define MULTIPLES(middle) MULTIPLE("r0", middle) MULTIPLE("r2", middle) MULTIPLE("r4", middle) MULTIPLE("r6", middle)

EDGETOOL_NOINLINE static void compute_pairs(const edgetool_depthwise_vector_s8_op *op, const windows *w)
{
    if (op->is_signed) {
        EXECUTE(SIGNED_CHANNELS(LOAD_PAIR, WHOLE_GROUPS, PAIR));
    } else {
        EXECUTE(PLAIN_CHANNELS(LOAD_PAIR, PAIR));
    }
}

EDGETOOL_NOINLINE static void compute_windows(const edgetool_depthwise_vector_s8_op *op, const windows *w)
{
    if (op->vectors == 4) {
        EXECUTE(SIGNED_CHANNELS(LOAD_FOUR, FILLED_GROUPS, MULTIPLES(THIRD)));
    } else if (op->vectors == 3) {
        EXECUTE(SIGNED_CHANNELS(LOAD_THREE, FILLED_GROUPS, MULTIPLES(NONE)));
    } else if (op->is_signed) {
        EXECUTE(SIGNED_CHANNELS(LOAD_SINGLE, FILLED_GROUPS, SINGLES));
    } else {
        EXECUTE(PLAIN_CHANNELS(LOAD_SINGLE, SINGLES));
    }
}

/* Copies `columns` columns of four rows, `lanes` channels each, to words a step apart. The rows have steps, too. */
#define COPY_WORDS \
    __asm__ volatile("ldr lr, %[lanes]\n\t" \
                     "vctp.8 lr\n\t" \
                     "ldrd r0, r1, %[from0]\n\t" \
                     "ldrd r2, r3, %[from2]\n\t" \
                     "ldrd r4, r5, %[steps0]\n\t" \
                     "ldrd r6, r8, %[steps2]\n\t" \
                     "ldr r9, %[to]\n\t" \
                     "ldr r10, %[step]\n\t" \
                     "ldr lr, %[columns]\n\t" \
                     "dls lr, lr\n" \
                     "1:\n\t" \
                     "vpstttt\n\t" \
                     "vldrbt.8 q0, [r0]\n\t" \
                     "vldrbt.8 q1, [r1]\n\t" \
                     "vldrbt.8 q2, [r2]\n\t" \
                     "vldrbt.8 q3, [r3]\n\t" \
                     "add r0, r4\n\t" \
                     "add r1, r5\n\t" \
                     "add r2, r6\n\t" \
                     "add r3, r8\n\t" \
                     "vst40.8 {q0, q1, q2, q3}, [r9]\n\t" \
                     "vst41.8 {q0, q1, q2, q3}, [r9]\n\t" \
                     "vst42.8 {q0, q1, q2, q3}, [r9]\n\t" \
                     "vst43.8 {q0, q1, q2, q3}, [r9]\n\t" \
                     "add r9, r10\n\t" \
                     "le lr, 1b" \
                     : \
                     : [lanes] "m"(lanes), [from0] "m"(from), [from2] "m"(from[2]), [steps0] "m"(steps), \
                       [steps2] "m"(steps[2]), [to] "m"(to), [step] "m"(step), [columns] "m"(columns) \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "lr", "memory", "q0", "q1", "q2", \
                       "q3")

#else /* EDGETOOL_HELIUM */

/* `rows` is 2 for the outputs of two rows, else 1. */
static void compute(const edgetool_depthwise_vector_s8_op *op, const windows *w, uint32_t rows)
{
    const uint32_t words = op->vectors * 4U, group = 4 / rows;
    const uint32_t lanes = rows == 2 || (op->vectors == 1 && !op->is_signed) ? 4 * w->groups + w->rest : w->rest;
    const uint32_t step = rows == 2 ? 64 : (op->vectors == 1 ? w->step : w->back + (op->vectors - 1) * w->step);
    for (uint32_t channel = 0; w->scale + 3 * channel != w->end; channel++) {
        const int32_t *scale = w->scale + 3 * channel;
        for (uint32_t i = 0; i < lanes; i++) {
            const uint32_t x = i / rows, y = i % rows;
            const int8_t *weights = w->weights + channel * words * WORD;
            int32_t sum = scale[0];
            for (uint32_t word = 0; word < words && word / op->groups < op->taps_x; word++) {
                const int8_t *codes = w->base + x * step + word / 4 * w->step + w->offsets[word % 4];
                for (uint32_t row = y; row < 4; row++) {
                    sum += weights[word * WORD + row - y] * codes[channel * WORD + row];
                }
            }
            const int32_t value = edgetool_scaled(sum, scale[1], scale[2], op->is_signed) + w->zero_point;
            int8_t *out = w->out + channel + x / group * w->out_step;
            out[w->targets[i % 4]] = (int8_t)edgetool_clamp(value, INT8_MIN, INT8_MAX);
        }
    }
}

static void compute_pairs(const edgetool_depthwise_vector_s8_op *op, const windows *w)
{
    compute(op, w, 2);
}

static void compute_windows(const edgetool_depthwise_vector_s8_op *op, const windows *w)
{
    compute(op, w, 1);
}

#define COPY_WORDS \
    for (uint32_t i = 0; i < 64 * columns; i++) { \
        const uint32_t row = i % 4, lane = i / 4 % LANES, column = i / 64; \
        to[column * step + i % 64] = lane < lanes ? from[row][column * steps[row] + lane] : 0; \
    }

#endif /* EDGETOOL_HELIUM */

/* Fills whole columns; returns their end. */
static inline int8_t *fill_columns(int8_t *to, int8_t value, uint32_t bytes)
{
    const edgetool_s8x16 values = edgetool_all_s8(value);
    for (const int8_t *const end = to + bytes; to != end; to += LANES) {
        edgetool_store_s8(to, values);
    }
    return to;
}

/* Copies columns of up to four rows of `lanes` channels, the zero point of the input for rows outside of it. */
EDGETOOL_NOINLINE static void copy_columns(const edgetool_depthwise_vector_s8_op *op, const void *const *rows,
                                           uint32_t count, uint32_t lanes, uint32_t group, const windows *w)
{
    const uint32_t columns = w->columns, step = 64U * op->groups, channels = op->channels;
    int8_t *const to = w->to + 64 * group;
    const int8_t *from[4];
    uint32_t steps[4];
    for (uint32_t i = 0; i < 4; i++) {
        const int8_t *row = i < count ? (const int8_t *)rows[i] : NULL;
        from[i] = row != NULL ? row + w->offset : w->base - LANES;
        steps[i] = row != NULL ? channels : 0;
    }
    COPY_WORDS;
}

/* What all blocks of a tile from x on share. In front of its words are 16 bytes of a row outside the input. */
EDGETOOL_NOINLINE static void start_tile(const edgetool_depthwise_vector_s8_op *op, uint32_t x, int two,
                                         int8_t *scratch, windows *w)
{
    const uint32_t row_bytes = two ? op->output_width * op->channels : 0;
    const uint32_t groups = op->groups, channels = op->channels, step = 64 * groups, column = step * op->dilation_x;
    const uint32_t column_step = step * op->stride_x, size = row_bytes != 0 ? 2 : 4;
    const uint32_t pixels = op->output_width - x < op->tile ? op->output_width - x : op->tile;
    const uint32_t columns = (pixels - 1) * op->stride_x + (op->taps_x - 1U) * op->dilation_x + 1;
    /* A column before the first one is a large number. */
    const uint32_t start = x * op->stride_x - op->pad_x, width = op->input_width;
    const uint32_t before = start < width ? 0 : (0U - start < columns ? 0U - start : columns), first = start + before;
    const uint32_t most = first < width ? width - first : 0, inside = columns - before < most ? columns - before : most;
    int8_t *const words = fill_columns(scratch, op->outside, LANES);
    w->base = words;
    w->offset = (size_t)first * channels;
    w->columns = inside;
    w->to = fill_columns(words, op->outside, before * step);
    fill_columns(w->to + inside * step, op->outside, (columns - before - inside) * step);
    w->weights = op->weights + WORD;
    w->scale = op->scales;
    w->out_step = size * channels;
    w->groups = pixels / size;
    w->rest = pixels % size * (4 / size);
    /* The step behind the rest is one of `base`, but not of `out`. */
    w->base_back = (pixels + size - 1) / size * size * column_step - WORD;
    w->out_back = w->groups * w->out_step - 1;
    w->step = op->vectors == 1 ? column_step : 256U * op->dilation_x;
    w->back = column_step - (op->vectors - 1U) * w->step;
    if (row_bytes == 0 && (op->vectors != 1 || op->is_signed)) {
        w->out_back += w->rest != 0 ? w->out_step : 0;
        w->rest = pixels;
    }
    w->zero_point = op->zero_point;
    for (uint32_t i = 0; i < 4; i++) {
        w->offsets[i] = i / groups * column + i % groups * 64;
        w->targets[i] = row_bytes != 0 ? i / 2 * channels + i % 2 * row_bytes : i * channels;
    }
}

/* One output row, or two with windows of 3 by 3 that share rows. */
static void compute_rows(const edgetool_depthwise_vector_s8_op *op, const edgetool_band *band, const void *const *rows,
                         int two, int8_t *out)
{
    windows w;
    for (uint32_t x = 0; x < op->output_width; x += op->tile) {
        start_tile(op, x, two, (int8_t *)band->scratch, &w);
        w.out = out + (size_t)x * op->channels;
        for (uint32_t left = op->channels; left != 0;) {
            const uint32_t lanes = left < LANES ? left : LANES, taps_y = two ? 4 : op->taps_y;
            w.end = w.scale + 3 * lanes;
            for (uint32_t i = 0; i < taps_y && w.columns != 0; i += 4) {
                copy_columns(op, rows + i, taps_y - i, lanes, i / 4, &w);
            }
            if (two) {
                compute_pairs(op, &w);
            } else {
                compute_windows(op, &w);
            }
            w.weights += op->vectors * LANES * LANES;
            w.scale = w.end;
            w.out += LANES;
            w.offset += LANES;
            left -= lanes;
        }
    }
}

void edgetool_depthwise_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_depthwise_vector_s8_op *op = (const edgetool_depthwise_vector_s8_op *)descriptor;
    const void *const *rows = band->rows;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t left = band->count; left != 0;) {
        const void *four[4];
        const int two = op->paired && left > 1 && rows[3] == rows[1] && rows[4] == rows[2];
        if (two) {
            memcpy(four, rows, 3 * sizeof *rows);
            four[3] = rows[5];
        }
        compute_rows(op, band, two ? four : rows, two, out);
        for (int i = 0; i <= two; i++) {
            rows += op->taps_y;
            out += op->output_width * op->channels;
            left--;
        }
    }
    edgetool_clamp_s8((int8_t *)band->out, (uint32_t)(out - (int8_t *)band->out), op->low, op->high);
}
