/* environment: rejects unknown variables that begin with TARRY_, as unknown options are
 * rejected. Otherwise a misspelled variable would be ignored silently. */
#ifndef TARRY_CLI_ENVIRONMENT_H
#define TARRY_CLI_ENVIRONMENT_H

/* Returns -1 to continue, else the exit code after printing the unknown variable. */
int environment_check(char *const *environment);

#endif
