#if (defined(__cplusplus) && __cplusplus >= 201103L) || (defined(_MSVC_LANG) && _MSVC_LANG >= 201103L)
#define MY_MODEL_REQUIRE(condition, name, message) static_assert(condition, message)
#elif !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define MY_MODEL_REQUIRE(condition, name, message) _Static_assert(condition, message)
#else
#define MY_MODEL_REQUIRE(condition, name, message) typedef char name[(condition) ? 1 : -1]
#endif
// Two steps, so that a macro is expanded: then the compiler's message has its value.
#define MY_MODEL_TEXT_OF(value) #value
#define MY_MODEL_TEXT(value) MY_MODEL_TEXT_OF(value)
