/* Runs the memory plan of a model in plain C, with no runtime: proves that no tensor overwrites another. */
#ifndef EXAMPLE_WALK_H
#define EXAMPLE_WALK_H

#include <stdint.h>

/* After a header that edgetool wrote: it has the type edgetool_tensor. */

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
 * Every tensor writes all its bytes at its first operator and finds them unharmed at its last. Also checks that each
 * lies within the memory, and where the plan in the model puts it. Returns how many tensors fail, and writes them;
 * `checksum` becomes that of the memory in the end.
 */
uint32_t walk(const walk_plan *plan, uint32_t *checksum);

#endif
