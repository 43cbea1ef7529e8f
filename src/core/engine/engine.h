/*
 * engine: one shard's state machine. PURE: time comes in as an argument, records go out through the
 * sink.
 *
 * It knows the jobs in its memory by key, state, due and place (in the log or in a run), but not
 * their bodies or ids: whoever wants them reads them there (struct engine_view says where). Of cold
 * jobs (engine/stored.h) it knows how many there are. About 88 bytes of RAM a job in memory that
 * was pushed without options and not yet tried; 112 more otherwise, and its error and its history
 * where an attempt failed.
 *
 * Rules
 *   - Each change appends its record first and then happens; what is appended is enough to make the
 *     same state again by engine_replay.
 *   - `ready` is not recorded: a delayed job whose due has passed is ready.
 *   - Counts a topic keeps are kept at each change, never scanned.
 *   - Every call is bounded. What must look at many jobs is a walk (engine/walk.h) that goes on in
 *     steps.
 *
 * One thread, the shard's. Memory: engine_new/engine_free; nothing handed out lives past the next
 * call unless said.
 */
#ifndef TARRY_ENGINE_ENGINE_H
#define TARRY_ENGINE_ENGINE_H

#include "job/event.h"
#include "job/section.h"
#include "queue/queue.h"

struct engine;

/* The two clocks of base/clock.h, read once. `skew_ms` is wall - inner as of the last step of the
 * wall clock: it turns one into the other for showing and for the wheel; whether a job due by the
 * wall clock is due is told by `wall_ms` alone. */
struct engine_now {
    int64_t inner_ms;
    int64_t wall_ms;
    int64_t skew_ms;
};

enum engine_slot { SLOT_RELEASED = 0, SLOT_WAS_DEAD, SLOT_UNKNOWN };

/* What the engine needs from whoever keeps its records. */
struct engine_sink {
    /* Never fails: the caller of the engine has made sure of the room (see engine_room_*). */
    struct record_place (*append)(void *ctx, const struct record *record);
    /* A slot of a run (engine/stored.h) holds nothing that counts any more; told after the record
     * that makes it so was appended. SLOT_RELEASED with its section; SLOT_WAS_DEAD: it was so already;
     * SLOT_UNKNOWN (replay only): its run was never committed. NULL: there are no runs. */
    enum engine_slot (*release_slot)(void *ctx, struct record_place place,
                                     enum job_section *section);
    /* The slot's job came to memory, or left it: a slot that is alive and has none is a cold job. NULL:
     * nobody wants to know. */
    void (*hold_slot)(void *ctx, struct record_place place, bool in_memory);
    /* What was appended as the record of a job, or of an id that is remembered, is needed no more; told
     * after what makes it so was appended, and for all that are left when the engine is freed. NULL: it
     * keeps its records otherwise. */
    void (*release)(void *ctx, struct record_place place);
    /* The topic had nothing to hand out and has now. */
    void (*ready)(void *ctx, struct slice topic);
    /* The topic's pause is over, since its time has come. NULL: nobody wants to know. */
    void (*resumed)(void *ctx, struct slice topic);
    /* A job of this topic, which has an extension, has died. */
    void (*died)(void *ctx, struct slice topic);
    /* What happens to jobs, of the kinds that engine_tell named; after it happened, but while the
     * job's record still lies at `place`. The id is empty where the engine does not know it: who wants
     * it reads it there, and `key` proves it. Deliveries are not told: who takes knows. */
    void (*event)(void *ctx, const struct job_event *event, struct hash128 key,
                  struct record_place place);
    void *ctx;
};

struct engine_options {
    struct engine_sink sink;
    uint64_t hash_seed;
    uint64_t body_bytes_max;
    uint32_t topics_max;
    uint32_t shards;       /* that share a topic's max_jobs; 0: 1 */
    uint64_t random_seed;  /* for jitter */
    struct engine_now now; /* when recovery begins */
};

struct engine *engine_new(const struct engine_options *options); /* NULL: out of memory */
void engine_free(struct engine *engine);

/* ---- coming back after a restart ---- */

/* One record, in the order they were appended. False: the record contradicts what came before. */
bool engine_replay(struct engine *engine, const struct record *record, struct record_place place);
/* Asks for the memory that so many records, replayed after it, will touch. */
void engine_replay_soon(const struct engine *engine, const struct record *records, size_t count);
/* After the last record: `epoch` rises with every start and keeps delivery numbers rising. */
void engine_start(struct engine *engine, uint64_t epoch);
/* No lease that was given before the restart ends before then (inner clock): its consumer could not
 * answer meanwhile. After engine_start. */
void engine_keep_leases(struct engine *engine, int64_t until_ms);

/* ---- room: how many bytes of log a call may need at most; ask the log before calling ---- */

enum { ENGINE_STATE_BYTES_MAX = 512 }; /* one STATE or DONE record */
size_t engine_room_push(const struct queue_push *push);

/* ---- commands: each fills in *result's status, state, due_ms, lease_until_ms, detail ---- */

void engine_push(struct engine *engine, const struct queue_push *push, struct engine_now now,
                 struct queue_result *result);
/* The same in two steps, for callers who have something to do between: the job's key, and the memory that looking it up will
 * touch is on its way. */
struct hash128 engine_key_soon(const struct engine *engine, struct slice topic, struct slice id);
void engine_push_key(struct engine *engine, const struct queue_push *push, struct hash128 key,
                     struct engine_now now, struct queue_result *result);
void engine_change(struct engine *engine, const struct queue_change *change, struct engine_now now,
                   struct queue_result *result);

/* A dead job goes round again. NOT_FOUND where it is not dead. (Many: engine/walk.h.) */
enum queue_status engine_redrive(struct engine *engine, struct slice topic, struct slice id,
                                 struct engine_now now);

/* Names one delivery of one job of this shard. */
struct engine_lease {
    uint64_t key_low;
    uint64_t delivery;
};
void engine_answer(struct engine *engine, const struct engine_lease *lease,
                   const struct queue_answer *answer, struct engine_now now,
                   struct queue_result *result);

/* A job as it stands now: where its record is, and what has changed since that was written. */
struct engine_view {
    struct hash128 key;
    struct record_place place;
    enum job_state state;
    uint16_t priority;
    uint32_t attempt;
    int64_t due_ms, lease_until_ms; /* wall clock */
    uint64_t delivery, sequence;
    bool cancel_requested;
    uint8_t consumer_bytes;
    uint16_t history_bytes, error_bytes;
    char *text; /* the history, the error, the consumer: the view's own memory; NULL: none */
};
void engine_view_fini(struct engine_view *view);

/* Overlays `view` on the job decoded from its record. The job's error, history and consumer then
 * point into the view's text. */
void engine_show(const struct engine_view *view, struct job *job);

/*
 * Takes up to `max` ready jobs of the topic, and stops before their records pass `bytes_max`
 * together (but for the first). `consumer`: what who takes them calls himself, or empty. Returns how
 * many. 0 for a topic that is unknown or paused. The views are the caller's to end.
 */
size_t engine_take(struct engine *engine, struct slice topic, uint32_t max, size_t bytes_max,
                   int64_t lease_ms, struct slice consumer, struct engine_now now,
                   struct engine_view *out);

/* Shows the ready job of the topic that would be taken first, also while the topic is paused. The view is the
 * caller's to end. False: none is ready in memory, or the topic is unknown. */
bool engine_show_first(struct engine *engine, struct slice topic, struct engine_now now,
                       struct engine_view *out);

/* Names the job of the topic that would be taken first, for an engine_pop with nothing between, and says where its record lies.
 * 0: none is ready, or the topic is unknown or paused. */
uint32_t engine_first_ready(struct engine *engine, struct slice topic, struct record_place *out);
/*
 * Takes that job and finishes it as acked, in one: no lease, no record but the last. *out tells of it as of a finished job,
 * with this delivery; what lay at its place was released by then (sink.release). The view is the caller's to end.
 */
void engine_pop(struct engine *engine, uint32_t ready, struct engine_now now,
                struct engine_view *out);
/*
 * The same over several topics, the best first, whichever has it (struct queue_take, by_priority). `next`:
 * what comes then; *has_next false: nothing.
 */
size_t engine_take_best(struct engine *engine, const struct queue_take *take, size_t bytes_max,
                        struct engine_now now, struct engine_view *out, struct queue_rank *next,
                        bool *has_next);

/* Takes this job, be it ready, delayed or dead, also where its topic is paused: then it was due now.
 * QUEUE_OK, NOT_FOUND, LEASED or NO_MEMORY. The view is the caller's to end. */
enum queue_status engine_take_job(struct engine *engine, struct slice topic, struct slice id,
                                  int64_t lease_ms, struct slice consumer, struct engine_now now,
                                  struct engine_view *out);

/* What engine_find says without a view: NOT_FOUND, or OK with the state and the due. */
void engine_look(struct engine *engine, const struct queue_find *name, struct engine_now now,
                 struct queue_result *result);

/* False: no such job (finished ones count as none). The view is the caller's to end. */
bool engine_find(struct engine *engine, struct slice topic, struct slice id, struct engine_now now,
                 struct engine_view *out);

/* ---- topics ---- */

enum queue_status engine_topic_put(struct engine *engine, struct slice topic,
                                   const struct topic_settings *settings);
/* Paused until `until_ms` (inner clock), when it resumes by itself; 0: until it is resumed. */
enum queue_status engine_topic_pause(struct engine *engine, struct slice topic, int64_t until_ms);
enum queue_status engine_topic_resume(struct engine *engine, struct slice topic);
/* A delete in all shards begins (the topic is made where it is not there), or does not after all. */
enum queue_status engine_topic_mark(struct engine *engine, struct slice topic, bool deleting);
/* Only when no job of it is left: else QUEUE_CONFLICT (a walk empties it). */
enum queue_status engine_topic_remove(struct engine *engine, struct slice topic);
/* The name and the extension live as long as the topic and its settings. */
bool engine_topic_show(struct engine *engine, struct slice topic, struct engine_now now,
                       struct queue_topic *out);
bool engine_topic_has_ready(struct engine *engine, struct slice topic);
/* Topics in no special order: start with *at = 0; false at the end. */
bool engine_topic_next(struct engine *engine, uint32_t *at, struct engine_now now,
                       struct queue_topic *out);
/* The first `limit` topics (0: all) behind `after` (empty: from the first on), by name. *out: malloc'd;
 * what it points at lives as with engine_topic_show. False: out of memory. */
bool engine_topics_page(const struct engine *engine, struct slice after, size_t limit,
                        struct engine_now now, struct queue_topic **out, size_t *count);
/* Appends every topic's record again, at most `max` in one call: older files are to go.
 * Start with *at = 0; true: that was the last. At most ENGINE_TOPIC_BYTES_MAX each. */
enum { ENGINE_TOPIC_BYTES_MAX = 512 + TOPIC_EXTENSION_BYTES_MAX };
bool engine_carry_topics(struct engine *engine, uint32_t *at, size_t max);
uint32_t engine_topic_count(const struct engine *engine);

/* ---- time ---- */

/*
 * Lets what is due happen: delayed jobs become ready, leases end, ready jobs expire, remembered ids
 * are forgotten, pauses end. At most `max` of them (each may need ENGINE_STATE_BYTES_MAX). Returns how many;
 * call again while engine_next_ms <= now.
 */
size_t engine_advance(struct engine *engine, struct engine_now now, size_t max);
/* Inner clock; INT64_MAX: nothing to wait for. Nothing happens before; at it maybe nothing either, for the wheel
 * turns a few times on a far job's way. */
int64_t engine_next_ms(const struct engine *engine);
/* How many things time has brought so far: jobs fell due or expired, leases ended, ids were forgotten, pauses over. */
uint64_t engine_happened(const struct engine *engine);

/* From now on these kinds of events are told to the sink, a bit each (job_event_bit); 0, as at the
 * beginning: none. */
void engine_tell(struct engine *engine, uint32_t kinds);

/* ---- figures ---- */

struct engine_stats {
    struct queue_counts counts;
    uint64_t remembered; /* finished ids within a dedup_window */
    uint32_t topics;
};
void engine_stats(const struct engine *engine, struct engine_stats *out);

/* Memory that jobs had and the next ones get. */
uint64_t engine_spare_bytes(const struct engine *engine);

/* Asserts every invariant; walks everything. For tests. */
void engine_check(const struct engine *engine);

#endif
