// MY_INTRODUCTION
#define MY_MODEL_BUFFER_COUNT MY_COUNT
#define MY_MODEL_BUFFERS_BYTES MY_BYTES
#define MY_MODEL_BUFFERS_LOWER_BOUND_BYTES MY_BOUND
#if MY_BUFFERS

/* buffer my_number: tensors my_contents */
#define MY_MODEL_BUFFER_my_number_BYTES MY_SIZE
#ifndef MY_MODEL_BUFFER_my_number_SECTION
#define MY_MODEL_BUFFER_my_number_SECTION
#endif
#ifndef MY_MODEL_BUFFER_my_number_ALIGNMENT
#define MY_MODEL_BUFFER_my_number_ALIGNMENT MY_ALIGNMENT
#endif
#ifdef MY_MODEL_BUFFER_my_number_LIMIT_BYTES
// MY_CHECK
#endif
#endif
#if MY_COUNT

#define MY_MODEL_TENSOR_COUNT MY_TENSORS

/* Location and identity of a tensor; subgraph and index refer to the model. */
typedef struct {
    uint8_t *data;
    uint32_t bytes;
    uint32_t buffer;
    uint32_t subgraph;
    uint32_t index;
} my_model_tensor_place;

#ifdef __cplusplus
extern "C" {
#endif

#if MY_BUFFERS
extern uint8_t my_model_buffer_my_number[MY_MODEL_BUFFER_my_number_BYTES];
#endif

/* Every tensor, by subgraph and index. */
extern const my_model_tensor_place my_model_tensors[MY_MODEL_TENSOR_COUNT];

#ifdef __cplusplus
}
#endif
#endif
