/* manual: the manual pages tarry(1), tarry-COMMAND(1) and tarry.conf(5), as roff. */
#ifndef TARRY_CLI_MANUAL_H
#define TARRY_CLI_MANUAL_H

/* Prints a page by its name, such as "tarry-push". Returns an exit code. */
int manual_print(const char *page);

#endif
