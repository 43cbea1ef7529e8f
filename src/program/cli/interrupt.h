/* interrupt: Ctrl-C and SIGTERM are noted, so that the work under way is brought to an end that can
 * be gone on from. The second one ends the process at once. */
#ifndef TARRY_CLI_INTERRUPT_H
#define TARRY_CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_catch(void);
bool interrupt_came(void);

#endif
