#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The header of any model defines the type of the table. */
#ifndef WALK_HEADER
#define WALK_HEADER "keyword_spotting.h"
#endif
#include WALK_HEADER
#include "board.h"
#include "walk.h"

#define PLAN_NAME "OfflineMemoryAllocation"
#define ALIGNMENT 16u
#define PLANNED_AT_RUN_TIME 0xFFFFFFFFu

/* Field numbers of the tables in a .tflite, from its schema. */
enum { MODEL_SUBGRAPHS = 2, MODEL_BUFFERS = 4, MODEL_METADATA = 6 };
enum { SUBGRAPH_TENSORS = 0, SUBGRAPH_INPUTS = 1 };
enum { METADATA_NAME = 0, METADATA_BUFFER = 1 };
enum { BUFFER_DATA = 0 };

/* The plan in the model: the words that follow the version, the number of subgraphs and the number of offsets. */
typedef struct {
    const unsigned char *offsets;
    uint32_t count;
} offline_plan;

static uint32_t word(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Returns the flatbuffer table, vector or string that the word at `at` refers to. */
static const unsigned char *target(const unsigned char *at)
{
    return at + word(at);
}

/* Returns a field of a table, or null if the table does not have it. */
static const unsigned char *field(const unsigned char *table, uint32_t number)
{
    const unsigned char *const fields = table - (int32_t)word(table);
    const uint32_t size = fields[0] | (uint32_t)fields[1] << 8;
    const uint32_t entry = 4u + 2u * number;
    uint32_t offset = 0u;
    if (entry + 2u <= size) {
        offset = fields[entry] | (uint32_t)fields[entry + 1u] << 8;
    }
    return offset == 0u ? NULL : table + offset;
}

/* The length of a vector of tables, and one of its elements. */
static uint32_t length(const unsigned char *vector)
{
    return vector == NULL ? 0u : word(target(vector));
}

static const unsigned char *element(const unsigned char *vector, uint32_t number)
{
    return target(target(vector) + 4u + 4u * number);
}

/* Returns the plan in the model. If there are several, the last one is used, as in TFLM. */
static offline_plan find_plan(const unsigned char *model)
{
    const unsigned char *const root = target(model);
    const unsigned char *const metadata = field(root, MODEL_METADATA);
    offline_plan plan = {NULL, 0u};
    uint32_t i;
    for (i = 0u; i < length(metadata); ++i) {
        const unsigned char *const entry = element(metadata, i);
        const unsigned char *const name = field(entry, METADATA_NAME);
        const unsigned char *const buffer = field(entry, METADATA_BUFFER);
        if (name != NULL && strcmp((const char *)target(name) + 4, PLAN_NAME) == 0) {
            const uint32_t number = buffer == NULL ? 0u : word(buffer);
            const unsigned char *const data = field(element(field(root, MODEL_BUFFERS), number), BUFFER_DATA);
            const unsigned char *const words = target(data) + 4u;
            plan.count = word(words + 8);
            plan.offsets = words + 12;
        }
    }
    return plan;
}

/* Returns the planned offset of a tensor. The plan numbers the tensors of all subgraphs consecutively. */
static uint32_t planned_offset(const walk_plan *walked, const offline_plan *plan, const edgetool_tensor *tensor)
{
    const unsigned char *const subgraphs = field(target(walked->model), MODEL_SUBGRAPHS);
    uint32_t number = tensor->index;
    uint32_t i;
    for (i = 0u; i < tensor->subgraph; ++i) {
        number += length(field(element(subgraphs, i), SUBGRAPH_TENSORS));
    }
    return number < plan->count ? word(plan->offsets + 4u * number) : PLANNED_AT_RUN_TIME;
}

/* Returns the value of a byte of a tensor; it differs between tensors. */
static uint8_t pattern(uint32_t tensor, uint32_t byte)
{
    uint32_t mixed = tensor * 0x9E3779B1u ^ byte * 0x85EBCA6Bu;
    mixed = (mixed ^ mixed >> 15) * 0x2C1B3C6Du;
    return (uint8_t)(mixed >> 24);
}

/* Returns whether the application writes the tensor, before the first operator. */
static int is_input(const walk_plan *plan, const edgetool_tensor *tensor)
{
    const unsigned char *const subgraphs = field(target(plan->model), MODEL_SUBGRAPHS);
    const unsigned char *inputs = NULL;
    uint32_t i;
    if (tensor->subgraph == 0u && length(subgraphs) > 0u) {
        inputs = field(element(subgraphs, 0u), SUBGRAPH_INPUTS);
    }
    for (i = 0u; i < length(inputs); ++i) {
        if (word(target(inputs) + 4u + 4u * i) == tensor->index) {
            return 1;
        }
    }
    return 0;
}

/* Returns whether the operator at this position is the first that writes the tensor. */
static int is_output_of(const walk_plan *plan, int32_t position, const edgetool_tensor *tensor)
{
    return tensor->first_op == position && !is_input(plan, tensor);
}

/* Returns whether the operator at this position writes the byte. */
static int is_written_at(const walk_plan *plan, int32_t position, uint32_t byte)
{
    uint32_t i;
    for (i = 0u; i < plan->tensor_count; ++i) {
        const edgetool_tensor *const tensor = &plan->tensors[i];
        const int has_byte = byte >= tensor->offset && byte - tensor->offset < tensor->bytes;
        if (has_byte && is_output_of(plan, position, tensor)) {
            return 1;
        }
    }
    return 0;
}

/* How a tensor is found after its last operator. */
typedef enum { WHOLE, OVERLAPPED, OVERWRITTEN } state;

static state state_of(const walk_plan *plan, uint32_t number)
{
    const edgetool_tensor *const tensor = &plan->tensors[number];
    state found = WHOLE;
    uint32_t i;
    for (i = tensor->offset; i < tensor->offset + tensor->bytes; ++i) {
        if (plan->memory[i] != pattern(number, i)) {
            if (is_output_of(plan, tensor->last_op, tensor) || !is_written_at(plan, tensor->last_op, i)) {
                return OVERWRITTEN;
            }
            found = OVERLAPPED;
        }
    }
    return found;
}

static int is_inside(const walk_plan *plan, const edgetool_tensor *tensor)
{
    return tensor->offset % ALIGNMENT == 0u && tensor->offset <= plan->memory_bytes &&
           tensor->bytes <= plan->memory_bytes - tensor->offset;
}

static uint32_t fail(const walk_plan *plan, uint32_t number, const char *why)
{
    board_write("  tensor ");
    board_write_number(plan->tensors[number].index);
    board_write(" of subgraph ");
    board_write_number(plan->tensors[number].subgraph);
    board_write(" ");
    board_write(why);
    board_write("\n");
    return 1u;
}

/* Checks, before anything is written, that each tensor is within the memory and where the model's plan puts it. */
static uint32_t failures_of_the_table(const walk_plan *plan)
{
    const offline_plan in_model = find_plan(plan->model);
    uint32_t failures = 0u;
    uint32_t planned = 0u;
    uint32_t i;
    for (i = 0u; i < plan->tensor_count; ++i) {
        if (!is_inside(plan, &plan->tensors[i])) {
            failures += fail(plan, i, "is not within the memory");
        }
        if (planned_offset(plan, &in_model, &plan->tensors[i]) != plan->tensors[i].offset) {
            failures += fail(plan, i, "is not where the model has it");
        }
    }
    for (i = 0u; i < in_model.count; ++i) {
        planned += word(in_model.offsets + 4u * i) != PLANNED_AT_RUN_TIME;
    }
    if (planned != plan->tensor_count) {
        board_write("  the table does not have all tensors that the model plans\n");
        ++failures;
    }
    return failures;
}

static void write_tensor(const walk_plan *plan, uint32_t number)
{
    const edgetool_tensor *const tensor = &plan->tensors[number];
    uint32_t i;
    for (i = tensor->offset; is_inside(plan, tensor) && i < tensor->offset + tensor->bytes; ++i) {
        plan->memory[i] = pattern(number, i);
    }
}

static void run_operator(const walk_plan *plan, int32_t position, walk_result *result)
{
    uint32_t i;
    for (i = 0u; i < plan->tensor_count; ++i) {
        if (is_output_of(plan, position, &plan->tensors[i])) {
            write_tensor(plan, i);
        }
    }
    /* An operator writes its outputs while its inputs are still needed, so check the inputs only after the outputs. */
    for (i = 0u; i < plan->tensor_count; ++i) {
        const edgetool_tensor *const tensor = &plan->tensors[i];
        if (tensor->last_op == position && is_inside(plan, tensor)) {
            const state found = state_of(plan, i);
            result->overlaps += found == OVERLAPPED;
            result->failures += found == OVERWRITTEN ? fail(plan, i, "was overwritten") : 0u;
        }
    }
}

walk_result walk(const walk_plan *plan)
{
    walk_result result = {failures_of_the_table(plan), 0u, 2166136261u}; /* FNV-1a */
    int32_t position;
    uint32_t i;
    memset(plan->memory, 0, plan->memory_bytes);
    for (i = 0u; i < plan->tensor_count; ++i) {
        if (plan->tensors[i].first_op >= 0 && is_input(plan, &plan->tensors[i])) {
            write_tensor(plan, i);
        }
    }
    for (position = 0; position < plan->position_count; ++position) {
        run_operator(plan, position, &result);
    }
    for (i = 0u; i < plan->memory_bytes; ++i) {
        result.checksum = (result.checksum ^ plan->memory[i]) * 16777619u;
    }
    return result;
}
