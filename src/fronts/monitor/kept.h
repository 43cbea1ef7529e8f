/*
 * kept: the files that the monitor keeps over a restart, in DIR/monitor of the embedded store.
 *
 * A file is replaced as a whole (temporary file, rename) and not synced: after a power cut it may
 * be missing or empty, which readers accept. New files belong to the owner of DIR, and no link is
 * followed. Errors are returned as negative errno. Any thread.
 */
#ifndef TARRY_MONITOR_KEPT_H
#define TARRY_MONITOR_KEPT_H

#include "base/buffer.h"

/* Appends the contents of a file. -ENOENT: the file does not exist. */
int monitor_kept_read(const char *directory, const char *name, struct buffer *out);
/* Replaces a file; creates DIR/monitor if it is missing. */
int monitor_kept_write(const char *directory, const char *name, struct slice bytes);

#endif
