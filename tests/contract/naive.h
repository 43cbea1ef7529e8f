/* The naive queue's own structures, shared by naive*.c and driver_naive.c. */
#ifndef TARRY_TESTS_CONTRACT_NAIVE_H
#define TARRY_TESTS_CONTRACT_NAIVE_H

#include "driver.h"
#include "job/ulid.h"
#include "model.h"
#include "outcome.h"

/* Built in one at a time, to prove that the suite can fail. */
enum fault {
    FAULT_NONE = 0,
    FAULT_ATTEMPT_TWICE,
    FAULT_ACK_DROPPED,
    FAULT_EARLY,
    FAULT_NO_PRIORITY,
    FAULT_NO_ERROR,
    FAULT_ANY_LEASE,
    FAULT_DELAY_LOST,
    FAULT_ATTEMPTS_KEPT,
    FAULT_JOB_LOST_AT_REOPEN,
    FAULT_LEASES_RENEWED_AT_REOPEN,
    FAULT_PAUSE_LOST_AT_REOPEN,
    FAULT_IDS_FORGOTTEN_AT_REOPEN,
    FAULT_NO_TTL,
    FAULT_TOTAL_TWICE,
    FAULT_BODY_CHANGED,
    FAULT_LIST_SHORT,
    FAULT_INSIDE,
    FAULT_TWICE,
    FAULT_PAUSE_IGNORED,
    FAULT_DELIVERY_SAME,
    FAULT_NOT_FINAL,
    FAULT_RETURN_AT_ONCE,
    FAULT_HISTORY_SHORT,
    FAULT_HISTORY_LOST_AT_REOPEN,
    FAULT_EXTENSION_LOST_AT_REOPEN,
    FAULT_DEAD_BYTES_KEPT,
    FAULT_DEATH_EVENT_MISSING,
    FAULT_TOPIC_EVENT_MISSING,
    FAULT_FORECAST_LATE,
    FAULT_PAUSE_FOR_EVER,
    FAULT_CONSUMER_LOST,
    FAULT_REQUEST_FORGOTTEN,
    FAULT_NACK_PRIORITY_LOST,
    FAULT_NAMED_ORDER,
    FAULT_PICK_NOT_DUE,
    FAULT_FIND_BLIND,
    FAULT_AGAIN_KEEPS_BODY,
    FAULT_ONCE_IGNORED,
    FAULT_NEXT_LOST,
    FAULT_END
};
struct pending {
    struct pending *next;
    struct queue_reply_to to;
    struct outcome outcome;
};

struct watched {
    char name[JOB_TOPIC_BYTES_MAX + 1];
    uint32_t count;
    bool report;
};

struct naive {
    struct queue queue; /* first */
    struct model model;
    enum fault fault;
    struct ulid ulid;
    uint64_t deliveries;
    uint64_t acks, calls;
    struct pending *first, **last;
    struct watched watched[8];
    size_t watched_count;
    char dir[256];
};

/* ---- naive.c ---- */
static inline struct naive *naive_of(struct queue *queue)
{
    return (struct naive *)queue;
}
/* Carries out due events before anything else. */
struct naive *naive_begin(struct queue *queue);
/* Pins the latest of each span that the promise allows. */
void naive_pin_all(struct naive *naive);
/* Answers at the next pump. */
void naive_end(struct naive *naive, struct queue_reply_to to, const struct queue_reply *reply);
void naive_report_watchers(struct naive *naive);
/* The history is in `texts`. */
struct queue_job naive_show(const struct naive *naive, const struct model_job *job, bool with_body,
                            struct outcome *texts);

void naive_push(struct queue *, const struct queue_push *, size_t count, struct queue_reply_to);
void naive_take(struct queue *, const struct queue_take *, struct queue_reply_to);
void naive_answer(struct queue *, const struct queue_answer *, size_t count, struct queue_reply_to);
void naive_change(struct queue *, const struct queue_change *, size_t count, struct queue_reply_to);

/* ---- naive_look.c ---- */
void naive_get(struct queue *, struct slice topic, struct slice id, struct queue_reply_to);
void naive_find(struct queue *, const struct queue_find *, size_t count, struct queue_reply_to);
void naive_list(struct queue *, const struct queue_list *, struct queue_reply_to);
void naive_topic(struct queue *, const struct queue_topic_call *, struct queue_reply_to);
void naive_topics(struct queue *, struct queue_reply_to);
void naive_forecast(struct queue *, const struct queue_forecast_call *, struct queue_reply_to);
void naive_watch(struct queue *, struct slice topic, bool on);

#endif
