/* SPDX-License-Identifier: 0BSD */
#include "edgetool_add_rows_s8.h"

#include "edgetool_helium.h"
#include "edgetool_sums.h"

#if defined(EDGETOOL_HELIUM)

/* Adds `count` codes of each lane to its sum: of eight lanes at once as long as such sums fit 16 bits, then of four. */
static EDGETOOL_NOINLINE void add_lanes(const int8_t *lanes, int32_t left, uint32_t count, size_t step, uint32_t *sums)
{
    const int8_t *codes;
    if (left >= 8 && count <= EDGETOOL_MAX_PAIRS) {
        __asm__ volatile("1:\n\t"
                         "mov %[codes], %[lanes]\n\t"
                         "vld20.32 {q2, q3}, [%[sums]]\n\t"
                         "vmov.i32 q0, #0\n\t"
                         "vld21.32 {q2, q3}, [%[sums]]\n\t"
                         "dls lr, %[count]\n"
                         "2:\n\t"
                         "vldrb.s16 q1, [%[codes]]\n\t"
                         "add %[codes], %[step]\n\t"
                         "vadd.i16 q0, q0, q1\n\t"
                         "le lr, 2b\n\t"
                         "vmovlb.s16 q1, q0\n\t"
                         "vmovlt.s16 q0, q0\n\t"
                         "vadd.i32 q2, q2, q1\n\t"
                         "vadd.i32 q3, q3, q0\n\t"
                         "vst20.32 {q2, q3}, [%[sums]]\n\t"
                         "adds %[lanes], #8\n\t"
                         "vst21.32 {q2, q3}, [%[sums]]!\n\t"
                         "subs %[left], #8\n\t"
                         "cmp %[left], #8\n\t"
                         "bge 1b"
                         : [lanes] "+l"(lanes), [codes] "=&l"(codes), [sums] "+r"(sums), [left] "+l"(left)
                         : [count] "r"(count), [step] "r"(step)
                         : "lr", "cc", "memory", "q0", "q1", "q2", "q3");
    }
    if (left > 0) {
        __asm__ volatile("1:\n\t"
                         "mov %[codes], %[lanes]\n\t"
                         "vctp.32 %[left]\n\t"
                         "vpst\n\t"
                         "vldrwt.u32 q0, [%[sums]]\n\t"
                         "dls lr, %[count]\n"
                         "2:\n\t"
                         "vpst\n\t"
                         "vldrbt.s32 q1, [%[codes]]\n\t"
                         "add %[codes], %[step]\n\t"
                         "vadd.i32 q0, q0, q1\n\t"
                         "le lr, 2b\n\t"
                         "adds %[lanes], #4\n\t"
                         "vpst\n\t"
                         "vstrwt.32 q0, [%[sums]], #16\n\t"
                         "subs %[left], #4\n\t"
                         "bgt 1b"
                         : [lanes] "+l"(lanes), [codes] "=&l"(codes), [sums] "+r"(sums), [left] "+l"(left)
                         : [count] "r"(count), [step] "r"(step)
                         : "lr", "cc", "memory", "p0", "q0", "q1");
    }
}

#else

#if defined(EDGETOOL_DSP)

/* Adds `count` codes, at most EDGETOOL_MAX_PAIRS, of each lane up to `end` to its sum. All codes are at multiples of 4. */
static EDGETOOL_NOINLINE void add_words(const int8_t *lanes, const int8_t *end, uint32_t count, size_t step,
                                        uint32_t *sums)
{
    for (; lanes != end; lanes += 4) {
        const int8_t *codes = lanes;
        uint32_t even = 0, odd = 0;
        for (uint32_t i = count; i != 0; i--) {
            const uint32_t word = edgetool_load_word(codes);
            even = edgetool_sxtab16(even, word);
            odd = edgetool_sxtab16_odd(odd, word);
            codes += step;
        }
        sums[0] += (uint32_t)(int16_t)even;
        sums[1] += (uint32_t)(int16_t)odd;
        sums[2] += (uint32_t)((int32_t)even >> 16);
        sums[3] += (uint32_t)((int32_t)odd >> 16);
        sums += 4;
    }
}

#endif

/* The same for codes at any addresses. */
static EDGETOOL_NOINLINE void add_fours(const int8_t *lanes, const int8_t *end, uint32_t count, size_t step,
                                        uint32_t *sums)
{
    for (; lanes != end; lanes += 4) {
        const int8_t *codes = lanes;
        int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
        for (uint32_t i = count; i != 0; i--) {
            sum0 += codes[0];
            sum1 += codes[1];
            sum2 += codes[2];
            sum3 += codes[3];
            codes += step;
        }
        sums[0] += (uint32_t)sum0;
        sums[1] += (uint32_t)sum1;
        sums[2] += (uint32_t)sum2;
        sums[3] += (uint32_t)sum3;
        sums += 4;
    }
}

#endif

/* Adds the codes of a row to its sums. */
static void add_row(const edgetool_add_rows_s8_op *op, const void *row, uint32_t *sums)
{
    const uint32_t count = op->reduced_count[1], lanes = op->kept_count[1];
    const size_t step = op->reduced_step[1], lane_step = op->kept_step[1];
#if defined(EDGETOOL_HELIUM)
    const uint32_t together = lane_step == 1 ? lanes : 0;
#else
    const uint32_t together = lane_step == 1 ? lanes & ~3U : 0;
    const int words = ((op->kept_step[0] | op->reduced_step[0] | op->start) & 3U) == 0 &&
                      edgetool_part_has_words(&row, 1, count, step);
    (void)words;
#endif
    const int8_t *start = (const int8_t *)row + op->start;
    for (uint32_t i = 0; i < op->kept_count[0]; i++) {
        const int8_t *turn = start;
        for (uint32_t k = 0; k < op->reduced_count[0]; k++) {
            const int8_t *codes = turn + together;
            if (together != 0) {
#if defined(EDGETOOL_HELIUM)
                add_lanes(turn, (int32_t)together, count, step, sums);
#else
#if defined(EDGETOOL_DSP)
                if (words) {
                    add_words(turn, codes, count, step, sums);
                } else
#endif
                {
                    add_fours(turn, codes, count, step, sums);
                }
#endif
            }
            for (uint32_t lane = together; lane < lanes; lane++) {
                const int8_t *code = codes;
                int32_t sum = 0;
                for (uint32_t j = count; j != 0; j--) {
                    sum += *code;
                    code += step;
                }
                sums[lane] += (uint32_t)sum;
                codes += lane_step;
            }
            turn += op->reduced_step[0];
        }
        start += op->kept_step[0];
        sums += lanes;
    }
}

void edgetool_add_rows_s8(const void *descriptor, const edgetool_band *band)
{
    const edgetool_add_rows_s8_op *op = (const edgetool_add_rows_s8_op *)descriptor;
    uint32_t *sums = (uint32_t *)band->out;
    if (band->first == 0) {
        memset(sums, 0, (size_t)op->kept_count[0] * op->kept_count[1] * sizeof *sums);
    }
    for (uint32_t y = 0; y < band->count; y++) {
        add_row(op, band->rows[y], sums);
    }
}
