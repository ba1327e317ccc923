/* SPDX-License-Identifier: 0BSD */
#include "edgetool_add_vector_s8.h"

#include "edgetool_helium.h"

static void one_row(const edgetool_add_vector_s8_op *op, const int8_t *a, const int8_t *b, int8_t *out)
{
    const int32_t intercept = op->numbers[2], second = op->numbers[1];
#if defined(EDGETOOL_HELIUM)
    const edgetool_s32x4 first = edgetool_all_s32(op->numbers[0]), low = edgetool_all_s32(op->low);
    const edgetool_s32x4 high = edgetool_all_s32(op->high);
    __asm__ volatile("dlstp.32 lr, %[count]\n"
                     "1:\n\t"
                     "vldrb.s32 q0, [%[a]], #4\n\t"
                     "vldrb.s32 q1, [%[b]], #4\n\t"
                     "vmlas.s32 q0, %q[first], %[intercept]\n\t"
                     "vmla.s32 q0, q1, %[second]\n\t"
                     "vshl.s32 q0, %[shift]\n\t"
                     "vmax.s32 q0, q0, %q[low]\n\t"
                     "vmin.s32 q0, q0, %q[high]\n\t"
                     "vstrb.32 q0, [%[out]], #4\n\t"
                     "letp lr, 1b"
                     : [a] "+l"(a), [b] "+l"(b), [out] "+l"(out)
                     : [count] "r"(op->count), [intercept] "r"(intercept), [second] "r"(second),
                       [shift] "r"(-(int32_t)op->shift), [first] "w"(first), [low] "w"(low), [high] "w"(high)
                     : "lr", "memory", "q0", "q1");
#else
    for (uint32_t i = 0; i < op->count; i++) {
        const int32_t value = (a[i] * op->numbers[0] + b[i] * second + intercept) >> op->shift;
        out[i] = (int8_t)edgetool_clamp(value, op->low, op->high);
    }
#endif
}

void edgetool_add_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_add_vector_s8_op *op = (const edgetool_add_vector_s8_op *)descriptor;
    for (uint32_t y = 0; y < band->count; y++) {
        const void *const *rows = band->rows + 2 * (size_t)y;
        one_row(op, (const int8_t *)rows[0], (const int8_t *)rows[1], (int8_t *)band->out + (size_t)y * op->count);
    }
}
