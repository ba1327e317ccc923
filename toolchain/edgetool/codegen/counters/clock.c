// The C standard: clock().
#include <time.h>

static const char *const time_source = "clock";
static uint32_t overflows = 0;

/* The time of the C library. */
static void start_ticks(void)
{
}

static uint32_t read_ticks(void)
{
    return (uint32_t)clock();
}

static void stop_ticks(void)
{
}
