/*
 * The room's own structures. One thread: the reactor's.
 *
 * connection  a socket with its input, its output, and the exchanges under way on it, in order
 * exchange    one request from its head to its answer; found again by a tag across the queue
 * call        what a handler gets to see of a request, during the call only
 *
 * A connection does nothing to itself in the middle of things: it is put on the front's dirty list,
 * and at the end of the turn output.c writes what is to be written and decides how to go on.
 */
#ifndef TARRY_HTTP_PRIVATE_H
#define TARRY_HTTP_PRIVATE_H

#include "base/histogram.h"
#include "base/list.h"
#include "base/slab.h"
#include "http/front.h"
#include "http/host.h"
#include "http/query.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_PENDING_MAX = 256,             /* exchanges of one connection */
    HTTP_OUT_BYTES_PAUSE = 1024 * 1024, /* beyond it no more requests of that connection are read */
    HTTP_READ_BYTES = 128 * 1024,       /* one read at most, shared by all connections */
    HTTP_TAKE_BYTES_MAX = 16 * 1024 * 1024, /* answer of a take: jobs beyond it go back */
    HTTP_OUT_BYTES_MAX = 1 << 30,           /* never met: admission keeps answers far below */
    HTTP_LATE_MS =
        1000, /* a turn that comes so long after the last one: did the loop stand still? */
    HTTP_CONNECTION_BYTES = 1024,        /* what an open connection takes, about */
    HTTP_BUDGET_SMALL_BYTES = 16 * 1024, /* allowed whatever the budget says */
    HTTP_SWEEPS_MAX = 4,                 /* of a front, at a time */
    HTTP_SPARES_MAX = 64,
    HTTP_SPARE_BYTES_MAX = 256 * 1024,
    HTTP_ROUTES_MAX = 40,
    HTTP_FRONTS_MAX = 256
};

/* What a connection may be waited for, and so how long. */
enum http_phase {
    HTTP_PHASE_NONE = 0, /* for the queue: as long as it takes */
    HTTP_PHASE_IDLE,     /* the next request */
    HTTP_PHASE_HEAD,
    HTTP_PHASE_BODY,
    HTTP_PHASE_WRITE,  /* the peer does not take its answers */
    HTTP_PHASE_HELD,   /* requests wait for their turn and nothing is read: is the peer there? */
    HTTP_PHASE_LINGER, /* the peer has still to see why it was refused */
    HTTP_PHASE_COUNT
};

struct http_call;

enum http_body_kind {
    HTTP_BODY_NONE = 0, /* the call takes none */
    HTTP_BODY_SMALL,
    HTTP_BODY_JOB,
    HTTP_BODY_BATCH
};

/* How long an answer may get; see admission.c. */
enum http_answer_kind {
    HTTP_ANSWER_SHORT = 0,
    HTTP_ANSWER_JOB,
    HTTP_ANSWER_TAKE, /* as many jobs as it asks for */
    HTTP_ANSWER_LONG
};

struct http_route {
    enum http_method method;
    const char *pattern; /* "/v1/topics/{topic}/jobs/{id}" */
    const char *name;    /* in metrics */
    void (*handle)(struct http_call *call);
    uint32_t options; /* OPTION_BIT each */
    bool takes_meta;
    enum http_body_kind body;
    enum http_answer_kind answer;
};

struct http_connection;

/* What a call is about, for the refusal that there is none. Other than NONE: `note` holds the
 * topic, and behind a slash the id of a job. */
enum http_subject {
    HTTP_SUBJECT_NONE = 0,
    HTTP_SUBJECT_TOPIC,
    HTTP_SUBJECT_JOB,
    HTTP_SUBJECT_DEAD_JOB
};

struct http_exchange {
    uint32_t slab_link; /* the slab's */
    uint32_t serial;    /* never 0 while in use */
    uint32_t id;
    uint32_t count; /* of a batch: items */
    struct http_front *front;
    struct http_connection *connection; /* NULL: it is gone, the answer goes nowhere */
    struct http_exchange *next;         /* later one of the same connection */
    const struct http_route *route;     /* NULL: refused before there was one */
    int64_t started_us;
    uint64_t waiter; /* handle of a take under way, else 0 */
    bool answered;   /* `reply` waits for its turn */
    bool is_head, is_http_1_0;
    bool waits, wants_raw, wants_lines;
    enum http_bodies bodies;    /* of a list */
    bool is_dry_run;            /* of a sweep */
    bool is_single;             /* answers: one lease, named in the query */
    struct http_change *change; /* see change.c; NULL: the call is none */
    enum http_subject subject;
    bool is_long;         /* counted in front->long_count */
    bool has_leases;      /* the note holds those of the answer: lease_note.c */
    bool is_unheld;       /* a take that waits not, for want of memory */
    uint32_t weight;      /* counted in connection->weight */
    size_t bytes_counted; /* in the budget */
    size_t lease_at;      /* of its leases in connection->unsent */
    struct buffer reply;
    struct buffer note; /* a handler's own, for when the queue has answered */
};

struct http_writing;

struct http_connection {
    uv_tcp_t tcp;
    struct http_front *front;
    struct list node;      /* in front->connections */
    struct list dirty;     /* in front->dirty, or alone */
    struct list timed;     /* in front->timed[phase], or alone */
    struct list long_line; /* in front->long_line, or alone */
    int64_t until_ms;
    enum http_phase phase;
    bool is_reading, is_blocked, is_closing, lingers, is_lingering, saw_end, is_cut;
    bool is_crowd;   /* beyond the limit: here only to be told so */
    bool peer_ended; /* it sends no more, and may be gone */
    bool is_starved; /* the last read found no memory for its bytes in the budget */
    uint32_t exchange_count;
    uint32_t weight;     /* of the exchanges under way */
    uint32_t wait_count; /* takes among them that may wait */
    uint32_t pauses;     /* of the front, when this one was last asked whether it stands */
    struct http_exchange *first, *last;
    char *in; /* what came and is not a whole request yet; NULL: nothing */
    size_t in_len, in_cap;
    struct http_framing framing;
    struct buffer out;
    size_t out_counted;           /* of `out`, in the budget */
    uint64_t out_at;              /* of its first byte, in the stream of answers */
    struct buffer unsent;         /* leases in answers that are not written yet */
    struct http_writing *writing; /* what the socket did not take at once */
    size_t write_left;            /* at the last look, in phase WRITE */
};

/* Read by other threads, written by one. */
struct http_counters {
    _Atomic uint64_t requests[HTTP_ROUTES_MAX][6]; /* by route, by hundreds of the status */
    _Atomic uint64_t accepted, refused, bytes_in, bytes_out;
    _Atomic uint64_t connections, waiting;
};

struct http_front {
    struct reactor *reactor;
    struct queue *queue;
    struct waiters *waiters;
    struct http_shared *shared;
    struct http_options options;
    struct http_hosts hosts;
    uv_tcp_t listener;
    uint16_t port;
    struct list connections, dirty, timed[HTTP_PHASE_COUNT];
    uint32_t connection_count, crowd_count; /* the crowd is counted in both */
    uint32_t open_handles;                  /* connections and the listener */
    struct deadline *alarm;                 /* connections that take too long */
    struct deadline *expiry;                /* takes that waited long enough */
    int64_t alarm_ms, expiry_ms;
    struct list long_line; /* connections whose next request is a long one, not begun yet */
    uint32_t long_count;   /* long ones under way */
    uint32_t job_weight;   /* of a job's body in an answer: admission.c */
    struct slab exchanges;
    uint32_t serial;
    int64_t now_ms, now_us; /* of this turn; 0: not looked at yet */
    int64_t turn_ms;        /* when the last turn was that looked */
    uint32_t pauses; /* turns that came late: the loop had slept, or the process stood still */
    bool is_late;    /* this one is such a turn */
    int64_t date_s;
    bool has_date; /* in this turn */
    char date[32];
    bool is_draining, is_listening, is_ending;
    bool is_stalled; /* a connection could not be let in for want of memory: try again */
    void (*drained)(void *ctx);
    void *drained_ctx;

    char *read_at; /* HTTP_READ_BYTES */
    struct http_request request;
    struct http_query query;
    struct buffer meta, decoded, body, fields, arena;
    struct queue_push *pushes;    /* room for a batch, from the first one on */
    struct queue_answer *answers; /* the same for ack, nack, extend */
    struct buffer spares[HTTP_SPARES_MAX];
    uint32_t spare_count;
    uint32_t sweep_count; /* under way */

    struct http_counters counters;
    pthread_mutex_t lock; /* of the two histograms, in microseconds */
    struct histogram lateness, durations;
};

struct http_shared {
    const char *version;
    int64_t started_ms;
    atomic_bool is_ready;
    uint32_t metrics_topics; /* that have lines of their own at /metrics */
    void (*emit)(void *ctx, struct buffer *out);
    void *emit_ctx;
    const struct http_hooks *hooks;   /* NULL: none */
    const struct http_keeper *keeper; /* NULL: none */
    uint64_t memory_bytes_max;
    _Atomic uint64_t memory_bytes, memory_refused; /* budget.c */
    pthread_mutex_t lock;                          /* of the fronts */
    struct http_front *fronts[HTTP_FRONTS_MAX];
    uint32_t front_count;
};

struct http_call {
    struct http_front *front;
    struct http_exchange *exchange;
    const struct http_request *request;
    struct slice topic, id; /* from the path, unescaped */
    struct http_query *query;
};

/* ---- front.c ---- */

int64_t http_front_now_ms(struct http_front *front);
int64_t http_front_now_us(struct http_front *front);
/* A take waits until then at most. */
void http_front_wake_by(struct http_front *front, int64_t at_ms);
/* Memory for a buffer that has none, from the spares where there are some; and back. */
void http_front_lend(struct http_front *front, struct buffer *buffer);
void http_front_give_back(struct http_front *front, struct buffer *buffer);

static inline void http_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* ---- budget.c ---- */

void http_budget_add(struct http_front *front, size_t bytes);
void http_budget_remove(struct http_front *front, size_t bytes);
uint64_t http_budget_used(const struct http_shared *shared);
/* Is there room for so much more, as it is not little? */
bool http_budget_has_room(const struct http_front *front, size_t bytes);
/* Says so in *fault, and counts it. */
void http_budget_refuse(struct http_front *front, struct http_fault *fault);

/* Is there room for so much more? Little is always allowed, so that a good client with small jobs
 * is served whatever others do. */
static inline bool http_budget_has(const struct http_front *front, size_t bytes)
{
    return bytes <= HTTP_BUDGET_SMALL_BYTES || http_budget_has_room(front, bytes);
}

static inline bool http_budget_is_spent(const struct http_front *front)
{
    return atomic_load_explicit(&front->shared->memory_bytes, memory_order_relaxed) >=
           front->shared->memory_bytes_max;
}

/* ---- admission.c ---- */

/* The request just parsed: may it begin now? Then *weight is for http_admission_begin. Else it
 * keeps its place, and the connection is touched when it is to ask again. */
bool http_admission_ask(struct http_connection *connection, const struct http_route *route,
                        uint32_t *weight);
/* Only for a weight other than 0. */
void http_admission_begin(struct http_exchange *exchange, uint32_t weight);
/* A take that may wait, once begun. */
void http_admission_wait(struct http_exchange *exchange);
/* Of one that is long or counted in the budget; the exchange itself calls it. */
void http_admission_end(struct http_exchange *exchange);
/* Once, when the options are set. */
void http_admission_init(struct http_front *front);
/* The connection has no request any more that is to begin. */
void http_admission_leave_line(struct http_connection *connection);

/* ---- lease_note.c ---- */

/* Right before the answer ends. False: no memory. */
bool http_lease_note(struct http_exchange *exchange, const struct queue_job *jobs, size_t count);
/* The answer is in the connection's `out` and ends at `end` of its stream. */
void http_lease_hand_over(struct http_exchange *exchange, uint64_t end);
/* So much of the stream has left: its leases are the client's. */
void http_lease_written(struct http_connection *connection, uint64_t written);
/* The jobs of answers that did not leave go back. */
void http_lease_return_unsent(struct http_connection *connection, uint64_t written);
void http_lease_return_note(struct http_exchange *exchange);

/* ---- connection.c ---- */

void http_connection_accept(struct http_front *front, uv_stream_t *listener);
/* At once; exchanges under way lose it, takes that wait are cancelled. */
void http_connection_cut(struct http_connection *connection);
void http_connection_touch(struct http_connection *connection); /* makes it dirty */
void http_connection_wait(struct http_connection *connection, enum http_phase phase, bool anew);
void http_connection_refuse(struct http_connection *connection, const struct http_fault *fault);
void http_connections_expire(struct http_front *front);

/* ---- input.c ---- */

void http_input_start(struct http_connection *connection);
void http_input_stop(struct http_connection *connection);
void http_input_resume(struct http_connection *connection);
void http_input_drop(struct http_connection *connection);
/* Nothing is read, so an end would not be noticed: looks for one. */
void http_input_probe(struct http_connection *connection);
/* What is waited for, as far as input goes. */
enum http_phase http_input_phase(const struct http_connection *connection);

/* ---- output.c ---- */

/* End of a turn: true when there is more to do at once. */
bool http_output_flush(struct http_front *front);
void http_output_drop(struct http_connection *connection);

/* ---- exchange.c ---- */

/* The last of its connection. NULL when out of memory. */
struct http_exchange *http_exchange_add(struct http_connection *connection);
uint64_t http_exchange_tag(const struct http_exchange *exchange);
struct http_exchange *http_exchange_find(struct http_front *front, uint64_t tag);
/* The connection goes: free what is answered or waits, leave the rest to the queue's reply. */
void http_exchange_orphan(struct http_exchange *exchange);

/* The take found nothing, or may not hand out any more: `{"jobs":[]}` or 204. */
void http_answer_no_jobs(struct http_exchange *exchange);

/* An answer: start, fields and body in any order, end. The exchange is over with it. */
struct buffer *http_answer_start(struct http_exchange *exchange);
void http_answer_field(struct http_exchange *exchange, const char *name, struct slice value);
void http_answer_end(struct http_exchange *exchange, uint16_t status, const char *content_type);
/* The same for JSON, with a line end: on a terminal the prompt then begins a line of its own. */
void http_answer_end_json(struct http_exchange *exchange, uint16_t status);
void http_answer_fault(struct http_exchange *exchange, const struct http_fault *fault);
/* Notes what the call is about; `id` counts for jobs only. */
void http_note_subject(struct http_call *call, enum http_subject subject, struct slice id);
struct slice http_noted_topic(const struct http_exchange *exchange);

void http_answer_refusal(struct http_exchange *exchange, enum queue_status status,
                         const char *detail, enum job_state state);
void http_answer_continue(struct http_exchange *exchange);

/* ---- response.c ---- */

struct http_response {
    uint16_t status;
    const char *content_type; /* NULL: no body and no length, as 204 */
    struct slice fields;      /* whole lines */
    size_t body_bytes;
    bool closes, keeps; /* Connection: close, keep-alive */
};
void http_response_write(struct buffer *out, const char *date,
                         const struct http_response *response);

/* ---- route.c ---- */

struct http_match {
    const struct http_route *route;
    struct slice topic, id; /* as sent */
};
/* On false *fault says why; `allow` then holds the methods of the path, if it is one. */
bool http_route_find(const struct http_request *request, struct http_match *out,
                     struct buffer *allow, struct http_fault *fault);
const struct http_route *http_route_at(uint32_t index); /* NULL past the end */
uint32_t http_route_index(const struct http_route *route);

/* ---- change.c ---- */

/* What an operator is about to change; `event` names it in the log. Told there once, by
 * http_change_end, where it happened or may have. */
void http_change_begin(struct http_call *call, const char *event, bool counts_jobs);
void http_change_end(struct http_exchange *exchange, enum queue_status status, uint64_t jobs);

/* ---- handlers ---- */

struct queue_reply_to http_reply_to(struct http_call *call, queue_done *done);
/* The topic as it is now, from the reply of get, put, pause or resume. */
void http_answer_topic(void *owner, uint64_t tag, const struct queue_reply *reply);
/* How many jobs it concerned; the note has the topic's name. */
void http_answer_affected(void *owner, uint64_t tag, const struct queue_reply *reply);

void http_push(struct http_call *call);
void http_batch(struct http_call *call);
void http_take(struct http_call *call);
void http_ack(struct http_call *call);
void http_nack(struct http_call *call);
void http_extend(struct http_call *call);
void http_job_get(struct http_call *call);
void http_job_reschedule(struct http_call *call);
void http_job_cancel(struct http_call *call);
void http_job_run(struct http_call *call);
void http_list(struct http_call *call);
void http_topics(struct http_call *call);
void http_topic_get(struct http_call *call);
void http_topic_put(struct http_call *call);
void http_topic_patch(struct http_call *call);
void http_topic_delete(struct http_call *call);
void http_topic_pause(struct http_call *call);
void http_topic_resume(struct http_call *call);
void http_topic_purge(struct http_call *call);
void http_topic_redrive(struct http_call *call);
void http_deliver_test(struct http_call *call);
void http_backup_begin(struct http_call *call);
void http_backup_renew(struct http_call *call);
void http_backup_end(struct http_call *call);
void http_root(struct http_call *call);
void http_info(struct http_call *call);
void http_healthz(struct http_call *call);
void http_readyz(struct http_call *call);
void http_metrics(struct http_call *call);
void http_openapi(struct http_call *call);
void http_problem_get(struct http_call *call);

#endif
