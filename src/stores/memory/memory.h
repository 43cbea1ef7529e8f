/*
 * memory: the delay queue in the memory of a process: the engine, and the text of its jobs as blobs. Nothing
 * outlives the process.
 *
 * No thread, no signal, no file, nothing that is the process's: several may stand side by side, each with a
 * clock of its own. All calls are carried out at once, on the caller's thread; two threads share one under
 * their lock. What is due happens in memory_advance alone, which the owner calls before he looks and by
 * memory_next_ms.
 *
 * What comes in was checked at a door (queue/door.h). Out of memory is an answer, QUEUE_NO_MEMORY, and nothing
 * has changed then.
 */
#ifndef TARRY_MEMORY_MEMORY_H
#define TARRY_MEMORY_MEMORY_H

#include "engine/forecast.h"
#include "engine/lease.h"
#include "queue/cursor.h"

struct memory;
struct clock;

struct memory_options {
    uint64_t body_bytes_max;
    uint64_t
        bytes_max; /* of all blobs and entries, about: pushes beyond it are QUEUE_NO_SPACE; 0: no limit */
    uint32_t topics_max;
    struct clock *clock; /* outlives it */
    /* A topic had nothing to hand out and has now; a job of a topic with an extension has died. Called
     * inside the calls below; neither calls back. NULL: nobody wants to know. */
    void (*ready)(void *ctx, struct slice topic);
    void (*died)(void *ctx, struct slice topic);
    void *ctx;
};

struct memory *memory_new(const struct memory_options *options); /* NULL: out of memory */
/* Jobs that were handed out may outlive it. */
void memory_free(struct memory *memory);

/* ---- time ---- */

/* The queue's clock, read once. */
struct engine_now memory_now(struct memory *memory);
/* Lets happen what is due: delayed jobs become ready, leases end, ready jobs expire, pauses end. */
void memory_advance(struct memory *memory, struct engine_now now);
/* When it has something to do again, inner clock; INT64_MAX: never. */
int64_t memory_next_ms(const struct memory *memory);

/* Whether a job may wait for a due on the wall clock: then a step of that is worth a look. */
bool memory_waits_for_wall(const struct memory *memory, struct engine_now now);

/* ---- calls; `now` as memory_advance was told last ---- */

/* Each fills in *result but its topic and id. The push has an id. */
void memory_push(struct memory *memory, const struct queue_push *push, struct engine_now now,
                 struct queue_result *result);
void memory_change(struct memory *memory, const struct queue_change *change, struct engine_now now,
                   struct queue_result *result);
void memory_answer(struct memory *memory, const struct queue_answer *answer, struct engine_now now,
                   struct queue_result *result);
/* The same for one who has the job in hand; answer->lease is not looked at. */
void memory_answer_lease(struct memory *memory, const struct engine_lease *lease,
                         const struct queue_answer *answer, struct engine_now now,
                         struct queue_result *result);

/* A job as it was when it was handed out: its text stays as long as it does, whatever becomes of the job. Any
 * thread may read it and free it. */
struct memory_job {
    struct queue_job shown;    /* its lease is empty until memory_job_lease */
    struct engine_lease lease; /* of a job that was taken */
    struct blob *blob;
    char *text; /* history and error */
    struct mac_key lease_key;
    bool is_taken; /* it has a lease: not one that was looked at */
    char lease_text[LEASE_TEXT_BYTES + 1];
};
void memory_job_free(struct memory_job *job); /* NULL is fine */
/* One that another queue shows, in one block with its text, its lease as well. NULL: out of memory. */
struct memory_job *memory_job_copy(const struct queue_job *from);
/* Writes the lease's text, of a taken job. */
void memory_job_lease(struct memory_job *job);

/* The taken job is acked, and pushed in its place is another of its topic and id, in one: where that cannot be
 * pushed nothing is done. The topic remembers no ids: else QUEUE_BAD_OPTION. */
void memory_again(struct memory *memory, const struct memory_job *job,
                  const struct queue_push *push, struct engine_now now,
                  struct queue_result *result);

/* Up to take->max ready jobs under a lease, or the one that is named (NOT_FOUND, LEASED); malloc'd, the caller's. QUEUE_NO_MEMORY where there is none for
 * the first of them: it is ready as before. QUEUE_OK and none: none of the topics has anything to hand out. */
enum queue_status memory_take(struct memory *memory, const struct queue_take *take,
                              struct engine_now now, struct memory_job **out, size_t *count);
/* The same, and each is acked with it: nobody answers for it any more. */
enum queue_status memory_pop(struct memory *memory, const struct queue_take *take,
                             struct engine_now now, struct memory_job **out, size_t *count);
enum queue_status memory_get(struct memory *memory, struct slice topic, struct slice id,
                             struct engine_now now, struct memory_job **out);
/* `out` has room for list->limit; *cursor is written into `cursor_text`, empty at the end. */
enum queue_status memory_list(struct memory *memory, const struct queue_list *list,
                              struct engine_now now, struct memory_job **out, size_t *count,
                              char cursor_text[QUEUE_CURSOR_BYTES_MAX], struct slice *cursor);

/* *topic as engine_topic_show, good until the next call; *affected of purge, redrive and delete. */
enum queue_status memory_topic(struct memory *memory, const struct queue_topic_call *call,
                               struct engine_now now, struct queue_topic *topic,
                               uint64_t *affected);
/* As engine_look. */
void memory_look(const struct memory *memory, const struct queue_find *name, struct engine_now now,
                 struct queue_result *result);
/* As engine_topics_page. */
bool memory_topics(struct memory *memory, struct queue_topics_page page, struct engine_now now,
                   struct queue_topic **out, size_t *count);
/* QUEUE_OK, NOT_FOUND or NO_MEMORY. */
enum queue_status memory_forecast(struct memory *memory, const struct queue_forecast_call *call,
                                  struct engine_now now, struct queue_forecast *out);

bool memory_topic_has_ready(struct memory *memory, struct slice topic);
/* Memory that entries had and the next ones get. */
uint64_t memory_spare_bytes(const struct memory *memory);
/* Asserts every invariant; walks everything. For tests. */
void memory_check(const struct memory *memory);

#endif
