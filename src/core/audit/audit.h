/*
 * audit: who changed what. One event for each administrative change, with who made it, from where,
 * what, which topic, how many jobs, and how it ended: a line of the log (event=audit), and where a
 * file was named, a line of JSON there.
 *
 * A line of the file is written whole or not at all as far as its readers can tell: whatever stands
 * in an event is escaped, so nobody can write a second line, and behind a line that a full disk cut
 * off the next one begins on a line of its own. It is not synced. A file that cannot be written is
 * told in the log once, counted, and tried again with each event; the changes go on, as the log has
 * the event too.
 *
 * What was done is always written. Events of changes that were refused or failed are limited to AUDIT_REFUSED_PER_S for each caller
 * (an anonymous one: for each address): else one that repeats such a call fills the disk. What is left out is counted, and the number
 * is an event of its own (audit_tell_left_out).
 *
 * audit_open and audit_close where no other thread audits; the rest from any thread.
 */
#ifndef TARRY_AUDIT_AUDIT_H
#define TARRY_AUDIT_AUDIT_H

#include "base/metric.h"

#include <stdbool.h>
#include <stdint.h>

#define AUDIT_OUTCOME_OK "ok"

/* NULL where it does not apply; nothing is kept. */
struct audit_event {
    const char *action;  /* "topic purged": what was done, or was to be done */
    const char *caller;  /* who, by name; NULL: nobody asked for a name */
    const char *kind;    /* of the caller: "token", "jwt", "certificate", "anonymous", "server" */
    const char *peer;    /* where from */
    const char *topic;   /* as sent */
    const char *job;     /* its id, where it is about one */
    const char *detail;  /* what else there is to say */
    const char *outcome; /* AUDIT_OUTCOME_OK, or the code of what went wrong */
    bool counts_jobs;    /* `jobs` says how many it concerned */
    uint64_t jobs;
    uint64_t left_out; /* so many events of this caller were not written; 0: none */
};

/* Events go to this file too, made with mode 0600 where missing. False with errno set. */
bool audit_open(const char *path);
/* Opens the same path again (after rotation). False with errno set: the old one goes on. */
bool audit_reopen(void);
void audit_close(void);

enum { AUDIT_REFUSED_PER_S = 10, AUDIT_REFUSED_BURST = 50 };

void audit_event(const struct audit_event *event);

/* To be called once a second while it returns true: writes how many events of each caller were left out since. False: there is
 * nothing left to write. */
bool audit_tell_left_out(void);

/* So far: events, and those that the file does not have. */
uint64_t audit_events(void);
uint64_t audit_failures(void);
void audit_emit_metrics(struct metric_page *page);
extern const struct metric audit_metrics[];

#endif
