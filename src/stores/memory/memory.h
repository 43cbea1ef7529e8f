/*
 * memory: the delay queue in the memory of a process: the engine, with the texts of its jobs as
 * blobs. Nothing survives the process.
 *
 * It uses no threads, signals, files or global state: several can exist in one process, each with
 * its own clock. All calls are executed immediately, on the caller's thread; two threads share a
 * queue under their own lock. Due work happens only in memory_advance, which the owner calls before
 * reading and at memory_next_ms.
 *
 * The input must have been validated by a door (queue/door.h). If out of memory, calls return
 * QUEUE_NO_MEMORY and change nothing.
 */
#ifndef TARRY_MEMORY_MEMORY_H
#define TARRY_MEMORY_MEMORY_H

#include "engine/forecast.h"
#include "engine/lease.h"
#include "memory/awaits.h"
#include "queue/cursor.h"
#include "queue/groups.h"

struct memory;
struct clock;

struct memory_options {
    uint64_t body_bytes_max;
    /* Approximate limit of the size of all blobs and entries, also of kept jobs; pushes beyond it are QUEUE_NO_SPACE.
     * 0: no limit. */
    uint64_t bytes_max;
    uint32_t topics_max;
    struct clock *clock; /* outlives the queue */
    /* Notifications: a topic without available jobs has one now; a job of a topic with an extension
     * has died. Called inside the calls below; must not call back into the queue. NULL:
     * disabled. */
    void (*ready)(void *ctx, struct slice topic);
    void (*died)(void *ctx, struct slice topic);
    void *ctx;
};

/* Creates a queue. Returns NULL if out of memory. */
struct memory *memory_new(const struct memory_options *options);
/* Frees the queue. Jobs that were handed out may outlive it. */
void memory_free(struct memory *memory);

/* ---- time ---- */

/* Reads the queue's clock once. */
struct engine_now memory_now(struct memory *memory);
/* Processes everything that is due: delayed jobs become ready, leases end, ready jobs expire,
 * pauses end. */
void memory_advance(struct memory *memory, struct engine_now now);
/* Returns when (inner clock) there is work again; INT64_MAX: never. */
int64_t memory_next_ms(const struct memory *memory);

/* Returns whether a job may be due by the wall clock, so that a step of the wall clock matters. */
bool memory_waits_for_wall(const struct memory *memory, struct engine_now now);

/* ---- calls; `now` is the value last given to memory_advance ---- */

/* Executes one item and fills in *result except its topic and id. The push must have an id. */
void memory_push(struct memory *memory, const struct queue_push *push, struct engine_now now,
                 struct queue_result *result);
void memory_change(struct memory *memory, const struct queue_change *change, struct engine_now now,
                   struct queue_result *result);
void memory_answer(struct memory *memory, const struct queue_answer *answer, struct engine_now now,
                   struct queue_result *result);
/* Works as memory_answer for a caller that holds the job; answer->lease is ignored. */
void memory_answer_lease(struct memory *memory, const struct engine_lease *lease,
                         const struct queue_answer *answer, struct engine_now now,
                         struct queue_result *result);

/* A job as of the time it was handed out. Its text stays valid until it is freed, whatever happens
 * to the job in the queue. Any thread may read and free it. */
struct memory_job {
    struct queue_job shown;       /* without its lease until memory_job_lease */
    struct queue_end end;         /* of a kept job: shown.end */
    struct queue_waiting waiting; /* of a job with a batch of its own: shown.waiting */
    struct engine_lease lease;    /* lease of a taken job */
    struct blob *blob;
    char *text; /* history and error */
    char *meta; /* of a taken job with a batch of its own, with its outcome; else NULL */
    struct mac_key lease_key;
    bool is_taken; /* has a lease, because it was taken and not only read */
    char lease_text[LEASE_TEXT_BYTES + 1];
};
/* Frees a job. NULL is allowed. */
void memory_job_free(struct memory_job *job);
/* Copies a job that another queue shows into one block, with its text and lease. Returns NULL if
 * out of memory. */
struct memory_job *memory_job_copy(const struct queue_job *from);
/* Writes the text of the lease of a taken job. */
void memory_job_lease(struct memory_job *job);

/* Acks the taken job and pushes it again, atomically; if the push fails, does nothing. */
void memory_again(struct memory *memory, const struct engine_lease *lease,
                  const struct queue_again *again, struct engine_now now,
                  struct queue_result *result);

/* Takes up to take->max ready jobs under a lease, or the named one (NOT_FOUND, LEASED). The jobs
 * are allocated and owned by the caller. QUEUE_NO_MEMORY: no memory for the first job, which stays
 * ready. QUEUE_OK with no jobs: the topics have no job to hand out. */
enum queue_status memory_take(struct memory *memory, const struct queue_take *take,
                              struct engine_now now, struct memory_job **out, size_t *count);
/* Works as memory_take and also acks each job; no answer is expected. */
enum queue_status memory_pop(struct memory *memory, const struct queue_take *take,
                             struct engine_now now, struct memory_job **out, size_t *count);
/* Finds a job, with `finished` also a kept one. */
enum queue_status memory_get(struct memory *memory, struct slice topic, struct slice id,
                             bool finished, struct engine_now now, struct memory_job **out);
/* Begins a wait for the end of a job that exists and is neither finished nor dead. Returns false if out of memory.
 * It ends inside the call, or memory_advance, that ends the job. */
bool memory_await(struct memory *memory, struct slice topic, struct slice id,
                  struct memory_wait *wait);
/* Removes a wait that has not ended. */
void memory_await_cancel(struct memory *memory, struct slice topic, struct slice id,
                         struct memory_wait *wait);
/* Lists jobs. `out` has room for list->limit; *cursor is written into `cursor_text` and is empty at
 * the end. */
enum queue_status memory_list(struct memory *memory, const struct queue_list *list,
                              struct engine_now now, struct memory_job **out, size_t *count,
                              char cursor_text[QUEUE_CURSOR_BYTES_MAX], struct slice *cursor);

/* Executes a call on a topic. *topic is as from engine_topic_show, valid until the next call;
 * *affected is set by purge, redrive and delete. */
enum queue_status memory_topic(struct memory *memory, const struct queue_topic_call *call,
                               struct engine_now now, struct queue_topic *topic,
                               uint64_t *affected);
/* Works as engine_look. */
void memory_look(const struct memory *memory, const struct queue_find *name, struct engine_now now,
                 struct queue_result *result);
/* Works as engine_topics_page. */
bool memory_topics(struct memory *memory, struct queue_topics_page page, struct engine_now now,
                   struct queue_topic **out, size_t *count);
/* Returns QUEUE_OK, NOT_FOUND or NO_MEMORY. */
enum queue_status memory_forecast(struct memory *memory, const struct queue_forecast_call *call,
                                  struct engine_now now, struct queue_forecast *out);

/* Executes a call on a group. *out is valid until the next call. */
enum queue_status memory_group(struct memory *memory, const struct queue_group_call *call,
                               struct engine_now now, struct queue_group *out);
/* Adds the groups of a topic to a page. Their names are valid until the next call. Returns false if the topic does not exist. */
bool memory_groups(struct memory *memory, struct slice topic, struct engine_now now,
                   struct groups_page *page);

bool memory_topic_has_ready(struct memory *memory, struct slice topic);
/* Returns how many kept jobs were dropped before their time, for this reason. */
uint64_t memory_dropped(const struct memory *memory, enum queue_drop reason);
/* Returns the memory of former entries that is kept for new ones. */
uint64_t memory_spare_bytes(const struct memory *memory);
/* Asserts every invariant; walks everything. For tests. */
void memory_check(const struct memory *memory);

#endif
