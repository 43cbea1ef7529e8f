/* push: the content of a push: its options, its callback, and a job as JSON. Pure except for the hooks. */
#ifndef TARRY_API_PUSH_H
#define TARRY_API_PUSH_H

#include "http/front.h"
#include "http/query.h"

/* Copies the options of a push into the queue's command. */
void api_fields_push(const struct http_fields *fields, struct queue_push *push);

/* Sets the batches of a push, in `room`, if there are options of one. */
void api_fields_batch(const struct http_fields *fields, struct queue_push *push,
                      struct queue_batch *room);

/* Adds a callback to the job's meta, or describes what is wrong with it. The door of the queue applies the rule to all
 * protocols (queue_rule_callbacks). */
bool api_callback_add(struct buffer *meta, struct slice url, const struct http_hooks *hooks,
                      struct http_fault *fault);

/* Checks the content type and the nesting of a body. */
bool api_body_check(struct slice content_type, struct slice body, struct http_fault *fault);

/* Pushes the job of a call, whose meta is in the front's `meta`, and answers. */
struct http_call;
void api_push(struct http_call *call, struct queue_push *push);

/* Parses one item. `arena` and `meta` are scratch. Unescaped text goes to the arena, which must
 * have room for the length of the item, since growing it would invalidate earlier slices. Slices of
 * *out point into both texts. `hooks` check callbacks. `room` receives the batches of the item; NULL:
 * batches are rejected. */
bool api_item_parse(struct json_value item, struct queue_push *out, struct queue_batch *room,
                    struct buffer *arena, struct buffer *meta, const struct http_hooks *hooks,
                    struct http_fault *fault);

/* Works as api_item_parse; `nested` receives an array `members` of the item. NULL: such members are rejected. */
bool api_item_parse_nested(struct json_value item, struct queue_push *out, struct queue_batch *room,
                           struct buffer *arena, struct buffer *meta,
                           const struct http_hooks *hooks, struct json_value *nested,
                           struct http_fault *fault);

/* Refuses a body that is nested too deeply. Returns false. */
bool api_depth_refuse(struct http_fault *fault);

#endif
