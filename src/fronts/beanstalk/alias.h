/*
 * alias: the numbers that jobs are called by: those that their ids are, and for other ids, of jobs that
 * came by HTTP, numbers from 2^52 on, which this server remembers for the last few thousand of them.
 * One thread: the front's.
 */
#ifndef TARRY_BEANSTALK_ALIAS_H
#define TARRY_BEANSTALK_ALIAS_H

#include "beanstalk/state.h"

/* False: out of memory. */
bool beanstalk_aliases_init(struct beanstalk_front *front);
void beanstalk_aliases_fini(struct beanstalk_front *front);

uint64_t beanstalk_number_of(struct beanstalk_front *front, struct slice topic, struct slice id);
/* The id of a number, in `room`; *topic is known of an alias only. Empty: an alias that is nobody's. */
struct slice beanstalk_id_of(const struct beanstalk_front *front, uint64_t number,
                             char room[JOB_ID_BYTES_MAX], struct slice *topic);

#endif
