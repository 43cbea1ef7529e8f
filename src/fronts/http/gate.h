/*
 * gate: authentication and authorization of a request, by the row of its route (route.h). Checked
 * when the head of a request has arrived, before its body is read.
 *
 * A connection remembers its last caller with the Authorization line, so a repeated line needs no
 * new lookup. When the set of callers changes, each caller is authenticated again with the next
 * request, and waiting takes are checked within a second: if the caller is no longer valid, its
 * take is answered with 401. Jobs that arrive for such a take are returned.
 *
 * Without access rules (http_shared_set_access) every caller has all rights. Runs on the reactor
 * thread.
 */
#ifndef TARRY_HTTP_GATE_H
#define TARRY_HTTP_GATE_H

#include "access/access.h"
#include "http/fault.h"
#include "http/request.h"
#include "http/route.h"

struct http_connection;
struct http_exchange;
struct http_front;

/* The authentication state of a connection. Zeroed: no caller. */
struct http_gate {
    struct access_caller *caller; /* caller of the last admitted request; a reference */
    uint64_t generation;          /* generation of the callers at that time */
    bool is_named;                /* the caller sent an Authorization line */
    char *line;                   /* that line, for comparison with the next request; may be NULL */
    size_t line_len, line_cap;
};
void http_gate_fini(struct http_connection *connection);

/* Returns the line of the last caller, which the next request probably repeats. */
static inline struct slice http_gate_known_line(const struct http_gate *gate)
{
    return slice_make(gate->line, gate->line_len);
}

/* The reason for a denial, for metrics. */
enum http_denial { HTTP_DENIED_SCOPE, HTTP_DENIED_TOPIC, HTTP_DENIALS };

/*
 * Returns whether the front's request may be carried out. `is_whole`: its body has also arrived.
 * `route` NULL: no route matches, which only authorized callers may learn. `topic` is the one in
 * the path. On true, the connection's gate holds the caller until its next request. On false,
 * *fault gives the reason, and *is_known whether the caller was authenticated.
 */
bool http_gate_ask(struct http_connection *connection, const struct http_route *route,
                   struct slice topic, bool is_whole, struct http_fault *fault, bool *is_known);

/* Checks a topic that the call names in addition to, or in place of, the one in its path. */
bool http_gate_allows(struct http_front *front, const struct access_caller *caller,
                      const struct http_route *route, struct slice topic, struct http_fault *fault);

/* ---- calls that stay open ---- */

/* Keeps the caller of the exchange after the handler. */
void http_gate_keep(struct http_exchange *exchange, struct access_caller *caller);
/* Keeps the caller of an exchange that stays open (a waiting take, a stream). While open it uses
 * `bytes` of the budget, holds back takes behind it, and its caller is checked once a second. */
void http_gate_wait(struct http_exchange *exchange, struct access_caller *caller, size_t bytes);
/* Returns whether the caller of the exchange is still valid. */
bool http_gate_holds(const struct http_exchange *exchange);
/* Answers an exchange whose caller is no longer valid. */
void http_gate_refuse_ended(struct http_exchange *exchange);
/* Ends waiting takes whose callers are no longer valid. */
void http_gate_end_waits(struct http_front *front);

#endif
