/* Console output and an exit code through semihosting, for programs on an emulated board; see startup.c. */
#ifndef EXAMPLE_BOARD_H
#define EXAMPLE_BOARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void board_write(const char *text);
void board_write_number(uint32_t number);

/* Ends the emulation; `status` is the exit code of qemu-system-arm. */
__attribute__((noreturn)) void board_exit(int status);

#ifdef __cplusplus
}
#endif

#endif
