/*
 * batch: many jobs in one body, as JSON lines or a JSON array. An invalid item is set aside with its fault and does not
 * affect the others.
 *
 * The body is read twice, one item at a time, so that a large one can be read in pieces: first it is checked, because a
 * body that is malformed or has too many items is rejected as a whole; then its items become pushes. Pure except for
 * the hooks.
 */
#ifndef TARRY_API_BATCH_H
#define TARRY_API_BATCH_H

#include "api/push.h"
#include "base/json_levels.h"
#include "trace/carry.h"

struct api_item_fault {
    uint32_t index; /* index of the item */
    struct http_fault fault;
};

struct api_batch {
    struct queue_push *pushes; /* room for QUEUE_BATCH_MAX; receives the valid items in order */
    struct queue_batch *rooms; /* as many, for the batches of items; NULL: batches are rejected */
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
    void *room;        /* memory of another form (batch_push.h) */
};

/* The place in a body. A copy of it is a place to return to. */
struct api_batch_reader {
    struct slice body;
    size_t at;              /* the next byte */
    uint32_t item_count;    /* items found by the check */
    size_t item_bytes_most; /* bytes of the longest one */
    bool is_array, is_json; /* lines of a body declared as a single JSON value must be JSON */
    bool has_begun, has_deep;
    struct json_scan scan; /* of the item at `at` */
};

enum api_batch_step { API_BATCH_MORE = 1, API_BATCH_END, API_BATCH_REFUSED };

void api_batch_begin(struct api_batch_reader *reader, struct slice body, struct slice type);
/* Checks the next item, or a part of it if it is long. On API_BATCH_REFUSED the whole body is invalid; *fault describes the problem. */
enum api_batch_step api_batch_check(struct api_batch_reader *reader, struct http_fault *fault);
/* Returns to the first item, to read the checked body. */
void api_batch_rewind(struct api_batch_reader *reader);
/* Prepares the batch for the next items, of `bytes` in the body: their texts must have room in the arena. Keeps the
 * number of items. Returns false if out of memory. */
bool api_batch_make_room(struct api_batch *batch, size_t bytes);
/* Adds the next item to the batch. Returns false at the end. */
bool api_batch_read(struct api_batch_reader *reader, struct api_batch *batch);

/* For other forms: records the fault of the current item; adds the trace of the call to its pairs, which are in `meta`. */
void api_batch_set_aside(struct api_batch *batch, const struct http_fault *fault);
void api_batch_add_trace(struct api_batch *batch);

/* Checks and reads a whole body. `type` is its content type. Returns false if the whole body is invalid; *fault
 * describes the problem. */
bool api_batch_parse(struct slice body, struct slice type, struct api_batch *batch,
                     struct http_fault *fault);

#endif
