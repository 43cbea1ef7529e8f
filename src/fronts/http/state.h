/*
 * state: what a front shares with the whole room: its structure, the time of the loop iteration,
 * memory lent to answers, and the budget for what clients make all fronts hold together.
 *
 * The structures belong to the reactor's thread; the atomic members of http_shared and
 * http_counters may be read by any thread.
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
#include "http/query.h"
#include "http/route.h"
#include "http/site.h"
#include "net/budget.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_READ_BYTES = 128 * 1024, /* maximum of one read, shared by all connections */
    HTTP_OUT_BYTES_MAX = 1 << 30, /* never reached: dispatch.c keeps answers far below it */
    HTTP_LATE_MS = 1000,          /* gap between iterations: the loop may have stood still */
    HTTP_RECENT_MS = 1000,        /* on drain, such clients may be about to send a request */
    HTTP_POLITE_MS = 100,         /* how long they may at least still do so */
    HTTP_PAUSES = 8,    /* and for this many of the pauses that they make, up to HTTP_RECENT_MS */
    HTTP_STATUSES = 32, /* number of different statuses */
    HTTP_STATUS_ABANDONED = 499, /* counted for reads whose client is gone; never sent */
    HTTP_CLASSES = 4,            /* classes of statuses: 2xx to 5xx */
    HTTP_SPARES_MAX = 64,
    HTTP_SPARE_BYTES_MAX = 256 * 1024,
    HTTP_RECENT_ROUTES = 4, /* routes that a front tries first */
    HTTP_FRONTS_MAX = 256
};

/* The rooms above that add a part. */
enum http_room { HTTP_ROOM_API, HTTP_ROOM_MONITOR, HTTP_ROOM_CADENCE, HTTP_ROOM_GRPC, HTTP_ROOMS };

/* The event that the front waits for on a connection; it determines the timeout. */
enum http_phase {
    HTTP_PHASE_NONE = 0, /* the queue, without a timeout */
    HTTP_PHASE_GREET,    /* a proxy header or a handshake before requests */
    HTTP_PHASE_IDLE,     /* the next request */
    HTTP_PHASE_HEAD,
    HTTP_PHASE_BODY,
    HTTP_PHASE_WRITE,  /* the peer does not read its answers */
    HTTP_PHASE_QUIET,  /* answers in progress on HTTP/2, and nothing is sent: check the peer */
    HTTP_PHASE_HELD,   /* requests are held back, nothing is read: check the peer */
    HTTP_PHASE_LINGER, /* the refused peer is still reading the reason */
    HTTP_PHASE_COUNT
};

/* Written by one thread, read by others. */
struct http_counters {
    _Atomic uint64_t requests[HTTP_ROUTES_MAX][HTTP_STATUSES]; /* by route and http_status_at */
    struct buckets durations[HTTP_ROUTES_MAX][HTTP_CLASSES];   /* by route and class of status */
    _Atomic uint64_t denied[HTTP_DENIALS];                     /* by what the caller lacked */
    _Atomic uint64_t accepted, refused, bytes_in, bytes_out;
    _Atomic uint64_t connections, waiting, streams, events_lost;
};

/* The state of a listener in one front. */
struct http_listener {
    uv_poll_t poll;
    struct http_front *front;
    const struct listener *about;
    struct http_hosts hosts; /* accepted host names */
    int fd;
    bool is_open;
    bool is_shared;  /* all fronts share the descriptor and distribute its connections */
    bool was_paused; /* paused since the last connection */
    /* Accepted connections, those closed without a greeting, and open ones. */
    _Atomic uint64_t accepted, ungreeted, open;
};

/* The start of the head of the latest answer with JSON. */
struct http_json_head {
    uint16_t status;
    int64_t date_s;
    size_t bytes;
    char text[160];
};

struct http_front {
    struct reactor *reactor;
    struct queue *queue;
    struct waiters *waiters;
    struct ends *ends; /* waits for the ends of jobs */
    struct http_shared *shared;
    struct http_options options;
    struct http_listener listeners[LISTENERS_MAX];
    uint32_t listener_count;
    struct deadline *listening_alarm; /* when to look at the listeners again */
    int64_t accepted_ms;              /* time of the last accepted connection */
    bool is_settling;                 /* no new handshakes begin */
    struct list connections, dirty, timed[HTTP_PHASE_COUNT];
    uint32_t connection_count, excess_count; /* connection_count includes excess_count */
    uint32_t open_handles;                   /* connections and listeners */
    struct deadline *alarm;                  /* timeout of connections */
    struct deadline *expiry;                 /* timeout of waiting takes */
    int64_t alarm_ms, expiry_ms;
    struct list long_line;     /* connections whose next request is a long one that has not begun */
    uint32_t long_count;       /* long requests in progress */
    struct list streams;       /* open answers, longest quiet first; see stream.h */
    struct list stream_places; /* of all open streams, also of those of gRPC */
    uint32_t stream_count;     /* places taken */
    struct deadline *stream_alarm;
    struct slab exchanges;
    uint32_t serial;
    int64_t now_ms;       /* of this iteration; 0: not read yet */
    int64_t iteration_ms; /* time of the last iteration that read it */
    uint32_t
        pauses;   /* iterations that came late, because the loop slept or the process stood still */
    bool is_late; /* this iteration is late */
    int64_t date_s;
    bool has_date; /* `date` is valid for this iteration */
    char date[32];
    struct http_json_head json_head;
    bool is_draining, is_ending;
    int64_t polite_ms; /* draining: how long an idle connection may still send a request */
    void (*drained)(void *ctx);
    void *drained_ctx;

    char *read_at;            /* HTTP_READ_BYTES */
    void *frame_at;           /* the frame that a session of HTTP/2 sends, or NULL; see http2.c */
    char *sealed_at;          /* the same for reads of TLS connections; see channel.h */
    uint32_t greeting_count;  /* connections before their first request, see connection.c */
    uint32_t handshake_count; /* handshake steps in this iteration */
    int64_t handshake_us;     /* duration of the last step */
    struct list put_off;      /* connections whose handshake waits, see connection.c */
    struct list sated;        /* connections that have read their share of this iteration */
    uint32_t iteration_requests; /* requests begun in this iteration */
    uint32_t iteration_heavy;    /* expensive ones among them, see dispatch.c */
    const struct http_route *recent_routes[HTTP_RECENT_ROUTES]; /* only ones that are alone */
    uint32_t routes_found;                                      /* not among them, and added */
    struct http_request request;
    struct http_query query;
    struct buffer meta, decoded, body, fields, trailers, arena;
    struct buffer spares[HTTP_SPARES_MAX];
    uint32_t spare_count;
    uint32_t held_waits; /* waiting takes whose caller may become invalid */

    struct access_call call; /* the current call of the queue; see http_reply_to */

    struct http_counters counters;
    void *rooms[HTTP_ROOMS]; /* what each room above keeps in this front; NULL: nothing */
};

struct http_shared {
    const char *version;
    int64_t started_ms;
    atomic_bool is_ready;
    atomic_bool is_refusal_logged;
    uint32_t metrics_topics;   /* number of topics with samples of their own at /metrics */
    struct lateness *lateness; /* NULL: no figures */
    bool (*emit)(void *ctx, struct metric_page *page, uint32_t part);
    void *emit_ctx;
    atomic_bool wants_wake; /* a thread waits for bytes to arrive */
    void (*wake)(void *ctx);
    void *wake_ctx;
    struct access *access;              /* NULL: every caller has all rights */
    const struct http_sign_in *sign_in; /* NULL: the console only accepts pasted tokens */
    const char *trace_url;              /* page of a trace, or empty, or NULL */
    struct quota *quota;                /* NULL: nothing is counted */
    struct tracer *tracer;              /* NULL: nothing is traced */
    atomic_bool is_memory_spent;        /* of the process; pushes are refused */
    _Atomic int64_t certificate_ends_s; /* in Unix time, or 0 */
    _Atomic uint64_t process_bytes;
    uint64_t process_bytes_max;             /* 0: no limit */
    const struct http_hooks *hooks;         /* may be NULL */
    const struct http_backup_hooks *backup; /* may be NULL */
    const struct http_clock_hooks *clock;   /* NULL: an ordinary clock */
    const struct http_drain_hooks *drain;   /* may be NULL */
    const struct http_server_hooks *server; /* may be NULL */
    struct budget budget;
    pthread_mutex_t tls_lock;
    struct tls_context *tls; /* context of new connections; NULL: no TLS */
    pthread_mutex_t lock;    /* guards `fronts` */
    struct http_front *fronts[HTTP_FRONTS_MAX];
    uint32_t front_count;
    const struct http_part *parts[HTTP_ROOMS];
    uint32_t part_count;
    void *rooms[HTTP_ROOMS]; /* what each room above keeps for all fronts; NULL: nothing */
    struct http_route routes[HTTP_ROUTES_MAX]; /* the last row counts requests without a route */
    uint32_t route_count;
};

static inline void http_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* Wakes the thread that waits for bytes. */
static inline void http_wake_sleeper(struct http_shared *shared)
{
    if (atomic_load_explicit(&shared->wants_wake, memory_order_relaxed) &&
        atomic_exchange_explicit(&shared->wants_wake, false, memory_order_acquire))
        shared->wake(shared->wake_ctx);
}

/* ---- time, read once per loop iteration ---- */

int64_t http_front_now_ms(struct http_front *front);
static inline int64_t http_front_now_us(struct http_front *front)
{
    return reactor_now_us(front->reactor);
}
/* Returns the time of this loop iteration in HTTP format, formatted once per second. */
const char *http_front_date(struct http_front *front);
/* Limits how long takes wait: wakes the front by this time at the latest. */
void http_front_wake_by(struct http_front *front, int64_t at_ms);

/* ---- memory ---- */

/* Gives memory to an empty buffer, from the spares if possible, or takes it back. */
void http_front_lend(struct http_front *front, struct buffer *buffer);
void http_front_give_back(struct http_front *front, struct buffer *buffer);

/* The functions below use the budget of the server (net/budget.h), which all its fronts share. */
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

/* Sets *fault to a refusal for lack of memory, and counts it. */
void http_budget_refuse(struct http_front *front, struct http_fault *fault);

/* Returns whether push delivery is currently enabled. */
static inline bool http_delivery_is_on(const struct http_hooks *hooks)
{
    return hooks && (!hooks->is_on || hooks->is_on(hooks->ctx));
}
/* Returns the state of the breaker of the topic's target, or NULL if there is none. */
static inline const char *http_target_state(const struct http_hooks *hooks, struct slice extension)
{
    bool is_known = extension.len && http_delivery_is_on(hooks) && hooks->target_state;
    return is_known ? hooks->target_state(hooks->ctx, extension) : NULL;
}
/* Refuses `what`, since push delivery is disabled. Returns false. */
bool http_delivery_refuse(struct http_fault *fault, const char *what);

/* ---- statuses of answers ---- */

/* Returns the index of a status in the counters, below HTTP_STATUSES; that of 500 if it is not
 * listed. */
size_t http_status_index(uint16_t status);
/* Returns the HTTP status at an index, or 0 at the end. */
uint16_t http_status_at(size_t index);
/* Returns the status line and the name of the field that always follows it. */
const char *http_status_line(uint16_t status);

#endif
