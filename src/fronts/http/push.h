/*
 * push: what a push brings: its options, its callback, and many jobs in one body, as JSON lines or as
 * a JSON array. Pure but for the hooks.
 *
 * An item that is not right is set aside with its fault and does not spoil the rest.
 */
#ifndef TARRY_HTTP_PUSH_H
#define TARRY_HTTP_PUSH_H

#include "http/front.h"
#include "http/query.h"
#include "trace/carry.h"

/* The options of a push, into the queue's command. */
void http_fields_push(const struct http_fields *fields, struct queue_push *push);

/* Checks a callback and adds it to the job's meta. */
bool http_callback_add(struct buffer *meta, struct slice url, const struct http_hooks *hooks,
                       struct http_fault *fault);

/* One item. `arena` and `meta` are scratch: unescaped text goes to the arena, which must have room
 * for the item's length, or earlier slices dangle. Slices of *out point into both texts. `hooks`
 * judge callbacks. */
bool http_item_parse(struct json_value item, struct queue_push *out, struct buffer *arena,
                     struct buffer *meta, const struct http_hooks *hooks, struct http_fault *fault);

struct http_item_fault {
    uint32_t index; /* of the item */
    struct http_fault fault;
};

struct http_batch {
    struct queue_push *pushes; /* room for QUEUE_BATCH_MAX; the good items in order */
    uint32_t push_count;
    uint32_t item_count;
    struct buffer *faults; /* struct http_item_fault each, in order */
    struct buffer *arena, *meta;
    const struct http_hooks *hooks; /* NULL: none */
    /* May a job be pushed to this topic? False: *fault says why not. NULL: to each. */
    bool (*allows)(void *ctx, struct slice topic, struct http_fault *fault);
    void *ctx;
    /* Of the request: for items that name no context of their own. NULL: it has none. */
    const struct trace_carry *carry;
    uint32_t carried;  /* so many items have it */
    bool notes_pushed; /* of sampled ones it is noted when they were pushed */
};

/* `type` is the body's content type. False: *fault says what is wrong with the whole. */
bool http_batch_parse(struct slice body, struct slice type, struct http_batch *batch,
                      struct http_fault *fault);

#endif
