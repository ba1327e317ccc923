// Armv7-M and Armv8-M Architecture Reference Manuals: DWT.
#if !(defined(__arm__) || defined(__ICCARM__))
#error "generated for my_core: define MY_MODEL_PROFILE_TICKS() to time it on another core"
#endif

static const char *const time_source = "dwt";
static uint32_t overflows = 0;

static volatile uint32_t *register_at(uintptr_t address)
{
    return (volatile uint32_t *)address;
}

/* The cycle counter of the debug unit, 32 bits wide. */
static void start_ticks(void)
{
    volatile uint32_t *const demcr = register_at(0xE000EDFCu);
    volatile uint32_t *const control = register_at(0xE0001000u);
    *demcr = *demcr | 0x01000000u; /* TRCENA: enable the unit */
#if MY_LOCKED
    *register_at(0xE0001FB0u) = 0xC5ACCE55u; /* the lock access register */
#endif
    *control = *control | 1u; /* CYCCNTENA */
}

static uint32_t read_ticks(void)
{
    return *register_at(0xE0001004u);
}

static void stop_ticks(void)
{
}
