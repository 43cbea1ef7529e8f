/*
 * state: what a front has for everyone in the room: its structure, the time of the turn, memory lent
 * to answers, and the budget of what clients can make all fronts hold together.
 *
 * The structures belong to the reactor's thread; of http_shared and http_counters the atomic members
 * are read by any.
 */
#ifndef TARRY_HTTP_STATE_H
#define TARRY_HTTP_STATE_H

#include "access/call.h"
#include "base/buckets.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/slab.h"
#include "http/front.h"
#include "http/gate.h"
#include "http/host.h"
#include "http/query.h"
#include "http/route.h"
#include "net/budget.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_READ_BYTES = 128 * 1024, /* one read at most, shared by all connections */
    HTTP_OUT_BYTES_MAX = 1 << 30, /* never met: dispatch.c keeps answers far below */
    HTTP_LATE_MS = 1000,          /* a turn so long after the last: did the loop stand still? */
    HTTP_RECENT_MS = 1000,        /* who came in that time may be about to ask, when a front ends */
    HTTP_POLITE_MS = 100,         /* and has so long to do so */
    HTTP_STATUSES = 32,           /* different ones that are answered with */
    HTTP_CLASSES = 4,             /* of statuses: 2xx to 5xx */
    HTTP_SPARES_MAX = 64,
    HTTP_SPARE_BYTES_MAX = 256 * 1024,
    HTTP_FRONTS_MAX = 256
};

/* What a connection may be waited for, and so how long. */
enum http_phase {
    HTTP_PHASE_NONE = 0, /* for the queue: as long as it takes */
    HTTP_PHASE_GREET,    /* what comes before requests: the header of a proxy, a handshake */
    HTTP_PHASE_IDLE,     /* the next request */
    HTTP_PHASE_HEAD,
    HTTP_PHASE_BODY,
    HTTP_PHASE_WRITE,  /* the peer does not take its answers */
    HTTP_PHASE_HELD,   /* requests wait for their turn and nothing is read: is the peer there? */
    HTTP_PHASE_LINGER, /* the peer has still to see why it was refused */
    HTTP_PHASE_COUNT
};

/* Read by other threads, written by one. */
struct http_counters {
    _Atomic uint64_t requests[HTTP_ROUTES_MAX][HTTP_STATUSES]; /* by route and http_status_at */
    struct buckets durations[HTTP_ROUTES_MAX][HTTP_CLASSES];   /* by route and class of status */
    _Atomic uint64_t denied[HTTP_DENIALS];                     /* callers, by what they lacked */
    _Atomic uint64_t accepted, refused, bytes_in, bytes_out;
    _Atomic uint64_t connections, waiting, streams, events_lost;
};

/* A listener as one front serves it. */
struct http_listener {
    uv_poll_t poll;
    struct http_front *front;
    const struct listener *about;
    struct http_hosts hosts; /* by which names it may be called here */
    int fd;
    bool is_open;
    bool is_shared;  /* the descriptor is every front's: they see to it that all have their share */
    bool was_paused; /* since the last connection */
    /* Connections; of these closed for want of a greeting; those that are open. */
    _Atomic uint64_t accepted, ungreeted, open;
};

struct http_front {
    struct reactor *reactor;
    struct queue *queue;
    struct waiters *waiters;
    struct http_shared *shared;
    struct http_options options;
    struct http_listener listeners[LISTENERS_MAX];
    uint32_t listener_count;
    struct deadline *listening_alarm; /* when to look at them again */
    int64_t accepted_ms;              /* when the last connection came */
    bool is_settling;                 /* no handshake begins any more */
    struct list connections, dirty, timed[HTTP_PHASE_COUNT];
    uint32_t connection_count, crowd_count; /* the crowd is counted in both */
    uint32_t open_handles;                  /* connections and listeners */
    struct deadline *alarm;                 /* connections that take too long */
    struct deadline *expiry;                /* takes that waited long enough */
    int64_t alarm_ms, expiry_ms;
    struct list long_line; /* connections whose next request is a long one, not begun yet */
    uint32_t long_count;   /* long ones under way */
    struct list streams;   /* answers that stay open, who was quiet longest first; see stream.h */
    uint32_t stream_count;
    struct deadline *stream_alarm;
    struct http_live *live;          /* see live.h */
    struct http_sample_box *samples; /* its own, where it gets samples */
    struct slab exchanges;
    uint32_t serial;
    int64_t now_ms;  /* of this turn; 0: not looked at yet */
    int64_t turn_ms; /* when the last turn was that looked */
    uint32_t pauses; /* turns that came late: the loop had slept, or the process stood still */
    bool is_late;    /* this one is such a turn */
    int64_t date_s;
    bool has_date; /* in this turn */
    char date[32];
    bool is_draining, is_ending;
    void (*drained)(void *ctx);
    void *drained_ctx;

    char *read_at;            /* HTTP_READ_BYTES */
    char *sealed_at;          /* the same for what TLS connections read; see channel.h */
    uint32_t greeting_count;  /* connections before their first request, see connection.c */
    uint32_t handshake_count; /* steps of handshakes, in this turn */
    struct list put_off;      /* connections whose next step waits for a turn, see connection.c */
    uint32_t turn_requests;   /* begun in this turn */
    uint32_t turn_heavy;      /* of these such as take long, see dispatch.c */
    struct http_request request;
    struct http_query query;
    struct buffer meta, decoded, body, fields, arena;
    struct buffer event_text;     /* of the last event that was told, as JSON */
    uint64_t event_serial;        /* which one that is */
    struct queue_push *pushes;    /* room for a batch, from the first one on */
    struct queue_answer *answers; /* the same for ack, nack, extend */
    struct slice *ids;            /* the same for changes to many jobs */
    struct buffer spares[HTTP_SPARES_MAX];
    uint32_t spare_count;
    uint32_t sweep_count; /* under way */
    uint32_t held_waits;  /* takes that wait for a caller who may be nobody some time */

    struct access_call call; /* of the queue, as it is made; see http_reply_to */

    struct http_counters counters;
    struct list scrapes; /* pages of metrics on their way */
};

struct http_shared {
    const char *version;
    int64_t started_ms;
    atomic_bool is_ready;
    atomic_bool is_refusal_logged;
    uint32_t metrics_topics;   /* that have lines of their own at /metrics */
    struct lateness *lateness; /* NULL: nobody asks */
    struct http_consumers *consumers;
    bool (*emit)(void *ctx, struct metric_page *page, uint32_t part);
    void *emit_ctx;
    atomic_bool wants_wake; /* somebody sleeps until bytes come */
    void (*wake)(void *ctx);
    void *wake_ctx;
    struct access *access;              /* NULL: everybody is anyone */
    struct quota *quota;                /* NULL: nothing is counted */
    struct tracer *tracer;              /* NULL: nothing is traced */
    atomic_bool is_memory_spent;        /* of the process: nothing is pushed */
    struct http_sampler *sampler;       /* NULL: nobody looks at the server */
    _Atomic int64_t certificate_ends_s; /* of Unix time; 0: there is none */
    _Atomic uint64_t process_bytes;
    uint64_t process_bytes_max;             /* 0: no limit */
    const struct http_hooks *hooks;         /* NULL: none */
    const struct http_backup_hooks *backup; /* NULL: none */
    const struct http_clock_hooks *clock;   /* NULL: an ordinary clock */
    const struct http_drain_hooks *drain;   /* NULL: none */
    const struct http_server_hooks *server; /* NULL: none */
    struct budget budget;
    pthread_mutex_t tls_lock;
    struct tls_context *tls; /* of connections that come from now on; NULL: there is no TLS */
    pthread_mutex_t lock;    /* of the fronts */
    struct http_front *fronts[HTTP_FRONTS_MAX];
    uint32_t front_count;
    struct http_route routes[HTTP_ROUTES_MAX]; /* the last place is for requests without a route */
    uint32_t route_count;
};

static inline void http_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* Bytes came: whoever sleeps until then is woken. */
static inline void http_wake_sleeper(struct http_shared *shared)
{
    if (atomic_load_explicit(&shared->wants_wake, memory_order_relaxed) &&
        atomic_exchange_explicit(&shared->wants_wake, false, memory_order_acquire))
        shared->wake(shared->wake_ctx);
}

/* ---- time, looked at once a turn ---- */

int64_t http_front_now_ms(struct http_front *front);
static inline int64_t http_front_now_us(struct http_front *front)
{
    return reactor_now_us(front->reactor);
}
/* A take waits until then at most. */
void http_front_wake_by(struct http_front *front, int64_t at_ms);

/* ---- memory ---- */

/* Memory for a buffer that has none, from the spares where there are some; and back. */
void http_front_lend(struct http_front *front, struct buffer *buffer);
void http_front_give_back(struct http_front *front, struct buffer *buffer);

/* The budget of a server (net/budget.h), which all its fronts share. */
static inline void http_budget_add(struct http_front *front, size_t bytes)
{
    budget_add(&front->shared->budget, bytes);
}

static inline void http_budget_remove(struct http_front *front, size_t bytes)
{
    budget_remove(&front->shared->budget, bytes);
}

static inline uint64_t http_budget_used(const struct http_shared *shared)
{
    return budget_used(&shared->budget);
}

static inline bool http_budget_has(const struct http_front *front, size_t bytes)
{
    return budget_has(&front->shared->budget, bytes);
}

static inline bool http_budget_is_spent(const struct http_front *front)
{
    return budget_is_spent(&front->shared->budget);
}

/* Says so in *fault, and counts it. */
void http_budget_refuse(struct http_front *front, struct http_fault *fault);

/* Does this server deliver by itself, now? */
static inline bool http_delivery_is_on(const struct http_hooks *hooks)
{
    return hooks && (!hooks->is_on || hooks->is_on(hooks->ctx));
}
/* Refuses `what`, as this server delivers nothing by itself. */
bool http_delivery_refuse(struct http_fault *fault, const char *what);

#endif
