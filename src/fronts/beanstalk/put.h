#ifndef TARRY_BEANSTALK_PUT_H
#define TARRY_BEANSTALK_PUT_H

#include "queue/queue.h"

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

struct beanstalk_numbers;

/* Returns NULL if out of memory. */
struct beanstalk_numbers *beanstalk_numbers_new(struct queue *queue);
/* Frees the numbers. No claim may be in progress. */
void beanstalk_numbers_free(struct beanstalk_numbers *numbers);

#endif
