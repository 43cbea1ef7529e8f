/*
 * silences: problems that an operator has silenced for a time, with a note, and the calls of
 * /v1/silences.
 *
 * A silence applies to one kind of problem of one topic, or to one kind without a topic. The
 * problem is still reported, with its silence; `well`, metrics and alerts do not change. With the
 * embedded store the silences survive a restart (kept.h); with other stores each server has its
 * own.
 *
 * Guarded by a lock; any thread. Memory: about 700 bytes per silence, at most 1,000.
 */
#ifndef TARRY_MONITOR_SILENCES_H
#define TARRY_MONITOR_SILENCES_H

#include "base/buffer.h"

struct monitor_silences;

/* Creates the list and reads what is kept in the directory. NULL: nothing is kept. Returns NULL if
 * out of memory. */
struct monitor_silences *monitor_silences_new(const char *directory);
void monitor_silences_free(struct monitor_silences *silences);

/* Appends `{"code":…,"note":…,"by":…}` of the silence of a problem, or null. `silences` may be
 * NULL. */
void monitor_silences_write_of(struct buffer *out, struct monitor_silences *silences,
                               struct slice code, struct slice topic, int64_t wall_ms);

#endif
