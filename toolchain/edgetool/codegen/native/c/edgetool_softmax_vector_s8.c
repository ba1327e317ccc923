/* SPDX-License-Identifier: 0BSD */
#include "edgetool_softmax_vector_s8.h"

#include "edgetool_fractions.h"
#include "edgetool_helium.h"

#define BITS 8U

#if defined(EDGETOOL_HELIUM)

/* Loads the exponentials of four codes into q0. */
#define EXPONENTIALS                                                                                                   \
    "vldrb.s32 q1, [%[codes]], #4\n\t"                                                                                 \
    "vsub.i32 q1, %q[largest], q1\n\t"                                                                                 \
    "vmin.u32 q1, q1, %q[zero]\n\t"                                                                                    \
    "vldrw.u32 q0, [%[table], q1, uxtw #2]\n\t"

#define OPERANDS                                                                                                       \
    [count] "r"(op->depth), [table] "r"(op->exponentials), [largest] "w"(edgetool_all_s32(largest)),                   \
        [zero] "w"(edgetool_all_s32(op->count))

static int32_t largest_code(const int8_t *codes, uint32_t count)
{
    int32_t largest = INT8_MIN;
    __asm__("dlstp.8 lr, %[count]\n"
            "1:\n\t"
            "vldrb.8 q0, [%[codes]], #16\n\t"
            "vmaxv.s8 %[largest], q0\n\t"
            "letp lr, 1b"
            : [largest] "+r"(largest), [codes] "+l"(codes)
            : [count] "r"(count)
            : "lr", "q0", "memory");
    return largest;
}

static int32_t sum_of_exponentials(const edgetool_softmax_vector_s8_op *op, const int8_t *codes, int32_t largest)
{
    int32_t sum = 0;
    __asm__("dlstp.32 lr, %[count]\n"
            "1:\n\t" EXPONENTIALS "vrshr.s32 q0, q0, %[bits]\n\t"
            "vaddva.s32 %[sum], q0\n\t"
            "letp lr, 1b"
            : [sum] "+Te"(sum), [codes] "+l"(codes)
            : OPERANDS, [bits] "i"(EDGETOOL_SUM_BITS)
            : "lr", "q0", "q1", "memory");
    return sum;
}

static uint32_t leading_zeros(uint32_t value)
{
    return (uint32_t)__builtin_clz(value);
}

#else

static int32_t largest_code(const int8_t *codes, uint32_t count)
{
    return edgetool_largest(codes, count);
}

static int32_t sum_of_exponentials(const edgetool_softmax_vector_s8_op *op, const int8_t *codes, int32_t largest)
{
    return edgetool_sum_of_exponentials(codes, op->depth, largest, op->exponentials, op->count);
}

static uint32_t leading_zeros(uint32_t value)
{
    return edgetool_leading_zeros(value);
}

#endif

/* Writes the quotients of a vector: its exponentials times `inverse`, shifted right. */
static void quotients(const edgetool_softmax_vector_s8_op *op, const int8_t *codes, int32_t largest, int32_t inverse,
                      uint32_t shift, int8_t *out)
{
#if defined(EDGETOOL_HELIUM)
    __asm__ volatile("dlstp.32 lr, %[count]\n"
                     "1:\n\t" EXPONENTIALS "vqrdmulh.s32 q0, q0, %[inverse]\n\t"
                     "vrshl.s32 q0, %[shift]\n\t"
                     "vmin.s32 q0, q0, %q[highest]\n\t"
                     "vadd.i32 q0, q0, %[lowest]\n\t"
                     "vstrb.32 q0, [%[out]], #4\n\t"
                     "letp lr, 1b"
                     : [codes] "+l"(codes), [out] "+l"(out)
                     : OPERANDS, [inverse] "r"(inverse), [shift] "r"(-(int32_t)shift), [lowest] "r"(INT8_MIN),
                       [highest] "w"(edgetool_all_s32(UINT8_MAX))
                     : "lr", "memory", "q0", "q1");
#else
    for (uint32_t i = 0; i < op->depth; i++) {
        const int32_t below = largest - codes[i];
        const int32_t exponential = op->exponentials[below < op->count ? below : op->count];
        /* A shift beyond 31 leaves nothing. */
        const int32_t quotient =
            shift < 32 ? edgetool_divide_pot(edgetool_high_mul(inverse, exponential), shift) : 0;
        out[i] = (int8_t)(edgetool_clamp(quotient, 0, UINT8_MAX) + INT8_MIN);
    }
#endif
}

void edgetool_softmax_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_softmax_vector_s8_op *op = (const edgetool_softmax_vector_s8_op *)descriptor;
    int8_t *out = (int8_t *)band->out;
    for (uint32_t y = 0; y < band->count; y++) {
        const int8_t *codes = (const int8_t *)band->rows[y];
        for (uint32_t i = op->vectors; i != 0; i--) {
            const int32_t largest = largest_code(codes, op->depth);
            const uint32_t sum = (uint32_t)sum_of_exponentials(op, codes, largest);
            const uint32_t zeros = leading_zeros(sum);
            /* The sum is (1 + x) * 2^(12 - zeros), with x in Q0. */
            const int32_t inverse = edgetool_inverse_plus_one((int32_t)((sum << zeros) - (1U << 31)));
            quotients(op, codes, largest, inverse, EDGETOOL_SUM_BITS + 31U - zeros - BITS, out);
            codes += op->depth;
            out += op->depth;
        }
    }
}
