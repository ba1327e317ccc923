// MY_BANNER

#ifndef EDGETOOL_ARENA_MY_ARENA
#define EDGETOOL_ARENA_MY_ARENA

// MY_LIMITMACROS

// MY_MEMORY

// MY_SIZES

// MY_LIMITS

#if MY_SOURCE
#ifdef __cplusplus
namespace tflite {
class MicroAllocator;
}

/* The allocator of all models, created by the first call; null if the arena is too small for it. */
tflite::MicroAllocator *my_arena_arena_allocator();
#endif

#endif
#endif /* EDGETOOL_ARENA_MY_ARENA */
