/* state: the structures of an engine (entries, their index, topics) and the functions that the files of this room share. */
#ifndef TARRY_ENGINE_STATE_H
#define TARRY_ENGINE_STATE_H

#include "base/random.h"
#include "engine/batch.h"
#include "engine/flow.h"
#include "engine/forecast_pages.h"
#include "engine/stored.h"
#include "wheel/wheel.h"

#include <assert.h>

/*
 * A job in RAM. Its state determines where it is linked:
 *   delayed   in the wheel at due
 *   ready     in the heap of its topic; in the wheel too if it can expire
 *   leased    in the wheel at the end of the lease
 *   dead      in the list of dead jobs of its topic, through timer.prev and timer.next
 *   finished  in the wheel until it may be forgotten
 * A stub (replay.c) is not linked and has no topic yet; stubs exist only during recovery.
 */
struct entry {
    struct wheel_node timer; /* first member, as the wheel requires */
    struct hash128 key;
    uint64_t due_ms : 48; /* wall clock if ENTRY_DUE_IS_WALL, else inner */
    uint64_t priority : 16;
    uint64_t sequence : 48 + 8; /* push order */
    uint64_t state : 3;
    uint64_t flags : 1;
    uint64_t section : 3; /* of its slot, if `place` is a slot */
    bool is_stub : 1;
    uint32_t index_next; /* chain of the key index */
    uint32_t topic;
    struct record_place place;
    uint32_t extra; /* id of a struct extra, 0: none */
    /* Position in the heap of the topic; while delayed: the page that counts it (forecast.h); of a stub: its last
     * event. */
    uint32_t ready_at;
    /* Log file of its newest STATE record; 0: its JOB record holds its state. */
    uint32_t state_file : 31; /* a file never has the bit of runs (RECORD_IN_RUN) */
    bool is_collected : 1;    /* the current checkpoint refers to it by id: it must stay */
};
_Static_assert(sizeof(struct entry) == 80, "a chunk of entries fills whole large pages");
_Static_assert(JOB_FINISHED < 1 << 3 && SECTIONS <= 1 << 3,
               "state and section fit into their bits");

enum { ENTRY_DUE_IS_WALL = 1, ENTRY_REMEMBERS = 1 /* of a kept job: kept.c */ };
enum { ENTRY_KEPT = 1 }; /* the priority of a finished job that is kept */

/* A policy of a job. The waits of a list are stored apart, so that other jobs have no room for them. */
struct own_policy {
    int64_t lease_ms, ttl_ms, first_ms, max_ms;
    uint32_t max_attempts;
    uint32_t steps;       /* id of a struct steps if the backoff is a list, else 0 */
    uint32_t backoff : 4; /* enum backoff_kind */
    uint32_t batch : 28;  /* id of the batch whose member the job is (batch.h); 0: not a member */
    /* The number of the group of the job (flow.h); 0: no group. It is here because there is room, which a policy on its own
     * leaves unused. */
    uint32_t group;
};
_Static_assert(sizeof(struct own_policy) == 48, "the group takes no room");
struct steps {
    uint32_t count;
    uint32_t ms[BACKOFF_STEPS_MAX];
};

/* Fields that most jobs do not need: their own policy, and the data of attempts. */
struct extra {
    struct own_policy policy;
    int64_t first_due_ms;   /* same clock as due_ms */
    int64_t lease_until_ms; /* inner */
    int64_t taken_ms;       /* inner; 0: unknown, taken by an older version before a restart */
    uint64_t delivery;
    char *text;        /* the history, then the error, then the consumer; owned; NULL: all empty */
    uint32_t lease_ms; /* 0: taken before a restart */
    uint32_t attempt;
    /* Log file of the oldest end of an attempt that its record does not include, since a newer STATE does not
     * repeat it; 0: no such file. */
    uint32_t ended_file;
    uint16_t history_bytes, error_bytes;
    uint8_t consumer_bytes; /* of the lease, as the next field: undefined in other states */
    bool cancel_requested;
    uint8_t next;       /* enum extra_next */
    uint8_t marks;      /* EXTRA_KEEPS_OWN, EXTRA_HAS_PROGRESS */
    uint32_t successor; /* id of a struct successor if NEXT_WAITS, else 0 */
};
/* EXTRA_KEEPS_OWN: the record of the job overrides keep_finished of its topic. EXTRA_HAS_PROGRESS: the text has, after
 * the consumer, the length of the progress of the lease in two bytes, and the progress. */
/* EXTRA_OWNS: the record of the job has a batch of its own. EXTRA_WAITS: the job waits for its members. */
enum { EXTRA_KEEPS_OWN = 1, EXTRA_HAS_PROGRESS = 2, EXTRA_OWNS = 4, EXTRA_WAITS = 8 };
/* The successor in the record of the job. */
enum extra_next {
    NEXT_NONE = 0,
    NEXT_DROPPED = RECORD_NEXT_DROPPED, /* still in the record */
    NEXT_STARTED = RECORD_NEXT_STARTED, /* the job; the record still has it as the successor */
    NEXT_WAITS
};
/* The members of a successor that its start needs. */
struct successor {
    struct own_policy policy;
    int64_t due_ms;
    uint64_t sequence;
    uint16_t priority;
    bool due_is_wall, has_keep;
};
_Static_assert(POLICY_LEASE_MS_MAX <= UINT32_MAX, "a lease's length fits into its field");

/* The key index: linear hashing (Litwin 1980). It grows by one bucket at a time and never stops to rehash. */
enum { INDEX_SEGMENT_BITS = 19 };
struct index {
    uint32_t **segments;
    uint32_t segment_cap;
    uint32_t bucket_count; /* power of two <= bucket_count < twice that */
    uint32_t count;
};

/* A kept job in memory (kept.c). */
struct kept_item {
    uint32_t id, sequence; /* the lowest bits of the sequence */
};
struct kept_queue { /* a ring */
    struct kept_item *items;
    uint32_t first, count, cap;
};

struct topic {
    struct slice name; /* owned */
    uint64_t name_hash;
    uint32_t id;
    bool exists; /* false: only its memory is kept, for jobs that are being removed */
    bool paused;
    int64_t paused_until_ms;        /* inner; 0: not paused, or until resumed */
    bool deleting;                  /* as recorded */
    bool checks_place;              /* all its jobs are in one of several shards, or were */
    struct topic_settings settings; /* the extension is owned */
    struct queue_counts counts;
    uint64_t remembered; /* finished ids within the dedup_window, of jobs that are not kept */
    /* Whether the end of a job leaves something behind or is awaited: dedup_window, keep_finished, of the topic or of
     * a job, or a wait. */
    bool minds_ends;
    bool has_own_keeps;        /* a job had its own keep_finished */
    uint32_t awaited;          /* waits for the end of a job */
    uint64_t kept, kept_bytes; /* kept jobs in memory */
    struct kept_queue kept_queue;
    struct topic_totals totals;
    struct ready_heap ready; /* of a topic with groups: empty */
    struct flow *flow;       /* NULL: it has no limits and no groups (flow.h) */
    uint32_t dead_first, dead_last;
    uint32_t changes; /* of the states of its jobs: keeps the count of a walk valid */
    /* Live slots of runs, by section, and those of them with an entry. */
    uint64_t stored[SECTIONS], loaded[SECTIONS];
    uint64_t stored_dead_bytes, loaded_dead_bytes; /* of SECTION_DEAD */
    uint64_t stored_kept_bytes, loaded_kept_bytes; /* of SECTION_KEPT */
    uint64_t cold_ready;                           /* cold jobs that are due */
    uint64_t waiting;                              /* entries in slots for which entry_waits */
    uint64_t totals_at;                            /* the replayed record that set `totals` */
    uint32_t forecast_page; /* page in which its last delayed job was counted; 0: no page */
};

/* The addition of a STATE record to the totals of a stub's topic. */
struct stub_event {
    uint64_t at; /* the replayed record */
    uint32_t next;
    bool delivered, nacked, lease_ended, died;
    enum record_next next_after;
};

struct engine {
    struct engine_sink sink;
    uint64_t hash_seed;
    uint64_t body_bytes_max;
    uint32_t topics_max;
    uint32_t shards, shard; /* number of shards, and that of this one */
    uint64_t
        batch_home; /* highest byte of the numbers of this shard's batches; 0: there is one shard */
    struct random random;
    struct slab entries;
    struct slab extras;
    struct slab successors;
    struct slab steps; /* of the lists of waits that jobs have */
    struct index index;
    struct wheel wheel;
    uint64_t happened;              /* timed events: engine_happened */
    struct forecast_pages forecast; /* of its delayed jobs */
    struct topic **topics;          /* by id from 1; NULL: free */
    uint32_t topic_top, topic_cap, topic_count;
    struct topic **topics_by_name; /* topic_count of them; sorted after recovery */
    uint32_t topics_by_name_cap;
    uint32_t *topic_table; /* open addressing over ids; a power of two in size */
    uint32_t topic_table_size;
    uint32_t topic_last;        /* result of the last look-up */
    uint64_t sequence;          /* last one assigned */
    int64_t skew_ms;            /* as of the last retime */
    struct engine_now recovery; /* the time used to link replayed jobs */
    /* Entry at which a retime continues; 0: no retime. Jobs from it on are counted by the phase before. */
    uint32_t retime_at;
    int64_t pause_end_ms;   /* no pause ends before; INT64_MAX: no pause */
    int64_t lease_floor_ms; /* no lease from before the restart ends before this time; inner */
    bool recovering;        /* replay: nothing is appended, and ready is not reported */
    uint32_t event_kinds;   /* kinds of reported events, a bit each */
    const struct queue_answer *answer; /* being carried out, if it has a result; else NULL */
    bool keeps_ends;                   /* a topic has kept finished jobs since the start */
    uint32_t trim_topic;               /* engine_trim_next; 0: no topic */
    struct batches *batches;           /* NULL: there was no batch yet */
    struct flows *flows;               /* NULL: no topic has limits or groups */
    int64_t flow_now_ms;               /* the time up to which tokens and holds are known */
    bool flow_is_busy;                 /* a change of a job continues: flow_settle follows */
    uint32_t carry_group;              /* of the topic that engine_carry_topics is at */
    uint64_t dropped[QUEUE_DROPS];     /* kept jobs, before their time */
    /* during recovery */
    uint64_t replayed; /* records */
    uint32_t stubs;
    struct stub_event *events; /* from 1 */
    uint32_t event_count, event_cap;
    struct hash128 *unresolved;
    uint32_t unresolved_count, unresolved_cap;
};

/* ---- index.c ---- */
bool engine_index_init(struct index *index);
void engine_index_fini(struct index *index);
/* False: out of memory. */
bool engine_index_add(struct engine *engine, uint32_t id);
void engine_index_remove(struct engine *engine, uint32_t id);
uint32_t engine_index_find(const struct engine *engine, struct hash128 key); /* 0: absent */
/* Prefetch the memory of a later call: the bucket of a key; the entries of that bucket. */
void engine_index_prefetch(const struct engine *engine, uint64_t key_low);
void engine_index_prefetch_entry(const struct engine *engine, uint64_t key_low);
uint32_t engine_index_find_lease(const struct engine *engine, const struct engine_lease *lease);
/* Returns the entry whose record is at that place. */
uint32_t engine_index_find_place(const struct engine *engine, uint64_t key_low,
                                 struct record_place place);

/* ---- topic.c ---- */
/* Sets the pause of a topic as recorded; engine_end_pauses ends it. */
void engine_topic_set_pause(struct engine *engine, struct topic *topic, bool paused,
                            int64_t until_ms);
/* Ends the pauses whose time has come. */
void engine_end_pauses(struct engine *engine, struct engine_now now);
/* Appends the topic's record. */
void engine_topic_append(struct engine *engine, const struct topic *topic, bool carried);
void engine_topic_count_done(struct topic *topic, enum record_reason reason);
/* Returns whether the topic has no jobs, no remembered ids and no cold jobs. */
bool engine_topic_is_empty(const struct topic *topic);
/* Returns whether the topic has reached its share of max_jobs: no new job is accepted. */
bool engine_topic_is_full(const struct engine *engine, const struct topic *topic);
/* Returns whether a new job with this key belongs to this shard. */
bool engine_topic_has_place(const struct engine *engine, const struct topic *topic,
                            struct hash128 key);
/* Returns whether all waiting jobs of the topic stay in memory (engine_keeps_waiting). */
bool engine_topic_keeps_waiting(const struct topic *topic);
/* Returns the counts of a topic, of its entries and cold jobs, as they are shown; also sets *remembered. */
struct queue_counts engine_topic_counts(const struct topic *topic, uint64_t *remembered);
/* Finds a topic, including a removed one that has slots left. */
struct topic *engine_topic_lookup(struct engine *engine, struct slice name);
/* Frees a removed topic once the last of its slots has gone. */
void engine_topic_let_go(struct engine *engine, struct topic *topic);
/* Sets the settings, with a copy of the extension. False: out of memory, and nothing is changed. */
bool engine_topic_set(struct engine *engine, struct topic *topic,
                      const struct topic_settings *settings);
struct topic *engine_topic_find(struct engine *engine, struct slice name); /* NULL when absent */
enum queue_status engine_topic_make(struct engine *engine, struct slice name, struct topic **out);
/* Removes a topic that was just made and has no record, after the change that required it was rejected. */
void engine_topic_unmake(struct engine *engine, struct topic *topic);
void engine_topic_free(struct engine *engine, struct topic *topic);
void engine_topics_fini(struct engine *engine);
/* Sorts the topics by name, at the end of recovery. */
void engine_topics_sort(struct engine *engine);

/* ---- entry.c: the places of the records of entries ---- */
/* Returns its slot, for record.from; bytes 0: it is in the log. */
struct record_place entry_slot(const struct entry *entry);
bool entry_is_at(const struct entry *entry, struct record_place place);
/* Sets this slot as the record of the entry, and counts it as loaded. The entry is not linked. */
void entry_settle(struct engine *engine, struct entry *entry, struct record_place place,
                  enum job_section section);
/* Reports to the owner of the runs. */
void entry_hold_slot(const struct engine *engine, struct record_place place, bool in_memory);
/* Releases the record of an entry, which then has no place. Not linked. */
void entry_release(struct engine *engine, struct entry *entry);
/* Releases a slot, with or without an entry, and updates `stored`. */
enum engine_slot engine_slot_release(struct engine *engine, struct topic *topic,
                                     struct record_place place);

/* ---- replay.c ---- */
/* Frees the memory that a recovery needs besides entries. */
void stub_fini(struct engine *engine);

/* ---- engine.c ---- */
void engine_redrive_entry(struct engine *engine, uint32_t id, struct engine_now now);

static inline struct entry *entry_at(const struct engine *engine, uint32_t id)
{
    return slab_at(&engine->entries, id);
}
static inline struct extra *entry_extra(const struct engine *engine, const struct entry *entry)
{
    return entry->extra ? slab_at(&engine->extras, entry->extra) : NULL;
}
/* Returns the number of deliveries so far. */
static inline uint32_t entry_attempt(const struct engine *engine, const struct entry *entry)
{
    return entry->extra ? entry_extra(engine, entry)->attempt : 0;
}
/* Sets the number of deliveries. A number other than 0 requires an extra. */
static inline void entry_set_attempt(const struct engine *engine, const struct entry *entry,
                                     uint32_t attempt)
{
    assert(!attempt || entry->extra);
    if (entry->extra)
        entry_extra(engine, entry)->attempt = attempt;
}

/* Returns whether the job waits for a consumer, or in memory for a near due. Jobs that wait for a retry do not
 * count: however many there are, they must not keep ready jobs on the disk. */
static inline bool entry_waits(const struct engine *engine, const struct entry *entry)
{
    return entry->state == JOB_READY ||
           (entry->state == JOB_DELAYED && !entry_attempt(engine, entry));
}

/* ---- entry.c: every change of the state of a job uses these functions ---- */
struct extra *entry_need_extra(struct engine *engine,
                               struct entry *entry); /* NULL: out of memory */
void entry_drop_extra(struct engine *engine, struct entry *entry);
/* Forgets the successor of a job. */
void entry_drop_next(struct engine *engine, struct extra *extra);
/* Fills the successor of a job from its record. False: out of memory. */
bool entry_set_next(struct engine *engine, struct extra *extra, const struct job *job);
/* Puts the successor in place of a job that is not linked, without a record. */
void entry_take_next(struct engine *engine, struct entry *entry);
/* Starts the successor of a job whose lease ended, with its record. Already unlinked. */
void entry_start_next(struct engine *engine, uint32_t id, enum record_next after,
                      struct engine_now now);
uint32_t entry_new(struct engine *engine, const struct topic *topic,
                   struct hash128 key); /* 0: out of memory. topic NULL: a stub */
struct topic *entry_topic(const struct engine *engine, const struct entry *entry);
/* Returns the number of the group of a job; 0: no group. */
static inline uint32_t entry_group(const struct engine *engine, const struct entry *entry)
{
    return entry->extra ? entry_extra(engine, entry)->policy.group : 0;
}
/* Puts a job, which is not linked, into a group; empty: no group. False: out of memory. */
bool entry_set_group(struct engine *engine, struct topic *topic, struct own_policy *policy,
                     struct slice group);
/* Stores a policy in place of the one before. False: out of memory; then it has no backoff. */
bool own_policy_set(struct engine *engine, struct own_policy *into, const struct policy *policy);
void own_policy_drop(struct engine *engine, struct own_policy *policy);
struct policy own_policy_show(const struct engine *engine, const struct own_policy *policy);
/* Returns the resolved policy of a job, or only its lease. */
struct policy entry_policy(const struct engine *engine, const struct entry *entry);
int64_t entry_lease_ms(const struct engine *engine, const struct entry *entry);
int64_t entry_first_due_ms(const struct engine *engine, const struct entry *entry);
void entry_set_first_due(struct engine *engine, struct entry *entry, int64_t first_due_ms);
int64_t entry_due_inner_ms(const struct entry *entry, int64_t skew_ms);
int64_t entry_due_wall_ms(const struct entry *entry, int64_t skew_ms);
/* Copies both (the history may be the present one); longer errors are cut. If memory runs out, the history stays
 * as it was and there is no error. The consumer is cleared. */
void entry_set_texts(struct engine *engine, struct entry *entry, struct slice history,
                     struct slice error);
struct slice entry_history(const struct extra *extra);
struct slice entry_error(const struct extra *extra);
/* Copies the name of the lease holder. False: out of memory, and the name is unknown. */
bool entry_set_consumer(struct engine *engine, struct entry *entry, struct slice consumer);
/* Returns the name of the lease holder. Empty: not leased, or the holder gave no name. */
struct slice entry_consumer(const struct engine *engine, const struct entry *entry);
/* Returns when its lease ends, by the inner clock: not before consumers had time to reconnect after a restart. */
static inline int64_t entry_lease_end_ms(const struct engine *engine, const struct extra *extra)
{
    return !extra->lease_ms && extra->lease_until_ms < engine->lease_floor_ms
               ? engine->lease_floor_ms
               : extra->lease_until_ms;
}

/* Returns the progress of a leased job, or an empty text. */
struct slice entry_progress(const struct engine *engine, const struct entry *entry);
/* Copies the progress. False: out of memory, and it stays as it was. */
bool entry_set_progress(struct engine *engine, struct entry *entry, struct slice progress);

/* Unlinks the job from the structures of its state, and removes it from the counts. */
void entry_unhang(struct engine *engine, uint32_t id);
/* Links the job as `state` requires, and counts it. For JOB_DELAYED and JOB_READY the due decides which of the two
 * it becomes. */
void entry_hang(struct engine *engine, uint32_t id, enum job_state state, struct engine_now now);
/* Returns the job as it is in a heap of ready jobs. */
struct ready_item entry_ready_item(const struct engine *engine, uint32_t id, int64_t skew_ms);
/* Appends a STATE record with the present state of the job. */
void entry_record(struct engine *engine, uint32_t id);
/* Delays the job; its ttl still counts from the first due. Not linked. */
void entry_set_delay(struct engine *engine, struct entry *entry, int64_t delay_ms,
                     struct engine_now now);
/* Finishes a job: DONE record, totals, memory. Already unlinked. The id is remembered if its topic requires that. */
void entry_finish(struct engine *engine, uint32_t id, enum record_reason reason,
                  struct engine_now now);
/* Works as entry_finish, by an answer of its holder. */
void entry_finish_acked(struct engine *engine, uint32_t id, const struct queue_answer *answer,
                        struct engine_now now);
/* Works as entry_finish, and leaves nothing behind. */
void entry_finish_plainly(struct engine *engine, uint32_t id, enum record_reason reason,
                          struct engine_now now);
/* Remembers a `once` under its key, with its own DONE record. `id` is from entry_new. */
void entry_remember(struct engine *engine, uint32_t id, int64_t for_ms, struct engine_now now);
/* Fills an entry from a JOB record, except for its place. False: out of memory. */
bool entry_from_job(struct engine *engine, struct entry *entry, const struct job *job);
/* Sets the file of its newest STATE record. `ends`: the record holds the end of an attempt. */
void entry_set_state_file(struct engine *engine, struct entry *entry, uint32_t file, bool ends);
/* Clears that file: the record of the entry already holds its whole state. */
void entry_is_recorded(struct engine *engine, struct entry *entry);
void entry_set_times(struct entry *entry, int64_t due_ms, bool is_wall, uint16_t priority);
/* Frees the memory of an entry only. */
void entry_discard(struct engine *engine, uint32_t id);
/* Frees the memory without a record. Already unlinked. */
void entry_forget(struct engine *engine, uint32_t id);
/* Fails an attempt: the job is retried or dead. Already unlinked. */
void entry_fail(struct engine *engine, uint32_t id, enum job_outcome outcome, int64_t delay_ms,
                struct slice error, struct engine_now now);
/* Adds the attempt that ended with this record to the history. */
void entry_add_history(struct engine *engine, struct entry *entry, const struct record_ended *ended,
                       struct slice error);
/* Counts a job that was just linked as dead, and reports it if its topic requires that. */
void entry_died(struct engine *engine, const struct entry *entry);
void entry_view(const struct engine *engine, uint32_t id, struct engine_now now,
                struct engine_view *out);
/* Reports an event, for entry_notify, if its kind is reported. The entry does not count the event's own attempt. */
void entry_notify_event(struct engine *engine, uint32_t id, const struct job_event *event,
                        struct engine_now now);
/* Reports an event of the job in its present state. `name` is its id, empty if it is not at hand; `error` is that
 * of a failed attempt. Its record is not released yet. */
static inline void entry_notify(struct engine *engine, uint32_t id, enum job_event_kind kind,
                                struct slice name, struct slice error, struct engine_now now)
{
    if (__builtin_expect(engine->event_kinds != 0, 0))
        entry_notify_event(engine, id,
                           &(struct job_event){.kind = kind, .id = name, .error = error}, now);
}

/* ---- batch.c ---- */
/* Returns whether the job waits for its members, or may be a leftover of a stop. */
static inline bool extra_is_batched(const struct extra *extra)
{
    return extra->policy.batch || extra->marks & EXTRA_OWNS;
}
/* Counts the end of a job that is a member, or has a batch of its own. Its record was appended; it is unlinked. */
void batch_entry_ended(struct engine *engine, uint32_t id, enum record_reason reason,
                       struct engine_now now);
static inline void entry_ended(struct engine *engine, uint32_t id, enum record_reason reason,
                               struct engine_now now)
{
    const struct extra *extra = entry_extra(engine, entry_at(engine, id));
    if (extra && __builtin_expect(extra_is_batched(extra), 0))
        batch_entry_ended(engine, id, reason, now);
}
/* Returns whether the job waits for its members. */
static inline bool entry_waits_for_members(const struct engine *engine, const struct entry *entry)
{
    return entry->extra && __builtin_expect(entry_extra(engine, entry)->marks & EXTRA_WAITS, 0);
}
/* Returns whether the job is not delivered although it may be due. */
static inline bool entry_is_kept_back(const struct engine *engine, const struct entry *entry)
{
    const struct extra *extra = entry_extra(engine, entry);
    return extra && __builtin_expect(extra_is_batched(extra), 0) &&
           (extra->marks & EXTRA_WAITS || batch_is_leftover(engine, entry));
}
/* Returns whether the batch of a leased job was stopped during its lease. A member that is redriven after the stop is an
 * ordinary job. */
static inline bool batch_stop_concerns(const struct engine *engine, const struct extra *extra)
{
    if (__builtin_expect(extra->policy.batch == 0, 1))
        return false;
    const struct batch *batch = batch_at(engine, extra->policy.batch);
    return batch->rules.is_stopped && extra->delivery <= batch->stop_sequence;
}
/* Returns whether the holder is asked to cancel: by a call, or because its batch was stopped. */
static inline bool extra_cancel_requested(const struct engine *engine, const struct extra *extra)
{
    return extra->cancel_requested || batch_stop_concerns(engine, extra);
}

/* ---- kept.c: finished jobs that leave something behind ---- */
static inline bool entry_is_kept(const struct entry *entry)
{
    return entry->state == JOB_FINISHED && entry->priority == ENTRY_KEPT;
}
/* Returns whether the job is kept but its id may be used again. */
bool entry_is_free(const struct entry *entry, struct engine_now now);
/* Links an entry as described in its DONE record. Its place is set. */
void entry_hang_done(struct engine *engine, uint32_t id, const struct record_done *done,
                     struct engine_now now);
/* Finishes a job of a topic that minds ends. Already unlinked. `answer` may be NULL. `taken`: it was taken in the same
 * step. */
void kept_finish(struct engine *engine, uint32_t id, enum record_reason reason,
                 const struct queue_answer *answer, bool taken, struct engine_now now);
/* Reports to those who wait for its end that a job has died. Its record was appended. */
void kept_died(struct engine *engine, uint32_t id, struct engine_now now);
/* Handles a kept job that the wheel returned. */
void kept_fall_due(struct engine *engine, uint32_t id, struct engine_now now);
/* Drops a kept job, with a record. Its id stays remembered. */
void kept_drop(struct engine *engine, uint32_t id, struct engine_now now);
void kept_view(const struct engine *engine, uint32_t id, struct engine_now now,
               struct engine_view *out);
/* Sets topic->minds_ends. */
void engine_topic_mind(struct engine *engine, struct topic *topic);
/* Returns whether the log has no room for the end of a job that is due; its entry is then due again soon. */
bool kept_waits_for_room(struct engine *engine, uint32_t id, struct engine_now now);
uint64_t engine_topic_kept_cold(const struct topic *topic);
uint64_t engine_topic_kept_bytes(const struct topic *topic);
/* Returns the sums of the sizes of the records in a section, or NULL if they are not summed up. */
static inline uint64_t *topic_stored_bytes(struct topic *topic, enum job_section section)
{
    return section == SECTION_DEAD   ? &topic->stored_dead_bytes
           : section == SECTION_KEPT ? &topic->stored_kept_bytes
                                     : NULL;
}
static inline uint64_t *topic_loaded_bytes(struct topic *topic, enum job_section section)
{
    return section == SECTION_DEAD   ? &topic->loaded_dead_bytes
           : section == SECTION_KEPT ? &topic->loaded_kept_bytes
                                     : NULL;
}
static inline enum job_section entry_section(const struct engine *engine, const struct entry *entry)
{
    const struct extra *extra = entry_extra(engine, entry);
    if (entry_is_kept(entry))
        return SECTION_KEPT;
    if (extra && __builtin_expect(extra->marks & EXTRA_OWNS, 0) &&
        (entry->state == JOB_DELAYED || entry->state == JOB_READY))
        return SECTION_LEASED;
    return job_section_of((enum job_state)entry->state, entry_attempt(engine, entry),
                          entry->flags & ENTRY_DUE_IS_WALL);
}

/* Returns the phase of the minutes (forecast_pages.h) by which a delayed job is counted. */
static inline int64_t entry_phase_ms(const struct engine *engine, uint32_t id)
{
    bool waits = engine->retime_at && id >= engine->retime_at;
    return waits ? engine->forecast.phase_before_ms : engine->forecast.phase_ms;
}
static inline void entry_count_due(struct engine *engine, uint32_t id, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    struct topic *topic = entry_topic(engine, entry);
    entry->ready_at =
        forecast_pages_count(&engine->forecast, topic->id, &topic->forecast_page,
                             entry_phase_ms(engine, id), entry->timer.when_ms, now.inner_ms);
}
static inline void entry_uncount_due(struct engine *engine, uint32_t id)
{
    const struct entry *entry = entry_at(engine, id);
    forecast_pages_take(&engine->forecast, entry->ready_at, entry_phase_ms(engine, id),
                        entry->timer.when_ms);
}

#endif
