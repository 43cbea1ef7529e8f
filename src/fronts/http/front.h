/*
 * front: HTTP/1.1 for a queue; the public interface of this room.
 *
 * There is one front per reactor. All fronts of a server serve the same listeners and share one
 * struct http_shared. A front belongs to its reactor's thread; http_shared_set_ready may be called
 * from any thread.
 *
 * Life
 *   1. http_shared_new, then api_open and monitor_open, before the reactors run.
 *   2. http_front_new for each reactor, on its thread or before it runs. It listens immediately and
 *      answers requests from the first loop iteration on. /readyz returns 503 until
 *      http_shared_set_ready(.., true).
 *   3. To stop: http_shared_set_ready(.., false), http_front_drain, then waiters_drain on each
 *      reactor's thread. `drained` is called on that thread after the last connection is closed.
 *   4. http_front_free after the reactor has stopped, before its queue and waiters are freed. It
 *      closes the remaining connections, running the loop until they are closed, and cancels
 *      waiting takes.
 *   5. http_shared_free last.
 *
 * The front is the timer of the waiters: it calls waiters_expire at waiters_next_ms.
 */
#ifndef TARRY_HTTP_FRONT_H
#define TARRY_HTTP_FRONT_H

#include "base/metric.h"
#include "net/listener.h"
#include "net/reactor.h"
#include "net/tls.h"
#include "queue/ends.h"
#include "queue/lateness.h"
#include "queue/waiter.h"

struct feed_desk;
struct http_front;
struct http_route;
struct http_shared;

/* Options of a front. Zero means the default given beside the member. */
struct http_options {
    struct listeners *listeners; /* open listeners to accept from; must outlive the front */
    struct feed_desk *desk;      /* source of events, or NULL */
    const char *allowed_hosts;   /* further host names (site.h) or NULL; must outlive the front */
    const char *cors_origins;    /* allowed origins (site.h) or NULL; must outlive the front */
    uint64_t body_bytes_max;     /* limit of one job's body; 1 MiB */
    uint64_t result_bytes_max;   /* limit of the result of a job; 64 KiB */
    uint64_t batch_bytes_max;    /* limit of a batch push; 16 MiB */
    uint32_t connections_max;    /* limit of this front; 10,000 */
    uint32_t waiting_max;        /* the limit given to waiters_new, for use in answers; 10,000 */
    int64_t idle_ms;             /* timeout without a request, or with unread answers; 60 s */
    int64_t header_ms; /* timeout from the first byte of a request to the end of its header; 10 s */
    int64_t body_ms;   /* timeout from there to the end of its body; 120 s */
};

/* Creates the state that the fronts of a server share. `version` must outlive it. Returns NULL if
 * out of memory. */
struct http_shared *http_shared_new(const char *version);
void http_shared_free(struct http_shared *shared);
/* Limits the memory of requests, answers and waiting takes together; above it requests get 503. 0:
 * 256 MiB. Call it before the reactors run. */
void http_shared_set_memory(struct http_shared *shared, uint64_t bytes_max);
/* Returns the memory budget, for fronts of other protocols. It lives as long as `shared`. */
struct budget *http_shared_budget(struct http_shared *shared);
/* Sets the source of lateness figures. /metrics lists as many topics, the largest, as it
 * distinguishes (without it 200) and sums up the rest. Call it before the reactors run; `lateness`
 * must outlive the fronts. */
void http_shared_set_lateness(struct http_shared *shared, struct lateness *lateness);
/* A part of the server above this room, with its calls and its own state. Members may be NULL. */
struct http_part {
    const struct http_route *const
        *tables; /* its calls (route.h), most frequent first, then NULL */
    bool (*open)(struct http_front *front);          /* of a new front; false if out of memory */
    void (*iteration_end)(struct http_front *front); /* at the end of each loop iteration */
    void (*close)(struct http_front *front);         /* of an ending front, also if `open` failed */
    void (*free)(struct http_shared *shared);
};
/* Adds a part, whose calls come after those of earlier parts. `part` must outlive `shared`. Call it
 * before the first front is created. */
void http_shared_add_part(struct http_shared *shared, const struct http_part *part);
/* Adds routes of another API after those of the parts. Rows are as in route.h, each with `about`,
 * which must outlive the fronts. Call it before the reactors run. */
void http_shared_add_routes(struct http_shared *shared, const struct http_route *rows,
                            const void *about);
/* Sets the result of /readyz. Any thread. */
void http_shared_set_ready(struct http_shared *shared, bool ready);
/* Sets the TLS context for new connections, and holds a reference to it. Any thread. */
void http_shared_set_tls(struct http_shared *shared, struct tls_context *context);
/* Adds a source of further metrics to /metrics. It is called for part 0, 1, … in separate loop
 * iterations, until it returns false and has written nothing. A part takes well under a
 * millisecond. Called on any reactor's thread. Call it before the reactors run, at most once. */
void http_shared_add_metrics(struct http_shared *shared,
                             bool (*emit)(void *ctx, struct metric_page *page, uint32_t part),
                             void *ctx);
/* The metrics that this room writes. */
extern const struct metric monitor_topic_metrics[], monitor_store_metrics[], monitor_metrics[],
    monitor_server_metrics[];

/* Sets the access rules; without them every caller has all rights. Call it before the reactors run;
 * `access` must outlive the fronts. */
struct access;
void http_shared_set_access(struct http_shared *shared, struct access *access);

/* How users of the console log in at an identity provider, by OpenID Connect. All of it is
 * public. */
enum { HTTP_ORIGIN_BYTES_MAX = 280 };
struct http_sign_in {
    const char *issuer, *client;        /* a URL; the console's client id there */
    const char *parameters;             /* further parameters, as a query; may be empty */
    bool uses_id_token;                 /* the console sends the ID token, not the access token */
    char origin[HTTP_ORIGIN_BYTES_MAX]; /* of the issuer: the console may connect to it */
};
/* Sets the log-in of the console; without it the console only accepts pasted tokens. Call it
 * before the reactors run; `sign_in` must outlive the fronts. */
void http_shared_set_sign_in(struct http_shared *shared, const struct http_sign_in *sign_in);

/* Sets the URL of the page of a trace, with {trace_id}, or "". Call it before the reactors run;
 * `url` must outlive the fronts. */
void http_shared_set_trace_url(struct http_shared *shared, const char *url);

/* Sets the tracer that creates spans of pushes and takes, or NULL. Call it before the reactors run;
 * `tracer` must outlive the fronts. */
struct tracer;
void http_shared_set_tracer(struct http_shared *shared, struct tracer *tracer);

/* Sets the quota that limits are checked against; NULL: nothing is counted. Call it before the
 * reactors run; `quota` must outlive the fronts. */
struct quota;
void http_shared_set_quota(struct http_shared *shared, struct quota *quota);
/* Sets the expiry of the certificate that clients see, in Unix time, or 0. Any thread. */
void http_shared_note_certificate(struct http_shared *shared, int64_t ends_s);
/* Sets the memory limit of the process; 0: no limit. Call it before the reactors run. */
void http_shared_set_process_memory(struct http_shared *shared, uint64_t bytes_max);
/* Returns the bytes received by all fronts. Any thread. */
uint64_t http_shared_bytes_in(struct http_shared *shared);
/* Calls `wake` once, on the thread of a front, when bytes arrive again. */
void http_shared_wake_once(struct http_shared *shared, void (*wake)(void *ctx), void *ctx);
/* Sets the memory use of the process and whether pushes are to be refused because of it. Any
 * thread. */
void http_shared_note_memory(struct http_shared *shared, uint64_t bytes, bool is_spent);

/* Functions of the server for topics with push delivery. Without hooks, settings with an extension
 * and callbacks are refused. */
enum { HTTP_HOOK_ERROR_BYTES = 512 };
typedef void http_tested(void *owner, uint64_t tag, enum queue_status status, struct slice json);
struct http_hooks {
    void *ctx;
    /* Returns whether delivery is enabled; if not, the front behaves as without hooks. NULL:
     * always. Any thread. */
    bool (*is_on)(void *ctx);
    /* Checks an extension. On false, `error` (HTTP_HOOK_ERROR_BYTES) describes the problem and what
     * to do. Any thread. */
    bool (*check_extension)(void *ctx, struct slice topic, struct slice extension, char *error);
    /* Returns whether jobs of a topic with this valid extension are moved to another topic of the
     * queue; then writes that topic to `other` (JOB_TOPIC_BYTES_MAX + 1). NULL: never. Any
     * thread. */
    bool (*other_topic)(void *ctx, struct slice extension, char *other);
    bool (*check_callback)(void *ctx, struct slice url, char *error);
    /* Writes the endpoints of a topic with this extension, as JSON objects separated by commas.
     * Shared endpoints are included only if the caller `sees_all` of them. NULL: shows no
     * endpoints. Any thread. */
    void (*write_endpoints)(void *ctx, struct slice extension, bool sees_all, struct buffer *out);
    /* Returns the state of the circuit breaker of the target of a topic with this extension:
     * "closed", "open" or "half_open"; NULL: it has no target. NULL: the state is not known. Any
     * thread. */
    const char *(*target_state)(void *ctx, struct slice extension);
    /* Sends a sample to the topic's target. Calls `done` once on the calling reactor's thread,
     * never inside the call; `json` is an object that explains the outcome. */
    void (*test)(void *ctx, struct reactor *reactor, struct slice topic, struct slice body,
                 http_tested *done, void *owner, uint64_t tag);
};
/* Sets the hooks. Call it before the reactors run; `hooks` must outlive the fronts. */
void http_shared_set_hooks(struct http_shared *shared, const struct http_hooks *hooks);

/*
 * Functions of the server that let clients back up a running store: its files stay in place while
 * they are copied. `done` is called as in http_hooks.test, and inside the call only if out of
 * memory; `json` describes the backup. QUEUE_NOT_FOUND: the backup does not exist, or no longer.
 * QUEUE_CONFLICT: too many backups. Without these hooks the server offers no backup.
 */
enum http_backup { HTTP_BACKUP_BEGIN = 1, HTTP_BACKUP_RENEW, HTTP_BACKUP_END };
struct http_backup_hooks {
    void *ctx;
    void (*backup)(void *ctx, struct reactor *reactor, enum http_backup what, struct slice id,
                   http_tested *done, void *owner, uint64_t tag);
};
/* Sets the hooks. Call it before the reactors run; `hooks` must outlive the fronts. */
void http_shared_set_backup_hooks(struct http_shared *shared,
                                  const struct http_backup_hooks *hooks);

/* Functions of a server with a test clock: its state, and moving it. Without them jobs use an
 * ordinary clock, and calls about the clock are refused. */
#define HTTP_CLOCK_TO_NEXT INT64_MAX
struct http_clock_call {
    enum http_clock_verb { HTTP_CLOCK_ADVANCE = 1, HTTP_CLOCK_RESET } verb;
    int64_t by_ms; /* advance by this duration; -1: not given */
    int64_t to_ms; /* target wall clock time; HTTP_CLOCK_TO_NEXT: next event; -1: not given */
    bool waits_idle;
    int64_t timeout_ms; /* timeout of the call in real time */
    enum http_clock_auto { HTTP_AUTO_AS_IT_IS = 0, HTTP_AUTO_ON, HTTP_AUTO_OFF } set_auto;
};
enum http_clock_outcome {
    HTTP_CLOCK_DONE = 1,
    HTTP_CLOCK_PAST,     /* `to_ms` is in the past; nothing was done */
    HTTP_CLOCK_TOO_FAR,  /* beyond the range of the clock; nothing was done */
    HTTP_CLOCK_NOT_IDLE, /* `leased` jobs were not settled in time; stays at the time reached */
    HTTP_CLOCK_STOPPING,
    HTTP_CLOCK_FAILED /* the store did not answer, or out of memory */
};
struct http_clock_answer {
    enum http_clock_outcome outcome;
    uint64_t happened; /* events on the way: jobs that fell due or expired, leases that ended, … */
    uint64_t leased;
};
typedef void http_clock_done(void *owner, uint64_t tag, const struct http_clock_answer *answer);
struct clock;
struct http_clock_hooks {
    void *ctx;
    struct clock *clock; /* readable from any thread */
    int64_t start_ms;    /* wall clock time that a reset sets */
    /* Returns whether the clock advances automatically. Any thread. */
    bool (*is_auto)(void *ctx);
    /* Moves the clock. Calls are carried out one after the other, in order. Calls `done` on the
     * calling reactor's thread, and inside the call only if out of memory. */
    void (*call)(void *ctx, struct reactor *reactor, const struct http_clock_call *call,
                 http_clock_done *done, void *owner, uint64_t tag);
};
/* Sets the hooks. Call it before the reactors run; `hooks` must outlive the fronts. */
void http_shared_set_clock_hooks(struct http_shared *shared, const struct http_clock_hooks *hooks);
/* Functions of the server that let callers refuse new jobs on all reactors. Calls `done` once on
 * the thread of `reactor`, never inside the call. Returns false if out of memory. */
struct http_drain_hooks {
    void *ctx;
    bool (*drain)(void *ctx, bool on, struct reactor *reactor,
                  void (*done)(void *owner, uint64_t tag), void *owner, uint64_t tag);
};
/* Sets the hooks. Call it before the reactors run; `hooks` must outlive the fronts. */
void http_shared_set_drain_hooks(struct http_shared *shared, const struct http_drain_hooks *hooks);

/* Functions of the server on its store, on any reactor's thread: `write_store` writes the members
 * `,"shards":…` and `,"disk":…` of GET /v1/server, which are missing without it. `disk_full_in_ms`
 * returns the time until the disk of the data directory is full at its current growth, or 0 if it
 * is not known, or the disk does not fill up. */
struct http_server_hooks {
    void *ctx;
    void (*write_store)(void *ctx, struct buffer *out);
    int64_t (*disk_full_in_ms)(void *ctx);
};
/* Sets the hooks. Call it before the reactors run; `hooks` must outlive the fronts. */
void http_shared_set_server_hooks(struct http_shared *shared,
                                  const struct http_server_hooks *hooks);

/* Creates a front. Returns 0 or a negative errno; then `error` (LISTENER_ERROR_BYTES) describes
 * what failed, where, and what to do. */
int http_front_new(struct reactor *reactor, struct queue *queue, struct waiters *waiters,
                   const struct http_options *options, struct http_shared *shared,
                   struct http_front **out, char *error);
/* Changes names, origins, limits and timeouts; zero restores the default. Listeners, waiting_max
 * and body limits stay unchanged. Call it on the reactor's thread. */
void http_front_change(struct http_front *front, const struct http_options *options);
/*
 * Drains the front: answers requests in progress, received requests and those about to arrive.
 * Connections in the accept queue are accepted. New ones may send a first request, and recently used
 * ones one more: within HTTP_POLITE_MS, or as long as their clients' pauses suggest. The last answer of a connection has `Connection: close`. A client may
 * complete a partly sent request as long as the caller of this function waits. Waiting takes are
 * answered when the caller calls waiters_drain. Calls `drained` once at the end, never inside the
 * call.
 */
void http_front_drain(struct http_front *front, void (*drained)(void *ctx), void *ctx);
void http_front_free(struct http_front *front);

#endif
