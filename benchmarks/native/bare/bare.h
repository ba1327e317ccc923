/* SPDX-License-Identifier: 0BSD */
/*
 * Programs for emulated cores without an operating system: files and the end of the program by semihosting, and the
 * few functions of the C library that kernels and the driver of bands use.
 */
#ifndef BARE_H
#define BARE_H

#include <stddef.h>
#include <stdint.h>

/* Exit codes. A fault of the core is FAULT plus its number. */
enum { BARE_OK = 0, BARE_FILES = 2, BARE_INIT = 3, BARE_INVOKE = 5, BARE_MEMORY = 6, BARE_FAULT = 64 };

/* The debugger's answer to a request: see Arm's specification of semihosting. */
uintptr_t bare_semihost(uintptr_t request, void *arguments);

/* Opens the files "samples" and "results" in the emulator's directory. */
void bare_open(void);
void bare_read(void *data, size_t bytes);
void bare_write(const void *data, size_t bytes);
void bare_exit(int code);

/* Called by the start-up code after the memory of variables is cleared; the program defines it. */
int bare_main(void);
void bare_start(void);

#endif /* BARE_H */
