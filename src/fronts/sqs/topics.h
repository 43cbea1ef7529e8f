/*
 * topics: the settings of topics that operations on messages need, so that these do not ask the
 * queue for them at each message.
 *
 * One table for all fronts of a server, behind a mutex that is held only for a look-up. An entry is
 * added from an answer of the queue and lasts until the queue reports that its topic may have
 * changed, which may be a second late. An operation that changes a topic removes its entry before it
 * replies. An answer that was on its way during a removal is not added. At most SQS_TOPICS_MAX
 * entries; any thread.
 */
#ifndef TARRY_SQS_TOPICS_H
#define TARRY_SQS_TOPICS_H

#include "queue/queue.h"

#include <stdint.h>

enum { SQS_TOPICS_MAX = 10000 };

/* The settings of a topic in the units of SQS. */
struct sqs_numbers {
    int64_t visibility_s, delay_s, wait_s, message_bytes;
    /* A FIFO queue; ContentBasedDeduplication; DeduplicationScope is messageGroup. */
    bool is_fifo, hashes_bodies, once_by_group;
};

struct sqs_request;
struct sqs_topics;

/* Returns NULL if out of memory. */
struct sqs_topics *sqs_topics_new(void);
/* Follows the changes that this handle of the queue reports, before its reactor runs. Passes them on
 * to the previous listener. The handle must outlive the table. */
void sqs_topics_follow(struct sqs_topics *topics, struct queue *queue);
void sqs_topics_free(struct sqs_topics *topics); /* accepts NULL */

/* Returns whether the topic is known, and its numbers. */
bool sqs_topics_find(struct sqs_topics *topics, struct slice name, struct sqs_numbers *out);
/* Returns a number for sqs_topics_add, before the queue is asked. */
uint32_t sqs_topics_now(struct sqs_topics *topics);
/* Adds what the queue answered to a question of that time, unless entries were removed since. */
void sqs_topics_add(struct sqs_topics *topics, struct slice name, const struct sqs_numbers *numbers,
                    uint32_t asked);
/* Removes a topic; an empty name: all. */
void sqs_topics_forget(struct sqs_topics *topics, struct slice name);

/* Reads the topic of a stored call and runs its operation: immediately if it is an operation on
 * messages whose topic is known. */
void sqs_look_up(struct sqs_request *request);

#endif
