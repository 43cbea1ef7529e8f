/*
 * alias: the numbers by which clients address jobs. An id that is a decimal number is its own
 * number. A job with another id, pushed over HTTP, gets a number from 2^52 upwards. This server
 * remembers the last few thousand of these.
 *
 * Used on the front's thread only.
 */
#ifndef TARRY_BEANSTALK_ALIAS_H
#define TARRY_BEANSTALK_ALIAS_H

#include "beanstalk/state.h"

/* Returns false if out of memory. */
bool beanstalk_aliases_init(struct beanstalk_front *front);
void beanstalk_aliases_fini(struct beanstalk_front *front);

uint64_t beanstalk_number_of(struct beanstalk_front *front, struct slice topic, struct slice id);
/* Returns the id of a number, formatted into `room`. Sets *topic only if the number is an alias.
 * Returns an empty slice if the alias is unknown. */
struct slice beanstalk_id_of(const struct beanstalk_front *front, uint64_t number,
                             char room[JOB_ID_BYTES_MAX], struct slice *topic);

#endif
