/*
 * Runs the keyword spotter of examples/keyword_spotting as C code that edgetool generates, without a runtime, and compares
 * its scores with those of TFLM.
 */
#include <string.h>

#include "keyword_spotting.h"

#include "board.h"
#include "spot_samples.h"

#define PAINT 0xC0FFEE11u

/* Between the static variables and the top of the stack; see sections.ld. */
extern uint32_t end[], stack_top[];

static uint32_t stack_pointer(void)
{
    uint32_t address;
    __asm__ volatile("mov %0, sp" : "=r"(address));
    return address;
}

/* Fills the unused stack, so that stack_bottom sees what was written to afterwards. */
__attribute__((noinline)) static void paint_stack(void)
{
    volatile uint32_t *word = end;
    while ((uint32_t)word < stack_pointer()) {
        *word++ = PAINT;
    }
}

/* The lowest address that was written to since paint_stack. */
static uint32_t stack_bottom(void)
{
    const volatile uint32_t *word = end;
    while (word < stack_top && *word == PAINT) {
        ++word;
    }
    return (uint32_t)word;
}

/* Writes the scores of one sample; a score of 255 is a probability of 100 %. */
static void write_scores(const char *label, const int8_t *scores)
{
    board_write(label);
    board_write(":");
    for (uint32_t i = 0; i < SPOT_CLASSES; ++i) {
        board_write(" ");
        board_write(spot_labels[i]);
        board_write(" ");
        board_write_number((uint32_t)(scores[i] + 128) * 100u / 255u);
        board_write(" %");
    }
    board_write("\n");
}

int main(void)
{
    static keyword_spotting_memory memory;
    keyword_spotting_context context;
    uint32_t equal = 0u;
    uint32_t stack;
    if (keyword_spotting_init(&context, &memory, sizeof memory) != keyword_spotting_ok) {
        board_write("init failed\n");
        return 1;
    }
    paint_stack();
    stack = stack_pointer();
    for (uint32_t sample = 0; sample < SPOT_SAMPLES; ++sample) {
        /* Each time: the model overwrites its input. */
        memcpy(keyword_spotting_input_0(&context), spot_inputs[sample], KEYWORD_SPOTTING_INPUT_0_BYTES);
        if (keyword_spotting_invoke(&context) != keyword_spotting_ok) {
            board_write("invoke failed\n");
            return 1;
        }
        if (sample == 0u) {
            stack -= stack_bottom();
        }
        const int8_t *scores = keyword_spotting_output_0(&context);
        write_scores(spot_labels[sample], scores);
        if (memcmp(scores, spot_expected[sample], SPOT_CLASSES) == 0) {
            ++equal;
        }
    }
    board_write_number(equal);
    board_write(" of ");
    board_write_number(SPOT_SAMPLES);
    board_write(" samples have the scores of TFLM\narena ");
    board_write_number(KEYWORD_SPOTTING_ARENA_BYTES);
    board_write(" bytes, constants ");
    board_write_number(KEYWORD_SPOTTING_CONSTANTS_BYTES);
    board_write(" bytes, stack of an inference ");
    board_write_number(stack);
    board_write(" bytes\n");
    return equal == SPOT_SAMPLES ? 0 : 1;
}
