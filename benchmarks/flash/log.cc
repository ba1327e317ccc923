/* TFLM's log on an emulated board: formats are printed as they are, so that no printf takes flash. */
#include <cstdarg>

#include "board.h"

extern "C" void DebugLog(const char *format, va_list)
{
    board_write(format);
}
