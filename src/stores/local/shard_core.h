/*
 * shard_core: the structure of a shard, and what all its parts stand on: its clock, its log, replies and
 * events that go out when they may, the topics' records, a cold job's way to memory. This room only, on
 * the shard's thread.
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

/* A reply that waits for its batch to be durable, or for the end of the turn. One block of memory
 * with its results and their text. */
struct completion {
    struct list list;
    uint64_t needs; /* durable sequence; 0: none */
    struct queue_reply_to reply_to;
    struct queue_reply reply;
    size_t bytes;
};

/* What local/figures.h tells, counted: on the shard's thread, but where it says another. */
struct shard_tally {
    _Atomic uint64_t log_records, log_written_bytes, log_syncs, log_bytes, log_files;
    _Atomic uint64_t disk_free_bytes, disk_bytes; /* the committer's */
    _Atomic uint64_t keys_merges, checkpoint_took_ms, checkpoint_at_ms;
    _Atomic uint64_t lookups_found, lookups_absent, filter_misses;
    _Atomic uint64_t reads[SHARD_READS]; /* from the disk: the librarian's */
    _Atomic uint64_t recovery_ms;
    struct shared_histogram sync_us, batch_bytes, batch_records, checkpoint_ms;
};

struct shard {
    struct reactor *reactor;
    struct clock *clock; /* the queue's */
    struct shard_options options;
    char *dir; /* what options.dir points to */
    uint64_t body_bytes_max;
    struct engine *engine;
    struct wal *wal;
    struct depot *depot;
    /* The committer writes and syncs the log; the librarian reads cold records and keeps log files
     * ready; the scout looks for cold jobs by key and by time, each in milliseconds; the archivist
     * does what takes long: checkpoints, merging, reading filters. */
    struct worker *committer, *librarian, *scout, *archivist;
    struct checkpoint *checkpoint;
    struct preload *preload;
    struct shard_feed *feed;
    struct feed_watch feed_watch;
    uint32_t told_kinds;   /* of events that the engine was asked to tell */
    uint32_t feed_waiting; /* events that have no id yet, or stand behind such */
    size_t lookups;        /* commands that wait for the scout */
    size_t looked_up;      /* while opening: jobs looked for by key */
    struct deadline *deadline;
    struct clock_watch *clock_watch;

    int64_t skew_ms;          /* wall - inner as of the last step of the wall clock */
    int64_t engine_skew_ms;   /* the one the engine has been told */
    uint64_t durable;         /* sequence */
    struct list waiting;      /* completions in the order of `needs` */
    struct list soon;         /* completions that need no disk */
    struct list parked;       /* commands that wait for room in the log: admission.c */
    struct list held;         /* pushes that wait for a checkpoint, and hold up nobody else */
    struct list scans;        /* local/scan.h */
    size_t listings;          /* lists among them: until they end no job becomes cold */
    size_t readings;          /* replies and scans whose records a helper reads */
    struct completion *spare; /* small blocks for re-use, linked through list.next; */
    uint32_t spares;          /* the last COMPLETION_RESERVE are for when memory is short */
    struct watch_table *watches;
    /* Where memory was short: reactors that hear of every topic, those that are told of any, and events
     * (a bit each) that are told of any topic. */
    uint64_t watch_all, ready_any;
    uint32_t events_any;
    struct list ready_topics; /* told at the end of the turn */
    struct list events;       /* so are these */

    struct work commit_work, upkeep_work, step_work;
    bool committing, keeping_up, telling_step;
    bool has_turned;
    bool stepped; /* the wall clock; not told yet */
    /* Commands, and turns that a commit was held back: hold_commit in shard.c. */
    uint32_t submitted, submitted_before, holds;
    int commit_error, upkeep_error;
    int64_t upkeep_retry_ms;
    bool writing_topics;   /* the topics' records are being written again, */
    uint32_t topics_at;    /* and have come so far, */
    bool topics_want_room; /* and the log has none for the next */
    bool totals_kept;      /* the last records before a stop have been begun */

    atomic_bool astray; /* the path of the log or the runs leads elsewhere */
    int64_t astray_look_ms;
    atomic_bool astray_seen; /* by somebody who asked for figures: look at it this turn */
    bool broken, stopping;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    /* shard_settle: who waits, and for what. NULL: nobody. */
    shard_settled *settled;
    void *settled_ctx;
    bool settles_kept;
    uint32_t activity,
        activity_told; /* commands that do something, and that shard_options.active was told of */
    atomic_uint_fast64_t bytes_on_disk, cold_jobs, runs, checkpoints, checkpoints_failed,
        spare_bytes;
    atomic_bool healthy, accepting;
    struct shard_tally tally;
    int64_t room_looked_us; /* the committer's: when it looked at the disk's free space */
    int64_t commit_took_us;
};

/* The lists and the commit of a zeroed shard. */
void shard_core_init(struct shard *shard);
/* Replies that need no more memory: with so many no call goes without one. False: out of memory. */
enum { COMPLETION_RESERVE = 128 };
bool completions_reserve(struct shard *shard);
/* Whoever waits for a reply gets none. */
void shard_core_fini(struct shard *shard);

/* ---- time ---- */

/* The clocks, read once; a step of the wall clock is noticed. */
struct engine_now shard_now(struct shard *shard);
/* The same moment by the process's clock, which what is no matter of jobs goes by: syncs, retries, upkeep. */
static inline int64_t shard_process_ms(const struct shard *shard, struct engine_now now)
{
    return shard->clock == &clock_process ? now.inner_ms : clock_inner_ms();
}

/* ---- the log ---- */

/* -EAGAIN, or 0 with *status OK or the refusal for the whole call. */
int shard_ask_room(struct shard *shard, size_t bytes, enum wal_need need,
                   enum queue_status *status);
/* Gives the committer what was appended up to now, where it has nothing in hand. `at_once`: it is synced,
 * whatever the class says. */
void shard_commit(struct shard *shard, bool at_once);
/* Looks at the disk's free space, where it was not looked at just now. The committer's thread, and
 * while there is none. */
void shard_look_at_room(struct shard *shard, int64_t now_us);
/* The log or the catalog failed, with a negative errno: nothing more is taken. */
void shard_fail(struct shard *shard, const char *what, int error);
/* The path of the log or the runs leads elsewhere: nothing that changes something is taken until it
 * leads back, which is looked at now and then. */
void shard_note_moved(struct shard *shard);

/* ---- the topics' records, written to the log again before each checkpoint, which gives up the files that
 * hold the old ones, and before a stop ---- */

void topics_begin(struct shard *shard);
/* A bounded piece of it. Whether there is more to do that nothing stands in the way of. */
bool topics_step(struct shard *shard);
static inline bool topics_is_busy(const struct shard *shard)
{
    return shard->writing_topics && !shard->broken;
}

/* ---- cold jobs ---- */

/*
 * Loads a cold job that a helper found; `place` as the helper knows it. 0: a job with its id is in
 * memory; -ENOENT: the job has ended; -EBADMSG: the record makes no sense; -ENOMEM.
 */
int shard_load(struct shard *shard, struct slice record, struct record_place place,
               struct engine_now now);
/* Returns the key of a JOB or a DONE. */
struct hash128 shard_record_key(const struct shard *shard, const struct record *record);

/* ---- replies ---- */

/* A completion with room for `count` results whose topics and ids take `text_bytes`. NULL: out of
 * memory. */
struct completion *completion_new(struct shard *shard, size_t count, size_t text_bytes,
                                  struct queue_reply_to reply_to);
static inline struct queue_result *completion_results(struct completion *completion)
{
    return (struct queue_result *)(void *)(completion + 1);
}
/* Waits for what is appended up to now; or, where nothing is on its way to the disk, for the end of
 * the turn. */
void completion_when_durable(struct shard *shard, struct completion *completion);
void completion_soon(struct shard *shard, struct completion *completion);
void completion_status_soon(struct shard *shard, enum queue_status status,
                            struct queue_reply_to reply_to);

/* ---- events of topics ---- */

/* Tells whoever listens, at the end of the turn, and each topic once. */
void shard_event(struct shard *shard, enum queue_event event, struct slice topic);
static inline bool events_is_empty(const struct shard *shard)
{
    return list_is_empty(&shard->ready_topics) && list_is_empty(&shard->events) &&
           !shard->ready_any && !shard->events_any;
}

/* Calls back whoever can have a reply or an event now. */
void shard_tell_all(struct shard *shard);

/* What the engine of this shard tells: records go to the log, slots back to the depot. */
struct engine_sink shard_engine_sink(struct shard *shard);

/* ---- check.c: asserts that the engine counts the slots that the depot holds; for tests ---- */
void shard_check(const struct shard *shard);

/* ---- clock_watch.c: wakes the loop when somebody sets the wall clock, so that nobody has to look
 * ---- */
struct clock_watch;
struct clock_watch *clock_watch_new(
    struct reactor
        *reactor); /* NULL: the system cannot tell; a step is then noticed at the next turn */
void clock_watch_free(struct clock_watch *watch);

#endif
