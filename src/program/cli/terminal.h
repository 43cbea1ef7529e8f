/* terminal: detects whether a descriptor is a terminal on which a line can be overwritten. */
#ifndef TARRY_CLI_TERMINAL_H
#define TARRY_CLI_TERMINAL_H

#include <stdbool.h>

/* Returns whether `fd` can erase a line: a terminal, unless TERM is dumb. */
bool terminal_can_erase(int fd);

#endif
