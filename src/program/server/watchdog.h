/*
 * watchdog: periodically notifies systemd that all reactors are running (sd_watchdog_enabled(3),
 * WatchdogSec= of the unit). A stuck reactor does not answer its letter. Then the notification is
 * omitted, and systemd ends and restarts the process. Without a watchdog it does nothing.
 *
 * All functions run on the thread of the first reactor; the letters run on the others.
 */
#ifndef TARRY_SERVER_WATCHDOG_H
#define TARRY_SERVER_WATCHDOG_H

#include "net/reactor.h"

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
