#ifndef MY_MODEL_MY_ARRAY_SECTION
#if MY_PLACED
#ifndef __ELF__
#error "define MY_MODEL_MY_ARRAY_SECTION as this compiler's attribute for a section"
#endif
#define MY_MODEL_MY_ARRAY_SECTION __attribute__((section("my_section")))
#else
#define MY_MODEL_MY_ARRAY_SECTION
#endif
#endif
#if MY_EXACT
#ifndef MY_MODEL_MY_ARRAY_EXTRA_BYTES
#define MY_MODEL_MY_ARRAY_EXTRA_BYTES 0
#endif

alignas(MY_MODEL_ARENA_ALIGNMENT) MY_MODEL_MY_ARRAY_SECTION static uint8_t my_model_my_array[MY_MODEL_MY_ARRAY_BYTES + (MY_MODEL_MY_ARRAY_EXTRA_BYTES)];
#else
#ifndef MY_MODEL_ARENA_BYTES
#error "the exact arena size is unknown: define MY_MODEL_ARENA_BYTES, larger than MY_MODEL_ARENA_LOWER_BOUND_BYTES"
#endif

alignas(MY_MODEL_ARENA_ALIGNMENT) MY_MODEL_MY_ARRAY_SECTION static uint8_t my_model_arena[MY_MODEL_ARENA_BYTES];
static_assert(sizeof(my_model_arena) >= MY_MODEL_ARENA_LOWER_BOUND_BYTES,
              "my_model_arena needs at least " MY_MODEL_TEXT(MY_MODEL_ARENA_LOWER_BOUND_BYTES)
              " bytes, but MY_MODEL_ARENA_BYTES is " MY_MODEL_TEXT(MY_MODEL_ARENA_BYTES));
#endif
#ifdef MY_MODEL_MY_MEMORY_LIMIT_BYTES
static_assert(my_sum <= (MY_MODEL_MY_MEMORY_LIMIT_BYTES),
#if MY_EXACT
              "my_model_my_array takes " MY_MODEL_TEXT(MY_MODEL_MY_ARRAY_BYTES + (MY_MODEL_MY_ARRAY_EXTRA_BYTES))
#else
              "my_model_arena takes " MY_MODEL_TEXT(MY_MODEL_ARENA_BYTES)
#endif
              " my_bytes, but MY_MODEL_MY_MEMORY_LIMIT_BYTES is " MY_MODEL_TEXT(MY_MODEL_MY_MEMORY_LIMIT_BYTES));
#endif
