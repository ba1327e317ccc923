/* SPDX-License-Identifier: 0BSD */
/* Runs models on a core without an operating system and compares their outputs with those that are linked in. */
#ifndef CHECK_H
#define CHECK_H

#include <stddef.h>
#include <stdint.h>

/* A model: calls of its generated functions, and the bytes of `samples` inputs and outputs in turn. */
typedef struct {
    const char *name;
    int (*init)(void);
    void (*invoke)(void);
    void (*set_inputs)(const uint8_t *sample);
    int (*equal_outputs)(const uint8_t *expected);
    const uint8_t *inputs;
    const uint8_t *outputs;
    uint32_t input_bytes;
    uint32_t output_bytes;
    uint32_t samples;
} check_model;

/* Prints "NAME equal|different STACK" for each model. With `trap`, accesses of misaligned words are faults. */
int check_models(const check_model *models, uint32_t count, int trap);

#endif
