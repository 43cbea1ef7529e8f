#include "cli/colour.h"

#include "cli/terminal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_on(void)
{
    static int known; /* 0: unknown; 1: on; -1: off */
    const char *none = getenv("NO_COLOR");
    if (!known)
        known = terminal_can_erase(STDOUT_FILENO) && !(none && *none) ? 1 : -1;
    return known > 0;
}

const char *colour_begin(enum colour colour)
{
    static const char *const begin[] = {
        [COLOUR_NONE] = "",         [COLOUR_GOOD] = "\033[32m", [COLOUR_BAD] = "\033[1;31m",
        [COLOUR_WARN] = "\033[33m", [COLOUR_QUIET] = "\033[2m", [COLOUR_STRONG] = "\033[1m",
    };
    return is_on() ? begin[colour] : "";
}

const char *colour_end(enum colour colour)
{
    return is_on() && colour != COLOUR_NONE ? "\033[0m" : "";
}
