/*
 * hints: what a server remembers of the database: bounds and timers of topics, the ends of its own
 * leases, the end of the first ttl, the database's time, and the listeners to events.
 *
 * Hints come from committed transactions and from notifications of other servers. The database
 * still decides: a wrong hint costs an extra check, or a second.
 *
 * Used on the reactor's thread.
 */
#ifndef TARRY_SQL_HINTS_H
#define TARRY_SQL_HINTS_H

#include "sql/audience.h"
#include "sql/call.h"
#include "sql/dialect.h"
#include "sql/lease.h"

struct sql_hints {
    struct sql_context *context; /* owner of the topics and their plan */
    struct queue *queue;         /* notified of ready topics and of events */
    struct sql_audience audience;
    struct sql_watched leases;
    int64_t expire_ms; /* end of the first ttl; INT64_MAX: no ttl */
};

void sql_hints_init(struct sql_hints *hints, struct sql_context *context, struct queue *queue,
                    struct feed_desk *desk, bool looks_for_events);
void sql_hints_fini(struct sql_hints *hints);

/* Starts or stops watching a topic. Returns true if a check must be made. */
bool sql_hints_watch(struct sql_hints *hints, struct slice name, bool on);
/* Requests a check of every watched topic, since jobs may have started to wait. */
void sql_hints_look(struct sql_hints *hints);
/* Discards all bounds, since notifications may have been missed. */
void sql_hints_doubt(struct sql_hints *hints);
/* Notifies the queue of topics that are due or whose pause has ended. */
void sql_hints_notify_ready(struct sql_hints *hints, int64_t now_ms);

/* Applies what a call found in its topics. `calls`: all calls of the committed transaction. */
void sql_hints_apply_look(struct sql_hints *hints, const struct sql_call *call,
                          const struct list *calls);
/* Applies the context's effects of a committed transaction. */
void sql_hints_apply_effects(struct sql_hints *hints);
/* Applies a notification from another server or a user. */
void sql_hints_receive(struct sql_hints *hints, const struct sql_notification *notification);

#endif
