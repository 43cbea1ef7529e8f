/*
 * front: HTTP/1.1 in front of a queue: the public face of this room.
 *
 * One front per reactor; all fronts of a server serve the same listeners and share one struct
 * http_shared. A front belongs to its reactor's thread; http_shared_set_ready may be
 * called from any.
 *
 * Life
 *   1. http_shared_new, before the reactors run.
 *   2. http_front_new for each reactor, on its thread or before it runs. It listens at once; requests
 *      are answered from the first turn on. /readyz says 503 until http_shared_set_ready(.., true).
 *   3. To stop: http_shared_set_ready(.., false), http_front_drain, then waiters_drain on each
 *      reactor's thread; `drained` is called on that thread once the last connection is closed.
 *   4. http_front_free after the reactor has stopped and while its queue and waiters still stand. It
 *      cuts what connections there are, turning the loop until they are closed; takes that wait are
 *      cancelled.
 *   5. http_shared_free last.
 *
 * The front keeps the waiters' time: it calls waiters_expire when waiters_next_ms says so.
 */
#ifndef TARRY_HTTP_FRONT_H
#define TARRY_HTTP_FRONT_H

#include "base/metric.h"
#include "net/listener.h"
#include "net/reactor.h"
#include "net/tls.h"
#include "queue/lateness.h"
#include "queue/waiter.h"

struct feed_desk;
struct http_front;
struct http_shared;

/* A zero means the default that stands with it. */
struct http_options {
    struct listeners *listeners; /* open; what the front accepts from; outlives it */
    struct feed_desk *desk;      /* where the front listens to what happens; NULL: to nothing */
    const char
        *allowed_hosts;       /* names beside its own, see host.h; NULL: none; outlives the front */
    const char *cors_origins; /* of pages that may use the API, see cors.h; NULL: none; likewise */
    uint64_t body_bytes_max;  /* of one job; 1 MiB */
    uint64_t batch_bytes_max; /* of a batch push; 16 MiB */
    uint32_t connections_max; /* of this front; 10,000 */
    uint32_t waiting_max;     /* as waiters_new was given, to be named in answers; 10,000 */
    int64_t idle_ms;          /* a connection without a request, or that takes no bytes; 60 s */
    int64_t header_ms;        /* from the first byte of a request to the end of its header; 10 s */
    int64_t body_ms;          /* from there to the end of its body; 120 s */
};

/* What the fronts of a server have in common. `version` must outlive it. NULL when out of memory.
 */
struct http_shared *http_shared_new(const char *version);
void http_shared_free(struct http_shared *shared);
/* What requests, answers and waiting takes may take together, beyond which there is 503; 0: 256 MiB.
 * Before the reactors run. */
void http_shared_set_memory(struct http_shared *shared, uint64_t bytes_max);
/* What counts it, for fronts of other protocols. It lives as long as `shared`. */
struct budget *http_shared_budget(struct http_shared *shared);
/* How late jobs are; as many topics as it tells apart have lines of their own at /metrics, the
 * largest, and the rest is summed up; without it 200. Before the reactors run; outlives the fronts. */
void http_shared_set_lateness(struct http_shared *shared, struct lateness *lateness);
/* Calls that are not this API's, behind those that are: rows as route.h has them, each with `about`,
 * which outlives the fronts. Before the reactors run. */
struct http_route;
void http_shared_add_routes(struct http_shared *shared, const struct http_route *rows,
                            const void *about);
/* Any thread: what /readyz says. */
void http_shared_set_ready(struct http_shared *shared, bool ready);
/* Any thread: what listeners with TLS speak with those who come from now on. Holds the context. */
void http_shared_set_tls(struct http_shared *shared, struct tls_context *context);
/* Something that adds to /metrics, part by part: part 0, 1, … each in a turn of its own, until it
 * returns false and has written nothing. A part takes well under a millisecond. Called on any
 * reactor's thread. Before the reactors run; one. */
void http_shared_add_metrics(struct http_shared *shared,
                             bool (*emit)(void *ctx, struct metric_page *page, uint32_t part),
                             void *ctx);
/* The rows of what this room itself writes there. */
extern const struct metric http_topic_metrics[], http_store_metrics[], http_metrics[],
    http_server_metrics[];

/* Who may call, and what; without it everybody may do everything. Before the reactors run; it must
 * outlive the fronts. */
struct access;
void http_shared_set_access(struct http_shared *shared, struct access *access);

/* What makes spans of pushes and takes; NULL: nothing does. Before the reactors run; outlives the
 * fronts. */
struct tracer;
void http_shared_set_tracer(struct http_shared *shared, struct tracer *tracer);

/* What limits are held against; NULL: nothing is counted. Before the reactors run; outlives the
 * fronts. */
struct quota;
void http_shared_set_quota(struct http_shared *shared, struct quota *quota);
/* From now on the server looks at itself (sampler.h), at home on this reactor with its queue: without
 * that nobody can listen to it, and there is no status. Before the reactors run. False: no memory. */
bool http_shared_look(struct http_shared *shared, struct reactor *reactor, struct queue *queue);
/* Any thread: when the certificate ends that clients see, of Unix time; 0: there is none. */
void http_shared_note_certificate(struct http_shared *shared, int64_t ends_s);
/* What the process may use; 0: no limit. Before the reactors run. */
void http_shared_set_process_memory(struct http_shared *shared, uint64_t bytes_max);
/* Bytes that have come at all fronts. Any thread. */
uint64_t http_shared_bytes_in(struct http_shared *shared);
/* `wake` is called once, on the thread of a front, when bytes come again. */
void http_shared_wake_once(struct http_shared *shared, void (*wake)(void *ctx), void *ctx);
/* Any thread: what it uses, and whether that is too much for pushes. */
void http_shared_note_memory(struct http_shared *shared, uint64_t bytes, bool is_spent);

/*
 * What the server lends the fronts for topics that deliver by themselves. Without hooks settings
 * with an extension are refused, and so are callbacks.
 */
enum { HTTP_HOOK_ERROR_BYTES = 512 };
typedef void http_tested(void *owner, uint64_t tag, enum queue_status status, struct slice json);
struct http_hooks {
    void *ctx;
    /* Any thread. False: nothing is delivered now, as without hooks. NULL: it always is. */
    bool (*is_on)(void *ctx);
    /* Any thread. False: `error` (HTTP_HOOK_ERROR_BYTES) says what is wrong and what to do. */
    bool (*check_extension)(void *ctx, struct slice topic, struct slice extension, char *error);
    /* Any thread. Do jobs of a topic with this extension, which was found right, go over to another
     * topic of the queue? Then `other` (JOB_TOPIC_BYTES_MAX + 1) is that. NULL: never. */
    bool (*other_topic)(void *ctx, struct slice extension, char *other);
    bool (*check_callback)(void *ctx, struct slice url, char *error);
    /* Any thread. The endpoints of a topic with this extension, as JSON objects with commas between;
     * those that topics share for who `sees_all` of them. NULL: none are shown. */
    void (*write_endpoints)(void *ctx, struct slice extension, bool sees_all, struct buffer *out);
    /* Sends a sample to the topic's target. `done` comes on the calling reactor's thread, once,
     * never inside the call; `json` is an object that explains the outcome. */
    void (*test)(void *ctx, struct reactor *reactor, struct slice topic, struct slice body,
                 http_tested *done, void *owner, uint64_t tag);
};
/* Before the reactors run; `hooks` must outlive the fronts. */
void http_shared_set_hooks(struct http_shared *shared, const struct http_hooks *hooks);

/*
 * What the server lends the fronts so that clients can back up a store that works on: its files stay
 * where they are while somebody copies them. `done` comes as in http_hooks.test, inside the call only
 * where there is no memory; `json` describes the backup. QUEUE_NOT_FOUND: there is no such backup (any
 * more); QUEUE_CONFLICT: there are too many. Without it there is no backup through this server.
 */
enum http_backup { HTTP_BACKUP_BEGIN = 1, HTTP_BACKUP_RENEW, HTTP_BACKUP_END };
struct http_backup_hooks {
    void *ctx;
    void (*backup)(void *ctx, struct reactor *reactor, enum http_backup what, struct slice id,
                   http_tested *done, void *owner, uint64_t tag);
};
/* Before the reactors run; `hooks` must outlive the fronts. */
void http_shared_set_backup_hooks(struct http_shared *shared,
                                  const struct http_backup_hooks *hooks);

/*
 * What the server lends the fronts where its jobs go by a test clock: where it stands, and how it is moved. Without
 * it the jobs' clock is an ordinary one, and the calls about it are refused.
 */
#define HTTP_CLOCK_TO_NEXT INT64_MAX
struct http_clock_call {
    enum http_clock_verb { HTTP_CLOCK_ADVANCE = 1, HTTP_CLOCK_RESET } verb;
    int64_t by_ms; /* a delay of so long is over then; -1: not given */
    int64_t to_ms; /* wall clock; HTTP_CLOCK_TO_NEXT: until something happens; -1: not given */
    bool waits_idle;
    int64_t timeout_ms; /* of that, real time */
    enum http_clock_auto { HTTP_AUTO_AS_IT_IS = 0, HTTP_AUTO_ON, HTTP_AUTO_OFF } set_auto;
};
enum http_clock_outcome {
    HTTP_CLOCK_DONE = 1,
    HTTP_CLOCK_PAST,    /* `to_ms` lies behind the clock; nothing was done */
    HTTP_CLOCK_TOO_FAR, /* further than a clock goes; nothing was done */
    HTTP_CLOCK_NOT_IDLE, /* `leased` jobs were not settled in time: the clock stands where it has come to */
    HTTP_CLOCK_STOPPING,
    HTTP_CLOCK_FAILED /* the store did not answer, or there is no memory */
};
struct http_clock_answer {
    enum http_clock_outcome outcome;
    uint64_t happened; /* jobs that fell due or expired, leases that ended, … on the way */
    uint64_t leased;
};
typedef void http_clock_done(void *owner, uint64_t tag, const struct http_clock_answer *answer);
struct clock;
struct http_clock_hooks {
    void *ctx;
    struct clock *clock; /* any thread may read it */
    int64_t start_ms;    /* where a reset puts it, wall clock */
    /* Any thread. */
    bool (*is_auto)(void *ctx);
    /* One after the other, in the order in which they come. `done` comes on the calling reactor's thread, inside
     * the call only where there is no memory. */
    void (*call)(void *ctx, struct reactor *reactor, const struct http_clock_call *call,
                 http_clock_done *done, void *owner, uint64_t tag);
};
/* Before the reactors run; `hooks` must outlive the fronts. */
void http_shared_set_clock_hooks(struct http_shared *shared, const struct http_clock_hooks *hooks);
/* What the server lends the fronts so that callers can have new jobs refused, on all its reactors. `done`
 * comes on the thread of `reactor`, once, never inside the call. False: out of memory. */
struct http_drain_hooks {
    void *ctx;
    bool (*drain)(void *ctx, bool on, struct reactor *reactor,
                  void (*done)(void *owner, uint64_t tag), void *owner, uint64_t tag);
};
/* Before the reactors run; `hooks` must outlive the fronts. */
void http_shared_set_drain_hooks(struct http_shared *shared, const struct http_drain_hooks *hooks);

/* What the server knows of its store, for GET /v1/server: `write_store` adds the members `,"shards":…`
 * and `,"disk":…`. On any reactor's thread. Without it there are none. */
struct http_server_hooks {
    void *ctx;
    void (*write_store)(void *ctx, struct buffer *out);
};
/* Before the reactors run; `hooks` must outlive the fronts. */
void http_shared_set_server_hooks(struct http_shared *shared,
                                  const struct http_server_hooks *hooks);

/* 0 or negative errno, then `error` (LISTENER_ERROR_BYTES) says what, where and what to do. */
int http_front_new(struct reactor *reactor, struct queue *queue, struct waiters *waiters,
                   const struct http_options *options, struct http_shared *shared,
                   struct http_front **out, char *error);
/* On the reactor's thread: other names, origins, numbers and times from now on; a zero is the default
 * again. Listeners, waiting_max and the sizes of bodies stay. */
void http_front_change(struct http_front *front, const struct http_options *options);
/*
 * Answers what is under way, what has come and what is about to: connections that wait to be accepted
 * are, and those that were used a moment ago may ask once more, for HTTP_POLITE_MS. The last answer of
 * a connection says `Connection: close`. Who is in the midst of a request may end it, as long as the
 * caller has patience. Takes that wait are answered when the caller calls waiters_drain. Then
 * `drained`, once, never inside the call.
 */
void http_front_drain(struct http_front *front, void (*drained)(void *ctx), void *ctx);
void http_front_free(struct http_front *front);

#endif
