/*
 * quota: applies the limits of access/quota.h to connections, requests and takes. Limits of pushes
 * are checked at the door of the queue (access/call.h).
 *
 * A connection counts for its address until a caller with a name has authenticated, then for that
 * caller. A request is charged once, when it begins. A request above a limit is answered with 429
 * and Retry-After. Without a quota (http_shared_set_quota) nothing is counted. Runs on the reactor
 * thread.
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

/* The quota state of a connection. Zeroed at first. */
struct http_quota {
    struct quota_account *address; /* account of the address; a reference */
    struct quota_account *caller;  /* the same of the named caller, or NULL */
    bool is_counted;               /* counted among the connections of the address or the caller */
    bool is_refused; /* the caller has too many connections, so each request is refused */
    bool is_local;   /* the peer is on this machine */
};

/* Counts a hit of a limit that is the same for all callers, by the problem or refusal in the
 * answer. Other problems are ignored. */
void http_quota_note_problem(struct http_front *front, enum http_problem problem);
void http_quota_note_refusal(struct http_front *front, enum queue_status status);

/* Counts a new connection. Returns false if its address has too many; *fault describes that. */
bool http_quota_accept(struct http_connection *connection, struct http_fault *fault);
void http_quota_fini(struct http_connection *connection);

/* Counts the connection for the new caller of its gate. */
void http_quota_switch(struct http_connection *connection);

/* Charges one request. Returns false if it is above a limit; *fault describes that. */
bool http_quota_request(struct http_connection *connection, struct http_fault *fault);
/* Counts a take that waits, until its exchange ends. Returns false if it may not wait; *fault
 * describes that. */
bool http_quota_wait(struct http_exchange *exchange, struct http_fault *fault);
void http_quota_wait_ends(struct http_exchange *exchange);

#endif
