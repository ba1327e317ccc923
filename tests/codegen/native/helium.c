/* SPDX-License-Identifier: 0BSD */
/* Prints a checksum of the results of every function of edgetool_helium.h and of the headers that are based on it. */
#include "edgetool_scale_vector.h"
#include "edgetool_sums_vector.h"

#ifdef __arm__
#include "board.h"
#else
#include <stdio.h>
static void board_write(const char *text)
{
    fputs(text, stdout);
}
static void board_write_number(uint32_t number)
{
    printf("%u", (unsigned)number);
}
static void board_exit(int status)
{
    (void)status;
}
#endif

static uint32_t seed = 1, sum;

static uint32_t draw(void)
{
    seed = seed * 1664525U + 1013904223U;
    return seed;
}

static void add(const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        sum = sum * 31 + ((const uint8_t *)data)[i];
    }
}

static void report(const char *name)
{
    board_write(name);
    board_write(" ");
    board_write_number(sum);
    board_write("\n");
}

#define CHECK(name, before, expression, type)                                                                          \
    sum = 0;                                                                                                           \
    for (int turn = 0; turn < 200; turn++) {                                                                           \
        before;                                                                                                        \
        const type result = expression;                                                                                \
        add(&result, sizeof result);                                                                                   \
    }                                                                                                                  \
    report(name)

static int8_t bytes[256], target[256];
static int32_t words[16], shifts[4];
static uint32_t count;

static void fill(void)
{
    for (int i = 0; i < 256; i++) {
        bytes[i] = (int8_t)(draw() >> 24 & 0xFF);
        target[i] = 3;
    }
    for (int i = 0; i < 16; i++) {
        const int32_t word = (int32_t)draw();
        words[i] = word >> (draw() >> 28);
    }
    for (int i = 0; i < 4; i++) {
        shifts[i] = -(int32_t)(draw() >> 27);
    }
    count = 1 + (draw() >> 26);
}

typedef struct {
    int8_t data[256];
} block;

static block stored(void)
{
    block b;
    memcpy(b.data, target, sizeof b.data);
    return b;
}

static block largest(void)
{
    edgetool_s8x16 vector = edgetool_largest_lanes(edgetool_all_s8(-100), bytes, 3, count, count / 3);
    edgetool_store_first_s8(target, vector, count / 3);
    return stored();
}

static block multiplied(void)
{
    edgetool_s32x4 four;
    const int32_t shift = shifts[0] + 4;
    for (int i = 0; i < 4; i++) {
        words[i] = shift > 0 ? words[i] >> 5 : words[i];
    }
    memcpy(&four, words, sizeof four);
    four = edgetool_multiply_lanes(four, words[4] & INT32_MAX, shift);
    memcpy(target, &four, sizeof four);
    return stored();
}

static block sums(void)
{
    edgetool_sums four = {edgetool_all_s32(words[0]), edgetool_all_s32(words[1])};
    four = edgetool_add_lanes(four, bytes, 3, count, count / 7);
    memcpy(target, &four, sizeof four);
    return stored();
}

static block codes(void)
{
    edgetool_sums results;
    memcpy(&results, words, sizeof results);
    edgetool_store_codes(target, results, bytes[0], -100, 90, count / 7);
    return stored();
}

int main(void)
{
    CHECK("all", fill(), edgetool_all_s8(bytes[0]), edgetool_s8x16);
    CHECK("all_s32", fill(), edgetool_all_s32(words[0]), edgetool_s32x4);
    CHECK("store", (fill(), edgetool_store_s8(target + 5, edgetool_all_s8(bytes[0]))), stored(), block);
    CHECK("store_first", (fill(), edgetool_store_first_s8(target + 5, edgetool_all_s8(bytes[0]), count)), stored(), block);
    CHECK("dot_1x1", fill(), edgetool_dot_1x1(words[0] >> 8, bytes, bytes + 64, count), int32_t);
    CHECK("copy", (fill(), edgetool_copy_s8(target, bytes, count)), stored(), block);
    CHECK("fill", (fill(), edgetool_fill_s8(target, bytes[0], count)), stored(), block);
    CHECK("min", fill(), edgetool_min_s8(edgetool_all_s8(bytes[0]), edgetool_all_s8(bytes[1])), edgetool_s8x16);
    CHECK("largest", fill(), largest(), block);
    CHECK("sums", fill(), sums(), block);
    CHECK("store_codes", fill(), codes(), block);
    CHECK("multiply_lanes", fill(), multiplied(), block);
    CHECK("scaled", fill(), edgetool_scaled(words[0], words[1], shifts[0], turn & 1), int32_t);
    board_exit(0);
    return 0;
}
