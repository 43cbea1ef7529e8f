/*
 * amqp_connection: a connection to a RabbitMQ broker, for a thread that may block.
 *
 * The address is one that the guard allowed; with TLS, the certificate must be valid for the name
 * in the URL. The credentials come from the policy file, by default guest/guest.
 *
 * Threads: the owner's thread calls everything except target_amqp_connection_wake and _cut, which
 * any thread may call. Timeouts: connecting 5 s, the handshake 5 s, a call 10 s; a peer that is
 * silent for two heartbeats counts as lost.
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

/* The address of a RabbitMQ broker: amqp://HOST[:PORT][/VHOST][?NAME=VALUE&…], or amqps://… with
 * TLS. User and password are in the policy file. */
struct target_amqp_place {
    struct target_place at;
    char vhost[TARGET_NAME_BYTES]; /* "/" if it is missing or empty in the URL */
};
/* Parses a URL. The part after "?" is returned in *query; if `query` is NULL, the URL must not have
 * one. Returns false with `error` (TARGET_ERROR_BYTES), which names the problem and a valid
 * form. */
bool target_amqp_place_parse(struct slice text, struct target_amqp_place *out, struct slice *query,
                             char *error);

struct target_amqp_connection {
    struct guard *guard;
    const struct target_amqp_place *place;
    const char *version; /* version of tarry; version and purpose outlive the connection */
    const char *purpose; /* shown in RabbitMQ's list of connections */
    amqp_connection_state_t state; /* NULL if not connected */
    uint64_t policy;               /* the guard's generation when it allowed the connection */
    int wake_fd;
    pthread_mutex_t mutex; /* protects fd, the descriptor of the connection, or -1 */
    int fd;
    atomic_bool is_cut;
};

/* Returns 0 or negative errno. */
int target_amqp_connection_init(struct target_amqp_connection *connection, struct guard *guard,
                                const struct target_amqp_place *place, const char *version,
                                const char *purpose);
void target_amqp_connection_fini(struct target_amqp_connection *connection);

/* Connects and logs in. Returns false with `error` (TARGET_ERROR_BYTES). */
bool target_amqp_connection_open(struct target_amqp_connection *connection, char *error);
/* Returns true if the connection is still allowed. Checks only after the policy file was read
 * again. */
bool target_amqp_connection_is_allowed(struct target_amqp_connection *connection, char *error);
/* Closes the connection, either in order (sends a close and waits briefly for the answer) or
 * immediately. */
void target_amqp_connection_close(struct target_amqp_connection *connection, bool in_order);
/* Returns true if librabbitmq could not decode data of the peer. Then nothing more can be read from
 * this connection, although the peer and the network are fine. */
bool target_amqp_connection_is_misread(amqp_rpc_reply_t reply);
/* Closes a connection from which nothing can be read any more. Before this returns, the peer has
 * processed everything that was sent, unless that takes longer than a second. */
void target_amqp_connection_close_unread(struct target_amqp_connection *connection);

/* Waits until data can be read, another thread wakes it, or `wait_ms` have passed (-1: no
 * limit). */
void target_amqp_connection_wait(struct target_amqp_connection *connection, int64_t wait_ms);
/* Waits in the same way, but ignores data that can be read. */
void target_amqp_connection_wait_woken(struct target_amqp_connection *connection, int64_t wait_ms);
/* Reads the next available frame. Returns 1 with *frame; 0 if no frame is available; -1 with
 * `error` if the connection is lost. Sends heartbeats when due. A frame is valid until
 * target_amqp_connection_release. */
int target_amqp_connection_next(struct target_amqp_connection *connection, amqp_frame_t *frame,
                                char *error);
void target_amqp_connection_release(struct target_amqp_connection *connection);
/* Makes the kernel collect written data (true) or send it (false). */
void target_amqp_connection_gather(struct target_amqp_connection *connection, bool on);

/* Answers connection.close and copies its reason to `error`. */
void target_amqp_connection_closed_by_peer(struct target_amqp_connection *connection,
                                           const amqp_connection_close_t *close, char *error);
/* Describes an unsuccessful answer to a call. */
void target_amqp_connection_fault(amqp_rpc_reply_t reply, const char *what, char *error);
/* Describes a connection.close or channel.close: "rabbitmq 404: NOT_FOUND - no exchange 'x'". */
void target_amqp_connection_describe(char *error, unsigned code, amqp_bytes_t text);

/* Ends a wait. Any thread. */
void target_amqp_connection_wake(struct target_amqp_connection *connection);
/* Cuts the connection permanently: blocking calls end soon, and no new connection is opened. Any
 * thread. */
void target_amqp_connection_cut(struct target_amqp_connection *connection);

#endif
