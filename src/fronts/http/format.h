/*
 * format: how the answers of a call are written, if not as JSON. Another protocol with the calls of this API copies the
 * rows of their routes, with the handlers, and adds its format (http_route.format). So the rules of a call exist once.
 *
 * An answer with several jobs, topics or results is written by `begin`, one `add_…` for each, and `end`. The other
 * functions write and end a whole answer.
 */
#ifndef TARRY_HTTP_FORMAT_H
#define TARRY_HTTP_FORMAT_H

#include "queue/queue.h"

struct http_exchange;
struct http_refusal;

struct http_format {
    struct buffer *(*begin)(struct http_exchange *exchange);
    void (*add_job)(struct buffer *out, const struct queue_job *job, bool with_body);
    /* Adds a job with its result and without its body. */
    void (*add_ended)(struct buffer *out, const struct queue_job *job);
    void (*add_topic)(struct buffer *out, const struct queue_topic *topic);
    void (*add_result)(struct buffer *out, const struct queue_result *result);
    /* Adds the result of a push. */
    void (*add_push)(struct http_exchange *exchange, struct buffer *out,
                     const struct queue_result *result);
    /* Adds whether the batch of the answer is closed. */
    void (*add_closed)(struct buffer *out, bool is_closed);
    void (*end)(struct http_exchange *exchange, struct slice cursor);

    void (*job)(struct http_exchange *exchange, const struct queue_job *job);
    void (*topic)(struct http_exchange *exchange, const struct queue_topic *topic);
    /* Answers with the result of a push or a change that succeeded. */
    void (*result)(struct http_exchange *exchange, const struct queue_result *result);
    /* Answers a purge or a redrive. `seen` is 0 without a filter. */
    void (*affected)(struct http_exchange *exchange, uint64_t jobs, uint64_t seen,
                     bool is_complete);
    /* Rewrites and ends an answer that its handler wrote as JSON. */
    void (*json)(struct http_exchange *exchange);
    void (*refuse)(struct http_exchange *exchange, const struct http_refusal *refusal);
    size_t take_bytes_max; /* of an answer with bodies or results */
};

/* Returns whether the answer, which had `before` bytes, has room for what was added. If not, takes it off again. */
static inline bool http_format_keeps(const struct http_format *format, struct buffer *out,
                                     size_t before)
{
    if (out->len <= format->take_bytes_max)
        return true;
    out->len = before;
    return false;
}

#endif
