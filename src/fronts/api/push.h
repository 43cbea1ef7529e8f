/*
 * push: the content of a push: its options, its callback, and many jobs in one body, as JSON lines
 * or a JSON array. Pure except for the hooks.
 *
 * An invalid item is set aside with its fault and does not affect the others.
 */
#ifndef TARRY_API_PUSH_H
#define TARRY_API_PUSH_H

#include "http/front.h"
#include "http/query.h"
#include "trace/carry.h"

/* Copies the options of a push into the queue's command. */
void api_fields_push(const struct http_fields *fields, struct queue_push *push);

/* Checks a callback and adds it to the job's meta. */
bool api_callback_add(struct buffer *meta, struct slice url, const struct http_hooks *hooks,
                      struct http_fault *fault);

/* Checks the content type and the nesting of a body. */
bool api_body_check(struct slice content_type, struct slice body, struct http_fault *fault);

/* Parses one item. `arena` and `meta` are scratch. Unescaped text goes to the arena, which must
 * have room for the length of the item, since growing it would invalidate earlier slices. Slices of
 * *out point into both texts. `hooks` check callbacks. */
bool api_item_parse(struct json_value item, struct queue_push *out, struct buffer *arena,
                    struct buffer *meta, const struct http_hooks *hooks, struct http_fault *fault);

struct api_item_fault {
    uint32_t index; /* index of the item */
    struct http_fault fault;
};

struct api_batch {
    struct queue_push *pushes; /* room for QUEUE_BATCH_MAX; receives the valid items in order */
    uint32_t push_count;
    uint32_t item_count;
    struct buffer *faults; /* receives a struct api_item_fault for each invalid item, in order */
    struct buffer *arena, *meta;
    const struct http_hooks *hooks; /* may be NULL */
    /* Returns whether a job may be pushed to this topic. On false, *fault gives the reason. NULL:
     * every topic is allowed. */
    bool (*allows)(void *ctx, struct slice topic, struct http_fault *fault);
    void *ctx;
    /* Trace context of the request for items without their own, or NULL. */
    const struct trace_carry *carry;
    uint32_t carried;  /* number of items with that context */
    bool notes_pushed; /* record the push time of sampled jobs */
};

/* Parses a batch. `type` is the body's content type. Returns false if the whole body is invalid;
 * *fault describes the problem. */
bool api_batch_parse(struct slice body, struct slice type, struct api_batch *batch,
                     struct http_fault *fault);

#endif
