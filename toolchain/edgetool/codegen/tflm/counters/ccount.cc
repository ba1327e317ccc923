// Xtensa Instruction Set Architecture Reference Manual: CCOUNT.
#if !(defined(__XTENSA__))
#error "generated for my_core: define MY_MODEL_PROFILE_TICKS() to time it on another core"
#endif

namespace {

const char *const time_source = "ccount";
uint32_t overflows = 0;

/* The core's cycle counter, 32 bits wide. */
void start_ticks()
{
}

uint32_t read_ticks()
{
    uint32_t cycles;
    __asm__ volatile("rsr %0, ccount" : "=r"(cycles));
    return cycles;
}

void stop_ticks()
{
}

}  // namespace
