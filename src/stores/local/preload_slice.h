/* preload_slice: a stretch of one section of one run: the request to read it, then the result.
 * Types only; preload.c reads it, preload_topic.c counts its content. */
#ifndef TARRY_LOCAL_PRELOAD_SLICE_H
#define TARRY_LOCAL_PRELOAD_SLICE_H

#include "base/buffer.h"
#include "local/preload_topic.h"

struct preload_item {
    int64_t when_ms;
    size_t at; /* in the slice's bytes */
    uint32_t bytes, slot, topic;
};
struct preload_pass {
    int64_t when_ms;
    uint32_t slot, topic : 31;
    uint32_t has_group : 1;
};

/* The part of a group that a slice of a held topic reads. */
struct preload_wish {
    uint32_t mark;
    uint32_t from; /* earlier slots have been read */
    uint32_t max;  /* jobs; 0: nothing */
    uint32_t got;
    uint32_t stop; /* the first slot beyond `max`; UINT32_MAX: not met */
    int64_t stop_ms;
};

VECTOR_DECLARE(preload_wishes, struct preload_wish)
VECTOR_DECLARE(preload_items, struct preload_item)
VECTOR_DECLARE(preload_passes, struct preload_pass)

/* A slice. It belongs to the scout while it is read. Afterwards it is kept for a while for
 * preload_recent. */
struct preload_slice {
    struct work work; /* first */
    struct preload *preload;
    struct depot_view *view;
    struct depot_run *depot_run;
    struct preload_run *run;      /* NULL: everything is loaded */
    struct preload_place *refill; /* NULL: all topics except held ones; else only this one */
    bool is_of_topic;             /* only `topic`: set if `refill` is */
    bool is_of_kept;              /* only topics that keep their waiting jobs in memory */
    enum job_section section;
    uint32_t number, topic, epoch;
    uint32_t first, end, jobs_max;
    int64_t limit_ms; /* the section's clock */

    uint32_t next, looked, wanted;
    uint32_t stop_slot; /* the first one beyond the limit; UINT32_MAX: no such slot */
    int64_t stop_ms;
    bool no_memory;
    uint32_t refused; /* the slot for which memory ran out */
    int error;
    struct preload_items items;
    struct preload_passes passes;
    struct preload_wishes wishes; /* of a refill: the groups that are read apart, by mark */
    struct preload_wish rest;     /* and all other groups */
    uint32_t wishes_open;         /* wishes that can still be met */
    int64_t looked_ms;            /* of the last slot that was looked at */
    struct buffer bytes;
    uint32_t loaded; /* items */
};

/* Returns whether its run is still in the view, and the cursors have not restarted since the slice
 * began. */
static inline bool preload_slice_counts(const struct preload_slice *slice)
{
    return !slice->run->is_gone && slice->epoch == slice->run->epoch;
}

#endif
