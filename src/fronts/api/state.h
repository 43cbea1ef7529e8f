/*
 * state: what the calls of the API keep in each front of the HTTP server, on its reactor's thread.
 */
#ifndef TARRY_API_STATE_H
#define TARRY_API_STATE_H

#include "base/buffer.h"
#include "base/list.h"
#include "http/state.h"

struct api_front {
    struct queue_push *pushes;        /* room for a batch; allocated at the first one */
    struct queue_batch *push_batches; /* as many, for the batches of its items */
    struct queue_answer *answers;     /* the same for ack, nack, extend */
    struct slice *ids;                /* the same for changes to many jobs */
    struct buffer event_text;         /* last event that was sent, as JSON */
    uint64_t event_serial;            /* serial of that event */
    struct list batches;              /* pushes of many jobs in progress; see batch_push.c */
    struct list changes;              /* changes by many ids whose next group waits; see bulk.c */
    uint32_t sweep_count;             /* changes by a filter in progress */
};

static inline struct api_front *api_front_of(const struct http_front *front)
{
    return front->rooms[HTTP_ROOM_API];
}

static inline struct api_consumers *api_consumers_of(const struct http_shared *shared)
{
    return shared->rooms[HTTP_ROOM_API];
}

/* Return the front's room for one call, or NULL if out of memory. */
struct queue_push *api_room_for_pushes(struct http_front *front);
struct queue_answer *api_room_for_answers(struct http_front *front);

#endif
