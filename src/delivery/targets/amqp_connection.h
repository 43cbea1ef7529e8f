/*
 * amqp_connection: one connection to a RabbitMQ, for a thread that may block.
 *
 * The address connected to is one that the guard allowed; over TLS the certificate must be good for
 * the name in the URL. Credentials come from the policy file; where it names none, guest/guest.
 *
 * Threads: its owner's thread does everything but target_amqp_connection_wake and _cut, which any may
 * call. Bounds: connecting 5 s, the handshake 5 s, a call 10 s; a peer that is silent for two
 * heartbeats is gone.
 */
#ifndef TARRY_TARGETS_AMQP_CONNECTION_H
#define TARRY_TARGETS_AMQP_CONNECTION_H

#include "targets/place.h"
#include "targets/target.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <pthread.h>
#include <stdatomic.h>

enum { TARGET_AMQP_HEARTBEAT_S = 10 };

/* Where a RabbitMQ is: amqp://HOST[:PORT][/VHOST][?NAME=VALUE&…], amqps://… by TLS. User and
 * password are in the policy file. */
struct target_amqp_place {
    struct target_place at;
    char vhost[TARGET_NAME_BYTES]; /* "/" where the URL has none, or an empty one */
};
extern const char *const target_amqp_schemes[];
/* What follows "?" goes to *query; where that is NULL there may be none. False: `error`
 * (TARGET_ERROR_BYTES) says what is wrong and what would be right. */
bool target_amqp_place_parse(struct slice text, struct target_amqp_place *out, struct slice *query,
                             char *error);

struct target_amqp_connection {
    struct guard *guard;
    const struct target_amqp_place *place;
    const char *version;           /* of tarry; both outlive the connection */
    const char *purpose;           /* shown in RabbitMQ's list of connections */
    amqp_connection_state_t state; /* NULL: not connected */
    uint64_t policy;               /* the guard's generation when it allowed the connection */
    int wake_fd;
    pthread_mutex_t mutex; /* over fd: of the connection, -1: none */
    int fd;
    atomic_bool is_cut;
};

/* 0 or negative errno. */
int target_amqp_connection_init(struct target_amqp_connection *connection, struct guard *guard,
                                const struct target_amqp_place *place, const char *version,
                                const char *purpose);
void target_amqp_connection_fini(struct target_amqp_connection *connection);

/* Connects and logs in. False: `error` (TARGET_ERROR_BYTES) says why. */
bool target_amqp_connection_open(struct target_amqp_connection *connection, char *error);
/* Is the connection still allowed? Looks only where the policy file was read again. */
bool target_amqp_connection_is_allowed(struct target_amqp_connection *connection, char *error);
/* In good order (it says so and waits a moment for the answer) or at once. */
void target_amqp_connection_close(struct target_amqp_connection *connection, bool in_order);
/* Whether librabbitmq failed to decode what the peer sent: it can read nothing further from this
 * connection, and the peer and the way to it are well. */
bool target_amqp_connection_is_misread(amqp_rpc_reply_t reply);
/* Closes a connection that nothing can be read from any more. What was sent is carried out by the
 * peer before this returns, unless it takes longer than a second. */
void target_amqp_connection_close_unread(struct target_amqp_connection *connection);

/* Sleeps until something may be read, somebody wakes it, or `wait_ms` are over (-1: never). */
void target_amqp_connection_wait(struct target_amqp_connection *connection, int64_t wait_ms);
/* The same, but what may be read does not matter. */
void target_amqp_connection_wait_woken(struct target_amqp_connection *connection, int64_t wait_ms);
/* The next frame that is there. 1: *frame; 0: none for now; -1: the connection is lost, `error`
 * says why. Sends heartbeats when they are due. A frame is valid until amqp_connection_release. */
int target_amqp_connection_next(struct target_amqp_connection *connection, amqp_frame_t *frame,
                                char *error);
void target_amqp_connection_release(struct target_amqp_connection *connection);
/* From true on the kernel gathers what is written; false sends it. */
void target_amqp_connection_gather(struct target_amqp_connection *connection, bool on);

/* Answers connection.close; what it said, as an error. */
void target_amqp_connection_closed_by_peer(struct target_amqp_connection *connection,
                                           const amqp_connection_close_t *close, char *error);
/* An answer to a call that is no success, in words. */
void target_amqp_connection_fault(amqp_rpc_reply_t reply, const char *what, char *error);
/* "rabbitmq 404: NOT_FOUND - no exchange 'x'": of a method connection.close or channel.close. */
void target_amqp_connection_say(char *error, unsigned code, amqp_bytes_t text);

/* Any thread. Ends a wait. */
void target_amqp_connection_wake(struct target_amqp_connection *connection);
/* Any thread. For good: what blocks ends soon, and nothing is opened any more. */
void target_amqp_connection_cut(struct target_amqp_connection *connection);

#endif
