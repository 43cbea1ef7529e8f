/*
 * process: what the server asks of the system as a process: descriptors, its supervisor, its own
 * figures.
 */
#ifndef TARRY_SERVER_PROCESS_H
#define TARRY_SERVER_PROCESS_H

#include "base/metric.h"

/* Before any thread, and before any secret is read: files, memory, look-ups and signals are set as
 * a server needs them. Without `core_dumps` nobody but root sees the process's memory from now on,
 * neither in a core nor through /proc or a debugger. Returns how many files may be open. */
uint64_t process_prepare(bool core_dumps);

/* For the end, when all is kept: whatever is not freed by then (a thread may be in the midst of a
 * look-up) is left to the system, and the process exits with `code`. 0 seconds: no longer. */
void process_exit_by(unsigned seconds, int code);

/* Tells systemd (NOTIFY_SOCKET, sd_notify(3)): "READY=1", "STOPPING=1". Nothing where there is
 * none. */
void process_notify(const char *state);

/* Lines of a Prometheus page: memory, CPU, descriptors, start. Any thread. */
void process_emit_metrics(struct metric_page *page);
extern const struct metric process_metrics[];

#endif
