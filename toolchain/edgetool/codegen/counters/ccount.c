// Xtensa Instruction Set Architecture Reference Manual: CCOUNT.
#if !(defined(__XTENSA__))
#error "generated for my_core: define MY_MODEL_PROFILE_TICKS() to time it on another core"
#endif

static const char *const time_source = "ccount";
static uint32_t overflows = 0;

/* The core's cycle counter, 32 bits wide. */
static void start_ticks(void)
{
}

static uint32_t read_ticks(void)
{
    uint32_t cycles;
    __asm__ volatile("rsr %0, ccount" : "=r"(cycles));
    return cycles;
}

static void stop_ticks(void)
{
}
