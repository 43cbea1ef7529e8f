/* sweep: makes the call that changes all jobs of a filter, and shows its progress on a terminal. */
#ifndef TARRY_CLI_SWEEP_H
#define TARRY_CLI_SWEEP_H

#include "cli/call.h"

enum { SWEEP_MS = 6 * 3600 * 1000 /* the server answers after all pages are done */ };

/* The jobs whose number falls during the sweep. */
struct sweep_jobs {
    const char *state; /* of the affected jobs; NULL: all except leased */
    bool is_whole;     /* all of these jobs are affected */
};

/* Makes the call of the request. Returns an exit code. */
int sweep_call(struct call *call, struct sweep_jobs jobs);

/* Prints how many jobs were changed, or would be. */
void sweep_print(const struct call *call);

#endif
