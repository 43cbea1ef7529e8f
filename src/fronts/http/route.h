/*
 * route: a call of the API: its method and path, its options, and its handler.
 *
 * The file of each noun ends with the table of its calls; a part joins the tables (front.h). A
 * table ends with a row without a pattern.
 */
#ifndef TARRY_HTTP_ROUTE_H
#define TARRY_HTTP_ROUTE_H

#include "access/rights.h"
#include "http/query.h"
#include "queue/queue.h"

enum { HTTP_ROUTES_MAX = 144 };

struct http_call;
struct http_connection;
struct http_exchange;
struct http_fault;
struct http_refusal;
struct http_route;
struct access_caller;

/* The caller of a request. */
struct http_admission {
    struct access_caller *caller; /* a reference */
    bool is_by_header; /* determined by Authorization alone, so the same line is the same caller */
    const char *why;   /* reason of a refusal as a sentence for the client, or NULL */
};

/* Determines the caller of the front's request, as access_admit. If not `is_whole`, the body has
 * not arrived yet, and the function is called again later. *out is zeroed before. */
typedef int http_route_admit(struct http_connection *connection, const struct http_route *route,
                             bool is_whole, struct http_admission *out);
typedef void http_route_refuse(struct http_exchange *exchange, const struct http_fault *fault);

enum http_body_kind {
    HTTP_BODY_NONE = 0, /* the call has no body */
    HTTP_BODY_SMALL,
    HTTP_BODY_JOB,
    HTTP_BODY_MESSAGE, /* a job with its options, in binary */
    HTTP_BODY_BATCH
};

/* The size of an answer; see dispatch.c. */
enum http_answer_kind {
    HTTP_ANSWER_SHORT = 0,
    HTTP_ANSWER_JOB,
    HTTP_ANSWER_TAKE, /* as many jobs as requested */
    HTTP_ANSWER_LONG,
    HTTP_ANSWER_STREAM /* stays open, see stream.h */
};

/* Callers that may make a call: those with a scope (access/rights.h), or one of these. */
enum {
    HTTP_FOR_CALLERS = 64,   /* any caller, whatever its rights */
    HTTP_FOR_EVERYBODY = 128 /* everyone, without authentication */
};

/* The topics that the scope must cover; `x-tarry-topics` in openapi.yaml. */
enum http_topics {
    HTTP_TOPICS_NONE = 1, /* the call has no topic */
    HTTP_TOPICS_PATH,     /* the topic in the path */
    HTTP_TOPICS_EACH,     /* each topic named in the call; the handler checks them with the gate */
    HTTP_TOPICS_LEASE,    /* no topic: a lease is proof enough for its own job */
    HTTP_TOPICS_SHOWN,    /* no topic: the handler shows only topics that the caller may see */
    HTTP_TOPICS_ALL       /* "*" */
};

/*
 * How the answers of a call are written, if not as JSON. Another protocol with the calls of this
 * API copies the rows of their routes, with the handlers, and adds its format. So the rules of a
 * call exist once.
 *
 * An answer with several jobs, topics or results is written by `begin`, one `add_…` for each, and
 * `end`. The other functions write and end a whole answer.
 */
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

/* Returns whether the answer, which had `before` bytes, has room for what was added. If not,
 * removes it. */
static inline bool http_format_keeps(const struct http_format *format, struct buffer *out,
                                     size_t before)
{
    if (out->len <= format->take_bytes_max)
        return true;
    out->len = before;
    return false;
}

/* A row of the table. A row without `scope` and `topics` is not offered (http_shared_add_part). */
struct http_route {
    enum http_method method;
    uint8_t scope; /* enum access_scope, or HTTP_FOR_… */
    enum http_topics topics;
    enum http_body_kind body;
    enum http_answer_kind answer;
    http_options options; /* OPTION_BIT of each option */
    bool takes_meta;
    bool ignores_query; /* a page, whose script reads the query */
    bool takes_frames;  /* the handler runs before the body arrives (http2_call.h) */
    bool is_alone;      /* no earlier row matches a path of this one; set by http_shared_add_part */
    uint8_t head_bytes; /* of the pattern before its first word; set by http_shared_add_part */
    uint8_t verb;       /* distinguishes calls of one handler; defined by the handler */
    const char *pattern; /* "/v1/topics/{topic}/jobs/{id}" */
    const char *name;    /* name in metrics */
    const char *audit;   /* name in the audit; NULL: not recorded */
    void (*handle)(struct http_call *call);
    /* For calls of another API. */
    const void *about;                /* data for the handler */
    http_route_admit *admit;          /* determines the caller; NULL: as for this API */
    http_route_refuse *refuse;        /* answers a refused call; NULL: with a problem */
    const struct http_format *format; /* how its answers are written; NULL: as JSON */
    /* Returns whether the request uses the protocol of this route, whatever its path. Then `refuse`
     * answers it even if no route matches. NULL: never. */
    bool (*claims)(const struct http_request *request);
};

#define HTTP_TOPIC_PATH "/v1/topics/{topic}"
#define HTTP_JOBS_PATH HTTP_TOPIC_PATH "/jobs"
#define HTTP_JOB_PATH HTTP_JOBS_PATH "/{id}"

#endif
