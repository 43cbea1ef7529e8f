/* completion: what lets a shell complete commands and their options, made of the tables that the
 * help is made of. */
#ifndef TARRY_CLI_COMPLETION_H
#define TARRY_CLI_COMPLETION_H

#include "cli/cli.h"

/* Prints the script for "bash", "zsh" or "fish". Returns an exit code. */
int completion_print(const char *shell);

#endif
