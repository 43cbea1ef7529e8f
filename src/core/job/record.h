/*
 * record: the stored form of everything that changes a shard. Pure.
 *
 * A record describes the state after a change, not the operation, so replaying it twice changes
 * nothing. Little-endian, versioned by the file that holds it. Layout: u32 bytes (whole record,
 * including this field) · u8 kind · payload; integers of the payload are LEB128 varints if they are
 * often small. Fields with their usual value take no space: a plain job costs about 21 bytes in
 * addition to its text.
 *
 * Encoding asserts names and texts within the limits of job.h, no negative time, and known enums.
 * Decoding trusts nothing: it checks that every length is valid, every enum known, topic and id
 * well-formed, and the payload used up to its last byte. A content has one stored form: decoding
 * and encoding again gives the same bytes.
 */
#ifndef TARRY_JOB_RECORD_H
#define TARRY_JOB_RECORD_H

#include "base/frequency.h"
#include "base/hash.h"
#include "job/batch.h"
#include "job/flow.h"
#include "job/job.h"

enum record_kind {
    RECORD_JOB = 1, /* a whole job */
    RECORD_STATE,   /* the changed parts of a job: state, due, attempt, lease, priority, error */
    RECORD_DONE,    /* a job has ended */
    RECORD_TOPIC,   /* a topic's settings, counters and existence */
    RECORD_GROUP,   /* the settings of a group of a topic */
    RECORD_BATCH    /* the counts and the state of a batch */
};

enum record_reason {
    RECORD_ACKED = 1,
    RECORD_CANCELLED,
    RECORD_EXPIRED,
    RECORD_PURGED,
    RECORD_REPLACED
};

/* The origin of a JOB record. CARRIED: a leased job, written again with its successor. */
enum record_job_origin { RECORD_PUSHED = 1, RECORD_PUSHED_REPLACING, RECORD_CARRIED };

/* The effect of a push whose id exists. */
enum record_conflict {
    CONFLICT_REPLACE = 1,
    CONFLICT_KEEP,
    CONFLICT_REJECT,
    CONFLICT_AFTER /* only of a push, never of a topic: become the successor of a leased job */
};
enum { RECORD_STEPS_BYTES_MAX = 1 + 5 * BACKOFF_STEPS_MAX }; /* a list of waits, encoded */

#define RECORD_CONFLICT_VALUES "replace, keep or reject; for a push also after"
const char *record_conflict_name(enum record_conflict conflict); /* "replace", … */
bool record_conflict_parse(struct slice name, enum record_conflict *out);

/* The settings of a topic. Zeroed: nothing set. */
struct topic_settings {
    struct policy policy;
    enum record_conflict on_conflict;
    int32_t priority; /* valid if has_priority */
    bool has_priority;
    bool dead_letter_expired; /* expired jobs become dead instead of being removed */
    int64_t dedup_window_ms;  /* how long finished ids are remembered */
    uint64_t max_jobs;        /* new jobs are refused while the topic has this many; 0: no limit */
    struct frequency push_rate;
    /* The data that rooms above the queue store with the topic: a JSON object as text; empty: no
     * data. Queues store it and never parse it. Owned by the code that filled in the struct. */
    struct slice extension;
    int64_t history_ms; /* how long the history of ended jobs is kept; 0: not kept. Only in stores
                         * that support it */
    /* How long finished jobs are kept; 0: not kept. At most so many (0: TOPIC_KEEP_JOBS), and of so
     * many bytes together (0: TOPIC_KEEP_BYTES); the oldest are dropped first. Only in stores that
     * support it. */
    int64_t keep_finished_ms;
    uint64_t keep_finished_max, keep_finished_bytes;
    bool keep_body; /* of kept jobs */
    struct topic_flow flow;
};

bool topic_settings_equal(const struct topic_settings *a, const struct topic_settings *b);

/* The totals since the topic was created; they never fall. */
struct topic_totals {
    uint64_t pushed, acked, cancelled, expired, replaced, delivered, nacked, lease_ended, died,
        redriven;
};

/* An attempt that ended without an ack. Its number and error are those of the state that it led
 * to. */
struct record_ended {
    enum job_outcome outcome; /* 0: no attempt ended with this change */
    int64_t started_ms;       /* wall clock */
    int64_t duration_ms;
};

/* The fate of the successor in the JOB record of a job (struct job). A STATE record that is written later repeats
 * DROPPED and STARTED, until the JOB record is written again. The values after STARTED are the end of the lease that
 * started the successor, for the totals. */
enum record_next {
    RECORD_NEXT_STAYS = 0, /* or there is no successor */
    RECORD_NEXT_DROPPED,
    RECORD_NEXT_STARTED, /* the successor is the job now */
    RECORD_NEXT_AFTER_ACK,
    RECORD_NEXT_AFTER_CANCEL,
    RECORD_NEXT_AFTER_NACK,
    RECORD_NEXT_AFTER_RETURN,
    RECORD_NEXT_AFTER_LEASE
};

struct record_state { /* RECORD_STATE */
    struct hash128 key;
    enum job_state state;
    bool due_is_wall;
    uint16_t priority;
    uint32_t attempt;
    int64_t due_ms, first_due_ms, lease_until_ms;
    int64_t taken_ms; /* inner clock, before lease_until_ms; 0: not leased, or unknown */
    uint64_t delivery;
    struct slice error;
    struct slice consumer; /* of a leased job only, like the next field; see job.h */
    bool cancel_requested;
    struct slice progress; /* of a leased job only */
    struct record_ended ended;
    enum record_next next;
};

struct record_done { /* RECORD_DONE */
    struct hash128 key;
    enum record_reason reason;
    int64_t remember_until_ms; /* 0: forget immediately */
    uint64_t sequence;         /* of the ended job */
    struct slice topic;        /* set only if remembered or carried: the job's topic; else empty */
    bool carried;              /* of a job that had already ended: not counted again */
    int64_t keep_until_ms;     /* inner clock; 0: the job is not kept */
    struct slice kept;         /* the job if it is kept: record_kept_decode */
};

/* A finished job that is kept, as its DONE record holds it. Fields with their usual value take no
 * space. The key, the reason, the sequence and the topic are those of the record. */
struct record_kept {
    int64_t finished_ms; /* wall clock */
    int64_t duration_ms; /* of the last attempt */
    uint32_t attempt;
    bool has_body; /* the body was kept; it may be empty */
    struct slice id, consumer, meta, history, progress, result, result_type, content_type, group,
        batch, body;
};

/* Returns when a DONE record is no longer needed, by the inner clock; 0: immediately. */
static inline int64_t record_done_until_ms(const struct record_done *done)
{
    return done->keep_until_ms > done->remember_until_ms ? done->keep_until_ms
                                                         : done->remember_until_ms;
}

struct record_topic { /* RECORD_TOPIC */
    struct slice topic;
    bool exists; /* false: deleted */
    bool paused;
    bool carried;
    bool deleting;           /* a delete on all shards has begun; the next start finishes it */
    int64_t paused_until_ms; /* inner clock; 0: not paused, or paused until resumed */
    struct topic_settings settings;
    struct topic_totals totals;
    uint64_t sequence; /* the shard's sequence at the time of writing */
};

struct record_group {
    struct slice topic;
    struct slice group; /* empty: the jobs without a group */
    bool exists;        /* false: it has no settings, and the rest is zero */
    bool carried;
    struct group_settings settings; /* paused_until_ms: inner clock */
};

/* The whole state of a batch (job/batch.h). */
struct record_batch {
    struct hash128 key; /* of its waiting job */
    uint64_t number;
    struct batch_counts counts;
    enum batch_on_dead on_dead;
    uint32_t members; /* expected; 0: not given */
    uint8_t depth;
    bool is_closed, has_ended, is_stopped;
    bool is_gone; /* the waiting job has ended */
    bool carried;
    bool due_is_at;
    int64_t wait_until_ms, close_by_ms; /* inner clock */
    int64_t due_ms;         /* of the waiting job: a delay, or a time of the wall clock */
    uint64_t stop_sequence; /* if stopped */
    uint32_t leftovers;     /* likewise: cancelled members that are not removed yet */
};

/*
 * The place of a record: in a log file, or in a slot of a run. bytes 0: no place.
 */
struct record_place {
    uint32_t file;  /* number of the log file; with RECORD_IN_RUN: of the run */
    uint32_t at;    /* byte offset in the log file; in a run: the slot */
    uint32_t bytes; /* the whole record */
};
#define RECORD_IN_RUN (1u << 31)

static inline bool record_place_is_run(struct record_place place)
{
    return (place.file & RECORD_IN_RUN) != 0;
}
static inline uint32_t record_place_run(struct record_place place)
{
    return place.file & ~RECORD_IN_RUN;
}

struct record {
    enum record_kind kind;
    /* JOB, STATE, DONE: the slot of the run that contained the job when this record was written
     * (JOB: the job that it replaces), so that replay need not search for it. bytes 0: the job was
     * in the log, or there was no job. */
    struct record_place from;
    enum record_job_origin origin; /* RECORD_JOB */
    union {
        struct job job;
        struct record_state state;
        struct record_done done;
        struct record_topic topic;
        struct record_group group;
        struct record_batch batch;
    };
};

/* Returns an upper bound of the bytes that record_encode writes. */
size_t record_bytes_max(const struct record *record);

/* Writes the record at `into` (record_bytes_max bytes of room). Returns its size. */
size_t record_encode(const struct record *record, char *into);

/* Decodes the one record that fills `bytes` exactly. Slices of *out point into `bytes`. Returns
 * false if malformed; *out is then unspecified. */
bool record_decode(struct slice bytes, struct record *out);

/* Decodes the successor of a job. Returns false if the job has no successor. */
bool record_next_decode(const struct job *job, struct job *out);

/* Puts the successor in place of the job, if there is one: with its texts, policy, priority, due and sequence, not
 * leased. */
void record_next_start(struct job *job);

/* Adds the end of a lease that started a successor to the totals. */
void record_next_count(struct topic_totals *totals, enum record_next next);

/* Encodes a kept job for the DONE record: at most record_kept_bytes_max. Returns its size. */
size_t record_kept_bytes_max(const struct record_kept *kept);
size_t record_kept_encode(const struct record_kept *kept, char *into);
/* Decodes it. Returns false if it is malformed. A record that was decoded holds a valid one. */
bool record_kept_decode(struct slice bytes, struct record_kept *out);

/* Returns the size of the record that starts at `bytes`, or 0 if they do not begin with a known
 * kind or do not hold all of it. */
size_t record_next(struct slice bytes);

/* Returns whether the encoded record may be read again by its place: a JOB, or a DONE that is
 * remembered or kept. Other records are read only together with all records around them. */
bool record_is_read_again(struct slice bytes);

#endif
