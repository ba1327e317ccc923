/* SPDX-License-Identifier: 0BSD */
#include "edgetool_quantize.h"

#include "edgetool_element.h"

#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)
#if (__ARM_FEATURE_MVE & 2) != 0
#define VECTORS 1
#endif
#endif

/* The nearest integer, half away from zero, of a number between these bounds; the lower one of NaN. */
static inline int32_t rounded(float value, float low, float high)
{
    if (!(value > low)) {
        value = low;
    } else if (value > high) {
        value = high;
    }
    /* Twice the number is exact, and has no half to round. */
    const int32_t twice = (int32_t)(value + value);
    return (twice + 1 + (twice >> 31)) >> 1;
}

#if defined(VECTORS)

/* Divides by the scale in scalar registers, which are the lanes: a product with its inverse would differ. */
static void row_of_bytes(const float *source, uint32_t count, float scale, const float *bounds, int32_t zero_point,
                         uint8_t *out)
{
    if (count == 0) {
        return;
    }
    __asm__ volatile("vldr s16, [%[bounds]]\n\t"
                     "vldr s20, [%[bounds], #4]\n\t"
                     "vmov r0, s16\n\t"
                     "vdup.32 q1, r0\n\t"
                     "vmov r0, s20\n\t"
                     "vdup.32 q2, r0\n\t"
                     "dlstp.32 lr, %[count]\n"
                     "1:\n\t"
                     "vldrw.32 q0, [%[source]], #16\n\t"
                     "vdiv.f32 s0, s0, %[scale]\n\t"
                     "vdiv.f32 s1, s1, %[scale]\n\t"
                     "vdiv.f32 s2, s2, %[scale]\n\t"
                     "vdiv.f32 s3, s3, %[scale]\n\t"
                     "vmaxnm.f32 q0, q0, q1\n\t"
                     "vminnm.f32 q0, q0, q2\n\t"
                     "vcvta.s32.f32 q0, q0\n\t"
                     "vadd.i32 q0, q0, %[zero_point]\n\t"
                     "vstrb.32 q0, [%[out]], #4\n\t"
                     "letp lr, 1b"
                     : [source] "+r"(source), [out] "+l"(out)
                     : [count] "r"(count), [scale] "t"(scale), [bounds] "r"(bounds), [zero_point] "r"(zero_point)
                     : "r0", "lr", "memory", "q0", "q1", "q2", "s16", "s20");
}

#else

static void row_of_bytes(const float *source, uint32_t count, float scale, const float *bounds, int32_t zero_point,
                         uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (uint8_t)(rounded(source[i] / scale, bounds[0], bounds[1]) + zero_point);
    }
}

#endif

void edgetool_quantize(const void *descriptor, const edgetool_band *band)
{
    const edgetool_quantize_op *op = (const edgetool_quantize_op *)descriptor;
    const int32_t high = op->bytes == 1 ? INT8_MAX : INT16_MAX, zero_point = op->zero_point;
    const float bounds[2] = {(float)(-high - 1 - zero_point), (float)(high - zero_point)};
    uint8_t *out = (uint8_t *)band->out;
    for (uint32_t row = 0; row < band->count; row++) {
        const float *source = (const float *)band->rows[row];
        if (op->bytes == 1) {
            row_of_bytes(source, op->count, op->scale, bounds, zero_point, out);
        } else {
            for (uint32_t i = 0; i < op->count; i++) {
                edgetool_store(out, i, 2, rounded(source[i] / op->scale, bounds[0], bounds[1]) + zero_point);
            }
        }
        out += (size_t)op->count * op->bytes;
    }
}
