/*
 * nats_connection: a persistent connection to one server of a NATS cluster: connects, begins TLS,
 * logs in, subscribes to the answers, checks that the server is alive, and closes when it is no
 * longer needed. After a failure it continues with the next server of the list.
 *
 * Used on the reactor's thread. Events never occur inside a call. A connection begins down;
 * nats_connection_needed leads to one `up` or one `down`. An `up` is followed by one `down`, unless
 * the connection was stopped or closed because it was not needed.
 */
#ifndef TARRY_TARGETS_NATS_CONNECTION_H
#define TARRY_TARGETS_NATS_CONNECTION_H

#include "targets/nats/frame.h"
#include "targets/place.h"
#include "targets/target.h"

/* The servers of a cluster: nats://host[:4222][,host[:4222]], or natss:// with TLS.
 * Returns false with `error` (TARGET_ERROR_BYTES), which names the problem and a valid form. */
bool nats_places_parse(struct slice to, struct target_places *out, char *error);

/* Answers arrive at "_INBOX.", the connection's own 22 digits, a dot, and the number of the
 * message. */
enum { NATS_INBOX_BYTES = 7 + 22 + 1, NATS_REPLY_BYTES = NATS_INBOX_BYTES + 21 };

struct nats_connection;

struct nats_connection_events {
    void (*up)(void *ctx);
    /* An answer to the message of that number. Valid during the callback. */
    void (*answer)(void *ctx, uint64_t number, const struct nats_frame *frame);
    /* The server reported an error and keeps the connection. */
    void (*error)(void *ctx, struct slice text);
    void (*room)(void *ctx);                  /* after a write that accepted too little */
    void (*down)(void *ctx, const char *why); /* a text for users */
    void (*gone)(void *ctx);                  /* after nats_connection_free; the last event */
};

/* Returns NULL when out of memory. `env` outlives the connection. */
struct nats_connection *nats_connection_new(const struct target_env *env,
                                            const struct target_places *places,
                                            const struct nats_connection_events *events, void *ctx);
/* Writes the subject for the answer to a message. It is the same on every connection. */
void nats_connection_reply(const struct nats_connection *connection, uint64_t number,
                           char out[NATS_REPLY_BYTES]);
/* Returns the largest message, headers and body together, while it is up; else 0. */
uint64_t nats_connection_max_payload(const struct nats_connection *connection);
/* Goes down without an event. `pauses`: the next start waits briefly. */
void nats_connection_stop(struct nats_connection *connection, bool pauses);
/* Returns the number of accepted bytes; if fewer than `len`, `up` or `room` follows. */
size_t nats_connection_write(struct nats_connection *connection, const char *at, size_t len);
/* Sets whether the connection is needed. If needed and down, it connects immediately or after the
 * pause that follows a failure. If not needed for half a minute, it disconnects. */
void nats_connection_needed(struct nats_connection *connection, bool is_needed);
void nats_connection_free(struct nats_connection *connection);

#endif
