/*
 * change: one operation that the audit records, from its beginning to its end, whatever it takes.
 *
 * The front that gets an operation begins its change. The door of the queue adds what the operation does there: the topic, the job,
 * the number of jobs, the outcome. The event is written once, when all who hold the change have released it.
 *
 *     struct audit_change *change = audit_change_begin("topic purged", &who);
 *     ...
 *     audit_change_end(change, NULL);
 *
 * All of it takes NULL for a change: nothing is recorded then. One thread for each change.
 */
#ifndef TARRY_AUDIT_CHANGE_H
#define TARRY_AUDIT_CHANGE_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct audit_change;

struct audit_who {
    struct slice name;
    const char *kind; /* as in audit_event; a static text, as `action` and outcomes are */
    const char *peer; /* NULL: not known */
};

/* Held once. NULL when out of memory: the operation goes on all the same. */
struct audit_change *audit_change_begin(const char *action, const struct audit_who *who);
/* One more who holds it; returns it. */
struct audit_change *audit_change_hold(struct audit_change *change);
/* One holder less. `outcome`: the code of what went wrong; NULL: whatever was noted, else it went well. */
void audit_change_end(struct audit_change *change, const char *outcome);

/* The operation changes nothing after all: no event. */
void audit_change_cancel(struct audit_change *change);

/* What it is about. Of a change to several topics, or jobs, none is named. Empty slices add nothing. */
void audit_change_name(struct audit_change *change, struct slice topic, struct slice job);
/* So many jobs more. */
void audit_change_count(struct audit_change *change, uint64_t jobs);
/* Its outcome so far; NULL: it went well. */
void audit_change_note(struct audit_change *change, const char *outcome);

#endif
