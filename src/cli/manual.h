/* manual: the manual pages tarry(1) and tarry.conf(5), as roff, made of the tables that the help is
 * made of. */
#ifndef TARRY_CLI_MANUAL_H
#define TARRY_CLI_MANUAL_H

/* Prints the page "tarry" or "tarry.conf". Returns an exit code. */
int manual_print(const char *page);

#endif
