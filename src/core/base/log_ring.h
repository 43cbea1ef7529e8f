/*
 * log_ring: the last events of the log, for who looks at a running process.
 *
 * What log_event writes, and nothing else, is kept as JSON, LOG_RING_LINES lines and LOG_RING_BYTES at
 * most; the oldest go. Lines are numbered from 1. Any thread; the lock is held for a copy.
 */
#ifndef TARRY_BASE_LOG_RING_H
#define TARRY_BASE_LOG_RING_H

#include "base/buffer.h"

enum { LOG_RING_LINES = 1000, LOG_RING_BYTES = 512 * 1024 };

/* One more. A line that is longer than the ring is left out. */
void log_ring_add(struct slice line);

/*
 * Lines that came after the number `since`, oldest first, as
 *     {"at":"2026-11-23T05:00:00.000Z","level":"info","event":"…","fields":{…}},…
 * without the brackets of an array. At most `limit`: the first of them; where `since` is 0 (or a number
 * of another process, not reached yet) the last of all. *lost is how many of them are gone already.
 * Returns the number to go on with.
 */
uint64_t log_ring_read(uint64_t since, uint32_t limit, struct buffer *out, uint64_t *lost);

#endif
