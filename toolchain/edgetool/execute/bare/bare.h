/* SPDX-License-Identifier: 0BSD */
/*
 * A program that reads samples and writes results. host.c runs it on this machine; bare.c and the start-up code of a core
 * run it on an emulated core without an operating system: files and the end of the program by semihosting.
 */
#ifndef BARE_H
#define BARE_H

#include <stddef.h>
#include <stdint.h>

/* Exit codes. A fault of the core is FAULT plus its number. */
enum { BARE_OK = 0, BARE_FILES = 2, BARE_INIT = 3, BARE_INVOKE = 5, BARE_MEMORY = 6, BARE_FAULT = 64 };

/* Opens the files "samples" and "results" in the current directory, which is that of the emulator. */
void bare_open(void);
void bare_read(void *data, size_t bytes);
void bare_write(const void *data, size_t bytes);
void bare_exit(int code);

/* The program: returns an exit code. */
int bare_main(void);

/* On a core: called by the start-up code, and the debugger's answer to a request (Arm's specification of semihosting). */
void bare_start(void);
uintptr_t bare_semihost(uintptr_t request, void *arguments);

#endif /* BARE_H */
