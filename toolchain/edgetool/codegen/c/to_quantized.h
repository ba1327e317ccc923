// TFLite's AffineQuantize (kernels/internal/reference/quantize.h), without libm and double. Past 65536 steps, every
// type saturates whatever its zero point: the limit keeps the conversion to int32_t defined.
/* value / scale, rounded half away from zero, plus the zero point, clamped to low and high. NaN counts as 0. */
static inline int32_t my_model_to_quantized(float value, float scale, int32_t zero_point, int32_t low, int32_t high)
{
    const float steps = value / scale;
    int32_t rounded = 0;
    if (steps >= 65536.0f) {
        rounded = 65536;
    } else if (steps <= -65536.0f) {
        rounded = -65536;
    } else if (steps > -65536.0f) {
        rounded = (int32_t)steps;
        if (steps - (float)rounded >= 0.5f) {
            ++rounded;
        } else if (steps - (float)rounded <= -0.5f) {
            --rounded;
        }
    }
    rounded += zero_point;
    return rounded < low ? low : (rounded > high ? high : rounded);
}
