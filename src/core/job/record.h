/*
 * record: the stored form of everything that changes a shard. Pure.
 *
 * A record says what is true afterwards, not what to do, so replaying it twice changes nothing.
 * Little-endian, versioned by the file that holds it. Layout: u32 bytes (whole record, with this
 * field) · u8 kind · payload; integers of the payload as LEB128 varints where they are often small.
 * Fields with their usual value take no room: a plain job costs about 21 bytes beside its text.
 *
 * Encoding asserts: names and texts within the limits of job.h, no negative time, known enums.
 * Decoding trusts nothing: every length is checked, every enum known, topic and id well-formed, the
 * payload used up to its last byte. A content has one stored form: what decodes encodes to the
 * same bytes again.
 */
#ifndef TARRY_JOB_RECORD_H
#define TARRY_JOB_RECORD_H

#include "base/frequency.h"
#include "base/hash.h"
#include "job/job.h"

enum record_kind {
    RECORD_JOB = 1, /* a whole job */
    RECORD_STATE,   /* what changed of a job: state, due, attempt, lease, priority, error */
    RECORD_DONE,    /* a job is gone */
    RECORD_TOPIC    /* a topic's settings, counters and existence */
};

enum record_reason {
    RECORD_ACKED = 1,
    RECORD_CANCELLED,
    RECORD_EXPIRED,
    RECORD_PURGED,
    RECORD_REPLACED
};

/* CARRIED is read and never written: an older version brought a live job out of an old file. */
enum record_job_origin { RECORD_PUSHED = 1, RECORD_PUSHED_REPLACING, RECORD_CARRIED };

enum record_conflict { CONFLICT_REPLACE = 1, CONFLICT_KEEP, CONFLICT_REJECT };

enum { TOPIC_EXTENSION_BYTES_MAX = 4096 };
#define TOPIC_JOBS_MAX (1ULL << 40) /* the highest max_jobs */

/* Zeroed: nothing set. */
struct topic_settings {
    struct policy policy;
    enum record_conflict on_conflict;
    int32_t priority; /* valid where has_priority */
    bool has_priority;
    bool dead_letter_expired; /* expired jobs become dead instead of going */
    int64_t dedup_window_ms;  /* how long finished ids are remembered */
    uint64_t max_jobs;        /* new jobs are refused while it has so many; 0: no limit */
    struct frequency push_rate;
    /* What rooms above the queue keep with the topic: a JSON object as text; empty: nothing. Queues
     * store it and never look inside. Belongs to whoever filled the struct in. */
    struct slice extension;
    int64_t history_ms; /* how long what became of jobs is kept; 0: not. In stores that can */
};

bool topic_settings_equal(const struct topic_settings *a, const struct topic_settings *b);

/* Sums since the topic was made; never fall. */
struct topic_totals {
    uint64_t pushed, acked, cancelled, expired, replaced, delivered, nacked, lease_ended, died,
        redriven;
};

/* An attempt that ended without an ack. Its number and error are those of the state it led to. */
struct record_ended {
    enum job_outcome outcome; /* 0: none has ended with this change */
    int64_t started_ms;       /* wall clock */
    int64_t duration_ms;
};

struct record_state { /* RECORD_STATE */
    struct hash128 key;
    enum job_state state;
    bool due_is_wall;
    uint16_t priority;
    uint32_t attempt;
    int64_t due_ms, first_due_ms, lease_until_ms;
    int64_t taken_ms; /* inner clock, before lease_until_ms; 0: not leased, or not known */
    uint64_t delivery;
    struct slice error;
    struct slice consumer; /* of a leased job only, as is the next; see job.h */
    bool cancel_requested;
    struct record_ended ended;
};

struct record_done { /* RECORD_DONE */
    struct hash128 key;
    enum record_reason reason;
    int64_t remember_until_ms; /* 0: forget at once */
    uint64_t sequence;         /* of the job that is gone */
    struct slice topic; /* only where remembered or carried: tells whose it was; else empty */
    bool carried;       /* of a job that had ended already: not to be counted again */
};

struct record_topic { /* RECORD_TOPIC */
    struct slice topic;
    bool exists; /* false: deleted */
    bool paused;
    bool carried;
    bool deleting; /* a delete of all shards has begun, and is finished at the next start */
    int64_t paused_until_ms; /* inner clock; 0: it is not paused, or until it is resumed */
    struct topic_settings settings;
    struct topic_totals totals;
    uint64_t sequence; /* the shard's sequence when it was written */
};

/*
 * Where a record lies: in a file of the log, or in a slot of a run. bytes 0: nowhere.
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
    /* JOB, STATE, DONE: the slot of a run in which the job lay when this was written (JOB: the one
     * it replaces); so replay needs not look for it. bytes 0: it lay in the log, or there was none.
     */
    struct record_place from;
    enum record_job_origin origin; /* RECORD_JOB */
    union {
        struct job job;
        struct record_state state;
        struct record_done done;
        struct record_topic topic;
    };
};

/* An upper bound of what record_encode will write. */
size_t record_bytes_max(const struct record *record);

/* Writes the record at `into` (record_bytes_max bytes of room); returns its size. */
size_t record_encode(const struct record *record, char *into);

/* Decodes the one record that fills `bytes` exactly. Slices of *out point into `bytes`. False, *out
 * unspecified, if malformed. */
bool record_decode(struct slice bytes, struct record *out);

/* The size of the record that starts at `bytes`; 0 where they do not begin with a known kind and
 * hold all of it. */
size_t record_next(struct slice bytes);

/* Whether the encoded record is one that is read again by its place: a JOB, or a DONE that is
 * remembered. The others are only ever read with all that stands around them. */
bool record_is_read_again(struct slice bytes);

#endif
