/* Walks the memory plan of a model in plain C, without a runtime, and checks that no tensor overwrites another. */
#ifndef EXAMPLE_WALK_H
#define EXAMPLE_WALK_H

#include <stdint.h>

/* Include a header written by edgetool first: it defines the type edgetool_tensor. */

typedef struct {
    const char *name;
    const edgetool_tensor *tensors;
    uint32_t tensor_count;
    int32_t position_count;
    uint8_t *memory; /* aligned to 16 bytes */
    uint32_t memory_bytes;
    const unsigned char *model; /* the .tflite, with the plan in it */
} walk_plan;

typedef struct {
    uint32_t failures; /* tensors that are overwritten or misplaced */
    uint32_t overlaps; /* inputs of operators that share bytes with an output, as the kernels of the target permit */
    uint32_t checksum; /* of the memory, at the end */
} walk_result;

/*
 * Writes all bytes of each tensor at its first operator, and checks at its last operator that only outputs of this
 * operator have changed them. Also checks that each tensor is within the memory, and at the offset that the plan in the
 * model gives. Prints the tensors that fail.
 */
walk_result walk(const walk_plan *plan);

#endif
