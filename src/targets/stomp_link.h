/*
 * stomp_link: the conversation with one broker, again and again: asks for its addresses, asks the
 * guard about each, connects, logs in, keeps heart-beats, closes when nobody needs it, waits before
 * it tries again after a failure.
 *
 * One thread, the reactor's. No event comes inside a call. A link begins down; stomp_link_start
 * leads to one `up` or one `down`; an up to one `down`, unless it was stopped or closed unneeded.
 */
#ifndef TARRY_TARGETS_STOMP_LINK_H
#define TARRY_TARGETS_STOMP_LINK_H

#include "targets/stomp_frame.h"
#include "targets/stomp_place.h"
#include "targets/target.h"

struct stomp_link;

struct stomp_link_events {
    void (*up)(void *ctx);
    /* Any but CONNECTED. Valid during the callback. */
    void (*frame)(void *ctx, const struct stomp_frame *frame);
    void (*room)(void *ctx); /* after a write that took too little */
    /* `why` is for people. */
    void (*down)(void *ctx, const char *why);
    void (*gone)(void *ctx); /* after stomp_link_free; the last */
};

/* NULL: out of memory. `env` outlives it. */
struct stomp_link *stomp_link_new(const struct target_env *env, const struct stomp_place *place,
                                  const struct stomp_link_events *events, void *ctx);
/* Where it is down: tries, at once or when the pause after the last failure is over. */
void stomp_link_start(struct stomp_link *link);
/* Down, without an event. `pauses`: the next start waits a moment. */
void stomp_link_stop(struct stomp_link *link, bool pauses);
bool stomp_link_is_up(const struct stomp_link *link);
/* How many bytes were taken; fewer than `len`: `room` follows. */
size_t stomp_link_write(struct stomp_link *link, const char *at, size_t len);
/* Does somebody wait for something? One that is not needed for half a minute says good-bye. */
void stomp_link_needed(struct stomp_link *link, bool is_needed);
void stomp_link_free(struct stomp_link *link);

#endif
