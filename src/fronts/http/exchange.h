/*
 * exchange: one request, from its head to its answer. The queue refers to it by a tag, since its
 * client may be gone when the queue replies. Answers are sent in the order of the requests.
 *
 * A handler reads the call, which is valid only during the handler, and calls the queue with
 * http_reply_to. The queue's reply finds the exchange (NULL: the client is gone) and answers it
 * once. Runs on the reactor thread.
 */
#ifndef TARRY_HTTP_EXCHANGE_H
#define TARRY_HTTP_EXCHANGE_H

#include "http/gate.h"
#include "http/problem.h"
#include "http/state.h"

enum {
    HTTP_TAKE_BYTES_MAX = 16 * 1024 * 1024, /* of a take's answer; jobs above it are returned */
    HTTP_SWEEPS_MAX = 4                     /* of a front, at the same time */
};

struct http_connection;

/* The object of a call, for an answer that it does not exist. Except for NONE, `note` holds the
 * topic, followed by a zero byte and the id for a job. */
enum http_subject {
    HTTP_SUBJECT_NONE = 0,
    HTTP_SUBJECT_TOPIC,
    HTTP_SUBJECT_JOB,
    HTTP_SUBJECT_DEAD_JOB
};

struct http_exchange {
    uint32_t slab_link; /* used by the slab */
    uint32_t serial;    /* never 0 while in use */
    uint32_t id;
    uint32_t count; /* number of items of a batch */
    struct http_front *front;
    struct http_connection *connection; /* NULL: closed, the answer is dropped */
    struct http_exchange *next;         /* next one of the same connection */
    struct http2_stream *frames;        /* its stream of HTTP/2, or NULL */
    const struct http_route *route;     /* NULL: refused before routing */
    int64_t started_us;
    uint64_t waiter;        /* handle of a waiting take, or 0 */
    struct ends_wait *ends; /* wait for the ends of jobs, or NULL */
    bool answered;          /* `reply` is complete and waits to be sent in order */
    bool is_head, is_http_1_0;
    uint16_t cors_origin; /* origin of the page that makes the request (site.h), or 0 */
    bool waits, wants_raw, wants_lines;
    enum http_bodies bodies;      /* bodies in a list */
    bool is_dry_run;              /* for a sweep */
    bool is_single;               /* the call settles one lease, given in the query */
    uint16_t status_counted;      /* by the metrics, if the answer has another one; or 0 */
    bool is_plural;               /* a list was given, if only of one: each item has its result */
    struct audit_change *change;  /* see http_change_begin; NULL: the call changes nothing */
    struct trace_span *span;      /* span of a sampled push, or NULL */
    const char *outcome;          /* code of the problem in the answer */
    struct access_caller *caller; /* reference, kept if it is needed after the handler; else NULL */
    uint64_t generation;          /* generation of the callers at that time */
    enum http_subject subject;
    bool is_long;                   /* counted in front->long_count */
    bool is_waiting;                /* counted in connection->wait_count */
    struct quota_account *waits_of; /* account that also counts the wait; a reference */
    bool has_leases;            /* of the answer: in `leases`, or in connection->unsent.leases */
    bool is_partial;            /* see http_exchange_hold_back */
    bool is_unheld;             /* a take that does not wait because memory is short */
    uint32_t weight;            /* its part of connection->weight */
    size_t bytes_counted;       /* its bytes in the budget */
    size_t lease_at;            /* offset of its leases in connection->unsent.leases */
    struct buffer leases;       /* of an answer before its turn to be sent (unsent.h) */
    struct http_stream *stream; /* stream of an open answer, see stream.h; else NULL */
    bool has_soon;              /* get of a topic: `soon` is known */
    uint64_t soon;              /* its jobs that fall due within the next minute */
    struct buffer reply;
    struct buffer note; /* data of the handler for the queue's reply */
};

struct http_call {
    struct http_front *front;
    struct http_exchange *exchange;
    struct access_caller *caller;
    const struct http_request *request;
    struct slice topic, id; /* from the path, decoded */
    struct http_query *query;
};

/* ---- lookup by tag ---- */

/* Adds an exchange at the end of its connection. Returns NULL if out of memory. */
struct http_exchange *http_exchange_add(struct http_connection *connection);
uint64_t http_exchange_tag(const struct http_exchange *exchange);
struct http_exchange *http_exchange_find(struct http_front *front, uint64_t tag);
/* Returns whether work on the exchange should continue: false if its client has gone, sends no more
 * (and so may be gone), or if the server is shutting down. */
bool http_exchange_is_wanted(struct http_front *front, uint64_t tag);
/* Finds the exchange of a reply, as http_exchange_find. If the whole call was refused, answers with
 * the refusal and returns NULL. If its client is gone and it only reads, counts it, frees it and
 * returns NULL. */
struct http_exchange *http_exchange_replied(struct http_front *front, uint64_t tag,
                                            const struct queue_reply *reply);
/* Separates the exchange from its closing connection. Frees it if it is answered, waits or only
 * reads; else the queue's reply frees it. A read that is not answered is counted. A long call keeps
 * its place among those in progress until the reply. */
void http_exchange_orphan(struct http_exchange *exchange);
/* Releases what the exchange holds and has counted, and frees it. For the wire of its connection,
 * when the answer is written. */
void http_exchange_release(struct http_exchange *exchange);
/* Returns where the queue's reply to this call goes, and the caller. Valid for one call of the
 * queue, made immediately. */
struct queue_reply_to http_reply_to(struct http_call *call, queue_done *done);
/* The same for a call that only reads: the jobs need not be read if the client is gone by then. */
struct queue_reply_to http_read_reply_to(struct http_call *call, queue_done *done);
/* The same without the call: for its handler, or for a later step if the exchange has kept its
 * caller (http_gate_keep). */
struct queue_reply_to http_exchange_reply_to(struct http_exchange *exchange, queue_done *done);
/* Returns the caller only, for a step whose reply goes elsewhere. */
const struct queue_caller *http_exchange_caller(struct http_exchange *exchange);

/* ---- answers ---- */

/* Starts an answer; fields and body follow in any order. The end of the answer ends the
 * exchange. */
struct buffer *http_answer_start(struct http_exchange *exchange);
void http_answer_field(struct http_exchange *exchange, const char *name, struct slice value);
/* Adds a field that follows the body. HTTP/1.1 leaves it out. */
void http_answer_trailer(struct http_exchange *exchange, const char *name, struct slice value);
void http_answer_end(struct http_exchange *exchange, uint16_t status, const char *content_type);
/* The type of most answers. Its address is recognized, so give this one. */
extern const char http_json_type[];
/* Ends an answer in JSON with a newline, so that a terminal shows its prompt on a new line. */
void http_answer_end_json(struct http_exchange *exchange, uint16_t status);
void http_answer_fault(struct http_exchange *exchange, const struct http_fault *fault);
void http_answer_problem(struct http_exchange *exchange, enum http_problem problem, uint64_t limit,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Starts an answer that stays open: sends its head. On HTTP/1.1 the connection accepts no more
 * requests. */
void http_answer_open(struct http_exchange *exchange, const char *content_type);
/* Writes a part of an open answer. */
void http_answer_write(struct http_exchange *exchange, struct slice text);
/* Returns how many bytes of an open answer are not written yet; SIZE_MAX: its client does not
 * read. */
size_t http_answer_unsent(const struct http_exchange *exchange);
/* Ends an open answer and its exchange. */
void http_answer_close(struct http_exchange *exchange);
/* Holds back the later requests of the connection while the queue does not have the whole call yet,
 * so that they cannot overtake it, and lets them go. */
void http_exchange_hold_back(struct http_exchange *exchange);
void http_exchange_let_go(struct http_exchange *exchange);
/* Records the object of the call. `id` applies to jobs only. */
void http_note_subject(struct http_call *call, enum http_subject subject, struct slice id);

void http_answer_refusal(struct http_exchange *exchange, enum queue_status status,
                         const char *detail, enum job_state state);
/* Answers with the result of the single item of the call. */
void http_answer_result(struct http_exchange *exchange, const struct queue_result *result);
/* Answers a take that found no jobs, or may not hand out more, with `{"jobs":[]}` or 204. */
void http_answer_no_jobs(struct http_exchange *exchange);
void http_answer_continue(struct http_exchange *exchange);

/* Answers a call for many jobs that stopped early, with the number of jobs changed so far. */
void http_answer_stopped(struct http_exchange *exchange, enum queue_status status, uint64_t jobs);
/* Starts `{"topic":…,"result":"ok","jobs":N`; the caller adds the end. The note holds the topic. */
struct buffer *http_answer_start_affected(struct http_exchange *exchange, uint64_t jobs);
/* Answers a delete, purge or redrive with the number of affected jobs. The note holds the topic. */
void http_answer_affected(void *owner, uint64_t tag, const struct queue_reply *reply);

/* Buckets of request durations, in microseconds. */
extern const struct bucket_bounds http_duration_bounds;

/* ---- queue of long requests: lists, and pages over all topics ---- */

enum { HTTP_LONG_COUNT_MAX = 2 }; /* running in a front at a time; others are queued */

/* Removes the connection from the queue if it has no long request left to start. */
void http_long_line_leave(struct http_connection *connection);

/* ---- changes by operators ---- */

/* Starts the audit record of a call: the action, the caller, and the topic if the call has one. The
 * answer completes the record and writes one event. */
void http_change_begin(struct http_exchange *exchange, const char *action,
                       const struct access_caller *caller, struct slice topic);
/* Adds to the number of affected jobs. Jobs of a topic call of the exchange are already counted. */
void http_change_count(struct http_exchange *exchange, uint64_t jobs);
/* Drops the record if the call changes nothing. */
void http_change_drop(struct http_exchange *exchange);
/* Completes the record. `outcome` NULL: success. */
void http_change_end(struct http_exchange *exchange, const char *outcome);

#endif
