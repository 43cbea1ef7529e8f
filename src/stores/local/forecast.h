/*
 * forecast: when the waiting jobs fall due, both in memory and cold. Private to this room.
 *
 * The engine has counts of the jobs in memory. It also has the number of cold jobs; the scout finds
 * when they fall due in the directories of the runs, which are in the order of due. It reads all
 * blocks of a directory if there are few, else some, evenly spaced, each of which represents its
 * stretch. So the work does not depend on the number of jobs, and the samples are corrected by the
 * counts.
 */
#ifndef TARRY_LOCAL_FORECAST_H
#define TARRY_LOCAL_FORECAST_H

#include "local/shard_core.h"

/* Starts a forecast, which ends in one reply. */
void forecast_start(struct shard *shard, const struct queue_forecast_call *call,
                    struct queue_reply_to reply_to);

#endif
