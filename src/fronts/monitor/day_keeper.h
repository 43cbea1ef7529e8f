/*
 * day_keeper: records the day of history (day.h) from samples, once a minute, and keeps its files.
 *
 * Belongs to the sampler and runs on its reactor; `monitor_day_keeper_day` may be read from any
 * thread. It holds one earlier sample, for the changes of a minute. A file has 1,000 bytes per busy
 * topic and is written by the reactor, without a sync.
 */
#ifndef TARRY_MONITOR_DAY_KEEPER_H
#define TARRY_MONITOR_DAY_KEEPER_H

#include "monitor/day.h"
#include "monitor/sample.h"

struct http_shared;
struct monitor_day_keeper;

/* Creates the keeper and reads what is kept in the directory. NULL: nothing is kept. Returns NULL
 * if out of memory. */
struct monitor_day_keeper *monitor_day_keeper_new(struct http_shared *shared,
                                                  const char *directory);
/* Writes the current hour, and frees the keeper. */
void monitor_day_keeper_free(struct monitor_day_keeper *keeper);

/* Records a whole sample if a minute has passed. */
void monitor_day_keeper_note(struct monitor_day_keeper *keeper, struct monitor_sample *sample);

struct monitor_day *monitor_day_keeper_day(struct monitor_day_keeper *keeper);

#endif
