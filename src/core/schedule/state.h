/*
 * state: what a schedule has done, as JSON in the body of its job. Pure.
 */
#ifndef TARRY_SCHEDULE_STATE_H
#define TARRY_SCHEDULE_STATE_H

#include "base/json_read.h"

enum { STATE_LAST = 10 };

/* The reason why a fire was skipped. */
enum skip_reason {
    SKIP_MISSED = 1,
    SKIP_PAUSED,
    SKIP_OVERLAP,
    SKIP_REFUSED,
    SKIP_ENDED, /* the first fire after `end` or `count` */
    SKIP_REASONS
};

struct state_fire {
    int64_t at_ms;           /* nominal time */
    enum skip_reason reason; /* 0: fired */
};

struct state {
    int64_t after_ms; /* fires until then are done */
    int64_t next_ms;  /* nominal time of the next fire; 0: no further fire */
    uint64_t number;  /* of the last fire */
    uint64_t counted; /* fires since the last change, for `count` */
    uint64_t fired;
    uint64_t skipped[SKIP_REASONS];     /* by reason */
    struct state_fire last[STATE_LAST]; /* oldest first */
    size_t last_count;
    bool paused;
    int64_t paused_until_ms; /* 0: until resumed */
    int64_t retry_ms;        /* wait after a refused push; 0: the last push was not refused */
    int64_t refused_ms;      /* nominal time of that fire */
    int64_t ended_ms;        /* nominal time of the first fire after the end; 0: not ended */
    int64_t
        since_ms; /* a number of its own since it was created, or a change last cancelled fires: the time */
    int64_t paced_ms;    /* time of the last fire that was caught up one per second */
    int64_t zone_digest; /* of the file of the zone that the next fire was found with; 0: UTC */
    int64_t tzdata;      /* its version (cadence/zones.h); 0: not known */
};

const char *skip_reason_name(enum skip_reason reason);

/* Adds a fire to the last ones, and to the totals. */
void state_add(struct state *state, int64_t at_ms, enum skip_reason reason);
/* Removes the newest one. */
void state_remove_last(struct state *state);
/* Changes the outcome of a fire that was added as fired. */
void state_skip(struct state *state, int64_t at_ms, enum skip_reason reason);

/* Appends the object. */
void state_write(struct buffer *out, const struct state *state);
/* Reads it. Returns false if it is malformed. */
bool state_read(struct json_value object, struct state *out);

#endif
