/*
 * process: the server as a process of the system: descriptors, its supervisor, its own metrics.
 */
#ifndef TARRY_SERVER_PROCESS_H
#define TARRY_SERVER_PROCESS_H

#include "base/metric.h"
#include "net/reactor.h"

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

/* Appends lines of a Prometheus page: memory, CPU, descriptors, start time. Any thread. */
void process_emit_metrics(struct metric_page *page);
extern const struct metric process_metrics[];

/*
 * watchdog: periodically notifies systemd that all reactors are running (sd_watchdog_enabled(3),
 * WatchdogSec= of the unit). A stuck reactor does not answer its letter. Then the notification is
 * omitted, and systemd ends and restarts the process. Without a watchdog it does nothing.
 *
 * All functions run on the thread of the first reactor; the letters run on the others.
 */

enum { WATCHDOG_REACTORS_MAX = 64 };

struct watchdog_ping {
    struct letter letter; /* to the reactor and back */
    struct watchdog *watchdog;
    struct reactor *reactor;
};

struct watchdog {
    struct deadline *deadline; /* NULL if there is no watchdog */
    struct reactor *first;
    int64_t pause_ms;
    struct watchdog_ping pings[WATCHDOG_REACTORS_MAX]; /* of the reactors other than the first */
    uint32_t count, unanswered;
};

/* Returns the notification interval that systemd requires, in milliseconds, or 0. */
int64_t watchdog_interval_ms(void);

/* Opens the watchdog, if systemd requires one. Returns false when out of memory. Zeroed memory is
 * an inactive watchdog. */
bool watchdog_open(struct watchdog *watchdog, struct reactor *first);
/* Adds a reactor that has to answer before each notification. */
void watchdog_add(struct watchdog *watchdog, struct reactor *reactor);
/* Sends the first notification; the reactors run or are about to. */
void watchdog_start(struct watchdog *watchdog);
void watchdog_close(struct watchdog *watchdog);

#endif
