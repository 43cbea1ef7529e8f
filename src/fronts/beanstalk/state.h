/* state: what the front, its sessions and its stats share. This room only. */
#ifndef TARRY_BEANSTALK_STATE_H
#define TARRY_BEANSTALK_STATE_H

#include "beanstalk/command.h"
#include "beanstalk/front.h"
#include "beanstalk/numbers.h"
#include "beanstalk/tube.h"

#include "base/buffer.h"

struct beanstalk_alias; /* alias.c */

/* What a client is waited for, see phase.h. */
enum beanstalk_phase {
    BEANSTALK_PHASE_NONE = 0,
    BEANSTALK_PHASE_IDLE, /* the next command */
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
    struct deadline *alarm; /* of the first session whose time passes, at alarm_ms */
    int64_t alarm_ms;
    struct list later; /* sessions that have had their share of this turn, see share.c */
    struct turn_end_call turn_end; /* then these go on */
    uint32_t turn_commands;        /* begun in this turn */
    uint32_t connection_count, producers, workers, waiting;
    uint64_t connections_total, timeouts, verbs[BEANSTALK_VERBS];
    int64_t started_ms;
    char instance[17];
    struct beanstalk_alias *aliases; /* a ring */
    uint64_t alias_count;            /* given so far */
    char *read_at;                   /* what all connections read into */
    uv_poll_t poll;
    int fd;
    bool is_polling, is_stopping;
    uint32_t open_handles; /* the poll and sessions */
    /* One of these is closed; the last one of a front that stops ends that. */
    void (*closed)(struct beanstalk_front *front);
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

#endif
