/*
 * engine: the state machine of one shard. PURE: time is an argument, and records leave through the sink.
 *
 * The engine keeps the key, state, due and place (in the log or in a run) of the jobs in its memory, but not their
 * bodies or ids. These are read at the place in struct engine_view. Of cold jobs (engine/stored.h) it keeps only
 * their number. A job in memory takes about 88 bytes of RAM if it was pushed without options and not tried yet; 112
 * more otherwise, and its error and its history after a failed attempt. A group with jobs takes about 150 bytes.
 *
 * Rules
 *   - Each change first appends its record and then takes effect; engine_replay can rebuild the same state from the
 *     records.
 *   - `ready` is not recorded: a delayed job whose due has passed is ready.
 *   - The counts of a topic are updated at each change, never scanned.
 *   - Every call is bounded. Work on many jobs is a walk (engine/walk.h), which continues in steps.
 *
 * One thread, the shard's. Memory: engine_new/engine_free; output is valid only until the next call unless documented
 * otherwise.
 */
#ifndef TARRY_ENGINE_ENGINE_H
#define TARRY_ENGINE_ENGINE_H

#include "job/event.h"
#include "job/section.h"
#include "queue/queue.h"

struct engine;

/* The two clocks of base/clock.h, read once. `skew_ms` is wall - inner as of the last step of the wall clock. It
 * converts one into the other for display and for the wheel; whether a job due by the wall clock is due depends
 * only on `wall_ms`. */
struct engine_now {
    int64_t inner_ms;
    int64_t wall_ms;
    int64_t skew_ms;
};

enum engine_slot { SLOT_RELEASED = 0, SLOT_WAS_DEAD, SLOT_UNKNOWN };

/* The end of a job for which a client waits. Its slices are valid during the call. */
struct engine_ended {
    struct slice topic;
    struct hash128 key;
    enum job_end outcome; /* 0: the job is dead, or gone */
    bool is_gone;         /* purged */
    struct slice error;   /* of a dead job, as the next three */
    int64_t due_ms;       /* wall clock */
    uint64_t delivery;
    uint16_t priority;
    const struct record_kept *kept; /* the job; its id is empty if its record cannot be read */
};

/* Shows the job of an end, finished or dead, with the id of the wait. *end belongs to the caller; out->end is NULL if
 * the job died without a result. Not for jobs that are gone. */
void engine_ended_show(const struct engine_ended *ended, struct slice id, struct queue_job *out,
                       struct queue_end *end);

/* The callbacks of the engine into the owner of its records. */
struct engine_sink {
    /* Appends a record. Never fails: the caller of the engine has reserved the room (see engine_room_*). */
    struct record_place (*append)(void *ctx, const struct record *record);
    /* Reads the job in a record that was appended. `is_next`: its successor instead, if it has one. `out` is valid
     * until the next call. False: it cannot be read. NULL: leased jobs get no successors. */
    bool (*read)(void *ctx, struct record_place place, bool is_next, struct job *out);
    /* Releases a slot of a run (engine/stored.h) that is no longer needed; called after the record that makes it
     * obsolete was appended. Returns SLOT_RELEASED with its section; SLOT_WAS_DEAD if it was released already;
     * SLOT_UNKNOWN (replay only) if its run was never committed. NULL: there are no runs. */
    enum engine_slot (*release_slot)(void *ctx, struct record_place place,
                                     enum job_section *section);
    /* Reports that the job of the slot came to memory or left it: a live slot whose job is not in memory is a cold
     * job. NULL: not needed. */
    void (*hold_slot)(void *ctx, struct record_place place, bool in_memory);
    /* Reports that the record of a job, or of a remembered id, is no longer needed. Called after the record that
     * makes it obsolete was appended, and for all that are left when the engine is freed. NULL: the owner keeps
     * its records by other means. */
    void (*release)(void *ctx, struct record_place place);
    /* Reports that the topic now has ready jobs and had no ready job before. */
    void (*ready)(void *ctx, struct slice topic);
    /* Reports that the pause of the topic ended because its time came. NULL: not needed. */
    void (*resumed)(void *ctx, struct slice topic);
    /* Reports that a job of this topic, which has an extension, has died. */
    void (*died)(void *ctx, struct slice topic);
    /* Reports job events of the kinds enabled by engine_notify. Called after the event, while the record of the job
     * is still at `place`. The id is empty if the engine does not have it; it can be read at `place` and verified
     * with `key`. Deliveries are not reported, since the caller of a take has them. */
    void (*event)(void *ctx, const struct job_event *event, struct hash128 key,
                  struct record_place place);
    /* Returns whether the log has room for so many bytes beyond those reserved for engine_advance. NULL: always. */
    bool (*has_room)(void *ctx, size_t bytes);
    /* Reports the end of a job in a topic with waits (engine_await), after its record was appended. NULL: not needed. */
    void (*ended)(void *ctx, const struct engine_ended *ended);
    void *ctx;
};

struct engine_options {
    struct engine_sink sink;
    uint64_t hash_seed;
    uint64_t body_bytes_max;
    uint32_t topics_max;
    uint32_t shards;       /* number of shards that share a topic's max_jobs; 0: 1 */
    uint32_t shard;        /* of this one among them */
    uint64_t random_seed;  /* for jitter */
    struct engine_now now; /* start of the recovery */
};

struct engine *engine_new(const struct engine_options *options); /* NULL: out of memory */
void engine_free(struct engine *engine);

/* ---- recovery after a restart ---- */

/* Replays one record, in the order of their appends. False: the record contradicts the previous ones. */
bool engine_replay(struct engine *engine, const struct record *record, struct record_place place);
/* Prefetches the memory that the next records to replay will touch. */
void engine_replay_soon(const struct engine *engine, const struct record *records, size_t count);
/* Ends the recovery, after the last record. `epoch` rises with every start and keeps delivery numbers rising. */
void engine_start(struct engine *engine, uint64_t epoch);
/* Keeps leases from before the restart until at least this time (inner clock), because their consumers could not
 * answer meanwhile. Called after engine_start. */
void engine_keep_leases(struct engine *engine, int64_t until_ms);

/* One delivery of one job of this shard. */
struct engine_lease {
    uint64_t key_low;
    uint64_t delivery;
};

/* ---- room: the most log bytes that a call may need; reserve them before the call ---- */

enum { ENGINE_STATE_BYTES_MAX = 512 }; /* one STATE or DONE record */
/* The further room of a change of a member: the records of its batch and of the waiting job. */
enum { ENGINE_BATCH_BYTES_MAX = 768 };
/* Returns the room of one change, or timed event, of any job. */
size_t engine_room_change(const struct engine *engine);
size_t engine_room_push(const struct queue_push *push);
/* The further room of a push that becomes the successor of a leased job. */
size_t engine_room_next(const struct engine *engine, const struct queue_push *push);
size_t engine_room_again(struct record_place place, const struct queue_again *again);
/* The further room of the end of a job, by a change or an answer (which may also extend the lease). */
/* Returns whether any topic has kept finished jobs since the start: if not, an end needs no further room. */
bool engine_keeps_ends(const struct engine *engine);
size_t engine_room_end(const struct engine *engine, struct slice topic, struct slice id);
size_t engine_room_answer(const struct engine *engine, const struct engine_lease *lease,
                          const struct queue_answer *answer);
/* The further room of a pop of the job from engine_first_ready. */
size_t engine_room_pop(const struct engine *engine, uint32_t ready);

/* ---- commands: each sets *result's status, state, due_ms, lease_until_ms, detail ---- */

void engine_push(struct engine *engine, const struct queue_push *push, struct engine_now now,
                 struct queue_result *result);
/* Writes the batches of the job that a push would store, as its record has them; for owners of records that are made before the
 * push. Returns an empty slice if there are none, or if the push will be rejected. */
struct slice engine_push_batches(struct engine *engine, const struct queue_push *push,
                                 struct hash128 key, struct engine_now now,
                                 char room[JOB_BATCH_BYTES_MAX]);
/* ---- batches over several shards (queue/batch_parts.h): batch_parts.c ---- */

/* Carries out a call about a batch. A lease is `lease`; NULL: it is not of this shard. Sets status, batch and depth. `has_room`: the
 * log has room for two changes. Only reports and orders need it: a leave without room lets engine_advance end the wait. */
void engine_batch_call(struct engine *engine, const struct queue_batch_call *call,
                       const struct engine_lease *lease, bool has_room, struct engine_now now,
                       struct queue_result *result);
/* Takes the next report or order that this shard has to send, and its destination. It may be sent when the records appended so far are
 * durable. Returns false after the last. */
bool engine_batch_next(struct engine *engine, struct queue_batch_call *out, uint32_t *to);
/* Handles the answer to it; an order or report that failed is due again. */
void engine_batch_answered(struct engine *engine, const struct queue_batch_call *call, uint32_t to,
                           enum queue_status status);
bool engine_batch_has_next(const struct engine *engine);
/* At the start, before any call: passes the reports of the other shards to this one, in memory only, then lets go of the batches that
 * nothing needs. Reports are read from their shards with `*at`, which begins at 0. */
bool engine_batch_reports(const struct engine *engine, uint32_t *at, struct queue_batch_call *out);
bool engine_batch_heard(struct engine *engine,
                        const struct queue_batch_call *report); /* false: out of memory */
void engine_batches_begin(struct engine *engine);

/* Returns whether any job waits for others, or did. */
bool engine_has_batches(const struct engine *engine);
/* Push in two steps, for callers with work in between. The first returns the key of the job and prefetches the
 * memory of its look-up. */
struct hash128 engine_key_soon(const struct engine *engine, struct slice topic, struct slice id);
void engine_push_key(struct engine *engine, const struct queue_push *push, struct hash128 key,
                     struct engine_now now, struct queue_result *result);
/* Returns the key under which the `once` of a push is remembered. */
struct hash128 engine_once_key(const struct engine *engine, struct slice topic, struct slice once);
void engine_change(struct engine *engine, const struct queue_change *change, struct engine_now now,
                   struct queue_result *result);

/* Redrives a dead job. Returns NOT_FOUND if it is not dead. (Many jobs: engine/walk.h.) */
enum queue_status engine_redrive(struct engine *engine, struct slice topic, struct slice id,
                                 struct engine_now now);

/* Carries out an answer, except QUEUE_AGAIN. */
void engine_answer(struct engine *engine, const struct engine_lease *lease,
                   const struct queue_answer *answer, struct engine_now now,
                   struct queue_result *result);

/*
 * Acks a job and pushes it again. The caller makes the push from the record of the job (life_again), which
 * engine_leased finds, with its present priority. *is_next: the job is the successor in its
 * record. bytes 0: the lease has ended. engine_again also ends with LEASE_ENDED then. A job whose cancel
 * was requested is cancelled instead.
 */
struct record_place engine_leased(const struct engine *engine, const struct engine_lease *lease,
                                  struct engine_now now, uint16_t *priority, bool *is_next);
void engine_again(struct engine *engine, const struct engine_lease *lease,
                  const struct queue_push *push, struct engine_now now,
                  struct queue_result *result);

/* The present state of a job: the place of its record, and the changes since that was written. */
struct engine_view {
    struct hash128 key;
    struct record_place place;
    enum job_state state;
    uint16_t priority;
    uint32_t attempt;
    int64_t due_ms, lease_until_ms; /* wall clock */
    int64_t next_due_ms;            /* of its successor; 0: no successor */
    uint64_t delivery, sequence;
    bool cancel_requested;
    bool next_started; /* the job is the successor in the record */
    bool has_batch;    /* the job has a batch of its own: `waiting` */
    bool waits;        /* it waits for its members, and has no due */
    struct queue_waiting waiting;
    uint8_t consumer_bytes;
    uint16_t history_bytes, error_bytes, progress_bytes;
    char *
        text; /* the history, the error, the consumer and the progress, owned by the view; NULL: no text */
};
void engine_view_fini(struct engine_view *view);

/* Overlays `view` on the job decoded from its record. The error, history and consumer of the job then point into
 * the text of the view. */
void engine_show(const struct engine_view *view, struct job *job);

/*
 * Takes up to `max` ready jobs of the topic, and stops before the total of their records exceeds `bytes_max` (except
 * for the first). `consumer` is the name of the taker, or empty. Returns how many; 0 for a topic that is unknown or
 * paused. The caller must end the views.
 */
size_t engine_take(struct engine *engine, struct slice topic, uint32_t max, size_t bytes_max,
                   int64_t lease_ms, struct slice consumer, struct engine_now now,
                   struct engine_view *out);

/* Shows the ready job of the topic that would be taken first, also while the topic is paused. The caller must end
 * the view. False: no job is ready in memory, or the topic is unknown. */
bool engine_show_first(struct engine *engine, struct slice topic, struct engine_now now,
                       struct engine_view *out);

/* Returns the job of the topic that would be taken first, for an engine_pop without another call between, and the
 * place of its record. 0: no job is ready, or the topic is unknown or paused. */
uint32_t engine_first_ready(struct engine *engine, struct slice topic, struct engine_now now,
                            struct record_place *out);
/*
 * Takes that job and finishes it as acked in one step: without a lease, and with only the final record. *out shows it
 * as a finished job with this delivery; the record at its place has been released (sink.release). The caller must end
 * the view.
 */
void engine_pop(struct engine *engine, uint32_t ready, struct engine_now now,
                struct engine_view *out);
/*
 * Takes from several topics, the best job first, whichever topic has it (struct queue_take, by_priority). `next` is
 * the rank of the following job; *has_next false: no job follows.
 */
size_t engine_take_best(struct engine *engine, const struct queue_take *take, size_t bytes_max,
                        struct engine_now now, struct engine_view *out, struct queue_rank *next,
                        bool *has_next);

/* Takes this job if it is ready, delayed or dead, also if its topic is paused. The due of a job that is not ready
 * becomes now. Returns QUEUE_OK, NOT_FOUND, LEASED or NO_MEMORY. The caller must end the view. */
enum queue_status engine_take_job(struct engine *engine, struct slice topic, struct slice id,
                                  int64_t lease_ms, struct slice consumer, struct engine_now now,
                                  struct engine_view *out);

/* Returns the result of engine_find without a view: NOT_FOUND, or OK with the state and the due. */
void engine_look(struct engine *engine, const struct queue_find *name, struct engine_now now,
                 struct queue_result *result);

/* Finds a job. False: no such job (finished ones are not found). The caller must end the view. */
bool engine_find(struct engine *engine, struct slice topic, struct slice id, struct engine_now now,
                 struct engine_view *out);

/* As engine_find, for a kept job. The due and the sequence of the view are its rank (queue_finished_rank). */
bool engine_find_kept(struct engine *engine, struct slice topic, struct slice id,
                      struct engine_now now, struct engine_view *out);
/* The same by its key and sequence. */
bool engine_show_kept(struct engine *engine, struct hash128 key, uint64_t sequence,
                      struct engine_now now, struct engine_view *out);

/* Begins or ends a wait for the end of a job of the topic: all its ends are reported (sink.ended). False: no such topic. */
bool engine_await(struct engine *engine, struct slice topic, bool on);

/* Returns a topic that keeps more finished jobs than it may, and whose oldest are cold. The owner of the runs loads
 * these and calls engine_trim_one for each, in their order; false: enough were dropped. */
bool engine_trim_next(struct engine *engine, struct slice *topic);
bool engine_trim_one(struct engine *engine, struct hash128 key, struct engine_now now);

/* ---- topics ---- */

/* Restores earlier settings of a topic. Unlike engine_topic_put, it also changes the order of groups while the topic has jobs. */
enum queue_status engine_topic_put_back(struct engine *engine, struct slice name,
                                        const struct topic_settings *settings);
/* Returns QUEUE_OK if the part may have these settings of a topic (enum queue_place). */
enum queue_status engine_topic_may_move(struct engine *engine, struct slice name,
                                        const struct topic_settings *settings,
                                        enum queue_place place);
/* Returns whether all waiting jobs of the topic must be in memory: a tried job that is on the disk could not hold its strict group, and would not
 * be counted in a group with a maximum number of jobs. */
bool engine_keeps_waiting(struct engine *engine, struct slice topic);
/* QUEUE_NOT_EMPTY: group_order would change while a job waits or is leased. */
enum queue_status engine_topic_put(struct engine *engine, struct slice topic,
                                   const struct topic_settings *settings);
/* Pauses a topic until `until_ms` (inner clock), when it resumes by itself; 0: until it is resumed. */
enum queue_status engine_topic_pause(struct engine *engine, struct slice topic, int64_t until_ms);
enum queue_status engine_topic_resume(struct engine *engine, struct slice topic);
/* Marks the topic at the begin of a delete in all shards, and creates it if it does not exist; or removes the mark
 * if the delete is called off. */
enum queue_status engine_topic_mark(struct engine *engine, struct slice topic, bool deleting);
/* Removes the topic if it has no jobs left, else returns QUEUE_CONFLICT (a walk empties it). */
enum queue_status engine_topic_remove(struct engine *engine, struct slice topic);
/* Shows a topic. The name and the extension live as long as the topic and its settings. */
bool engine_topic_show(struct engine *engine, struct slice topic, struct engine_now now,
                       struct queue_topic *out);
bool engine_topic_has_ready(struct engine *engine, struct slice topic);
/* Iterates over topics in no particular order: start with *at = 0; false at the end. */
bool engine_topic_next(struct engine *engine, uint32_t *at, struct engine_now now,
                       struct queue_topic *out);
/* Returns the first `limit` topics (0: all) after `after` (empty: from the first), by name. *out is malloc'd; its
 * pointers live as with engine_topic_show. False: out of memory. */
bool engine_topics_page(const struct engine *engine, struct slice after, size_t limit,
                        struct engine_now now, struct queue_topic **out, size_t *count);
/* Appends the record of every topic again, at most `max` in one call, so that older files can be removed. Start
 * with *at = 0; true: that was the last. At most ENGINE_TOPIC_BYTES_MAX each. */
enum { ENGINE_TOPIC_BYTES_MAX = 640 + TOPIC_EXTENSION_BYTES_MAX };
bool engine_carry_topics(struct engine *engine, uint32_t *at, size_t max);
uint32_t engine_topic_count(const struct engine *engine);

/* ---- groups (job/flow.h) ---- */

/* Sets all settings of a group, whose pause ends by the inner clock, and creates the topic if it does not exist. Returns OK or a
 * rejection. */
enum queue_status engine_group_put(struct engine *engine, struct slice topic, struct slice group,
                                   const struct group_settings *settings);
/* Removes the settings and the hold of a group. */
enum queue_status engine_group_delete(struct engine *engine, struct slice topic,
                                      struct slice group);
/* Holds a group, or with an empty name the topic, as an answer with hold_ms does. Creates the topic if it does not exist. Returns OK or
 * a rejection. */
enum queue_status engine_group_hold(struct engine *engine, struct slice topic, struct slice group,
                                    int64_t hold_ms, struct engine_now now);
/* Shows a group, also an unknown one. Its name points to that of the caller. Returns false if the topic does not exist. */
bool engine_group_show(struct engine *engine, struct slice topic, struct slice group,
                       struct engine_now now, struct queue_group *out);
/* Iterates over the groups of a topic with ready or leased jobs, a hold or settings, in no particular order: start with *at = 0;
 * false at the end. Names live until the next change. */
bool engine_group_next(struct engine *engine, struct slice topic, uint32_t *at,
                       struct engine_now now, struct queue_group *out);
/* Returns why a ready job of this group is not delivered. *until_ms: wall clock; 0: unknown. */
enum flow_held engine_held(struct engine *engine, struct slice topic, struct slice group,
                           struct engine_now now, int64_t *until_ms);

/* ---- time ---- */

/*
 * Processes due events: delayed jobs become ready, leases end, ready jobs expire, remembered ids are forgotten,
 * pauses end. Handles at most `max` of them (each may need ENGINE_STATE_BYTES_MAX) and returns how many; call again
 * while engine_next_ms <= now.
 */
size_t engine_advance(struct engine *engine, struct engine_now now, size_t max);
/* Returns the time of the next event, by the inner clock; INT64_MAX: no event. Nothing happens before. At that
 * time an event may be missing as well, because the wheel moves a distant job several times on its way. */
int64_t engine_next_ms(const struct engine *engine);
/* Returns the number of timed events so far: jobs that fell due or expired, leases that ended, ids that were
 * forgotten, pauses that ended. */
uint64_t engine_happened(const struct engine *engine);

/* Sets the kinds of events that are reported to the sink, a bit each (job_event_bit); 0, as at the beginning: no
 * events. */
void engine_notify(struct engine *engine, uint32_t kinds);

/* ---- figures ---- */

struct engine_stats {
    struct queue_counts counts;
    uint64_t remembered; /* finished ids within a dedup_window */
    uint32_t topics;
};
void engine_stats(const struct engine *engine, struct engine_stats *out);
/* Returns how many kept jobs were dropped before their time, for this reason. */
uint64_t engine_dropped(const struct engine *engine, enum queue_drop reason);

/* Returns the size of the memory of former jobs that is reserved for new ones. */
uint64_t engine_spare_bytes(const struct engine *engine);

/* Asserts every invariant, with a walk over everything. For tests. */
void engine_check(const struct engine *engine);

#endif
