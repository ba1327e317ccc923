/* Walks the memory plan of examples/keyword_spotting without a runtime, using only the header and the model data. */
#include "keyword_spotting.h"
#include "keyword_spotting_model.h"

#include "board.h"
#include "walk.h"

__attribute__((aligned(KEYWORD_SPOTTING_ARENA_ALIGNMENT)))
static uint8_t memory[KEYWORD_SPOTTING_ACTIVATIONS_BYTES];

int main(void)
{
    const walk_plan plan = {
        "keyword_spotting",
        keyword_spotting_tensors(),
        KEYWORD_SPOTTING_TENSOR_COUNT,
        KEYWORD_SPOTTING_POSITION_COUNT,
        memory,
        sizeof memory,
        keyword_spotting_model,
    };
    const walk_result result = walk(&plan);
    board_write_number(plan.tensor_count);
    board_write(" tensors in ");
    board_write_number(plan.memory_bytes);
    board_write(result.failures == 0u ? " bytes: none overwrites another that is needed\n" : " bytes: the plan is broken\n");
    return result.failures == 0u ? 0 : 1;
}
