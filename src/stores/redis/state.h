/*
 * state: reads the packed values of a shard, its core and its topics (scripts/README.md), to the
 * extent needed here. Pure; only scripts change these values.
 */
#ifndef TARRY_REDIS_STATE_H
#define TARRY_REDIS_STATE_H

#include "base/slice.h"

#include <stdint.h>

/* Counters in the order in which they are packed. */
enum redis_figure {
    REDIS_FIGURE_DELAYED,
    REDIS_FIGURE_RETRYING,
    REDIS_FIGURE_READY,
    REDIS_FIGURE_LEASED,
    REDIS_FIGURE_DEAD,
    REDIS_FIGURE_DEAD_BYTES,
    REDIS_FIGURE_PUSHED,
    REDIS_FIGURE_ACKED,
    REDIS_FIGURE_CANCELLED,
    REDIS_FIGURE_EXPIRED,
    REDIS_FIGURE_REPLACED,
    REDIS_FIGURE_DELIVERED,
    REDIS_FIGURE_NACKED,
    REDIS_FIGURE_LEASE_ENDED,
    REDIS_FIGURE_DIED,
    REDIS_FIGURE_REDRIVEN,
    REDIS_FIGURES
};

struct redis_topic_state {
    bool is_paused;
    int64_t figure[REDIS_FIGURES];
    struct slice settings; /* as stored; empty: all default */
};

/* The newest layout that this version knows. */
enum { REDIS_LAYOUT = 1 };

struct redis_core_state {
    uint32_t layout;
    bool is_held;    /* the shard's clock stands still, for tests */
    uint32_t shards; /* 0: unknown, because the layout is newer */
    uint32_t sealed; /* its progress towards another generation (enum redis_move_state) */
};

/* Returns false if the value is not a core. */
bool redis_core_state_read(struct slice value, struct redis_core_state *out);
/* Returns false if the value is not a topic. */
bool redis_topic_state_read(struct slice value, struct redis_topic_state *out);

#endif
