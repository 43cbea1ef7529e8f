/*
 * endpoint: the peers that jobs go to: each with its target, its window and its breaker. Dispatchers
 * share them: what one dispatcher learns of a peer holds for all.
 *
 * An endpoint is named by the text of target_endpoint. It is made for the first message to it, and
 * closed once it was idle for ENDPOINT_IDLE_MS. At most ENDPOINTS_MAX: the longest idle one goes
 * first; where all are at work, messages to further ones have to wait.
 *
 * One thread, the reactor's. Every request that was given (ENDPOINT_SENT) is reported exactly once,
 * never inside endpoints_give.
 */
#ifndef TARRY_DELIVER_ENDPOINT_H
#define TARRY_DELIVER_ENDPOINT_H

#include "base/clock.h"
#include "base/slab.h"
#include "base/table.h"
#include "deliver/endpoint_tally.h"
#include "guard/resolve.h"
#include "targets/target.h"

#include <stdatomic.h>

enum {
    ENDPOINTS_MAX = 1024,
    ENDPOINT_IDLE_MS = 60 * 1000,
    ENDPOINT_BYTES_MAX = 512,           /* of its name */
    ENDPOINT_WINDOW = 32,               /* of jobs with callbacks of their own */
    ENDPOINT_REST_MS_MAX = 60 * 1000,   /* by Retry-After */
    ENDPOINT_CROWD_MS_MAX = 300 * 1000, /* a job that found the window full waits at most so long */
    ENDPOINTS_PENDING = 64              /* messages handed to a target together */
};

/* What finds no room comes back one after the other, about as fast as room is made. */
struct endpoint_crowd {
    double next_ms;   /* when the next one is to come; 0: at once */
    double usual_ms;  /* what one message takes lately */
    int64_t heard_ms; /* the last report, or since when there is one to wait for */
};

struct endpoint {
    struct table_entry entry; /* by name */
    char *name;
    struct target *target;
    struct breaker breaker;
    struct endpoint_tally *tally;
    struct list idle; /* in endpoints.idle while nothing is under way */
    int64_t idle_since_ms;
    uint32_t in_flight;          /* all */
    uint32_t windowed;           /* those that count for its window */
    struct endpoint_crowd crowd; /* of those that found its window full */
};

TABLE_DECLARE(endpoint_table, struct endpoint, entry)

struct endpoints {
    struct target_env env;
    struct clock *clock; /* of the queue: what breakers go by; the process's, unless it is set */
    struct endpoint_table table;
    struct list idle;            /* the longest idle one first */
    struct endpoint_crowd crowd; /* of those that found all endpoints at work */
    struct slab flights;         /* what was sent and not reported yet */
    uint32_t generation;
    bool is_closing;           /* all of them: what is reported now was given up */
    uint32_t closing;          /* targets asked to close, not closed yet */
    atomic_uint open, resting; /* for whoever counts; resting: with an open breaker */
    struct endpoint_tallies tallies;
    struct deadline *sweep;
    struct random random;
    /* Of one target: handed over by endpoints_flush. */
    struct endpoint *pending_for;
    struct target_message pending[ENDPOINTS_PENDING];
    struct endpoint_whole
        *wholes[ENDPOINTS_PENDING]; /* of those that send the whole job; or NULL */
    size_t pending_count;
    /* An endpoint may be sent to again, or not any more, or for a probe only. */
    void (*changed)(void *owner, struct endpoint *endpoint);
    void *owner;
    /* After endpoints_close_all: the last one is closed. */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

struct endpoint_request;
/* What became of a request. `took_ms`: from handing it over to now. */
typedef void endpoint_reported(struct endpoint_request *request, const struct target_report *report,
                               int64_t took_ms);

/* A message on its way: a member of what its sender keeps until the report. */
struct endpoint_request {
    endpoint_reported *reported;
    /* At most so many requests that have a window are at the endpoint at once; 0: this one has none,
     * its sender counts. */
    uint32_t window;
    bool insists; /* goes even where the endpoint rests: a sample */
    /* endpoint.c's own */
    bool is_probe;
    struct endpoint *endpoint;
    int64_t sent_us;
};

enum endpoint_verdict {
    ENDPOINT_SENT = 1,
    ENDPOINT_RESTS,   /* its breaker is open, or it asked for peace: again in *wait_ms */
    ENDPOINT_CROWDED, /* the window is full: again in *wait_ms */
    ENDPOINT_LATER,   /* too many endpoints, or out of memory: again in *wait_ms */
    ENDPOINT_UNKNOWN  /* no kind of target in this build goes there */
};

/* `env`: reported and owner are set here. False: out of memory; endpoints_fini is fine then, too. */
bool endpoints_init(struct endpoints *endpoints, const struct target_env *env);
/* After the reactor has stopped; turns its loop until what is still open is closed. */
void endpoints_fini(struct endpoints *endpoints);

/* `name`: what target_endpoint says of message->to. What the message points at must stay until
 * endpoints_flush, which comes in the same turn; its tag is set here. */
enum endpoint_verdict endpoints_give(struct endpoints *endpoints, struct endpoint_request *request,
                                     struct slice name, const struct target_message *message,
                                     int64_t *wait_ms);
void endpoints_flush(struct endpoints *endpoints);

/* May one be sent to `name`? After BREAKER_WAIT *next_ms is when to ask again, by
 * the queue's inner clock. */
static inline enum breaker_verdict endpoints_ask(const struct endpoints *endpoints,
                                                 struct slice name, int64_t *next_ms)
{
    int64_t now_ms = clock_inner_ms_of(endpoints->clock);
    const struct endpoint *endpoint = endpoint_table_find(&endpoints->table, name);
    if (!endpoint)
        return BREAKER_PASS;
    *next_ms = breaker_next_ms(&endpoint->breaker, now_ms);
    return breaker_ask(&endpoint->breaker, now_ms);
}

/* When the first of those that rest may be tried again, by the queue's inner clock; INT64_MAX: none rests. */
int64_t endpoints_next_ms(const struct endpoints *endpoints);
/* All may be sent to again, whatever was learned of them. */
void endpoints_forgive(struct endpoints *endpoints);

/* Gives up what is under way. True: `closed` comes when all is reported and closed; false: there
 * was nothing to close. */
bool endpoints_close_all(struct endpoints *endpoints, void (*closed)(void *ctx), void *ctx);

#endif
