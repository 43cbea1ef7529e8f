/*
 * endpoint: the peers that jobs are sent to, each with its target, its window and its breaker.
 * Dispatchers share them, so what one dispatcher learns about a peer applies to all.
 *
 * An endpoint is named by the text of target_endpoint. It is created for the first message to it,
 * and closed after ENDPOINT_IDLE_MS without messages. There are at most ENDPOINTS_MAX. If more are
 * needed, the one that is idle the longest is closed; if all are in use, messages to further
 * endpoints have to wait.
 *
 * Used on the reactor's thread. Every accepted request (ENDPOINT_SENT) is reported exactly once,
 * never inside endpoints_give.
 */
#ifndef TARRY_DELIVER_ENDPOINT_H
#define TARRY_DELIVER_ENDPOINT_H

#include "base/clock.h"
#include "base/slab.h"
#include "base/table.h"
#include "deliver/endpoint_tally.h"
#include "deliver/path.h"
#include "guard/resolve.h"
#include "targets/message_id.h"
#include "targets/target.h"

#include <stdatomic.h>

enum {
    ENDPOINTS_MAX = 1024,
    ENDPOINT_IDLE_MS = 60 * 1000,
    ENDPOINT_BYTES_MAX = 512,                /* of its name */
    ENDPOINT_WINDOW = 32,                    /* for jobs with their own callbacks */
    ENDPOINT_REST_MS_MAX = 60 * 1000,        /* maximum for Retry-After */
    ENDPOINT_CONGESTION_MS_MAX = 300 * 1000, /* maximum wait of a job that found the window full */
    ENDPOINTS_PENDING = 64                   /* messages passed to a target together */
};

/* Schedule for messages that find no room: they are retried one after another, about as fast as
 * room becomes available. */
struct endpoint_congestion {
    double next_ms;      /* time of the next retry; 0: now */
    double usual_ms;     /* typical duration of a message recently */
    int64_t reported_ms; /* time of the last report, or since when one is expected */
};

struct endpoint {
    struct table_entry entry; /* by name */
    char *name;
    struct target *target;
    struct breaker breaker;
    struct endpoint_tally *tally;
    struct list idle; /* in endpoints.idle while nothing is in flight */
    int64_t idle_since_ms;
    uint32_t in_flight;                    /* all requests */
    uint32_t windowed;                     /* requests that count for its window */
    struct endpoint_congestion congestion; /* messages that found its window full */
};

TABLE_DECLARE(endpoint_table, struct endpoint, entry)

struct endpoints {
    struct target_env env;
    /* clock of the breakers: that of the queue; the process clock unless set */
    struct clock *clock;
    struct endpoint_table table;
    struct list idle; /* the one idle for the longest first */
    struct paths paths;
    struct endpoint_congestion congestion; /* messages that found all endpoints in use */
    struct slab sent_messages;             /* messages sent and not reported yet */
    uint32_t generation;
    bool is_closing;           /* all are closing: messages reported from now on were aborted */
    uint32_t closing;          /* targets that are being closed */
    atomic_uint open, resting; /* for metrics; resting: with an open breaker */
    struct endpoint_tallies tallies;
    struct deadline *sweep;
    struct random random;
    /* Messages of one target, passed on by endpoints_flush. */
    struct endpoint *pending_for;
    struct target_message pending[ENDPOINTS_PENDING];
    /* for messages in another form than their job, otherwise NULL */
    struct endpoint_form *forms[ENDPOINTS_PENDING];
    struct message_id ids;
    size_t pending_count;
    const char *invalid; /* a reason of ENDPOINT_INVALID */
    /* Called when an endpoint becomes available or unavailable, or available for a probe only. */
    void (*changed)(void *owner, struct endpoint *endpoint);
    void *owner;
    /* Called after endpoints_close_all when the last one is closed. */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

struct endpoint_request;
/* Receives the result of a request. `took_ms` is the time since the message was passed on. */
typedef void endpoint_reported(struct endpoint_request *request, const struct target_report *report,
                               int64_t took_ms);

/* A message in flight, embedded in a structure that its sender keeps until the report. */
struct endpoint_request {
    endpoint_reported *reported;
    /* Limit for concurrent requests with a window at the endpoint; 0: this request has no window,
     * because its sender counts them. */
    uint32_t window;
    bool insists; /* sent even if the endpoint is paused: a sample */
    /* private to endpoint.c */
    bool is_probe, is_path_probe;
    uint64_t path; /* path_key of its URL */
    struct endpoint *endpoint;
    int64_t sent_us;
};

enum endpoint_decision {
    ENDPOINT_SENT = 1,
    ENDPOINT_RESTS, /* its breaker or the URL's is open, or one asked to wait: retry after *wait_ms */
    ENDPOINT_CONGESTED, /* the window is full: retry after *wait_ms */
    ENDPOINT_LATER,     /* too many endpoints, or out of memory: retry after *wait_ms */
    ENDPOINT_UNKNOWN,   /* no target of this build supports it */
    ENDPOINT_INVALID    /* the job cannot be an event; endpoints->invalid is the reason */
};

/* Initializes the endpoints; sets `reported` and `owner` of `env`. Returns false when out of
 * memory; endpoints_fini may also be called then. */
bool endpoints_init(struct endpoints *endpoints, const struct target_env *env);
/* Runs the loop of the stopped reactor until everything is closed, and frees it. */
void endpoints_fini(struct endpoints *endpoints);

/* Sends a request. `name` is the result of target_endpoint for message->to. The data that the
 * message points to has to stay valid until endpoints_flush, which is called in the same loop
 * iteration. The message's tag is set here. */
enum endpoint_decision endpoints_give(struct endpoints *endpoints, struct endpoint_request *request,
                                      struct slice name, const struct target_message *message,
                                      int64_t *wait_ms);
void endpoints_flush(struct endpoints *endpoints);

/* Returns whether a message for the URL `to` may be sent to `name`. After BREAKER_WAIT, *next_ms is
 * the time to ask again, on the queue's inner clock. */
enum breaker_decision endpoints_ask(struct endpoints *endpoints, struct slice name, struct slice to,
                                    int64_t *next_ms);

/* Returns the time when the first resting endpoint may be retried, on the queue's inner clock;
 * INT64_MAX: no endpoint is paused. */
int64_t endpoints_next_ms(const struct endpoints *endpoints);
/* Closes all breakers and ends all waits. */
void endpoints_forgive(struct endpoints *endpoints);

/* Aborts requests in flight and closes all endpoints. Returns true if `closed` will be called when
 * everything is reported and closed, false if there was nothing to close. */
bool endpoints_close_all(struct endpoints *endpoints, void (*closed)(void *ctx), void *ctx);

#endif
