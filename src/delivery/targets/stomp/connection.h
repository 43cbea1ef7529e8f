/*
 * stomp_connection: a persistent connection to one broker: resolves its addresses, checks each with
 * the guard, connects, logs in, sends heart-beats, closes when it is no longer needed, and waits
 * before it reconnects after a failure.
 *
 * Used on the reactor's thread. Events never occur inside a call. A connection begins down;
 * stomp_connection_needed leads to one `up` or one `down`. An `up` is followed by one `down`,
 * unless the connection was stopped or closed because it was not needed.
 */
#ifndef TARRY_TARGETS_STOMP_CONNECTION_H
#define TARRY_TARGETS_STOMP_CONNECTION_H

#include "targets/place.h"
#include "targets/stomp/frame.h"
#include "targets/target.h"

/* The address of a broker: stomp://host[:61613][/virtual-host], or
 * stomps://host[:61614][/virtual-host] with TLS. */
struct stomp_place {
    struct target_place at;
    char virtual_host[TARGET_NAME_BYTES]; /* the host's name if the URL has no path */
};

/* Returns false with `error` (TARGET_ERROR_BYTES), which names the problem and a valid form. */
bool stomp_place_parse(struct slice to, struct stomp_place *out, char *error);

struct stomp_connection;

struct stomp_connection_events {
    void (*up)(void *ctx);
    /* Called for all frames except CONNECTED. Valid during the callback. */
    void (*frame)(void *ctx, const struct stomp_frame *frame);
    void (*room)(void *ctx); /* after a write that accepted too little */
    /* `why` is a text for users. */
    void (*down)(void *ctx, const char *why);
    void (*gone)(void *ctx); /* after stomp_connection_free; the last event */
};

/* Returns NULL when out of memory. `env` outlives the connection. */
struct stomp_connection *stomp_connection_new(const struct target_env *env,
                                              const struct stomp_place *place,
                                              const struct stomp_connection_events *events,
                                              void *ctx);
/* Goes down without an event. `pauses`: the next start waits briefly. */
void stomp_connection_stop(struct stomp_connection *connection, bool pauses);
/* Returns the number of accepted bytes; if fewer than `len`, `up` or `room` follows. */
size_t stomp_connection_write(struct stomp_connection *connection, const char *at, size_t len);
/* Sets whether the connection is needed. If needed and down, it connects immediately or after the
 * pause that follows a failure. If not needed for half a minute, it disconnects. */
void stomp_connection_needed(struct stomp_connection *connection, bool is_needed);
void stomp_connection_free(struct stomp_connection *connection);

#endif
