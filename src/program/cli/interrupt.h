/* interrupt: records Ctrl-C and SIGTERM so that the current work ends in a state that can be
 * resumed. The second signal ends the process immediately. */
#ifndef TARRY_CLI_INTERRUPT_H
#define TARRY_CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_catch(void);
bool interrupt_came(void);

#endif
