/*
 * log_ring: the latest log events, for inspecting a running process.
 *
 * Only the events of log_event are stored, as JSON: at most LOG_RING_LINES lines and
 * LOG_RING_BYTES; the oldest are dropped. Lines are numbered from 1. Any thread; the lock is held
 * only for a copy.
 */
#ifndef TARRY_BASE_LOG_RING_H
#define TARRY_BASE_LOG_RING_H

#include "base/buffer.h"

enum { LOG_RING_LINES = 1000, LOG_RING_BYTES = 512 * 1024 };

/* Adds a line. A line that is larger than the ring is dropped. */
void log_ring_add(struct slice line);

/*
 * Appends the lines after the number `since`, oldest first, in this form, without the brackets of
 * an array:
 *     {"at":"2026-11-23T05:00:00.000Z","level":"info","event":"…","fields":{…}},…
 * Appends the first `limit` lines at most. If `since` is 0 (or a number of another process, not
 * reached yet), it appends the last `limit` lines. Sets *lost to the number of requested lines that
 * have been dropped. Returns the number to continue with.
 */
uint64_t log_ring_read(uint64_t since, uint32_t limit, struct buffer *out, uint64_t *lost);

#endif
