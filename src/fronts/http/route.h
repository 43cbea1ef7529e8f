/*
 * route: a call of the API: its method and path, the options it has, and who carries it out.
 *
 * Each noun's file ends with the table of its calls; routes.c puts them together. Tables end with a
 * row without a pattern.
 */
#ifndef TARRY_HTTP_ROUTE_H
#define TARRY_HTTP_ROUTE_H

#include "access/rights.h"
#include "http/query.h"

enum { HTTP_ROUTES_MAX = 80 };

struct http_call;
struct http_connection;
struct http_exchange;
struct http_fault;
struct http_route;
struct access_caller;

/* Who makes a request. */
struct http_admission {
    struct access_caller *caller; /* held */
    bool is_by_header; /* Authorization alone says so: who sends the same again is the same */
    const char *why;   /* a sentence for a client that is refused, or NULL */
};

/* Who makes the front's request: as access_admit. `is_whole`: else its body is not here yet, and it
 * is asked again. *out comes zeroed. */
typedef int http_route_admit(struct http_connection *connection, const struct http_route *route,
                             bool is_whole, struct http_admission *out);
typedef void http_route_refuse(struct http_exchange *exchange, const struct http_fault *fault);

enum http_body_kind {
    HTTP_BODY_NONE = 0, /* the call takes none */
    HTTP_BODY_SMALL,
    HTTP_BODY_JOB,
    HTTP_BODY_BATCH
};

/* How long an answer may get; see dispatch.c. */
enum http_answer_kind {
    HTTP_ANSWER_SHORT = 0,
    HTTP_ANSWER_JOB,
    HTTP_ANSWER_TAKE, /* as many jobs as it asks for */
    HTTP_ANSWER_LONG,
    HTTP_ANSWER_STREAM /* it stays open, see stream.h */
};

/* Who may make a call: callers with a scope (access/rights.h), or one of these. */
enum {
    HTTP_FOR_CALLERS = 64,   /* any, whatever he may do */
    HTTP_FOR_EVERYBODY = 128 /* nobody is asked who he is */
};

/* Which topics the scope must be for; `x-tarry-topics` in openapi.yaml. */
enum http_topics {
    HTTP_TOPICS_NONE = 1, /* the call is about none */
    HTTP_TOPICS_PATH,     /* the one in the path */
    HTTP_TOPICS_EACH,     /* each that is named: the handler asks the gate */
    HTTP_TOPICS_LEASE,    /* none: a lease proves that its holder may answer it */
    HTTP_TOPICS_SHOWN,    /* none: the handler shows those that the caller may see */
    HTTP_TOPICS_ALL       /* "*" */
};

/* A row says who may make its call: without `scope` and `topics` it is none (http_routes_list). */
struct http_route {
    enum http_method method;
    uint8_t scope; /* enum access_scope, or HTTP_FOR_… */
    enum http_topics topics;
    enum http_body_kind body;
    enum http_answer_kind answer;
    uint64_t options; /* OPTION_BIT each */
    bool takes_meta;
    uint8_t head_bytes;  /* of the pattern before its first word; http_routes_list sets it */
    uint8_t verb;        /* tells calls of one handler apart; the handler's own words */
    const char *pattern; /* "/v1/topics/{topic}/jobs/{id}" */
    const char *name;    /* in metrics */
    const char *audit;   /* what the audit calls it; NULL: nothing that it is told of */
    void (*handle)(struct http_call *call);
    /* Of a call that is not this API's. */
    const void *about;         /* what its handler is told */
    http_route_admit *admit;   /* who makes it; NULL: as this API's calls say it */
    http_route_refuse *refuse; /* answers what its handler did not get to see; NULL: a problem */
    /* Does the request speak the protocol of this route, wherever it was sent? Then `refuse` answers it even if
     * nothing is at its path. NULL: never. */
    bool (*claims)(const struct http_request *request);
};

#define HTTP_TOPIC_PATH "/v1/topics/{topic}"
#define HTTP_JOBS_PATH HTTP_TOPIC_PATH "/jobs"
#define HTTP_JOB_PATH HTTP_JOBS_PATH "/{id}"

extern const struct http_route http_push_routes[];
extern const struct http_route http_answers_routes[];
extern const struct http_route http_take_routes[];
extern const struct http_route http_jobs_routes[];
extern const struct http_route http_locate_routes[];
extern const struct http_route http_bulk_routes[];
extern const struct http_route http_endpoints_routes[];
extern const struct http_route http_dead_errors_routes[];
extern const struct http_route http_consumers_routes[];
extern const struct http_route http_topics_routes[];
extern const struct http_route http_dead_routes[];
extern const struct http_route http_system_routes[];
extern const struct http_route http_clock_routes[];
extern const struct http_route http_server_state_routes[];
extern const struct http_route http_metrics_routes[];
extern const struct http_route http_load_routes[];
extern const struct http_route http_live_routes[];
extern const struct http_route http_console_routes[];
extern const struct http_route http_runbooks_routes[];
extern const struct http_route http_events_routes[];

/* All calls there are, one noun behind the other. Returns how many. */
uint32_t http_routes_list(struct http_route routes[HTTP_ROUTES_MAX]);

#endif
