/*
 * change: an operation that the audit records, from its beginning to its end, through all its
 * steps.
 *
 * The front that receives an operation begins its change. The door of the queue adds what the
 * operation does: the topic, the job, the number of jobs, the outcome. The event is written once,
 * when all holders of the change have released it.
 *
 *     struct audit_change *change = audit_change_begin("topic purged", &who);
 *     ...
 *     audit_change_end(change, NULL);
 *
 * All functions accept a NULL change and then record nothing. One thread for each change.
 */
#ifndef TARRY_AUDIT_CHANGE_H
#define TARRY_AUDIT_CHANGE_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct audit_change;

struct audit_who {
    struct slice name;
    const char *kind; /* as in audit_event; a static text, like `action` and outcomes */
    const char *peer; /* NULL: unknown */
};

/* Begins a change with one holder. Returns NULL when out of memory: the operation continues all the
 * same. */
struct audit_change *audit_change_begin(const char *action, const struct audit_who *who);
/* Adds a holder and returns the change. */
struct audit_change *audit_change_hold(struct audit_change *change);
/* Removes a holder. `outcome`: the error code; NULL: the noted outcome, else success. */
void audit_change_end(struct audit_change *change, const char *outcome);

/* Cancels the event, because the operation changes nothing. */
void audit_change_cancel(struct audit_change *change);

/* Adds the topic and the job. If a change concerns several topics or several jobs, the event does
 * not name them. Empty slices add nothing. */
void audit_change_name(struct audit_change *change, struct slice topic, struct slice job);
/* Sets further information, which is cut if it is too long. */
void audit_change_detail(struct audit_change *change, struct slice detail);
/* Adds to the number of jobs. */
void audit_change_count(struct audit_change *change, uint64_t jobs);
/* Notes the outcome so far; NULL: success. */
void audit_change_note(struct audit_change *change, const char *outcome);

#endif
