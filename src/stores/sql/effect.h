/*
 * effect: what a turn's transaction will have done once it is committed: counts, jobs that fall due
 * soon, deaths, other settings, leases. Gathered while its statements are answered, written with the
 * commit where other servers need it, believed by this one only afterwards.
 */
#ifndef TARRY_SQL_EFFECT_H
#define TARRY_SQL_EFFECT_H

#include "base/vector.h"
#include "job/job.h"
#include "queue/queue.h"
#include "sql/event.h"
#include "sql/lease.h"

/* The places of tarry.tally's counts. */
enum {
    SQL_COUNT_FRESH, /* waits and was never tried */
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
    SQL_COUNTS
};

struct sql_tally { /* of one topic */
    int64_t topic;
    int64_t counts[SQL_COUNTS];
};
VECTOR_DECLARE(sql_tallies, struct sql_tally)

struct sql_news { /* of one topic */
    char name[JOB_TOPIC_BYTES_MAX + 1];
    int64_t due_ms;      /* the lowest of its jobs that wait anew; INT64_MAX: none */
    bool died;           /* jobs did, and somebody looks after them */
    bool changed;        /* other settings, or it is gone */
    bool look;           /* a pause began or ended, or many jobs changed */
    bool listens;        /* of no topic: another server wants to be told of events */
    struct slice events; /* of no topic: a message (sql/audience.h), good until the next news */
    bool misses_events;  /* of no topic: messages before it were missed */
};
VECTOR_DECLARE(sql_news_list, struct sql_news)

struct sql_hold { /* a lease that this server watches from now on, or no more */
    struct sql_lease lease;
    int64_t until_ms; /* 0: no more */
};
VECTOR_DECLARE(sql_holds, struct sql_hold)

struct sql_effects {
    struct sql_tallies tallies;
    struct sql_news_list news;
    struct sql_holds holds;
    int64_t expire_ms;    /* the lowest end of a ttl; INT64_MAX: none */
    bool failed;          /* out of memory: the turn must not be committed */
    bool tells;           /* somebody listens to what happens */
    struct buffer events; /* lines of sql/event.h */
    uint64_t events_lost; /* for which there was no room */
    bool events_return;   /* they are heard here, too, in their order among those of others */
};

void sql_effects_init(struct sql_effects *effects);
void sql_effects_clear(struct sql_effects *effects);
void sql_effects_fini(struct sql_effects *effects);

void sql_effects_count(struct sql_effects *effects, int64_t topic,
                       const int64_t counts[SQL_COUNTS]);
/* The news of a topic, to be added to. NULL: out of memory. */
struct sql_news *sql_effects_news(struct sql_effects *effects, struct slice topic);
void sql_effects_due(struct sql_effects *effects, struct slice topic, int64_t due_ms);
void sql_effects_hold(struct sql_effects *effects, const struct sql_lease *lease, int64_t until_ms);
void sql_effects_expire(struct sql_effects *effects, int64_t expire_ms); /* 0: nothing */
/* Where it tells; what the event points at is copied. */
void sql_effects_tell(struct sql_effects *effects, const struct job_event *event);
/* The events of an item of a push, change or answer that ended with `result`, by the state of its job
 * before and after; `attempt` is the one that it was in. */
void sql_effects_tell_item(struct sql_effects *effects, const struct command *command, size_t item,
                           const struct queue_result *result, uint32_t attempt, int64_t was_due_ms);
/* A lease ended by itself. */
void sql_effects_tell_end(struct sql_effects *effects, const struct queue_result *result,
                          uint32_t attempt);
/* A call about a topic was carried out, or a step of it, over so many jobs. */
void sql_effects_tell_topic(struct sql_effects *effects, const struct queue_topic_call *call,
                            uint64_t jobs);
/* What the schema says that it did, as lines. */
void sql_effects_tell_lines(struct sql_effects *effects, struct slice lines);
/* A take brought it. */
void sql_effects_tell_taken(struct sql_effects *effects, const struct job *job, enum job_way way);

#endif
