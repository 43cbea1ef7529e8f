/* terminal: what stands behind a descriptor: somebody who sees a line written over, or a file. */
#ifndef TARRY_CLI_TERMINAL_H
#define TARRY_CLI_TERMINAL_H

#include <stdbool.h>

/* Whether it knows how to erase a line: a terminal that TERM does not call dumb. */
bool terminal_can_erase(int fd);

#endif
