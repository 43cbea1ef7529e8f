/*
 * life_cases: every case of the rules of a job's life (queue/life.h) with its outcome, written out.
 *
 * tests/unit/queue/test_life.c replays the cases in the functions, tests/contract/directed_life.c in every store: in
 * the scripts of Redis, in the functions of PostgreSQL and in what MySQL and MariaDB store.
 */
#ifndef TARRY_TESTS_LIFE_CASES_H
#define TARRY_TESTS_LIFE_CASES_H

#include "queue/life.h"

/* Columns: the state before. */
enum { LIFE_COLUMNS = 6 };
static const enum job_state life_columns[LIFE_COLUMNS] = {0,         JOB_FINISHED, JOB_DELAYED,
                                                          JOB_READY, JOB_LEASED,   JOB_DEAD};

#define STAYS(STATUS)                                                                              \
    {                                                                                              \
        QUEUE_##STATUS, LIFE_STAYS                                                                 \
    }
#define BECOMES(STATUS, STEP)                                                                      \
    {                                                                                              \
        QUEUE_##STATUS, LIFE_##STEP                                                                \
    }

/* ---- push ---- */

struct life_push_case {
    const char *name;
    enum record_conflict on_conflict;
    bool is_full; /* the topic has as many jobs as it may */
    struct life outcomes[LIFE_COLUMNS];
};

#define REPLACED BECOMES(REPLACED, REPLACED)
static const struct life_push_case life_push_cases[] = {
    {"replace by default",
     0,
     false,
     {BECOMES(CREATED, CREATED), STAYS(EXISTED), REPLACED, REPLACED, STAYS(LEASED), REPLACED}},
    {"replace",
     CONFLICT_REPLACE,
     false,
     {BECOMES(CREATED, CREATED), STAYS(EXISTED), REPLACED, REPLACED, STAYS(LEASED), REPLACED}},
    {"keep",
     CONFLICT_KEEP,
     false,
     {BECOMES(CREATED, CREATED), STAYS(EXISTED), STAYS(EXISTED), STAYS(EXISTED), STAYS(EXISTED),
      STAYS(EXISTED)}},
    {"reject",
     CONFLICT_REJECT,
     false,
     {BECOMES(CREATED, CREATED), STAYS(EXISTED), STAYS(CONFLICT), STAYS(CONFLICT), STAYS(CONFLICT),
      STAYS(CONFLICT)}},
    {"after",
     CONFLICT_AFTER,
     false,
     {BECOMES(CREATED, CREATED), STAYS(EXISTED), REPLACED, REPLACED, BECOMES(CREATED, NEXT),
      REPLACED}},
    {"after in a full topic",
     CONFLICT_AFTER,
     true,
     {STAYS(TOPIC_FULL), STAYS(EXISTED), REPLACED, REPLACED, BECOMES(CREATED, NEXT), REPLACED}},
    {"replace in a full topic",
     CONFLICT_REPLACE,
     true,
     {STAYS(TOPIC_FULL), STAYS(EXISTED), REPLACED, REPLACED, STAYS(LEASED), REPLACED}},
    {"keep in a full topic",
     CONFLICT_KEEP,
     true,
     {STAYS(TOPIC_FULL), STAYS(EXISTED), STAYS(EXISTED), STAYS(EXISTED), STAYS(EXISTED),
      STAYS(EXISTED)}},
};
#undef REPLACED

/* ---- change ---- */

/* The delivery that the change names. */
enum life_name { LIFE_NAMES_NONE = 1, LIFE_NAMES_LAST, LIFE_NAMES_OTHER };

struct life_change_case {
    const char *name;
    enum queue_change_verb verb;
    bool request, only_dead, by_lease;
    enum life_name names;
    struct life outcomes[LIFE_COLUMNS];
};

#define CANCELLED BECOMES(CANCELLED, CANCELLED)
#define MOVED BECOMES(OK, MOVED)
#define NONE STAYS(NOT_FOUND), STAYS(NOT_FOUND)
static const struct life_change_case life_change_cases[] = {
    {"cancel",
     QUEUE_CANCEL,
     false,
     false,
     false,
     LIFE_NAMES_NONE,
     {NONE, CANCELLED, CANCELLED, STAYS(LEASED), CANCELLED}},
    {"request a cancel",
     QUEUE_CANCEL,
     true,
     false,
     false,
     LIFE_NAMES_NONE,
     {NONE, CANCELLED, CANCELLED, BECOMES(REQUESTED, REQUESTED), CANCELLED}},
    {"cancel the dead job",
     QUEUE_CANCEL,
     false,
     true,
     false,
     LIFE_NAMES_LAST,
     {NONE, STAYS(CONFLICT), STAYS(CONFLICT), STAYS(CONFLICT), CANCELLED}},
    {"cancel another dead job",
     QUEUE_CANCEL,
     false,
     true,
     false,
     LIFE_NAMES_OTHER,
     {NONE, STAYS(CONFLICT), STAYS(CONFLICT), STAYS(CONFLICT), STAYS(CONFLICT)}},
    {"cancel by the last lease",
     QUEUE_CANCEL,
     false,
     false,
     true,
     LIFE_NAMES_LAST,
     {NONE, CANCELLED, CANCELLED, STAYS(CONFLICT), STAYS(CONFLICT)}},
    {"cancel by another lease",
     QUEUE_CANCEL,
     false,
     false,
     true,
     LIFE_NAMES_OTHER,
     {NONE, STAYS(CONFLICT), STAYS(CONFLICT), STAYS(CONFLICT), STAYS(CONFLICT)}},
    {"reschedule",
     QUEUE_RESCHEDULE,
     false,
     false,
     false,
     LIFE_NAMES_NONE,
     {NONE, MOVED, MOVED, STAYS(LEASED), STAYS(DEAD_STATE)}},
    {"run",
     QUEUE_RUN,
     false,
     false,
     false,
     LIFE_NAMES_NONE,
     {NONE, MOVED, STAYS(OK), STAYS(LEASED), STAYS(DEAD_STATE)}},
};
#undef CANCELLED
#undef MOVED
#undef NONE

/* ---- take by id ---- */

static const struct life life_pick_outcomes[LIFE_COLUMNS] = {
    STAYS(NOT_FOUND),    STAYS(NOT_FOUND), BECOMES(OK, LEASED_NOW),
    BECOMES(OK, LEASED), STAYS(LEASED),    BECOMES(OK, LEASED_NOW)};

#undef STAYS
#undef BECOMES

/* ---- answers and the end of a lease ---- */

struct life_answer_case {
    const char *name;
    enum queue_verb verb; /* 0: the lease ends by itself */
    bool final;           /* nack: no further attempt */
    bool last;            /* this was the last attempt of the policy */
    bool cancel_requested;
    enum queue_status status;
    enum life_step step;
};

static const struct life_answer_case life_answer_cases[] = {
    {"ack", QUEUE_ACK, false, false, false, QUEUE_OK, LIFE_ACKED},
    {"ack of the last attempt", QUEUE_ACK, false, true, false, QUEUE_OK, LIFE_ACKED},
    {"ack after a request to cancel", QUEUE_ACK, false, false, true, QUEUE_OK, LIFE_ACKED},
    {"nack", QUEUE_NACK, false, false, false, QUEUE_OK, LIFE_RETRIED},
    {"nack of the last attempt", QUEUE_NACK, false, true, false, QUEUE_OK, LIFE_DIED},
    {"final nack", QUEUE_NACK, true, false, false, QUEUE_OK, LIFE_DIED},
    {"nack after a request to cancel", QUEUE_NACK, false, false, true, QUEUE_CANCELLED,
     LIFE_CANCELLED},
    {"last nack after a request to cancel", QUEUE_NACK, false, true, true, QUEUE_CANCELLED,
     LIFE_CANCELLED},
    {"return", QUEUE_RETURN, false, false, false, QUEUE_OK, LIFE_RETURNED},
    {"return of the last attempt", QUEUE_RETURN, false, true, false, QUEUE_OK, LIFE_RETURNED},
    {"return after a request to cancel", QUEUE_RETURN, false, false, true, QUEUE_CANCELLED,
     LIFE_CANCELLED},
    {"again", QUEUE_AGAIN, false, false, false, QUEUE_CREATED, LIFE_AGAIN},
    {"again after the last attempt", QUEUE_AGAIN, false, true, false, QUEUE_CREATED, LIFE_AGAIN},
    {"again after a request to cancel", QUEUE_AGAIN, false, false, true, QUEUE_CANCELLED,
     LIFE_CANCELLED},
    {"extend", QUEUE_EXTEND, false, false, false, QUEUE_OK, LIFE_EXTENDED},
    {"extend after a request to cancel", QUEUE_EXTEND, false, false, true, QUEUE_OK, LIFE_EXTENDED},
    {"lease ended", 0, false, false, false, QUEUE_OK, LIFE_RETRIED},
    {"lease of the last attempt ended", 0, false, true, false, QUEUE_OK, LIFE_DIED},
    {"lease ended after a request to cancel", 0, false, false, true, QUEUE_OK, LIFE_CANCELLED},
};

/* ---- the end of a lease of a job with a successor ---- */

struct life_next_case {
    const char *name;
    enum queue_verb verb; /* 0: the lease ends by itself */
    bool final;
    bool cancel_requested;
    enum queue_status status;
    enum record_next after;
};

static const struct life_next_case life_next_cases[] = {
    {"ack", QUEUE_ACK, false, false, QUEUE_OK, RECORD_NEXT_AFTER_ACK},
    {"ack after a request to cancel", QUEUE_ACK, false, true, QUEUE_OK, RECORD_NEXT_AFTER_ACK},
    {"nack", QUEUE_NACK, false, false, QUEUE_OK, RECORD_NEXT_AFTER_NACK},
    {"final nack", QUEUE_NACK, true, false, QUEUE_OK, RECORD_NEXT_AFTER_NACK},
    {"nack after a request to cancel", QUEUE_NACK, false, true, QUEUE_CANCELLED,
     RECORD_NEXT_AFTER_CANCEL},
    {"return", QUEUE_RETURN, false, false, QUEUE_OK, RECORD_NEXT_AFTER_RETURN},
    {"return after a request to cancel", QUEUE_RETURN, false, true, QUEUE_CANCELLED,
     RECORD_NEXT_AFTER_CANCEL},
    {"again", QUEUE_AGAIN, false, false, QUEUE_REPLACED, RECORD_NEXT_AFTER_ACK},
    {"again after a request to cancel", QUEUE_AGAIN, false, true, QUEUE_CANCELLED,
     RECORD_NEXT_AFTER_CANCEL},
    {"lease ended", 0, false, false, QUEUE_OK, RECORD_NEXT_AFTER_LEASE},
    {"lease ended after a request to cancel", 0, false, true, QUEUE_OK, RECORD_NEXT_AFTER_CANCEL},
};

/* ---- the end of the ttl ---- */

struct life_expire_case {
    const char *name;
    bool dead_letter_expired;
    enum life_step step;
};

static const struct life_expire_case life_expire_cases[] = {
    {"expired", false, LIFE_EXPIRED},
    {"expired, kept as dead", true, LIFE_DIED},
};

/* ---- kept jobs ---- */

enum { LIFE_KEEP_MS = 3600 * 1000 };

/* How long jobs are kept, by their push and by their topic. */
struct life_keep_case {
    const char *name;
    bool has_own;
    int64_t own_ms, topic_ms;
    int64_t kept_ms; /* 0: not at all */
};

static const struct life_keep_case life_keep_cases[] = {
    {"neither", false, 0, 0, 0},
    {"the topic", false, 0, LIFE_KEEP_MS, LIFE_KEEP_MS},
    {"the push", true, LIFE_KEEP_MS, 0, LIFE_KEEP_MS},
    {"the push, for longer than the topic", true, 2 * LIFE_KEEP_MS, LIFE_KEEP_MS, 2 * LIFE_KEEP_MS},
    {"the push, for less than the topic", true, LIFE_KEEP_MS, 2 * LIFE_KEEP_MS, LIFE_KEEP_MS},
    {"the topic, but not the push", true, 0, LIFE_KEEP_MS, 0},
};

/* How a job ends. */
enum life_way {
    LIFE_BY_ACK = 1, /* with a result */
    LIFE_BY_ACK_AFTER_REQUEST,
    LIFE_BY_CANCEL_WAITING,
    LIFE_BY_CANCEL_DEAD,
    LIFE_BY_NACK_AFTER_REQUEST,
    LIFE_BY_LEASE_END_AFTER_REQUEST,
    LIFE_BY_TTL,
    LIFE_BY_PURGE,
    LIFE_BY_REPLACEMENT,
    LIFE_BY_AGAIN,
    LIFE_BY_SUCCESSOR /* an ack, which starts a successor */
};

struct life_end_case {
    const char *name;
    enum life_way way;
    enum record_reason reason; /* 0: the id is a job again at once */
    enum job_end end;          /* 0: not kept */
    bool has_holder;           /* and the progress of its lease */
    bool has_result;
};

static const struct life_end_case life_end_cases[] = {
    {"ack", LIFE_BY_ACK, RECORD_ACKED, JOB_END_ACKED, true, true},
    {"ack after a request to cancel", LIFE_BY_ACK_AFTER_REQUEST, RECORD_ACKED, JOB_END_ACKED, true,
     true},
    {"cancel of a waiting job", LIFE_BY_CANCEL_WAITING, RECORD_CANCELLED, JOB_END_CANCELLED, false,
     false},
    {"cancel of a dead job", LIFE_BY_CANCEL_DEAD, RECORD_CANCELLED, JOB_END_CANCELLED, false,
     false},
    {"nack after a request to cancel", LIFE_BY_NACK_AFTER_REQUEST, RECORD_CANCELLED,
     JOB_END_CANCELLED, true, false},
    {"lease ended after a request to cancel", LIFE_BY_LEASE_END_AFTER_REQUEST, RECORD_CANCELLED,
     JOB_END_CANCELLED, true, false},
    {"end of the ttl", LIFE_BY_TTL, RECORD_EXPIRED, JOB_END_EXPIRED, false, false},
    {"purge", LIFE_BY_PURGE, RECORD_PURGED, 0, false, false},
    {"replacement", LIFE_BY_REPLACEMENT, RECORD_REPLACED, 0, false, false},
    {"again", LIFE_BY_AGAIN, 0, 0, false, false},
    {"ack with a successor", LIFE_BY_SUCCESSOR, 0, 0, false, false},
};

#define LIFE_CASES(TABLE) (sizeof(TABLE) / sizeof((TABLE)[0]))

#endif
