/*
 * quota: what the limits of access/quota.h mean for connections, requests and takes. Those of pushes are rules of the
 * queue's door (access/call.h).
 *
 * A connection counts for its address until it has shown a caller with a name, then for that caller.
 * A request is charged once, as it begins. What a caller is refused by name of a limit is 429 with
 * Retry-After. Without a quota
 * (http_shared_set_quota) nothing is counted. One thread: the reactor's.
 */
#ifndef TARRY_HTTP_QUOTA_H
#define TARRY_HTTP_QUOTA_H

#include "access/quota.h"
#include "http/fault.h"
#include "queue/queue.h"

struct http_call;
struct http_connection;
struct http_exchange;
struct http_front;

/* What a connection has of it. Zeroed: nothing. */
struct http_quota {
    struct quota_account *address; /* held */
    struct quota_account *caller;  /* held; NULL: none has shown itself */
    bool is_counted;               /* among the address's or the caller's connections */
    bool is_refused;               /* the caller has too many already: so with each request */
    bool is_local;                 /* of this machine */
};

/* Counts what meets one of the limits that are the same for all: by the problem or the refusal that it
 * is answered with. Any other is none. */
void http_quota_note_problem(struct http_front *front, enum http_problem problem);
void http_quota_note_refusal(struct http_front *front, enum queue_status status);

/* It has just come in. False: its address has enough; *fault says so. */
bool http_quota_accept(struct http_connection *connection, struct http_fault *fault);
void http_quota_fini(struct http_connection *connection);

/* The connection's gate has another caller now. */
void http_quota_switch(struct http_connection *connection);

/* May one more request begin? */
bool http_quota_request(struct http_connection *connection, struct http_fault *fault);
/* May one more take wait? It does then, until its exchange ends. */
bool http_quota_wait(struct http_exchange *exchange, struct http_fault *fault);
void http_quota_wait_ends(struct http_exchange *exchange);

#endif
