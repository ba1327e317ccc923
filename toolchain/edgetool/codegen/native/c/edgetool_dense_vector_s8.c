/* SPDX-License-Identifier: 0BSD */
#include "edgetool_dense_vector_s8.h"

#include "edgetool_scale_vector.h"

#if defined(EDGETOOL_HELIUM)

/* What the loop over fours of units has in memory: the weights' step to the next four, what is left, and more. */
typedef struct {
    const int8_t *weights;
    const int32_t *bias;
    const int32_t *scales;
    const int8_t *codes;
    int8_t *out;
    uint32_t depth;
    uint32_t skip;
    uint32_t scale_step;
    int32_t zero_point;
    int32_t bounds[2];
} dense_values;

#define UNSIGNED "vqrdmulh.s32 q2, q2, q3\n\t"
#define SIGNED \
    "vshr.s32 q1, q2, #31\n\t" \
    "vqrdmulh.s32 q2, q2, q3\n\t" \
    "vadd.i32 q2, q2, q1\n\t"
/* The weights of four units are at r3, r5, r8 and r9, biases at r10, scales at r11; r12 is the number of units left. */
#define FOURS(product) \
    __asm__ volatile("ldr r11, %[depth]\n\t" \
                     "ldrd r3, r10, %[tables]\n\t" \
                     "ldr r12, %[units]\n\t" \
                     "add r5, r3, r11\n\t" \
                     "add r8, r5, r11\n\t" \
                     "add r9, r8, r11\n\t" \
                     "ldr r11, %[scales]\n" \
                     "1:\n\t" \
                     "ldrd r0, r2, [r10], #8\n\t" \
                     "ldr r1, %[codes]\n\t" \
                     "ldrd r4, r6, [r10], #8\n\t" \
                     "ldr lr, %[depth]\n\t" \
                     "dlstp.8 lr, lr\n" \
                     "2:\n\t" \
                     "vldrb.8 q0, [r1], #16\n\t" \
                     "vldrb.8 q1, [r3], #16\n\t" \
                     "vmladava.s8 r0, q0, q1\n\t" \
                     "vldrb.8 q2, [r5], #16\n\t" \
                     "vmladava.s8 r2, q0, q2\n\t" \
                     "vldrb.8 q3, [r8], #16\n\t" \
                     "vmladava.s8 r4, q0, q3\n\t" \
                     "vldrb.8 q1, [r9], #16\n\t" \
                     "vmladava.s8 r6, q0, q1\n\t" \
                     "letp lr, 2b\n\t" \
                     "vldrw.32 q3, [r11]\n\t" \
                     "vmov d4, r0, r2\n\t" \
                     "ldr lr, %[skip]\n\t" \
                     "vmov d5, r4, r6\n\t" \
                     "add r3, lr\n\t" product \
                     "vldrw.32 q3, [r11, #16]\n\t" \
                     "add r5, lr\n\t" \
                     "ldr r0, %[zero_point]\n\t" \
                     "vrshl.s32 q2, q2, q3\n\t" \
                     "ldrd r2, r4, %[bounds]\n\t" \
                     "add r8, lr\n\t" \
                     "vadd.i32 q2, q2, r0\n\t" \
                     "vdup.32 q0, r2\n\t" \
                     "add r9, lr\n\t" \
                     "vmax.s32 q2, q2, q0\n\t" \
                     "vdup.32 q1, r4\n\t" \
                     "ldr r1, %[out]\n\t" \
                     "vmin.s32 q2, q2, q1\n\t" \
                     "ldr lr, %[scale_step]\n\t" \
                     "vctp.32 r12\n\t" \
                     "add r11, lr\n\t" \
                     "subs r12, #4\n\t" \
                     "vpst\n\t" \
                     "vstrbt.32 q2, [r1], #4\n\t" \
                     "str r1, %[out]\n\t" \
                     "bgt 1b" \
                     : [out] "+m"(v.out) \
                     : [tables] "m"(v.weights), [scales] "m"(v.scales), [codes] "m"(v.codes), [depth] "m"(v.depth), \
                       [skip] "m"(v.skip), [scale_step] "m"(v.scale_step), [zero_point] "m"(v.zero_point), \
                       [bounds] "m"(v.bounds), [units] "m"(units) \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", \
                       "memory", "q0", "q1", "q2", "q3")

static void one_row(const edgetool_dense_vector_s8_op *op, const int8_t *codes, int8_t *out)
{
    const int32_t units = (int32_t)op->units;
    dense_values v;
    v.weights = op->weights;
    v.bias = op->bias;
    v.scales = op->scales;
    v.codes = codes;
    v.out = out;
    v.depth = op->depth;
    v.skip = 4 * v.depth - ((v.depth + 15) & ~15U);
    v.scale_step = op->scale_step * (uint32_t)sizeof(int32_t);
    v.zero_point = op->zero_point;
    v.bounds[0] = op->low;
    v.bounds[1] = op->high;
    if (op->is_signed) {
        FOURS(SIGNED);
    } else {
        FOURS(UNSIGNED);
    }
}

#else /* EDGETOOL_HELIUM */

static void one_row(const edgetool_dense_vector_s8_op *op, const int8_t *codes, int8_t *out)
{
    for (uint32_t unit = 0; unit < op->units; unit++) {
        const int32_t *scale = op->scales + unit / 4 * op->scale_step + unit % 4;
        const int32_t sum = edgetool_dot_1x1(op->bias[unit], codes, op->weights + (size_t)unit * op->depth, op->depth);
        const int32_t value = edgetool_scaled(sum, scale[0], scale[4], op->is_signed) + op->zero_point;
        out[unit] = (int8_t)edgetool_clamp(value, op->low, op->high);
    }
}

#endif /* EDGETOOL_HELIUM */

void edgetool_dense_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_dense_vector_s8_op *op = (const edgetool_dense_vector_s8_op *)descriptor;
    for (uint32_t y = 0; y < band->count; y++) {
        one_row(op, (const int8_t *)band->rows[y], (int8_t *)band->out + (size_t)y * op->units);
    }
}
