/* SPDX-License-Identifier: 0BSD */
#include "edgetool_conv2d_vector_s8.h"

#include "edgetool_scale_vector.h"

#define LANES 16U
/* Pixels of a group at most. What four channels have in `scales`: biases, multipliers, shifts. */
#define PIXELS 3U
#define BLOCK 12U

/*
 * Groups of pixels of one or two vectors: the taps and outputs of the first one, and how far those of the second and
 * third one and those of the next group are from the one before.
 */
typedef struct {
    const int8_t *weights;
    const int32_t *scales;
    uint32_t depth;
    int32_t channels;
    int32_t zero_point;
    int32_t bounds[2];
    const int8_t *taps;
    int32_t tap_steps[3];
    int8_t *out;
    int32_t out_steps[3];
    uint32_t groups;
} short_groups;

/*
 * Four outputs at once that are `out_step` apart, `count` in all: products of one vector with others, and how far those
 * of the next four are behind the ends of the vectors. The scales of the next four are `scale_step` bytes further.
 */
typedef struct {
    const int8_t *shared;
    const int32_t *scales;
    uint32_t depth;
    int32_t count;
    int32_t zero_point;
    int32_t bounds[2];
    uint32_t skip;
    uint32_t scale_step;
    const int8_t *others[4];
    int8_t *out;
    uint32_t out_step;
} four_outputs;

/* Two or three pixels of more taps, how far their last taps are before the next two channels, the channels left. */
typedef struct {
    const int8_t *weights;
    const int32_t *scales;
    uint32_t depth;
    int32_t channels;
    int32_t zero_point;
    int32_t bounds[2];
    uint32_t skip;
    const int8_t *pixels[PIXELS];
    int8_t *outs[PIXELS];
} long_group;

#if defined(EDGETOOL_HELIUM)

/* With q_sign for a temporary vector, the product of a sum and the multiplier in q_scale. */
#define PRODUCT(sum, scale, sign) "vqrdmulh.s32 " sum ", " sum ", " scale "\n\t"
#define SIGNED_PRODUCT(sum, scale, sign) \
    "vshr.s32 " sign ", " sum ", #31\n\t" \
    "vqrdmulh.s32 " sum ", " sum ", " scale "\n\t" \
    "vadd.i32 " sum ", " sum ", " sign "\n\t"

/* Something for each of one to three vectors of sums. */
#define ONE(what, a, b, c, ...) what(a, __VA_ARGS__)
#define TWO(what, a, b, c, ...) what(a, __VA_ARGS__) what(b, __VA_ARGS__)
#define ALL(what, a, b, c, ...) what(a, __VA_ARGS__) what(b, __VA_ARGS__) what(c, __VA_ARGS__)
#define ADD(sum, other) "vadd.i32 " sum ", " sum ", " other "\n\t"
#define SHIFT(sum, shift) "vrshl.s32 " sum ", " sum ", " shift "\n\t"
#define MAXIMUM(sum, bound) "vmax.s32 " sum ", " sum ", " bound "\n\t"
#define MINIMUM(sum, bound) "vmin.s32 " sum ", " sum ", " bound "\n\t"

/* The sums of each pixel's four channels as codes; `scales` is a register, r0 and r2 are free. */
#define CODES(each, product, scales, a, b, c, scale, sign) \
    "ldr r0, %[zero_point]\n\t" SCALED(each, product, scales, "#48", a, b, c, scale, sign) each(ADD, a, b, c, "r0") \
    "ldrd r0, r2, %[bounds]\n\t" \
    "vdup.32 " scale ", r0\n\t" \
    "vdup.32 " sign ", r2\n\t" each(MAXIMUM, a, b, c, scale) each(MINIMUM, a, b, c, sign)
/* The same with q0 and q1 for temporary vectors and the bounds in others. */
#define BOUND_CODES(each, product, step, zero_point, low, high, a, b, c) \
    SCALED(each, product, "r12", step, a, b, c, "q0", "q1") \
    each(ADD, a, b, c, zero_point) each(MAXIMUM, a, b, c, low) each(MINIMUM, a, b, c, high)
#define SCALED(each, product, scales, step, a, b, c, scale, sign) \
    "vldrw.32 " scale ", [" scales ", #16]\n\t" each(product, a, b, c, scale, sign) \
    "vldrw.32 " scale ", [" scales ", #32]\n\t" \
    "add " scales ", " step "\n\t" each(SHIFT, a, b, c, scale)
#define LOAD_BOUNDS(low, high) \
    "ldrd r0, r2, %[bounds]\n\t" \
    "vdup.32 " low ", r0\n\t" \
    "vdup.32 " high ", r2\n\t"

#define VALUES \
    [depth] "m"(g.depth), [tables] "m"(g.weights), [zero_point] "m"(g.zero_point), [bounds] "m"(g.bounds), \
        [all] "m"(g)
#define SHORT_VALUES \
    VALUES, [channels] "m"(g.channels), [tap_steps] "m"(g.tap_steps), [tap_next] "m"(g.tap_steps[2]), \
        [out_steps] "m"(g.out_steps), [out_next] "m"(g.out_steps[2])
#define CHANGED [taps] "+m"(g.taps), [out] "+m"(g.out), [groups] "+m"(g.groups)
#define CLOBBERED \
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory", "q0", "q1", "q2", \
        "q3", "q4", "q5", "q6", "q7"

/* The outputs of a group in r1, r3 and r5, the weights in r9, the scales in r11 and the channels left in r12. */
#define START_OUTPUTS(two, next) \
    "ldr r1, %[out]\n\t" \
    "ldrd r3, r5, %[out_steps]\n\t" \
    "ldrd r9, r11, %[tables]\n\t" \
    "add r3, r1\n\t" \
    "ldr r12, %[channels]\n\t" two \
    "ldr r6, %[out_next]\n\t" \
    "add r6, " next "\n\t" \
    "str r6, %[out]\n"
#define NEXT_GROUP \
    "ldr r0, %[groups]\n\t" \
    "subs r0, #1\n\t" \
    "str r0, %[groups]\n\t" \
    "bne 5b"

/* Two channels of three pixels of one vector. */
#define ONE_TILE(a, b, c) \
    "vldrb.8 q6, [r9], #16\n\t" \
    "vmladav.s8 r0, q0, q6\n\t" \
    "vmladav.s8 r2, q1, q6\n\t" \
    "vmladav.s8 r4, q2, q6\n\t" \
    "vldrb.8 q7, [r9], #16\n\t" \
    "vmladav.s8 r6, q0, q7\n\t" \
    "vmladav.s8 r8, q1, q7\n\t" \
    "vmladav.s8 r10, q2, q7\n\t" \
    "vmov " a ", r0, r6\n\t" \
    "vmov " b ", r2, r8\n\t" \
    "vmov " c ", r4, r10\n\t"
#define ONE_VECTOR(product) \
    __asm__ volatile("5:\n\t" \
                     "ldr r1, %[taps]\n\t" \
                     "ldrd r2, r3, %[tap_steps]\n\t" \
                     "ldr r4, %[tap_next]\n\t" \
                     "add r2, r1\n\t" \
                     "ldr r5, %[depth]\n\t" \
                     "add r3, r2\n\t" \
                     "vctp.8 r5\n\t" \
                     "add r4, r3\n\t" \
                     "vpsttt\n\t" \
                     "vldrbt.8 q0, [r1]\n\t" \
                     "vldrbt.8 q1, [r2]\n\t" \
                     "vldrbt.8 q2, [r3]\n\t" \
                     "str r4, %[taps]\n\t" START_OUTPUTS("add r5, r3\n\t", "r5") \
                     "1:\n\t" ONE_TILE("d6", "d8", "d10") ONE_TILE("d7", "d9", "d11") \
                     "vldrw.32 q6, [r11]\n\t" ALL(ADD, "q3", "q4", "q5", "q6") \
                         CODES(ALL, product, "r11", "q3", "q4", "q5", "q6", "q7") \
                     "vctp.32 r12\n\t" \
                     "subs r12, #4\n\t" \
                     "vpsttt\n\t" \
                     "vstrbt.32 q3, [r1], #4\n\t" \
                     "vstrbt.32 q4, [r3], #4\n\t" \
                     "vstrbt.32 q5, [r5], #4\n\t" \
                     "bgt 1b\n\t" NEXT_GROUP \
                     : CHANGED \
                     : SHORT_VALUES \
                     : CLOBBERED)

/* Two channels of two pixels of two vectors. */
#define TWO_TILE(a, b) \
    "vldrb.8 q4, [r9], #16\n\t" \
    "vmladav.s8 r0, q0, q4\n\t" \
    "vmladav.s8 r2, q2, q4\n\t" \
    "vldrb.8 q7, [r9], #16\n\t" \
    "vmladava.s8 r0, q1, q7\n\t" \
    "vmladava.s8 r2, q3, q7\n\t" \
    "vldrb.8 q4, [r9], #16\n\t" \
    "vmladav.s8 r6, q0, q4\n\t" \
    "vmladav.s8 r8, q2, q4\n\t" \
    "vldrb.8 q7, [r9], #16\n\t" \
    "vmladava.s8 r6, q1, q7\n\t" \
    "vmladava.s8 r8, q3, q7\n\t" \
    "vmov " a ", r0, r6\n\t" \
    "vmov " b ", r2, r8\n\t"
#define TWO_VECTORS(product) \
    __asm__ volatile("5:\n\t" \
                     "ldr r1, %[taps]\n\t" \
                     "ldr r2, %[tap_steps]\n\t" \
                     "ldr r4, %[tap_next]\n\t" \
                     "add r2, r1\n\t" \
                     "ldr r5, %[depth]\n\t" \
                     "add r4, r2\n\t" \
                     "sub r5, #16\n\t" \
                     "vldrb.8 q0, [r1], #16\n\t" \
                     "vldrb.8 q2, [r2], #16\n\t" \
                     "vctp.8 r5\n\t" \
                     "vpstt\n\t" \
                     "vldrbt.8 q1, [r1]\n\t" \
                     "vldrbt.8 q3, [r2]\n\t" \
                     "str r4, %[taps]\n\t" START_OUTPUTS("", "r3") \
                     "1:\n\t" TWO_TILE("d10", "d12") TWO_TILE("d11", "d13") \
                     "vldrw.32 q4, [r11]\n\t" TWO(ADD, "q5", "q6", "", "q4") \
                         CODES(TWO, product, "r11", "q5", "q6", "", "q4", "q7") \
                     "vctp.32 r12\n\t" \
                     "subs r12, #4\n\t" \
                     "vpstt\n\t" \
                     "vstrbt.32 q5, [r1], #4\n\t" \
                     "vstrbt.32 q6, [r3], #4\n\t" \
                     "bgt 1b\n\t" NEXT_GROUP \
                     : CHANGED \
                     : SHORT_VALUES \
                     : CLOBBERED)

/* Two channels of three pixels whose taps are read. */
#define LONG_TILE(bias, a, b, c) \
    "ldrd r0, r6, [r12, #" bias "]\n\t" \
    "ldrd r1, r3, %[pixels]\n\t" \
    "ldr r5, %[third]\n\t" \
    "mov r2, r0\n\t" \
    "ldr lr, %[depth]\n\t" \
    "mov r4, r0\n\t" \
    "mov r8, r6\n\t" \
    "mov r10, r6\n\t" \
    "dlstp.8 lr, lr\n" \
    "2:\n\t" \
    "vldrb.8 q0, [r9], #16\n\t" \
    "vldrb.8 q2, [r1], #16\n\t" \
    "vmladava.s8 r0, q2, q0\n\t" \
    "vldrb.8 q1, [r11], #16\n\t" \
    "vmladava.s8 r6, q2, q1\n\t" \
    "vldrb.8 q2, [r3], #16\n\t" \
    "vmladava.s8 r2, q2, q0\n\t" \
    "vmladava.s8 r8, q2, q1\n\t" \
    "vldrb.8 q2, [r5], #16\n\t" \
    "vmladava.s8 r4, q2, q0\n\t" \
    "vmladava.s8 r10, q2, q1\n\t" \
    "letp lr, 2b\n\t" \
    "ldr lr, %[skip]\n\t" \
    "vmov " a ", r0, r6\n\t" \
    "add r9, lr\n\t" \
    "vmov " b ", r2, r8\n\t" \
    "add r11, lr\n\t" \
    "vmov " c ", r4, r10\n\t"
#define THREE_PIXELS(product) \
    __asm__ volatile("ldrd r9, r12, %[tables]\n\t" \
                     "ldr r11, %[depth]\n\t" \
                     "add r11, r9\n\t" LOAD_BOUNDS("q3", "q7") \
                     "1:\n\t" LONG_TILE("0", "d8", "d10", "d12") \
                     "ldr r0, %[left]\n\t" \
                     "cmp r0, #2\n\t" \
                     "ble 3f\n\t" LONG_TILE("8", "d9", "d11", "d13") \
                     "3:\n\t" \
                     "ldr r0, %[zero_point]\n\t" \
                         BOUND_CODES(ALL, product, "#48", "r0", "q3", "q7", "q4", "q5", "q6") \
                     "ldrd r1, r3, %[outs]\n\t" \
                     "ldr r5, %[third_out]\n\t" \
                     "ldr r0, %[left]\n\t" \
                     "vctp.32 r0\n\t" \
                     "subs r0, #4\n\t" \
                     "vpsttt\n\t" \
                     "vstrbt.32 q4, [r1], #4\n\t" \
                     "vstrbt.32 q5, [r3], #4\n\t" \
                     "vstrbt.32 q6, [r5], #4\n\t" \
                     "str r0, %[left]\n\t" \
                     "strd r1, r3, %[outs]\n\t" \
                     "str r5, %[third_out]\n\t" \
                     "bgt 1b" \
                     : [left] "+m"(g.channels), [outs] "+m"(g.outs), [third_out] "+m"(g.outs[2]) \
                     : [pixels] "m"(g.pixels), [third] "m"(g.pixels[2]), [skip] "m"(g.skip), VALUES \
                     : CLOBBERED)

/* Two channels of two pixels, with the channels left in r5, r8 bytes to skip and the depth in r10. */
#define PAIR_TILE(bias, a, b) \
    "ldrd r0, r4, [r12, #" bias "]\n\t" \
    "ldrd r1, r3, %[pixels]\n\t" \
    "mov r2, r0\n\t" \
    "mov r6, r4\n\t" \
    "dlstp.8 lr, r10\n" \
    "2:\n\t" \
    "vldrb.8 q2, [r9], #16\n\t" \
    "vldrb.8 q0, [r1], #16\n\t" \
    "vmladava.s8 r0, q0, q2\n\t" \
    "vldrb.8 q1, [r3], #16\n\t" \
    "vmladava.s8 r2, q1, q2\n\t" \
    "vldrb.8 q2, [r11], #16\n\t" \
    "vmladava.s8 r4, q0, q2\n\t" \
    "vmladava.s8 r6, q1, q2\n\t" \
    "letp lr, 2b\n\t" \
    "vmov " a ", r0, r4\n\t" \
    "add r9, r8\n\t" \
    "vmov " b ", r2, r6\n\t" \
    "add r11, r8\n\t"
#define TWO_PIXELS(product) \
    __asm__ volatile("ldrd r9, r12, %[tables]\n\t" \
                     "ldr r10, %[depth]\n\t" \
                     "ldr r8, %[skip]\n\t" \
                     "add r11, r9, r10\n\t" \
                     "ldr r1, %[zero_point]\n\t" \
                     "ldr r5, %[left]\n\t" \
                     "vdup.32 q5, r1\n\t" LOAD_BOUNDS("q6", "q7") \
                     "1:\n\t" PAIR_TILE("0", "d6", "d8") \
                     "cmp r5, #2\n\t" \
                     "ble 3f\n\t" PAIR_TILE("8", "d7", "d9") \
                     "3:\n\t" BOUND_CODES(TWO, product, "#48", "q5", "q6", "q7", "q3", "q4", "") \
                     "ldrd r1, r3, %[outs]\n\t" \
                     "vctp.32 r5\n\t" \
                     "subs r5, #4\n\t" \
                     "vpstt\n\t" \
                     "vstrbt.32 q3, [r1], #4\n\t" \
                     "vstrbt.32 q4, [r3], #4\n\t" \
                     "strd r1, r3, %[outs]\n\t" \
                     "bgt 1b" \
                     : [outs] "+m"(g.outs) \
                     : [left] "m"(g.channels), [pixels] "m"(g.pixels), [skip] "m"(g.skip), VALUES \
                     : CLOBBERED)

/* Four outputs at once, whose products share a vector. One or two have a loop of their own. */
#define FOUR_OUTPUTS(product) \
    __asm__ volatile("ldrd r3, r5, %[others]\n\t" \
                     "ldrd r9, r11, %[third]\n\t" \
                     "movs r0, #0\n\t" \
                     "ldr r1, %[out_step]\n\t" \
                     "ldr r12, %[scales]\n\t" \
                     "vidup.u32 q5, r0, #1\n\t" \
                     "vmul.i32 q5, q5, r1\n\t" \
                     "lsls r1, r1, #2\n\t" \
                     "ldr r8, %[depth]\n\t" \
                     "vdup.32 q2, r1\n\t" \
                     "ldr r1, %[zero_point]\n\t" \
                     "ldr r10, %[count]\n\t" \
                     "vdup.32 q3, r1\n\t" LOAD_BOUNDS("q6", "q7") \
                     "b 4f\n" \
                     "1:\n\t" \
                     "ldrd r0, r2, [r12]\n\t" \
                     "ldrd r4, r6, [r12, #8]\n\t" \
                     "ldr r1, %[shared]\n\t" \
                     "dlstp.8 lr, r8\n" \
                     "2:\n\t" \
                     "vldrb.8 q0, [r1], #16\n\t" \
                     "vldrb.8 q1, [r3], #16\n\t" \
                     "vmladava.s8 r0, q0, q1\n\t" \
                     "vldrb.8 q1, [r5], #16\n\t" \
                     "vmladava.s8 r2, q0, q1\n\t" \
                     "vldrb.8 q1, [r9], #16\n\t" \
                     "vmladava.s8 r4, q0, q1\n\t" \
                     "vldrb.8 q1, [r11], #16\n\t" \
                     "vmladava.s8 r6, q0, q1\n\t" \
                     "letp lr, 2b\n" \
                     "3:\n\t" \
                     "ldr lr, %[skip]\n\t" \
                     "vmov d8, r0, r2\n\t" \
                     "add r3, lr\n\t" \
                     "vmov d9, r4, r6\n\t" \
                     "add r5, lr\n\t" \
                     "add r9, lr\n\t" \
                     "add r11, lr\n\t" \
                     "ldr r0, %[scale_step]\n\t" \
                         BOUND_CODES(ONE, product, "r0", "q3", "q6", "q7", "q4", "", "") \
                     "ldr r1, %[out]\n\t" \
                     "vctp.32 r10\n\t" \
                     "subs r10, #4\n\t" \
                     "vpst\n\t" \
                     "vstrbt.32 q4, [r1, q5]\n\t" \
                     "vadd.i32 q5, q5, q2\n\t" \
                     "ble 6f\n" \
                     "4:\n\t" \
                     "cmp r10, #2\n\t" \
                     "bgt 1b\n\t" \
                     "ldrd r0, r2, [r12]\n\t" \
                     "ldr r1, %[shared]\n\t" \
                     "dlstp.8 lr, r8\n" \
                     "5:\n\t" \
                     "vldrb.8 q0, [r1], #16\n\t" \
                     "vldrb.8 q1, [r3], #16\n\t" \
                     "vmladava.s8 r0, q0, q1\n\t" \
                     "vldrb.8 q1, [r5], #16\n\t" \
                     "vmladava.s8 r2, q0, q1\n\t" \
                     "letp lr, 5b\n\t" \
                     "b 3b\n" \
                     "6:" \
                     : \
                     : [count] "m"(g.count), [out] "m"(g.out), [out_step] "m"(g.out_step), [others] "m"(g.others), \
                       [third] "m"(g.others[2]), [scales] "m"(g.scales), [shared] "m"(g.shared), [depth] "m"(g.depth), \
                       [skip] "m"(g.skip), [scale_step] "m"(g.scale_step), [zero_point] "m"(g.zero_point), \
                       [bounds] "m"(g.bounds), [all] "m"(g) \
                     : CLOBBERED)

/* Computes whole groups. */
#define SHORT_GROUPS(is_signed) \
    if (g.depth <= LANES) { \
        if (is_signed) { \
            ONE_VECTOR(SIGNED_PRODUCT); \
        } else { \
            ONE_VECTOR(PRODUCT); \
        } \
    } else if (is_signed) { \
        TWO_VECTORS(SIGNED_PRODUCT); \
    } else { \
        TWO_VECTORS(PRODUCT); \
    }
/* Computes a group of two or three pixels. */
#define LONG_GROUP(count, is_signed) \
    if ((count) == 2) { \
        if (is_signed) { \
            TWO_PIXELS(SIGNED_PRODUCT); \
        } else { \
            TWO_PIXELS(PRODUCT); \
        } \
    } else if (is_signed) { \
        THREE_PIXELS(SIGNED_PRODUCT); \
    } else { \
        THREE_PIXELS(PRODUCT); \
    }

/* Computes all outputs. */
#define FOURS(is_signed) \
    if (is_signed) { \
        FOUR_OUTPUTS(SIGNED_PRODUCT); \
    } else { \
        FOUR_OUTPUTS(PRODUCT); \
    }

/* Copies `bytes`, at most 16, `count` times: from and to memory whose addresses have a step. */
static inline void copy_strided(int8_t *to, uint32_t to_step, const int8_t *from, uint32_t from_step, uint32_t bytes,
                                uint32_t count)
{
    __asm__ volatile("vctp.8 %[bytes]\n\t"
                     "dls lr, %[count]\n"
                     "1:\n\t"
                     "vpstt\n\t"
                     "vldrbt.8 q0, [%[from]]\n\t"
                     "vstrbt.8 q0, [%[to]]\n\t"
                     "add %[from], %[from_step]\n\t"
                     "add %[to], %[to_step]\n\t"
                     "le lr, 1b"
                     : [from] "+r"(from), [to] "+r"(to)
                     : [from_step] "r"(from_step), [to_step] "r"(to_step), [bytes] "r"(bytes), [count] "r"(count)
                     : "lr", "memory", "q0");
}

#else /* EDGETOOL_HELIUM */

/* The outputs of a pixel. */
#define ONE_PIXEL(taps, out, is_signed, step) \
    for (uint32_t channel = 0; channel < (uint32_t)g.channels; channel++) { \
        const int32_t *scales = g.scales + channel / 4 * BLOCK + channel % 4; \
        const int32_t sum = edgetool_dot_1x1(scales[0], taps, g.weights + (size_t)channel * (step), g.depth); \
        const int32_t value = edgetool_scaled(sum, scales[4], scales[8], is_signed) + g.zero_point; \
        (out)[channel] = (int8_t)edgetool_clamp(value, g.bounds[0], g.bounds[1]); \
    }
#define SHORT_GROUPS(is_signed) \
    for (; g.groups != 0; g.groups--) { \
        const uint32_t each = g.depth <= LANES ? 3 : 2; \
        int8_t copies[PIXELS][2 * LANES]; \
        for (uint32_t i = 0; i < each; i++) { \
            memcpy(copies[i], g.taps, g.depth); \
            g.taps += g.tap_steps[i == each - 1 ? 2 : i]; \
        } \
        for (uint32_t i = 0; i < each; i++) { \
            ONE_PIXEL(copies[i], g.out, is_signed, (g.depth + LANES - 1) / LANES * LANES) \
            g.out += g.out_steps[i == each - 1 ? 2 : i]; \
        } \
    }
#define FOURS(is_signed) \
    for (uint32_t i = 0; i < (uint32_t)g.count; i++) { \
        const int32_t *scales = g.scales + i / 4 * (g.scale_step / sizeof(int32_t)) + i % 4; \
        const size_t at = i / 4 * (size_t)(((g.depth + LANES - 1) & ~(LANES - 1)) + g.skip); \
        const int32_t sum = edgetool_dot_1x1(scales[0], g.shared, g.others[i % 4] + at, g.depth); \
        const int32_t value = edgetool_scaled(sum, scales[4], scales[8], is_signed) + g.zero_point; \
        g.out[i * (size_t)g.out_step] = (int8_t)edgetool_clamp(value, g.bounds[0], g.bounds[1]); \
    }
#define LONG_GROUP(count, is_signed) \
    for (uint32_t i = 0; i < (count); i++) { \
        ONE_PIXEL(g.pixels[i], g.outs[i], is_signed, g.depth) \
    }

static inline void copy_strided(int8_t *to, uint32_t to_step, const int8_t *from, uint32_t from_step, uint32_t bytes,
                                uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        memcpy(to + i * to_step, from + i * from_step, bytes);
    }
}

#endif /* EDGETOOL_HELIUM */

/*
 * Pixels that follow each other at a step, outputs that do at another one, and their weights and scales. `pixel` is the
 * distance of two pixels in the input, from whose channel `first` on taps are read.
 */
typedef struct {
    const int8_t *taps;
    int8_t *out;
    int32_t step, out_step;
    uint32_t count;
    const int8_t *weights;
    const int32_t *scales;
    uint32_t pixel, first;
} pixels;

/* Sets what all kinds of groups have. */
#define START_GROUPS \
    g.scales = p->scales; \
    g.depth = depth; \
    g.zero_point = op->zero_point; \
    g.bounds[0] = op->low; \
    g.bounds[1] = op->high

/* Pixels of one or two vectors. All taps of a group are in registers before its outputs are written. */
EDGETOOL_NOINLINE static void short_pixels(const edgetool_conv2d_vector_s8_op *op, uint32_t depth, const pixels *p)
{
    const uint32_t size = depth <= LANES ? 3 : 2;
    const int32_t channels = p->out_step;
    uint32_t rest = p->count % size;
    short_groups g;
    START_GROUPS;
    g.weights = p->weights;
    g.channels = op->filters;
    g.taps = p->taps;
    g.out = p->out;
    for (uint32_t i = 0; i < 3; i++) {
        g.tap_steps[i] = p->step;
        g.out_steps[i] = channels;
    }
    g.groups = p->count / size;
    for (;;) {
        if (g.groups != 0) {
            SHORT_GROUPS(op->is_signed);
        }
        if (rest == 0) {
            break;
        }
        /* One pixel or two: those that do not exist are the last one again. */
        g.tap_steps[0] = rest == 1 ? 0 : p->step;
        g.out_steps[0] = rest == 1 ? 0 : channels;
        g.tap_steps[1] = 0;
        g.out_steps[1] = 0;
        g.groups = 1;
        rest = 0;
    }
}

/* Not inline: GCC would keep a predicate of its vectors in VPR, which no list of clobbered registers can name. */
EDGETOOL_NOINLINE static void set_others(four_outputs *g, const int8_t *first, uint32_t step, uint32_t count)
{
    for (uint32_t i = 0; i < 4; i++) {
        g->others[i] = first + (i < count ? i : 0) * (size_t)step;
    }
    g->skip = 4 * step - ((g->depth + LANES - 1) & ~(LANES - 1));
}

/* Pixels with one output each. */
EDGETOOL_NOINLINE static void single_outputs(const edgetool_conv2d_vector_s8_op *op, uint32_t depth, const pixels *p)
{
    const int8_t *taps = p->taps;
    int8_t *out = p->out;
    four_outputs g;
    START_GROUPS;
    g.shared = p->weights;
    g.out_step = (uint32_t)p->out_step;
    g.scale_step = 0;
    for (uint32_t left = p->count; left != 0;) {
        const uint32_t count = left < 4 ? left : left & ~3U;
        set_others(&g, taps, (uint32_t)p->step, count);
        g.out = out;
        g.count = (int32_t)count;
        FOURS(op->is_signed);
        taps += count * (size_t)(uint32_t)p->step;
        out += count * (size_t)g.out_step;
        left -= count;
    }
}

/* One pixel of more taps. */
EDGETOOL_NOINLINE static void long_pixel(const edgetool_conv2d_vector_s8_op *op, uint32_t depth, const pixels *p,
                                         const int8_t *taps, int8_t *out)
{
    four_outputs g;
    START_GROUPS;
    g.shared = taps;
    g.out_step = 1;
    g.scale_step = BLOCK * sizeof(int32_t);
    set_others(&g, p->weights, depth, 4);
    g.out = out;
    g.count = op->filters;
    FOURS(op->is_signed);
}

/* Pixels of more taps. Those of a group are copied to `scratch` unless it is NULL. */
EDGETOOL_NOINLINE static void long_pixels(const edgetool_conv2d_vector_s8_op *op, uint32_t depth, const pixels *p,
                                          int8_t *scratch)
{
    const int8_t *taps = p->taps;
    int8_t *out = p->out;
    uint32_t left = p->count;
    long_group g;
    START_GROUPS;
    g.weights = p->weights;
    g.skip = 2 * depth - ((depth + LANES - 1) & ~(LANES - 1));
    while (left > 1) {
        const uint32_t count = left < PIXELS ? left : PIXELS;
        for (uint32_t i = 0; i < count; i++) {
            g.pixels[i] = taps;
            g.outs[i] = out;
            taps += p->step;
            out += p->out_step;
        }
        if (scratch != NULL) {
            for (uint32_t i = 0; i < count; i++) {
                g.pixels[i] = edgetool_copy_s8(scratch + i * depth, g.pixels[i], depth) - depth;
            }
        }
        g.channels = op->filters;
        LONG_GROUP(count, op->is_signed);
        left -= count;
    }
    if (left != 0) {
        long_pixel(op, depth, p, scratch != NULL ? edgetool_copy_s8(scratch, taps, depth) - depth : taps, out);
    }
}

/* All pixels, in the kind of groups for their taps and outputs; `scratch` as for long_pixels. */
static void compute_pixels(const edgetool_conv2d_vector_s8_op *op, uint32_t depth, const pixels *p, int8_t *scratch)
{
    if (op->filters == 1) {
        single_outputs(op, depth, p);
    } else if (depth <= 2 * LANES) {
        short_pixels(op, depth, p);
    } else {
        long_pixels(op, depth, p, scratch);
    }
}

/* Copies `count` columns from `start` on, which are `dilation` apart, the zero point for what is outside the input. */
static void copy_columns(const edgetool_conv2d_vector_s8_op *op, const void *const *rows, const pixels *p,
                         int32_t start, uint32_t count, const int8_t *outside, int8_t *to)
{
    const uint32_t channels = op->depth, taps_y = op->taps_y, column = taps_y * channels;
    const int32_t dilation = op->dilation_x, columns = (int32_t)count, width = (int32_t)op->input_width;
    int32_t before = 0, inside = 0;
    if (start < 0) {
        before = (dilation - 1 - start) / dilation;
        before = before < columns ? before : columns;
    }
    if (start + before * dilation < width) {
        inside = (width - 1 - start - before * dilation) / dilation + 1;
        inside = inside < columns - before ? inside : columns - before;
    }
    if (before != 0) {
        edgetool_fill_s8(to, op->outside, (uint32_t)before * column);
        to += (uint32_t)before * column;
    }
    if (before + inside < columns) {
        edgetool_fill_s8(to + (uint32_t)inside * column, op->outside, (uint32_t)(columns - before - inside) * column);
    }
    if (inside != 0) {
        const uint32_t apart = (uint32_t)dilation * p->pixel;
        const size_t at = (uint32_t)(start + before * dilation) * (size_t)p->pixel + p->first;
        for (uint32_t ty = 0; ty < taps_y; ty++) {
            const int8_t *row = rows[ty] != NULL ? (const int8_t *)rows[ty] + at : outside;
            const uint32_t step = rows[ty] != NULL ? apart : 0;
            for (uint32_t channel = 0; channel < channels; channel += LANES) {
                const uint32_t bytes = channels - channel < LANES ? channels - channel : LANES;
                copy_strided(to + channel, column, row, step, bytes, (uint32_t)inside);
                row += rows[ty] != NULL ? LANES : 0;
            }
            to += channels;
        }
    }
}

/* A row of a convolution with a window, in the channels of a group. */
EDGETOOL_NOINLINE static void compute_row(const edgetool_conv2d_vector_s8_op *op, const void *const *rows, pixels *p,
                                          int8_t *scratch)
{
    const uint32_t column = op->taps_y * (uint32_t)op->depth, depth = op->taps_x * column;
    int8_t *const copied = scratch + LANES;
    p->taps = copied;
    p->step = (int32_t)(op->dilation_x == 1 ? op->stride_x * column : depth);
    for (uint32_t x = 0; x < op->output_width; x += p->count) {
        const int32_t start = (int32_t)(x * op->stride_x) - (int32_t)op->pad_x;
        p->count = op->output_width - x < op->tile ? op->output_width - x : op->tile;
        if (op->dilation_x == 1) {
            copy_columns(op, rows, p, start, (p->count - 1) * op->stride_x + op->taps_x, scratch, copied);
        } else {
            for (uint32_t i = 0; i < p->count; i++) {
                copy_columns(op, rows, p, start + (int32_t)(i * op->stride_x), op->taps_x, scratch, copied + i * depth);
            }
        }
        compute_pixels(op, depth, p, NULL);
        p->out += p->count * (uint32_t)p->out_step;
    }
}

/* A row of which the taps of each pixel follow each other, in the channels of a group. */
static void compute_direct(const edgetool_conv2d_vector_s8_op *op, const int8_t *row, pixels *p, int8_t *scratch)
{
    const uint32_t width = op->output_width;
    const int is_apart = (uintptr_t)row - (uintptr_t)p->out >= (size_t)width * (uint32_t)p->out_step &&
                         (uintptr_t)p->out - (uintptr_t)row >= (size_t)op->input_width * p->pixel;
    p->taps = row + p->first;
    p->step = (int32_t)(op->stride_x * p->pixel);
    p->count = width;
    if (op->descending) {
        /* There is one row. */
        p->taps += (size_t)(width - 1) * p->pixel;
        p->out += (size_t)(width - 1) * (uint32_t)p->out_step;
        p->step = -p->step;
        p->out_step = -p->out_step;
    }
    compute_pixels(op, op->taps_x * (uint32_t)op->depth, p, is_apart ? NULL : scratch);
}

void edgetool_conv2d_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_conv2d_vector_s8_op *op = (const edgetool_conv2d_vector_s8_op *)descriptor;
    const uint32_t filters = op->filters, pixel = op->groups * filters, row_bytes = op->output_width * pixel;
    const uint32_t vectors = filters == 1 ? 1 : (filters + 3) & ~3U;
    int8_t *first_out = (int8_t *)band->out, *const scratch = (int8_t *)band->scratch;
    pixels p;
    p.weights = op->weights;
    p.scales = op->scales;
    p.pixel = op->groups * (uint32_t)op->depth;
    p.first = 0;
    p.out_step = (int32_t)pixel;
    if (!op->is_direct) {
        edgetool_fill_s8(scratch, op->outside, LANES);
    }
    for (;;) {
        const uint32_t depth = op->taps_y * (uint32_t)op->taps_x * op->depth;
        const void *const *rows = band->rows;
        int8_t *out = first_out;
        for (uint32_t y = 0; y < band->count; y++) {
            p.out = out;
            out += row_bytes;
            if (op->is_direct) {
                compute_direct(op, (const int8_t *)rows[0], &p, scratch);
            } else {
                compute_row(op, rows, &p, scratch);
            }
            rows += op->taps_y;
        }
        p.first += op->depth;
        if (p.first == p.pixel) {
            break;
        }
        first_out += filters;
        p.weights += vectors * (depth <= 2 * LANES ? (depth + LANES - 1) & ~(LANES - 1U) : depth);
        p.scales += (filters + 3) / 4 * BLOCK;
    }
}
