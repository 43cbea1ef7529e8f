/*
 * hints: what a server remembers of the database: bounds and timers of its topics, which of its leases
 * end when, when the first ttl ends, what time it is there, who listens to events.
 *
 * They come from turns that are committed and from other servers' news. The database decides all the
 * same: a hint that is wrong costs a look, or a second.
 *
 * The reactor's thread.
 */
#ifndef TARRY_SQL_HINTS_H
#define TARRY_SQL_HINTS_H

#include "sql/audience.h"
#include "sql/call.h"
#include "sql/database_clock.h"
#include "sql/dialect.h"
#include "sql/hold.h"

struct sql_hints {
    struct sql_context *context; /* its topics, and their plan */
    struct queue *queue;         /* hears of topics that are ready, and of events */
    struct sql_audience audience;
    struct sql_watched leases;
    struct sql_clock clock; /* the database's */
    int64_t expire_ms;      /* when the first ttl ends; INT64_MAX: none does */
};

void sql_hints_init(struct sql_hints *hints, struct sql_context *context, struct queue *queue,
                    struct feed_desk *desk, bool looks_for_events);
void sql_hints_fini(struct sql_hints *hints);

/* True: there is a look to be made. */
bool sql_hints_watch(struct sql_hints *hints, struct slice name, bool on);
/* Something may have made jobs wait: every watched topic is to be looked at. */
void sql_hints_look(struct sql_hints *hints);
/* Whatever was told meanwhile was not heard: no bound is believed. */
void sql_hints_doubt(struct sql_hints *hints);
/* Tells the queue of the topics whose moment has come, or whose pause has ended. */
void sql_hints_tell_ready(struct sql_hints *hints, int64_t now_ms);

/* A call saw what waits in topics; `calls`: all of its turn, which is committed. */
void sql_hints_believe_look(struct sql_hints *hints, const struct sql_call *call,
                            const struct list *calls);
/* What the context's effects say of a turn that is committed. */
void sql_hints_believe_effects(struct sql_hints *hints);
/* What another server, or a user, told. */
void sql_hints_hear(struct sql_hints *hints, const struct sql_news *news);

#endif
