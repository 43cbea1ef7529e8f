/*
 * delivery: what calls say of topics that deliver by themselves: the members `deliver` and
 * `dead_letter` of a topic's settings, and the callback of a push. What is right in them the hooks
 * know (front.h); here they are only cut out of JSON, kept, and shown.
 *
 * The two members together are the topic's extension: one JSON object without blanks, its members
 * in this order, each only where it was given.
 */
#ifndef TARRY_HTTP_DELIVERY_H
#define TARRY_HTTP_DELIVERY_H

#include "base/json_read.h"
#include "http/front.h"
#include "http/problem.h"

bool http_delivery_is_on(const struct http_hooks *hooks);

/* ---- extension ---- */

/* Beyond TOPIC_EXTENSION_BYTES_MAX it is refused; a buffer of so much can say by how much. */
enum { HTTP_EXTENSION_TEXT_MAX = JOB_BODY_BYTES_MAX + 64 };

struct http_extension { /* kind JSON_NONE: not given */
    struct json_value deliver, dead_letter;
};

/* Is the member one of the two? Then it is kept; false with a fault where it cannot be. */
bool http_extension_has(struct slice raw_key);
bool http_extension_set(struct http_extension *extension, struct slice raw_key,
                        struct json_value value, struct http_fault *fault);
/* Onto `out`: nothing where neither was given. */
bool http_extension_write(const struct http_extension *extension, struct buffer *out,
                          struct http_fault *fault);
/* Asks the hooks. An empty one is always right; one with `deliver` never where delivery is off,
 * while dead letters can be kept in order without it. */
bool http_extension_check(const struct http_hooks *hooks, struct slice topic,
                          struct slice extension, struct http_fault *fault);

/* ---- callback ---- */

/* Checks it and adds it to the job's meta. */
bool http_callback_add(struct buffer *meta, struct slice url, const struct http_hooks *hooks,
                       struct http_fault *fault);
/* Empty where the job has none. */
struct slice http_callback_of(struct slice meta);

#endif
