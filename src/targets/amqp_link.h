/*
 * amqp_link: one connection to a RabbitMQ, for a thread that may block.
 *
 * The address connected to is one that the guard allowed; over TLS the certificate must be good for
 * the name in the URL. Credentials come from the policy file; where it names none, guest/guest.
 *
 * Threads: its owner's thread does everything but target_amqp_link_wake and _cut, which any may
 * call. Bounds: connecting 5 s, the handshake 5 s, a call 10 s; a peer that is silent for two
 * heartbeats is gone.
 */
#ifndef TARRY_TARGETS_AMQP_LINK_H
#define TARRY_TARGETS_AMQP_LINK_H

#include "guard/guard.h"
#include "targets/amqp_url.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <pthread.h>
#include <stdatomic.h>

enum { TARGET_AMQP_HEARTBEAT_S = 10, TARGET_AMQP_CHANNELS = 16 };

struct target_amqp_link {
    struct guard *guard;
    const struct target_amqp_url *url;
    const char *version;           /* of tarry; both outlive the link */
    const char *purpose;           /* shown in RabbitMQ's list of connections */
    amqp_connection_state_t state; /* NULL: not connected */
    uint64_t policy;               /* the guard's generation when it allowed the connection */
    int wake_fd;
    pthread_mutex_t mutex; /* over fd: of the connection, -1: none */
    int fd;
    atomic_bool is_cut;
};

/* 0 or negative errno. */
int target_amqp_link_init(struct target_amqp_link *link, struct guard *guard,
                          const struct target_amqp_url *url, const char *version,
                          const char *purpose);
void target_amqp_link_fini(struct target_amqp_link *link);

/* Connects and logs in. False: `error` (TARGET_ERROR_BYTES) says why. */
bool target_amqp_link_open(struct target_amqp_link *link, char *error);
/* Is the connection still allowed? Looks only where the policy file was read again. */
bool target_amqp_link_is_allowed(struct target_amqp_link *link, char *error);
/* In good order (it says so and waits a moment for the answer) or at once. */
void target_amqp_link_close(struct target_amqp_link *link, bool in_order);

/* Sleeps until something may be read, somebody wakes it, or `wait_ms` are over (-1: never). */
void target_amqp_link_wait(struct target_amqp_link *link, int64_t wait_ms);
/* The same, but what may be read does not matter. */
void target_amqp_link_wait_woken(struct target_amqp_link *link, int64_t wait_ms);
/* The next frame that is there. 1: *frame; 0: none for now; -1: the connection is lost, `error`
 * says why. Sends heartbeats when they are due. A frame is valid until target_amqp_link_release. */
int target_amqp_link_next(struct target_amqp_link *link, amqp_frame_t *frame, char *error);
void target_amqp_link_release(struct target_amqp_link *link);
/* From true on the kernel gathers what is written; false sends it. */
void target_amqp_link_gather(struct target_amqp_link *link, bool on);

/* Answers connection.close; what it said, as an error. */
void target_amqp_link_closed_by_peer(struct target_amqp_link *link,
                                     const amqp_connection_close_t *close, char *error);
/* An answer to a call that is no success, in words. */
void target_amqp_link_fault(amqp_rpc_reply_t reply, const char *what, char *error);
/* "rabbitmq 404: NOT_FOUND - no exchange 'x'": of a method connection.close or channel.close. */
void target_amqp_link_say(char *error, unsigned code, amqp_bytes_t text);

/* Any thread. Ends a wait. */
void target_amqp_link_wake(struct target_amqp_link *link);
/* Any thread. For good: what blocks ends soon, and nothing is opened any more. */
void target_amqp_link_cut(struct target_amqp_link *link);

#endif
