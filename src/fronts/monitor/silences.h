/*
 * silences: problems that an operator has silenced for a time, with a note.
 *
 * A silence applies to one kind of problem of one topic, or to one kind without a topic. The
 * problem is still reported, with its silence; `well`, metrics and alerts do not change. With the
 * embedded store the silences survive a restart (kept.h); with other stores each server has its
 * own.
 *
 * Guarded by a lock; any thread. Memory: about 700 bytes per silence, at most MONITOR_SILENCES_MAX.
 */
#ifndef TARRY_MONITOR_SILENCES_H
#define TARRY_MONITOR_SILENCES_H

#include "base/buffer.h"

enum { MONITOR_SILENCES_MAX = 1000, MONITOR_SILENCE_NOTE_BYTES_MAX = 200 };
#define MONITOR_SILENCE_MS_MAX (30LL * 24 * 3600 * 1000)

struct monitor_silences;

/* Creates the list and reads what is kept in the directory. NULL: nothing is kept. Returns NULL if
 * out of memory. */
struct monitor_silences *monitor_silences_new(const char *directory);
void monitor_silences_free(struct monitor_silences *silences);

/* A silence. A problem without a topic has an empty one. */
struct monitor_silence {
    struct slice code, topic, note, by;
    int64_t since_ms, until_ms;
};

/* Adds a silence in place of an earlier one of the same problem, and appends it as JSON. Returns
 * false if there are too many or out of memory. */
bool monitor_silences_add(struct monitor_silences *silences, const struct monitor_silence *about,
                          struct buffer *out);
/* Returns whether the problem was silenced. */
bool monitor_silences_remove(struct monitor_silences *silences, struct slice code,
                             struct slice topic, int64_t wall_ms);
/* Appends the silences that have not ended and that `shows` accepts, separated by commas. */
void monitor_silences_write(struct buffer *out, struct monitor_silences *silences, int64_t wall_ms,
                            bool (*shows)(const void *ctx, struct slice topic), const void *ctx);

/* Appends `{"code":…,"note":…,"by":…}` of the silence of a problem, or null. `silences` may be
 * NULL. */
void monitor_silences_write_of(struct buffer *out, struct monitor_silences *silences,
                               struct slice code, struct slice topic, int64_t wall_ms);

#endif
