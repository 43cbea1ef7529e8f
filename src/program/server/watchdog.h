/*
 * watchdog: tells systemd every so often that each reactor still turns (sd_watchdog_enabled(3),
 * WatchdogSec= of the unit). Whoever is stuck leaves a letter unanswered; then nothing is told, and
 * systemd ends the process and starts it again. Without a watchdog it does nothing.
 *
 * All of it on the thread of the first reactor; the letters run on the others.
 */
#ifndef TARRY_SERVER_WATCHDOG_H
#define TARRY_SERVER_WATCHDOG_H

#include "net/reactor.h"

enum { WATCHDOG_REACTORS_MAX = 64 };

struct watchdog_ping {
    struct letter letter; /* to the reactor, and back */
    struct watchdog *watchdog;
    struct reactor *reactor;
};

struct watchdog {
    struct deadline *deadline; /* NULL: nobody watches */
    struct reactor *first;
    int64_t pause_ms;
    struct watchdog_ping pings[WATCHDOG_REACTORS_MAX]; /* of the reactors beside the first */
    uint32_t count, unanswered;
};

/* How often systemd wants to hear of us, in milliseconds; 0: not at all. */
int64_t watchdog_interval_ms(void);

/* Begins, where one watches. False: out of memory. Zeroed memory is one that watches nothing. */
bool watchdog_open(struct watchdog *watchdog, struct reactor *first);
/* One more that is to turn, before the first tells anything. */
void watchdog_add(struct watchdog *watchdog, struct reactor *reactor);
/* The first telling; the reactors run or are about to. */
void watchdog_start(struct watchdog *watchdog);
void watchdog_close(struct watchdog *watchdog);

#endif
