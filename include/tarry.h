/*
 * tarry.h: a delay queue inside a process. A job goes in now and comes out when it is due.
 *
 * The queue uses the terms and the rules of the tarry server. It keeps its jobs either in the memory of the process or
 * in a directory. Jobs in memory are lost when the process ends. Jobs in a directory survive a crash and a power cut,
 * as those of the server do. The manual is docs/library.md; the terms are defined in docs/glossary.md.
 *
 * Caveats
 *   - Delivery by tarry_take is at least once: a job that is not acked before its lease ends is delivered again.
 *     tarry_pop is at most once: a popped job is gone.
 *   - In memory, leases, jobs and pauses end only during a call or a wait, because there is no background thread. A
 *     directory has threads of the library, and can be opened by one program or server at a time.
 *   - The unit is the millisecond. Delays are rounded up, so a job is never early, and may be up to a millisecond
 *     late.
 *   - A job with at_ms follows the wall clock. A waiting thread notices when the wall clock is set; no other caller
 *     is woken for it.
 *   - A handle does not survive fork: in the child every call returns TARRY_FORKED. There tarry_close only releases
 *     the inherited locks of a directory.
 *   - After tarry_close has been called, no other thread may begin a call on that handle.
 *
 * Threads: every function may be called on any thread, except the functions on a job, which belong to the owner of
 * the job. Memory: input is copied; output belongs to the caller (tarry_job_free). The library does not touch
 * signals, standard streams or the process. It creates threads only for a directory, and these threads take no
 * signals.
 *
 * Structs begin with their size: set `size` to sizeof and the rest to zero, or begin with the _INIT of the struct.
 * Fields that are newer than the program count as zero; a field that this library does not support is rejected unless
 * it is zero. In arrays all items have the size of the first. Output structs need a minimum size: a tarry_result its
 * first four fields, a tarry_list all of its cursor, a tarry_topic and tarry_settings all of their present fields.
 *
 * Results: 0, or the code of the first rejected item; the items after it are carried out all the same. `out`, if
 * given, receives the result of each item. It is not changed if no item was examined: TARRY_STOPPING, TARRY_FORKED,
 * more than TARRY_BATCH_MAX items, an `out` without a size. A handle keeps no error state. TARRY_NO_MEMORY: nothing
 * was changed.
 */
#ifndef TARRY_H
#define TARRY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarry tarry;
typedef struct tarry_job tarry_job;

/* The names of the HTTP API's codes. Numbers never change. */
enum tarry_code {
    TARRY_OK = 0,
    TARRY_CREATED = 1,
    TARRY_REPLACED = 2,
    TARRY_EXISTED = 3,   /* TARRY_KEEP, or a recently finished id (dedup window): unchanged */
    TARRY_CANCELLED = 4, /* the job will not be delivered */
    /* From here on: rejected, nothing was changed. */
    TARRY_NOT_FOUND = 5,
    TARRY_CONFLICT = 6, /* TARRY_REJECT, and the id exists */
    TARRY_LEASED = 7,   /* a leased job cannot be replaced, cancelled or rescheduled */
    TARRY_DEAD = 8,     /* a dead job cannot be rescheduled: redrive it */
    TARRY_LEASE_ENDED = 9,
    TARRY_BAD_TOPIC = 10,
    TARRY_BAD_ID = 11,
    TARRY_BAD_OPTION = 12, /* named by `detail` of the result */
    TARRY_BODY_TOO_BIG = 13,
    TARRY_TOO_MANY_TOPICS = 14,
    TARRY_BAD_CURSOR = 15,
    TARRY_NO_SPACE = 16, /* memory_max is reached, or the disk of a directory is full */
    TARRY_NO_MEMORY = 17,
    TARRY_STOPPING = 18, /* tarry_close was called */
    /* In a directory: whether calls in progress took effect is not certain. */
    TARRY_DIRECTORY_MOVED = 19, /* its path leads elsewhere: changes are rejected */
    TARRY_UNAVAILABLE = 20,     /* the directory failed or cannot be opened */
    TARRY_TOPIC_FULL = 23,
    TARRY_REQUESTED = 24,       /* success: the job is cancelled unless its holder acks it */
    TARRY_UNSUPPORTED = 26,     /* a directory with several shards has no strict groups */
    TARRY_RESULT_TOO_BIG = 33,  /* above 1 MiB; the job stays leased */
    TARRY_GROUP_FULL = 34,      /* push of a new job: its group has max_jobs jobs */
    TARRY_TOO_MANY_GROUPS = 35, /* a topic has settings for up to 10,000 groups */
    TARRY_BATCH_CLOSED = 36, /* push of a member: `parent` is not the lease of a member that runs */
    TARRY_NO_BATCH = 37,     /* push of a member: no job of this topic and id waits for members */
    TARRY_WAITING = 38,      /* a job that waits for its members cannot be replaced */
    TARRY_TOO_MANY_BATCHES = 39, /* 100,000 jobs wait for members; in a directory, in each shard */
    TARRY_TOO_MANY_MEMBERS = 40, /* a batch has up to 1,000,000 members */
    TARRY_NOT_EMPTY =
        41, /* group_order and TARRY_ONE_SHARD change only while no job waits or is leased */

    TARRY_FORKED = 100,      /* the handle belongs to the parent process */
    TARRY_INTERRUPTED = 101, /* by tarry_interrupt */
    TARRY_IN_CALLBACK = 102, /* tarry_close in a callback of the same queue */
    TARRY_IN_USE = 103,      /* tarry_open: the directory is already open */
    TARRY_IO_FAILED = 104    /* tarry_export, tarry_import: see errno */
};

enum tarry_state {
    TARRY_STATE_DELAYED = 1,
    TARRY_STATE_READY = 2,
    TARRY_STATE_LEASED = 3,
    TARRY_STATE_DEAD = 4,
    TARRY_STATE_FINISHED = 5
};

/* How a finished job ended. */
enum tarry_outcome {
    TARRY_OUTCOME_ACKED = 1,
    TARRY_OUTCOME_CANCELLED = 2,
    TARRY_OUTCOME_EXPIRED = 3
};

/* The effect of a dead member on the job that waits for it: TARRY_GO, it has ended; TARRY_HOLD, it has not ended until it is
 * redriven or cancelled; TARRY_STOP, the other members are cancelled, and those that are leased get a request. */
enum tarry_on_dead { TARRY_GO = 1, TARRY_HOLD = 2, TARRY_STOP = 3 };

/* TARRY_AFTER is only for pushes: while a consumer holds the job, the new one waits as its successor and becomes the job
 * when the lease ends, however it ends; otherwise like TARRY_REPLACE. */
enum tarry_conflict { TARRY_REPLACE = 1, TARRY_KEEP = 2, TARRY_REJECT = 3, TARRY_AFTER = 4 };
/* TARRY_LIST: a wait for each retry, given by their number and in milliseconds; the last one repeats. */
enum tarry_backoff { TARRY_FIXED = 1, TARRY_EXPONENTIAL = 2, TARRY_NO_BACKOFF = 3, TARRY_LIST = 4 };
#define TARRY_ATTEMPTS_NONE UINT32_MAX /* as max_attempts: no limit */

enum {
    TARRY_ID_BYTES_MAX = 128,
    TARRY_TOPIC_BYTES_MAX = 200,
    TARRY_GROUP_BYTES_MAX = 64,
    TARRY_BACKOFF_STEPS_MAX = 16, /* waits of a TARRY_LIST, each at most 30 days */
    TARRY_BATCH_MAX = 1000,       /* items of a call, jobs of a take or a list */
    TARRY_TAKE_TOPICS_MAX = 64,
    TARRY_CURSOR_BYTES_MAX = 64,
    TARRY_MEMBERS_CURSOR_BYTES_MAX = 280
};

/* Returns the meaning of a code, as one sentence without a full stop. Accepts any number. */
const char *tarry_strerror(int code);
/* Returns the name of a code in the HTTP API: "ok", "not_found", …; "unknown" for any other number. */
const char *tarry_code_name(int code);
/* Returns the version of the loaded library: major << 16 | minor << 8 | patch. */
unsigned tarry_version(void);

/* Receives the text of a failed assert, with file and line. It is called on the thread that failed, perhaps with
 * the lock of a queue held. It may write the text, and must not call this library. When it returns, the process is
 * aborted; it must not leave by longjmp or an exception. */
typedef void tarry_assert_hook(void *ctx, const char *text);
/*
 * Sets a hook that is called when an assert of the library fails. A failed assert means a bug in the library, or a
 * host that writes to its memory. `hook` is called once, in place of a line on standard error, and abort follows. The
 * hook applies to the whole process, but only to this copy of the library. Set it before the first tarry_open. NULL
 * restores the line.
 */
void tarry_on_assert(tarry_assert_hook *hook, void *ctx);

/* ---- open and close ---- */

enum tarry_open_flags {
    /* In memory only, for tests: the clock and all waits advance only by tarry_advance. A delay of D ms ends when
     * D + 1 ms have passed, as with the real clock. */
    TARRY_TEST_CLOCK = 1
};

/* Moments at which a change in a directory is confirmed. */
enum tarry_sync {
    TARRY_SYNC_ALWAYS = 1,   /* when it is on the disk: it survives a power cut */
    TARRY_SYNC_INTERVAL = 2, /* when it is written: it survives the process; synced at intervals */
    TARRY_SYNC_NEVER = 3 /* when it is written: after a power cut the loss depends on the system */
};

/* The `level` of a log function. */
enum tarry_log_level { TARRY_LOG_INFO = 2, TARRY_LOG_WARN = 3, TARRY_LOG_ERROR = 4 };

struct tarry_options {
    uint32_t size;
    uint32_t flags;
    /* Limit in bytes, approximate, for jobs, kept jobs and remembered ids. A push or tarry_again beyond the limit returns
     * TARRY_NO_SPACE before the id is looked up, even if the push would replace a job or change nothing. 0: no
     * limit. */
    uint64_t memory_max;
    uint64_t body_max;     /* bytes; 0: 1 MiB */
    uint32_t topics_max;   /* 0: 10,000 */
    uint32_t shards;       /* threads of a directory that share the jobs; 0: unchanged, 1 if new */
    int64_t test_clock_ms; /* start of the test clock, ms since 1970; at most 1 << 47; 0: now */
    /* Data directory of a tarry server, or a new directory. Cannot be combined with memory_max or the test clock.
     * NULL: in memory. */
    const char *dir;
    uint32_t sync; /* of a directory: enum tarry_sync; 0: TARRY_SYNC_ALWAYS */
    /* Size of one log file of a directory, which has at least two: 4 to 1024 MiB; 0: 64 MiB. */
    uint32_t wal_file_bytes;
    int64_t sync_interval_ms; /* only with TARRY_SYNC_INTERVAL, which requires it */
    /* Log function for events in a directory, one line each. It is called on threads of the library until
     * tarry_close returns, and must not call this queue. NULL: no log. */
    void (*log)(void *owner, int level, const char *line);
    void *log_owner;
};
#define TARRY_OPTIONS_INIT                                                                         \
    {                                                                                              \
        sizeof(struct tarry_options), 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL                  \
    }

/*
 * Opens a queue. `options` NULL: all zero. On failure *out is NULL and `error`, which may be NULL, receives a
 * description. Codes: OK; BAD_OPTION, NO_MEMORY; of a directory also UNAVAILABLE, IN_USE.
 */
int tarry_open(const struct tarry_options *options, tarry **out, char *error, size_t error_bytes);
/*
 * Closes a queue. Waiting callers get TARRY_STOPPING. Callbacks that were not dispatched are not called. Their jobs
 * are lost with all others if the queue is in memory; in a directory they are ready again, and every confirmed change
 * is on the disk. Returns after every other call has returned, including a tarry_dispatch and its current callback.
 * NULL is allowed. Codes: OK; STOPPING: another thread closes it, FORKED, IN_CALLBACK: called by a callback of this
 * queue and nothing was done.
 */
int tarry_close(tarry *queue);

/* ---- push and change ---- */

enum tarry_push_flags {
    TARRY_HAS_PRIORITY = 1, /* default: the topic's, else 100 */
    TARRY_HAS_AT = 2,       /* use at_ms instead of delay_ms */
    TARRY_IS_DEAD = 4,      /* keep the job as dead; for a job moved from another queue */
    TARRY_HAS_KEEP_FINISHED =
        512, /* use keep_finished_ms instead of the topic's, also if it is 0 */
    /* The job waits: it becomes due when its batch is closed and all members have ended. `delay_ms` counts from then; `at_ms` is the
     * earliest time. Its meta then has the pair `tarry-batch`: acked=3 dead=0 cancelled=0 expired=0 missing=0. */
    TARRY_WAITS = 2048
};

struct tarry_push {
    uint32_t size;
    uint32_t flags;
    const char *topic; /* [A-Za-z0-9._-]{1,200}, no leading dot */
    const char *id;    /* 1 to 128 printable ASCII bytes; NULL: generated */
    const void *body;
    size_t body_bytes;
    const char *content_type; /* NULL: no content type */
    const char *meta;         /* name NUL value NUL, repeated; names [a-z0-9-]{1,64} */
    size_t meta_bytes;
    int64_t delay_ms;     /* from now; up to 10 years */
    int64_t at_ms;        /* wall clock since 1970; a past time means now */
    int32_t priority;     /* 0 first, up to 65535 */
    uint32_t on_conflict; /* if the id exists; 0: the topic's, else TARRY_REPLACE */
    /* In the following fields 0 means the topic's value, else the default given here. */
    int64_t lease_ms;      /* 60 s */
    int64_t ttl_ms;        /* time in the ready state before it expires; for ever */
    uint32_t max_attempts; /* 16 */
    uint32_t backoff;      /* exponential from 1 s to 10 min */
    int64_t backoff_first_ms,
        backoff_max_ms; /* 0 without a `backoff`; fixed: only the first; list: 0 */
    /* For a job moved from another queue. */
    const char *error;    /* up to 256 bytes */
    uint32_t error_bytes; /* 0: NUL-terminated */
    uint32_t attempt;     /* deliveries so far */
    /* 1 to 128 printable ASCII bytes without blanks: if a push to this topic had the same `once` within once_for_ms
     * (0: 5 minutes), nothing changes and the code is EXISTED, even if its job has ended; NULL: no such check. In a
     * directory with several shards, pushes with one `once` need the same id or none. */
    const char *once;
    int64_t once_for_ms;
    const uint32_t *backoff_steps_ms; /* TARRY_LIST: the waits; else NULL */
    size_t backoff_step_count;
    int64_t keep_finished_ms; /* how long to keep the job once it has finished; up to 10 years */
    /* 1 to 64 printable ASCII bytes without blanks: a tenant, a customer, an endpoint. Groups of a topic share its consumers fairly,
     * and may have limits. NULL: no group. */
    const char *group;
    /* The job is a member of the batch of this waiting job, which was pushed before; NULL: it is not a member. */
    const char *batch_topic, *batch_id;
    const char
        *parent; /* lease of a member that runs: adds a member after the close; NULL: no parent */
    /* Only with TARRY_WAITS. */
    uint32_t on_dead; /* enum tarry_on_dead; 0: TARRY_GO */
    uint32_t members; /* the batch closes itself when it has so many; 0: by tarry_close_batch */
    int64_t wait_at_most_ms; /* from the push: then the job becomes due anyway; 0: 7 days */
    int64_t
        close_within_ms; /* from the push: if the batch is still open then, the job is dead; 0: 1 hour */
};
#define TARRY_PUSH_INIT                                                                            \
    {                                                                                              \
        sizeof(struct tarry_push), 0, NULL, NULL, NULL, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0,  \
            0, 0, NULL, 0, 0, NULL, 0, NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0              \
    }

/* The result of one item. The caller sets the size of the first. */
struct tarry_result {
    uint32_t size;
    int32_t code;
    int32_t state;            /* of the job now, or of the job in conflict; 0: no job */
    int32_t cancel_requested; /* extend: a cancel has been requested */
    int64_t due_ms;           /* wall clock; 0: no due */
    int64_t lease_until_ms;   /* extend; wall clock */
    const char *detail;       /* TARRY_BAD_OPTION: name of the field; static string */
    char id[TARRY_ID_BYTES_MAX + 8];
};
#define TARRY_RESULT_INIT                                                                          \
    {                                                                                              \
        sizeof(struct tarry_result), 0, 0, 0, 0, 0, NULL, ""                                       \
    }

/*
 * Puts jobs into the queue. Each is copied. Codes: CREATED, REPLACED, EXISTED; CONFLICT, LEASED, BAD_TOPIC, BAD_ID, BAD_OPTION,
 * BODY_TOO_BIG, TOO_MANY_TOPICS, TOPIC_FULL, NO_SPACE, NO_MEMORY; WAITING; of a member NO_BATCH, BATCH_CLOSED, TOO_MANY_MEMBERS;
 * of a waiting job TOO_MANY_BATCHES.
 */
int tarry_push(tarry *queue, const struct tarry_push *items, size_t n, struct tarry_result *out);

enum tarry_change_flags {
    TARRY_ONLY_DEAD = 8, /* cancel: only if it died with this `delivery`, else TARRY_CONFLICT */
    /* Cancel: if the job is leased, requests the cancel from its holder, who receives the request with the next
     * extend. Every end of the lease other than an ack cancels the job. */
    TARRY_REQUEST = 256,
    TARRY_WITH_MEMBERS =
        4096 /* cancel of a waiting job: also of its members; leased ones get a request */
};

struct tarry_change {
    uint32_t size;
    /* TARRY_HAS_PRIORITY, TARRY_HAS_AT, TARRY_HAS_DELAY, TARRY_ONLY_DEAD, TARRY_REQUEST, TARRY_WITH_MEMBERS */
    uint32_t flags;
    const char *topic, *id;
    int64_t delay_ms, at_ms; /* reschedule; without their flags the due is unchanged */
    uint64_t delivery;
    int32_t priority;
    uint32_t reserved;
};
#define TARRY_CHANGE_INIT                                                                          \
    {                                                                                              \
        sizeof(struct tarry_change), 0, NULL, NULL, 0, 0, 0, 0, 0                                  \
    }

/*
 * Cancels jobs by topic and id. Codes: CANCELLED, REQUESTED; NOT_FOUND, LEASED, CONFLICT, BAD_TOPIC, BAD_ID,
 * BAD_OPTION.
 */
int tarry_cancel(tarry *queue, const struct tarry_change *items, size_t n,
                 struct tarry_result *out);
/* Changes the due or the priority of jobs. Codes: OK; NOT_FOUND, LEASED, DEAD, BAD_TOPIC, BAD_ID, BAD_OPTION. */
int tarry_reschedule(tarry *queue, const struct tarry_change *items, size_t n,
                     struct tarry_result *out);
/* Makes jobs due now. Codes: OK; NOT_FOUND, LEASED, DEAD, BAD_TOPIC, BAD_ID, BAD_OPTION. */
int tarry_run(tarry *queue, const struct tarry_change *items, size_t n, struct tarry_result *out);
/* Closes the batches of waiting jobs: they get no more members. Codes: OK, also if it is closed already; NOT_FOUND: no such job, or it
 * does not wait; BAD_TOPIC, BAD_ID, BAD_OPTION. */
int tarry_close_batch(tarry *queue, const struct tarry_change *items, size_t n,
                      struct tarry_result *out);

/* ---- take ---- */

struct tarry_take {
    uint32_t size;
    uint32_t max;              /* 1 to 1000 */
    const char *const *topics; /* in order of preference */
    uint32_t topic_count;      /* 1 to 64 */
    uint32_t reserved;
    int64_t lease_ms;     /* 0: the job's, else the topic's, else 60 s */
    uint64_t tag;         /* for tarry_interrupt; 0: no tag */
    const char *consumer; /* name of the consumer, stored with the lease; NULL: no name */
};
#define TARRY_TAKE_INIT                                                                            \
    {                                                                                              \
        sizeof(struct tarry_take), 1, NULL, 0, 0, 0, 0, NULL                                       \
    }

/*
 * Takes ready jobs under a lease. Returns up to `max` jobs, as soon as one is ready. wait_ms 0: does not wait; -1:
 * waits for ever. When the wait ends without a job: TARRY_OK and *n = 0. `out` has room for `max`; each job in it
 * belongs to the caller, for tarry_job_free. Callers that wait for a topic are served in order of arrival. Codes: OK;
 * BAD_TOPIC, BAD_OPTION, NO_MEMORY, INTERRUPTED. With any code but OK no job was taken.
 */
int tarry_take(tarry *queue, const struct tarry_take *take, int64_t wait_ms, tarry_job **out,
               size_t *n);
/*
 * Takes ready jobs and acks them in one step. They are removed from the queue and need no ack; the rest is as with
 * tarry_take. Codes: OK; BAD_TOPIC, BAD_OPTION, NO_MEMORY, INTERRUPTED.
 */
int tarry_pop(tarry *queue, const struct tarry_take *take, int64_t wait_ms, tarry_job **out,
              size_t *n);
/*
 * Ends the waiting takes that have this tag. They return TARRY_INTERRUPTED. Returns how many there were; later takes
 * are not affected. Must not be called from a signal handler.
 */
size_t tarry_interrupt(tarry *queue, uint64_t tag);

/* ---- jobs taken: a snapshot, which later changes do not affect. One thread at a time, until it is freed; also
 * after tarry_close. Texts are NUL-terminated unless documented otherwise, and live as long as the job. ---- */

/* Returns the topic of a job. */
const char *tarry_job_topic(const tarry_job *job);
/* Returns the id of a job. */
const char *tarry_job_id(const tarry_job *job);
/* Returns the body of a job. It points to the bytes of the queue, not to a copy; `bytes` may be NULL. */
const void *tarry_job_body(const tarry_job *job, size_t *bytes);
/* Returns the content type of a job. "": it was pushed without one. */
const char *tarry_job_content_type(const tarry_job *job);
/* Returns the meta of a job, as it was pushed. `bytes` may be NULL. */
const char *tarry_job_meta(const tarry_job *job, size_t *bytes);
/* Returns the error of the last failed attempt. It is not NUL-terminated. */
const char *tarry_job_error(const tarry_job *job, size_t *bytes);
/* Returns the lease of a job, as text. "": the job was popped or not taken. */
const char *tarry_job_lease(tarry_job *job);
/* Returns the name of the consumer that holds a job. It is not NUL-terminated. */
const char *tarry_job_consumer(const tarry_job *job, size_t *bytes);
/* Returns the group of a job. It is not NUL-terminated. */
const char *tarry_job_group(const tarry_job *job, size_t *bytes);
/* Returns whether the cancel of a leased job was requested. */
int tarry_job_cancel_requested(const tarry_job *job);
/* Returns the state of a job, an enum tarry_state. TARRY_STATE_FINISHED for a popped job. */
int tarry_job_state(const tarry_job *job);
/* Returns how often a job was delivered, including this delivery. */
uint32_t tarry_job_attempt(const tarry_job *job);
/* Returns the delivery number of a job. It rises with each delivery, to fence late consumers. */
uint64_t tarry_job_delivery(const tarry_job *job);
/* Returns the priority of a job. 0 comes first. */
int32_t tarry_job_priority(const tarry_job *job);
/* Returns when a job is or was due, by the wall clock. */
int64_t tarry_job_due_ms(const tarry_job *job);
/* Returns when the lease of a job ends, by the wall clock. 0: it is not leased. */
int64_t tarry_job_lease_until_ms(const tarry_job *job);

struct tarry_attempt {
    uint32_t size;
    uint32_t number;
    int64_t started_ms, duration_ms;
    int32_t outcome; /* 1 failed, 2 its lease ended, 3 failed with TARRY_FINAL */
    uint32_t error_bytes;
    const char *error; /* lives as long as the job; not NUL-terminated */
};
#define TARRY_ATTEMPT_INIT                                                                         \
    {                                                                                              \
        sizeof(struct tarry_attempt), 0, 0, 0, 0, 0, NULL                                          \
    }
/*
 * Returns one of the attempts that ended without an ack. Index 0 is the oldest; the last eight are kept. The caller
 * sets out->size. Codes: OK; NOT_FOUND: no such attempt, BAD_OPTION: `out` has no size.
 */
int tarry_job_history(const tarry_job *job, size_t index, struct tarry_attempt *out);

/* Returns the progress of a job, as the last extend gave it. It is not NUL-terminated. */
const char *tarry_job_progress(const tarry_job *job, size_t *bytes);
/* Returns how a kept or awaited job ended, an enum tarry_outcome. 0: it has not ended, is dead, or was popped. */
int tarry_job_outcome(const tarry_job *job);
/* Returns when a job ended, by the wall clock. 0: as above. */
int64_t tarry_job_finished_ms(const tarry_job *job);
/* Returns the duration of the last attempt of a job that ended. 0: unknown, or no attempt. */
int64_t tarry_job_duration_ms(const tarry_job *job);
/* Returns the result of a job that ended. `bytes` may be NULL. */
const void *tarry_job_result(const tarry_job *job, size_t *bytes);
/* Returns the content type of the result. "": no content type. */
const char *tarry_job_result_type(const tarry_job *job);

/* The batches of a job: that of which it is a member, and its own. */
struct tarry_batch {
    uint32_t size;
    int32_t has_own; /* the job has a batch of its own; else all from `on_dead` on are 0 */
    char topic[TARRY_TOPIC_BYTES_MAX +
               8]; /* of the waiting job whose member the job is; "": it is not a member */
    char id[TARRY_ID_BYTES_MAX + 8];
    int32_t on_dead; /* enum tarry_on_dead */
    int32_t is_closed;
    int32_t has_ended;  /* the wait has ended: the numbers below stay as they are */
    uint32_t waits_for; /* members */
    uint32_t unfinished, acked, dead, cancelled, expired; /* members by outcome */
    uint32_t reserved;
};
/* Returns the batches of a job. The caller sets out->size. Codes: OK; NOT_FOUND: it has none, BAD_OPTION: `out` has no size. */
int tarry_job_batch(const tarry_job *job, struct tarry_batch *out);

/* Frees a job that was returned to the caller. This does not ack it. NULL is allowed. */
void tarry_job_free(tarry_job *job);

/* ---- answers ---- */

enum tarry_answer_flags {
    TARRY_HAS_DELAY = 16, /* nack: wait for delay_ms instead of the backoff */
    TARRY_FINAL = 32      /* nack: no further attempt, the job is dead immediately */
};

struct tarry_answer {
    uint32_t size;
    uint32_t flags;
    const tarry_job *job; /* or */
    const char *lease;    /* text of the lease */
    int64_t delay_ms;     /* nack, return */
    int64_t lease_ms;     /* extend: from now; 0: as when taken */
    const char *error;    /* nack: reason; cut at 256 bytes */
    size_t error_bytes;   /* 0: NUL-terminated */
    /* Ack, nack with TARRY_FINAL: the result, up to 1 MiB. It is kept with a job that is kept (keep_finished), and
     * goes to the callers that wait for the job. */
    const void *result;
    size_t result_bytes;
    const char *result_type; /* content type of the result; NULL: no content type */
    const char *progress;    /* extend: up to 256 bytes of UTF-8; NULL: unchanged */
    /* Ack, nack, return: no job of the group of the job is delivered for so long, up to 24 hours; without a group, no job of its topic. */
    int64_t hold_ms;
};
#define TARRY_ANSWER_INIT                                                                          \
    {                                                                                              \
        sizeof(struct tarry_answer), 0, NULL, NULL, 0, 0, NULL, 0, NULL, 0, NULL, NULL, 0          \
    }

/*
 * Acks jobs as done. They are removed from the queue, but not freed. Codes: OK; LEASE_ENDED, BAD_OPTION,
 * RESULT_TOO_BIG; of a job that is kept also NO_MEMORY: it stays leased.
 */
int tarry_ack(tarry *queue, const struct tarry_answer *items, size_t n, struct tarry_result *out);
/*
 * Nacks jobs as failed. Each is delivered again after its backoff, or is dead if no attempts are left. Codes: OK,
 * CANCELLED: a cancel had been requested; LEASE_ENDED, BAD_OPTION, RESULT_TOO_BIG.
 */
int tarry_nack(tarry *queue, const struct tarry_answer *items, size_t n, struct tarry_result *out);
/*
 * Extends leases. The result holds the new end, and whether a cancel was requested. Codes: OK; LEASE_ENDED,
 * BAD_OPTION.
 */
int tarry_extend(tarry *queue, const struct tarry_answer *items, size_t n,
                 struct tarry_result *out);
/*
 * Returns jobs that were not worked on. They are ready again, and the attempt does not count. Codes: OK, CANCELLED: a
 * cancel had been requested; LEASE_ENDED, BAD_OPTION.
 */
int tarry_return(tarry *queue, const struct tarry_answer *items, size_t n,
                 struct tarry_result *out);

/* A job to repeat: acked, and pushed again with another due and body. */
struct tarry_again {
    uint32_t size;
    uint32_t flags; /* TARRY_HAS_AT */
    const tarry_job *job;
    const void *body; /* NULL: unchanged; may be the body of the job itself */
    size_t body_bytes;
    int64_t delay_ms, at_ms;
};
#define TARRY_AGAIN_INIT                                                                           \
    {                                                                                              \
        sizeof(struct tarry_again), 0, NULL, NULL, 0, 0, 0                                         \
    }
/*
 * Acks jobs and pushes them again in one step. Each keeps its id, priority, meta and policy, and its attempts start
 * again; the job in hand does not change, and must be freed as usual. A dedup window does not remember these ids, and
 * max_jobs does not apply. Codes: CREATED; CANCELLED: a cancel had been requested, so the job has ended; LEASE_ENDED,
 * BAD_OPTION, BODY_TOO_BIG, NO_SPACE, NO_MEMORY. If rejected, nothing was changed.
 */
int tarry_again(tarry *queue, const struct tarry_again *items, size_t n, struct tarry_result *out);

/* ---- look-up ---- */

/*
 * Returns a job by topic and id, also a kept one: its state is TARRY_STATE_FINISHED. *out belongs to the caller, for
 * tarry_job_free. Codes: OK; NOT_FOUND, BAD_TOPIC, BAD_ID, NO_MEMORY.
 */
int tarry_get(tarry *queue, const char *topic, const char *id, tarry_job **out);

struct tarry_await {
    uint32_t size;
    uint32_t reserved;
    const char *topic, *id;
    uint64_t tag; /* for tarry_interrupt; 0: no tag */
    /* A job to push first; then topic and id are NULL. The wait begins in the same step, so it misses no end. A push with
     * `once` needs an id. NULL: the job exists. */
    const struct tarry_push *push;
};
#define TARRY_AWAIT_INIT                                                                           \
    {                                                                                              \
        sizeof(struct tarry_await), 0, NULL, NULL, 0, NULL                                         \
    }
/*
 * Waits until a job has ended, and returns it: it is finished, also if its topic keeps no finished jobs, or dead. When
 * the wait ends first, returns the job as it is. wait_ms as in tarry_take. *out belongs to the caller, for
 * tarry_job_free. A job that ended before the call is found if it is kept or dead. A wait is for the id: it continues if
 * the job is replaced, and ends with NOT_FOUND if the job is purged. Codes: OK; NOT_FOUND, BAD_TOPIC, BAD_ID,
 * BAD_OPTION, NO_MEMORY, INTERRUPTED; with a push also the codes of tarry_push that reject it. *out is NULL with any code
 * but OK.
 */
int tarry_await(tarry *queue, const struct tarry_await *await, int64_t wait_ms, tarry_job **out);

enum tarry_list_flags { TARRY_WITH_BODY = 64 };

struct tarry_list {
    uint32_t size;
    uint32_t flags;
    const char *topic;
    int32_t state;  /* 0: all */
    uint32_t limit; /* 1 to 1000 */
    /* Empty for the first call. The call writes the position of the next one; empty: the list is complete. */
    char cursor[TARRY_CURSOR_BYTES_MAX];
};
#define TARRY_LIST_INIT                                                                            \
    {                                                                                              \
        sizeof(struct tarry_list), 0, NULL, 0, 100, ""                                             \
    }
/*
 * Lists jobs of a topic by due, then push order; with TARRY_STATE_FINISHED the kept jobs, newest first, which no other
 * list contains. `out` has room for `limit`; each job in it belongs to the caller,
 * for tarry_job_free. Codes: OK; NOT_FOUND, BAD_TOPIC, BAD_OPTION, BAD_CURSOR, NO_MEMORY.
 */
int tarry_list(tarry *queue, struct tarry_list *list, tarry_job **out, size_t *n);

/* The outcome of a member of a batch. */
enum tarry_member_outcome {
    TARRY_MEMBER_UNFINISHED = 1,
    TARRY_MEMBER_ACKED = 2,
    TARRY_MEMBER_DEAD = 3,
    TARRY_MEMBER_CANCELLED = 4,
    TARRY_MEMBER_EXPIRED = 5
};

struct tarry_members {
    uint32_t size;
    uint32_t flags;         /* TARRY_WITH_BODY: with bodies and results */
    const char *topic, *id; /* of the waiting job */
    int32_t outcome;        /* enum tarry_member_outcome; 0: all */
    uint32_t limit;         /* 1 to 1000 */
    /* Empty for the first call. The call writes the position of the next one; empty: the list is complete. */
    char cursor[TARRY_MEMBERS_CURSOR_BYTES_MAX];
};
#define TARRY_MEMBERS_INIT                                                                         \
    {                                                                                              \
        sizeof(struct tarry_members), 0, NULL, NULL, 0, 100, ""                                    \
    }
/*
 * Lists the members of a batch, topic by topic; those that have ended are found if they are kept. The call searches up to some 10,000
 * jobs, so it may return fewer than `limit` members before the list is complete. `out` has room for `limit`; each job in it belongs to
 * the caller, for tarry_job_free. Codes: OK; NOT_FOUND: no member and no such job, BAD_TOPIC, BAD_ID, BAD_OPTION, BAD_CURSOR, NO_MEMORY.
 */
int tarry_list_members(tarry *queue, struct tarry_members *list, tarry_job **out, size_t *n);

/* ---- topics ---- */

enum tarry_settings_flags {
    /* also TARRY_HAS_PRIORITY */
    TARRY_DEAD_LETTER_EXPIRED = 128, /* expired jobs are kept as dead */
    TARRY_KEEP_BODY = 1024,          /* kept jobs keep their body and content type */
    TARRY_ONE_SHARD =
        2048 /* in a directory, all jobs of the topic are in one shard, so its limits are exact */
};

/* Deliveries per unit of time. */
enum tarry_rate_unit { TARRY_PER_SECOND = 1, TARRY_PER_MINUTE = 2, TARRY_PER_HOUR = 3 };

/* Limits of deliveries. Zeroed: no limit. */
struct tarry_limits {
    uint32_t limit;     /* leased jobs at a time; 0: no limit */
    uint32_t rate;      /* deliveries per rate_unit; 0: no limit */
    uint32_t rate_unit; /* enum tarry_rate_unit; 0 without a rate */
    uint32_t burst;     /* deliveries that may come together; 0: those of 10 ms, at least 1 */
};

/* TARRY_STRICT: no job of a group is delivered before the one in front of it has ended. */
enum tarry_group_order { TARRY_FREE = 0, TARRY_STRICT = 1 };

struct tarry_settings {
    uint32_t size;
    uint32_t flags;
    int64_t lease_ms, ttl_ms;
    uint32_t max_attempts, backoff;
    int64_t backoff_first_ms, backoff_max_ms;
    int32_t priority;
    uint32_t on_conflict;
    int64_t dedup_window_ms;     /* time for which finished ids are remembered */
    uint64_t max_jobs;           /* 0: no limit */
    uint32_t backoff_step_count; /* TARRY_LIST: the waits; else 0 */
    uint32_t backoff_steps_ms[TARRY_BACKOFF_STEPS_MAX];
    uint32_t reserved;
    /* How long finished jobs are kept; 0: not kept. Above a limit the oldest are dropped. */
    int64_t keep_finished_ms;
    uint64_t keep_finished_max;   /* jobs; 0: 1,000,000 */
    uint64_t keep_finished_bytes; /* 0: 1 GiB */
    /* Of all jobs, and of those of each group. Jobs without a group are one group. */
    struct tarry_limits limits, group_limits;
    uint32_t group_order; /* enum tarry_group_order */
    uint32_t reserved_order;
    uint64_t group_max_jobs; /* of each group; 0: no limit */
};
#define TARRY_SETTINGS_INIT                                                                        \
    {                                                                                              \
        sizeof(struct tarry_settings), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0, 0, 0, 0,        \
            {0, 0, 0, 0}, {0, 0, 0, 0}, 0, 0, 0                                                    \
    }

struct tarry_topic {
    uint32_t size;
    int32_t is_paused;
    char name[TARRY_TOPIC_BYTES_MAX + 8];
    int64_t paused_until_ms; /* wall clock; 0: not paused, or until resumed */
    uint64_t delayed, retrying, ready, leased, dead;
    /* Totals since the topic was created. */
    uint64_t pushed, replaced, delivered, acked, nacked, lease_ended, cancelled, expired, died,
        redriven;
    uint64_t dead_bytes;
    int64_t oldest_ready_due_ms; /* 0: no job is ready */
    uint64_t finished;           /* kept jobs, which are in no other count */
    uint64_t held;               /* ready jobs that a limit, a rate, a pause or a hold delays */
    uint64_t groups;             /* groups with ready or leased jobs */
};

/*
 * Replaces all settings of a topic. Creates the topic if it does not exist; the code CREATED is a success. Codes: OK,
 * CREATED; BAD_TOPIC, BAD_OPTION, TOO_MANY_TOPICS, NO_MEMORY.
 */
int tarry_topic_put(tarry *queue, const char *topic, const struct tarry_settings *settings);
/* Returns a topic with its counts. The caller sets out->size. Codes: OK; NOT_FOUND, BAD_TOPIC, BAD_OPTION. */
int tarry_topic_get(tarry *queue, const char *topic, struct tarry_topic *out);
/*
 * Returns the settings of a topic as they were put. The caller sets out->size. Codes: OK; NOT_FOUND, BAD_TOPIC,
 * BAD_OPTION.
 */
int tarry_topic_settings(tarry *queue, const char *topic, struct tarry_settings *out);
/*
 * Deletes a topic and all its jobs, including leased ones. `affected`, if not NULL, receives their number. Codes: OK;
 * NOT_FOUND, BAD_TOPIC, NO_MEMORY.
 */
int tarry_topic_delete(tarry *queue, const char *topic, uint64_t *affected);
/*
 * Pauses the delivery of a topic for a time. for_ms 0: until it is resumed. Codes: OK; NOT_FOUND, BAD_TOPIC,
 * BAD_OPTION.
 */
int tarry_topic_pause(tarry *queue, const char *topic, int64_t for_ms);
/* Resumes the delivery of a topic. Codes: OK; NOT_FOUND, BAD_TOPIC. */
int tarry_topic_resume(tarry *queue, const char *topic);
/*
 * Drops the jobs of a topic that are in this state. 0: all but leased and kept ones; leased jobs are never purged. `affected`, if
 * not NULL, receives their number. Codes: OK; NOT_FOUND, BAD_TOPIC, BAD_OPTION, NO_MEMORY.
 */
int tarry_topic_purge(tarry *queue, const char *topic, int state, uint64_t *affected);
/*
 * Redrives dead jobs of a topic. `id` selects one job; with NULL at most `max` jobs are redriven, 0: all. `affected`,
 * if not NULL, receives their number. Codes: OK; NOT_FOUND, BAD_TOPIC, BAD_ID, NO_MEMORY.
 */
int tarry_topic_redrive(tarry *queue, const char *topic, const char *id, uint64_t max,
                        uint64_t *affected);
/*
 * Lists topics by name. The list begins after `after` (NULL: with the first) and has up to *n topics; *n is set to
 * the number in `out`. The caller sets the size of the first. Codes: OK; BAD_OPTION, NO_MEMORY.
 */
int tarry_topics(tarry *queue, const char *after, struct tarry_topic *out, size_t *n);

/* ---- groups ---- */

/* What holds the ready jobs of a group. */
enum tarry_held {
    TARRY_HELD_LIMIT = 1,
    TARRY_HELD_RATE = 2,
    TARRY_HELD_GROUP_LIMIT = 3,
    TARRY_HELD_GROUP_RATE = 4,
    TARRY_HELD_GROUP_PAUSED = 5,
    TARRY_HELD_GROUP_ORDER = 6,
    TARRY_HELD_BY_CONSUMER = 7 /* hold_ms of an answer */
};

/* The settings of one group. Zeroed: those of its topic. */
struct tarry_group_settings {
    uint32_t size;
    uint32_t weight;            /* its share of the deliveries: 1 to 100; 0: 1 */
    struct tarry_limits limits; /* a member of 0: that of the topic */
    int32_t is_paused;
    uint32_t reserved;
    int64_t paused_until_ms; /* wall clock; 0: not paused, or until its settings change */
    uint64_t max_jobs;       /* 0: group_max_jobs of the topic */
};
#define TARRY_GROUP_SETTINGS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct tarry_group_settings), 0, {0, 0, 0, 0}, 0, 0, 0, 0                           \
    }

struct tarry_group {
    uint32_t size;
    int32_t has_settings;
    char name[TARRY_GROUP_BYTES_MAX + 8]; /* "": the jobs without a group */
    uint64_t ready, leased;
    int32_t held_by; /* enum tarry_held; 0: not held */
    uint32_t reserved;
    int64_t held_until_ms;       /* wall clock; 0: not held, or unknown */
    int64_t oldest_ready_due_ms; /* wall clock; 0: no job is ready */
    struct tarry_group_settings settings;
};

/*
 * Replaces all settings of a group. Creates the topic if it does not exist. Codes: OK; BAD_TOPIC, BAD_OPTION, TOO_MANY_TOPICS,
 * TOO_MANY_GROUPS, NO_MEMORY.
 */
int tarry_group_put(tarry *queue, const char *topic, const char *group,
                    const struct tarry_group_settings *settings);
/* Removes the settings of a group and ends its hold. Codes: OK; NOT_FOUND: there is no such topic, BAD_TOPIC, BAD_OPTION. */
int tarry_group_delete(tarry *queue, const char *topic, const char *group);
/*
 * Returns a group. `group` NULL: the jobs without a group. The caller sets out->size. A group without jobs and settings is all zero. Codes: OK;
 * NOT_FOUND: there is no such topic, BAD_TOPIC, BAD_OPTION.
 */
int tarry_group_get(tarry *queue, const char *topic, const char *group, struct tarry_group *out);
/*
 * Lists the groups of a topic that have ready or leased jobs, settings or a hold, by name. The list begins after `after` (NULL: with the first, "": after the
 * jobs without a group) and has up to *n groups, at most 1000; *n is set to the number in `out`. The caller sets the size of the first. Codes: OK;
 * NOT_FOUND, BAD_TOPIC, BAD_OPTION, NO_MEMORY.
 */
int tarry_groups(tarry *queue, const char *topic, const char *after, struct tarry_group *out,
                 size_t *n);

/* Returns how many kept jobs were dropped before their time since the queue was opened: by keep_finished_max or
 * keep_finished_bytes, or because they could not be stored. */
uint64_t tarry_finished_dropped(tarry *queue);

/* ---- export and import: topics with their settings and jobs as lines of JSON, the format of `tarry export` and
 * `tarry import`: between directories, queues in memory and servers ---- */

struct tarry_transfer {
    uint32_t size;
    int32_t fd; /* blocking file or pipe; -1: use the functions */
    /* The caller's functions, in place of a descriptor; a result below 0 is a failure. `write` takes all bytes;
     * `read` returns the number of bytes read, 0 at the end. */
    int64_t (*write)(void *owner, const void *from, size_t bytes);
    int64_t (*read)(void *owner, void *into, size_t bytes);
    void *owner;
    uint32_t on_conflict; /* import, if the job exists: TARRY_KEEP, also as 0, or TARRY_REPLACE */
    uint32_t reserved;
    /* Output, also of a failed call. */
    uint64_t topics, jobs;
    uint64_t line; /* import: the last line read, or the rejected one */
};
#define TARRY_TRANSFER_INIT                                                                        \
    {                                                                                              \
        sizeof(struct tarry_transfer), -1, NULL, NULL, NULL, 0, 0, 0, 0, 0                         \
    }
/*
 * Writes topics with their settings and jobs, a line of JSON each. Jobs are listed by due: a job that moves during
 * the export may be missing or written twice. A leased job is written as due when its lease ends, without the attempt
 * in progress. Returns OK when all is written. Codes: OK; BAD_OPTION, NO_MEMORY, STOPPING, FORKED, IO_FAILED: see
 * errno; of a directory also UNAVAILABLE.
 */
int tarry_export(tarry *queue, struct tarry_transfer *transfer);
/*
 * Reads the output of tarry_export or `tarry export`. Stops at the first rejected line and returns its code; in a
 * directory, up to 1,000 lines after it may have been carried out. An import can safely be repeated: with TARRY_KEEP
 * existing jobs stay. Members of a batch whose waiting job comes later are kept in memory until the end. Codes: OK; NO_BATCH: the input
 * lacks the waiting job of a member, or its wait has ended; BAD_OPTION: also an invalid line, BAD_TOPIC, BAD_ID, BODY_TOO_BIG, TOO_MANY_TOPICS,
 * TOPIC_FULL, NO_SPACE, NO_MEMORY, STOPPING, FORKED, IO_FAILED: see errno (ENODATA if the input is incomplete); of a
 * directory also DIRECTORY_MOVED, UNAVAILABLE.
 */
int tarry_import(tarry *queue, struct tarry_transfer *transfer);

/* ---- event loops: nothing blocks, results come as callbacks ---- */

enum tarry_call_kind {
    TARRY_CALL_PUSH = 1,
    TARRY_CALL_CANCEL,
    TARRY_CALL_RESCHEDULE,
    TARRY_CALL_RUN,
    TARRY_CALL_ACK,
    TARRY_CALL_NACK,
    TARRY_CALL_EXTEND,
    TARRY_CALL_RETURN,
    TARRY_CALL_AGAIN,
    TARRY_CALL_TAKE,
    TARRY_CALL_POP,
    TARRY_CALL_AWAIT,
    TARRY_CALL_CLOSE_BATCH
};

/* A call to submit. Read only during tarry_submit. */
struct tarry_call {
    uint32_t size;
    int32_t kind;
    const void *
        items; /* array of the kind's struct; take and pop: one tarry_take; await: one tarry_await */
    size_t n;
    int64_t wait_ms; /* take, pop, await */
};
#define TARRY_CALL_INIT                                                                            \
    {                                                                                              \
        sizeof(struct tarry_call), 0, NULL, 0, 0                                                   \
    }

/* The result of a submitted call. Valid only during the callback, except the jobs, which the callback must free. */
struct tarry_reply {
    uint32_t size;
    int32_t code; /* as the blocking call would return */
    const struct tarry_result *results;
    size_t result_count;
    tarry_job *const *jobs;
    size_t job_count;
};

/* Receives a reply. Called only by tarry_dispatch, on its thread. It may call any function, but tarry_close of its
 * own queue is rejected. */
typedef void tarry_done(void *owner, const struct tarry_reply *reply);

/*
 * Starts a call and returns its result by a callback. The callback is made by tarry_dispatch. Codes: OK; any other:
 * the call was rejected and `done` is not called: BAD_OPTION, BAD_TOPIC, NO_MEMORY.
 */
int tarry_submit(tarry *queue, const struct tarry_call *call, tarry_done *done, void *owner);
/*
 * Returns a descriptor that is readable while tarry_dispatch has work. It is level-triggered, for poll, epoll, select
 * or add_reader. It belongs to the queue until tarry_close, and every call returns the same one. -1: no descriptor is
 * available, see errno.
 */
int tarry_fd(tarry *queue);
/*
 * Calls the callbacks of finished calls. First carries out what is due, then makes up to `max` callbacks (0: all
 * present ones; calls that they submit wait for the next dispatch). Returns how many; -1 if the process is a forked
 * child or tarry_close was called.
 */
int tarry_dispatch(tarry *queue, int max);

/* ---- time ---- */

/* Returns the time of the clock of the queue: milliseconds since 1970. A step of the wall clock does not change
 * it. */
int64_t tarry_now_ms(tarry *queue);
/*
 * Returns after how many milliseconds of the queue's clock the next timed event occurs. An event is a due job, or the
 * end of a lease or a wait. 0: now; -1: no event is scheduled, or the queue is in a directory, whose threads handle
 * events. Jobs that are already ready are not events. For callers with their own wait: any call at that time handles
 * the event. The result may be early, because a job with a distant due moves in steps, and it changes with every
 * call.
 */
int64_t tarry_next_ms(tarry *queue);
/*
 * Advances the test clock. It proceeds from event to event: each event occurs at its own time, and callers that wait
 * for it are served. A delay of D ms ends after D + 1. Codes: OK; BAD_OPTION: the queue has no test clock, the time
 * is negative or above ten years, or the clock would pass 1 << 47.
 */
int tarry_advance(tarry *queue, int64_t ms);

#ifdef __cplusplus
}
#endif

#endif
