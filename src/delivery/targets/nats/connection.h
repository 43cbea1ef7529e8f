/*
 * nats_connection: the protocol NATS of a session: begins TLS, logs in, subscribes to the answers,
 * checks that the server is alive.
 */
#ifndef TARRY_TARGETS_NATS_CONNECTION_H
#define TARRY_TARGETS_NATS_CONNECTION_H

#include "targets/nats/frame.h"
#include "targets/session.h"

/* The servers of a cluster: nats://host[:4222][,host[:4222]], or natss:// with TLS.
 * Returns false with `error` (TARGET_ERROR_BYTES), which names the problem and a valid form. */
bool nats_places_parse(struct slice to, struct target_places *out, char *error);

/* Answers arrive at "_INBOX.", the connection's own 22 digits, a dot, and the number of the
 * message. */
enum { NATS_INBOX_BYTES = 7 + 22 + 1, NATS_REPLY_BYTES = NATS_INBOX_BYTES + 21 };

struct nats_connection;

struct nats_connection_events {
    struct session_events session;
    /* An answer to the message of that number. Valid during the callback. */
    void (*answer)(void *owner, uint64_t number, const struct nats_frame *frame);
    /* The server reported an error and keeps the connection. */
    void (*error)(void *owner, struct slice text);
};

/* Returns NULL when out of memory. `env` outlives the connection, which is freed with its
 * session. */
struct nats_connection *nats_connection_new(const struct target_env *env,
                                            const struct target_places *places,
                                            const struct nats_connection_events *events,
                                            void *owner);
struct session *nats_connection_session(const struct nats_connection *connection);
/* Writes the subject for the answer to a message. It is the same on every connection. */
void nats_connection_reply(const struct nats_connection *connection, uint64_t number,
                           char out[NATS_REPLY_BYTES]);
/* Returns the largest message, headers and body together, while it is up; else 0. */
uint64_t nats_connection_max_payload(const struct nats_connection *connection);

#endif
