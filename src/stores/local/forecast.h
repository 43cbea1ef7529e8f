/*
 * forecast: when the jobs that wait fall due, those in memory and the cold ones. This room only.
 *
 * The engine has counts of what is in memory. Of the cold jobs it knows how many there are; when they
 * fall due the scout finds in the directories of the runs, which are in the order of due: in all of a
 * directory's blocks where there are few, else in some, evenly spread, each of which stands for its
 * stretch. So the work is the same however many jobs there are, and what was sampled is put right by
 * the counts.
 */
#ifndef TARRY_LOCAL_FORECAST_H
#define TARRY_LOCAL_FORECAST_H

#include "local/shard_core.h"

/* Ends in one reply. */
void forecast_start(struct shard *shard, const struct queue_forecast_call *call,
                    struct queue_reply_to reply_to);

#endif
