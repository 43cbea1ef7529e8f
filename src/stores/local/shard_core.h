/*
 * shard_core: the structure of a shard, and the base of all its parts: its clock, its log, delayed
 * replies and events, the topics' records, the loading of a cold job. Private to this room, on the
 * shard's thread.
 */
#ifndef TARRY_LOCAL_SHARD_CORE_H
#define TARRY_LOCAL_SHARD_CORE_H

#include "base/clock.h"
#include "base/list.h"
#include "engine/stored.h"
#include "engine/walk.h"
#include "feed/feed.h"
#include "local/shard.h"
#include "net/worker.h"
#include "queue/cursor.h"
#include "queue/watch.h"
#include "store/depot.h"

#include <stdatomic.h>

/* A reply that waits for its batch to be durable, or for the end of the step. One block of memory
 * with its results and their text. */
struct completion {
    struct list list;
    uint64_t needs; /* durable sequence; 0: not needed */
    /* Of the end of a job: the sequence that the push needs with which the wait began; 0: none. If that fails, the wait
     * has not begun, and gets no reply. */
    uint64_t push_needs;
    struct queue_reply_to reply_to;
    struct queue_reply reply;
    size_t bytes;
};

/* The counters of local/figures.h, counted on the shard's thread unless noted otherwise. */
struct shard_tally {
    _Atomic uint64_t log_records, log_written_bytes, log_syncs, log_bytes, log_files;
    _Atomic uint64_t disk_free_bytes, disk_bytes; /* by the committer */
    _Atomic uint64_t keys_merges, checkpoint_took_ms, checkpoint_at_ms;
    _Atomic uint64_t lookups_found, lookups_absent, filter_misses;
    _Atomic uint64_t reads[SHARD_READS]; /* from the disk: by the librarian */
    _Atomic uint64_t recovery_ms;
    _Atomic uint64_t dropped[QUEUE_DROPS]; /* kept jobs, before their time */
    struct shared_histogram sync_us, batch_bytes, batch_records, checkpoint_ms;
};

enum { SHARD_HELD_TOPICS = 256 };

struct shard {
    struct reactor *reactor;
    struct clock *clock; /* the queue's */
    struct shard_options options;
    char *dir; /* memory of options.dir */
    uint64_t body_bytes_max;
    struct engine *engine;
    struct wal *wal;
    struct depot *depot;
    /* The committer writes and syncs the log; the librarian reads cold records and keeps log files
     * ready; the scout looks up cold jobs by key and by time, each in milliseconds; the archivist
     * does slow work: checkpoints, merging, reading filters. */
    struct worker *committer, *librarian, *scout, *archivist;
    struct checkpoint *checkpoint;
    struct preload *preload;
    struct awaits *awaits;
    bool ends_awaits; /* the shard has failed: end all waits */
    /* Pushes that need a sequence after `failed_after` and at most `failed_until` have failed, and their waits must be
     * dropped; failed_until 0: none. */
    uint64_t failed_after, failed_until;
    struct shard_feed *feed;
    struct feed_watch feed_watch;
    uint32_t event_kinds;  /* event kinds that the engine reports */
    uint32_t feed_waiting; /* events that have no id yet, or wait behind such events */
    size_t lookups;        /* commands that wait for the scout */
    size_t looked_up;      /* while opening: jobs looked up by key */
    struct deadline *deadline;
    struct clock_watch *clock_watch;

    int64_t skew_ms;        /* wall - inner as of the last step of the wall clock */
    int64_t engine_skew_ms; /* the one last passed to the engine */
    uint64_t durable;       /* sequence */
    struct list waiting;    /* completions in the order of `needs` */
    struct list soon;       /* completions that need no disk */
    struct list heavy;      /* of these, those whose jobs are large */
    struct list parked;     /* commands that wait for room in the log: admission.c */
    struct list held;       /* pushes that wait for a checkpoint, without delaying other commands */
    uint32_t held_topics[SHARD_HELD_TOPICS]; /* their items by a hash of the topic */
    struct list mail;         /* local/batch_mail.h: not sent yet, in the order of `needs` */
    size_t mail_under_way;    /* sent and not answered */
    int64_t mail_retry_ms;    /* process's clock */
    struct list scans;        /* local/scan.h */
    bool is_trimming;         /* one of them drops kept jobs beyond the limits */
    size_t listings;          /* lists among them: no job becomes cold until they end */
    size_t readings;          /* replies and scans whose records a helper is reading */
    struct completion *spare; /* small blocks for reuse, linked through list.next */
    uint32_t spares;          /* of `spare`; the last COMPLETION_RESERVE are for when memory is
                               * short */
    struct watch_table *watches;
    /* When memory was short: reactors that watch all topics, those notified about any topic, and
     * events (one bit each) reported for any topic. */
    uint64_t watch_all, ready_any;
    uint32_t events_any;
    struct list ready_topics; /* reported at the end of the step */
    struct list events;       /* reported at the end of the step */
    struct buffer job_bytes;  /* of the job that was read last (shard_read_job) */

    struct work commit_work, upkeep_work, step_work;
    bool committing, keeping_up, notifying_step;
    uint32_t
        reply_marks; /* shard_checkpointed: not reached yet; while there are some, no file is dropped */
    bool has_run;
    bool stepped; /* the wall clock stepped; not reported yet */
    /* Commands, and the number of steps for which a commit was held back: hold_commit in
     * shard.c. */
    uint32_t submitted, submitted_before, holds;
    int commit_error, upkeep_error;
    bool log_is_short; /* the disk had no space for the next file of the log */
    int64_t upkeep_retry_ms;
    bool writing_topics;   /* the topics' records are being written again */
    uint32_t topics_at;    /* the next topic to write */
    bool topics_want_room; /* the log has no room for it */
    bool totals_kept;      /* the last records before a stop have been started */

    atomic_bool moved; /* the path of the log or the runs leads elsewhere */
    int64_t moved_check_ms;
    atomic_bool moved_seen; /* seen while reading figures: check it in this step */
    bool broken, stopping;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    /* shard_settle: the waiting callback. NULL: not waiting. */
    shard_settled *settled;
    void *settled_ctx;
    bool settles_kept;
    uint32_t activity,
        activity_reported; /* commands that do something, and the number last reported to
                        * shard_options.active */
    atomic_uint_fast64_t bytes_on_disk, cold_jobs, runs, checkpoints, checkpoints_failed,
        spare_bytes;
    atomic_bool healthy, accepting;
    struct shard_tally tally;
    int64_t room_looked_us; /* the committer's: when it last checked the free disk space */
    int64_t commit_took_us;
};

/* Initializes the lists and the commit of a zeroed shard. */
void shard_core_init(struct shard *shard);
/* Reserves replies that need no more memory, so that every call gets a reply. Returns false when
 * out of memory. */
enum { COMPLETION_RESERVE = 128 };
bool completions_reserve(struct shard *shard);
/* Drops all pending replies. */
void shard_core_fini(struct shard *shard);

/* ---- time ---- */

/* Reads the clocks once, and notices a step of the wall clock. */
struct engine_now shard_now(struct shard *shard);
/* Returns the same moment by the process's clock, which is used for everything except jobs: syncs,
 * retries, upkeep. */
static inline int64_t shard_process_ms(const struct shard *shard, struct engine_now now)
{
    return shard->clock == &clock_process ? now.inner_ms : clock_inner_ms();
}

/* ---- the log ---- */

/* Reads the job of a record, or the successor in it (engine_sink.read). Valid until the next call. */
bool shard_read_job(struct shard *shard, struct record_place place, bool is_next, struct job *out);

/* Requests room in the log. Returns -EAGAIN, or 0 with *status OK or the refusal of the whole
 * call. */
int shard_ask_room(struct shard *shard, size_t bytes, enum wal_need need,
                   enum queue_status *status);
/* Returns how many timers a step runs. */
uint32_t shard_timers_per_step(const struct shard *shard);
/* Returns whether the log has room for the timers of a step and so many other bytes. */
bool shard_has_timers_room(struct shard *shard, size_t others);
/* Hands the records appended so far to the committer, if it is idle. `at_once`: sync them, whatever
 * the sync class. */
void shard_commit(struct shard *shard, bool at_once);
/* Checks the free disk space, unless it was checked a moment ago. On the committer's thread, or
 * while there is no committer. */
void shard_look_at_room(struct shard *shard, int64_t now_us);
/* Fails the shard after an error of the log or the catalog, a negative errno: no more commands are
 * accepted. */
void shard_fail(struct shard *shard, const char *what, int error);
/* Notes that the path of the log or the runs leads elsewhere: commands that change something are
 * refused until it leads back, which is checked from time to time. */
void shard_note_moved(struct shard *shard);

/* ---- the topics' records, written to the log again before each checkpoint, which drops the files
 * with the old ones, and before a stop ---- */

void topics_begin(struct shard *shard);
/* Executes a bounded step. Returns whether more work can continue now. */
bool topics_step(struct shard *shard);
static inline bool topics_is_busy(const struct shard *shard)
{
    return shard->writing_topics && !shard->broken;
}

/* ---- cold jobs ---- */

/*
 * Loads a cold job that a helper found; `place` as the helper has it. Returns 0 if a job with its
 * id is in memory; -ENOENT: the job has ended; -EBADMSG: the record is invalid; -ENOMEM.
 */
int shard_load(struct shard *shard, struct slice record, struct record_place place,
               struct engine_now now);
/* Returns the key of a JOB or a DONE. */
struct hash128 shard_record_key(const struct shard *shard, const struct record *record);

/* ---- replies ---- */

/* Creates a completion with room for `count` results whose topics and ids take `text_bytes`.
 * Returns NULL when out of memory. */
struct completion *completion_new(struct shard *shard, size_t count, size_t text_bytes,
                                  struct queue_reply_to reply_to);
static inline struct queue_result *completion_results(struct completion *completion)
{
    return (struct queue_result *)(void *)(completion + 1);
}
/* Returns the durable sequence that the records appended so far need. */
uint64_t shard_needs(const struct shard *shard);
/* Sends the completion when the records appended so far are durable, or at the end of the step if
 * nothing is on its way to the disk. */
void completion_when_durable(struct shard *shard, struct completion *completion);
void completion_soon(struct shard *shard, struct completion *completion);
/* Does the same for a completion that reads or copies `bytes` of jobs. Large ones have their own order and share of
 * the loop, so that small ones do not wait for them. */
void completion_soon_of(struct shard *shard, struct completion *completion, size_t bytes);
void completion_status_soon(struct shard *shard, enum queue_status status,
                            struct queue_reply_to reply_to);

/* ---- events of topics ---- */

/* Reports an event to listeners at the end of the step, once per topic. */
void shard_event(struct shard *shard, enum queue_event event, struct slice topic);
static inline bool events_is_empty(const struct shard *shard)
{
    return list_is_empty(&shard->ready_topics) && list_is_empty(&shard->events) &&
           !shard->ready_any && !shard->events_any;
}

/* Marks log files before `file` as unnecessary (wal_checkpointed). They are dropped after the replies that are ready now
 * and may still read records from them. */
void shard_checkpointed(struct shard *shard, uint32_t file);
/* Returns whether replies or events are ready that shard_notify_all left for the next step. */
bool shard_has_ready(const struct shard *shard);
/* Sends the replies and events that are ready, as many as fit into their share of the loop. */
void shard_notify_all(struct shard *shard);

/* Returns the sink of this shard's engine: its records go to the log, its slots back to the
 * depot. */
struct engine_sink shard_engine_sink(struct shard *shard);

/* ---- check.c ----
 * Asserts that the engine counts the slots that the depot holds, for tests. Returns their number;
 * the time grows with it. */
uint64_t shard_check(const struct shard *shard);

/* ---- clock_watch.c: wakes the loop when the wall clock is set, so that no polling is needed
 * ---- */
struct clock_watch;
struct clock_watch *clock_watch_new(
    struct reactor
        *reactor); /* NULL: not supported by the system; a step is then noticed at the next
                    * iteration */
void clock_watch_free(struct clock_watch *watch);

#endif
