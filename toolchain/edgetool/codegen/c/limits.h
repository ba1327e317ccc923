/*
 * Compilation fails here if a limit is exceeded.
 * To set your own limits, define the following before including this header:
 *   MY_MODEL_SRAM_LIMIT_BYTES   memory available for the my_ram
 *   MY_MODEL_FLASH_LIMIT_BYTES  memory available for the my_flash
 */
#if MY_MEMORIES
#if MY_KNOWN
#ifndef MY_LIMIT
#define MY_LIMIT MY_MODEL_TARGET_MY_MEMORY_BYTES
#endif
// MY_CHECK
#else
#ifdef MY_LIMIT
// MY_CHECK
#endif
#endif
#endif
