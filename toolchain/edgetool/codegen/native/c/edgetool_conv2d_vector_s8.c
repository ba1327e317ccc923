/* SPDX-License-Identifier: 0BSD */
#include "edgetool_conv2d_vector_s8.h"

#include "edgetool_scale_vector.h"

#define LANES 16U
/* Pixels of a group at most. What four channels have in `scales`: biases, multipliers, shifts. */
#define PIXELS 3U
#define BLOCK 12U

/*
 * What the loops over groups of pixels read and write, which are on the stack for lack of registers. `depth` is the
 * number of taps of a pixel, or of products of an output. A group computes its pixels from `taps` and `out` on.
 * tap_steps and out_steps: how far its second and third pixel and the next group are from the pixel before; of more taps
 * than 32, only the first ones count. `more`: how many pixels there are beyond a whole group.
 *
 * skip: how far the last products of two or four channels are before those of the next ones. pixels, outs and left: the
 * places in a group of two or three pixels of more taps, and its channels left. shared, others and scale_step: a vector
 * whose products with four others are four of `channels` outputs that are out_steps[0] apart; the scales of the next
 * four are `scale_step` bytes further.
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
    int32_t more;
    uint32_t skip;
    const int8_t *pixels[PIXELS];
    int8_t *outs[PIXELS];
    int32_t left;
    const int8_t *shared;
    const int8_t *others[4];
    uint32_t scale_step;
} groups;

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

#define CLOBBERED \
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory", "q0", "q1", "q2", \
        "q3", "q4", "q5", "q6", "q7"

#define OPERANDS \
    : "+m"(g) \
    : [tables] "m"(g.weights), [scales] "m"(g.scales), [depth] "m"(g.depth), [channels] "m"(g.channels), \
      [zero_point] "m"(g.zero_point), [bounds] "m"(g.bounds), [taps] "m"(g.taps), [tap_steps] "m"(g.tap_steps), \
      [tap_next] "m"(g.tap_steps[2]), [out] "m"(g.out), [out_steps] "m"(g.out_steps), [out_next] "m"(g.out_steps[2]), \
      [more] "m"(g.more), [skip] "m"(g.skip), [pixels] "m"(g.pixels), [third] "m"(g.pixels[2]), [outs] "m"(g.outs), \
      [third_out] "m"(g.outs[2]), [left] "m"(g.left), [shared] "m"(g.shared), [others] "m"(g.others), \
      [third_other] "m"(g.others[2]), [scale_step] "m"(g.scale_step) \
    : CLOBBERED

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
#define NEXT_GROUP(size) \
    "ldr r0, %[more]\n\t" \
    "subs r0, " size "\n\t" \
    "str r0, %[more]\n\t" \
    "bge 5b"

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
                     "bgt 1b\n\t" NEXT_GROUP("#3") OPERANDS)

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
                     "bgt 1b\n\t" NEXT_GROUP("#2") OPERANDS)

/* The places of the pixels of a group and of their outputs, and those of the next one. */
#define THIRD_PLACE(third) \
    "add r5, r3, r0\n\t" \
    "str r5, " third "\n\t"
#define NO_PLACE(third) "mov r5, r3\n\t"
#define START_PLACE(place, step, places, rest) \
    "ldr r1, " place "\n\t" \
    "ldr r0, " step "\n\t" \
    "add r3, r1, r0\n\t" \
    "strd r1, r3, " places "\n\t" rest \
    "add r5, r0\n\t" \
    "str r5, " place "\n\t"
#define START_PLACES(other) \
    START_PLACE("%[taps]", "%[tap_steps]", "%[pixels]", other("%[third]")) \
    START_PLACE("%[out]", "%[out_steps]", "%[outs]", other("%[third_out]"))

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
    __asm__ volatile(LOAD_BOUNDS("q3", "q7") \
                     "5:\n\t" START_PLACES(THIRD_PLACE) \
                     "ldrd r9, r12, %[tables]\n\t" \
                     "ldr r11, %[depth]\n\t" \
                     "ldr r0, %[channels]\n\t" \
                     "add r11, r9\n\t" \
                     "str r0, %[left]\n\t" \
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
                     "bgt 1b\n\t" NEXT_GROUP("#3") OPERANDS)

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
    __asm__ volatile(START_PLACES(NO_PLACE) \
                     "ldrd r9, r12, %[tables]\n\t" \
                     "ldr r10, %[depth]\n\t" \
                     "ldr r8, %[skip]\n\t" \
                     "add r11, r9, r10\n\t" \
                     "ldr r1, %[zero_point]\n\t" \
                     "ldr r5, %[channels]\n\t" \
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
                     "bgt 1b" OPERANDS)

/* Four outputs at once, whose products share a vector. One or two have a loop of their own. */
#define FOUR_OUTPUTS(product) \
    __asm__ volatile("ldrd r3, r5, %[others]\n\t" \
                     "ldrd r9, r11, %[third_other]\n\t" \
                     "movs r0, #0\n\t" \
                     "ldr r1, %[out_steps]\n\t" \
                     "ldr r12, %[scales]\n\t" \
                     "vidup.u32 q5, r0, #1\n\t" \
                     "vmul.i32 q5, q5, r1\n\t" \
                     "lsls r1, r1, #2\n\t" \
                     "ldr r8, %[depth]\n\t" \
                     "vdup.32 q2, r1\n\t" \
                     "ldr r1, %[zero_point]\n\t" \
                     "ldr r10, %[channels]\n\t" \
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
                     "6:" OPERANDS)

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
/* Computes a group of two pixels or whole groups of three. */
#define LONG_GROUPS(count, is_signed) \
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

/* Copies `bytes`, but at most 16 of them, `count` times: from and to memory whose addresses have a step. */
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
    do { \
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
        g.more -= (int32_t)each; \
    } while (g.more >= 0)
#define FOURS(is_signed) \
    for (uint32_t i = 0; i < (uint32_t)g.channels; i++) { \
        const int32_t *scales = g.scales + i / 4 * (g.scale_step / sizeof(int32_t)) + i % 4; \
        const size_t at = i / 4 * (size_t)(((g.depth + LANES - 1) & ~(LANES - 1)) + g.skip); \
        const int32_t sum = edgetool_dot_1x1(scales[0], g.shared, g.others[i % 4] + at, g.depth); \
        const int32_t value = edgetool_scaled(sum, scales[4], scales[8], is_signed) + g.zero_point; \
        g.out[i * (size_t)(uint32_t)g.out_steps[0]] = (int8_t)edgetool_clamp(value, g.bounds[0], g.bounds[1]); \
    }
#define LONG_GROUPS(count, is_signed) \
    do { \
        for (uint32_t i = 0; i < (count); i++) { \
            ONE_PIXEL(g.taps, g.out, is_signed, g.depth) \
            g.taps += g.tap_steps[0]; \
            g.out += g.out_steps[0]; \
        } \
        g.more -= (count); \
    } while (g.more >= 0)

static inline void copy_strided(int8_t *to, uint32_t to_step, const int8_t *from, uint32_t from_step, uint32_t bytes,
                                uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        memcpy(to + i * to_step, from + i * from_step, bytes < LANES ? bytes : LANES);
    }
}

#endif /* EDGETOOL_HELIUM */

/* Not inline: GCC would keep a predicate of its vectors in VPR, which no list of clobbered registers can name. */
EDGETOOL_NOINLINE static void set_others(groups *g, const int8_t *first, uint32_t step, uint32_t count)
{
    for (uint32_t i = 0; i < 4; i++) {
        g->others[i] = first + (i < count ? i : 0) * (size_t)step;
    }
}

/*
 * Copies the columns that `count` pixels from x on need, with the zero point for what is outside the input, behind 16
 * bytes of the zero point. Not inline, as set_others.
 */
EDGETOOL_NOINLINE static void copy_columns(const edgetool_conv2d_vector_s8_op *op, const void *const *rows,
                                           uint32_t first, uint32_t x, uint32_t count, int8_t *scratch)
{
    const uint32_t channels = op->depth, taps_y = op->taps_y, column = taps_y * channels, pixel = op->groups * channels;
    const int32_t dilation = op->dilation_x, width = (int32_t)op->input_width;
    /* Without a dilation, pixels share columns. */
    const int32_t columns = (int32_t)(dilation == 1 ? (count - 1) * op->stride_x + op->taps_x : op->taps_x);
    int32_t start = (int32_t)(x * op->stride_x) - (int32_t)op->pad_x;
    int8_t *to = scratch + LANES;
    for (uint32_t runs = dilation == 1 ? 1 : count; runs != 0; runs--) {
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
            to = edgetool_fill_s8(to, op->outside, (uint32_t)before * column);
        }
        if (inside != 0) {
            const size_t at = (uint32_t)(start + before * dilation) * (size_t)pixel + first;
            int8_t *end = to;
            for (uint32_t ty = 0; ty < taps_y; ty++) {
                const int8_t *row = (const int8_t *)rows[ty];
                const int is_outside = row == NULL;
                const uint32_t step = is_outside ? 0 : (uint32_t)dilation * pixel, next = is_outside ? 0 : LANES;
                int8_t *part = end;
                row = is_outside ? scratch : row + at;
                end += channels;
                for (; part < end; part += LANES) {
                    copy_strided(part, column, row, step, (uint32_t)(end - part), (uint32_t)inside);
                    row += next;
                }
            }
            to += (uint32_t)inside * column;
        }
        if (before + inside < columns) {
            to = edgetool_fill_s8(to, op->outside, (uint32_t)(columns - before - inside) * column);
        }
        start += op->stride_x;
    }
}

/* Whether the bytes of a row of outputs are others than those of the row that they are computed from. */
static int is_apart(const edgetool_conv2d_vector_s8_op *op, const int8_t *row, const int8_t *out)
{
    return (uintptr_t)row - (uintptr_t)out >= op->output_width * (size_t)op->groups * op->filters &&
           (uintptr_t)out - (uintptr_t)row >= op->input_width * (size_t)op->groups * op->depth;
}

/* What the loops do not change is read where it is needed: there are no registers to keep it in. */
void edgetool_conv2d_vector_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_conv2d_vector_s8_op *op = (const edgetool_conv2d_vector_s8_op *)descriptor;
    groups g;
    g.weights = op->weights;
    g.scales = op->scales;
    g.depth = op->taps_y * (uint32_t)op->taps_x * op->depth;
    g.channels = op->filters;
    g.zero_point = op->zero_point;
    g.bounds[0] = op->low;
    g.bounds[1] = op->high;
    g.tap_steps[2] = op->stride_x * op->groups * (int32_t)op->depth;
    g.out_steps[2] = op->groups * (int32_t)op->filters;
    if (!op->is_direct) {
        g.tap_steps[2] = op->dilation_x == 1 ? op->stride_x * op->taps_y * (int32_t)op->depth : (int32_t)g.depth;
        edgetool_fill_s8((int8_t *)band->scratch, op->outside, LANES);
    } else if (op->descending) {
        g.tap_steps[2] = -g.tap_steps[2];
        g.out_steps[2] = -g.out_steps[2];
    }
    for (uint32_t group = 0;;) {
        const void *const *rows = band->rows;
        int8_t *row_out = (int8_t *)band->out + group * op->filters;
        for (uint32_t left = band->count;;) {
            uint32_t x = 0;
            g.out = row_out;
            do {
                uint32_t count = op->output_width - x;
                if (op->is_direct) {
                    g.taps = (const int8_t *)rows[0] + group * op->depth;
                    if (op->descending) {
                        /* There is one row. */
                        g.taps -= (int32_t)(count - 1) * g.tap_steps[2];
                        g.out -= (int32_t)(count - 1) * g.out_steps[2];
                    }
                } else {
                    count = count < op->tile ? count : op->tile;
                    copy_columns(op, rows, group * op->depth, x, count, (int8_t *)band->scratch);
                    g.taps = (const int8_t *)band->scratch + LANES;
                }
                x += count;
                g.out_steps[0] = g.out_steps[2];
                if (op->filters == 1) {
                    /* Four pixels at once, then those that are left. */
                    g.shared = g.weights;
                    g.scale_step = 0;
                    g.skip = 4 * (uint32_t)g.tap_steps[2] - ((g.depth + LANES - 1) & ~(LANES - 1));
                    while (count != 0) {
                        g.channels = (int32_t)(count < 4 ? count : count & ~3U);
                        set_others(&g, g.taps, (uint32_t)g.tap_steps[2], (uint32_t)g.channels);
                        FOURS(op->is_signed);
                        g.taps += g.channels * g.tap_steps[2];
                        g.out += g.channels * g.out_steps[2];
                        count -= (uint32_t)g.channels;
                    }
                } else if (g.depth <= 2 * LANES) {
                    /* All taps of a group are in registers before its outputs are written. */
                    const int32_t size = g.depth <= LANES ? 3 : 2;
                    g.tap_steps[0] = g.tap_steps[1] = g.tap_steps[2];
                    g.out_steps[1] = g.out_steps[2];
                    g.more = (int32_t)count - size;
                    for (;;) {
                        if (g.more >= 0) {
                            SHORT_GROUPS(op->is_signed);
                        }
                        if (g.more == -size) {
                            break;
                        }
                        /* One pixel or two: those that do not exist are the last one again. */
                        if (g.more == 1 - size) {
                            g.tap_steps[0] = 0;
                            g.out_steps[0] = 0;
                        }
                        g.tap_steps[1] = 0;
                        g.out_steps[1] = 0;
                        g.more = 0;
                    }
                } else {
                    const int8_t *taps = NULL;
                    g.tap_steps[0] = g.tap_steps[2];
                    if (op->is_direct && !is_apart(op, (const int8_t *)rows[0], row_out)) {
                        taps = g.taps;
                        g.tap_steps[0] = (int32_t)g.depth;
                    }
                    while (count != 0) {
                        g.more = (int32_t)count;
                        if (taps != NULL) {
                            /* The taps of a group are copied before its outputs are written. */
                            int8_t *to = (int8_t *)band->scratch;
                            g.taps = to;
                            g.more = g.more < (int32_t)PIXELS ? g.more : (int32_t)PIXELS;
                            for (int32_t i = 0; i < g.more; i++) {
                                to = edgetool_copy_s8(to, taps, g.depth);
                                taps += g.tap_steps[2];
                            }
                        }
                        count -= (uint32_t)g.more;
                        g.more -= (int32_t)PIXELS;
                        g.skip = 2 * g.depth - ((g.depth + LANES - 1) & ~(LANES - 1));
                        if (g.more >= 0) {
                            LONG_GROUPS(3, op->is_signed);
                        }
                        if (g.more == -1) {
                            LONG_GROUPS(2, op->is_signed);
                        } else if (g.more == -2) {
                            g.shared = g.taps;
                            g.others[0] = g.weights;
                            g.others[1] = g.weights + g.depth;
                            g.others[2] = g.others[1] + g.depth;
                            g.others[3] = g.others[2] + g.depth;
                            g.skip += 2 * g.depth;
                            g.scale_step = BLOCK * sizeof(int32_t);
                            g.out_steps[0] = 1;
                            FOURS(op->is_signed);
                            g.out += g.out_steps[2];
                        }
                    }
                }
            } while (x < op->output_width);
            if (--left == 0) {
                break;
            }
            rows += op->taps_y;
            row_out += op->output_width * (uint32_t)op->groups * op->filters;
        }
        if (++group == op->groups) {
            break;
        }
        g.weights += (op->filters == 1 ? 1 : (op->filters + 3U) & ~3U) *
                     (g.depth <= 2 * LANES ? (g.depth + LANES - 1) & ~(LANES - 1) : g.depth);
        g.scales += (op->filters + 3U) / 4 * BLOCK;
    }
}
