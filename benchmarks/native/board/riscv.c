/* SPDX-License-Identifier: 0BSD */
/* board.h for QEMU's machine "virt": its UART, and its test device, which ends the emulation. */
#include "board.h"

#define UART ((volatile uint8_t *)0x10000000U)
#define FINISHER ((volatile uint32_t *)0x100000U)

int main(void);
void board_start(void);

__asm__(".section .text.start\n"
        ".global _start\n"
        "_start:\n"
        "    la sp, stack_top\n"
        "    .option arch, +zicsr\n"
        "    la t0, trap\n"
        "    csrw mtvec, t0\n"
        "    j board_start\n"
        ".balign 4\n"
        "trap:\n"
        "    li t0, 0x100000\n"
        "    li t1, 0x633333\n"
        "    sw t1, 0(t0)\n"
        "    j trap\n"
        ".text\n");

void board_write(const char *text)
{
    while (*text != '\0') {
        *UART = (uint8_t)*text++;
    }
}

void board_write_number(uint32_t number)
{
    char digits[11];
    char *start = &digits[10];
    *start = '\0';
    do {
        *--start = (char)('0' + number % 10U);
        number /= 10U;
    } while (number != 0U);
    board_write(start);
}

void board_exit(int status)
{
    for (;;) {
        *FINISHER = status == 0 ? 0x5555U : (uint32_t)status << 16 | 0x3333U;
    }
}

void board_start(void)
{
    board_exit(main());
}
