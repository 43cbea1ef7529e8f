/*
 * link: the way to one peer, again and again: asks for its addresses, asks the guard about each,
 * connects, keeps bytes going both ways, waits before it tries again after a failure. STOMP and
 * RocketMQ go by it; it knows no protocol.
 *
 * One thread, the reactor's. No event comes inside a call. It begins down; link_start leads to one
 * `up` or one `down`; an up to one `down`, unless it was stopped or freed. A login after `up` shares
 * the time limit of the connecting until link_login_done. The policy file may be read again at any
 * time: a link that it forbids then goes down with its next write or wake-up.
 */
#ifndef TARRY_TARGETS_LINK_H
#define TARRY_TARGETS_LINK_H

#include "targets/place.h"
#include "targets/target.h"

struct link;

struct link_events {
    void (*up)(void *ctx);                                /* connected; TLS: and verified */
    void (*bytes)(void *ctx, const char *at, size_t len); /* valid during the callback */
    void (*room)(void *ctx);                              /* after a write that took too little */
    void (*woken)(void *ctx);                             /* see link_wake_at; may be NULL */
    void (*down)(void *ctx, const char *why);             /* for people */
    void (*gone)(void *ctx);                              /* after link_free; the last */
};

/* NULL: out of memory. `env` outlives it. */
struct link *link_new(const struct target_env *env, const struct target_place *place,
                      const struct link_events *events, void *ctx);
/* Connects where it is down, at once or when the pause after the last failure is over. */
void link_start(struct link *link);
/* It is connected and needs no time limit any more; the next failure pauses as a first one. */
void link_login_done(struct link *link);
/* Ends it as the peer's fault: `down` follows with "WHAT: WHY" at the end of the turn. */
void link_fail(struct link *link, const char *what, const char *why);
/* Down, without an event. `pauses`: the next start waits a moment. */
void link_stop(struct link *link, bool pauses);
bool link_is_up(const struct link *link);
/* Neither up nor on its way there. */
bool link_is_down(const struct link *link);
/* When something last came or went, on the inner clock, while it is up. */
int64_t link_in_ms(const struct link *link);
int64_t link_out_ms(const struct link *link);
/* How many bytes were taken; fewer than `len`: `up` or `room` follows. */
size_t link_write(struct link *link, const char *at, size_t len);
/* Calls `woken` then, while it is up and its login is done; INT64_MAX: never. */
void link_wake_at(struct link *link, int64_t at_ms);
void link_free(struct link *link);

#endif
