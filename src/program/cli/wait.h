/* wait: how jobs have ended, for commands that wait for them. */
#ifndef TARRY_CLI_WAIT_H
#define TARRY_CLI_WAIT_H

#include "cli/call.h"

/* Reads --wait of a call into the time that the server may take. Returns -1, or an exit code after
 * printing an error. */
int wait_check(struct call *call);
/* Prints one line about a job: how it has ended, with its result, or its present state. */
void wait_print(const json_t *job);
/* Returns CLI_OK if the job was acked, CLI_REFUSED if it ended otherwise, CLI_NOTHING if it has not
 * ended or is unknown. */
int wait_exit_code(const json_t *job);

#endif
