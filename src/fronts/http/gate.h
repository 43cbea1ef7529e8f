/*
 * gate: who makes a request, and whether he may: asked once the head of a request is there, before
 * its body is read, by what the route's row says (route.h).
 *
 * A connection remembers its last caller with the header that named him, so that one who sends the
 * same again is not looked up again. What is known of callers may change: then everybody is asked
 * who he is at his next request, and takes that wait are looked over within a second; who is nobody
 * any more has his answered with 401. Jobs that come for such a take go back.
 *
 * Where the server has no access (http_shared_set_access) everybody is anyone, who may do everything.
 * One thread: the reactor's.
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

/* What a connection remembers. Zeroed: nobody. */
struct http_gate {
    struct access_caller *caller; /* of the last request that was admitted; held */
    uint64_t generation;          /* of what was known then */
    bool is_named;                /* by a line: else he sent none */
    char *line;                   /* that line, for the reading of the next request; may be NULL */
    size_t line_len, line_cap;
};
void http_gate_fini(struct http_connection *connection);

/* The line of the last caller, which the next request is likely to have. */
static inline struct slice http_gate_known_line(const struct http_gate *gate)
{
    return slice_make(gate->line, gate->line_len);
}

/* What a caller lacked who was not let through; for metrics. */
enum http_denial { HTTP_DENIED_SCOPE, HTTP_DENIED_TOPIC, HTTP_DENIALS };

/*
 * May the front's request be carried out? `is_whole`: its body is here too. `route` NULL: there is nothing at its path, which only
 * those may know who may call. `topic`: as in the path. Good: the connection's gate has the caller,
 * until its next request. False: *fault says why not, and *is_known whether we know who it was.
 */
bool http_gate_ask(struct http_connection *connection, const struct http_route *route,
                   struct slice topic, bool is_whole, struct http_fault *fault, bool *is_known);

/* The same question for a topic that the call names besides, or in place of one in its path. */
bool http_gate_allows(struct http_front *front, const struct access_caller *caller,
                      const struct http_route *route, struct slice topic, struct http_fault *fault);

/* ---- calls that take their time ---- */

/* The exchange's caller is needed beyond the handler. */
void http_gate_keep(struct http_exchange *exchange, struct access_caller *caller);
/* One that stays open for long (a take that waits, a stream): as long as it does it counts with so many
 * bytes in the budget, holds back takes behind it, and its caller is looked at once a second. */
void http_gate_wait(struct http_exchange *exchange, struct access_caller *caller, size_t bytes);
/* Is he still the caller he was? */
bool http_gate_holds(const struct http_exchange *exchange);
/* The answer where he is not. */
void http_gate_refuse_ended(struct http_exchange *exchange);
/* Takes that wait for somebody who is nobody any more end. */
void http_gate_end_waits(struct http_front *front);

#endif
