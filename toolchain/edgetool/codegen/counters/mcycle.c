// The RISC-V Instruction Set Manual, volume II: mcycle.
#if !(defined(__riscv))
#error "generated for my_core: define MY_MODEL_PROFILE_TICKS() to time it on another core"
#endif
#ifdef ESP_PLATFORM
#include <esp_cpu.h>
#endif

static const char *const time_source = "mcycle";
static uint32_t overflows = 0;

/* The core's cycle counter; only its lower 32 bits are used. */
static void start_ticks(void)
{
}

static uint32_t read_ticks(void)
{
#ifdef ESP_PLATFORM
    return (uint32_t)esp_cpu_get_cycle_count();
#else
    uint32_t cycles;
    /* csrr cycles, mcycle: encoded so that no assembler requires Zicsr. */
    __asm__ volatile(".insn i 0x73, 2, %0, x0, -1280" : "=r"(cycles));
    return cycles;
#endif
}

static void stop_ticks(void)
{
}
