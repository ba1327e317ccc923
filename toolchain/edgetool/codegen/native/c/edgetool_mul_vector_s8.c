/* SPDX-License-Identifier: 0BSD */
#include "edgetool_mul_vector_s8.h"

#include "edgetool_broadcast.h"
#include "edgetool_scale_vector.h"

#if defined(EDGETOOL_HELIUM)

/* Outputs of the products that `multiply` leaves in q0. Their signs are what edgetool_scaled adds to the high halves. */
#define PRODUCTS(multiply, number)                                                                                     \
    __asm__ volatile("dlstp.32 lr, %[count]\n"                                                                         \
                     "1:\n\t"                                                                                          \
                     "vldrb.s32 q0, [%[a]], #4\n\t"                                                                    \
                     "vadd.i32 q0, q0, %[zero_a]\n\t" multiply "vshr.s32 q1, q0, #31\n\t"                              \
                     "vqrdmlah.s32 q1, q0, %[multiplier]\n\t"                                                          \
                     "vrshl.s32 q1, %[shift]\n\t"                                                                      \
                     "vadd.i32 q1, q1, %[zero_point]\n\t"                                                              \
                     "vmax.s32 q1, q1, %q[low]\n\t"                                                                    \
                     "vmin.s32 q1, q1, %q[high]\n\t"                                                                   \
                     "vstrb.32 q1, [%[out]], #4\n\t"                                                                   \
                     "letp lr, 1b"                                                                                     \
                     : [a] "+l"(a), [b] "+l"(b), [out] "+l"(out)                                                       \
                     : [count] "r"(count), [zero_a] "r"(-zero_a), [factor] "r"(number),                                \
                       [multiplier] "r"(op->multiplier), [shift] "r"((int32_t)op->shift),                              \
                       [zero_point] "r"((int32_t)op->zero_point), [low] "w"(edgetool_all_s32(op->low)),                \
                       [high] "w"(edgetool_all_s32(op->high))                                                          \
                     : "lr", "memory", "q0", "q1")

#endif

/* A run in which `a` has one element for each output; `b` has, too, or only one if `step_b` is 0. */
static void run_of_products(const edgetool_mul_vector_s8_op *op, const int8_t *a, int32_t zero_a, const int8_t *b,
                            uint32_t step_b, int32_t zero_b, int8_t *out, uint32_t count)
{
#if defined(EDGETOOL_HELIUM)
    if (step_b == 0) {
        PRODUCTS("vmul.i32 q0, q0, %[factor]\n\t", *b - zero_b);
    } else {
        PRODUCTS("vldrb.s32 q1, [%[b]], #4\n\t"
                 "vadd.i32 q1, q1, %[factor]\n\t"
                 "vmul.i32 q0, q0, q1\n\t",
                 -zero_b);
    }
#else
    for (const int8_t *end = out + count; out != end; b += step_b) {
        const int32_t product = (*a++ - zero_a) * (*b - zero_b);
        const int32_t code = edgetool_scaled(product, op->multiplier, op->shift, 1) + op->zero_point;
        *out++ = (int8_t)edgetool_clamp(code, op->low, op->high);
    }
#endif
}

void edgetool_mul_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_mul_vector_s8_op *op = (const edgetool_mul_vector_s8_op *)descriptor;
    /* The first operand of a run is one with an element for each output, unless there is a single one. */
    const uint32_t run = op->loops[1], first = op->loops[2] == 0, second = 1 - first, step = op->loops[2 + second];
    int8_t *out = (int8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const void *const *rows = band->rows + 2 * (size_t)row;
        edgetool_walk walk;
        memset(&walk, 0, sizeof walk);
        do {
            const int8_t *a = (const int8_t *)rows[first] + walk.at[first];
            const int8_t *b = (const int8_t *)rows[second] + walk.at[second];
            run_of_products(op, a, op->zero_points[first], b, step, op->zero_points[second], out, run);
            out += run;
        } while (edgetool_next_run(&walk, op->loops, 2));
    }
}
