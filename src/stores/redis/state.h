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

/* Layout 1 is a shard of outdated servers that is being converted (convert.lua); until the first
 * step of the conversion its core is a hash. */
/* PACKED and the newest layout, in which some topic has limits, are read in the same way. */
/* HELD: the shard's clock stands still, for tests. */
enum { REDIS_LAYOUT_BEFORE = 1, REDIS_LAYOUT_PACKED = 2, REDIS_LAYOUT_HELD = 5, REDIS_LAYOUT = 5 };

struct redis_core_state {
    uint32_t layout;
    uint32_t shards; /* 0: unknown, because the layout is newer */
    uint32_t sealed; /* its progress towards another generation (enum redis_move_state) */
};

/* Returns false if the value is not a core. */
bool redis_core_state_read(struct slice value, struct redis_core_state *out);
/* Returns false if the value is not a topic. */
bool redis_topic_state_read(struct slice value, struct redis_topic_state *out);

#endif
