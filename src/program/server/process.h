/*
 * process: the server as a process of the system: descriptors, its supervisor, its own metrics.
 */
#ifndef TARRY_SERVER_PROCESS_H
#define TARRY_SERVER_PROCESS_H

#include "base/metric.h"

/* Prepares files, memory, name lookups and signals for a server. Call it before threads are created
 * and before secrets are read. Without `core_dumps`, only root can read the memory of the process
 * from then on, in a core dump, through /proc or with a debugger. Returns how many files may be
 * open. */
uint64_t process_prepare(bool core_dumps);

/* Exits with `code` after that many seconds, for the shutdown after all data is stored. Memory that
 * is not freed by then (a thread may still be in a name lookup) is left to the system. 0 seconds
 * cancels this. */
void process_exit_by(unsigned seconds, int code);

/* Notifies systemd (NOTIFY_SOCKET, sd_notify(3)): "READY=1", "STOPPING=1". Waits at most a second
 * if systemd does not read. Does nothing without systemd. */
void process_notify(const char *state);
/* Notifies systemd of a state that is repeated soon. Does not wait: skips the notification if
 * systemd does not read. */
void process_notify_or_skip(const char *state);

/* Appends lines of a Prometheus page: memory, CPU, descriptors, start time. Any thread. */
void process_emit_metrics(struct metric_page *page);
extern const struct metric process_metrics[];

#endif
