// Armv7-M and Armv8-M Architecture Reference Manuals: SysTick.
#if !(defined(__arm__) || defined(__ICCARM__))
#error "generated for my_core: define MY_MODEL_PROFILE_TICKS() to time it on another core"
#endif

static const char *const time_source = "systick";
static uint32_t overflows = 0;

static volatile uint32_t *register_at(uintptr_t address)
{
    return (volatile uint32_t *)address;
}

/*
 * The core has no cycle counter: SysTick counts down from 2^24 and is reset each time it is read, so that its flag
 * shows whether an operator took longer. Other code cannot use SysTick in the meantime; its state is restored
 * afterwards.
 */
static uint32_t systick_control = 0;
static uint32_t systick_reload = 0;
static uint32_t systick_cycles = 0;

static void start_ticks(void)
{
    volatile uint32_t *const control = register_at(0xE000E010u);
    systick_control = *control;
    systick_reload = *register_at(0xE000E014u);
    *control = 0;
    *register_at(0xE000E014u) = 0xFFFFFFu;
    *register_at(0xE000E018u) = 0;
    *control = 5; /* the core's clock, no interrupt */
}

static uint32_t read_ticks(void)
{
    const uint32_t value = *register_at(0xE000E018u);
    if ((*register_at(0xE000E010u) & 0x10000u) != 0) {
        ++overflows; /* it has passed zero since it was last read */
    }
    *register_at(0xE000E018u) = 0; /* any value resets it and the flag */
    systick_cycles += (0x1000000u - value) & 0xFFFFFFu;
    return systick_cycles;
}

static void stop_ticks(void)
{
    *register_at(0xE000E010u) = 0;
    *register_at(0xE000E014u) = systick_reload;
    *register_at(0xE000E018u) = 0;
    *register_at(0xE000E010u) = systick_control & 7u;
}
