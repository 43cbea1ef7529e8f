/* environment: variables that begin with TARRY_ are options, so one that nobody knows is refused
 * like an unknown option: it would else be without effect, and without a word. */
#ifndef TARRY_CLI_ENVIRONMENT_H
#define TARRY_CLI_ENVIRONMENT_H

/* -1 to go on, else the exit code: a variable is unknown, and that was explained. */
int environment_check(char *const *environment);

#endif
