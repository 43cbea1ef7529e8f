/*
 * process: what the server asks of the system as a process: descriptors, its supervisor, its own
 * figures.
 */
#ifndef TARRY_SERVER_PROCESS_H
#define TARRY_SERVER_PROCESS_H

#include "base/buffer.h"

/* Raises the limit of open files as far as the system lets it. Returns what it is then. */
uint64_t process_raise_files(void);

/* Tells systemd (NOTIFY_SOCKET, sd_notify(3)): "READY=1", "STOPPING=1". Nothing where there is
 * none. */
void process_notify(const char *state);

/* Lines of a Prometheus page: memory, CPU, descriptors, start. Any thread. Fits
 * http_shared_add_metrics. */
void process_emit_metrics(void *ctx, struct buffer *out);

#endif
