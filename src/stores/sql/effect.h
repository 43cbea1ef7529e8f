/*
 * effect: the effects of a transaction that take place with its commit: counts, jobs that are due
 * soon, deaths, changed settings, leases. They are collected while the results of its statements
 * arrive, written with the commit if other servers need them, and applied by this server only after
 * the commit.
 */
#ifndef TARRY_SQL_EFFECT_H
#define TARRY_SQL_EFFECT_H

#include "base/buffer.h"
#include "base/vector.h"
#include "job/event.h"
#include "job/job.h"
#include "queue/queue.h"
#include "sql/lease.h"

/* ---- events ---- */

/*
 * effect: an event of a job or topic as a line of text. Servers exchange events in this form
 * through the database. Pure.
 *
 *     KIND ATTEMPT DUE LEASE_UNTIL COUNT WAY TOPIC ID ERROR
 *
 * Fields are separated by one blank, numbers are decimal, unknown values are 0 or empty, and the
 * error is percent-encoded. The schema also writes such lines.
 */
enum { SQL_EVENT_BYTES_MAX = 1400 }; /* per line */

void sql_event_emit(struct buffer *out, const struct job_event *event);

/* Parses the next event from `lines`. Its error is decoded into `error`, whose capacity limit is
 * SQL_EVENT_BYTES_MAX, and points there. Returns false if no event could be parsed. */
bool sql_event_take(struct slice *lines, struct buffer *error, struct job_event *out);
/* Takes as many whole lines as fit into `bytes_max`, which must be at least SQL_EVENT_BYTES_MAX. */
struct slice sql_event_take_lines(struct slice *lines, size_t bytes_max);
size_t sql_event_count(struct slice lines);
/* Parses a decimal number and the byte `end` after it. */
bool sql_event_take_number(struct slice *rest, char end, uint64_t *out);

/* ---- effects ---- */

/* Indexes into the counts of tarry.tally. */
enum {
    SQL_COUNT_FRESH, /* waiting jobs that were never tried */
    SQL_COUNT_RETRY,
    SQL_COUNT_LEASED,
    SQL_COUNT_DEAD,
    SQL_COUNT_DEAD_BYTES,
    SQL_COUNT_PUSHED,
    SQL_COUNT_ACKED,
    SQL_COUNT_CANCELLED,
    SQL_COUNT_EXPIRED,
    SQL_COUNT_REPLACED,
    SQL_COUNT_DELIVERED,
    SQL_COUNT_NACKED,
    SQL_COUNT_LEASE_ENDED,
    SQL_COUNT_DIED,
    SQL_COUNT_REDRIVEN,
    SQL_COUNT_KEPT, /* finished jobs that are kept, and their bytes */
    SQL_COUNT_KEPT_BYTES,
    SQL_COUNTS
};

struct sql_tally { /* Changes of the counts of one topic. */
    int64_t topic;
    int64_t counts[SQL_COUNTS];
};
VECTOR_DECLARE(sql_tallies, struct sql_tally)

struct sql_notification { /* Notification about one topic. */
    char name[JOB_TOPIC_BYTES_MAX + 1];
    int64_t due_ms; /* lowest due time of its newly waiting jobs; INT64_MAX: no such job */
    bool died;      /* jobs died, and a consumer watches for that */
    bool changed;   /* the settings changed, or the topic was deleted */
    bool look;      /* a pause began or ended, or many jobs changed */
    bool listens;   /* without a topic: another server wants to receive events */
    bool ended;     /* without a topic: a job has ended that a client of this server waits for */
    bool batched;   /* without a topic: a user's transaction has changed batches */
    /* without a topic: a message (sql/audience.h), valid until the next notification */
    struct slice events;
    bool misses_events; /* without a topic: messages before this one were missed */
};
VECTOR_DECLARE(sql_notification_list, struct sql_notification)

struct sql_hold { /* Lease that this server starts or stops watching. */
    struct sql_lease lease;
    int64_t until_ms; /* 0: stop watching */
};
VECTOR_DECLARE(sql_holds, struct sql_hold)

struct sql_batch_change { /* Changes of the counts of a batch (queue/life.h). */
    int64_t batch;
    bool looks; /* its waiting job has ended, or more is stored in the database */
    int32_t counts[BATCH_OUTCOMES];
};
VECTOR_DECLARE(sql_batch_changes, struct sql_batch_change)

struct sql_effects {
    struct sql_tallies tallies;
    struct sql_notification_list notifications;
    struct sql_holds holds;
    struct sql_batch_changes batches; /* without a second entry for a batch */
    bool has_batches;     /* the transaction stored changes of batches in the database */
    int64_t expire_ms;    /* lowest end of a ttl; INT64_MAX: no ttl */
    bool failed;          /* out of memory: the transaction must not be committed */
    bool has_listener;    /* a consumer listens to events */
    struct buffer events; /* lines of sql/effect.h */
    uint64_t events_lost; /* events for which there was no room */
    /* the events are read back here in their order among those of other servers */
    bool events_return;
};

void sql_effects_init(struct sql_effects *effects);
void sql_effects_clear(struct sql_effects *effects);
void sql_effects_fini(struct sql_effects *effects);

void sql_effects_count(struct sql_effects *effects, int64_t topic,
                       const int64_t counts[SQL_COUNTS]);
/* Returns the notification of a topic, for adding to it. Returns NULL if out of memory. */
struct sql_notification *sql_effects_notification(struct sql_effects *effects, struct slice topic);
void sql_effects_due(struct sql_effects *effects, struct slice topic, int64_t due_ms);
void sql_effects_hold(struct sql_effects *effects, const struct sql_lease *lease, int64_t until_ms);
/* Counts a change of the outcome of a member. `before` BATCH_OUTCOMES: it is a new member. */
void sql_effects_member(struct sql_effects *effects, int64_t batch, enum batch_outcome before,
                        enum batch_outcome after);
/* Notes that a batch must be checked. */
void sql_effects_look_at_batch(struct sql_effects *effects, int64_t batch);
/* Sorts the changes of batches, in the order in which each transaction locks them. */
void sql_effects_sort_batches(struct sql_effects *effects);
void sql_effects_expire(struct sql_effects *effects, int64_t expire_ms); /* 0: no change */
/* Appends an event if a consumer listens. Copies all that the event points to. */
void sql_effects_publish(struct sql_effects *effects, const struct job_event *event);
/* Appends the events of an item of a push, change or answer that ended with `result`, based on the
 * state of its job before and after. `attempt` is the attempt in progress at that time; `has_next`:
 * the answer started the successor of the job. */
void sql_effects_publish_item(struct sql_effects *effects, const struct command *command,
                              size_t item, const struct queue_result *result, uint32_t attempt,
                              int64_t was_due_ms, bool has_next);
/* Appends the events of a lease that expired. */
void sql_effects_publish_end(struct sql_effects *effects, const struct queue_result *result,
                             uint32_t attempt, bool has_next);
/* Appends the event of a completed topic call, or of a step of it, that affected `jobs` jobs. */
void sql_effects_publish_topic(struct sql_effects *effects, const struct queue_topic_call *call,
                               uint64_t jobs);
/* Appends lines that the schema wrote about its own changes. */
void sql_effects_publish_lines(struct sql_effects *effects, struct slice lines);
/* Appends the event of a delivered job. */
void sql_effects_publish_taken(struct sql_effects *effects, const struct job *job,
                               enum job_way way);

#endif
