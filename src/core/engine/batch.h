/*
 * batch: the batches of an engine: waiting jobs and the counts of their members (queue/life.h has the rules).
 *
 * The number of a batch is the sequence of its waiting job; with several shards, its highest byte names the shard of that job, its home. In
 * other shards the batch is a part, which counts the members there; its wait never ends by itself (batch_parts.c). A waiting job is always in memory: it is in the section of leased jobs, which
 * are loaded at the start. Its entry is linked as delayed until the end of its wait, with the mark EXTRA_WAITS. Members may be
 * cold; a member in memory refers to its batch through own_policy.batch.
 *
 * Every change of a batch appends a RECORD_BATCH with all of its state, in the step of the change of the member. A checkpoint appends
 * those of all batches again (engine_carry_topics).
 *
 * A stop does not look for the members. It counts them as cancelled, and each of them is removed when it is met: by a sweep over the jobs in
 * memory, by a take, or when it is loaded. Until then it is a leftover, which no call finds. A batch exists until its waiting
 * job has ended, and after a stop until it has neither leftovers nor leased members.
 */
#ifndef TARRY_ENGINE_BATCH_H
#define TARRY_ENGINE_BATCH_H

#include "base/slab.h"
#include "engine/engine.h"
#include "queue/batch_parts.h"

struct engine;
struct entry;
struct extra;

struct batch {
    struct life_batch rules;
    struct hash128 key; /* of the waiting job */
    uint64_t number;
    int64_t wait_until_ms, close_by_ms; /* inner clock */
    int64_t due_ms; /* the delay after the wait; with due_is_at: the earliest time, wall clock */
    uint64_t stop_sequence; /* of a stopped batch: members delivered later are not leftovers */
    uint32_t next;          /* chain of the table */
    uint32_t linked;        /* jobs and successors in memory that refer to it */
    uint32_t leased;        /* leased members */
    uint32_t leftovers;
    bool due_is_at;
    bool is_known; /* false: only members that refer to it were replayed */
    bool is_gone;  /* its waiting job has ended */
    /* With several shards (batch_parts.c). */
    bool is_due;              /* it is in batches.due */
    uint32_t next_due;        /* of batches.due */
    uint64_t version;         /* of the counts of a part; 0: not changed since the start */
    struct batch_parts parts; /* of a home */
};

struct batches {
    struct slab slab;
    uint32_t *table; /* by number; chained */
    uint32_t table_size, live;
    uint32_t open;     /* whose waiting job has not ended */
    uint32_t carry_at; /* of engine_carry_topics */
    uint32_t sweep_at; /* entry at which the sweep for leftovers continues */
    uint32_t stopped;  /* batches with leftovers */
    uint32_t due;      /* first of the batches with reports or orders to send; 0: no batch */
    uint64_t version;  /* the last one that was given */
};

/* Creates a batch. Returns 0 if out of memory. */
uint32_t batch_new(struct engine *engine, uint64_t number);
/* Returns the number of the batch of a waiting job. */
uint64_t batch_number(const struct engine *engine, uint64_t sequence);
/* Returns whether the waiting job of a batch is in another shard. */
bool batch_is_part(const struct engine *engine, uint64_t number);
/* Notes that a batch changed: its report or orders are due. */
void batch_note(struct engine *engine, uint32_t id);
/* Creates the part of a batch whose waiting job is in another shard. Returns 0 if out of memory. */
uint32_t batch_part_new(struct engine *engine, const struct queue_batch *batch);
/* Records a changed batch, and ends its wait if nothing is left to wait for. */
void batch_changed(struct engine *engine, uint32_t id, struct engine_now now);
/* Returns whether the wait of the batch ends now. */
bool batch_is_over(const struct engine *engine, const struct batch *batch);
/* Frees a batch that nothing needs any more. */
void batch_let_go(struct engine *engine, uint32_t id);

/* Returns the id of the batch with this number, or 0. */
uint32_t batch_find(const struct engine *engine, uint64_t number);
struct batch *batch_at(const struct engine *engine, uint32_t id);
/* Returns the batch of the waiting job, also after its wait, or 0. */
uint32_t batch_of_waiting(const struct engine *engine, const struct entry *entry);

/* Refers to the batch of a member from its encoding, and creates it during recovery. Sets *out to 0 if the job is not a member, or
 * if the batch has ended. Returns false if out of memory. */
bool batch_link(struct engine *engine, struct slice encoded, uint32_t *out);
void batch_unlink(struct engine *engine, uint32_t id);

/* The batches of a push, before and after its record. */
struct batch_push {
    uint32_t member_of; /* a batch, to which it refers; 0: not a member */
    uint32_t own;       /* of a waiting job; 0: it does not wait */
    bool joins;         /* it is a new member */
    enum batch_outcome before;
    struct slice encoded;
    char room[JOB_BATCH_BYTES_MAX];
};
/* Checks a push onto the job `old` (0: a new job), whose number will be `sequence`. Returns QUEUE_OK, or why it is rejected, with
 * *detail for BAD_OPTION; nothing is changed then. After QUEUE_OK, batch_push_done or batch_push_undo follows. */
enum queue_status batch_push_begin(struct engine *engine, const struct queue_push *push,
                                   struct hash128 key, uint32_t old, uint64_t sequence,
                                   struct engine_now now, struct batch_push *out,
                                   const char **detail);
/* Keeps the membership of a job that is acked and pushed again. Returns false if its record cannot be read. */
bool batch_again(struct engine *engine, uint32_t entry, struct batch_push *out);
/* Returns the first due of a waiting job in the wheel. */
int64_t batch_first_due_ms(const struct engine *engine, uint32_t id);
void batch_push_undo(struct engine *engine, const struct batch_push *push);
/* Counts the pushed job. Its record was appended; it is linked. Returns the version of the counts of a part that it joined, else 0. */
uint64_t batch_push_done(struct engine *engine, const struct batch_push *push, enum job_state state,
                         struct engine_now now);

/* A member changed its outcome, or ended. Its record was appended. */
void batch_member_changed(struct engine *engine, uint32_t id, enum batch_outcome before,
                          enum batch_outcome after, struct engine_now now);
/* The waiting job with this sequence has ended or was replaced. */
void batch_drop(struct engine *engine, uint64_t sequence);
/* Closes the batch of a waiting job. */
enum queue_status batch_close(struct engine *engine, uint32_t entry, struct engine_now now);
/* Ends the wait of a waiting job now. */
void batch_run(struct engine *engine, uint32_t entry, struct engine_now now);
/* Stops the batch of a waiting job, which is cancelled next. */
void batch_stop(struct engine *engine, uint32_t id);
/* Sets the earliest time of a waiting job. */
void batch_reschedule(struct engine *engine, uint32_t entry, const struct queue_when *when,
                      struct engine_now now);
/* Handles a waiting job that the wheel returned, or that was redriven. */
void batch_fall_due(struct engine *engine, uint32_t entry, struct engine_now now);
void batch_redriven(struct engine *engine, uint32_t entry, struct engine_now now);

/* Returns whether the job is a leftover of a stop. */
/* Returns whether the push names a batch that the job is not a member of. A batch that is gone may be that of the job. */
bool batch_is_other(const struct engine *engine, const struct queue_batch *batch,
                    const struct entry *entry, struct engine_now now);
bool batch_is_leftover(const struct engine *engine, const struct entry *entry);
bool batch_is_stopped(const struct engine *engine, uint32_t id);
/* Handles a job that is kept back and whose due has come. */
void batch_kept_back_due(struct engine *engine, uint32_t entry, struct engine_now now);
/* Removes a leftover, which is linked. */
void batch_remove_leftover(struct engine *engine, uint32_t entry, struct engine_now now);
/* Removes some of the leftovers in memory. */
void batch_sweep(struct engine *engine, struct engine_now now, size_t max);

/* Sets the batches of an entry from its JOB record. Returns false if out of memory. */
bool batch_entry_set(struct engine *engine, struct entry *entry, const struct job *job);
void batch_view(const struct engine *engine, const struct entry *entry, struct engine_view *out);
/* Fills in what a reply shows of the batch of a waiting job. */
void batch_show(const struct engine *engine, uint32_t id, struct queue_waiting *out);

bool batch_replay(struct engine *engine, const struct record_batch *record);
/* Removes the batches that ended before the log. */
void batch_replayed(struct engine *engine);
/* Appends the record of the next batch again. Returns false after the last. */
bool batch_carry(struct engine *engine);
void batches_free(struct engine *engine);
/* Asserts the invariants. */
void batch_check(const struct engine *engine);

#endif
