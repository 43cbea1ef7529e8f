/*
 * import_beanstalk: moves the jobs of a beanstalkd into a server.
 *
 * Jobs are not reserved, since a reservation that ends makes a delayed job ready. Jobs are found
 * from the first ready, delayed and buried job that each tube shows, and by requesting each number
 * near those; pending jobs usually have neighbouring numbers.
 *
 * 1. The tubes are paused, for an hour at a time, so that no consumer gets a job that is being
 *    moved.
 * 2. Some jobs are read (stats-job, peek) and pushed with ids made of the identity of the
 *    beanstalkd process and their numbers, keeping jobs that exist already.
 * 3. The jobs that the server has acknowledged are deleted in beanstalkd.
 * 4. The remaining jobs are counted, and the pause ends.
 *
 * Whenever the import is interrupted, each job is in beanstalkd, in the server, or in both under an
 * id that the next import recognizes. If a job is in both, the tube stays paused. One thread.
 */
#ifndef TARRY_CLI_IMPORT_BEANSTALK_H
#define TARRY_CLI_IMPORT_BEANSTALK_H

#include "cli/retry.h"

struct import_beanstalk_wish {
    const char *from;      /* "beanstalk://HOST:PORT" */
    struct cli_list tubes; /* empty: all tubes */
    bool is_dry;           /* changes nothing, and does not contact the server */
    bool has_json;
    struct client *client; /* connection to the server */
    uint64_t batch_bytes;  /* maximum size of a call to the server */
    struct retry retry;
};

/* Returns an exit code; errors are printed. It is also CLI_REFUSED if jobs remain in beanstalkd. */
int import_beanstalk(const struct import_beanstalk_wish *wish);

#endif
