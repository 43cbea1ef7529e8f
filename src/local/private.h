/* The shard's own structure, shared by the files of this room only. */
#ifndef TARRY_LOCAL_PRIVATE_H
#define TARRY_LOCAL_PRIVATE_H

#include "base/list.h"
#include "engine/stored.h"
#include "engine/walk.h"
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

/* A command that waits for room in the log. */
struct parked {
    struct list list;
    struct command *command;
    struct queue_reply_to reply_to;
    struct absent *absent; /* lookup.c; may be NULL */
};

struct shard {
    struct reactor *reactor;
    struct shard_options options;
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
    size_t lookups;   /* commands that wait for the scout */
    size_t looked_up; /* while opening: jobs looked for by key */
    struct deadline *deadline;
    struct clock_watch *clock_watch;

    int64_t skew_ms;        /* wall - inner as of the last step of the wall clock */
    int64_t engine_skew_ms; /* the one the engine has been told */
    uint64_t durable;       /* sequence */
    struct list waiting;    /* completions in the order of `needs` */
    struct list soon;       /* completions that need no disk */
    struct list parked;
    struct list
        held; /* parked ones too: pushes that wait for a checkpoint, and hold up nobody else */
    struct list scans;        /* walking.h */
    size_t listings;          /* lists among them */
    size_t readings;          /* under way on the librarian */
    struct completion *spare; /* small blocks for re-use, linked through list.next */
    struct watch_table *watches;
    struct list ready_topics; /* told at the end of the turn */
    struct list events;       /* so are these */

    struct work commit_work, upkeep_work, step_work;
    bool committing, keeping_up, telling_step;
    bool stepped;                                /* the wall clock; not told yet */
    uint32_t submitted, submitted_before, holds; /* when a commit begins: hold_commit */
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
    atomic_uint_fast64_t bytes_on_disk, cold_jobs, runs, checkpoints, checkpoints_failed;
    atomic_bool healthy, accepting;
};

/* ---- shard.c ---- */
struct engine_now shard_now(struct shard *shard);
/* Carries out a command whose cold jobs have been looked for, or parks it. Takes both over. */
void shard_resume(struct shard *shard, struct command *command, struct queue_reply_to reply_to,
                  struct absent *absent);
/* What the helper threads do for it. */
void shard_init_works(struct shard *shard);
/* What was appended up to now is synced soon, whatever the class says. */
void shard_sync(struct shard *shard);
/* The log or the catalog failed, with a negative errno: nothing more is taken. */
void shard_fail(struct shard *shard, const char *what, int error);
/* The path of the log or the runs leads elsewhere: nothing that changes something is taken until it
 * leads back, which is looked at now and then. */
void shard_go_astray(struct shard *shard);
/* For the reactor; `ctx` is the shard. */
bool shard_turn(void *ctx);

/* ---- news.c: what is told at the end of a turn, once for each topic ---- */
void news_init(struct shard *shard);
void news_fini(struct shard *shard);
bool news_is_empty(const struct shard *shard);
/* For the engine; `ctx` is the shard. */
void shard_on_engine_ready(void *ctx, struct slice topic);
void shard_on_engine_died(void *ctx, struct slice topic);
void shard_tell(struct shard *shard, enum queue_event event, struct slice topic);
/* Returns whether there was anything to tell. */
bool news_run(struct shard *shard);

/* ---- completion.c ---- */
/* A completion with room for `count` results whose topics and ids take `text_bytes`. NULL: out of
 * memory. */
struct completion *completion_new(struct shard *shard, size_t count, size_t text_bytes,
                                  struct queue_reply_to reply_to);
struct queue_result *completion_results(struct completion *completion);
/* Copies text into the completion's own. `*used` starts at 0. */
struct slice completion_text(struct completion *completion, size_t *used, struct slice text);
/* One whose reply shows these topics; they live in it. NULL: out of memory. */
struct completion *completion_topics(struct shard *shard, const struct queue_topic *topics,
                                     size_t count, struct queue_reply_to reply_to);
/* Waits for what is appended up to now; or, where nothing is on its way to the disk, for the end of
 * the turn. */
void completion_when_durable(struct shard *shard, struct completion *completion);
void completion_soon(struct shard *shard, struct completion *completion);
void completion_status_soon(struct shard *shard, enum queue_status status,
                            struct queue_reply_to reply_to);
/* Calls back what is ready to go. Returns whether anybody was called. */
bool completions_run(struct shard *shard);
/* Those who wait for no more than sequence `until`, with this status instead of what they would
 * have had. UINT64_MAX: everybody. */
void completions_fail(struct shard *shard, uint64_t until, enum queue_status status);
void completions_fini(struct shard *shard);

/* ---- command.c ---- */
/* -EAGAIN: no room just now. 0: carried out (or refused), and will be answered. */
int command_run(struct shard *shard, const struct command *command, struct queue_reply_to reply_to);
/* -EAGAIN, or 0 with *status OK or the refusal for the whole call. */
int command_ask_room(struct shard *shard, size_t bytes, enum wal_need need,
                     enum queue_status *status);

/* ---- reading.c: replies with jobs, whose records must be read first ---- */
struct reading_options {
    bool with_lease; /* give each a lease token */
    bool with_body;
};
/* Takes over `views` (malloc'd), all `count` of them filled in. */
void reading_start(struct shard *shard, struct engine_view *views, size_t count,
                   struct reading_options options, struct slice cursor,
                   struct queue_reply_to reply_to);

/* ---- topics.c: the topics' records, written to the log again ---- */
void topics_begin(struct shard *shard);
/* A bounded piece of it. Whether there is more to do that nothing stands in the way of. */
bool topics_step(struct shard *shard);
bool topics_is_busy(const struct shard *shard);

/* ---- clock_watch.c: wakes the loop when somebody sets the wall clock, so that nobody has to look
 * ---- */
struct clock_watch;
struct clock_watch *clock_watch_new(
    struct reactor
        *reactor); /* NULL: the system cannot tell; a step is then noticed at the next turn */
void clock_watch_free(struct clock_watch *watch);

#endif
