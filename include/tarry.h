/*
 * tarry.h: a delay queue inside a process. A job goes in now and comes out when it is due.
 *
 * It is the queue of the tarry server, with its words and its rules: in the memory of the process, and when that ends
 * the jobs are gone; or in a directory, as the server's, and they outlive a crash and a power cut. docs/library.md has the manual; docs/glossary.md the words.
 *
 * Caveats first
 *   - Delivery by tarry_take is at least once: a job that is not acked before its lease ends is handed out
 *     again. tarry_pop is at most once: what is popped is gone.
 *   - In memory leases end, jobs expire and pauses end when somebody calls or waits: there is no thread behind this.
 *     A directory has threads of the library's, and one opener at a time, be it a program or a server.
 *   - The unit is the millisecond. Delays are rounded up, so a job is never early, and up to a millisecond late
 *     by that alone.
 *   - A job with at_ms follows the wall clock: who waits notices that somebody sets that, and nobody is woken for it otherwise.
 *   - A handle does not survive fork: in the child every call says TARRY_FORKED. There tarry_close lets go of the
 *     inherited locks of a directory, and does nothing else.
 *   - After tarry_close has been called no other thread may begin a call on that handle.
 *
 * Threads: every function may be called on any thread, but those on a job, which is its owner's. Memory: what
 * goes in is copied; what comes out is the caller's (tarry_job_free). Signals, standard streams, the process: left
 * alone; threads there are with a directory alone, and they take no signals.
 *
 * Structs begin with their size: set `size` to sizeof and the rest to zero, or begin with the struct's _INIT.
 * Fields that a program was built without count as zero; one that this library does not know is refused where it
 * is not zero. In arrays all items have the size of the first. What is written has to have room: a tarry_result for
 * its first four fields, a tarry_list for all of its cursor, a tarry_topic and tarry_settings for what they have now.
 *
 * Answers: 0, or the code of the first item that was refused; the items behind it are carried out all the
 * same. `out`, where it is given, tells of each; it stays as it was where no item was looked at: TARRY_STOPPING,
 * TARRY_FORKED, more than TARRY_BATCH_MAX items, an `out` without a size. No error stays in a handle.
 * TARRY_NO_MEMORY: nothing was changed.
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
    TARRY_EXISTED =
        3, /* TARRY_KEEP, or the id finished within the topic's dedup window: nothing changed */
    TARRY_CANCELLED = 4, /* the job will not be delivered any more */
    /* From here on: refused, nothing was done. */
    TARRY_NOT_FOUND = 5,
    TARRY_CONFLICT = 6, /* TARRY_REJECT, and the id exists */
    TARRY_LEASED = 7,   /* a leased job cannot be replaced, cancelled or rescheduled */
    TARRY_DEAD = 8,     /* a dead job cannot be rescheduled: redrive it */
    TARRY_LEASE_ENDED = 9,
    TARRY_BAD_TOPIC = 10,
    TARRY_BAD_ID = 11,
    TARRY_BAD_OPTION = 12, /* the result's `detail` names it */
    TARRY_BODY_TOO_BIG = 13,
    TARRY_TOO_MANY_TOPICS = 14,
    TARRY_BAD_CURSOR = 15,
    TARRY_NO_SPACE = 16, /* memory_max is reached; the disk of a directory is full */
    TARRY_NO_MEMORY = 17,
    TARRY_STOPPING = 18, /* tarry_close was called */
    /* In a directory: what was under way is not known to have happened. */
    TARRY_DIRECTORY_MOVED = 19, /* its path leads elsewhere: nothing may change */
    TARRY_UNAVAILABLE = 20,     /* it failed, or cannot be opened */
    TARRY_TOPIC_FULL = 23,
    TARRY_REQUESTED = 24, /* no failure: the job is cancelled unless its holder acks it */

    TARRY_FORKED = 100,      /* the handle belongs to the parent process */
    TARRY_INTERRUPTED = 101, /* tarry_interrupt */
    TARRY_IN_CALLBACK = 102, /* tarry_close from a callback of the same queue */
    TARRY_IN_USE = 103,      /* tarry_open: somebody has the directory open */
    TARRY_IO_FAILED = 104    /* tarry_export, tarry_import: errno says why */
};

enum tarry_state {
    TARRY_STATE_DELAYED = 1,
    TARRY_STATE_READY = 2,
    TARRY_STATE_LEASED = 3,
    TARRY_STATE_DEAD = 4,
    TARRY_STATE_FINISHED = 5
};

enum tarry_conflict { TARRY_REPLACE = 1, TARRY_KEEP = 2, TARRY_REJECT = 3 };
enum tarry_backoff { TARRY_FIXED = 1, TARRY_EXPONENTIAL = 2, TARRY_NO_BACKOFF = 3 };
#define TARRY_ATTEMPTS_NONE UINT32_MAX /* as max_attempts: it is tried for ever */

enum {
    TARRY_ID_BYTES_MAX = 128,
    TARRY_TOPIC_BYTES_MAX = 200,
    TARRY_BATCH_MAX = 1000, /* items of a call, jobs of a take or a list */
    TARRY_TAKE_TOPICS_MAX = 64,
    TARRY_CURSOR_BYTES_MAX = 64
};

/* What a code means, in one sentence without a full stop. Of any number. */
const char *tarry_strerror(int code);
/* The name of a code in the HTTP API: "ok", "not_found", …; "unknown" of a number that is no code. */
const char *tarry_code_name(int code);
/* The version of the library that runs: major << 16 | minor << 8 | patch. */
unsigned tarry_version(void);

/* Gets the text of an assert that failed, with file and line, on whichever thread that was, perhaps with a queue's lock held: it
 * may write it down, and calls nothing of this library. When it returns the process is aborted; it must not leave by longjmp
 * or an exception. */
typedef void tarry_assert_hook(void *ctx, const char *text);
/*
 * Calls a hook where an assert of the library fails. The library found itself wrong, or a host that reaches into
 * it, and would rather stop than go on so: `hook` is called once, in place of a line on standard error, and abort
 * follows. It is of the process, and of this copy of the library alone; set it before the first tarry_open. NULL:
 * the line.
 */
void tarry_on_assert(tarry_assert_hook *hook, void *ctx);

/* ---- open and close ---- */

enum tarry_open_flags {
    /* In memory: the clock stands until tarry_advance moves it; waits are by it, too. For tests. Here as well a delay of D ms
     * is over when D + 1 ms have passed. */
    TARRY_TEST_CLOCK = 1
};

/* When a change in a directory is answered. */
enum tarry_sync {
    TARRY_SYNC_ALWAYS = 1, /* once it is on the disk: it survives a power cut */
    TARRY_SYNC_INTERVAL =
        2, /* once it is written: it survives the process; synced every sync_interval_ms */
    TARRY_SYNC_NEVER = 3 /* once it is written; what a power cut takes is up to the system */
};

/* The `level` of a log function. */
enum tarry_log_level { TARRY_LOG_INFO = 2, TARRY_LOG_WARN = 3, TARRY_LOG_ERROR = 4 };

struct tarry_options {
    uint32_t size;
    uint32_t flags;
    /* Bytes of jobs and of ids that are remembered, about. A push or tarry_again beyond it is TARRY_NO_SPACE, before
     * anybody looks whether the id exists: also a push that would have replaced a job or changed nothing. 0: no
     * limit. */
    uint64_t memory_max;
    uint64_t body_max;   /* bytes; 0: 1 MiB */
    uint32_t topics_max; /* 0: 10,000 */
    uint32_t shards; /* of a directory: threads that share the jobs; 0: as it has, a new one 1 */
    int64_t test_clock_ms; /* where the test clock begins, since 1970; up to 1 << 47; 0: now */
    /* Where the jobs are kept: the data directory of a tarry server, or a new one. Without memory_max and test
     * clock. NULL: in memory. */
    const char *dir;
    uint32_t sync; /* of a directory: enum tarry_sync; 0: TARRY_SYNC_ALWAYS */
    /* One file of a directory's log, of which there are two at least: 4 to 1024 MiB; 0: 64 MiB. */
    uint32_t wal_file_bytes;
    int64_t sync_interval_ms; /* with TARRY_SYNC_INTERVAL, and not without */
    /* Is told what happens in a directory, in one line: on threads of the library, until tarry_close returns. It may not
     * call this queue. NULL: nobody is. */
    void (*log)(void *owner, int level, const char *line);
    void *log_owner;
};
#define TARRY_OPTIONS_INIT                                                                         \
    {                                                                                              \
        sizeof(struct tarry_options), 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL                  \
    }

/*
 * Opens a queue. `options` NULL: all as zero. On failure *out is NULL and `error` says in words what is wrong (it
 * may be NULL). Codes: OK; BAD_OPTION, NO_MEMORY; of a directory UNAVAILABLE, IN_USE, too.
 */
int tarry_open(const struct tarry_options *options, tarry **out, char *error, size_t error_bytes);
/*
 * Closes a queue. Those who wait get TARRY_STOPPING, callbacks that were not dispatched are not called, and their
 * jobs are gone with all others; in a directory they are ready again, and what was answered is on the disk. Returns
 * once every other call has, a tarry_dispatch with the callback that it is in, too. NULL is fine. Codes: OK;
 * STOPPING: another thread closes it, FORKED, IN_CALLBACK: called by a callback of this queue, and nothing was done.
 */
int tarry_close(tarry *queue);

/* ---- in ---- */

enum tarry_push_flags {
    TARRY_HAS_PRIORITY = 1, /* else the topic's, else 100 */
    TARRY_HAS_AT = 2,       /* at_ms in place of delay_ms */
    TARRY_IS_DEAD = 4       /* it is kept as dead: of a job that is brought from another queue */
};

struct tarry_push {
    uint32_t size;
    uint32_t flags;
    const char *topic; /* [A-Za-z0-9._-]{1,200}, no leading dot */
    const char *id;    /* 1 to 128 printable ASCII bytes; NULL: one is made */
    const void *body;
    size_t body_bytes;
    const char *content_type; /* NULL: none */
    const char *meta;         /* name NUL value NUL, again and again; names [a-z0-9-]{1,64} */
    size_t meta_bytes;
    int64_t delay_ms;     /* from now; up to 10 years */
    int64_t at_ms;        /* wall clock since 1970; in the past means now */
    int32_t priority;     /* 0 first, up to 65535 */
    uint32_t on_conflict; /* where the id exists; 0: the topic's, else TARRY_REPLACE */
    /* 0: the topic's, else the default */
    int64_t lease_ms;      /* 60 s */
    int64_t ttl_ms;        /* how long it may be ready before it expires; for ever */
    uint32_t max_attempts; /* 16 */
    uint32_t backoff;      /* exponential from 1 s to 10 min */
    int64_t backoff_first_ms, backoff_max_ms; /* 0 without a `backoff`; fixed: the first counts */
    /* Of a job that is brought from another queue. */
    const char *error;    /* up to 256 bytes */
    uint32_t error_bytes; /* 0: it ends with NUL */
    uint32_t attempt;     /* deliveries so far */
};
#define TARRY_PUSH_INIT                                                                            \
    {                                                                                              \
        sizeof(struct tarry_push), 0, NULL, NULL, NULL, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0,  \
            0, 0, NULL, 0, 0                                                                       \
    }

/* Of one item. The caller sets the size of the first. */
struct tarry_result {
    uint32_t size;
    int32_t code;
    int32_t state;            /* the job's now, or the one that was in the way; 0: none */
    int32_t cancel_requested; /* extend: somebody asked for that */
    int64_t due_ms;           /* wall clock; 0: none */
    int64_t lease_until_ms;   /* extend; wall clock */
    const char *detail;       /* TARRY_BAD_OPTION: which field; lives as long as the program */
    char id[TARRY_ID_BYTES_MAX + 8];
};
#define TARRY_RESULT_INIT                                                                          \
    {                                                                                              \
        sizeof(struct tarry_result), 0, 0, 0, 0, 0, NULL, ""                                       \
    }

/*
 * Puts jobs into the queue. Each is copied. Codes: CREATED, REPLACED, EXISTED; CONFLICT, LEASED, BAD_TOPIC,
 * BAD_ID, BAD_OPTION, BODY_TOO_BIG, TOO_MANY_TOPICS, TOPIC_FULL, NO_SPACE, NO_MEMORY.
 */
int tarry_push(tarry *queue, const struct tarry_push *items, size_t n, struct tarry_result *out);

enum tarry_change_flags {
    TARRY_ONLY_DEAD = 8, /* cancel: only if it died with that `delivery`, else TARRY_CONFLICT */
    /* Cancel: where it is leased its holder is asked, and told when he extends; every end of the lease but an ack
     * cancels the job. */
    TARRY_REQUEST = 256
};

struct tarry_change {
    uint32_t size;
    uint32_t
        flags; /* TARRY_HAS_PRIORITY, TARRY_HAS_AT, TARRY_HAS_DELAY, TARRY_ONLY_DEAD, TARRY_REQUEST */
    const char *topic, *id;
    int64_t delay_ms, at_ms; /* reschedule; without their flags the due stays */
    uint64_t delivery;
    int32_t priority;
    uint32_t reserved;
};
#define TARRY_CHANGE_INIT                                                                          \
    {                                                                                              \
        sizeof(struct tarry_change), 0, NULL, NULL, 0, 0, 0, 0, 0                                  \
    }

/*
 * Takes jobs out of the queue by topic and id. Codes: CANCELLED, REQUESTED; NOT_FOUND, LEASED, CONFLICT,
 * BAD_TOPIC, BAD_ID, BAD_OPTION.
 */
int tarry_cancel(tarry *queue, const struct tarry_change *items, size_t n,
                 struct tarry_result *out);
/* Gives jobs another due, another priority. Codes: OK; NOT_FOUND, LEASED, DEAD, BAD_TOPIC, BAD_ID, BAD_OPTION. */
int tarry_reschedule(tarry *queue, const struct tarry_change *items, size_t n,
                     struct tarry_result *out);
/* Makes jobs due now. Codes: OK; NOT_FOUND, LEASED, DEAD, BAD_TOPIC, BAD_ID, BAD_OPTION. */
int tarry_run(tarry *queue, const struct tarry_change *items, size_t n, struct tarry_result *out);

/* ---- out ---- */

struct tarry_take {
    uint32_t size;
    uint32_t max;              /* 1 to 1000 */
    const char *const *topics; /* first named, first served */
    uint32_t topic_count;      /* 1 to 64 */
    uint32_t reserved;
    int64_t lease_ms;     /* 0: the job's, the topic's, 60 s */
    uint64_t tag;         /* for tarry_interrupt; 0: none */
    const char *consumer; /* what the taker calls himself, kept with the lease; NULL: no name */
};
#define TARRY_TAKE_INIT                                                                            \
    {                                                                                              \
        sizeof(struct tarry_take), 1, NULL, 0, 0, 0, 0, NULL                                       \
    }

/*
 * Takes jobs that are ready, under a lease. Up to `max` of them, as soon as one is ready. wait_ms 0: it does not
 * wait; -1: for ever. When the wait is over: TARRY_OK and *n = 0. `out` has room for `max`; each job in it is the
 * caller's, for tarry_job_free. Those who wait for a topic are served in the order they came. Codes: OK;
 * BAD_TOPIC, BAD_OPTION, NO_MEMORY, INTERRUPTED. With any but OK no job was taken.
 */
int tarry_take(tarry *queue, const struct tarry_take *take, int64_t wait_ms, tarry_job **out,
               size_t *n);
/*
 * Takes jobs that are ready, and acks them in one. They are gone from the queue, and nobody answers for them; the
 * rest is as with tarry_take. Codes: OK; BAD_TOPIC, BAD_OPTION, NO_MEMORY, INTERRUPTED.
 */
int tarry_pop(tarry *queue, const struct tarry_take *take, int64_t wait_ms, tarry_job **out,
              size_t *n);
/*
 * Ends the takes that wait with this tag. They return TARRY_INTERRUPTED. Returns how many; a later take is not
 * touched. Not from a signal handler.
 */
size_t tarry_interrupt(tarry *queue, uint64_t tag);

/* ---- a job that came out: as it was then, whatever becomes of it. One thread at a time, until it is freed;
 * also after tarry_close. Texts end with NUL and live as long as it does. ---- */

/* The topic of a job. */
const char *tarry_job_topic(const tarry_job *job);
/* The id of a job. */
const char *tarry_job_id(const tarry_job *job);
/* The body of a job. The queue's own bytes, not a copy; `bytes` may be NULL. */
const void *tarry_job_body(const tarry_job *job, size_t *bytes);
/* The content type of a job. "": none was given. */
const char *tarry_job_content_type(const tarry_job *job);
/* The meta of a job, as it was pushed. `bytes` may be NULL. */
const char *tarry_job_meta(const tarry_job *job, size_t *bytes);
/* The error of the last attempt that failed. No NUL stands behind it. */
const char *tarry_job_error(const tarry_job *job, size_t *bytes);
/* The lease of a job, as text. "": it was not taken, or was popped. */
const char *tarry_job_lease(tarry_job *job);
/* Who has a job, as he calls himself. No NUL stands behind it. */
const char *tarry_job_consumer(const tarry_job *job, size_t *bytes);
/* Whether somebody asked for a leased job to be cancelled. */
int tarry_job_cancel_requested(const tarry_job *job);
/* The state of a job, of enum tarry_state. TARRY_STATE_FINISHED of one that was popped. */
int tarry_job_state(const tarry_job *job);
/* How often a job was delivered, with this time. */
uint32_t tarry_job_attempt(const tarry_job *job);
/* A number that rises with each delivery, to fence late consumers. */
uint64_t tarry_job_delivery(const tarry_job *job);
/* The priority of a job. 0 comes first. */
int32_t tarry_job_priority(const tarry_job *job);
/* When a job is due, or was, by the wall clock. */
int64_t tarry_job_due_ms(const tarry_job *job);
/* When the lease of a job ends, by the wall clock. 0: it is not leased. */
int64_t tarry_job_lease_until_ms(const tarry_job *job);

struct tarry_attempt {
    uint32_t size;
    uint32_t number;
    int64_t started_ms, duration_ms;
    int32_t outcome; /* 1 failed, 2 its lease ended, 3 refused for good */
    uint32_t error_bytes;
    const char *error; /* lives as long as the job; no NUL behind it */
};
#define TARRY_ATTEMPT_INIT                                                                         \
    {                                                                                              \
        sizeof(struct tarry_attempt), 0, 0, 0, 0, 0, NULL                                          \
    }
/*
 * One of the attempts that ended without an ack. From the oldest, index 0, on; the last eight are known. The
 * caller sets out->size. Codes: OK; NOT_FOUND: there are no more, BAD_OPTION: `out` has no size.
 */
int tarry_job_history(const tarry_job *job, size_t index, struct tarry_attempt *out);

/* Frees a job in hand. That is no ack. NULL is fine. */
void tarry_job_free(tarry_job *job);

/* ---- answers ---- */

enum tarry_answer_flags {
    TARRY_HAS_DELAY = 16, /* nack: wait so long, not by the backoff */
    TARRY_FINAL = 32      /* nack: no further attempt, it is dead at once */
};

struct tarry_answer {
    uint32_t size;
    uint32_t flags;
    const tarry_job *job; /* or */
    const char *lease;    /* its text */
    int64_t delay_ms;     /* nack, return */
    int64_t lease_ms;     /* extend: from now; 0: as it was taken with */
    const char *error;    /* nack: why; cut at 256 bytes */
    size_t error_bytes;   /* 0: it ends with NUL */
};
#define TARRY_ANSWER_INIT                                                                          \
    {                                                                                              \
        sizeof(struct tarry_answer), 0, NULL, NULL, 0, 0, NULL, 0                                  \
    }

/* Says that jobs are done. They are gone from the queue, but not freed. Codes: OK; LEASE_ENDED, BAD_OPTION. */
int tarry_ack(tarry *queue, const struct tarry_answer *items, size_t n, struct tarry_result *out);
/*
 * Says that jobs failed. Each comes again after its backoff, or is dead where it has no attempts left. Codes: OK,
 * CANCELLED: somebody had asked for that; LEASE_ENDED, BAD_OPTION.
 */
int tarry_nack(tarry *queue, const struct tarry_answer *items, size_t n, struct tarry_result *out);
/*
 * Makes leases longer. The result tells of the new end, and whether a cancel was asked for. Codes: OK;
 * LEASE_ENDED, BAD_OPTION.
 */
int tarry_extend(tarry *queue, const struct tarry_answer *items, size_t n,
                 struct tarry_result *out);
/*
 * Gives back jobs that nobody began to work on. They are ready again, and the attempt does not count. Codes: OK,
 * CANCELLED: somebody had asked for that; LEASE_ENDED, BAD_OPTION.
 */
int tarry_return(tarry *queue, const struct tarry_answer *items, size_t n,
                 struct tarry_result *out);

/* A job that comes again: acked, and due anew with another body. */
struct tarry_again {
    uint32_t size;
    uint32_t flags; /* TARRY_HAS_AT */
    const tarry_job *job;
    const void *body; /* NULL: as it was; may be the job's own */
    size_t body_bytes;
    int64_t delay_ms, at_ms;
};
#define TARRY_AGAIN_INIT                                                                           \
    {                                                                                              \
        sizeof(struct tarry_again), 0, NULL, NULL, 0, 0, 0                                         \
    }
/*
 * Acks jobs, and makes them due anew in one step. Each keeps its id, priority, meta and policy, and its attempts
 * begin again; the job in hand stays as it is, and is freed as ever. Codes: CREATED; LEASE_ENDED, BAD_OPTION: also
 * where the topic has a dedup window, which keeps finished ids from coming again, BODY_TOO_BIG, TOPIC_FULL: the
 * topic has more jobs than its max_jobs, NO_SPACE, NO_MEMORY. Refused, nothing was done.
 */
int tarry_again(tarry *queue, const struct tarry_again *items, size_t n, struct tarry_result *out);

/* ---- looking ---- */

/* Looks a job up by topic and id. *out is the caller's, for tarry_job_free. Codes: OK; NOT_FOUND, NO_MEMORY. */
int tarry_get(tarry *queue, const char *topic, const char *id, tarry_job **out);

enum tarry_list_flags { TARRY_WITH_BODY = 64 };

struct tarry_list {
    uint32_t size;
    uint32_t flags;
    const char *topic;
    int32_t state;  /* 0: all */
    uint32_t limit; /* 1 to 1000 */
    /* Begins empty. The call writes where the next one goes on; empty: that was all. */
    char cursor[TARRY_CURSOR_BYTES_MAX];
};
#define TARRY_LIST_INIT                                                                            \
    {                                                                                              \
        sizeof(struct tarry_list), 0, NULL, 0, 100, ""                                             \
    }
/*
 * Lists jobs of a topic by due, then push order. `out` has room for `limit`; each job in it is the caller's, for
 * tarry_job_free. Codes: OK; NOT_FOUND, BAD_TOPIC, BAD_OPTION, BAD_CURSOR, NO_MEMORY.
 */
int tarry_list(tarry *queue, struct tarry_list *list, tarry_job **out, size_t *n);

/* ---- topics ---- */

enum tarry_settings_flags {
    /* TARRY_HAS_PRIORITY */
    TARRY_DEAD_LETTER_EXPIRED = 128 /* expired jobs are kept as dead */
};

struct tarry_settings {
    uint32_t size;
    uint32_t flags;
    int64_t lease_ms, ttl_ms;
    uint32_t max_attempts, backoff;
    int64_t backoff_first_ms, backoff_max_ms;
    int32_t priority;
    uint32_t on_conflict;
    int64_t dedup_window_ms; /* how long finished ids are remembered */
    uint64_t max_jobs;       /* 0: no limit */
};
#define TARRY_SETTINGS_INIT                                                                        \
    {                                                                                              \
        sizeof(struct tarry_settings), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                             \
    }

struct tarry_topic {
    uint32_t size;
    int32_t is_paused;
    char name[TARRY_TOPIC_BYTES_MAX + 8];
    int64_t paused_until_ms; /* wall clock; 0: not paused, or until resumed */
    uint64_t delayed, retrying, ready, leased, dead;
    /* Since the topic was made. */
    uint64_t pushed, replaced, delivered, acked, nacked, lease_ended, cancelled, expired, died,
        redriven;
    uint64_t dead_bytes;
    int64_t oldest_ready_due_ms; /* 0: none is ready */
};

/*
 * Replaces the settings of a topic as a whole. The topic is made where it is new, and then its code is CREATED,
 * which is no failure. Codes: OK, CREATED; BAD_TOPIC, BAD_OPTION, TOO_MANY_TOPICS, NO_MEMORY.
 */
int tarry_topic_put(tarry *queue, const char *topic, const struct tarry_settings *settings);
/* Shows a topic with its counts. The caller sets out->size. Codes: OK; NOT_FOUND, BAD_TOPIC, BAD_OPTION. */
int tarry_topic_get(tarry *queue, const char *topic, struct tarry_topic *out);
/*
 * Shows the settings of a topic as they were put. The caller sets out->size. Codes: OK; NOT_FOUND, BAD_TOPIC,
 * BAD_OPTION.
 */
int tarry_topic_settings(tarry *queue, const char *topic, struct tarry_settings *out);
/*
 * Deletes a topic and all its jobs, leased ones too. `affected`, where it is given, is how many. Codes: OK;
 * NOT_FOUND, BAD_TOPIC, NO_MEMORY.
 */
int tarry_topic_delete(tarry *queue, const char *topic, uint64_t *affected);
/*
 * Stops the delivery of a topic for so long. for_ms 0: until it is resumed. Codes: OK; NOT_FOUND, BAD_TOPIC,
 * BAD_OPTION.
 */
int tarry_topic_pause(tarry *queue, const char *topic, int64_t for_ms);
/* Goes on with the delivery of a topic. Codes: OK; NOT_FOUND, BAD_TOPIC. */
int tarry_topic_resume(tarry *queue, const char *topic);
/*
 * Drops the jobs of a topic that are in this state. 0: all but leased ones, which are never purged. `affected`,
 * where it is given, is how many. Codes: OK; NOT_FOUND, BAD_TOPIC, BAD_OPTION, NO_MEMORY.
 */
int tarry_topic_purge(tarry *queue, const char *topic, int state, uint64_t *affected);
/*
 * Sends dead jobs of a topic round again. The one with this id; with NULL at most `max`, 0: all. `affected`, where
 * it is given, is how many. Codes: OK; NOT_FOUND, BAD_TOPIC, BAD_ID, NO_MEMORY.
 */
int tarry_topic_redrive(tarry *queue, const char *topic, const char *id, uint64_t max,
                        uint64_t *affected);
/*
 * Lists topics by name. Those behind `after` (NULL: from the first), up to *n, which is set to how many there are
 * in `out`. The caller sets the size of the first. Codes: OK; BAD_OPTION, NO_MEMORY.
 */
int tarry_topics(tarry *queue, const char *after, struct tarry_topic *out, size_t *n);

/* ---- export and import: topics with their settings and jobs as lines of JSON, which `tarry export` writes and `tarry
 * import` reads as well: between directories, queues in memory and servers ---- */

struct tarry_transfer {
    uint32_t size;
    int32_t fd; /* of a file or pipe that blocks; -1: by the function */
    /* The caller's, in place of a descriptor; below 0: it failed. `write` takes all; `read` says how many bytes it
     * brought, 0 at the end. */
    int64_t (*write)(void *owner, const void *from, size_t bytes);
    int64_t (*read)(void *owner, void *into, size_t bytes);
    void *owner;
    uint32_t
        on_conflict; /* import, of a job that is there: TARRY_KEEP, also as 0, or TARRY_REPLACE */
    uint32_t reserved;
    /* Told, also of one that failed. */
    uint64_t topics, jobs;
    uint64_t line; /* import: the last that was read, or the one that was refused */
};
#define TARRY_TRANSFER_INIT                                                                        \
    {                                                                                              \
        sizeof(struct tarry_transfer), -1, NULL, NULL, NULL, 0, 0, 0, 0, 0                         \
    }
/*
 * Writes topics with their settings and jobs, a line of JSON each. Jobs are listed by due: what moves meanwhile may be
 * missed or there twice. A leased job is written as due when its lease ends, without the attempt under way. Returns OK
 * once all is written. Codes: OK; BAD_OPTION, NO_MEMORY, STOPPING, FORKED, IO_FAILED: errno says why; of a directory
 * UNAVAILABLE, too.
 */
int tarry_export(tarry *queue, struct tarry_transfer *transfer);
/*
 * Reads what tarry_export or `tarry export` wrote. Ends with the first line that is refused, and returns its code; up to
 * 1,000 lines behind it may have been carried out in a directory. To begin again does no harm: with TARRY_KEEP what is
 * there stays. Codes: OK; BAD_OPTION, also of a line that is none, BAD_TOPIC, BAD_ID, BODY_TOO_BIG, TOO_MANY_TOPICS,
 * TOPIC_FULL, NO_SPACE, NO_MEMORY, STOPPING, FORKED, IO_FAILED: errno says why, ENODATA that it was cut short; of a
 * directory DIRECTORY_MOVED, UNAVAILABLE, too.
 */
int tarry_import(tarry *queue, struct tarry_transfer *transfer);

/* ---- for loops of others: nothing blocks, answers come as callbacks ---- */

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
    TARRY_CALL_POP
};

/* Read during tarry_submit alone. */
struct tarry_call {
    uint32_t size;
    int32_t kind;
    const void *items; /* of the kind's struct; take and pop: one struct tarry_take */
    size_t n;
    int64_t wait_ms; /* take, pop */
};
#define TARRY_CALL_INIT                                                                            \
    {                                                                                              \
        sizeof(struct tarry_call), 0, NULL, 0, 0                                                   \
    }

/* Valid during the callback, but for the jobs, which are the callback's to free. */
struct tarry_reply {
    uint32_t size;
    int32_t code; /* as the call itself would return */
    const struct tarry_result *results;
    size_t result_count;
    tarry_job *const *jobs;
    size_t job_count;
};

/* Called by tarry_dispatch, on its thread, and by nobody else. It may call any function; tarry_close of its own queue
 * is refused. */
typedef void tarry_done(void *owner, const struct tarry_reply *reply);

/*
 * Starts a call whose answer comes as a callback. It is made by tarry_dispatch. Codes: OK; any other: the call was
 * refused, and `done` is not called: BAD_OPTION, BAD_TOPIC, NO_MEMORY.
 */
int tarry_submit(tarry *queue, const struct tarry_call *call, tarry_done *done, void *owner);
/*
 * A descriptor that is readable while tarry_dispatch has something to do. Level-triggered, for poll, epoll,
 * select, add_reader. It is the queue's own, until tarry_close; the same each time. -1: no descriptor is to be
 * had, errno says why.
 */
int tarry_fd(tarry *queue);
/*
 * Makes the callbacks of calls that have ended. Lets happen what is due, and makes up to `max` callbacks (0: all
 * there are now; what they submit waits for the next dispatch). Returns how many; -1 where there was none because
 * the process is a forked child or tarry_close was called.
 */
int tarry_dispatch(tarry *queue, int max);

/* ---- time ---- */

/* The queue's clock: milliseconds since 1970. It is not moved by a step of the wall clock. */
int64_t tarry_now_ms(tarry *queue);
/*
 * In how many milliseconds of the queue's clock something happens by itself. A job is due, a lease or a wait ends.
 * 0: it is time now; -1: nothing will, or it is in a directory, whose threads let it happen. What is ready already
 * happens no more. For those who wait with means of their own: any call, then, lets it happen. It may be early, by a
 * far job's steps on its way there, and changes when somebody calls.
 */
int64_t tarry_next_ms(tarry *queue);
/*
 * Moves the test clock on. It goes from event to event: what is due at each moment happens at it, and whoever
 * waits for it is served. A delay of D ms is over after D + 1. Codes: OK; BAD_OPTION: the queue has no test clock,
 * the time is negative or above ten years, or the clock would pass 1 << 47.
 */
int tarry_advance(tarry *queue, int64_t ms);

#ifdef __cplusplus
}
#endif

#endif
