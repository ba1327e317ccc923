#if MY_INTEGER
static inline my_type my_model_my_io_quantize(float value)
{
    return (my_type)my_model_to_quantized(value, MY_MODEL_MY_IO_SCALE, MY_MODEL_MY_IO_ZERO_POINT, MY_LOW, MY_HIGH);
}

static inline float my_model_my_io_dequantize(my_type value)
{
    return MY_MODEL_MY_IO_SCALE * (float)((int32_t)value - MY_MODEL_MY_IO_ZERO_POINT);
}
#else
static inline float my_model_my_io_quantize(float value)
{
    return value;
}

static inline float my_model_my_io_dequantize(float value)
{
    return value;
}
#endif
