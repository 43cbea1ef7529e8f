/*
 * numbers: the ids of jobs that are put, 1, 2, 3, …, dense over all servers of a store.
 *
 * Numbers are claimed in blocks: block k, of BLOCK numbers, by a job k in a topic of tarry's own, which
 * nobody else can push then. Who starts looks for the first block that is not claimed; what a process
 * had not given out of its last one is left out. A claim survives what the store survives.
 *
 * One thread: the queue handle's.
 */
#ifndef TARRY_BEANSTALK_NUMBERS_H
#define TARRY_BEANSTALK_NUMBERS_H

#include "queue/queue.h"

#define BEANSTALK_NUMBERS_TOPIC "tarry-beanstalk-numbers"

struct beanstalk_numbers;

struct beanstalk_numbers *beanstalk_numbers_new(struct queue *queue); /* NULL: out of memory */
/* No claim is under way. */
void beanstalk_numbers_free(struct beanstalk_numbers *numbers);

/* The next number; 0: none is there now, and `ready` is called once some are, or once it is known that
 * none will be (`status`). */
uint64_t beanstalk_numbers_next(struct beanstalk_numbers *numbers);
void beanstalk_numbers_want(struct beanstalk_numbers *numbers,
                            void (*ready)(void *owner, enum queue_status status), void *owner);
bool beanstalk_numbers_is_quiet(const struct beanstalk_numbers *numbers);

#endif
