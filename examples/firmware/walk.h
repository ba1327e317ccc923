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

/*
 * Writes all bytes of each tensor at its first operator, and checks at its last operator that they are unchanged. Also
 * checks that each tensor is within the memory, and at the offset that the plan in the model gives. Prints the tensors
 * that fail and returns their number; `checksum` receives the final checksum of the memory.
 */
uint32_t walk(const walk_plan *plan, uint32_t *checksum);

#endif
