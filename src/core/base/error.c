#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

void error_write(char *error, size_t error_bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (error)
        (void)vsnprintf(error, error_bytes, format, args);
    va_end(args);
}

int error_result(int result, char *error, size_t error_bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (error)
        (void)vsnprintf(error, error_bytes, format, args);
    va_end(args);
    return result;
}
