/*
 * Compilation fails here if a limit is exceeded.
 * To set your own limits, define the following before including this header:
#if MY_MEMORIES
 *   my_padded  memory available for the my_contents
#endif
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
