// One type in all headers, so that one function can walk the tensors of every model.
#ifndef EDGETOOL_TENSOR_TYPE
#define EDGETOOL_TENSOR_TYPE
typedef struct {
    uint32_t subgraph; /* as in the model */
    uint32_t index;    /* as in the model */
    uint32_t offset;   /* bytes from the start of the memory */
    uint32_t bytes;
    int32_t first_op;  /* the positions between which its contents are needed, */
    int32_t last_op;   /* both inclusive; -1 if no operator uses it */
} edgetool_tensor;
#endif

// A constant in a static inline function takes memory only in programs that call it, and causes no warning in others.
static inline const edgetool_tensor *my_model_tensors(void)
{
    static const edgetool_tensor table[MY_MODEL_TENSOR_COUNT] = {
// MY_ROWS
    };
    return table;
}
