/*
 * move_log: the content of the job log:SOURCE (move.h): the tasks of a source, newest first, and
 * the messages that the newest task was moving when the log was written.
 *
 *    {"tasks":[{"handle":…},…],"batch":[{"id":…,"to":…,"delivery":…},…]}
 *
 * Pure.
 */
#ifndef TARRY_SQS_MOVE_LOG_H
#define TARRY_SQS_MOVE_LOG_H

#include "sqs/move.h"

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
