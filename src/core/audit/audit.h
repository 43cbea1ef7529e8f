/*
 * audit: records administrative changes. Each change has one event, with the caller, its address,
 * the action, the topic, the number of jobs and the outcome. An event is a log line (event=audit)
 * and, if a file is configured, a JSON line in that file.
 *
 * To readers of the file, a line is written whole or not at all. All content is escaped, so a
 * caller cannot inject a second line, and after a line that a full disk truncated, the next event
 * begins on a line of its own. The file is not synced. If the file cannot be written, that is
 * logged once and counted, and writing is retried with each event. The changes continue, because
 * the log also has the event.
 *
 * Successful changes are always written. Events of refused or failed changes are limited to
 * AUDIT_REFUSED_PER_S per caller (for anonymous callers: per address), so that a caller that
 * repeats such a call cannot fill the disk. Omitted events are counted, and their number is written
 * as an event (audit_log_left_out).
 *
 * audit_open and audit_close are called while no other thread audits; the other functions from any
 * thread.
 */
#ifndef TARRY_AUDIT_AUDIT_H
#define TARRY_AUDIT_AUDIT_H

#include "base/metric.h"

#include <stdbool.h>
#include <stdint.h>

#define AUDIT_OUTCOME_OK "ok"

/* An event. Fields that do not apply are NULL. Nothing is kept after the call. */
struct audit_event {
    const char *action;  /* "topic purged": the action, done or attempted */
    const char *caller;  /* name of the caller; NULL: no authentication */
    const char *kind;    /* of the caller: "token", "jwt", "certificate", "anonymous", "server" */
    const char *peer;    /* address of the caller */
    const char *topic;   /* as sent */
    const char *job;     /* id of the job, if the event is about one */
    const char *detail;  /* further information */
    const char *outcome; /* AUDIT_OUTCOME_OK, or the error code */
    bool counts_jobs;    /* `jobs` is set */
    uint64_t jobs;
    uint64_t left_out; /* number of this caller's events that were not written; 0: all were */
};

/* Opens the file, which then also receives the events; creates it with mode 0600 if missing.
 * Returns false with errno set. */
bool audit_open(const char *path);
/* Reopens the same path (after rotation). Returns false with errno set; the old file then remains
 * in use. */
bool audit_reopen(void);
void audit_close(void);

enum { AUDIT_REFUSED_PER_S = 10, AUDIT_REFUSED_BURST = 50 };

void audit_event(const struct audit_event *event);

/* Writes the number of omitted events for each caller since the last call. Call it once a second
 * while it returns true. Returns false if nothing is left to write. */
bool audit_log_left_out(void);

/* Return the number of events so far, and of those that are missing in the file. */
uint64_t audit_events(void);
uint64_t audit_failures(void);
void audit_emit_metrics(struct metric_page *page);
extern const struct metric audit_metrics[];

#endif
