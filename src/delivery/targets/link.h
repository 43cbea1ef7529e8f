/*
 * link: a persistent connection to one peer: resolves its addresses, checks each with the guard,
 * connects, transfers bytes in both directions, and waits before it reconnects after a failure. It
 * is independent of the protocol.
 *
 * Used on the reactor's thread. Events never occur inside a call. A link begins down; link_start
 * leads to one `up` or one `down`. An `up` is followed by one `down`, unless the link was stopped
 * or freed. A login after `up` is part of the connect timeout until link_login_done. The policy
 * file may be read again at any time: a link that it forbids then goes down at its next write or
 * wake-up.
 */
#ifndef TARRY_TARGETS_LINK_H
#define TARRY_TARGETS_LINK_H

#include "targets/place.h"
#include "targets/target.h"

struct link;

struct link_events {
    /* Set if the protocol begins without TLS: `up` then comes before TLS, which link_start_tls
     * begins. */
    bool begins_plain;
    void (*up)(void *ctx);                                /* connected and, with TLS, verified */
    void (*secured)(void *ctx);                           /* after link_start_tls */
    void (*bytes)(void *ctx, const char *at, size_t len); /* valid during the callback */
    void (*room)(void *ctx);                  /* after a write that accepted too little */
    void (*woken)(void *ctx);                 /* see link_wake_at; may be NULL */
    void (*down)(void *ctx, const char *why); /* text for users */
    void (*gone)(void *ctx);                  /* after link_free; the last event */
};

/* Returns NULL when out of memory. `env` outlives the link. */
struct link *link_new(const struct target_env *env, const struct target_place *place,
                      const struct link_events *events, void *ctx);
/* Connects if it is down, immediately or after the pause that follows a failure. */
void link_start(struct link *link);
/* Sets the place of the next connection. The link must be down. */
void link_move(struct link *link, const struct target_place *place);
/* Begins TLS on a link that is up and whose events begin plain; `secured` or `down` follows. */
void link_start_tls(struct link *link);
/* Ends the connect timeout after the login; the next failure has the initial pause. */
void link_login_done(struct link *link);
/* Ends the connection because of an error of the peer: `down` follows with "WHAT: WHY" at the end
 * of the loop iteration. */
void link_fail(struct link *link, const char *what, const char *why);
/* Goes down without an event. `pauses`: the next start waits briefly. */
void link_stop(struct link *link, bool pauses);
bool link_is_up(const struct link *link);
/* Returns true if it is neither up nor connecting. */
bool link_is_down(const struct link *link);
/* Return the time of the last received or sent data, on the inner clock, while it is up. */
int64_t link_in_ms(const struct link *link);
int64_t link_out_ms(const struct link *link);
/* Returns the number of accepted bytes; if fewer than `len`, `up` or `room` follows. */
size_t link_write(struct link *link, const char *at, size_t len);
/* Sets the time at which `woken` is called while it is up and logged in; INT64_MAX: never. */
void link_wake_at(struct link *link, int64_t at_ms);
void link_free(struct link *link);

#endif
