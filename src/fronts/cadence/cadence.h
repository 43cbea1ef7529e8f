/*
 * cadence: recurring jobs in a server; the public interface of this room.
 *
 * Schedules are jobs of the topic `tarry.schedules`. A queue of a store without `again` and `once`
 * has no schedules: the calls answer that the store cannot do this.
 */
#ifndef TARRY_CADENCE_CADENCE_H
#define TARRY_CADENCE_CADENCE_H

#include "cadence/worker.h"

/* Adds the calls under /v1/schedules to the server. `zone_directory` must outlive it. Call it before
 * the first front is created. */
void cadence_open(struct http_shared *shared, const char *zone_directory);

#endif
