/*
 * model: the behaviour of a delay queue in the plainest form: an array and linear search, no
 * cleverness.
 *
 * It checks every implementation, and behind driver_naive.c it is an implementation itself.
 * If the promise is not exact (a relative time is rounded up to the next millisecond, a backoff
 * jitters) the model holds a span; a check that sees the chosen value pins it. One clock: inner and wall
 * time are the same here.
 */
#ifndef TARRY_TESTS_CONTRACT_MODEL_H
#define TARRY_TESTS_CONTRACT_MODEL_H

#include "queue/queue.h"

struct span {
    int64_t least_ms, most_ms;
};

struct model_attempt { /* that ended without an ack */
    uint32_t attempt;
    int64_t started_ms;
    struct span duration;
    enum job_outcome outcome;
    char error[JOB_HISTORY_ERROR_BYTES_MAX];
    size_t error_bytes;
};

struct model_event { /* that a listener must receive */
    enum queue_event event;
    char topic[JOB_TOPIC_BYTES_MAX + 1];
};

struct model_job {
    char topic[JOB_TOPIC_BYTES_MAX + 1], id[JOB_ID_BYTES_MAX + 1];
    char *bytes; /* own: content type, meta and body, one behind the other */
    struct slice content_type, meta, body;
    char error[JOB_ERROR_BYTES_MAX];
    size_t error_bytes;
    enum job_state state;
    uint16_t priority;
    uint32_t attempt;
    struct span due, first_due;
    bool due_is_first; /* no retry since: the two are one */
    struct span lease_until;
    int64_t taken_ms;
    char consumer[JOB_CONSUMER_BYTES_MAX + 1]; /* of the lease, as is the next */
    bool cancel_requested;
    struct model_attempt history[JOB_HISTORY_MAX]; /* oldest first */
    size_t history_count;
    int64_t lease_ms;          /* it was taken with */
    bool restarted_since_take; /* then an extension without a time may use the policy's lease */
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX + 1];
    uint64_t delivery;       /* of this push; 0: not delivered yet */
    uint64_t delivery_floor; /* of all pushes under this id */
    uint64_t sequence;
    struct policy policy;
    struct model_job *next; /* its successor: what the push left; NULL: none */
};

struct model_memory { /* an id that finished within its topic's dedup_window, or a `once` */
    char topic[JOB_TOPIC_BYTES_MAX + 1], id[QUEUE_ONCE_ID_BYTES_MAX + 1];
    struct span until;
};

struct model_topic {
    char name[JOB_TOPIC_BYTES_MAX + 1];
    bool paused;
    struct span paused_until;       /* 0: until resumed */
    struct topic_settings settings; /* the extension is own memory */
    struct topic_totals totals;
};

struct model {
    int64_t now_ms;
    uint64_t body_bytes_max;
    size_t topics_max;
    /* With several shards each has a share of max_jobs, and the model does not know the shard of a
     * job: from one share on a push is refused if the queue refuses it. 1: exact. */
    uint64_t shards;
    bool seems_full;
    uint64_t sequence;
    struct model_job *jobs; /* in no special order */
    size_t job_count, job_cap;
    struct model_memory *memories;
    size_t memory_count, memory_cap;
    struct model_topic *topics;
    size_t topic_count, topic_cap;
    struct model_event *events; /* in their order; the receiver sets the count to 0 */
    size_t event_count, event_cap;
};

/* The expected result of one item. */
struct model_result {
    enum queue_status status;
    enum job_state state; /* 0: not promised */
    bool has_due, has_lease_until;
    bool cancel_requested; /* extend */
    struct span due, lease_until;
    char id[JOB_ID_BYTES_MAX + 1]; /* answer: of the job */
};

void model_init(struct model *model, int64_t now_ms, uint64_t body_bytes_max, size_t topics_max);
void model_fini(struct model *model);

/* Advances the time to `now_ms`, and processes due events. */
void model_advance(struct model *model, int64_t now_ms);

/* `push->id` is not empty. `seems_known`: whether the id counts as known
 * if the dedup_window ends this very millisecond. */
void model_push(struct model *model, const struct queue_push *push, bool seems_known,
                struct model_result *out);
void model_change(struct model *model, const struct queue_change *change, struct model_result *out);
void model_answer(struct model *model, const struct queue_answer *answer, struct model_result *out);

/* Returns the next job of a take of this topic; NULL without a ready job, or if the topic is paused. */
struct model_job *model_first_ready_of_topic(struct model *model, struct slice topic);
/* Returns the best of the next jobs of several topics. */
struct model_job *model_first_ready_of_topics(struct model *model, const struct slice *topics,
                                              size_t count);
bool model_is_takeable(struct model *model, const struct model_job *job);
/* Returns true if `a` comes out before `b`, by priority. */
bool model_served_before(const struct model_job *a, const struct model_job *b);
/* Returns the status of a take of this job. QUEUE_OK: it is ready from now on, and is *out. */
enum queue_status model_pick(struct model *model, struct slice topic, struct slice id,
                             struct model_job **out);
void model_look(struct model *model, const struct queue_find *find, struct model_result *out);
/* Leases the job. The caller sets its lease and its delivery number. */
void model_lease(struct model *model, struct model_job *job, int64_t lease_ms,
                 struct slice consumer);

/* Settings, pause, purge, delete; redrive of all or of one. */
enum queue_status model_topic_call(struct model *model, const struct queue_topic_call *call,
                                   uint64_t *affected);
void model_redrive(struct model *model, struct model_job *job);

/* Marks all leases after a restart: from now on an extension without a time may use the policy's lease. */
void model_restart(struct model *model);

struct model_job *model_find(struct model *model, struct slice topic, struct slice id);
struct model_topic *model_find_topic(struct model *model, struct slice topic);
struct model_topic *model_need_topic(struct model *model, struct slice topic); /* NULL: too many */
/* Counts the jobs of a topic. dead_bytes has only the bodies, the least that it may be. */
struct queue_counts model_count(const struct model *model, const char *topic);

/* Forecasts when the waiting jobs fall due, each counted by the latest possible time. */
enum queue_status model_forecast(struct model *model, const struct queue_forecast_call *call,
                                 struct queue_forecast *out);

/* Orders as list does: by due, then push order. */
bool model_listed_before(const struct model_job *a, const struct model_job *b);

/* Pins the value that was chosen within the span. */
void model_pin_due(struct model_job *job, int64_t due_ms);
bool span_holds(struct span span, int64_t ms);

/* Reserves room for one more item of `item_bytes` at the end of a growing array. */
void *model_grow(void *items, size_t count, size_t *cap, size_t item_bytes);
void model_forget_topic(struct model *model, const char *topic);
void model_report(struct model *model, enum queue_event event, const char *topic);
/* Removes the job. The last one of the array moves to its place. */
enum model_end { MODEL_ACKED = 1, MODEL_CANCELLED, MODEL_PURGED, MODEL_EXPIRED };
void model_finish(struct model *model, struct model_job *job, enum model_end end);

#endif
