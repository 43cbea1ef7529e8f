/*
 * change: one change of one schedule, under the lease of its job, so that it excludes the worker and
 * other changes.
 *
 * A schedule that the worker holds is taken again after a moment. A change that the server does not
 * finish has no effect: the lease ends. Runs on the reactor thread of its front.
 */
#ifndef TARRY_CADENCE_CHANGE_H
#define TARRY_CADENCE_CHANGE_H

#include "cadence/front.h"
#include "cadence/stored.h"

enum change_verb { CHANGE_PUT = 1, CHANGE_PATCH, CHANGE_DELETE, CHANGE_PAUSE, CHANGE_RESUME };

struct change_result {
    enum queue_status
        status;     /* CREATED, EXISTED, REPLACED, OK (delete, pause, resume) or a refusal */
    bool has_fault; /* the change was refused; `fault` describes it */
    struct http_fault fault;
    int64_t next_ms; /* the next fire; 0: none */
    bool is_paused;
};

struct change;
typedef void change_done(void *owner, uint64_t tag, const struct change_result *result);

struct change_order {
    enum change_verb verb;
    struct slice name; /* valid */
    struct slice text; /* put, patch: the JSON object */
    int64_t pause_ms;  /* pause: 0: until resumed */
    const char *owner; /* delete: only if the schedule has this owner; NULL: any */
    bool take_over;    /* put, patch: may change the owner of a schedule */
    bool is_new;       /* put: the caller has just found no schedule */
    /* Checks the right to the topic of the schedule as it was, and as it will be. Returns false with
     * the fault. */
    bool (*allows)(void *ctx, uint64_t tag, struct slice topic, struct http_fault *fault);
    change_done *done; /* called once, never inside the call */
    void *ctx;         /* of both */
    uint64_t tag;
};

/* Checks that a schedule that has an owner keeps it. Returns false with the fault. */
bool change_keeps_owner(struct slice name, const struct stored *before, const struct stored *after,
                        struct http_fault *fault);
/* Sets the fault of a schedule whose stored body cannot be read. Returns false. */
bool change_refuse_unreadable(struct slice name, struct http_fault *fault);
/* Begins a change; the order is copied. Returns false if out of memory. */
bool change_begin(struct http_front *front, const struct change_order *order);
/* Ends the changes of a front that closes, without calls of `done`. */
void change_end_all(struct http_front *front);

#endif
