/*
 * move: a message move task: its source queue, its destination, and its progress. The state of
 * tasks is stored in jobs of the topic SQS_MOVES_TOPIC, so that it is durable and the same for all
 * servers:
 *
 *    run:SOURCE   the task itself, ready: the server that takes it moves the messages
 *                 (move_task.h). One for each source
 *    log:SOURCE   the tasks so far, newest first, and the current batch; due in years
 *    stop:SOURCE  the handle of a task to be cancelled; due in years
 *
 * These jobs have a meta of tarry's own, which callers cannot set: other jobs in that topic are
 * ignored. Pure.
 */
#ifndef TARRY_SQS_MOVE_H
#define TARRY_SQS_MOVE_H

#include "base/buffer.h"
#include "base/json_read.h"
#include "job/job.h"

#define SQS_MOVES_TOPIC "tarry.moves"
#define SQS_MOVE_RUN "run"
#define SQS_MOVE_LOG "log"
#define SQS_MOVE_STOP "stop"

enum {
    SQS_MOVES_KEPT = 10,       /* tasks in the log of a source */
    SQS_MOVE_SOURCES_MAX = 50, /* queues to which one task returns messages */
    SQS_MOVE_HANDLE_BYTES = JOB_TOPIC_BYTES_MAX + 32,
    SQS_MOVE_TEXT_BYTES_MAX = 64 * 1024
};

enum sqs_move_status {
    SQS_MOVE_RUNNING = 1,
    SQS_MOVE_COMPLETED,
    SQS_MOVE_CANCELLED,
    SQS_MOVE_FAILED
};

struct sqs_move {
    enum sqs_move_status status;
    char handle[SQS_MOVE_HANDLE_BYTES]; /* "move/0123456789abcdef/SOURCE" */
    char source[JOB_TOPIC_BYTES_MAX + 1];
    char to[JOB_TOPIC_BYTES_MAX + 1]; /* empty: return each message to its original queue */
    int64_t rate;                     /* messages per second; 0: no limit */
    int64_t started_ms;               /* wall clock of the queue */
    uint64_t total, moved;            /* total: messages ready at the start */
    char reason[48];                  /* the reason of FAILED; otherwise empty */
};

/* Creates a unique handle for a task of this source. */
void sqs_move_handle(struct slice source, char out[SQS_MOVE_HANDLE_BYTES]);
/* Returns the source in a handle; empty if the text is not a handle. */
struct slice sqs_move_handle_source(struct slice handle);
/* Returns the id of a source's job of this kind. */
struct slice sqs_move_id(const char *kind, struct slice source, char out[JOB_ID_BYTES_MAX + 1]);

extern const struct slice sqs_move_meta;
bool sqs_move_is_own(struct slice meta);

/* Returns the status as SQS names it: "RUNNING". */
const char *sqs_move_status_name(enum sqs_move_status status);
/* Appends the task's members as an object without its closing brace. */
void sqs_move_write(const struct sqs_move *move, struct buffer *out);
/* Returns false if the object is not a task. */
bool sqs_move_read(struct json_value object, struct sqs_move *out);

/* ---- the log of a source ---- */

/*
 * The content of the job log:SOURCE: the tasks of a source, newest first, and
 * the messages that the newest task was moving when the log was written.
 *
 *    {"tasks":[{"handle":…},…],"batch":[{"id":…,"to":…,"delivery":…},…]}
 *
 * Pure.
 */

enum { SQS_MOVE_BATCH_MAX = 10 };

struct sqs_move_entry {
    struct slice id, to; /* of the message; its destination topic, empty: it stays */
    uint64_t delivery;   /* the delivery by which it was taken from the source */
};

/* Appends the log. `history`: as read, or empty. */
void sqs_move_log_write(const struct sqs_move *move, struct slice history,
                        const struct sqs_move_entry *entries, size_t count, struct buffer *out);

/* Returns the array of tasks in the log; JSON_NONE if the log is invalid. */
struct json_value sqs_move_log_tasks(struct slice log);
/* Reads the tasks; an invalid log contains no tasks. The task with the handle of `move` goes to
 * `move`, which is otherwise unchanged; other tasks go to `history`, each preceded by a comma. */
void sqs_move_log_read_tasks(struct slice log, struct sqs_move *move, struct buffer *history);
/* Reads the batch without messages that have no destination, and sets their number. Their texts are
 * stored in `text`, which this function initializes. Returns false if memory runs out. */
bool sqs_move_log_read_batch(struct slice log, struct buffer *text,
                             struct sqs_move_entry entries[SQS_MOVE_BATCH_MAX], size_t *count);

#endif
