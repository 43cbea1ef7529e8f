/* state: the structures of an engine (entries, their index, topics) and what the files of this room do to them. */
#ifndef TARRY_ENGINE_STATE_H
#define TARRY_ENGINE_STATE_H

#include "base/random.h"
#include "engine/forecast_pages.h"
#include "engine/stored.h"
#include "wheel/wheel.h"

#include <assert.h>

/*
 * A job in RAM. Where it hangs by state:
 *   delayed   in the wheel at due
 *   ready     in its topic's heap; in the wheel too if it can expire
 *   leased    in the wheel at the lease's end
 *   dead      in its topic's list of the dead, through timer.prev and timer.next
 *   finished  in the wheel until it may be forgotten
 * A stub (stub.c) hangs nowhere and has no topic yet; there are some while coming back only.
 */
struct entry {
    struct wheel_node timer; /* first: the wheel's rule */
    struct hash128 key;
    uint64_t due_ms : 48; /* wall clock where ENTRY_DUE_IS_WALL, else inner */
    uint64_t priority : 16;
    uint64_t sequence : 48 + 8; /* push order */
    uint64_t state : 3;
    uint64_t flags : 1;
    uint64_t section : 3; /* of its slot, where `place` is one */
    bool is_stub : 1;
    uint32_t index_next; /* the key index's chain */
    uint32_t topic;
    struct record_place place;
    uint32_t extra; /* id of a struct extra, 0: none */
    /* Position in the topic's heap; while delayed: the page that counts it (forecast.h); of a stub: its
     * last event. */
    uint32_t ready_at;
    /* Log file of its newest STATE record; 0: its JOB record holds its state. */
    uint32_t state_file : 31; /* the bit of runs (RECORD_IN_RUN) is none of a file's */
    bool is_collected : 1;    /* the checkpoint under way knows it by its id: it stays */
};
_Static_assert(sizeof(struct entry) == 80, "a chunk of entries fills whole large pages");
_Static_assert(JOB_FINISHED < 1 << 3 && SECTIONS <= 1 << 3,
               "state and section fit into their bits");

enum { ENTRY_DUE_IS_WALL = 1 };

/* What most jobs do not need: their own policy, and all about attempts. */
struct extra {
    struct policy policy;
    int64_t first_due_ms;   /* same clock as due_ms */
    int64_t lease_until_ms; /* inner */
    int64_t taken_ms;       /* inner; 0: not known, taken before an older version's restart */
    uint64_t delivery;
    char *text; /* the history, then the error, then the consumer: own memory; NULL: none of them */
    uint32_t lease_ms; /* 0: it was taken before a restart */
    uint32_t attempt;
    /* Log file of the oldest end of an attempt that its record does not know: a newer STATE does not
     * tell of it; 0: none. */
    uint32_t ended_file;
    uint16_t history_bytes, error_bytes;
    uint8_t consumer_bytes; /* of the lease, as is the next: without meaning in other states */
    bool cancel_requested;
};
_Static_assert(POLICY_LEASE_MS_MAX <= UINT32_MAX, "a lease's length fits into its field");

/* The key index: linear hashing (Litwin 1980), so that it grows by one bucket at a time and never
 * stops to rehash. */
enum { INDEX_SEGMENT_BITS = 19 };
struct index {
    uint32_t **segments;
    uint32_t segment_cap;
    uint32_t bucket_count; /* power of two <= bucket_count < twice that */
    uint32_t count;
};

struct ready_item {
    uint64_t order; /* priority << 48 | due (inner) */
    uint64_t sequence;
    uint32_t id;
};

static inline bool ready_comes_before(const struct ready_item *a, const struct ready_item *b)
{
    return a->order != b->order ? a->order < b->order : a->sequence < b->sequence;
}

struct topic {
    struct slice name; /* own memory */
    uint64_t name_hash;
    uint32_t id;
    bool exists; /* false: only its memory is kept, for jobs on their way out */
    bool paused;
    int64_t paused_until_ms;        /* inner; 0: not paused, or until resumed */
    bool deleting;                  /* as of the record */
    struct topic_settings settings; /* the extension is own memory */
    struct queue_counts counts;
    uint64_t remembered; /* finished ids within the dedup_window */
    struct topic_totals totals;
    struct ready_item *ready; /* binary heap, from 0 */
    uint32_t ready_count, ready_cap;
    uint32_t dead_first, dead_last;
    uint32_t changes; /* of state, of any job of it: tells a walk that its count still holds */
    /* Slots of runs that are alive, by section, and those of them that have an entry. */
    uint64_t stored[SECTIONS], loaded[SECTIONS];
    uint64_t stored_dead_bytes, loaded_dead_bytes; /* of SECTION_DEAD */
    uint64_t cold_ready;                           /* of cold jobs: due by now */
    uint64_t waiting;                              /* entries in slots for which entry_waits */
    uint64_t totals_at;                            /* the replayed record that `totals` came with */
    uint32_t forecast_page; /* where its last delayed job was counted; 0: none */
};

/* What a STATE record adds to the totals of a stub's topic. */
struct stub_event {
    uint64_t at; /* the replayed record */
    uint32_t next;
    bool delivered, nacked, lease_ended, died;
};

struct engine {
    struct engine_sink sink;
    uint64_t hash_seed;
    uint64_t body_bytes_max;
    uint32_t topics_max;
    uint32_t shards;
    struct random random;
    struct slab entries;
    struct slab extras;
    struct index index;
    struct wheel wheel;
    uint64_t happened;              /* by time: engine_happened */
    struct forecast_pages forecast; /* of the delayed jobs in it */
    struct topic **topics;          /* by id from 1; NULL: free */
    uint32_t topic_top, topic_cap, topic_count;
    struct topic **topics_by_name; /* topic_count of them; in order once recovery is over */
    uint32_t topics_by_name_cap;
    uint32_t *topic_table; /* open addressing over ids; a power of two in size */
    uint32_t topic_table_size;
    uint32_t topic_last;        /* the one found last */
    uint64_t sequence;          /* last given */
    int64_t skew_ms;            /* as of the last retime */
    struct engine_now recovery; /* the time replayed jobs are hung by */
    uint32_t retime_at;         /* entry a retime goes on from; 0: none under way */
    int64_t pause_end_ms;       /* no pause ends before; INT64_MAX: none */
    int64_t lease_floor_ms;     /* no lease from before the restart ends before; inner */
    bool recovering;            /* replay: nothing is appended, no ready is told */
    uint32_t told_kinds;        /* of events, a bit each */
    /* while recovering */
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
/* Ask for the memory a later call will touch: a key's bucket; what that bucket points at. */
void engine_index_prefetch(const struct engine *engine, uint64_t key_low);
void engine_index_prefetch_entry(const struct engine *engine, uint64_t key_low);
uint32_t engine_index_find_lease(const struct engine *engine, const struct engine_lease *lease);
/* The entry whose record lies there. */
uint32_t engine_index_find_place(const struct engine *engine, uint64_t key_low,
                                 struct record_place place);

/* ---- topic.c ---- */
/* The topic as of its record: it is paused, or not; engine_end_pauses will know. */
void engine_topic_set_pause(struct engine *engine, struct topic *topic, bool paused,
                            int64_t until_ms);
/* Pauses whose time has come. */
void engine_end_pauses(struct engine *engine, struct engine_now now);
void engine_topic_count_done(struct topic *topic, enum record_reason reason);
bool engine_topic_is_empty(const struct topic *topic); /* no jobs, no remembered ids, none cold */
/* Its share of max_jobs is used up: no new job comes in. */
bool engine_topic_is_full(const struct engine *engine, const struct topic *topic);
/* It has more than that: the limit was lowered. */
bool engine_topic_is_beyond(const struct engine *engine, const struct topic *topic);
/* Its entries and what is cold of it, as it is shown; *remembered too. */
struct queue_counts engine_topic_counts(const struct topic *topic, uint64_t *remembered);
/* Also one that was removed and has slots left. */
struct topic *engine_topic_lookup(struct engine *engine, struct slice name);
/* It was removed, and the last of its slots has gone. */
void engine_topic_let_go(struct engine *engine, struct topic *topic);
/* With a copy of the extension. False: out of memory, nothing is changed. */
bool engine_topic_set(struct topic *topic, const struct topic_settings *settings);
struct topic *engine_topic_find(struct engine *engine, struct slice name); /* NULL when absent */
enum queue_status engine_topic_make(struct engine *engine, struct slice name, struct topic **out);
/* One just made, of which no record tells: what it was made for was refused. */
void engine_topic_unmake(struct engine *engine, struct topic *topic);
void engine_topic_free(struct engine *engine, struct topic *topic);
void engine_topics_fini(struct engine *engine);
/* Recovery is over: those there are come into the order of their names. */
void engine_topics_sort(struct engine *engine);

/* ---- entry.c: where the records of entries lie ---- */
/* Its slot, for record.from; bytes 0: it lies in the log. */
struct record_place entry_slot(const struct entry *entry);
bool entry_is_at(const struct entry *entry, struct record_place place);
/* The entry's record is this slot; counted as loaded. It is not hung. */
void entry_settle(struct engine *engine, struct entry *entry, struct record_place place,
                  enum job_section section);
/* Tells whoever keeps the runs. */
void entry_hold_slot(const struct engine *engine, struct record_place place, bool in_memory);
/* Its record is needed no more; it lies nowhere then. Not hung. */
void entry_release(struct engine *engine, struct entry *entry);
/* The slot is needed no more, entry or not: `stored` follows. */
enum engine_slot engine_slot_release(struct engine *engine, struct topic *topic,
                                     struct record_place place);

/* ---- replay.c ---- */
/* What a recovery leaves in memory besides entries. */
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
/* Deliveries so far. */
static inline uint32_t entry_attempt(const struct engine *engine, const struct entry *entry)
{
    return entry->extra ? entry_extra(engine, entry)->attempt : 0;
}
/* One that is not 0 has an extra. */
static inline void entry_set_attempt(const struct engine *engine, const struct entry *entry,
                                     uint32_t attempt)
{
    assert(!attempt || entry->extra);
    if (entry->extra)
        entry_extra(engine, entry)->attempt = attempt;
}

/* It waits for a consumer, or for its due in memory since that is near. Not one that waits for a
 * retry: however many these are, they keep no ready job on the disk. */
static inline bool entry_waits(const struct engine *engine, const struct entry *entry)
{
    return entry->state == JOB_READY ||
           (entry->state == JOB_DELAYED && !entry_attempt(engine, entry));
}

/* ---- entry.c: every change of a job's state goes through these ---- */
struct extra *entry_need_extra(struct engine *engine,
                               struct entry *entry); /* NULL: out of memory */
void entry_drop_extra(struct engine *engine, struct entry *entry);
uint32_t entry_new(struct engine *engine, const struct topic *topic,
                   struct hash128 key); /* 0: out of memory. topic NULL: a stub */
struct topic *entry_topic(const struct engine *engine, const struct entry *entry);
struct policy entry_policy(const struct engine *engine, const struct entry *entry);
int64_t entry_first_due_ms(const struct engine *engine, const struct entry *entry);
void entry_set_first_due(struct engine *engine, struct entry *entry, int64_t first_due_ms);
int64_t entry_due_inner_ms(const struct entry *entry, int64_t skew_ms);
int64_t entry_due_wall_ms(const struct entry *entry, int64_t skew_ms);
/* Copies both (the history may be the one it has); longer errors are cut. Without memory the
 * history stays as it was and there is no error. The consumer is forgotten. */
void entry_set_texts(struct engine *engine, struct entry *entry, struct slice history,
                     struct slice error);
struct slice entry_history(const struct extra *extra);
struct slice entry_error(const struct extra *extra);
/* Who holds the lease, copied. False: out of memory, then nothing is known of him. */
bool entry_set_consumer(struct engine *engine, struct entry *entry, struct slice consumer);
/* Empty: it is not leased, or whoever has it gave no name. */
struct slice entry_consumer(const struct engine *engine, const struct entry *entry);
/* When its lease ends: not while consumers had no time yet to come back after a restart. Inner. */
static inline int64_t entry_lease_end_ms(const struct engine *engine, const struct extra *extra)
{
    return !extra->lease_ms && extra->lease_until_ms < engine->lease_floor_ms
               ? engine->lease_floor_ms
               : extra->lease_until_ms;
}

/* Takes the job out of wherever its state hangs it, and out of the counts. */
void entry_unhang(struct engine *engine, uint32_t id);
/* Hangs it where `state` wants it, and counts it. For JOB_DELAYED and JOB_READY the due decides
 * which of the two it becomes. */
void entry_hang(struct engine *engine, uint32_t id, enum job_state state, struct engine_now now);
/* Appends the STATE record of the job as it stands. */
void entry_record(struct engine *engine, uint32_t id);
/* It waits so long before it is ready; its ttl goes on from the first due. Unhung. */
void entry_set_delay(struct engine *engine, struct entry *entry, int64_t delay_ms,
                     struct engine_now now);
/* The job is gone: DONE record, totals, memory. Already unhung. Remembered where its topic says so.
 */
void entry_finish(struct engine *engine, uint32_t id, enum record_reason reason,
                  struct engine_now now);
/* What a JOB record says, but for its place. False: out of memory. */
bool entry_from_job(struct engine *engine, struct entry *entry, const struct job *job);
/* This STATE record is its newest. */
void entry_set_state_file(struct engine *engine, struct entry *entry, uint32_t file, bool ends);
/* The entry's newest record on disk already holds its state. */
void entry_is_recorded(struct engine *engine, struct entry *entry);
void entry_set_times(struct entry *entry, int64_t due_ms, bool is_wall, uint16_t priority);
/* Gives its memory back and nothing else. */
void entry_discard(struct engine *engine, uint32_t id);
/* Gives memory back; nothing recorded. Already unhung. */
void entry_forget(struct engine *engine, uint32_t id);
/* An attempt failed: retry or dead. Already unhung. */
void entry_fail(struct engine *engine, uint32_t id, enum job_outcome outcome, int64_t delay_ms,
                struct slice error, struct engine_now now);
/* The attempt that ended with this record goes to the history. */
void entry_add_history(struct engine *engine, struct entry *entry, const struct record_ended *ended,
                       struct slice error);
/* It has just been hung as dead: counted, and told where the topic wants to know. */
void entry_died(struct engine *engine, const struct entry *entry);
void entry_view(const struct engine *engine, uint32_t id, struct engine_now now,
                struct engine_view *out);
/* For entry_tell: somebody wants to know some of what happens. Its attempt is one that the entry does not count. */
void entry_tell_event(struct engine *engine, uint32_t id, const struct job_event *event,
                      struct engine_now now);
/* Tells what has happened to the job as it stands. `name`: its id, empty where it is not known;
 * `error`: of the attempt, if it failed. Its record is not released yet. */
static inline void entry_tell(struct engine *engine, uint32_t id, enum job_event_kind kind,
                              struct slice name, struct slice error, struct engine_now now)
{
    if (__builtin_expect(engine->told_kinds != 0, 0))
        entry_tell_event(engine, id, &(struct job_event){.kind = kind, .id = name, .error = error},
                         now);
}

#endif
