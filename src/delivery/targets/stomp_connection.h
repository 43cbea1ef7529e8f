/*
 * stomp_connection: the conversation with one broker, again and again: asks for its addresses, asks the
 * guard about each, connects, logs in, keeps heart-beats, closes when nobody needs it, waits before
 * it tries again after a failure.
 *
 * One thread, the reactor's. No event comes inside a call. It begins down; stomp_connection_needed
 * leads to one `up` or one `down`; an up to one `down`, unless it was stopped or closed unneeded.
 */
#ifndef TARRY_TARGETS_STOMP_CONNECTION_H
#define TARRY_TARGETS_STOMP_CONNECTION_H

#include "targets/place.h"
#include "targets/stomp_frame.h"
#include "targets/target.h"

/* Where a broker is: stomp://host[:61613][/virtual-host], stomps://host[:61614][/virtual-host] by TLS.
 */
struct stomp_place {
    struct target_place at;
    char virtual_host[TARGET_NAME_BYTES]; /* the host's name where the URL has no path */
};

extern const char *const stomp_schemes[];
/* False: `error` (TARGET_ERROR_BYTES) says what is wrong and what would be right. */
bool stomp_place_parse(struct slice to, struct stomp_place *out, char *error);

struct stomp_connection;

struct stomp_connection_events {
    void (*up)(void *ctx);
    /* Any but CONNECTED. Valid during the callback. */
    void (*frame)(void *ctx, const struct stomp_frame *frame);
    void (*room)(void *ctx); /* after a write that took too little */
    /* `why` is for people. */
    void (*down)(void *ctx, const char *why);
    void (*gone)(void *ctx); /* after stomp_connection_free; the last */
};

/* NULL: out of memory. `env` outlives it. */
struct stomp_connection *stomp_connection_new(const struct target_env *env,
                                              const struct stomp_place *place,
                                              const struct stomp_connection_events *events,
                                              void *ctx);
/* Down, without an event. `pauses`: the next start waits a moment. */
void stomp_connection_stop(struct stomp_connection *connection, bool pauses);
/* How many bytes were taken; fewer than `len`: `up` or `room` follows. */
size_t stomp_connection_write(struct stomp_connection *connection, const char *at, size_t len);
/* Does somebody wait for something? One that is needed connects where it is down, at once or when the
 * pause after the last failure is over; one that is not needed for half a minute says good-bye. */
void stomp_connection_needed(struct stomp_connection *connection, bool is_needed);
void stomp_connection_free(struct stomp_connection *connection);

#endif
