/*
 * move_log: what the job log:SOURCE says (move.h): the tasks of a source, newest first, and which messages the newest
 * one was moving when it was written.
 *
 *     {"tasks":[{"handle":…},…],"batch":[{"id":…,"to":…,"delivery":…},…]}
 *
 * Pure.
 */
#ifndef TARRY_SQS_MOVE_LOG_H
#define TARRY_SQS_MOVE_LOG_H

#include "sqs/move.h"

enum { SQS_MOVE_BATCH_MAX = 10 };

struct sqs_move_entry {
    struct slice id, to; /* of the message; the topic that it goes to, empty: it stays */
    uint64_t delivery;   /* the one by which it was taken of the source */
};

/* `history`: as read, or empty. */
void sqs_move_log_write(const struct sqs_move *move, struct slice history,
                        const struct sqs_move_entry *entries, size_t count, struct buffer *out);

/* Those that the log tells of, an array; none where it is none. */
struct json_value sqs_move_log_tasks(struct slice log);
/* A log that is none has nothing. `move`: of the task that has its handle, else it stays as it is;
 * other tasks go to `history`, each behind a comma. */
void sqs_move_log_read_tasks(struct slice log, struct sqs_move *move, struct buffer *history);
/* The batch, but for messages that went nowhere: so many. Their texts lie in `text`, which is initialised by this. False: no memory. */
bool sqs_move_log_read_batch(struct slice log, struct buffer *text,
                             struct sqs_move_entry entries[SQS_MOVE_BATCH_MAX], size_t *count);

#endif
