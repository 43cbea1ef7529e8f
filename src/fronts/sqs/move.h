/*
 * move: a message move task: which queue is emptied, into which, and how far it has come. What there is to know
 * of tasks are jobs of the topic SQS_MOVES_TOPIC, so that they are durable, and the same for all servers:
 *
 *   run:SOURCE   the task itself, ready: whoever takes it is the one who moves (move_task.h). One for each source
 *   log:SOURCE   the tasks that there were, newest first, and the batch under way (move_log.h); due in years
 *   stop:SOURCE  the handle of a task that is to end; due in years
 *
 * They have a meta of tarry's own, which no caller can give: others' jobs in that topic are none of these.
 *
 * Pure.
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
    SQS_MOVES_KEPT = 10,       /* tasks of a source in its log */
    SQS_MOVE_SOURCES_MAX = 50, /* queues to which one task sends messages back */
    SQS_MOVE_HANDLE_BYTES = JOB_TOPIC_BYTES_MAX + 32,
    SQS_MOVE_TEXT_BYTES_MAX = 64 * 1024
};

enum sqs_move_status {
    SQS_MOVE_RUNNING = 1,
    SQS_MOVE_COMPLETED,
    SQS_MOVE_CANCELLED,
    SQS_MOVE_FAILED
};
const char *sqs_move_status_name(enum sqs_move_status status); /* "RUNNING" */

struct sqs_move {
    enum sqs_move_status status;
    char handle[SQS_MOVE_HANDLE_BYTES]; /* "move/0123456789abcdef/SOURCE" */
    char source[JOB_TOPIC_BYTES_MAX + 1];
    char to[JOB_TOPIC_BYTES_MAX + 1]; /* empty: each goes back to the queue that it died in */
    int64_t rate;                     /* messages a second; 0: no limit */
    int64_t started_ms;               /* wall clock of the queue */
    uint64_t total, moved;            /* total: ready ones at the start */
    char reason[48];                  /* of FAILED; else empty */
};

/* A handle of one's own for a task of this source. */
void sqs_move_handle(struct slice source, char out[SQS_MOVE_HANDLE_BYTES]);
/* The source in a handle; empty where it is none. */
struct slice sqs_move_handle_source(struct slice handle);
/* The id of a source's job. */
struct slice sqs_move_id(const char *kind, struct slice source, char out[JOB_ID_BYTES_MAX + 1]);

extern const struct slice sqs_move_meta;
bool sqs_move_is_own(struct slice meta);

/* Its members, as an object without the brace that ends it. */
void sqs_move_write(const struct sqs_move *move, struct buffer *out);
/* False: it is none. */
bool sqs_move_read(struct json_value object, struct sqs_move *out);

#endif
