#include "cli/progress.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { PAUSE_US = 150 * 1000 };

static int64_t printed_us;
static bool is_shown;

void progress_print(const char *format, ...)
{
    int64_t now_us = clock_boot_us();
    va_list args;
    if (!isatty(STDERR_FILENO) || now_us - printed_us < PAUSE_US)
        return;
    printed_us = now_us;
    is_shown = true;
    fputs("\r\033[K", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

void progress_clear(void)
{
    if (is_shown)
        fputs("\r\033[K", stderr);
    is_shown = false;
}
