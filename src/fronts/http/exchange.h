/*
 * exchange: one request from its head to its answer; found again by a tag across the queue, since
 * its client may be gone by then. Answers leave in the order of the requests.
 *
 * What a handler does: it reads the call, which is good during the handler only, asks the queue with
 * http_reply_to, and in the queue's reply finds the exchange (NULL: there is nobody to answer) and
 * answers it once. One thread: the reactor's.
 */
#ifndef TARRY_HTTP_EXCHANGE_H
#define TARRY_HTTP_EXCHANGE_H

#include "http/gate.h"
#include "http/problem.h"
#include "http/state.h"

enum {
    HTTP_TAKE_BYTES_MAX = 16 * 1024 * 1024, /* answer of a take: jobs beyond it go back */
    HTTP_SWEEPS_MAX = 4                     /* of a front, at a time */
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
    uint16_t cors_origin; /* of the page that asks, see cors.h; 0: none */
    bool waits, wants_raw, wants_lines;
    enum http_bodies bodies;      /* of a list */
    bool is_dry_run;              /* of a sweep */
    bool is_single;               /* answers: one lease, named in the query */
    struct audit_change *change;  /* see change.c; NULL: the call is none */
    struct trace_span *span;      /* of a push that is sampled; else NULL */
    const char *outcome;          /* code of the problem it is answered with */
    struct access_caller *caller; /* held, where it is needed beyond the handler; else NULL */
    uint64_t generation;          /* of what was known of callers when it was held */
    enum http_subject subject;
    bool is_long;                   /* counted in front->long_count */
    bool is_waiting;                /* counted in connection->wait_count */
    struct quota_account *waits_of; /* counted there as well; held */
    bool has_leases;                /* the note holds those of the answer */
    bool is_unheld;                 /* a take that waits not, for want of memory */
    uint32_t weight;                /* counted in connection->weight */
    size_t bytes_counted;           /* in the budget */
    size_t lease_at;                /* of its leases in connection->unsent */
    struct http_stream *stream;     /* its answer stays open, see stream.h; else NULL */
    struct buffer reply;
    struct buffer note; /* a handler's own, for when the queue has answered */
};

struct http_call {
    struct http_front *front;
    struct http_exchange *exchange;
    struct access_caller *caller;
    const struct http_request *request;
    struct slice topic, id; /* from the path, unescaped */
    struct http_query *query;
};

/* ---- found again by a tag ---- */

/* The last of its connection. NULL when out of memory. */
struct http_exchange *http_exchange_add(struct http_connection *connection);
uint64_t http_exchange_tag(const struct http_exchange *exchange);
struct http_exchange *http_exchange_find(struct http_front *front, uint64_t tag);
/* Nobody works on for a client that has gone (or sends no more: it may have), or while the server
 * goes down. */
bool http_exchange_is_wanted(struct http_front *front, uint64_t tag);
/* As http_exchange_find for a reply. NULL also where the whole call was refused: that is its answer then. */
struct http_exchange *http_exchange_replied(struct http_front *front, uint64_t tag,
                                            const struct queue_reply *reply);
/* The connection goes: free what is answered or waits, leave the rest to the queue's reply. */
void http_exchange_orphan(struct http_exchange *exchange);
/* Where the queue's reply to this call goes, and who makes it; for one call of the queue at once. */
struct queue_reply_to http_reply_to(struct http_call *call, queue_done *done);
/* The same without the call: in its handler, or in a later step if the exchange has kept its caller (http_gate_keep). */
struct queue_reply_to http_exchange_reply_to(struct http_exchange *exchange, queue_done *done);
/* Of a step whose reply goes elsewhere: only who makes it. */
const struct queue_caller *http_exchange_caller(struct http_exchange *exchange);

/* ---- answers ---- */

/* An answer: start, fields and body in any order, end. The exchange is over with it. */
struct buffer *http_answer_start(struct http_exchange *exchange);
void http_answer_field(struct http_exchange *exchange, const char *name, struct slice value);
void http_answer_end(struct http_exchange *exchange, uint16_t status, const char *content_type);
/* The same for JSON, with a line end: on a terminal the prompt then begins a line of its own. */
void http_answer_end_json(struct http_exchange *exchange, uint16_t status);
void http_answer_fault(struct http_exchange *exchange, const struct http_fault *fault);
void http_answer_problem(struct http_exchange *exchange, enum http_problem problem, uint64_t limit,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
/* An answer that stays open: its head goes out, and the connection takes no more requests. What follows
 * is written to the connection by stream.c, until the exchange is over with the second one. */
void http_answer_open(struct http_exchange *exchange, const char *content_type);
void http_answer_close(struct http_exchange *exchange);
/* Notes what the call is about; `id` counts for jobs only. */
void http_note_subject(struct http_call *call, enum http_subject subject, struct slice id);

void http_answer_refusal(struct http_exchange *exchange, enum queue_status status,
                         const char *detail, enum job_state state);
/* The same of the one item that was asked for. */
void http_answer_result(struct http_exchange *exchange, const struct queue_result *result);
/* The take found nothing, or may not hand out any more: `{"jobs":[]}` or 204. */
void http_answer_no_jobs(struct http_exchange *exchange);
void http_answer_continue(struct http_exchange *exchange);

/* `{"topic":…,"result":"ok","jobs":N`, without its end; the note has the topic. */
/* Answers a call for many jobs that stopped half-way, with how many it had changed by then. */
void http_answer_stopped(struct http_exchange *exchange, enum queue_status status, uint64_t jobs);
struct buffer *http_answer_start_affected(struct http_exchange *exchange, uint64_t jobs);
/* The reply to delete, purge or redrive: how many jobs it concerned; the note has the topic. */
void http_answer_affected(void *owner, uint64_t tag, const struct queue_reply *reply);

/* The statuses there are, as counters count them: their number is below HTTP_STATUSES. 0: no more. */
uint16_t http_status_at(size_t index);
/* How long requests took, in microseconds. */
extern const struct bucket_bounds http_duration_bounds;
/* The front ends: pages of metrics on their way are given up. */
void http_metrics_end(struct http_front *front);

/* ---- the line of long requests: lists, and pages over all topics ---- */

enum { HTTP_LONG_COUNT_MAX = 2 }; /* of a front, under way at a time; others stand in line */

/* The connection has no long request any more that is to begin. */
void http_long_line_leave(struct http_connection *connection);

/* ---- leases in answers that are not written yet ---- */

/*
 * Whatever ends a connection, jobs whose answer did not leave go back to the queue: nobody has seen
 * them, so it costs no attempt. Their leases are noted with the connection, or with the exchange
 * while it is not its turn, behind the offset in the stream at which the answer ends.
 */
/* Right before the answer ends. False: no memory. */
bool http_lease_note(struct http_exchange *exchange, const struct queue_job *jobs, size_t count);
/* So much of the connection's stream has left: the leases in it are the client's. Where no more will
 * leave (`is_over`) the jobs of all others go back. */
void http_lease_settle(struct http_connection *connection, uint64_t written, bool is_over);
/* The jobs of these go back. */
void http_lease_return(struct http_front *front, const struct slice *leases, size_t count);

/* ---- changes by operators ---- */

/* A call that the audit records has begun: what it does, by whom, with this topic where it is about one. Its answer
 * is the end: then one event is written. */
void http_change_begin(struct http_exchange *exchange, const char *action,
                       const struct access_caller *caller, struct slice topic);
/* So many jobs more were concerned; what a topic call of the exchange concerned is counted already. */
void http_change_count(struct http_exchange *exchange, uint64_t jobs);
/* It changes nothing after all, so there is nothing to tell. */
void http_change_drop(struct http_exchange *exchange);
/* `outcome` NULL: it was done. */
void http_change_end(struct http_exchange *exchange, const char *outcome);

/* Does the store keep a history? If not, that is answered. */
bool http_keeps_history(struct http_exchange *exchange);

#endif
