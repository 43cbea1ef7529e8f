/*
 * tzdata: has schedules decided again if their zone has changed: at the start of a server, and when
 * files of the directory of zones change. Checks the version and the files of zones in use every
 * TZDATA_LOOK_MS. Before this server has handled a schedule in a zone, it checks only the version,
 * every TZDATA_IDLE_MS.
 *
 * Each check also reads the next schedules. If the job of one is due after its fire, the clock of the
 * store has stepped since, and all schedules are compared.
 *
 * Used on the reactor's thread.
 */
#ifndef TARRY_CADENCE_TZDATA_H
#define TARRY_CADENCE_TZDATA_H

#include "cadence/zones.h"
#include "http/front.h"
#include "net/reactor.h"

enum { TZDATA_LOOK_MS = 5000, TZDATA_IDLE_MS = 30 * 1000 };

struct tzdata;

/* Creates a watch over zones, before the reactor runs. All must outlive it. NULL: out of memory. */
struct tzdata *tzdata_new(struct reactor *reactor, struct queue *queue, struct zones *zones,
                          const struct http_hooks *hooks);
/* Compares all schedules with the files, and begins to watch. */
void tzdata_start(struct tzdata *tzdata);
/* Notes that zones may have come into use: checks more often from now on. */
void tzdata_note(struct tzdata *tzdata);
void tzdata_stop(struct tzdata *tzdata);
/* Frees the watch, after the reactor has stopped. NULL is allowed. */
void tzdata_free(struct tzdata *tzdata);

#endif
