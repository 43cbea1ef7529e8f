#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_can_erase(int fd)
{
    const char *name = getenv("TERM");
    return isatty(fd) == 1 && !(name && strcmp(name, "dumb") == 0);
}
