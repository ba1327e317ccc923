/* SPDX-License-Identifier: 0BSD */
/*
 * Products of a vector of codes with several others, and their scaled sums, on processors with Helium: a row of one
 * matrix times the columns of another. Scales are used as in edgetool_conv2d_vector_s8.h for outputs on both sides of
 * the zero point: if all negative results are clamped to it, 1 less does not change them.
 */
#ifndef EDGETOOL_PRODUCTS_VECTOR_H
#define EDGETOOL_PRODUCTS_VECTOR_H

#include "edgetool_scale_vector.h"

#define EDGETOOL_TOGETHER 4U /* sums that are computed at once */

/*
 * `count` > 0 vectors of `depth` > 0 codes are multiplied with the vector `shared`. The first four are at `others`, the
 * next four 4 * depth bytes behind them, and so on. `bias` has a multiple of four numbers; `minus` is added to every
 * sum. `scales` has four multipliers and four shifts for every four sums, `scale_step` bytes apart. `skip`
 * is the step from the end of a vector, in whole vectors of bytes, to the next four. `out` moves on.
 */
typedef struct {
    const int8_t *others[EDGETOOL_TOGETHER];
    const int32_t *bias;
    const int32_t *scales;
    const int8_t *shared;
    int8_t *out;
    uint32_t count;
    uint32_t depth;
    uint32_t skip;
    uint32_t scale_step;
    int32_t minus;
    int32_t zero_point;
    int32_t bounds[2];
} edgetool_products;

#if defined(EDGETOOL_HELIUM)

/*
 * The four vectors are at r3, r5, r8 and r9, biases at r10, scales at r11; r12 is the number of sums left. One or two
 * have a loop of their own, and no vector behind the last one is read. `v` is a local variable: no register is left for
 * its address.
 */
#define EDGETOOL_MULTIPLY(v)                                                                                           \
    __asm__ volatile("ldrd r3, r5, %[first]\n\t"                                                                       \
                     "ldrd r8, r9, %[third]\n\t"                                                                       \
                     "ldrd r10, r11, %[tables]\n\t"                                                                    \
                     "ldr r12, %[count]\n\t"                                                                           \
                     "ldrd r0, r2, %[bounds]\n\t"                                                                      \
                     "vdup.32 q4, r0\n\t"                                                                              \
                     "vdup.32 q5, r2\n\t"                                                                              \
                     "b 4f\n"                                                                                          \
                     "1:\n"                                                                                            \
                     "ldrd r0, r2, [r10], #8\n\t"                                                                      \
                     "ldr r1, %[shared]\n\t"                                                                           \
                     "ldrd r4, r6, [r10], #8\n\t"                                                                      \
                     "ldr lr, %[depth]\n\t"                                                                            \
                     "dlstp.8 lr, lr\n"                                                                                \
                     "2:\n"                                                                                            \
                     "vldrb.8 q0, [r1], #16\n\t"                                                                       \
                     "vldrb.8 q1, [r3], #16\n\t"                                                                       \
                     "vmladava.s8 r0, q0, q1\n\t"                                                                      \
                     "vldrb.8 q2, [r5], #16\n\t"                                                                       \
                     "vmladava.s8 r2, q0, q2\n\t"                                                                      \
                     "vldrb.8 q3, [r8], #16\n\t"                                                                       \
                     "vmladava.s8 r4, q0, q3\n\t"                                                                      \
                     "vldrb.8 q1, [r9], #16\n\t"                                                                       \
                     "vmladava.s8 r6, q0, q1\n\t"                                                                      \
                     "letp lr, 2b\n"                                                                                   \
                     "3:\n"                                                                                            \
                     "vldrw.32 q3, [r11]\n\t"                                                                          \
                     "vmov d4, r0, r2\n\t"                                                                             \
                     "ldr lr, %[skip]\n\t"                                                                             \
                     "vmov d5, r4, r6\n\t"                                                                             \
                     "ldr r1, %[minus]\n\t"                                                                            \
                     "add r3, lr\n\t"                                                                                  \
                     "vadd.i32 q2, q2, r1\n\t"                                                                         \
                     "vshr.s32 q1, q2, #31\n\t"                                                                        \
                     "vqrdmulh.s32 q2, q2, q3\n\t"                                                                     \
                     "vadd.i32 q2, q2, q1\n\t"                                                                         \
                     "vldrw.32 q3, [r11, #16]\n\t"                                                                     \
                     "add r5, lr\n\t"                                                                                  \
                     "ldr r0, %[zero_point]\n\t"                                                                       \
                     "vrshl.s32 q2, q2, q3\n\t"                                                                        \
                     "add r8, lr\n\t"                                                                                  \
                     "vadd.i32 q2, q2, r0\n\t"                                                                         \
                     "add r9, lr\n\t"                                                                                  \
                     "vmax.s32 q2, q2, q4\n\t"                                                                         \
                     "ldr r1, %[out]\n\t"                                                                              \
                     "vmin.s32 q2, q2, q5\n\t"                                                                         \
                     "ldr lr, %[scale_step]\n\t"                                                                       \
                     "vctp.32 r12\n\t"                                                                                 \
                     "add r11, lr\n\t"                                                                                 \
                     "sub r12, #4\n\t"                                                                                 \
                     "vpst\n\t"                                                                                        \
                     "vstrbt.32 q2, [r1], #4\n\t"                                                                      \
                     "str r1, %[out]\n"                                                                                \
                     "4:\n"                                                                                            \
                     "cmp r12, #3\n\t"                                                                                 \
                     "bgt 1b\n\t"                                                                                      \
                     "mov r9, r8\n\t"                                                                                  \
                     "beq 1b\n\t"                                                                                      \
                     "cmp r12, #0\n\t"                                                                                 \
                     "ble 6f\n\t"                                                                                      \
                     "cmp r12, #1\n\t"                                                                                 \
                     "it eq\n\t"                                                                                       \
                     "moveq r5, r3\n\t"                                                                                \
                     "ldrd r0, r2, [r10]\n\t"                                                                          \
                     "ldr r1, %[shared]\n\t"                                                                           \
                     "ldr lr, %[depth]\n\t"                                                                            \
                     "dlstp.8 lr, lr\n"                                                                                \
                     "5:\n"                                                                                            \
                     "vldrb.8 q0, [r1], #16\n\t"                                                                       \
                     "vldrb.8 q1, [r3], #16\n\t"                                                                       \
                     "vmladava.s8 r0, q0, q1\n\t"                                                                      \
                     "vldrb.8 q2, [r5], #16\n\t"                                                                       \
                     "vmladava.s8 r2, q0, q2\n\t"                                                                      \
                     "letp lr, 5b\n\t"                                                                                 \
                     "b 3b\n"                                                                                          \
                     "6:"                                                                                              \
                     : [out] "+m"((v).out)                                                                             \
                     : [first] "m"((v).others[0]), [third] "m"((v).others[2]), [tables] "m"((v).bias),                 \
                       [shared] "m"((v).shared), [count] "m"((v).count), [depth] "m"((v).depth),                       \
                       [skip] "m"((v).skip), [scale_step] "m"((v).scale_step), [minus] "m"((v).minus),                 \
                       [zero_point] "m"((v).zero_point), [bounds] "m"((v).bounds[0]), [all] "m"(v)                     \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc",          \
                       "memory", "q0", "q1", "q2", "q3", "q4", "q5")

#else /* EDGETOOL_HELIUM */

static void edgetool_multiply_vector(edgetool_products *v)
{
    for (uint32_t i = 0; i < v->count; i++) {
        const uint32_t block = i / EDGETOOL_TOGETHER, place = i % EDGETOOL_TOGETHER;
        const int32_t *scale = v->scales + (size_t)block * v->scale_step / sizeof(int32_t) + place;
        const int8_t *other = v->others[place] + (size_t)block * EDGETOOL_TOGETHER * v->depth;
        const int32_t sum = edgetool_dot_1x1(edgetool_plus(v->bias[i], v->minus), v->shared, other, v->depth);
        const int32_t value = edgetool_scaled(sum, scale[0], scale[EDGETOOL_TOGETHER], 1) + v->zero_point;
        *v->out++ = (int8_t)edgetool_clamp(value, v->bounds[0], v->bounds[1]);
    }
}

#define EDGETOOL_MULTIPLY(v) edgetool_multiply_vector(&(v))

#endif /* EDGETOOL_HELIUM */

/*
 * Sets what depends on the depth and on the number of vectors, which follow each other from `first`. Not inline: GCC would
 * keep a predicate of its vectors in VPR, which the products change and no list of clobbered registers can name.
 */
static EDGETOOL_NOINLINE void edgetool_set_others(edgetool_products *v, const int8_t *first, uint32_t count, uint32_t depth)
{
    v->count = count;
    v->depth = depth;
    v->skip = EDGETOOL_TOGETHER * depth - ((depth + 15) & ~15U);
    for (uint32_t i = 0; i < EDGETOOL_TOGETHER; i++) {
        v->others[i] = first + (size_t)(i < count ? i : 0) * depth;
    }
}

#endif /* EDGETOOL_PRODUCTS_VECTOR_H */
