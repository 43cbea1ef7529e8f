/*
 * driver: what an implementation of queue.h gives to the suite.
 *
 * Everything is called on one thread. Time is base/clock.h's fake clock, started by the suite
 * before `open`.
 */
#ifndef TARRY_TESTS_CONTRACT_DRIVER_H
#define TARRY_TESTS_CONTRACT_DRIVER_H

#include "queue/queue.h"

#include <unistd.h>

/* Lets the helper threads and the database work. Longer than a yield, which would keep a core busy
 * with waiting, and shorter than what is waited for. */
static inline void driver_rest(void)
{
    (void)usleep(20);
}

struct driver_options {
    const char *dir; /* an empty directory at the first open; the same one at a reopen */
    uint64_t body_bytes_max;
    uint32_t topics_max;
};

/* Features that an implementation lacks, by its documentation. */
enum {
    DRIVER_LACKS_CHOICE = 1, /* takes of a job by its id, and by priority */
    DRIVER_LACKS_FIND = 2,
    DRIVER_LACKS_NACK_PRIORITY = 4,
    DRIVER_LACKS_CANCEL_BY_LEASE = 8,
    DRIVER_LACKS_AGAIN = 16, /* pushes of a leased job again, by its lease */
    DRIVER_LACKS_ONCE = 32,
    DRIVER_LACKS_ORDER_OF_TOPICS =
        64,                  /* push order between topics of one push, if all else is equal */
    DRIVER_HIDES_NEXT = 128, /* the due of a successor */
    DRIVER_LACKS_END_BY_REPLACE = 256 /* a wait continues for the job that replaces its own */
};

struct driver {
    const char *name;
    unsigned lacks;
    uint32_t shards; /* 1: the order of ready jobs holds over all jobs of a topic; else within a
                        shard only */
    bool keeps_finished, awaits; /* as in queue_info: the claims about kept jobs and waits apply */
    bool groups;                 /* likewise: the claims about groups, limits, rates and holds */
    bool one_shard_by_name;      /* likewise: of several shards, topics with some names use one */
    bool one_shard;              /* likewise: of several shards, topics may use one */
    bool strict_groups;          /* likewise: the claims about group_order=strict */
    bool batches;                /* likewise: the claims about jobs that wait for other jobs */
    bool is_at_once;             /* a few loop iterations send all events */
    uint32_t runs;               /* of random commands; 0: as many as are usual */
    bool forecasts_exactly;      /* the few jobs of this suite, that is */
    bool clock_is_elsewhere; /* `at` is measured on the wall clock of another machine, which does
                                not step when ours does */

    /* NULL with a message on standard error when it cannot. */
    void *(*open)(const struct driver_options *options);
    struct queue *(*queue)(void *self);
    /* Of one_shard: the queue of another thread of the same store. */
    struct queue *(*queue_at)(void *ctx, uint32_t reactor);
    /* One iteration of its loops; does not sleep. */
    void (*pump)(void *self);
    /* The clock was moved: returns when all that is due has happened. */
    void (*moved)(void *self);
    /* NULL: the clock is moved in one leap, and all passed events happen then. Otherwise from event to event, each at its time: returns when
     * the next may be (INT64_MAX: no event), and the clock stops there. */
    int64_t (*next_ms)(void *self);
    /* Stops like a server: all answered changes are kept. */
    void (*close)(void *self);
};

/* An implementation by the model itself: the null implementation as documentation. */
extern const struct driver driver_naive;
/* The same with one fault built in: the suite must find it. NULL behind the last one. */
const struct driver *driver_faulty(size_t number, const char **what);

/* Returns the driver with this name, or NULL. */
const struct driver *driver_find(const char *name);

#endif
