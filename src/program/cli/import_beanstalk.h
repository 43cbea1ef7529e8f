/*
 * import_beanstalk: the jobs of a beanstalkd, moved into a server.
 *
 * Nothing is reserved there, since a reservation that ends makes a delayed job ready. Jobs are
 * found by the head that each tube shows of its ready, delayed and buried ones, and by the numbers
 * around it, of which each is asked for; what is pending lies close together as a rule.
 *
 *   1. The tubes are paused, for an hour at a time: nobody gets a job there that is on its way.
 *   2. Some jobs are read (stats-job, peek), and pushed with ids made of the process that beanstalkd
 *      is and of their numbers, to be kept where they exist already.
 *   3. Those that the server has acknowledged are deleted there.
 *   4. What is left is counted, and the pause is over.
 *
 * So whatever ends it, each job is in beanstalkd, in the server, or in both under an id that the
 * next import knows; then the tube is still paused. One thread.
 */
#ifndef TARRY_CLI_IMPORT_BEANSTALK_H
#define TARRY_CLI_IMPORT_BEANSTALK_H

#include "cli/patience.h"

struct import_beanstalk_wish {
    const char *from;      /* "beanstalk://HOST:PORT" */
    struct cli_list tubes; /* none: all */
    bool is_dry;           /* nothing is changed anywhere, and the server not asked */
    bool has_json;
    struct client *client; /* of the server */
    uint64_t batch_bytes;  /* that a call to it may have */
    struct patience patience;
};

/* An exit code, explained: CLI_REFUSED also where something is left over there. */
int import_beanstalk(const struct import_beanstalk_wish *wish);

#endif
