/*
 * numbers: ids of new jobs, 1, 2, 3, …, dense over all servers of a store.
 *
 * A server claims numbers in blocks. It claims block k, of BLOCK numbers, by pushing a job with the
 * id k to an internal topic, so no other server can push the same job. At start, a server searches
 * for the first block that is not claimed. Numbers that a process had not used of its last block
 * are skipped. A claim is as durable as the store.
 *
 * Used on the thread of the queue handle only.
 */
#ifndef TARRY_BEANSTALK_NUMBERS_H
#define TARRY_BEANSTALK_NUMBERS_H

#include "queue/queue.h"

#define BEANSTALK_NUMBERS_TOPIC "tarry-beanstalk-numbers"

struct beanstalk_numbers;

/* Returns NULL if out of memory. */
struct beanstalk_numbers *beanstalk_numbers_new(struct queue *queue);
/* Frees the numbers. No claim may be in progress. */
void beanstalk_numbers_free(struct beanstalk_numbers *numbers);

/* Returns the next number, or 0 if the current block is used up. In that case,
 * beanstalk_numbers_want calls `ready` when numbers are available or when claiming them has failed
 * (`status`). */
uint64_t beanstalk_numbers_next(struct beanstalk_numbers *numbers);
void beanstalk_numbers_want(struct beanstalk_numbers *numbers,
                            void (*ready)(void *owner, enum queue_status status), void *owner);
bool beanstalk_numbers_is_quiet(const struct beanstalk_numbers *numbers);

#endif
