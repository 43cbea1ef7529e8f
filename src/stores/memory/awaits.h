/*
 * awaits: waits for the end of a job of a queue in memory. A wait belongs to an id: it ends when no job of this id is
 * left, or when the job dies. Its memory belongs to its owner, until it has ended or was removed.
 */
#ifndef TARRY_MEMORY_AWAITS_H
#define TARRY_MEMORY_AWAITS_H

#include "base/list.h"
#include "engine/engine.h"

struct memory_awaits;

struct memory_wait {
    struct list list;
    /* Reports the end, once, inside the call that ended the job; must not call back into the queue. The job is valid
     * during the call. NULL: it was purged or deleted. */
    void (*ended)(struct memory_wait *wait, const struct queue_job *job);
};

struct memory_awaits *memory_awaits_new(void); /* NULL: out of memory */
/* Frees the table. Its waits do not end. */
void memory_awaits_free(struct memory_awaits *awaits);

/* Begins a wait for a job that exists and has not ended. Returns false if out of memory. */
bool memory_awaits_add(struct memory_awaits *awaits, struct engine *engine, struct slice topic,
                       struct slice id, struct memory_wait *wait);
/* Removes a wait that has not ended. */
void memory_awaits_remove(struct memory_awaits *awaits, struct engine *engine, struct slice topic,
                          struct slice id, struct memory_wait *wait);
/* Ends the waits for a job; called by engine_sink.ended. */
void memory_awaits_end(struct memory_awaits *awaits, struct engine *engine,
                       const struct engine_ended *ended);

#endif
