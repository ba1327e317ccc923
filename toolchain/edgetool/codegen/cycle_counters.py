"""What counts time on each core: the C++ of a counter that needs nothing but the core itself.

Each defines start_ticks(), read_ticks() and stop_ticks(). Addresses and bits: Armv7-M and Armv8-M Architecture
Reference Manuals (DWT, SysTick), The RISC-V Instruction Set Manual volume II (mcycle), Xtensa ISA Reference Manual
(CCOUNT).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counter:
    """A source of time.

    name: what the log calls it. counts_cycles: a tick is a cycle of the core. architecture: what the compiler
    defines where the code can run; None for any. includes: what the code needs, lines. code: the three functions.
    """

    name: str
    counts_cycles: bool
    architecture: str | None
    includes: str
    code: str


_ARM = "defined(__arm__) || defined(__ICCARM__)"

_REGISTER = """\
volatile uint32_t *register_at(uintptr_t address)
{
    return reinterpret_cast<volatile uint32_t *>(address);
}
"""

_DWT = """\
/* The cycle counter of the debug unit, 32 bits wide. */
void start_ticks()
{
    volatile uint32_t *const demcr = register_at(0xE000EDFCu);
    volatile uint32_t *const control = register_at(0xE0001000u);
    *demcr = *demcr | 0x01000000u; /* TRCENA: enable the unit */
@UNLOCK@    *control = *control | 1u; /* CYCCNTENA */
}

uint32_t read_ticks()
{
    return *register_at(0xE0001004u);
}

void stop_ticks()
{
}
"""
_UNLOCK = "    *register_at(0xE0001FB0u) = 0xC5ACCE55u; /* the lock access register */\n"

_SYSTICK = """\
/*
 * The core has no cycle counter: SysTick counts down from 2^24 and is reset each time it is read, so that its flag
 * shows whether an operator took longer. Other code cannot use SysTick in the meantime; its state is restored
 * afterwards.
 */
uint32_t systick_control = 0;
uint32_t systick_reload = 0;
uint32_t systick_cycles = 0;

void start_ticks()
{
    volatile uint32_t *const control = register_at(0xE000E010u);
    systick_control = *control;
    systick_reload = *register_at(0xE000E014u);
    *control = 0;
    *register_at(0xE000E014u) = 0xFFFFFFu;
    *register_at(0xE000E018u) = 0;
    *control = 5; /* the core's clock, no interrupt */
}

uint32_t read_ticks()
{
    const uint32_t value = *register_at(0xE000E018u);
    if ((*register_at(0xE000E010u) & 0x10000u) != 0) {
        ++overflows; /* it has passed zero since it was last read */
    }
    *register_at(0xE000E018u) = 0; /* any value resets it and the flag */
    systick_cycles += (0x1000000u - value) & 0xFFFFFFu;
    return systick_cycles;
}

void stop_ticks()
{
    *register_at(0xE000E010u) = 0;
    *register_at(0xE000E014u) = systick_reload;
    *register_at(0xE000E018u) = 0;
    *register_at(0xE000E010u) = systick_control & 7u;
}
"""

_MCYCLE = """\
/* The core's cycle counter; only its lower 32 bits are used. */
void start_ticks()
{
}

uint32_t read_ticks()
{
#ifdef ESP_PLATFORM
    return static_cast<uint32_t>(esp_cpu_get_cycle_count());
#else
    uint32_t cycles;
    /* csrr cycles, mcycle: encoded so that no assembler requires Zicsr. */
    __asm__ volatile(".insn i 0x73, 2, %0, x0, -1280" : "=r"(cycles));
    return cycles;
#endif
}

void stop_ticks()
{
}
"""
_ESP_INCLUDES = "#ifdef ESP_PLATFORM\n#include <esp_cpu.h>\n#endif\n"

_CCOUNT = """\
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
"""

_TFLM = """\
/* The time reported by TFLM's port to this platform (micro_time.h). */
void start_ticks()
{
}

uint32_t read_ticks()
{
    return tflite::GetCurrentTimeTicks();
}

void stop_ticks()
{
}
"""

DWT = Counter("dwt", True, _ARM, "", _REGISTER + "\n" + _DWT.replace("@UNLOCK@", ""))
LOCKED_DWT = Counter("dwt", True, _ARM, "", _REGISTER + "\n" + _DWT.replace("@UNLOCK@", _UNLOCK))
SYSTICK = Counter("systick", True, _ARM, "", _REGISTER + "\n" + _SYSTICK)
MCYCLE = Counter("mcycle", True, "defined(__riscv)", _ESP_INCLUDES, _MCYCLE)
CCOUNT = Counter("ccount", True, "defined(__XTENSA__)", "", _CCOUNT)
TFLM = Counter("tflm", False, None, '#include "tensorflow/lite/micro/micro_time.h"\n', _TFLM)

_BY_CORE = {
    "cortex-m0": SYSTICK,
    "cortex-m0plus": SYSTICK,
    "cortex-m23": SYSTICK,
    "cortex-m3": DWT,
    "cortex-m4": DWT,
    "cortex-m33": DWT,
    "cortex-m55": DWT,
    "cortex-m85": DWT,
    "cortex-m7": LOCKED_DWT,
    "riscv32": MCYCLE,
    "xtensa-lx6": CCOUNT,
    "xtensa-lx7": CCOUNT,
}
# What a log calls those whose ticks are cycles of the core.
CYCLE_COUNTERS = frozenset(counter.name for counter in _BY_CORE.values() if counter.counts_cycles)


def counter_of(core: str) -> Counter:
    """What counts time on the core; what TFLM's port tells where the core is not known."""
    return _BY_CORE.get(core, TFLM)
