/* state: the data shared by the front, its sessions and its statistics. Private to this room. */
#ifndef TARRY_BEANSTALK_STATE_H
#define TARRY_BEANSTALK_STATE_H

#include "beanstalk/command.h"
#include "beanstalk/front.h"
#include "beanstalk/numbers.h"
#include "beanstalk/tube.h"

#include "base/buffer.h"

struct beanstalk_alias; /* job_view.c */

/* The step that a client must complete within a time limit, see session.h. */
enum beanstalk_phase {
    BEANSTALK_PHASE_NONE = 0,
    BEANSTALK_PHASE_IDLE, /* waiting for the next command */
    BEANSTALK_PHASE_LINE,
    BEANSTALK_PHASE_BODY,
    BEANSTALK_PHASE_WRITE, /* the client does not read its answers */
    BEANSTALK_PHASES
};

struct beanstalk_front {
    struct beanstalk_options options;
    struct beanstalk_numbers *numbers;
    struct beanstalk_tubes tubes;
    struct list sessions, timed[BEANSTALK_PHASES];
    struct deadline *alarm; /* for the first session to expire, at alarm_ms */
    int64_t alarm_ms;
    struct list
        later; /* sessions that have used their share of this loop iteration, see session.c */
    struct turn_end_call turn_end; /* resumes the sessions in `later` */
    uint32_t turn_commands;        /* commands begun in this loop iteration */
    uint32_t connection_count, producers, workers, waiting;
    uint64_t connections_total, timeouts, verbs[BEANSTALK_VERBS];
    int64_t started_ms;
    char instance[17];
    struct beanstalk_alias *aliases; /* a ring buffer */
    uint64_t alias_count;            /* aliases assigned so far */
    char *read_at;                   /* read buffer shared by all connections */
    uv_poll_t poll;
    int fd;
    bool is_polling, is_stopping;
    uint32_t open_handles; /* handles of the poll and of sessions */
    /* Called when a handle has closed. The last handle of a stopping front completes the stop. */
    void (*closed)(struct beanstalk_front *front);
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

#endif
